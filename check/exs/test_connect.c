/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * test_connect.c - connecting, accepting, names of sockets, and connects that fail: blocking and not, IPv4 and IPv6,
 * STREAM and SEQPACKET.
 */
#include <limits.h>
#include "check/support/support.h"

static void same_address(const struct address *a, const struct address *b)
{
    ck_assert_uint_eq(a->length, b->length);
    ck_assert_int_eq(a->storage.ss_family, b->storage.ss_family);
    ck_assert_int_eq(port_of(a), port_of(b));
    ck_assert_mem_eq(&a->storage, &b->storage, a->storage.ss_family == AF_INET ? 8 : 24);
}

static struct address name_of(int socket)
{
    struct address a = {.length = sizeof a.storage};

    must(exs_getsockname(socket, SA(&a), &a.length));
    return a;
}

static struct address peer_of(int socket)
{
    struct address a = {.length = sizeof a.storage};

    must(exs_getpeername(socket, SA(&a), &a.length));
    return a;
}

/* ---- Connections --------------------------------------------------------------------- */

static void both_ends_agree(int client, int server)
{
    struct address a = name_of(client), b = peer_of(server), c = name_of(server), d = peer_of(client);
    char one[64], two[64];

    same_address(&a, &b);
    same_address(&c, &d);
    must(exs_getdevice(client, one, sizeof one));
    must(exs_getdevice(server, two, sizeof two));
    ck_assert_str_eq(one, two);
    ck_assert_str_ne(one, "");
    must(exs_getdevice(client, two, strlen(one) + 1));
    must_fail(exs_getdevice(client, two, strlen(one)), ENAMETOOLONG);
}

START_TEST(connection)
{
    struct pair pair;

    pair_open_kind(&pair, _i);
    both_ends_agree(pair.client, pair.server);
    struct address there = peer_of(pair.client);
    same_address(&there, &pair.address);
    pass_bytes(pair.client_box, pair.client, pair.server_box, pair.server, 100, 1);
    pass_bytes(pair.server_box, pair.server, pair.client_box, pair.client, 100, 2);
    pair_close(&pair);
}
END_TEST

static void *write_a_byte(void *arg)
{
    ck_assert_int_eq(exs_write(((struct pair *)arg)->client, "y", 1), 1);
    return NULL;
}

START_TEST(connection_of_blocking_calls)
{
    struct pair pair;
    char byte = 'x';

    pair_open_blocking(&pair, kinds[_i].family, kinds[_i].type);
    both_ends_agree(pair.client, pair.server);
    pthread_t thread = thread_start(write_a_byte, &pair); /* on a SEQPACKET the write waits for the read */
    ck_assert_int_eq(exs_read(pair.server, &byte, 1), 1);
    ck_assert_int_eq(byte, 'y');
    thread_join(thread);
    pair_close_blocking(&pair);
}
END_TEST

static void *connect_with_flag(void *arg)
{
    struct pair *pair = arg;
    struct timeval limit = {10, 0};

    ck_assert_int_eq(
        exs_connect(pair->client, SA(&pair->address), pair->address.length, EXS_BLOCK, &limit, NULL, NULL), 0);
    return NULL;
}

/* exs_accept with EXS_BLOCK returns 0 and stores the socket in the element. */
START_TEST(connection_of_flagged_calls)
{
    struct pair pair;
    struct address from = {.length = sizeof from.storage};
    exs_acceptaddr_t wanted = {.exs_addr = SA(&from), .exs_addrlen = sizeof from.storage, .exs_socket = -1};

    pair.listener = open_listener(kinds[_i].family, kinds[_i].type, 8, &pair.address);
    must(pair.client = exs_socket(kinds[_i].family, kinds[_i].type, 0));
    pthread_t thread = thread_start(connect_with_flag, &pair);
    ck_assert_int_eq(exs_accept(pair.listener, &wanted, 1, EXS_BLOCK, NULL), 0);
    thread_join(thread);
    pair.server = wanted.exs_socket;
    both_ends_agree(pair.client, pair.server);
    from.length = wanted.exs_addrlen;
    struct address client = name_of(pair.client);
    same_address(&from, &client);
    ck_assert_int_eq(exs_shutdown(pair.client, SHUT_RDWR, EXS_BLOCK, NULL, NULL), 0);
    ck_assert_int_eq(exs_close(pair.client, EXS_BLOCK, NULL, NULL), 0);
    ck_assert_int_eq(exs_close(pair.server, EXS_BLOCK, NULL, NULL), 0);
    ck_assert_int_eq(exs_close(pair.listener, EXS_BLOCK, NULL, NULL), 0);
}
END_TEST

START_TEST(blocking_accept_names_the_peer)
{
    struct pair pair;
    struct address from = {.length = sizeof from.storage};

    pair.listener = open_listener(AF_INET6, SOCK_STREAM, 1, &pair.address);
    must(pair.client = exs_socket(PF_INET6, SOCK_STREAM, IPPROTO_TCP));
    pthread_t thread = thread_start(connect_with_flag, &pair);
    must(pair.server = exs_blocking_accept(pair.listener, SA(&from), &from.length));
    thread_join(thread);
    struct address client = name_of(pair.client);
    same_address(&from, &client);
    pair_close_blocking(&pair);
}
END_TEST

#define MANY 5

static void *connect_many(void *arg)
{
    struct pair *pairs = arg;

    for (int i = 0; i < MANY; i++)
        connect_with_flag(&pairs[i]);
    return NULL;
}

/* One call with several elements: each has its own event and ahandle, and its address buffer may have any length. */
START_TEST(accept_many)
{
    struct pair pairs[MANY];
    struct address from[MANY];
    exs_acceptaddr_t wanted[MANY];
    struct inbox box;
    int listener = open_listener(AF_INET, SOCK_STREAM, MANY, &pairs[0].address);
    bool seen[MANY] = {false};

    inbox_open(&box, 16);
    for (int i = 0; i < MANY; i++) {
        wanted[i] = (exs_acceptaddr_t){.exs_addr = SA(&from[i]),
                                       .exs_addrlen = sizeof from[i].storage,
                                       .exs_socket = -1,
                                       .exs_ahandle = &wanted[i]};
        pairs[i].address = pairs[0].address;
        must(pairs[i].client = exs_socket(PF_INET, SOCK_STREAM, 0));
    }
    wanted[1].exs_addr = NULL;
    wanted[1].exs_addrlen = 0;
    wanted[2].exs_addrlen = 4;
    must(exs_accept(listener, wanted, MANY, 0, box.queue));
    pthread_t thread = thread_start(connect_many, pairs);
    for (int n = 0; n < MANY; n++) {
        exs_event_t event = take_good(&box, EXS_EVT_ACCEPT, listener);
        exs_evt_accept_t *accept = &event.exs_evt_union.exs_evt_accept;
        exs_acceptaddr_t *element = event.exs_evt_ahandle;
        int i = (int)(element - wanted);
        ck_assert(i >= 0 && i < MANY && !seen[i]);
        seen[i] = true;
        ck_assert_int_eq(element->exs_socket, accept->exs_evt_newsocket);
        ck_assert_ptr_eq(element->exs_addr, accept->exs_evt_addr);
        ck_assert_uint_eq(accept->exs_evt_addrlen, sizeof(struct sockaddr_in));
        pairs[i].server = accept->exs_evt_newsocket;
        from[i].length = accept->exs_evt_addrlen;
        struct address peer = peer_of(pairs[i].server);
        if (i != 1 && i != 2)
            same_address(&from[i], &peer);
    }
    thread_join(thread);
    for (int i = 0; i < MANY; i++) {
        close_socket(&box, pairs[i].client);
        close_socket(&box, pairs[i].server);
    }
    close_socket(&box, listener);
    inbox_close(&box);
}
END_TEST

START_TEST(client_that_was_bound)
{
    struct pair pair;
    struct inbox box;
    struct address mine = loopback(AF_INET, 0);
    exs_acceptaddr_t wanted = {0};

    inbox_open(&box, 4);
    int listener = open_listener(AF_INET, SOCK_STREAM, 1, &pair.address);
    int client = exs_socket(PF_INET, SOCK_STREAM, 0);
    must(exs_bind(client, SA(&mine), mine.length));
    mine = name_of(client);
    ck_assert_int_ne(port_of(&mine), 0);
    must(exs_accept(listener, &wanted, 1, 0, box.queue));
    must(exs_connect(client, SA(&pair.address), pair.address.length, 0, NULL, box.queue, NULL));
    take_good(&box, EXS_EVT_CONNECT, client);
    take_good(&box, EXS_EVT_ACCEPT, listener);
    struct address seen = peer_of(wanted.exs_socket);
    same_address(&seen, &mine);
    close_socket(&box, client);
    close_socket(&box, wanted.exs_socket);
    close_socket(&box, listener);
    inbox_close(&box);
}
END_TEST

START_TEST(wildcard_listener)
{
    int family = _i ? AF_INET6 : AF_INET, client, server;
    struct inbox box;
    struct address any = {.storage = {.ss_family = (sa_family_t)family}, .length = loopback(family, 0).length};
    int listener = exs_socket(family, SOCK_STREAM, 0);

    inbox_open(&box, 4);
    must(exs_bind(listener, SA(&any), any.length));
    must(exs_listen(listener, 4));
    any = name_of(listener);
    struct address to = loopback(family, port_of(&any));
    connect_ends(listener, SOCK_STREAM, &to, &box, &box, &client, &server);
    struct address seen = name_of(server);
    same_address(&seen, &to);
    close_socket(&box, client);
    close_socket(&box, server);
    close_socket(&box, listener);
    inbox_close(&box);
}
END_TEST

/* ---- Connects that fail -------------------------------------------------------------- */

START_TEST(refused)
{
    struct inbox box;
    int keep, client = exs_socket(PF_INET, SOCK_STREAM, 0), other = exs_socket(PF_INET, SOCK_SEQPACKET, 0);
    struct address nobody = refusing_address(&keep);

    inbox_open(&box, 4);
    must(exs_connect(client, SA(&nobody), nobody.length, 0, NULL, box.queue, &keep));
    exs_event_t event = take_failed(&box, EXS_EVT_CONNECT, client, ECONNREFUSED);
    ck_assert_ptr_eq(event.exs_evt_ahandle, &keep);
    must_fail(exs_blocking_connect(other, SA(&nobody), nobody.length), ECONNREFUSED);
    must_fail(exs_blocking_send(other, "x", 1, 0, NULL), ENOTCONN);
    close_socket(&box, client);
    close_socket(&box, other);
    close(keep);
    inbox_close(&box);
}
END_TEST

/* A TCP listener that never replies: the connect fails after the caller's timeout. */
START_TEST(connect_timeout)
{
    struct inbox box;
    struct timeval limit = {0, 300000};
    int keep, client[2];
    struct address deaf = deaf_address(&keep);

    inbox_open(&box, 4);
    for (int i = 0; i < 2; i++) {
        double start = seconds_now();
        must(client[i] = exs_socket(PF_INET, SOCK_STREAM, 0));
        if (i == 0) {
            must(exs_connect(client[0], SA(&deaf), deaf.length, 0, &limit, box.queue, NULL));
            take_failed(&box, EXS_EVT_CONNECT, client[0], ETIMEDOUT);
        } else {
            must_fail(exs_connect(client[1], SA(&deaf), deaf.length, EXS_BLOCK, &limit, NULL, NULL), ETIMEDOUT);
        }
        double took = seconds_now() - start;
        ck_assert_msg(took > 0.28 && took < 0.3 + LATE_S, "a limit of 0.3 s took %.3f s", took);
        close_socket(&box, client[i]);
    }
    close(keep);
    inbox_close(&box);
}
END_TEST

/* A timeout with more seconds than the library's clock can represent must not expire at once. */
START_TEST(limit_without_end)
{
    struct pair pair;
    exs_acceptaddr_t accepted = {.exs_socket = -1};
    struct timeval endless = {.tv_sec = LONG_MAX}, limit = {0, 100000};
    struct inbox box;
    exs_event_t event;
    int keep, client;
    struct address deaf = deaf_address(&keep);

    pair.listener = open_listener(AF_INET, SOCK_STREAM, 8, &pair.address);
    inbox_open(&box, 4);
    must(client = exs_socket(PF_INET, SOCK_STREAM, 0));
    must(exs_connect(client, SA(&deaf), deaf.length, 0, &limit, box.queue, NULL));
    ck_assert_int_eq(exs_qdequeue(box.queue, &event, 1, &endless), 1);
    ck_assert_int_eq(event.exs_evt_errno, ETIMEDOUT);
    must(exs_accept(pair.listener, &accepted, 1, 0, box.queue));
    must(pair.client = exs_socket(PF_INET, SOCK_STREAM, 0));
    must(exs_connect(pair.client, SA(&pair.address), pair.address.length, 0, &endless, box.queue, NULL));
    take_good(&box, EXS_EVT_CONNECT, pair.client);
    take_good(&box, EXS_EVT_ACCEPT, pair.listener);
    close_socket(&box, pair.client);
    close_socket(&box, accepted.exs_socket);
    close_socket(&box, pair.listener);
    close_socket(&box, client);
    close(keep);
    inbox_close(&box);
}
END_TEST

START_TEST(address_in_use)
{
    struct address address, kernels;
    int first = open_listener(AF_INET, SOCK_STREAM, 1, &address), keep = tcp_listener(&kernels);

    /* On RDMA devices, ports are not those of the kernel's TCP. */
    for (int i = 0; i < (on_rdma() ? 1 : 2); i++) {
        struct address *taken = i ? &kernels : &address;
        int second = exs_socket(PF_INET, SOCK_STREAM, 0);
        if (exs_bind(second, SA(taken), taken->length) == 0)
            must_fail(exs_listen(second, 1), EADDRINUSE);
        else
            ck_assert_int_eq(errno, EADDRINUSE);
        must(exs_blocking_close(second));
    }
    must(exs_blocking_close(first));
    first = exs_socket(PF_INET, SOCK_STREAM, 0); /* the port can be bound again */
    must(exs_bind(first, SA(&address), address.length));
    must(exs_listen(first, 1));
    must(exs_blocking_close(first));
    close(keep);
}
END_TEST

/* A socket that is connecting refuses other operations. */
START_TEST(still_connecting)
{
    struct inbox box;
    int keep, client = exs_socket(PF_INET, SOCK_STREAM, 0);
    struct address deaf = deaf_address(&keep);

    inbox_open(&box, 4);
    must(exs_connect(client, SA(&deaf), deaf.length, 0, NULL, box.queue, NULL));
    inbox_quiet(&box, QUIET_MS);
    must_fail(exs_send(client, "x", 1, 0, box.queue, NULL, NULL), ENOTCONN);
    must_fail(exs_shutdown(client, SHUT_RDWR, 0, box.queue, NULL), ENOTCONN);
    ck_assert_int_eq(exs_connect(client, SA(&deaf), deaf.length, 0, NULL, box.queue, NULL), -1);
    ck_assert_msg(errno == EINVAL || errno == EALREADY, "errno is %s", strerrorname_np(errno));
    ck_assert_int_eq(exs_listen(client, 1), -1);
    must(exs_close(client, 0, box.queue, NULL));
    take_failed(&box, EXS_EVT_CONNECT, client, ECANCELED);
    take_good(&box, EXS_EVT_CLOSE, client);
    inbox_close(&box);
    close(keep);
}
END_TEST

/* The client connects first; the listener's backlog keeps the connection until an accept. */
START_TEST(accepted_late)
{
    struct inbox box;
    struct address address;
    exs_acceptaddr_t wanted = {0};
    int listener = open_listener(AF_INET, kinds[_i].type, 4, &address);
    int client = exs_socket(PF_INET, kinds[_i].type, 0);

    inbox_open(&box, 4);
    must(exs_connect(client, SA(&address), address.length, 0, NULL, box.queue, NULL));
    inbox_pump(&box, QUIET_MS);
    must(exs_accept(listener, &wanted, 1, 0, box.queue));
    take_good(&box, EXS_EVT_CONNECT, client);
    take_good(&box, EXS_EVT_ACCEPT, listener);
    pass_bytes(&box, client, &box, wanted.exs_socket, 1000, 1);
    close_socket(&box, client);
    close_socket(&box, wanted.exs_socket);
    close_socket(&box, listener);
    inbox_close(&box);
}
END_TEST

/* A listener that closes refuses the connections that were not accepted. */
START_TEST(never_accepted)
{
    struct inbox box;
    struct address address;
    int listener = open_listener(AF_INET, SOCK_STREAM, 4, &address),
        client = exs_socket(PF_INET, SOCK_STREAM, 0);

    inbox_open(&box, 4);
    must(exs_connect(client, SA(&address), address.length, 0, NULL, box.queue, NULL));
    inbox_pump(&box, QUIET_MS);
    close_socket(&box, listener);
    if (box.count == 0 || box.kept[0].exs_evt_errno != 0) {
        exs_event_t event = inbox_take(&box, EXS_EVT_CONNECT, client);
        ck_assert_msg(event.exs_evt_errno == ECONNREFUSED || event.exs_evt_errno == ECONNRESET, "errno is %s",
                      strerrorname_np(event.exs_evt_errno));
    } else { /* established in the backlog, as with TCP, and broken now */
        char byte;
        take_good(&box, EXS_EVT_CONNECT, client);
        if (exs_recv(client, &byte, 1, 0, box.queue, NULL, NULL) == 0)
            take_failed(&box, EXS_EVT_RECV, client, ECONNRESET);
        else
            ck_assert_int_eq(errno, ECONNRESET);
    }
    close_socket(&box, client);
    inbox_close(&box);
}
END_TEST

/* A STREAM can't connect to a SEQPACKET listener, nor the reverse. The listener's application gets no event for it. */
START_TEST(types_differ)
{
    struct inbox box;
    struct address address;
    exs_acceptaddr_t wanted = {0};
    int listener = open_listener(AF_INET, _i ? SOCK_SEQPACKET : SOCK_STREAM, 4, &address), good, server;
    int client = exs_socket(PF_INET, _i ? SOCK_STREAM : SOCK_SEQPACKET, 0);

    inbox_open(&box, 4);
    must(exs_accept(listener, &wanted, 1, 0, box.queue));
    must(exs_connect(client, SA(&address), address.length, 0, NULL, box.queue, NULL));
    ck_assert_int_ne(inbox_take(&box, EXS_EVT_CONNECT, client).exs_evt_errno, 0);
    inbox_quiet(&box, QUIET_MS);
    must(good = exs_socket(PF_INET, _i ? SOCK_SEQPACKET : SOCK_STREAM, 0));
    must(exs_connect(good, SA(&address), address.length, 0, NULL, box.queue, NULL));
    take_good(&box, EXS_EVT_CONNECT, good);
    server = take_good(&box, EXS_EVT_ACCEPT, listener).exs_evt_union.exs_evt_accept.exs_evt_newsocket;
    pass_bytes(&box, good, &box, server, 100, 1);
    close_socket(&box, client);
    close_socket(&box, good);
    close_socket(&box, server);
    close_socket(&box, listener);
    inbox_close(&box);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("connect");
    TCase *connect = add_case(suite, "connect", 20), *fail = add_case(suite, "fail to connect", 20);

    tcase_add_loop_test(connect, connection, 0, COUNT(kinds));
    tcase_add_loop_test(connect, connection_of_blocking_calls, 0, COUNT(kinds));
    tcase_add_loop_test(connect, connection_of_flagged_calls, 0, COUNT(kinds));
    tcase_add_test(connect, blocking_accept_names_the_peer);
    tcase_add_test(connect, accept_many);
    tcase_add_test(connect, client_that_was_bound);
    tcase_add_loop_test(connect, wildcard_listener, 0, 2);
    tcase_add_test(fail, refused);
    tcase_add_test(fail, connect_timeout);
    tcase_add_test(fail, limit_without_end);
    tcase_add_test(fail, address_in_use);
    tcase_add_test(fail, still_connecting);
    tcase_add_loop_test(connect, accepted_late, 0, 2);
    tcase_add_test(fail, never_accepted);
    tcase_add_loop_test(fail, types_differ, 0, 2);
    return run_suite(suite);
}
