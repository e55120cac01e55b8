/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * test_nofault.c - buffers that are unmapped or not permitted, and mapped files that are truncated while data
 * is received into them or sent from them. Each is an error of its operation, never a signal, and affects
 * nothing else.
 */
#include "check/support/processes.h"
#include "check/support/support.h"

#include <fcntl.h>
#include <sys/mman.h>
#include "core/base/nofault.h"

#define PAGE ((size_t)sysconf(_SC_PAGESIZE))

static char *map_pages(size_t length, int protection)
{
    char *map = mmap(NULL, length, protection, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    ck_assert_ptr_ne(map, MAP_FAILED);
    return map;
}

/* An address below which the kernel maps nothing (vm.mmap_min_addr). */
#define NOWHERE ((char *)(uintptr_t)(8 * PAGE))

/* Returns a buffer of up to a page that cannot be used: 0: unmapped, 1: not permitted, 2: its second half not
 * permitted. */
static char *bad_buffer(int how, size_t length)
{
    if (how == 0)
        return NOWHERE - length;
    char *map = map_pages(2 * PAGE, PROT_READ | PROT_WRITE);

    must(mprotect(how == 1 ? map : map + PAGE, PAGE, PROT_NONE));
    return map + PAGE - (how == 2 ? length / 2 : length);
}

struct mapped { /* a file that is completely mapped and registered */
    int fd;
    char *bytes;
    size_t length;
    exs_mhandle_t region;
};

static struct mapped map_file(size_t length)
{
    struct mapped file = {.fd = memfd_create("mapped", MFD_CLOEXEC), .length = length};

    must(file.fd);
    must(ftruncate(file.fd, (off_t)length));
    file.bytes = mmap(NULL, length, PROT_READ | PROT_WRITE, MAP_SHARED, file.fd, 0);
    ck_assert_ptr_ne(file.bytes, MAP_FAILED);
    memset(file.bytes, CANARY, length);
    file.region = exs_mregister(file.bytes, length, 0);
    ck_assert_ptr_ne(file.region, EXS_MHANDLE_INVALID);
    return file;
}

static void unmap_file(struct mapped *file)
{
    must(exs_mderegister(file->region, 0));
    munmap(file->bytes, file->length);
    close(file->fd);
}

static const int types[] = {SOCK_STREAM, SOCK_SEQPACKET};

/* ---- Unusable memory ------------------------------------------------------------------------------------- */

/* Each send fails immediately, and nothing of it is sent. */
START_TEST(send_from_nowhere)
{
    struct pair pair;

    pair_open(&pair, AF_INET, types[_i % 2]);
    for (size_t length = 20; length <= PAGE; length += PAGE - 20) {
        char *bad = bad_buffer(_i / 2, length);

        for (int i = 0; i < 1000; i++)
            must_fail(exs_send(pair.client, bad, length, 0, pair.client_box->queue, NULL, NULL), EACCES);
        must_fail(exs_write(pair.client, bad, length), EACCES);
    }
    pass_bytes(pair.client_box, pair.client, pair.server_box, pair.server, 100, 5);
    pair_close(&pair);
}
END_TEST

/* The bytes of a stream stay in the library for the next receive. */
START_TEST(receive_nowhere)
{
    static const size_t lengths[] = {20, 4096, 100000};
    size_t length = lengths[_i / 3];
    char *out = new_buffer(length), *in = new_buffer(length), *bad;
    struct pair pair;

    pair_open(&pair, AF_INET, SOCK_STREAM);
    bad = length > PAGE ? bad_buffer(_i % 3, PAGE) : bad_buffer(_i % 3, length);
    pattern_fill(out, length, 3, 0);
    for (int early = 0; early < 2; early++) {
        if (early)
            must(exs_recv(pair.server, bad, length, MSG_WAITALL, pair.server_box->queue, NULL, NULL));
        must(exs_send(pair.client, out, length, 0, pair.client_box->queue, NULL, NULL));
        if (!early) {
            take_good(pair.client_box, EXS_EVT_SEND, pair.client);
            must(exs_recv(pair.server, bad, length, MSG_WAITALL, pair.server_box->queue, NULL, NULL));
        }
        take_failed(pair.server_box, EXS_EVT_RECV, pair.server, EFAULT);
        must(exs_recv(pair.server, in, length, MSG_WAITALL, pair.server_box->queue, NULL, NULL));
        take_good(pair.server_box, EXS_EVT_RECV, pair.server);
        pattern_check(in, length, 3, 0);
        if (early)
            take_good(pair.client_box, EXS_EVT_SEND, pair.client);
    }
    pair_close(&pair);
    free(out);
    free(in);
}
END_TEST

/* A message cannot stay for another receive: the connection breaks. */
START_TEST(receive_message_nowhere)
{
    char *out = new_buffer(100), *bad = bad_buffer(_i, 100);
    struct pair pair;

    pair_open(&pair, AF_INET, SOCK_SEQPACKET);
    must(exs_recv(pair.server, bad, 100, 0, pair.server_box->queue, NULL, NULL));
    must(exs_send(pair.client, out, 100, 0, pair.client_box->queue, NULL, NULL));
    exs_event_t event = take_failed(pair.server_box, EXS_EVT_RECV, pair.server, EACCES);
    ck_assert_uint_eq(event.exs_evt_union.exs_evt_xfer.exs_evt_length, 0);
    inbox_take(pair.client_box, EXS_EVT_SEND, pair.client);
    must_fail(exs_read(pair.client, out, 100), ECONNRESET);
    pair_close(&pair);
    free(out);
}
END_TEST

/* The other pending receive, and later calls, fail because the connection is broken, and not because of their
 * memory. A short receive fails when the message is copied into it, a long one when it is registered. */
START_TEST(others_beside_a_message_nowhere)
{
    bool is_long = _i == 1;
    size_t length = is_long ? 3 * PAGE : 100;
    char *bad = map_pages(3 * PAGE, PROT_READ), *good = new_buffer(length), *out = new_buffer(length);
    char *into[] = {is_long ? good : bad, is_long ? bad : good};
    int error = 0;
    socklen_t size = sizeof error;
    struct pair pair;

    pair_open(&pair, AF_INET, SOCK_SEQPACKET);
    for (int i = 0; i < 2; i++)
        must(exs_recv(pair.server, into[i], length, 0, pair.server_box->queue, into[i], NULL));
    if (!is_long)
        must(exs_send(pair.client, out, length, 0, pair.client_box->queue, NULL, NULL));
    for (int i = 0; i < 2; i++) {
        exs_event_t event =
            take_failed(pair.server_box, EXS_EVT_RECV, pair.server, into[i] == bad ? EACCES : ECONNRESET);
        ck_assert_ptr_eq(event.exs_evt_ahandle, into[i]);
    }
    if (!is_long)
        inbox_take(pair.client_box, EXS_EVT_SEND, pair.client);
    must_fail(exs_send(pair.server, out, 1, 0, pair.server_box->queue, NULL, NULL), ECONNRESET);
    must_fail(exs_recv(pair.server, good, 1, 0, pair.server_box->queue, NULL, NULL), ECONNRESET);
    must(exs_getsockopt(pair.server, SOL_SOCKET, SO_ERROR, &error, &size));
    ck_assert_int_eq(error, ECONNRESET);
    pair_close(&pair);
    munmap(bad, 3 * PAGE);
    free(good);
    free(out);
}
END_TEST

/* exs_rread() into an unusable buffer fails, and the connection continues. */
START_TEST(read_nowhere)
{
    char *there = new_buffer(100), *bad = bad_buffer(_i, 100);
    exs_mhandle_t region = exs_mregister(there, 100, 0);
    exs_token_t token;
    struct pair pair;

    pair_open(&pair, AF_INET, SOCK_STREAM);
    must(exs_mexport(pair.server, region, there, 100, EXS_REMOTE_READ, &token));
    must(exs_rread(pair.client, bad, 100, &token, 0, 0, pair.client_box->queue, NULL, NULL));
    take_failed(pair.client_box, EXS_EVT_RREAD, pair.client, EFAULT);
    must_fail(exs_rread(pair.client, bad, 100, &token, 0, EXS_BLOCK, NULL, NULL, NULL), EFAULT);
    pass_bytes(pair.client_box, pair.client, pair.server_box, pair.server, 100, 5);
    pair_close(&pair);
    must(exs_mderegister(region, 0));
    free(there);
}
END_TEST

/* A region with an unmapped page in the middle, which is seen at neither end of it. */
START_TEST(register_a_hole)
{
    char *map = map_pages(3 * PAGE, PROT_READ | PROT_WRITE);

    munmap(map + PAGE, PAGE);
    must_fail(exs_mregister(map + 5, 3 * PAGE - 5, 0), EACCES);
    munmap(map, PAGE);
    munmap(map + 2 * PAGE, PAGE);
}
END_TEST

/* ---- Truncated files ------------------------------------------------------------------------------------- */

/* The peer writes directly into a mapped file that is truncated. A hardware device has pinned the pages, so
 * there the transfer succeeds. */
START_TEST(cut_while_received_into)
{
    size_t length = MIB;
    char *out = new_buffer(length);
    struct mapped file = map_file(length);
    struct pair pair;

    pair_open(&pair, AF_INET, types[_i]);
    must(exs_recv(pair.server, file.bytes, length, MSG_WAITALL * !_i, pair.server_box->queue, NULL,
                  file.region));
    pass_bytes(pair.server_box, pair.server, pair.client_box, pair.client, 10, 5); /* now it is advertised */
    must(ftruncate(file.fd, (off_t)PAGE));
    must(exs_send(pair.client, out, length, 0, pair.client_box->queue, NULL, NULL));
    if (on_rdma()) {
        take_good(pair.server_box, EXS_EVT_RECV, pair.server);
        take_good(pair.client_box, EXS_EVT_SEND, pair.client);
    } else {
        take_failed(pair.server_box, EXS_EVT_RECV, pair.server, EFAULT);
        take_failed(pair.client_box, EXS_EVT_SEND, pair.client, ECONNRESET);
    }
    pair_close(&pair);
    unmap_file(&file);
    free(out);
}
END_TEST

/* The library copies received bytes into a mapped file that was truncated. */
START_TEST(cut_before_copied_into)
{
    char out[100], in[100];
    struct mapped file = map_file(2 * PAGE);
    struct pair pair;

    pattern_fill(out, 100, 3, 0);
    pair_open(&pair, AF_INET, SOCK_STREAM);
    must(exs_recv(pair.server, file.bytes + PAGE, 100, 0, pair.server_box->queue, NULL,
                  _i ? file.region : EXS_MHANDLE_UNREGISTERED));
    must(ftruncate(file.fd, (off_t)PAGE));
    must(exs_send(pair.client, out, 100, 0, pair.client_box->queue, NULL, NULL));
    take_good(pair.client_box, EXS_EVT_SEND, pair.client);
    take_failed(pair.server_box, EXS_EVT_RECV, pair.server, EFAULT);
    must(exs_recv(pair.server, in, 100, 0, pair.server_box->queue, NULL, NULL));
    take_good(pair.server_box, EXS_EVT_RECV, pair.server);
    pattern_check(in, 100, 3, 0);
    pair_close(&pair);
    unmap_file(&file);
}
END_TEST

/* Few bytes, which the library would copy into the work request (inline). */
START_TEST(cut_before_sent_from)
{
    struct mapped file = map_file(2 * PAGE);
    exs_token_t token;
    char *there = new_buffer(100), in[20];
    exs_mhandle_t region = exs_mregister(there, 100, 0);
    struct pair pair;
    bool onesided = _i == 2;
    int type = onesided ? EXS_EVT_RWRITE : EXS_EVT_SEND;

    pair_open(&pair, AF_INET, types[_i % 2]);
    must(exs_mexport(pair.server, region, there, 100, EXS_REMOTE_WRITE, &token));
    must(exs_rwrite(pair.client, file.bytes, 20, &token, 0, EXS_BLOCK, NULL, NULL, file.region));
    if (!onesided)
        must(exs_recv(pair.server, in, 20, 0, pair.server_box->queue, NULL, NULL));
    must(ftruncate(file.fd, (off_t)PAGE));
    if (onesided)
        must(exs_rwrite(pair.client, file.bytes + PAGE, 20, &token, 0, 0, pair.client_box->queue, NULL,
                        file.region));
    else
        must(exs_send(pair.client, file.bytes + PAGE, 20, 0, pair.client_box->queue, NULL, file.region));
    if (on_rdma())
        take_good(pair.client_box, type, pair.client);
    else
        take_failed(pair.client_box, type, pair.client, EFAULT);
    if (!onesided)
        inbox_take(pair.server_box, EXS_EVT_RECV, pair.server);
    pair_close(&pair);
    must(exs_mderegister(region, 0));
    unmap_file(&file);
    free(there);
}
END_TEST

/* ---- The process that copies ----------------------------------------------------------------------------- */

/* In a forked child, nofault_copy() reads the child's memory, not that of the parent. */
START_TEST(copied_in_a_forked_child)
{
    char *memory = map_pages(PAGE, PROT_READ | PROT_WRITE), copy[10];

    memset(memory, 1, PAGE);
    ck_assert(nofault_copy(copy, memory, sizeof copy));
    pid_t child = fork();

    must(child);
    if (child == 0) {
        memset(memory, 2, PAGE);
        _exit(nofault_copy(copy, memory, sizeof copy) && copy[0] == 2 ? 0 : 1);
    }
    process_join(child);
    ck_assert_int_eq(copy[0], 1);
    munmap(memory, PAGE);
}
END_TEST

/* ---- Reading files --------------------------------------------------------------------------------------- */

#define READ_BYTES ((size_t)20000)

/* /proc/self/maps returns fewer bytes than requested: nofault_read() reads all parts. Reading beyond the end of
 * the file fails. */
START_TEST(read_in_parts)
{
    static char whole[1 << 20], in[READ_BYTES + 1];
    char *pages = map_pages(1000 * PAGE, PROT_READ);

    for (size_t i = 0; i < 1000; i += 2) /* makes each page a separate mapping */
        must(mprotect(pages + i * PAGE, PAGE, PROT_NONE));
    int file = open("/proc/self/maps", O_RDONLY | O_CLOEXEC);
    size_t length = 0;
    ssize_t part = 0, most = 0;

    must(file);
    while ((part = pread(file, whole + length, sizeof whole - length, (off_t)length)) > 0) {
        length += (size_t)part;
        most = part > most ? part : most;
    }
    ck_assert_uint_gt(length, 2 * READ_BYTES);
    ck_assert_int_lt(most, READ_BYTES / 2);
    memset(in, CANARY, sizeof in);
    struct iovec to[] = {{in, 5}, {in + 5, 5000}, {in + 5005, READ_BYTES - 5005}};

    ck_assert(nofault_read(file, to, 3, 7, READ_BYTES));
    ck_assert_mem_eq(in, whole + 7, READ_BYTES);
    ck_assert_int_eq((uint8_t)in[READ_BYTES], CANARY);
    struct iovec end = {in, 10}, behind = {in, 11};

    ck_assert(nofault_read(file, &end, 1, length - 10, 10));
    ck_assert_mem_eq(in, whole + length - 10, 10);
    errno = 77;
    ck_assert(!nofault_read(file, &behind, 1, length - 10, 11));
    ck_assert_int_eq(errno, 77);
    close(file);
    munmap(pages, 1000 * PAGE);
}
END_TEST

/* ---- Memory that cannot disappear ------------------------------------------------------------------------ */

static char variable[100], initialized[100] = "initialized";

/* Each kind of memory, and whether it may be copied without a system call. A wrong "true" would be a signal, a
 * wrong "false" costs a system call. */
START_TEST(what_never_vanishes)
{
    char *local =
        memset(__builtin_alloca(100), 0, 100); /* the address sanitizer moves arrays to its own heap */
    char *heap = malloc(100), *mapped = map_pages(PAGE, PROT_READ | PROT_WRITE);
    static const char constant[] = "constant";

    ck_assert(nofault_never(local, 100, true));
    ck_assert(nofault_never(variable, sizeof(variable), true));
    ck_assert(nofault_never(initialized, sizeof(initialized), true));
    ck_assert(nofault_never(constant, sizeof(constant), false));
    ck_assert(!nofault_never(constant, sizeof(constant), true));
    if (heap < (char *)sbrk(0)) /* false in sanitizers and valgrind */
        ck_assert(nofault_never(heap, 100, true));
    ck_assert(!nofault_never(sbrk(0), 1, false));
    ck_assert(!nofault_never((char *)sbrk(0) - 1, 2, false));
    ck_assert(!nofault_never(mapped, 1, false));
    ck_assert(!nofault_never(NULL, 1, false));
    ck_assert(!nofault_never((void *)-1, 1, false));
    ck_assert(!nofault_never(local, SIZE_MAX, false));
    munmap(mapped, PAGE);
    free(heap);
}
END_TEST

static void *own_stack(void *callers)
{
    char *local = memset(__builtin_alloca(100), 0, 100);

    ck_assert(nofault_never(local, 100, true));
    ck_assert(!nofault_never(callers, 100, true));
    return NULL;
}

/* Another thread's stack may be unmapped at any time. */
START_TEST(a_threads_stack)
{
    char *local = memset(__builtin_alloca(100), 0, 100);

    ck_assert(nofault_never(local, 100, true));
    thread_join(thread_start(own_stack, local));
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("memory that may vanish");
    TCase *nowhere = add_case(suite, "nowhere", 10), *cut = add_case(suite, "cut", 10);
    TCase *never = add_bare_case(suite, "never", 10);

    tcase_add_loop_test(nowhere, send_from_nowhere, 0, 6);
    tcase_add_loop_test(nowhere, receive_nowhere, 0, 9);
    tcase_add_loop_test(nowhere, receive_message_nowhere, 0, 3);
    tcase_add_loop_test(nowhere, others_beside_a_message_nowhere, 0, 2);
    tcase_add_loop_test(nowhere, read_nowhere, 0, 3);
    tcase_add_test(nowhere, register_a_hole);
    tcase_add_loop_test(cut, cut_while_received_into, 0, 2);
    tcase_add_loop_test(cut, cut_before_copied_into, 0, 2);
    tcase_add_loop_test(cut, cut_before_sent_from, 0, 3);
    tcase_add_test(never, copied_in_a_forked_child);
    tcase_add_test(never, read_in_parts);
    tcase_add_test(never, what_never_vanishes);
    tcase_add_test(never, a_threads_stack);
    return run_suite(suite);
}
