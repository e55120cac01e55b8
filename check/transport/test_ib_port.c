/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * test_ib_port.c - limits on the endpoints and inboxes that a process keeps for InfiniBand's connection management
 * (ib_port.h), and which are dropped at the limit: on a virtual clock, without packets.
 */
#include <check.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include "check/support/runner.h"
#include "core/base/fds.h"
#include "soft/cm/ib_address.h"
#include "soft/cm/ib_end.h"
#include "soft/cm/ib_pass.h"

#define SECOND UINT64_C(1000000000)
#define PORT 7471
#define ROOM 4          /* number of endpoints that are free */
#define LISTENERS 16    /* created one after the other */
#define KEPT_BYTES 1024 /* maximum size of an endpoint; SECURITY.md says it */
#define GUID 2
#define QPN 0x100

static struct {
    struct soft_clock clock;
    uint64_t now;
    struct soft_path path;
    struct ib_box box;
    struct ib_end *listener;
    unsigned first;    /* number of endpoints before fill_up() */
    enum ib_type type; /* type of the last message sent; 0: none */
    struct ib_message sent;
    uint32_t next_id, given;
} port;

static uint64_t clock_now(struct soft_clock *clock)
{
    (void)clock;
    return port.now;
}

static uint32_t number(struct ib_world *world)
{
    (void)world;
    return port.given += 16;
}

static void sent(struct ib_world *world, const struct soft_path *path, const uint8_t mad[IB_MAD_BYTES])
{
    (void)world, (void)path;
    ck_assert(ib_decode(&port.sent, mad));
    port.type = port.sent.type;
}

/* Any address will do as an identifier. */
static struct cm_id *some_user(void)
{
    return (struct cm_id *)(void *)&port;
}

static struct ib_end *listen_in(enum ib_space space)
{
    union soft_addr addr = port.path.local;
    struct ib_end *end;

    addr.in.sin_port = htons(PORT);
    end = ib_port_listen(&port.box, some_user(), space, &addr, false, ROOM + 1);
    ck_assert_ptr_nonnull(end);
    return end;
}

static void open_port(void)
{
    memset(&port, 0, sizeof port);
    port.now = 1000 * SECOND;
    port.clock.now = clock_now;
    port.next_id = 0x1000;
    port.path.local.in = (struct sockaddr_in){.sin_family = AF_INET, .sin_addr.s_addr = htonl(0x0a000001)};
    port.path.remote.in = (struct sockaddr_in){.sin_family = AF_INET, .sin_addr.s_addr = htonl(0x0a000002)};
    port.box.wakefd = (struct doorbell)DOORBELL_INIT(DOORBELL_PLAIN);
    TAILQ_INIT(&port.box.news);
    ib_port.qp1.fds[0] = ib_port.qp1.fds[1] = ib_port.qp1.out[0] = ib_port.qp1.out[1] = ib_port.epoll =
        ib_port.inbox = -1;
    ib_port.world = (struct ib_world){
        .clock = &port.clock,
        .guid = 1,
        .number = number,
        .send = sent,
        .request = ib_told_request,
        .requested = ib_told_requested,
        .tell = ib_told_event,
    };
}

/* As if all endpoints but ROOM were in use. */
static void fill_up(void)
{
    port.first = ib_port.ends;
    ib_port.ends = IB_ENDS_MAX - ROOM;
}

static void close_port(void)
{
    ib_port.ends -= IB_ENDS_MAX - ROOM - port.first;
    ib_port_leave(port.listener);
    while (!LIST_EMPTY(&ib_port.world.conns)) {
        port.now = ib_deadline(&ib_port.world);
        ck_assert_uint_ne(port.now, NEVER_NS);
        ib_timers(&ib_port.world);
    }
    ck_assert_uint_eq(ib_port.ends, 0);
}

static void says(const struct ib_message *message)
{
    uint8_t mad[IB_MAD_BYTES];

    port.type = (enum ib_type)0;
    ib_encode(message, mad);
    ib_arrive(&ib_port.world, &port.path, mad);
}

/* A request of a host that asks for this timewait. */
static struct ib_message request(enum ib_type type, unsigned timewait)
{
    struct ib_message req = {.type = type, .local_id = port.next_id};
    union ibv_gid gid;

    if (type == IB_REQ) {
        req.req = (struct ib_req){.service = ib_service(IB_SPACE_TCP, PORT),
                                  .ca_guid = GUID,
                                  .qpn = QPN + port.next_id,
                                  .mtu = 3,
                                  .local_response = 24,
                                  .cm_retries = 15,
                                  .ack_timeout = (uint8_t)timewait};
        soft_gid_of(&gid, &port.path.remote.sa);
        memcpy(req.req.local_gid, gid.raw, sizeof gid.raw);
    } else {
        req.sidr_req.service = ib_service(IB_SPACE_UDP, PORT);
    }
    ib_address_encode(&port.path.remote, &port.path.local, req.private_data);
    port.next_id++;
    return req;
}

/* A peer sends a REQ or SIDR_REQ. Returns whether there is a new event, in *news. */
static bool asks(enum ib_type type, unsigned timewait, struct ib_news *news)
{
    struct ib_message req = request(type, timewait);

    says(&req);
    return ib_port_next(&port.box, news);
}

static struct ib_end *connects(unsigned timewait)
{
    struct ib_message rep = {.rep = {.qpn = 9}};
    struct ib_news news = {.end = NULL};

    ck_assert(asks(IB_REQ, timewait, &news) && news.requested);
    ib_port_adopt(news.end, some_user());
    ck_assert_int_eq(ib_port_accept(news.end, &rep), 0);
    says(&(struct ib_message){.type = IB_RTU, .local_id = port.next_id - 1, .remote_id = port.sent.local_id});
    ck_assert(ib_port_next(&port.box, &news) && news.event == IB_EV_ESTABLISHED);
    ck_assert_int_eq(news.end->conn.state, IB_ESTABLISHED);
    return news.end;
}

static struct ib_end *looks_up(void)
{
    struct ib_message reply = {.sidr_rep = {.qpn = 9}};
    struct ib_news news = {.end = NULL};

    ck_assert(asks(IB_SIDR_REQ, 0, &news) && news.requested);
    ib_port_adopt(news.end, some_user());
    ck_assert_int_eq(ib_port_reply(news.end, &reply), 0);
    ib_port_leave(news.end);
    return news.end;
}

/* The peer disconnects; the endpoint is then in timewait. */
static void hangs_up(struct ib_end *end)
{
    struct ib_news news;

    says(&(struct ib_message){
        .type = IB_DREQ, .local_id = end->conn.remote_id, .remote_id = end->conn.local_id, .dreq = {.qpn = 9}});
    ck_assert(ib_port_next(&port.box, &news) && news.event == IB_EV_DISCONNECTED);
    ck_assert_int_eq(end->conn.state, IB_TIMEWAIT);
}

static bool is_there(const struct ib_end *end)
{
    const struct ib_conn *conn;

    LIST_FOREACH (conn, &ib_port.world.conns, all)
        if (conn == &end->conn)
            return true;
    return false;
}

/* Peers that connect and disconnect make the device keep their endpoints in timewait, for as long as the peers ask for.
 * These endpoints are dropped if others need them, so that other peers can connect. */
START_TEST(what_is_waited_out_gives_way)
{
    struct ib_end *ends[ROOM], *used;
    struct ib_news news;

    open_port();
    port.listener = listen_in(IB_SPACE_TCP);
    fill_up();
    for (int i = 0; i < ROOM; i++) {
        ends[i] = connects(i == 0 ? 15 : i == 2 ? 19 : 24);
        hangs_up(ends[i]);
        if (i > 0) /* the first to expire still belongs to its identifier */
            ib_port_leave(ends[i]);
    }
    used = connects(24);
    ck_assert(is_there(ends[0]) && is_there(ends[1]) && is_there(ends[3]));
    ck_assert_uint_eq(ib_port.ends, IB_ENDS_MAX);
    ib_port_leave(ends[0]);
    (void)used;
    for (int i = 0; i < ROOM - 1; i++)
        (void)connects(24);
    ck_assert(!asks(IB_REQ, 24, &news)); /* all endpoints belong to identifiers */
    ck_assert_int_eq(port.type, 0);
    ck_assert_uint_eq(ib_port.ends, IB_ENDS_MAX);
    for (struct ib_conn *conn; (conn = LIST_FIRST(&ib_port.world.conns)) != NULL;)
        ib_end_free((struct ib_end *)conn);
    close_port();
}
END_TEST

/* The device has disconnected and the peer does not answer, after it asked for a timeout of a quarter of an hour. */
START_TEST(an_end_that_is_not_answered_gives_way)
{
    struct ib_news news = {.end = NULL};
    struct ib_end *ends[ROOM];

    open_port();
    port.listener = listen_in(IB_SPACE_TCP);
    fill_up();
    for (int i = 0; i < ROOM; i++) {
        ends[i] = connects(24);
        ib_port_leave(ends[i]);
        ck_assert_int_eq(port.type, IB_DREQ);
        ck_assert_int_eq(ends[i]->conn.state, IB_DREQ_SENT);
        port.now += SECOND;
    }
    ck_assert(asks(IB_REQ, 24, &news) && news.requested);
    ck_assert(!is_there(ends[0]) || ends[0] == news.end);
    ck_assert(is_there(ends[1]) && is_there(ends[2]) && is_there(ends[3]));
    ib_port_leave(news.end);
    close_port();
}
END_TEST

/* Endpoints that keep a reply, in case it was lost. */
START_TEST(a_kept_answer_gives_way)
{
    struct ib_news news = {.end = NULL};
    struct ib_end *ends[ROOM];

    open_port();
    port.listener = listen_in(IB_SPACE_UDP);
    fill_up();
    for (int i = 0; i < ROOM; i++) {
        ends[i] = looks_up();
        port.now += SECOND;
    }
    ck_assert(asks(IB_SIDR_REQ, 0, &news) && news.requested);
    ck_assert(is_there(ends[1]) && is_there(ends[2]) && is_there(ends[3]));
    ck_assert_uint_eq(ib_port.ends, IB_ENDS_MAX);
    ib_port_leave(news.end);
    close_port();
}
END_TEST

/* Endpoints of peers that disconnected, or that got their SIDR_REP, are kept up to IB_KEPT_MAX, even if there is room
 * for more. An endpoint that belongs to an identifier does not count. */
START_TEST(what_is_kept_does_not_grow)
{
    enum { MANY = IB_KEPT_MAX + 88 };
    struct ib_end *used = NULL, *end;
    struct ib_conn *conn;
    uint32_t first;

    open_port();
    port.listener = listen_in(_i == 0 ? IB_SPACE_UDP : IB_SPACE_TCP);
    if (_i == 1)
        used = connects(24);
    first = port.next_id;
    for (int i = 0; i < MANY; i++) {
        if (_i == 0) {
            (void)looks_up();
        } else {
            end = connects(24);
            hangs_up(end);
            ib_port_leave(end);
        }
        ck_assert_uint_le(ib_port.ends, IB_KEPT_MAX + 2); /* the listener, and the endpoint in use */
        port.now += SECOND / 1000;
    }
    ck_assert(used == NULL || is_there(used));
    LIST_FOREACH (conn, &ib_port.world.conns, all) /* the newest are kept */
        ck_assert(conn->remote_id >= first + MANY - IB_KEPT_MAX || (used != NULL && conn == &used->conn));
    while ((conn = LIST_FIRST(&ib_port.world.conns)) != NULL)
        ib_end_free((struct ib_end *)conn);
    ib_port_leave(port.listener);
    ck_assert_uint_eq(ib_port.ends, 0);
}
END_TEST

/* An endpoint whose request may be repeated keeps one inbox open when its listener is destroyed; also if another
 * listener is allocated at the same address and destroyed. */
START_TEST(a_door_stays_the_only_one)
{
    struct ib_message rep = {.rep = {.qpn = 9}};
    struct ib_end *others[LISTENERS];
    struct ib_news news = {.end = NULL};
    int inbox;

    open_port();
    for (int i = 0; i < LISTENERS; i++)
        others[i] = listen_in(IB_SPACE_UDP);
    port.listener = listen_in(IB_SPACE_TCP);
    for (int i = 0; i < LISTENERS; i++) /* malloc caches a limited number of freed blocks of this size */
        ib_port_leave(others[i]);
    ck_assert(asks(IB_REQ, 0, &news) && news.requested);
    ib_port_adopt(news.end, some_user());
    ck_assert_int_eq(ib_port_accept(news.end, &rep), 0);
    ib_port_leave(port.listener);
    ck_assert(news.end->has_inbox);
    inbox = news.end->inbox;
    for (int i = 0; i < LISTENERS; i++)
        others[i] = listen_in(IB_SPACE_TCP);
    for (int i = 0; i < LISTENERS; i++)
        ib_port_leave(others[i]);
    ck_assert(news.end->has_inbox);
    ck_assert_int_eq(news.end->inbox, inbox);
    ck_assert_uint_eq(ib_port.kept_open, 1);
    ib_port_leave(news.end);
    ck_assert_uint_eq(ib_port.kept_open, 0);
    ck_assert_int_eq(fcntl(inbox, F_GETFD), -1);
    ck_assert_uint_eq(ib_port.ends, 0);
}
END_TEST

static struct ib_end *asks_only(void)
{
    struct ib_message rep = {.rep = {.qpn = 9}};
    struct ib_news news = {.end = NULL};

    ck_assert(asks(IB_REQ, 0, &news) && news.requested);
    ib_port_adopt(news.end, some_user());
    ck_assert_int_eq(ib_port_accept(news.end, &rep), 0);
    return news.end;
}

/* The last inbox that may stay open is for an endpoint whose peer may not have received the reply (no RTU yet), not for
 * an established one. */
START_TEST(doors_give_way)
{
    struct ib_end *before, *connected, *behind;

    open_port();
    port.listener = listen_in(IB_SPACE_TCP);
    before = _i == 0 ? asks_only() : NULL;
    connected = connects(0);
    behind = _i == 1 ? asks_only() : NULL;
    ib_port.kept_open = IB_KEPT_OPEN_MAX - 1;
    ib_port_leave(port.listener);
    ck_assert(_i == 2 ? connected->has_inbox : !connected->has_inbox);
    ck_assert(before == NULL || before->has_inbox);
    ck_assert(behind == NULL || behind->has_inbox);
    ck_assert_uint_eq(ib_port.kept_open, IB_KEPT_OPEN_MAX);
    for (struct ib_conn *conn; (conn = LIST_FIRST(&ib_port.world.conns)) != NULL;)
        ib_end_free((struct ib_end *)conn);
    ck_assert_uint_eq(ib_port.kept_open, IB_KEPT_OPEN_MAX - 1);
    ib_port.kept_open = 0;
    ck_assert_uint_eq(ib_port.ends, 0);
}
END_TEST

/* At the limit the inbox of an established connection is closed in favour of an endpoint with a SIDR_REP, which may
 * have been lost; and that of the oldest SIDR_REP in favour of an endpoint without an RTU. Endpoints of the same kind
 * do not replace each other. */
START_TEST(doors_of_answers_give_way)
{
    struct ib_end *connected, *answers[2], *asked[3];

    open_port();
    port.listener = listen_in(IB_SPACE_TCP);
    connected = connects(0);
    ib_port.kept_open = IB_KEPT_OPEN_MAX - 2;
    ib_port_leave(port.listener);
    ck_assert(connected->has_inbox);
    port.listener = listen_in(IB_SPACE_UDP);
    for (int i = 0; i < 2; i++)
        answers[i] = looks_up();
    ib_port_leave(port.listener);
    ck_assert(!connected->has_inbox && answers[0]->has_inbox && answers[1]->has_inbox);
    port.listener = listen_in(IB_SPACE_TCP);
    connected = connects(0);
    asked[0] = asks_only();
    ib_port_leave(port.listener);
    ck_assert(asked[0]->has_inbox && answers[1]->has_inbox && !answers[0]->has_inbox && !connected->has_inbox);
    port.listener = listen_in(IB_SPACE_TCP);
    asked[1] = asks_only();
    asked[2] = asks_only(); /* the newest is first in the list */
    ib_port_leave(port.listener);
    ck_assert(asked[0]->has_inbox && asked[2]->has_inbox && !asked[1]->has_inbox && !answers[1]->has_inbox);
    ck_assert_uint_eq(ib_port.kept_open, IB_KEPT_OPEN_MAX);
    for (struct ib_conn *conn; (conn = LIST_FIRST(&ib_port.world.conns)) != NULL;)
        ib_end_free((struct ib_end *)conn);
    ck_assert_uint_eq(ib_port.kept_open, IB_KEPT_OPEN_MAX - 2);
    ib_port.kept_open = 0;
    ck_assert_uint_eq(ib_port.ends, 0);
}
END_TEST

/* Another process passes on a message that it has received. */
static void is_passed_on(const struct ib_message *message)
{
    const struct ib_pass_name name = ib_pass_to_listener(IB_SPACE_TCP, &port.path.local, htons(PORT));
    uint8_t mad[IB_MAD_BYTES];

    ib_encode(message, mad);
    ck_assert_int_eq(ib_pass_on(&name, &port.path, mad), IB_PASSED);
}

/* Two messages wait at a listener's inbox. To make room for the first, an endpoint is dropped and its inbox closed; the
 * second message is processed, too. */
START_TEST(a_door_is_closed_while_another_is_heard)
{
    struct ib_news news = {.end = NULL};
    struct epoll_event event;
    struct ib_message req;
    struct ib_end *kept;

    open_port();
    ib_port.epoll = fds_epoll();
    ck_assert_int_ne(ib_port.epoll, -1);
    for (int i = 0; i < 2; i++) {
        port.listener = listen_in(IB_SPACE_TCP);
        ck_assert(port.listener->has_inbox);
        kept = connects(0);
        if (i == 0)
            ib_port_leave(port.listener);
        ck_assert(i == 0 ? kept->has_inbox : !kept->has_inbox);
        ib_port_leave(kept);
        port.now += SECOND;
    }
    port.first = ib_port.ends;
    ib_port.ends = IB_ENDS_MAX;
    for (int i = 0; i < 2; i++) {
        req = request(IB_REQ, 0);
        is_passed_on(&req);
    }
    while (epoll_wait(ib_port.epoll, &event, 1, 0) == 1) /* as in the service thread */
        ib_hear(event.data.fd);
    ck_assert_uint_eq(ib_port.kept_open, 0);
    for (int i = 0; i < 2; i++)
        ck_assert(ib_port_next(&port.box, &news) && news.requested);
    for (struct ib_conn *conn; (conn = LIST_FIRST(&ib_port.world.conns)) != NULL;)
        ib_end_free((struct ib_end *)conn);
    ib_port_leave(port.listener);
    ck_assert_uint_eq(ib_port.ends, IB_ENDS_MAX - port.first);
    fds_close(ib_port.epoll);
    ib_port.epoll = -1;
}
END_TEST

START_TEST(one_is_small)
{
    ck_assert_uint_le(sizeof(struct ib_end), KEPT_BYTES);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("InfiniBand's ends of a process");
    TCase *tcase = new_case(suite, "ends");

    tcase_set_timeout(tcase, 60);
    tcase_add_test(tcase, what_is_waited_out_gives_way);
    tcase_add_test(tcase, an_end_that_is_not_answered_gives_way);
    tcase_add_test(tcase, a_kept_answer_gives_way);
    tcase_add_loop_test(tcase, what_is_kept_does_not_grow, 0, 2);
    tcase_add_test(tcase, a_door_stays_the_only_one);
    tcase_add_loop_test(tcase, doors_give_way, 0, 3);
    tcase_add_test(tcase, doors_of_answers_give_way);
    tcase_add_test(tcase, a_door_is_closed_while_another_is_heard);
    tcase_add_test(tcase, one_is_small);
    return run_suite(suite);
}
