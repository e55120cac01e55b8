/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * test_hole.c - memory whose first and last pages are valid and a page in the middle is not: unreadable, read-only,
 * unmapped, or beyond the end of a file. The call is refused or the transfer fails, without a signal. Also: what access
 * a peer has to a region.
 */
#include "inside.h"

#include <dlfcn.h>
#include <stdarg.h>
#include <sys/mman.h>
#include "core/base/maps.h"
#include "soft/engine/mr.h"

enum { NO_ACCESS, READ_ONLY, UNMAPPED, CUT, HOLES };
enum { PAGES = 8, LENGTH = PAGES * 4096 };

/* ---- A kernel without PROCMAP_QUERY --------------------------------------------------------- */

static bool is_old; /* the ioctl PROCMAP_QUERY fails */
static int queries;

__attribute__((visibility("default"))) int ioctl(int fd, unsigned long request, ...)
{
    int (*own)(int, unsigned long, void *);
    va_list arguments;

    va_start(arguments, request);
    void *argument = va_arg(arguments, void *);

    va_end(arguments);
    *(void **)&own = dlsym(RTLD_NEXT, "ioctl");
    if ((request >> 8 & 0xff) != 'f' || (request & 0xff) != 17)
        return own(fd, request, argument);
    queries++;
    if (!is_old)
        return own(fd, request, argument);
    errno = ENOTTY;
    return -1;
}

/* ---- Memory with a hole ---------------------------------------------------------------------- */

struct holed {
    char *bytes;
    int file; /* mapped at the third to the sixth page */
};

static struct holed holed_make(void)
{
    struct holed h = {.bytes = mmap(NULL, LENGTH, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0),
                      .file = memfd_create("hole", MFD_CLOEXEC)};

    ck_assert_ptr_ne(h.bytes, MAP_FAILED);
    must(h.file);
    must(ftruncate(h.file, 4 * 4096));
    ck_assert_ptr_ne(
        mmap(h.bytes + 2 * 4096, 4 * 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, h.file, 0),
        MAP_FAILED);
    pattern_fill(h.bytes, LENGTH, 3, 0);
    return h;
}

static void holed_spoil(struct holed *h, int hole)
{
    if (hole == NO_ACCESS || hole == READ_ONLY)
        must(mprotect(h->bytes + 4 * 4096, 4096, hole == READ_ONLY ? PROT_READ : PROT_NONE));
    else if (hole == UNMAPPED)
        must(munmap(h->bytes + 4 * 4096, 4096));
    else
        must(ftruncate(h->file, 4096));
}

static void holed_free(struct holed *h)
{
    must(munmap(h->bytes, LENGTH));
    must(close(h->file));
}

/* ---- Registration ----------------------------------------------------------------------------- */

START_TEST(refused)
{
    struct holed h = holed_make();
    exs_mhandle_t region;
    bool nofault;

    is_old = _i / HOLES;
    ck_assert_int_eq(maps_check(h.bytes, LENGTH, true, &nofault), 0);
    ck_assert(nofault);
    ck_assert_int_eq(maps_check(h.bytes, 2 * 4096, true, &nofault), 0);
    ck_assert(!nofault || getenv("EXS_CHECK"));
    ck_assert_int_gt(queries, 0);
    region = exs_mregister(h.bytes + 5, LENGTH - 10, 0);
    ck_assert_ptr_ne(region, EXS_MHANDLE_INVALID);
    must(exs_mderegister(region, 0));
    holed_spoil(&h, _i % HOLES);
    must_fail(exs_mregister(h.bytes + 5, LENGTH - 10, 0), EACCES);
    region = exs_mregister(h.bytes + 5, LENGTH - 10, EXS_MRF_RECV_DISABLE);
    ck_assert_int_eq(region != EXS_MHANDLE_INVALID, _i % HOLES == READ_ONLY);
    if (region != EXS_MHANDLE_INVALID)
        must(exs_mderegister(region, 0));
    ck_assert_int_eq(maps_check(h.bytes, 2 * 4096, true, NULL), 0);
    ck_assert_int_eq(maps_check(h.bytes + 6 * 4096, 2 * 4096, true, NULL), 0);
    ck_assert_int_eq(maps_check(h.bytes + 4096, 1 + 3 * 4096, true, NULL), EFAULT);
    ck_assert_int_eq(maps_check((void *)UINTPTR_MAX, 1, false, NULL), EFAULT);
    holed_free(&h);
}
END_TEST

/* ---- Memory that is not registered ------------------------------------------------------------- */

/* The send is refused, whether it would be copied or registered. The connection still works. */
START_TEST(sent)
{
    struct holed h = holed_make();
    struct pair pair;
    int hole = _i % HOLES;

    is_old = _i / HOLES % 2;
    size_t length = _i / HOLES / 2 ? LENGTH : 3 * 4096;
    char *from = h.bytes + (LENGTH - length) / 2, *in = new_buffer(length);

    pair_open(&pair, AF_INET, SOCK_STREAM);
    holed_spoil(&h, hole);
    if (hole == READ_ONLY) {
        must(exs_send(pair.client, from, length, 0, pair.client_box->queue, NULL, NULL));
        must(exs_recv(pair.server, in, length, MSG_WAITALL, pair.server_box->queue, NULL, NULL));
        take_good(pair.client_box, EXS_EVT_SEND, pair.client);
        take_good(pair.server_box, EXS_EVT_RECV, pair.server);
        pattern_check(in, length, 3, (LENGTH - length) / 2);
    } else {
        must_fail(exs_send(pair.client, from, length, 0, pair.client_box->queue, NULL, NULL), EACCES);
    }
    pass_bytes(pair.client_box, pair.client, pair.server_box, pair.server, 100, 5);
    pair_close(&pair);
    free(in);
    holed_free(&h);
}
END_TEST

/* The receive fails, whether it starts before or after the bytes arrive, and the next receive gets the bytes. */
START_TEST(received)
{
    struct holed h = holed_make();
    char *out = new_buffer(LENGTH), *in = new_buffer(LENGTH);
    struct pair pair;

    is_old = _i / HOLES;
    pair_open(&pair, AF_INET, SOCK_STREAM);
    pattern_fill(out, LENGTH, 4, 0);
    holed_spoil(&h, _i % HOLES);
    for (int early = 0; early < 2; early++) {
        if (early)
            must(exs_recv(pair.server, h.bytes, LENGTH, MSG_WAITALL, pair.server_box->queue, NULL, NULL));
        must(exs_send(pair.client, out, LENGTH, 0, pair.client_box->queue, NULL, NULL));
        if (!early) {
            take_good(pair.client_box, EXS_EVT_SEND, pair.client);
            must(exs_recv(pair.server, h.bytes, LENGTH, MSG_WAITALL, pair.server_box->queue, NULL, NULL));
        }
        size_t got = take_failed(pair.server_box, EXS_EVT_RECV, pair.server, EFAULT)
                         .exs_evt_union.exs_evt_xfer.exs_evt_length;

        must(exs_recv(pair.server, in, LENGTH - got, MSG_WAITALL, pair.server_box->queue, NULL, NULL));
        take_good(pair.server_box, EXS_EVT_RECV, pair.server);
        pattern_check(in, LENGTH - got, 4, got);
        if (early)
            take_good(pair.client_box, EXS_EVT_SEND, pair.client);
    }
    pair_close(&pair);
    free(out);
    free(in);
    holed_free(&h);
}
END_TEST

/* ---- Memory that was valid when it was registered --------------------------------------------- */

/* Then the file is truncated, before the peer or the device accesses the memory. A real device has pinned the pages. */
START_TEST(cut_later)
{
    struct holed h = holed_make();
    char *other = new_buffer(LENGTH);
    exs_mhandle_t region = exs_mregister(h.bytes, LENGTH, 0);
    bool sends = _i % 2, is_used = _i / 2;
    struct pair pair;

    if (on_rdma())
        return;
    ck_assert_ptr_ne(region, EXS_MHANDLE_INVALID);
    pair_open(&pair, AF_INET, SOCK_STREAM);
    if (is_used && !sends) { /* the peer has the advertisement, and writes to the memory itself */
        must(exs_recv(pair.server, h.bytes, LENGTH, MSG_WAITALL, pair.server_box->queue, NULL, region));
        pass_bytes(pair.server_box, pair.server, pair.client_box, pair.client, 10, 5);
    } else if (is_used) {
        must(exs_recv(pair.client, other, 100, MSG_WAITALL, pair.client_box->queue, NULL, NULL));
        must(exs_send(pair.server, h.bytes, 100, 0, pair.server_box->queue, NULL, region));
        take_good(pair.server_box, EXS_EVT_SEND, pair.server);
        take_good(pair.client_box, EXS_EVT_RECV, pair.client);
    }
    holed_spoil(&h, CUT);
    int rc;

    if (sends) {
        must(exs_recv(pair.client, other, LENGTH, MSG_WAITALL, pair.client_box->queue, NULL, NULL));
        rc = exs_send(pair.server, h.bytes, LENGTH, 0, pair.server_box->queue, NULL, region);
        ck_assert(rc == 0 || errno == EACCES || errno == EFAULT);
    } else {
        rc = is_used ? 0 : exs_recv(pair.server, h.bytes, LENGTH, 0, pair.server_box->queue, NULL, region);
        must(exs_send(pair.client, other, LENGTH, 0, pair.client_box->queue, NULL, NULL));
    }
    if (rc == 0) {
        int type = sends ? EXS_EVT_SEND : EXS_EVT_RECV;
        int error = inbox_take(pair.server_box, type, pair.server).exs_evt_errno;

        ck_assert_msg(error == EFAULT || error == EACCES, "errno is %s", strerror(error));
    }
    must(exs_close(pair.server, 0, pair.server_box->queue, NULL));
    inbox_take(pair.server_box, EXS_EVT_CLOSE, pair.server);
    inbox_take(pair.client_box, sends ? EXS_EVT_RECV : EXS_EVT_SEND, pair.client);
    close_socket(pair.client_box, pair.client);
    pair_close_rest(&pair);
    must(exs_mderegister(region, 0));
    free(other);
    holed_free(&h);
}
END_TEST

/* ---- Access rights of the peer ----------------------------------------------------------------- */

static int access_of(int socket, enum memory_use use)
{
    const struct ibv_mr *mr = conn_of(socket)->domain.last[use].mr;

    return mr != NULL ? ((const struct soft_mr *)mr)->access : -1;
}

/* The peer gets no write access to a region until the region is used for a receive. */
START_TEST(only_sent_from)
{
    char *bytes = new_buffer(MIB), *out = new_buffer(MIB), in[100];
    exs_mhandle_t region = exs_mregister(bytes, MIB, 0);
    struct pair pair;

    if (on_rdma())
        return;
    pair_open(&pair, AF_INET, SOCK_STREAM);
    for (int round = 0; round < 2; round++) {
        must(exs_send(pair.client, bytes, 100, 0, pair.client_box->queue, NULL, region));
        must(exs_recv(pair.server, in, 100, MSG_WAITALL, pair.server_box->queue, NULL, NULL));
        take_good(pair.client_box, EXS_EVT_SEND, pair.client);
        take_good(pair.server_box, EXS_EVT_RECV, pair.server);
        ck_assert_int_eq(access_of(pair.client, MEMORY_LOCAL), IBV_ACCESS_LOCAL_WRITE);
        ck_assert_int_eq(access_of(pair.client, MEMORY_TO_RECEIVE),
                         round == 0 ? -1 : IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
        must(exs_recv(pair.client, bytes, MIB, MSG_WAITALL, pair.client_box->queue, NULL, region));
        pass_bytes(pair.client_box, pair.client, pair.server_box, pair.server, 100, 5);
        must(exs_send(pair.server, out, MIB, 0, pair.server_box->queue, NULL, NULL));
        take_good(pair.server_box, EXS_EVT_SEND, pair.server);
        take_good(pair.client_box, EXS_EVT_RECV, pair.client);
    }
    pair_close(&pair);
    must(exs_mderegister(region, 0));
    free(bytes);
    free(out);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("memory with a hole");
    TCase *holes = add_case(suite, "holes", 10), *rights = add_case(suite, "rights", 10);

    tcase_add_loop_test(holes, refused, 0, 2 * HOLES);
    tcase_add_loop_test(holes, sent, 0, 4 * HOLES);
    tcase_add_loop_test(holes, received, 0, 2 * HOLES);
    tcase_add_loop_test(holes, cut_later, 0, 4);
    tcase_add_test(rights, only_sent_from);
    return run_suite(suite);
}
