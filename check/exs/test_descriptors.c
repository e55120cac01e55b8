/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * test_descriptors.c - how many descriptors connections, queues and listeners need on the software device.
 * doc/guide/many-connections.md has the same numbers: change them there, too.
 */
#include "check/support/self.h"
#include "check/support/support.h"

enum { MANY = 30, FIRST = 10 }; /* the first ones also open what a queue with many peers in shared memory has */

START_TEST(a_queue_has_five)
{
    struct inbox boxes[MANY];
    int before = count_fds();

    for (int i = 0; i < MANY; i++)
        inbox_open(&boxes[i], 16);
    ck_assert_int_eq(count_fds() - before, 5 * MANY);
    for (int i = 0; i < MANY; i++)
        inbox_close(&boxes[i]);
}
END_TEST

START_TEST(a_listener_has_two_and_two_for_shared_memory)
{
    struct address address;
    int listeners[MANY], first = open_listener(AF_INET, SOCK_STREAM, 1, &address), before = count_fds();

    for (int i = 0; i < MANY; i++)
        listeners[i] = open_listener(AF_INET, SOCK_STREAM, 1, &address);
    ck_assert_int_eq(count_fds() - before, (on_shm() ? 4 : 2) * MANY);
    for (int i = 0; i < MANY; i++)
        must(exs_blocking_close(listeners[i]));
    must(exs_blocking_close(first));
}
END_TEST

/* Both ends are in this process. */
START_TEST(a_connection_has_two_at_each_end)
{
    struct pair pair;
    int clients[MANY], servers[MANY], before = 0;

    pair_open(&pair, AF_INET, SOCK_STREAM);
    for (int i = 0; i < MANY; i++) {
        if (i == FIRST)
            before = count_fds();
        connect_ends(pair.listener, SOCK_STREAM, &pair.address, pair.client_box, pair.server_box, &clients[i],
                     &servers[i]);
    }
    ck_assert_int_eq(count_fds() - before, 2 * 2 * (MANY - FIRST));
    for (int i = 0; i < MANY; i++) {
        close_socket(pair.client_box, clients[i]);
        close_socket(pair.server_box, servers[i]);
    }
    pair_close(&pair);
}
END_TEST

/* A queue with connections has 6 more than one without, and the server's queue one for each of them in shared memory. */
START_TEST(a_connection_of_another_queue)
{
    struct inbox boxes[MANY];
    struct pair pair;
    int clients[MANY], servers[MANY], before = 0;

    pair_open(&pair, AF_INET, SOCK_STREAM);
    for (int i = 0; i < MANY; i++) {
        if (i == FIRST)
            before = count_fds();
        inbox_open(&boxes[i], 16);
        boxes[i].beside = pair.server_box;
        pair.server_box->beside = &boxes[i];
        connect_ends(pair.listener, SOCK_STREAM, &pair.address, &boxes[i], pair.server_box, &clients[i],
                     &servers[i]);
    }
    ck_assert_int_eq(count_fds() - before, (5 + 6 + 2 + 2 + on_shm()) * (MANY - FIRST));
    for (int i = 0; i < MANY; i++) {
        close_socket(&boxes[i], clients[i]);
        close_socket(pair.server_box, servers[i]);
        inbox_close(&boxes[i]);
    }
    pair.server_box->beside = pair.client_box;
    pair_close(&pair);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("descriptors");
    TCase *counts = add_case(suite, "counts", 20);

    if (on_rdma())
        return 77; /* the kernel's devices have descriptors of their own */
    tcase_add_test(counts, a_queue_has_five);
    tcase_add_test(counts, a_listener_has_two_and_two_for_shared_memory);
    tcase_add_test(counts, a_connection_has_two_at_each_end);
    tcase_add_test(counts, a_connection_of_another_queue);
    return run_suite(suite);
}
