/* SPDX-License-Identifier: BSD-2-Clause */
/* test_multishot.c - EXS_MULTISHOT: one accept for all connections. */
#include "check/support/support.h"

#define CLIENTS 20

struct server {
    struct inbox box, client_box;
    struct address address;
    int listener, client;
    exs_acceptaddr_t element;
};

static void server_open(struct server *server, const struct kind *kind)
{
    *server = (struct server){.element.exs_ahandle = server};
    inbox_open(&server->box, 4);
    inbox_open(&server->client_box, 4);
    server->box.beside = &server->client_box;
    server->client_box.beside = &server->box;
    server->listener = open_listener(kind->family, kind->type, 4, &server->address);
}

static void accept_all(struct server *server)
{
    must(exs_accept(server->listener, &server->element, 1, EXS_MULTISHOT, server->box.queue));
}

static int begin_connect(struct server *server, const struct kind *kind)
{
    int client = exs_socket(kind->family, kind->type, 0);

    must(client);
    must(exs_connect(client, SA(&server->address), server->address.length, 0, NULL, server->client_box.queue,
                     NULL));
    return client;
}

static int take_accepted(struct server *server, struct inbox *box, void *ahandle)
{
    exs_event_t event = take_good(box, EXS_EVT_ACCEPT, server->listener);
    const exs_evt_accept_t *accepted = &event.exs_evt_union.exs_evt_accept;

    ck_assert_ptr_eq(event.exs_evt_ahandle, ahandle);
    ck_assert_int_ge(accepted->exs_evt_newsocket, 0);
    ck_assert_ptr_null(accepted->exs_evt_addr);
    ck_assert_uint_eq(accepted->exs_evt_addrlen, server->address.storage.ss_family == AF_INET6
                                                     ? sizeof(struct sockaddr_in6)
                                                     : sizeof(struct sockaddr_in));
    return accepted->exs_evt_newsocket;
}

static void boxes_close(struct server *server)
{
    server->box.beside = server->client_box.beside = NULL;
    inbox_close(&server->client_box);
    inbox_close(&server->box);
}

static void take_last(struct server *server)
{
    exs_event_t event = take_failed(&server->box, EXS_EVT_ACCEPT, server->listener, ECANCELED);

    ck_assert_ptr_eq(event.exs_evt_ahandle, server);
    ck_assert_int_eq(event.exs_evt_union.exs_evt_accept.exs_evt_newsocket, -1);
    ck_assert_int_eq(server->element.exs_socket, -1);
}

/* Clients connect one by one or all at once. The accept ends when it is cancelled or when the listener is
 * closed. */
START_TEST(every_one)
{
    const struct kind *kind = &kinds[_i % 4];
    int client[CLIENTS], accepted[CLIENTS],
        clients = on_rdma() ? 5 : CLIENTS; /* a close takes half a second on rxe */
    bool at_once = _i / 4 % 2, closes = _i / 8;
    struct server server;
    exs_qstatus_t status;

    server_open(&server, kind);
    accept_all(&server);
    for (int i = 0; i < clients; i++) {
        client[i] = begin_connect(&server, kind);
        if (!at_once)
            take_good(&server.client_box, EXS_EVT_CONNECT, client[i]);
    }
    for (int i = 0; i < clients; i++) {
        struct address peer = {.length = sizeof(peer.storage)};

        if (at_once)
            take_good(&server.client_box, EXS_EVT_CONNECT, client[i]);
        accepted[i] = take_accepted(&server, &server.box, &server);
        must(exs_getpeername(accepted[i], SA(&peer), &peer.length));
        ck_assert_int_eq(peer.storage.ss_family, kind->family);
        for (int k = 0; k < i; k++)
            ck_assert_int_ne(accepted[k], accepted[i]);
    }
    inbox_quiet(&server.box, 0);
    must(exs_qstatus(server.box.queue, &status));
    ck_assert_int_eq(status.exs_pending, 1);
    if (!at_once) /* then it is known which accepted socket belongs to which client */
        for (int i = 0; i < clients; i++)
            pass_bytes(&server.client_box, client[i], &server.box, accepted[i], 100, (uint64_t)i);
    if (closes) {
        must(exs_close(server.listener, 0, server.box.queue, NULL));
        take_last(&server);
        take_good(&server.box, EXS_EVT_CLOSE, server.listener);
    } else {
        ck_assert_int_eq(exs_cancel(server.listener, &server, 0), 1);
        take_last(&server);
    }
    for (int i = 0; i < clients; i++) {
        close_socket(&server.client_box, client[i]);
        close_socket(&server.box, accepted[i]);
    }
    if (!closes)
        close_socket(&server.box, server.listener);
    boxes_close(&server);
}
END_TEST

/* A connection that arrives while no accept is pending waits, and the next accept returns it. */
START_TEST(again)
{
    struct server server;

    server_open(&server, &kinds[0]);
    accept_all(&server);
    ck_assert_int_eq(exs_cancel(server.listener, &server, 0), 1);
    take_last(&server);
    int client = begin_connect(&server, &kinds[0]);

    inbox_quiet(&server.box, QUIET_MS);
    inbox_quiet(&server.client_box, 0);
    accept_all(&server);
    int accepted = take_accepted(&server, &server.box, &server);

    take_good(&server.client_box, EXS_EVT_CONNECT, client);
    pass_bytes(&server.box, accepted, &server.client_box, client, 1000, 1);
    close_socket(&server.client_box, client);
    close_socket(&server.box, accepted);
    ck_assert_int_eq(exs_cancel(server.listener, NULL, EXS_CANCEL_ALL), 1);
    take_last(&server);
    close_socket(&server.box, server.listener);
    boxes_close(&server);
}
END_TEST

/* Accepts of another queue take their turns next to the multishot accept. */
START_TEST(beside_others)
{
    static const char turn[] = "moomm"; /* m: the multishot accept, o: accepts of the other queue */
    int client[COUNT(turn) - 1], accepted[COUNT(turn) - 1];
    exs_acceptaddr_t elements[2] = {{.exs_ahandle = elements}, {.exs_ahandle = elements}};
    struct inbox other;
    struct server server;

    server_open(&server, &kinds[0]);
    inbox_open(&other, 4);
    other.beside = &server.box;
    server.box.beside = &other;
    accept_all(&server);
    must(exs_accept(server.listener, elements, 2, 0, other.queue));
    for (int i = 0; i < COUNT(client); i++) {
        client[i] = exs_socket(kinds[0].family, kinds[0].type, 0);
        must(client[i]);
        must(exs_connect(client[i], SA(&server.address), server.address.length, 0, NULL, server.box.queue,
                         NULL));
        accepted[i] = turn[i] == 'm' ? take_accepted(&server, &server.box, &server)
                                     : take_accepted(&server, &other, elements);
        take_good(&server.box, EXS_EVT_CONNECT, client[i]);
    }
    for (int i = 0; i < COUNT(client); i++) {
        close_socket(&server.box, client[i]);
        close_socket(turn[i] == 'm' ? &server.box : &other, accepted[i]);
    }
    ck_assert_int_eq(exs_cancel(server.listener, &server, 0), 1);
    take_last(&server);
    close_socket(&server.box, server.listener);
    server.box.beside = NULL;
    inbox_close(&other);
    boxes_close(&server);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("multishot");
    TCase *tcase = add_case(suite, "multishot", 20);

    tcase_add_loop_test(tcase, every_one, 0, 16);
    tcase_add_test(tcase, again);
    tcase_add_test(tcase, beside_others);
    return run_suite(suite);
}
