/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * test_ib_cm.c - a listener of the software device and a peer that requests connections like an adapter, with
 * InfiniBand's connection management at queue pair 1 (ibpeer.h).
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include "check/support/ibpeer.h"
#include "check/support/roce.h"
#include "soft/cm/cm_id.h"
#include "soft/cm/ib_address.h"
#include "soft/cm/ib_end.h"
#include "soft/link/icrc.h"
#include "soft/verbs/verbs.h"

#define AT_ONCE 64 /* maximum number of requests that are processed for one event */

static void await_wakefd(struct rdma_event_channel *rings)
{
    struct pollfd one = {.fd = rings->fd, .events = POLLIN};

    ck_assert_int_eq(poll(&one, 1, PATIENCE_MS), 1);
}

START_TEST(accepted)
{
    struct rdma_cm_id *listener = listen_at(_i == 0 ? TWONETS_NEAR : "0.0.0.0"), *id;
    struct rdma_conn_param param = {.private_data = "hello", .private_data_len = 5, .initiator_depth = 1};
    struct ib_message req = peer_request(PORT), rep, again, message;
    const struct rdma_conn_param *got;
    struct rdma_cm_event *event;
    uint8_t data[56];

    /* The numbers of the connection stay reserved this long after its end: a minute. */
    req.req.ack_timeout = 24;
    peer_says(&req);
    event = next_event(RDMA_CM_EVENT_CONNECT_REQUEST);
    id = event->id;
    got = &event->param.conn;
    peer_fill(data, sizeof data);
    ck_assert_uint_eq(got->private_data_len, sizeof data);
    ck_assert_mem_eq(got->private_data, data, sizeof data);
    ck_assert_uint_eq(got->qp_num, IBWORDS_QPN);
    ck_assert_uint_eq(got->responder_resources, 2);
    ck_assert_uint_eq(got->initiator_depth, 3);
    ck_assert_uint_eq(got->retry_count, 5);
    ck_assert_uint_eq(got->rnr_retry_count, 6);
    ck_assert_ptr_eq(event->listen_id, listener);
    ck_assert_int_eq(soft_ack_cm_event(event), 0);
    ck_assert_uint_eq(id->route.addr.dst_sin.sin_addr.s_addr, peer.path.local.in.sin_addr.s_addr);
    ck_assert_uint_eq(ntohs(id->route.addr.dst_sin.sin_port), 5000);
    ck_assert_uint_eq(ntohs(id->route.addr.src_sin.sin_port), PORT);
    /* A REQ that is repeated before the application has answered is answered with an MRA. */
    peer_says(&req);
    message = peer_hears(IB_MRA);
    ck_assert_uint_eq(message.remote_id, NUMBER);
    make_id_qp(id);
    ck_assert_int_eq(soft_accept(id, &param), 0);
    rep = peer_hears(IB_REP);
    ck_assert_uint_eq(rep.transaction, 5);
    ck_assert_uint_eq(rep.remote_id, NUMBER);
    ck_assert_uint_eq(rep.rep.qpn, id->qp->qp_num);
    ck_assert_uint_eq(rep.rep.initiator_depth, 1);
    ck_assert_mem_eq(rep.private_data, "hello\0", 6);
    peer_says(&req);
    again = peer_hears(IB_REP);
    ck_assert_mem_eq(&again, &rep, sizeof rep);
    peer.number = rep.local_id;
    message = peer_answer(IB_RTU);
    peer_says(&message);
    ck_assert_int_eq(status_of(RDMA_CM_EVENT_ESTABLISHED), 0);
    ck_assert_int_eq(id->qp->state, IBV_QPS_RTS);
    message = peer_answer(IB_DREQ);
    message.transaction = 6;
    message.dreq.qpn = id->qp->qp_num;
    peer_says(&message);
    ck_assert_uint_eq(peer_hears(IB_DREP).transaction, 6);
    ck_assert_int_eq(status_of(RDMA_CM_EVENT_DISCONNECTED), 0);
    end_id(id);
    /* The endpoint is still in timewait. */
    peer_says(&message);
    peer_hears(IB_DREP);
    peer_says(&req);
    ck_assert_uint_eq(peer_hears(IB_REJ).rej.reason, IB_STALE);
    end_id(listener);
}
END_TEST

/* rdma_disconnect(): the DISCONNECTED event is delivered when the peer has answered. If the peer has not sent its RTU
 * yet, the event is delivered at once, and the peer gets a REJ. */
START_TEST(hangs_up)
{
    struct rdma_cm_id *listener = listen_at(TWONETS_NEAR), *id;
    struct ib_message req = peer_request(PORT), message;

    peer_says(&req);
    id = take_request();
    make_id_qp(id);
    ck_assert_int_eq(soft_accept(id, NULL), 0);
    peer.number = peer_hears(IB_REP).local_id;
    if (_i == 1) {
        ck_assert_int_eq(soft_disconnect(id), 0);
        ck_assert_int_eq(status_of(RDMA_CM_EVENT_DISCONNECTED), 0);
        ck_assert_uint_eq(peer_hears(IB_REJ).rej.reason, IB_CONSUMER);
        end_id(id);
        end_id(listener);
        return;
    }
    message = peer_answer(IB_RTU);
    peer_says(&message);
    if (_i == 0) /* otherwise the channel is not read before the end */
        ck_assert_int_eq(status_of(RDMA_CM_EVENT_ESTABLISHED), 0);
    else
        await_wakefd(channel);
    ck_assert_int_eq(soft_disconnect(id), 0);
    ck_assert_int_eq(((struct cm_id *)(void *)id)->timeout, CM_NO_TIMEOUT);
    message = peer_hears(IB_DREQ);
    ck_assert_uint_eq(message.dreq.qpn, IBWORDS_QPN);
    no_event();
    message = peer_answer(IB_DREP);
    peer_says(&message);
    ck_assert_int_eq(status_of(RDMA_CM_EVENT_DISCONNECTED), 0);
    no_event();
    end_id(id);
    end_id(listener);
}
END_TEST

/* Sends the packet with its BTH and ICRC. */
static void sends_packet(struct roce roce, uint32_t qpn, unsigned opcode, uint32_t psn)
{
    uint8_t packet[ROCE_MAX];
    struct icrc_flow flow;
    size_t length;

    roce.opcode = (uint8_t)opcode;
    roce.migreq = true;
    roce.pkey = 0xffff;
    roce.qpn = qpn;
    roce.psn = psn & 0xffffff;
    length = roce_write(packet, &roce);
    icrc_flow_init(&flow, &peer.path, true);
    icrc_store(packet + length, icrc_compute(&flow, 0, packet, length));
    length += ICRC_SIZE;
    ck_assert_int_eq(sendto(peer.fd, packet, length, 0, &peer.path.remote.sa, sizeof peer.path.remote.in),
                     (ssize_t)length);
}

/* Sends one packet of a message; its payload is zeros. */
static void sends(uint32_t qpn, unsigned opcode, uint32_t psn)
{
    static const uint8_t zeros[1024];

    sends_packet((struct roce){.payload = zeros, .payload_length = sizeof zeros}, qpn, opcode, psn);
}

static void hears(unsigned opcode, unsigned syndrome, uint32_t psn)
{
    struct pollfd one = {.fd = peer.fd, .events = POLLIN};
    uint8_t packet[ROCE_MAX];
    struct roce roce;
    ssize_t got;

    ck_assert_int_eq(poll(&one, 1, PATIENCE_MS), 1);
    got = recv(peer.fd, packet, sizeof packet, 0);
    ck_assert(roce_read(&roce, packet, (size_t)got - ICRC_SIZE));
    ck_assert_uint_eq(roce.opcode, opcode);
    ck_assert_uint_eq(roce.qpn, IBWORDS_QPN);
    ck_assert_uint_eq(roce.syndrome, syndrome);
    ck_assert_uint_eq(roce.psn, psn & 0xffffff);
}

static void hears_answer(unsigned syndrome, uint32_t psn)
{
    hears(ACKNOWLEDGE, syndrome, psn);
}

/* Accepts the peer's connection and completes the handshake. Returns the REP. */
static struct ib_message connect_peer(struct rdma_cm_id *id)
{
    struct ib_message rep, message;

    ck_assert_int_eq(soft_accept(id, NULL), 0);
    rep = peer_hears(IB_REP);
    peer.number = rep.local_id;
    message = peer_answer(IB_RTU);
    peer_says(&message);
    ck_assert_int_eq(status_of(RDMA_CM_EVENT_ESTABLISHED), 0);
    return rep;
}

/* Packets before a gap are acknowledged by an ACK of their own, because an adapter restarts its retry counter on an ACK
 * and not on a NAK. */
START_TEST(progress_before_a_gap)
{
    static uint8_t memory[8192];
    struct rdma_cm_id *listener = listen_at(TWONETS_NEAR), *id;
    struct ib_message req = peer_request(PORT), rep;
    struct ibv_sge sge = {(uintptr_t)memory, sizeof memory, 0};
    struct ibv_recv_wr wr = {.sg_list = &sge, .num_sge = 1}, *bad;
    struct ibv_mr *mr;

    peer_says(&req);
    id = take_request();
    make_id_qp(id);
    mr = soft_reg_mr(id->qp->pd, memory, sizeof memory, IBV_ACCESS_LOCAL_WRITE);
    ck_assert_ptr_nonnull(mr);
    sge.lkey = mr->lkey;
    ck_assert_int_eq(ibv_post_recv(id->qp, &wr, &bad), 0);
    rep = connect_peer(id);
    sends(rep.rep.qpn, SEND_FIRST, rep.rep.psn);
    sends(rep.rep.qpn, SEND_MIDDLE, rep.rep.psn + 2);
    hears_answer(SYNDROME_ACK, rep.rep.psn);
    hears_answer(SYNDROME_SEQUENCE, rep.rep.psn + 1);
    sends(rep.rep.qpn, SEND_MIDDLE, rep.rep.psn + 1);
    sends(rep.rep.qpn, SEND_MIDDLE, rep.rep.psn + 3);
    hears_answer(SYNDROME_ACK, rep.rep.psn + 1);
    hears_answer(SYNDROME_SEQUENCE, rep.rep.psn + 2);
    end_id(id);
    ck_assert_int_eq(soft_dereg_mr(mr), 0);
    end_id(listener);
}
END_TEST

/* A READ before a gap is not acknowledged by an ACK: its response is the acknowledgement, and may arrive after the
 * NAK. */
START_TEST(read_before_a_gap)
{
    static uint8_t memory[64];
    const int access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ;
    struct rdma_cm_id *listener = listen_at(TWONETS_NEAR), *id;
    struct ib_message req = peer_request(PORT), rep;
    struct ibv_mr *mr;
    struct roce read;

    peer_says(&req);
    id = take_request();
    make_id_qp(id);
    mr = soft_reg_mr(id->qp->pd, memory, sizeof memory, access);
    ck_assert_ptr_nonnull(mr);
    read = (struct roce){.va = (uintptr_t)memory, .rkey = mr->rkey, .dma_length = sizeof memory};
    rep = connect_peer(id);
    sends_packet(read, rep.rep.qpn, READ_REQUEST, rep.rep.psn);
    sends_packet(read, rep.rep.qpn, READ_REQUEST, rep.rep.psn + 2);
    hears(READ_RESPONSE_ONLY, SYNDROME_ACK, rep.rep.psn);
    hears_answer(SYNDROME_SEQUENCE, rep.rep.psn + 1);
    end_id(id);
    ck_assert_int_eq(soft_dereg_mr(mr), 0);
    end_id(listener);
}
END_TEST

START_TEST(rejected_with_data)
{
    struct rdma_cm_id *listener = listen_at(TWONETS_NEAR), *id;
    struct ib_message req = peer_request(PORT), rej;

    peer_says(&req);
    id = take_request();
    ck_assert_int_eq(soft_reject(id, "no", 2), 0);
    rej = peer_hears(IB_REJ);
    ck_assert_uint_eq(rej.rej.reason, IB_CONSUMER);
    ck_assert_uint_eq(rej.rej.answered, IB_TO_REQ);
    ck_assert_mem_eq(rej.private_data, "no\0", 3);
    end_id(id);
    /* The application destroys the identifier instead. */
    req.local_id++;
    peer_says(&req);
    end_id(take_request());
    ck_assert_uint_eq(peer_hears(IB_REJ).rej.reason, IB_CONSUMER);
    end_id(listener);
    req.local_id++;
    peer_says(&req);
    ck_assert_uint_eq(peer_hears(IB_REJ).rej.reason, IB_INVALID_SERVICE);
}
END_TEST

/* Requests that are rejected, requests that are ignored, and then a valid one. */
START_TEST(wrong_requests)
{
    struct rdma_cm_id *listener = listen_at("0.0.0.0");
    union soft_addr elsewhere = ib_at("10.9.0.77", 5000), here = ib_at(TWONETS_NEAR, 0);
    struct ib_message req = peer_request(PORT + 1);

    peer_says(&req);
    ck_assert_uint_eq(peer_hears(IB_REJ).rej.reason, IB_INVALID_SERVICE);
    req = peer_request(PORT);
    req.req.service = ib_service(IB_SPACE_UDP, PORT);
    peer_says(&req);
    ck_assert_uint_eq(peer_hears(IB_REJ).rej.reason, IB_INVALID_SERVICE);
    req = peer_request(PORT); /* with the address of another host */
    ib_address_encode(&elsewhere, &here, req.private_data);
    peer_says(&req);
    ck_assert_uint_eq(peer_hears(IB_REJ).rej.reason, IB_CONSUMER);
    req = peer_request(PORT); /* the data path would lead to another host */
    req.req.local_gid[15]++;
    peer_says(&req);
    ck_assert_uint_eq(peer_hears(IB_REJ).rej.reason, IB_CONSUMER);
    req = peer_request(PORT);
    req.req.transport = IB_UC;
    peer_says(&req);
    ck_assert_uint_eq(peer_hears(IB_REJ).rej.reason, IB_CONSUMER);
    req = peer_request(PORT);
    req.req.mtu = IBV_MTU_4096; /* the link's MTU is 1500 bytes */
    peer_says(&req);
    ck_assert_uint_eq(peer_hears_meanwhile(IB_REJ).rej.reason, IB_INVALID_MTU);
    req = peer_request(PORT);
    peer_says_as(&req, IBWORDS_QKEY + 1);
    peer_hears_nothing();
    peer_says(&req);
    end_id(take_request());
    peer_hears(IB_REJ);
    end_id(listener);
}
END_TEST

/* A listener with a backlog of 8 leaves the further requests unanswered, and does not reject them. */
START_TEST(a_flood)
{
    struct rdma_cm_id *listener = listen_at(TWONETS_NEAR);
    struct ib_message req = peer_request(PORT);
    struct rdma_cm_event *event;

    for (int i = 0; i < 40; i++) {
        req.local_id++;
        req.req.qpn++;
        peer_says(&req);
    }
    req = peer_request(PORT + 1); /* when this one is answered, all of the others have been processed */
    peer_says(&req);
    ck_assert_uint_eq(peer_hears(IB_REJ).rej.reason, IB_INVALID_SERVICE);
    for (int i = 0; i < 8; i++) {
        end_id(take_request());
        ck_assert_uint_eq(peer_hears(IB_REJ).rej.reason, IB_CONSUMER);
    }
    peer_hears_nothing();
    ck_assert_int_eq(fcntl(channel->fd, F_SETFL, O_NONBLOCK), 0);
    ck_assert_int_eq(soft_get_cm_event(channel, &event), -1);
    ck_assert_int_eq(errno, EAGAIN);
    end_id(listener);
}
END_TEST

/* Number of requests that the device has processed and the application has not taken. */
static int waiting_at(struct rdma_cm_id *listener)
{
    struct cm_id *own = (struct cm_id *)(void *)listener, *id;
    struct cm_channel *locked = cm_lock(own);
    int count = 0;

    TAILQ_FOREACH (id, &own->children, child)
        count++;
    cm_unlock(locked);
    return count;
}

/* Taking one event does not process all requests that have arrived, and does not create an identifier for each. */
START_TEST(a_flood_is_taken_in_parts)
{
    struct ib_message req = peer_request(PORT), other = peer_request(PORT + 1);
    union soft_addr near = ib_at(TWONETS_NEAR, PORT);
    struct rdma_cm_id *listener;

    ck_assert_int_eq(soft_create_id(channel, &listener, NULL, RDMA_PS_TCP), 0);
    ck_assert_int_eq(soft_bind_addr(listener, &near.sa), 0);
    ck_assert_int_eq(soft_listen(listener, 0), 0); /* with the largest possible backlog */
    for (int i = 1; i <= 300; i++) {
        req.local_id++;
        req.req.qpn++;
        peer_says(&req);
        if (i % 30 != 0)
            continue;
        peer_says(&other); /* when this one is answered, all of the others so far have been processed */
        ck_assert_uint_eq(peer_hears(IB_REJ).rej.reason, IB_INVALID_SERVICE);
    }
    for (int i = 0; i < 2 * AT_ONCE; i++) {
        struct rdma_cm_id *id = take_request();

        ck_assert_int_lt(waiting_at(listener), AT_ONCE);
        ck_assert(i > 0 || waiting_at(listener) > 0);
        end_id(id);
    }
    end_id(listener);
}
END_TEST

/* The communication IDs of some connections do not reveal the next one; each contains only the share that it belongs
 * to. */
START_TEST(numbers_tell_nothing)
{
    struct rdma_cm_id *listener = listen_at(TWONETS_NEAR);
    struct ib_message req = peer_request(PORT), rej;
    uint32_t numbers[3];

    for (int i = 0; i < 3; i++) {
        req.local_id++;
        req.req.qpn++;
        peer_says(&req);
        end_id(take_request());
        rej = peer_hears(IB_REJ); /* a REJ is sent once, while a REP may be repeated */
        ck_assert_uint_eq(rej.remote_id, req.local_id);
        ck_assert_uint_eq(rej.local_id % QP1_SHARES, ib_port.qp1.share);
        numbers[i] = rej.local_id;
    }
    ck_assert_uint_ne(numbers[1] - numbers[0], QP1_SHARES);
    /* Equal by chance once in 2^28 times. */
    ck_assert_uint_ne(numbers[1] - numbers[0], numbers[2] - numbers[1]);
    end_id(listener);
}
END_TEST

/* Each of many listeners gets its requests; a request for a listener that was destroyed is rejected. */
START_TEST(many_listeners)
{
    enum { LISTENERS = 500 };
    struct rdma_cm_id *listeners[LISTENERS];
    struct ib_message req;

    for (unsigned i = 0; i < LISTENERS; i++)
        listeners[i] = listen_on(i % 2 == 0 ? "0.0.0.0" : TWONETS_NEAR, PORT + i);
    for (unsigned i = 0; i < LISTENERS; i += 7) {
        struct rdma_cm_event *event;
        struct rdma_cm_id *id;

        req = peer_request(PORT + i);
        req.local_id += i;
        req.req.qpn += i;
        peer_says(&req);
        event = next_event(RDMA_CM_EVENT_CONNECT_REQUEST);
        ck_assert_ptr_eq(event->listen_id, listeners[i]);
        id = event->id;
        ck_assert_int_eq(soft_ack_cm_event(event), 0);
        end_id(id);
        ck_assert_uint_eq(peer_hears(IB_REJ).rej.reason, IB_CONSUMER);
        end_id(listeners[i]);
        listeners[i] = NULL;
        req.local_id += LISTENERS;
        peer_says(&req);
        ck_assert_uint_eq(peer_hears(IB_REJ).rej.reason, IB_INVALID_SERVICE);
    }
    for (unsigned i = 0; i < LISTENERS; i++)
        if (listeners[i] != NULL)
            end_id(listeners[i]);
}
END_TEST

static Suite *suite(void)
{
    Suite *suite = suite_create("whoever listens to adapters");
    TCase *tcase = ib_case(suite, "whoever listens to adapters");

    tcase_add_loop_test(tcase, accepted, 0, 2);
    tcase_add_loop_test(tcase, hangs_up, 0, 3);
    tcase_add_test(tcase, progress_before_a_gap);
    tcase_add_test(tcase, read_before_a_gap);
    tcase_add_test(tcase, rejected_with_data);
    tcase_add_test(tcase, wrong_requests);
    tcase_add_test(tcase, a_flood);
    tcase_add_test(tcase, a_flood_is_taken_in_parts);
    tcase_add_test(tcase, numbers_tell_nothing);
    tcase_add_test(tcase, many_listeners);
    return suite;
}

int main(void)
{
    return ib_main(suite);
}
