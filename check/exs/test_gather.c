/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * test_gather.c - exs_sendmsg of the maximum number of short segments takes few messages and few system calls, and
 * delivers all bytes in order, whichever segments are registered.
 */
#include "inside.h"

#include <dlfcn.h>
#include <sys/mman.h>
#include <sys/uio.h>

static int copies; /* calls of process_vm_readv(2) by the library */

__attribute__((visibility("default"))) ssize_t process_vm_readv(pid_t pid, const struct iovec *to,
                                                                unsigned long tos, const struct iovec *from,
                                                                unsigned long froms, unsigned long flags)
{
    ssize_t (*own)(pid_t, const struct iovec *, unsigned long, const struct iovec *, unsigned long,
                   unsigned long);

    *(void **)&own = dlsym(RTLD_NEXT, "process_vm_readv");
    copies++;
    return own(pid, to, tos, from, froms, flags);
}

enum { UNREGISTERED, REGISTERED, ALTERNATING, LONG_ONES, OF_A_FILE, KINDS };

struct pieces {
    exs_iovec_t piece[EXS_IOV_MAX];
    exs_msghdr_t message;
    uint8_t *bytes;
    size_t room, length;
    exs_mhandle_t region;
};

static void pieces_make(struct pieces *p, int kind, int count, size_t each)
{
    int file = kind == OF_A_FILE ? memfd_create("pieces", MFD_CLOEXEC) : -1;

    *p = (struct pieces){.room = (size_t)count * (each + 4096)};
    p->room = (p->room + 4095) / 4096 * 4096;
    if (kind == OF_A_FILE)
        must(ftruncate(file, (off_t)p->room));
    p->bytes = mmap(NULL, p->room, PROT_READ | PROT_WRITE,
                    kind == OF_A_FILE ? MAP_SHARED : MAP_PRIVATE | MAP_ANONYMOUS, file, 0);
    ck_assert_ptr_ne(p->bytes, MAP_FAILED);
    if (kind == OF_A_FILE)
        close(file);
    p->region = exs_mregister(p->bytes, p->room, 0);
    ck_assert_ptr_ne(p->region, EXS_MHANDLE_INVALID);
    uint8_t *at = p->bytes;

    for (int i = 0; i < count; i++) {
        bool registered = kind == REGISTERED || kind == LONG_ONES || (kind == ALTERNATING && i % 2 == 0);

        p->piece[i] = (exs_iovec_t){.exs_base = at,
                                    .exs_length = kind == LONG_ONES && i % 8 == 0 ? 3000 : each,
                                    .exs_mhandle = registered ? p->region : NULL};
        pattern_fill(at, p->piece[i].exs_length, 3, p->length);
        p->length += p->piece[i].exs_length;
        at += p->piece[i].exs_length + 7;
    }
    p->message = (exs_msghdr_t){.exs_iov = p->piece, .exs_iovlen = count};
}

/* 1,024 segments of 8 bytes, which are one short message, and of 16 bytes, which are a longer one; also if the peer has
 * a receive pending. */
START_TEST(pieces)
{
    int kind = _i % KINDS, type = _i / KINDS % 2 ? SOCK_SEQPACKET : SOCK_STREAM;
    bool waits = _i / KINDS / 4;
    size_t each = _i / KINDS / 2 % 2 ? 16 : 8;
    struct pair pair;
    struct pieces p;
    char byte;

    pair_open(&pair, AF_INET, type);
    pieces_make(&p, kind, EXS_IOV_MAX, each);
    uint8_t *in = new_buffer(p.length);
    const struct conn *conn = conn_of(pair.client);

    if (type == SOCK_SEQPACKET || waits)
        must(exs_recv(pair.server, type == SOCK_STREAM ? &byte : (char *)in, type == SOCK_STREAM ? 1 : p.length,
                      0, pair.server_box->queue, NULL, NULL));
    inbox_quiet(pair.client_box, QUIET_MS); /* the peer's advertisement has arrived */
    uint32_t before = conn->credits.available;

    copies = 0;
    must(exs_sendmsg(pair.client, &p.message, 0, pair.client_box->queue, NULL));
    uint32_t messages = before - conn->credits.available;

    ck_assert_msg(messages <= (kind == LONG_ONES ? 300 : 4), "%u messages of %zu bytes", messages, p.length);
    if (!on_rdma() && kind != OF_A_FILE)
        ck_assert_msg(copies <= 32, "%d copies by the kernel", copies);
    if (type == SOCK_STREAM && waits)
        take_good(pair.server_box, EXS_EVT_RECV, pair.server);
    if (type == SOCK_STREAM)
        must(exs_recv(pair.server, in + waits, p.length - waits, MSG_WAITALL, pair.server_box->queue, NULL,
                      NULL));
    take_good(pair.server_box, EXS_EVT_RECV, pair.server);
    take_good(pair.client_box, EXS_EVT_SENDMSG, pair.client);
    if (type == SOCK_STREAM && waits)
        in[0] = (uint8_t)byte;
    pattern_check(in, p.length, 3, 0);
    pair_close(&pair);
    must(exs_mderegister(p.region, 0));
    must(munmap(p.bytes, p.room));
    free(in);
}
END_TEST

/* One of many segments can't be read: the message is refused, and later sends are not. */
START_TEST(unreadable_piece)
{
    struct pair pair;
    struct pieces p;

    pair_open(&pair, AF_INET, SOCK_STREAM);
    pieces_make(&p, UNREGISTERED, EXS_IOV_MAX, 8);
    uint8_t *nowhere = mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    ck_assert_ptr_ne(nowhere, MAP_FAILED);
    static const int places[] = {0, 127, 128, 700, EXS_IOV_MAX - 1};

    for (int i = 0; i < COUNT(places); i++) {
        void *good = p.piece[places[i]].exs_base;

        p.piece[places[i]].exs_base = nowhere;
        must_fail(exs_sendmsg(pair.client, &p.message, 0, pair.client_box->queue, NULL), EACCES);
        p.piece[places[i]].exs_base = good;
    }
    pass_bytes(pair.client_box, pair.client, pair.server_box, pair.server, 100, 5);
    pair_close(&pair);
    must(exs_mderegister(p.region, 0));
    must(munmap(p.bytes, p.room));
    must(munmap(nowhere, 4096));
}
END_TEST

/* The message waits behind a send for space at the peer: the segments are first only checked, and copied when it is
 * their turn. */
START_TEST(behind_another)
{
    struct pair pair;
    struct pieces p;
    uint8_t *first = new_buffer(MIB);

    pair_open(&pair, AF_INET, SOCK_STREAM);
    pieces_make(&p, _i, EXS_IOV_MAX, 8);
    uint8_t *in = new_buffer(MIB + p.length);

    must(exs_send(pair.client, first, MIB, 0, pair.client_box->queue, NULL, NULL));
    copies = 0;
    must(exs_sendmsg(pair.client, &p.message, 0, pair.client_box->queue, NULL));
    ck_assert_msg(copies <= 32, "%d looks by the kernel", copies);
    must(exs_recv(pair.server, in, MIB + p.length, MSG_WAITALL, pair.server_box->queue, NULL, NULL));
    take_good(pair.client_box, EXS_EVT_SEND, pair.client);
    take_good(pair.client_box, EXS_EVT_SENDMSG, pair.client);
    take_good(pair.server_box, EXS_EVT_RECV, pair.server);
    pattern_check(in + MIB, p.length, 3, 0);
    pair_close(&pair);
    must(exs_mderegister(p.region, 0));
    must(munmap(p.bytes, p.room));
    free(first);
    free(in);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("many pieces");
    TCase *tcase = add_case(suite, "sendmsg", 20);

    tcase_add_loop_test(tcase, pieces, 0, 2 * 2 * 2 * KINDS);
    tcase_add_test(tcase, unreadable_piece);
    tcase_add_loop_test(tcase, behind_another, 0, LONG_ONES);
    return run_suite(suite);
}
