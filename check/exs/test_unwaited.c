/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * test_unwaited.c - sends without an event and without a queue, on a socket that only blocking calls have used,
 * arrive at a peer that reads, although the sender makes no further call.
 */
#include "check/support/support.h"

enum { SENDS = 2000, MESSAGE = 16 };

static struct pair pair;

static void *read_all(void *arg)
{
    size_t each = *(size_t *)arg;
    char in[MESSAGE];

    for (int i = 0; i < SENDS; i++) {
        ck_assert_int_eq(exs_recv(pair.server, in, each, EXS_BLOCK | MSG_WAITALL, NULL, NULL, NULL),
                         (ssize_t)each);
        pattern_check(in, each, 1, (uint64_t)i * each);
    }
    return NULL;
}

static void send_all(size_t each)
{
    static char out[SENDS * MESSAGE]; /* unchanged until all of it has arrived */

    pattern_fill(out, SENDS * each, 1, 0);
    for (int i = 0; i < SENDS; i++)
        must(exs_send(pair.client, out + (size_t)i * each, each, EXS_UNSIGNALED, NULL, NULL, NULL));
}

static const int types[] = {SOCK_STREAM, SOCK_SEQPACKET};

/* All sends are posted before the peer reads. */
START_TEST(sends)
{
    size_t each = _i == 0 ? 1 : MESSAGE;
    int before = count_fds();

    init_library();
    pair_open_blocking(&pair, AF_INET, types[_i]);
    send_all(each);
    pthread_t thread = thread_start(read_all, &each);

    thread_join(thread);
    pair_close_blocking(&pair);
    must(exs_fini());
    ck_assert_int_le(count_fds(), before + 1); /* this thread's wake-up descriptor */
}
END_TEST

/* A send behind as many one-sided writes as can be pending: when the peer receives it, all writes have arrived. */
START_TEST(writes)
{
    static char memory[SENDS];
    exs_token_t token;
    char byte = 0;

    init_library();
    pair_open_blocking(&pair, AF_INET, SOCK_STREAM);
    exs_mhandle_t region = exs_mregister(memory, sizeof memory, 0);

    ck_assert_ptr_ne(region, EXS_MHANDLE_INVALID);
    must(exs_mexport(pair.server, region, memory, sizeof memory, EXS_REMOTE_WRITE, &token));
    for (int i = 0; i < SENDS; i++)
        must(exs_rwrite(pair.client, "w", 1, &token, (uint64_t)i, EXS_UNSIGNALED, NULL, NULL, NULL));
    must(exs_send(pair.client, "x", 1, EXS_UNSIGNALED, NULL, NULL, NULL));
    ck_assert_int_eq(exs_read(pair.server, &byte, 1), 1);
    same_bytes(memory, sizeof memory, 'w');
    must(exs_munexport(pair.server, &token));
    must(exs_mderegister(region, 0));
    pair_close_blocking(&pair);
    must(exs_fini());
}
END_TEST

static void read_late(int fd, void *arg)
{
    struct address address;
    size_t each = *(size_t *)arg;
    char go;

    init_library();
    pair.listener = open_listener(AF_INET, SOCK_STREAM, 1, &address);
    tell(fd, &address, sizeof address);
    must(pair.server = exs_blocking_accept(pair.listener, NULL, NULL));
    hear(fd, &go, 1);
    read_all(&each);
    tell(fd, "", 1);
    hear(fd, &go, 1);
}

/* Between two processes: the sender calls nothing of the library while the peer reads. */
START_TEST(between_processes)
{
    static size_t each = 1;
    struct address address;
    struct child child;
    char done;

    child_start(&child, read_late, &each);
    init_library();
    hear(child.fd, &address, sizeof address);
    must(pair.client = exs_socket(PF_INET, SOCK_STREAM, 0));
    must(exs_blocking_connect(pair.client, SA(&address), address.length));
    send_all(each);
    tell(child.fd, "", 1);
    hear(child.fd, &done, 1);
    must(exs_blocking_close(pair.client));
    must(exs_fini());
    tell(child.fd, "", 1);
    child_join(&child);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("unwaited");
    TCase *tcase = add_bare_case(suite, "unwaited", 20);

    tcase_add_loop_test(tcase, sends, 0, COUNT(types));
    tcase_add_test(tcase, writes);
    tcase_add_test(tcase, between_processes);
    return run_suite(suite);
}
