/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * test_ib_connect.c - the software device connects to a peer that answers like an adapter, with InfiniBand's connection
 * management at queue pair 1 (ibpeer.h), while it also tries TCP.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <sched.h>
#include <string.h>
#include <unistd.h>
#include "check/support/ibpeer.h"
#include "core/base/clock.h"
#include "soft/cm/cm_id.h"
#include "soft/cm/ib_address.h"
#include "soft/cm/ib_end.h"
#include "soft/lock.h"

/* ---- Connecting ---- */

START_TEST(connects)
{
    struct rdma_cm_id *id = resolve_id();
    struct ib_message req = peer_is_asked(id), rep = peer_reply(), message;
    union soft_addr from, to;
    enum ib_space space;
    struct rdma_cm_event *event;
    uint8_t data[196];
    uint16_t port;

    ck_assert(ib_service_port(req.req.service, &space, &port));
    ck_assert_int_eq(space, IB_SPACE_TCP);
    ck_assert_uint_eq(port, PORT);
    ck_assert(ib_address_decode(&from, &to, req.private_data));
    ck_assert(ib_same_address(&from, &peer.path.remote) && ib_same_address(&to, &peer.path.local));
    ck_assert_uint_ne(from.in.sin_port, 0);
    ck_assert_mem_eq(req.private_data + IB_ADDRESS_BYTES, "hi\0", 3);
    ck_assert_uint_eq(req.req.qpn, id->qp->qp_num);
    ck_assert_uint_eq(req.req.mtu, IBV_MTU_1024);
    ck_assert_uint_eq(req.req.retry_count, 4);
    ck_assert_uint_eq(req.req.rnr_retry_count, 3);
    peer_says(&rep);
    event = next_event(RDMA_CM_EVENT_ESTABLISHED);
    peer_fill(data, sizeof data);
    ck_assert_uint_eq(event->param.conn.private_data_len, sizeof data);
    ck_assert_mem_eq(event->param.conn.private_data, data, sizeof data);
    ck_assert_int_eq(soft_ack_cm_event(event), 0);
    message = peer_hears(IB_RTU);
    ck_assert_uint_eq(message.remote_id, NUMBER);
    peer_says(&rep); /* the peer lost the RTU */
    peer_hears(IB_RTU);
    ck_assert_int_eq(soft_disconnect(id), 0);
    message = peer_hears(IB_DREQ);
    ck_assert_uint_eq(message.dreq.qpn, IBWORDS_QPN);
    ck_assert_uint_eq(message.remote_id, NUMBER);
    end_id(id);
    peer_hears(IB_DREQ); /* is repeated until it is answered, although the identifier was destroyed */
    message = peer_answer(IB_DREP);
    peer_says(&message);
}
END_TEST

/* ---- Disconnecting ---- */

static struct rdma_cm_id *connect_id(void)
{
    struct rdma_cm_id *id = resolve_id();
    struct ib_message rep;

    (void)peer_is_asked(id);
    rep = peer_reply();
    peer_says(&rep);
    ck_assert_int_eq(status_of(RDMA_CM_EVENT_ESTABLISHED), 0);
    peer_hears(IB_RTU);
    return id;
}

/* As if the service thread had sent the last DREQ, and no answer had arrived. */
static void nobody_answers(struct rdma_cm_id *id)
{
    struct ib_conn *conn = &((struct cm_id *)(void *)id)->ib->conn;

    soft_mutex_lock(&ib_port.lock);
    conn->early = UINT_MAX;
    conn->tries_left = 0;
    conn->due = now_ns();
    service_task_due(conn->due);
    soft_mutex_unlock(&ib_port.lock);
}

enum end { ANSWERED, LOST, AT_ONCE, REFUSED, IN_VAIN, ENDS };

/* Any answer of the peer ends the connection; without an answer it ends with a timeout. DISCONNECTED is not delivered
 * before. */
START_TEST(the_peer_ends_it)
{
    struct rdma_cm_id *id = connect_id();
    struct ib_message message;

    ck_assert_int_eq(soft_disconnect(id), 0);
    ck_assert_int_eq(id->qp->state, IBV_QPS_ERR); /* no message is received from here on */
    peer_hears(IB_DREQ);
    no_event();
    ck_assert_int_eq(soft_disconnect(id), 0);
    if (_i == LOST)
        peer_hears(IB_DREQ);
    no_event();
    message = peer_answer(_i == AT_ONCE ? IB_DREQ : _i == REFUSED ? IB_REJ : IB_DREP);
    if (_i == AT_ONCE)
        message.dreq.qpn = id->qp->qp_num;
    if (_i == REFUSED)
        message.rej.reason = IB_STALE;
    if (_i == IN_VAIN)
        nobody_answers(id);
    else
        peer_says(&message);
    ck_assert_int_eq(status_of(RDMA_CM_EVENT_DISCONNECTED), _i == IN_VAIN ? -ETIMEDOUT : 0);
    if (_i == AT_ONCE)
        peer_hears(IB_DREP);
    ck_assert_int_eq(soft_disconnect(id), 0);
    no_event();
    end_id(id);
}
END_TEST

/* The peer has exited after an answer that was lost, and its host reports "port unreachable": the connection ends as if
 * the answer had arrived. */
START_TEST(the_peer_has_gone)
{
    struct rdma_cm_id *id = connect_id();

    ck_assert_int_eq(soft_disconnect(id), 0);
    peer_hears(IB_DREQ);
    close(peer.fd);
    ck_assert_int_eq(status_of(RDMA_CM_EVENT_DISCONNECTED), 0);
    no_event();
    ck_assert_int_eq(soft_disconnect(id), 0);
    no_event();
    end_id(id);
    peer_open();
}
END_TEST

/* The event is delivered to the channel that the identifier was moved to; without a channel rdma_disconnect() waits for
 * it. */
START_TEST(moved_meanwhile)
{
    struct rdma_event_channel *first = channel, *second = soft_create_event_channel();
    struct rdma_cm_id *id = connect_id();
    struct ib_message drep = peer_answer(IB_DREP);

    ck_assert_int_eq(soft_disconnect(id), 0);
    ck_assert_int_eq(soft_migrate_id(id, _i == 0 ? second : NULL), 0);
    peer_hears(IB_DREQ);
    peer_says(&drep);
    if (_i == 0) {
        channel = second;
        ck_assert_int_eq(status_of(RDMA_CM_EVENT_DISCONNECTED), 0);
        channel = first;
    } else {
        ck_assert_int_eq(soft_disconnect(id), 0);
        ck_assert_int_eq(id->event->event, RDMA_CM_EVENT_DISCONNECTED);
    }
    end_id(id);
    soft_destroy_event_channel(second);
}
END_TEST

/* Neither a TCP listener nor a socket at RoCE's port exists: the host reports both at once. */
START_TEST(nobody_is_there)
{
    struct rdma_conn_param param = {.retry_count = 7};
    struct rdma_cm_id *id = resolve_bound();

    close(peer.fd);
    ck_assert_int_eq(soft_connect(id, &param), 0);
    ck_assert_int_eq(status_of(RDMA_CM_EVENT_REJECTED), 8);
    end_id(id);
    peer_open();
}
END_TEST

static const struct {
    uint16_t reason;
    int status;
} refusals[] = {{IB_CONSUMER, 28}, {IB_INVALID_SERVICE, 8}, {IB_STALE, 10}, {0, 28}};

START_TEST(is_refused)
{
    struct rdma_cm_id *id = resolve_id();
    struct rdma_cm_event *event;
    struct ib_message rej;

    if (refusals[_i].reason == IB_INVALID_SERVICE) {
        end_id(id);
        id = resolve_bound();
    }
    (void)peer_is_asked(id);
    rej = peer_answer(IB_REJ);
    rej.local_id = 0;
    rej.rej.reason = refusals[_i].reason;
    peer_fill(rej.private_data, 148);
    peer_says(&rej);
    event = next_event(RDMA_CM_EVENT_REJECTED);
    ck_assert_int_eq(event->status, refusals[_i].status);
    ck_assert_uint_eq(event->param.conn.private_data_len, 148);
    ck_assert_uint_eq(((const uint8_t *)event->param.conn.private_data)[147], 148);
    ck_assert_int_eq(soft_ack_cm_event(event), 0);
    end_id(id);
}
END_TEST

/* ---- TCP that is not answered ---- */

static int socket_of(struct rdma_cm_id *id)
{
    return ((struct cm_id *)(void *)id)->fd;
}

/* Waits until an answer from queue pair 1 was received. */
static void await_heard(struct rdma_cm_id *id)
{
    while (!cm_ib_is_heard((struct cm_id *)(void *)id))
        sched_yield(); /* lets the service thread run */
}

/* The peer received only its REQ again, which is repeated until it is answered. */
static void peer_has_requests_only(void)
{
    struct pollfd one = {.fd = peer.fd, .events = POLLIN};

    while (poll(&one, 1, 0) == 1)
        ck_assert_uint_eq(peer_hears_any().type, IB_REQ);
}

/* Connects to a peer that is known to be reached at queue pair 1, where the REQ is sent first. The test does not drive
 * the channel, so the device does not start TCP in parallel, however long this takes. */
static void peer_is_asked_first(struct rdma_cm_id *id)
{
    struct rdma_conn_param param = {.responder_resources = 1, .initiator_depth = 1, .retry_count = 7};
    struct ib_message req;

    ck_assert_int_eq(soft_connect(id, &param), 0);
    req = peer_hears(IB_REQ);
    peer.number = req.local_id;
    peer.transaction = req.transaction;
}

/* TCP is tried alone for its head start only; when queue pair 1 has answered, it ends. */
START_TEST(tcp_is_dropped)
{
    struct rdma_cm_id *id = resolve_bound();
    struct wall wall = wall_open();
    uint64_t before = now_ns(), after;
    struct ib_message rep;

    (void)peer_is_asked(id);
    after = now_ns();
    ck_assert_uint_ge(after - before, UINT64_C(250000000));
    ck_assert_uint_le(after - before, UINT64_C(15000000000));
    ck_assert_int_ne(socket_of(id), -1);
    rep = peer_reply();
    peer_says(&rep);
    ck_assert_int_eq(status_of(RDMA_CM_EVENT_ESTABLISHED), 0);
    peer_hears(IB_RTU);
    ck_assert_int_eq(socket_of(id), -1);
    end_id(id);
    peer_hears(IB_DREQ);
    wall_close(&wall);
    /* The next connection uses queue pair 1 at once. */
    id = resolve_bound();
    peer_is_asked_first(id);
    ck_assert_int_eq(socket_of(id), -1);
    end_id(id);
    ck_assert_uint_eq(peer_hears(IB_REJ).rej.reason, IB_TIMEOUT);
}
END_TEST

/* A host that refused TCP is tried by TCP first the next time, too, because its server may have been restarted. */
START_TEST(tcp_refused_once)
{
    struct rdma_cm_id *id = resolve_bound();
    struct ib_message rep;
    struct wall wall;
    uint64_t before;

    (void)peer_is_asked(id);
    rep = peer_reply();
    peer_says(&rep);
    ck_assert_int_eq(status_of(RDMA_CM_EVENT_ESTABLISHED), 0);
    peer_hears(IB_RTU);
    end_id(id);
    peer_hears(IB_DREQ);
    rep = peer_answer(IB_DREP);
    peer_says(&rep);
    wall = wall_open();
    id = resolve_bound();
    before = now_ns();
    (void)peer_is_asked(id);
    ck_assert_uint_ge(now_ns() - before, UINT64_C(250000000));
    ck_assert_int_ne(socket_of(id), -1);
    end_id(id);
    wall_close(&wall);
}
END_TEST

/* TCP is answered later: the device withdraws its REQ at queue pair 1, or that was already rejected because no such
 * listener exists there. */
START_TEST(tcp_is_late)
{
    struct rdma_cm_id *id = resolve_bound();
    struct wall wall = wall_open();
    uint8_t bytes[CM_SIZE_MAX];
    struct ib_message rej;
    int guest;

    (void)peer_is_asked(id);
    if (_i == 1) {
        rej = peer_answer(IB_REJ);
        rej.local_id = 0;
        rej.rej.reason = IB_INVALID_SERVICE;
        peer_says(&rej);
        await_heard(id);
        peer_has_requests_only();
    }
    wall_opens(&wall);
    await_fd(wall.listener);
    guest = accept(wall.listener, NULL, NULL);
    ck_assert_int_ne(guest, -1);
    await_fd(guest);
    ck_assert_int_gt(recv(guest, bytes, sizeof bytes, 0), CM_HEADER);
    ck_assert_int_gt(cm_message_size(bytes, CM_HEADER), 0);
    if (_i == 0) {
        rej = peer_hears(IB_REJ);
        ck_assert_uint_eq(rej.rej.reason, IB_TIMEOUT);
        ck_assert_uint_eq(rej.local_id, peer.number);
        ck_assert_uint_eq(rej.rej.info_length, 8);
    } else {
        peer_hears_nothing();
    }
    close(guest);
    ck_assert_int_eq(status_of(RDMA_CM_EVENT_UNREACHABLE), -ECONNRESET);
    end_id(id);
    wall_close(&wall);
}
END_TEST

/* TCP fails while the REQ at queue pair 1 is not answered yet. */
START_TEST(tcp_fails_late)
{
    struct rdma_cm_id *id = resolve_bound();
    struct wall wall = wall_open();
    struct ib_message rep;

    (void)peer_is_asked(id);
    wall_close(&wall); /* the host refuses the repeated SYN */
    ck_assert_int_eq(fcntl(channel->fd, F_SETFL, O_NONBLOCK), 0);
    while (socket_of(id) != -1) {
        struct pollfd one = {.fd = channel->fd, .events = POLLIN};
        struct rdma_cm_event *event;

        ck_assert_int_eq(poll(&one, 1, PATIENCE_MS), 1);
        ck_assert_int_eq(soft_get_cm_event(channel, &event), -1);
    }
    ck_assert_int_eq(fcntl(channel->fd, F_SETFL, 0), 0);
    rep = peer_reply();
    peer_says(&rep);
    ck_assert_int_eq(status_of(RDMA_CM_EVENT_ESTABLISHED), 0);
    peer_hears(IB_RTU);
    end_id(id);
    peer_hears(IB_DREQ);
}
END_TEST

/* If a peer answers TCP (the software device), no packet is sent to queue pair 1, however long the reply takes. */
START_TEST(tcp_is_answered)
{
    struct rdma_conn_param param = {.retry_count = 7};
    struct rdma_cm_id *id = resolve_bound();
    struct wall wall = wall_open();
    struct pollfd fds[] = {{.fd = peer.fd, .events = POLLIN}, {.fd = channel->fd, .events = POLLIN}};
    uint64_t until = now_ns() + UINT64_C(700000000);
    struct rdma_cm_event *event;

    wall_opens(&wall);
    ck_assert_int_eq(soft_connect(id, &param), 0);
    ck_assert_int_eq(fcntl(channel->fd, F_SETFL, O_NONBLOCK), 0);
    while (now_ns() < until) {
        (void)poll(fds, 2, 50);
        ck_assert_int_eq(fds[0].revents, 0);
        ck_assert_int_eq(soft_get_cm_event(channel, &event), -1);
    }
    ck_assert_int_eq(fcntl(channel->fd, F_SETFL, 0), 0);
    end_id(id);
    peer_hears_nothing();
    wall_close(&wall);
}
END_TEST

/* ---- Hosts that do not answer ---- */

/* Lets the current timeout expire. */
static void time_is_up(struct rdma_cm_id *public)
{
    struct cm_id *id = (struct cm_id *)(void *)public;
    struct cm_channel *own = cm_lock(id);

    ck_assert_int_ne(id->timeout, CM_NO_TIMEOUT);
    id->deadline = now_ns();
    waitset_time(&own->waits, id->deadline);
    cm_unlock(own);
}

static enum cm_timeout waits_for(struct rdma_cm_id *id)
{
    return ((struct cm_id *)(void *)id)->timeout;
}

/* TCP is refused, so the host exists. If queue pair 1 has not answered after TCP's timeout, the connection is rejected;
 * the longer timeout for an application's decision does not apply. */
START_TEST(tcp_alone_says_no)
{
    struct rdma_cm_id *id = resolve_bound();
    struct rdma_cm_event *event;

    (void)peer_is_asked(id);
    ck_assert_int_eq(waits_for(id), CM_TIMEOUT_TCP);
    time_is_up(id);
    event = next_event(RDMA_CM_EVENT_REJECTED);
    ck_assert_int_eq(event->status, 8);
    ck_assert_int_eq(soft_ack_cm_event(event), 0);
    ck_assert_uint_eq(peer_hears(IB_REJ).rej.reason, IB_TIMEOUT);
    end_id(id);
}
END_TEST

/* An application that has been announced by an MRA may take its time, but not for ever. */
START_TEST(a_user_thinks)
{
    struct rdma_cm_id *id = resolve_bound();
    struct ib_message mra, rep;
    struct rdma_cm_event *event;

    (void)peer_is_asked(id);
    mra = peer_answer(IB_MRA);
    mra.mra.answered = IB_TO_REQ;
    mra.mra.service_time = 24;
    peer_says(&mra);
    await_heard(id);
    time_is_up(id);
    ck_assert_int_eq(fcntl(channel->fd, F_SETFL, O_NONBLOCK), 0);
    while (waits_for(id) != CM_TIMEOUT_HANDSHAKE) {
        ck_assert_int_eq(soft_get_cm_event(channel, &event), -1);
        ck_assert_int_eq(errno, EAGAIN);
    }
    ck_assert_int_eq(fcntl(channel->fd, F_SETFL, 0), 0);
    if (_i == 0) {
        rep = peer_reply();
        peer_says(&rep);
        ck_assert_int_eq(status_of(RDMA_CM_EVENT_ESTABLISHED), 0);
        peer_hears(IB_RTU);
    } else {
        time_is_up(id);
        ck_assert_int_eq(status_of(RDMA_CM_EVENT_UNREACHABLE), -ETIMEDOUT);
    }
    end_id(id);
}
END_TEST

/* A host that was reached only at queue pair 1 before: `_i` 0: is another host now, which drops that and answers TCP;
 * 1: no longer exists; 2: is the same, but slow, and has not received the TCP request. */
START_TEST(the_host_is_another)
{
    struct rdma_cm_id *id = resolve_bound();
    struct wall wall = wall_open();
    struct ib_message rep;
    int guest;

    (void)peer_is_asked(id);
    rep = peer_reply();
    peer_says(&rep);
    ck_assert_int_eq(status_of(RDMA_CM_EVENT_ESTABLISHED), 0);
    peer_hears(IB_RTU);
    end_id(id);
    peer_hears(IB_DREQ);
    if (_i == 0)
        wall_opens(&wall);
    id = resolve_bound();
    peer_is_asked_first(id);
    ck_assert_int_eq(socket_of(id), -1);
    ck_assert_int_eq(waits_for(id), CM_TIMEOUT_HEAD_START);
    if (_i == 0) {
        await_fd(wall.listener);
        guest = accept(wall.listener, NULL, NULL);
        ck_assert_int_ne(guest, -1);
        await_fd(guest);
        ck_assert_uint_eq(peer_hears(IB_REJ).rej.reason, IB_TIMEOUT); /* withdrawn */
        close(guest);
        ck_assert_int_eq(status_of(RDMA_CM_EVENT_UNREACHABLE), -ECONNRESET);
    } else {
        time_is_up(id);
        ck_assert_int_eq(fcntl(channel->fd, F_SETFL, O_NONBLOCK), 0);
        while (waits_for(id) != CM_TIMEOUT_TCP) {
            struct rdma_cm_event *event;

            ck_assert_int_eq(soft_get_cm_event(channel, &event), -1);
        }
        ck_assert_int_eq(fcntl(channel->fd, F_SETFL, 0), 0);
        ck_assert_int_ne(socket_of(id), -1);
    }
    if (_i == 1) {
        time_is_up(id);
        ck_assert_int_eq(status_of(RDMA_CM_EVENT_UNREACHABLE), -ETIMEDOUT);
        ck_assert_uint_eq(peer_hears(IB_REJ).rej.reason, IB_TIMEOUT);
    } else if (_i == 2) {
        rep = peer_reply();
        rep.local_id++; /* another connection */
        rep.rep.qpn++;
        peer_says(&rep);
        ck_assert_int_eq(status_of(RDMA_CM_EVENT_ESTABLISHED), 0);
        peer_hears(IB_RTU);
        ck_assert_int_eq(socket_of(id), -1);
    }
    end_id(id);
    wall_close(&wall);
}
END_TEST

static Suite *suite(void)
{
    Suite *suite = suite_create("whoever connects to adapters");
    TCase *tcase = ib_case(suite, "whoever connects to adapters");

    tcase_add_test(tcase, connects);
    tcase_add_loop_test(tcase, the_peer_ends_it, 0, ENDS);
    tcase_add_test(tcase, the_peer_has_gone);
    tcase_add_loop_test(tcase, moved_meanwhile, 0, 2);
    tcase_add_test(tcase, nobody_is_there);
    tcase_add_loop_test(tcase, is_refused, 0, 4);
    tcase_add_test(tcase, tcp_is_dropped);
    tcase_add_test(tcase, tcp_refused_once);
    tcase_add_loop_test(tcase, tcp_is_late, 0, 2);
    tcase_add_test(tcase, tcp_fails_late);
    tcase_add_test(tcase, tcp_is_answered);
    tcase_add_test(tcase, tcp_alone_says_no);
    tcase_add_loop_test(tcase, a_user_thinks, 0, 2);
    tcase_add_loop_test(tcase, the_host_is_another, 0, 3);
    return suite;
}

int main(void)
{
    return ib_main(suite);
}
