/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * test_ib_datagrams.c - service ID resolution (SIDR) at queue pair 1: requests of a peer, and requests to one
 * (ibpeer.h).
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>
#include <sys/prctl.h>
#include "check/support/ibpeer.h"
#include "check/support/processes.h"
#include "soft/cm/cm_id.h"
#include "soft/cm/ib_address.h"
#include "soft/verbs/verbs.h"

static void hears_reply(const struct ib_message *asked_for, unsigned status)
{
    struct ib_message reply = peer_hears(IB_SIDR_REP);

    ck_assert_uint_eq(reply.sidr_rep.status, status);
    ck_assert_uint_eq(reply.local_id, asked_for->local_id);
    ck_assert_uint_eq(reply.transaction, asked_for->transaction);
    ck_assert_uint_eq(reply.sidr_rep.service, asked_for->sidr_req.service);
}

START_TEST(is_asked)
{
    struct rdma_conn_param param = {.private_data = "hello", .private_data_len = 5};
    struct ib_message asks = peer_question(PORT), reply, again;
    struct rdma_cm_id *listener, *id;
    struct rdma_cm_event *event;
    uint8_t data[180];
    uint32_t qpn;

    space = RDMA_PS_UDP;
    listener = listen_at(_i == 0 ? TWONETS_NEAR : "0.0.0.0");
    peer_says(&asks);
    event = next_event(RDMA_CM_EVENT_CONNECT_REQUEST);
    id = event->id;
    peer_fill(data, sizeof data);
    ck_assert_uint_eq(event->param.ud.private_data_len, sizeof data);
    ck_assert_mem_eq(event->param.ud.private_data, data, sizeof data);
    ck_assert_ptr_eq(event->listen_id, listener);
    ck_assert_int_eq(soft_ack_cm_event(event), 0);
    ck_assert_int_eq(id->ps, RDMA_PS_UDP);
    ck_assert_uint_eq(id->route.addr.dst_sin.sin_addr.s_addr, peer.path.local.in.sin_addr.s_addr);
    ck_assert_uint_eq(ntohs(id->route.addr.dst_sin.sin_port), 5000);
    ck_assert_uint_eq(ntohs(id->route.addr.src_sin.sin_port), PORT);
    peer_says(&asks); /* a repeated request raises no second event */
    make_id_qp(id);
    qpn = id->qp->qp_num;
    ck_assert_int_eq(soft_accept(id, &param), 0);
    reply = peer_hears(IB_SIDR_REP);
    ck_assert_uint_eq(reply.sidr_rep.status, IB_SIDR_VALID);
    ck_assert_uint_eq(reply.sidr_rep.qpn, qpn);
    ck_assert_uint_eq(reply.sidr_rep.qkey, RDMA_UDP_QKEY);
    ck_assert_uint_eq(reply.sidr_rep.service, asks.sidr_req.service);
    ck_assert_uint_eq(reply.local_id, NUMBER);
    ck_assert_uint_eq(reply.transaction, 5);
    ck_assert_mem_eq(reply.private_data, "hello\0", 6);
    end_id(id); /* the reply is repeated, although its identifier was destroyed */
    peer_says(&asks);
    again = peer_hears(IB_SIDR_REP);
    ck_assert_mem_eq(&again, &reply, sizeof reply);
    end_id(listener);
}
END_TEST

START_TEST(is_asked_in_vain)
{
    union soft_addr elsewhere = ib_at("10.9.0.77", 5000), here = ib_at(TWONETS_NEAR, 0);
    struct ib_message asks = peer_question(PORT), reply;
    struct rdma_cm_id *connections = listen_on(TWONETS_NEAR, PORT + 1), *listener, *id;

    space = RDMA_PS_UDP;
    listener = listen_at(TWONETS_NEAR);
    peer_says(&asks);
    id = take_request();
    ck_assert_int_eq(soft_reject(id, "no", 2), 0);
    reply = peer_hears(IB_SIDR_REP);
    ck_assert_uint_eq(reply.sidr_rep.status, IB_SIDR_REJECTED);
    ck_assert_mem_eq(reply.private_data, "no\0", 3);
    end_id(id);
    asks.local_id++;
    peer_says(&asks);
    end_id(take_request());
    hears_reply(&asks, IB_SIDR_REJECTED);
    asks = peer_question(PORT + 1); /* this port belongs to another port space */
    peer_says(&asks);
    hears_reply(&asks, IB_SIDR_UNSUPPORTED);
    asks = peer_question(PORT);
    asks.sidr_req.service = ib_service(IB_SPACE_TCP, PORT + 1);
    peer_says(&asks);
    hears_reply(&asks, IB_SIDR_UNSUPPORTED);
    asks = peer_question(PORT); /* with the address of another host */
    asks.local_id += 2;
    ib_address_encode(&elsewhere, &here, asks.private_data);
    peer_says(&asks);
    hears_reply(&asks, IB_SIDR_REJECTED);
    end_id(connections);
    end_id(listener);
}
END_TEST

/* A listener with a backlog of 8 leaves the further requests unanswered. */
START_TEST(a_flood_of_questions)
{
    struct ib_message asks = peer_question(PORT);
    struct rdma_cm_event *event;
    struct rdma_cm_id *listener;

    space = RDMA_PS_UDP;
    listener = listen_at(TWONETS_NEAR);
    for (int i = 0; i < 40; i++) {
        asks.local_id++;
        peer_says(&asks);
    }
    asks = peer_question(PORT + 1); /* when this one is answered, all of the others have been processed */
    peer_says(&asks);
    hears_reply(&asks, IB_SIDR_UNSUPPORTED);
    for (int i = 0; i < 8; i++) {
        end_id(take_request());
        ck_assert_uint_eq(peer_hears(IB_SIDR_REP).sidr_rep.status, IB_SIDR_REJECTED);
    }
    ck_assert_int_eq(fcntl(channel->fd, F_SETFL, O_NONBLOCK), 0);
    ck_assert_int_eq(soft_get_cm_event(channel, &event), -1);
    ck_assert_int_eq(errno, EAGAIN);
    end_id(listener);
}
END_TEST

static struct ib_message asks_for(struct rdma_cm_id *id)
{
    struct rdma_conn_param param = {.private_data = "hi", .private_data_len = 2};

    ck_assert_int_eq(soft_connect(id, &param), 0);
    return peer_hears_meanwhile(IB_SIDR_REQ); /* a request without a listener would be answered otherwise */
}

static struct ib_message reply_to(const struct ib_message *asked_for, unsigned status)
{
    struct ib_message reply = {
        .type = IB_SIDR_REP,
        .transaction = asked_for->transaction,
        .local_id = asked_for->local_id,
        .sidr_rep = {.service = asked_for->sidr_req.service, .status = (uint8_t)status},
    };

    if (status == IB_SIDR_VALID)
        reply.sidr_rep.qpn = IBWORDS_QPN, reply.sidr_rep.qkey = 0x1234;
    peer_fill(reply.private_data, 136);
    return reply;
}

START_TEST(looks_up)
{
    struct ib_message asks, reply;
    struct rdma_cm_event *event;
    struct rdma_ud_param *ud;
    union soft_addr from, to;
    struct rdma_cm_id *id;
    enum ib_space of;
    union ibv_gid gid;
    uint8_t data[136];
    uint16_t port;

    space = RDMA_PS_UDP;
    id = resolve_id();
    asks = asks_for(id);
    ck_assert(ib_service_port(asks.sidr_req.service, &of, &port));
    ck_assert_int_eq(of, IB_SPACE_UDP);
    ck_assert_uint_eq(port, PORT);
    ck_assert_uint_eq(asks.sidr_req.pkey, 0xffff);
    ck_assert(ib_address_decode(&from, &to, asks.private_data));
    ck_assert(ib_same_address(&from, &peer.path.remote) && ib_same_address(&to, &peer.path.local));
    ck_assert_mem_eq(asks.private_data + IB_ADDRESS_BYTES, "hi\0", 3);
    reply = reply_to(&asks, IB_SIDR_VALID);
    peer_says(&reply);
    event = next_event(RDMA_CM_EVENT_ESTABLISHED);
    ud = &event->param.ud;
    peer_fill(data, sizeof data);
    ck_assert_uint_eq(ud->private_data_len, sizeof data);
    ck_assert_mem_eq(ud->private_data, data, sizeof data);
    ck_assert_uint_eq(ud->qp_num, IBWORDS_QPN);
    ck_assert_uint_eq(ud->qkey, 0x1234);
    ck_assert_uint_eq(ud->ah_attr.dlid, 0);
    soft_gid_of(&gid, &peer.path.local.sa);
    ck_assert_mem_eq(ud->ah_attr.grh.dgid.raw, gid.raw, sizeof gid.raw);
    ck_assert_int_eq(soft_ack_cm_event(event), 0);
    peer_says(&reply); /* a repeated reply has no effect */
    ck_assert_int_eq(soft_disconnect(id), 0);
    end_id(id);
    /* The next request uses queue pair 1, too, because TCP is refused again. */
    id = resolve_bound();
    asks = asks_for(id);
    reply = reply_to(&asks, IB_SIDR_VALID);
    peer_says(&reply);
    ck_assert_int_eq(status_of(RDMA_CM_EVENT_ESTABLISHED), 0);
    end_id(id);
}
END_TEST

/* Statuses that Linux uses: rejected, and no such service; and a redirect. */
static const unsigned vain[] = {IB_SIDR_REJECTED, IB_SIDR_UNSUPPORTED, 4};

START_TEST(looks_up_in_vain)
{
    struct ib_message asks, reply;
    struct rdma_cm_event *event;
    struct rdma_cm_id *id;

    space = RDMA_PS_UDP;
    id = resolve_bound();
    asks = asks_for(id);
    reply = reply_to(&asks, vain[_i]);
    peer_says(&reply);
    event = next_event(RDMA_CM_EVENT_UNREACHABLE);
    ck_assert_int_eq(event->status, (int)vain[_i]);
    ck_assert_uint_eq(event->param.ud.private_data_len, 136);
    ck_assert_int_eq(soft_ack_cm_event(event), 0);
    end_id(id);
}
END_TEST

START_TEST(nobody_to_ask)
{
    struct rdma_conn_param param = {.private_data_len = 0};
    struct rdma_cm_id *id;

    space = RDMA_PS_UDP;
    id = resolve_bound();
    close(peer.fd);
    ck_assert_int_eq(soft_connect(id, &param), 0);
    ck_assert_int_eq(status_of(RDMA_CM_EVENT_UNREACHABLE), IB_SIDR_UNSUPPORTED);
    end_id(id);
    peer_open();
}
END_TEST

/* One of several programs that resolve a service at the same time. */
static void look_up_once(void)
{
    struct rdma_conn_param param = {.private_data_len = 0};
    struct rdma_cm_id *id;

    prctl(PR_SET_PDEATHSIG, SIGKILL);
    channel = soft_create_event_channel();
    id = resolve_bound();
    ck_assert_int_eq(soft_connect(id, &param), 0);
    ck_assert_int_eq(status_of(RDMA_CM_EVENT_ESTABLISHED), 0);
    _exit(0);
}

/* Several programs share RoCE's port: a reply or request that another program reads is passed to the one that it is
 * for. */
START_TEST(several_programs_and_datagrams)
{
    enum { PROGRAMS = 4 };
    pid_t pids[PROGRAMS], servers[2];
    struct ib_message all[PROGRAMS], asks, reply;

    space = RDMA_PS_UDP;
    for (int i = 0; i < PROGRAMS; i++) {
        pids[i] = fork();
        if (pids[i] == 0)
            look_up_once();
    }
    /* No program gets its reply, and exits, before all have sent their requests. */
    for (int count = 0; count < PROGRAMS;) {
        bool again = false;

        all[count] = peer_hears(IB_SIDR_REQ);
        for (int i = 0; i < count; i++)
            again |= all[i].local_id == all[count].local_id;
        count += !again;
    }
    for (int i = 0; i < PROGRAMS; i++) {
        reply = reply_to(&all[i], IB_SIDR_VALID);
        peer_says(&reply);
    }
    for (int i = 0; i < PROGRAMS; i++) {
        process_join(pids[i]);
    }
    servers[0] = start_server("0.0.0.0", PORT);
    servers[1] = start_server(TWONETS_NEAR, PORT + 1);
    for (unsigned i = 0; i < 8; i++) {
        asks = peer_question(PORT + i % 2);
        asks.local_id += i;
        peer_says(&asks);
        reply = peer_hears(IB_SIDR_REP);
        ck_assert_uint_eq(reply.sidr_rep.status, IB_SIDR_VALID);
        ck_assert_mem_eq(reply.private_data, "there", 5);
    }
    for (int i = 0; i < 2; i++) {
        process_kill(servers[i]);
    }
}
END_TEST

static Suite *suite(void)
{
    Suite *suite = suite_create("look-ups at queue pair 1");
    TCase *tcase = ib_case(suite, "look-ups at queue pair 1");

    tcase_add_loop_test(tcase, is_asked, 0, 2);
    tcase_add_test(tcase, is_asked_in_vain);
    tcase_add_test(tcase, a_flood_of_questions);
    tcase_add_test(tcase, looks_up);
    tcase_add_loop_test(tcase, looks_up_in_vain, 0, 3);
    tcase_add_test(tcase, nobody_to_ask);
    tcase_add_test(tcase, several_programs_and_datagrams);
    return suite;
}

int main(void)
{
    return ib_main(suite);
}
