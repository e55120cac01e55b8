/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * test_ib_cm.c - librdmacm's calls of the embedded device with a peer that speaks as adapters do: InfiniBand's
 * connection management, at queue pair 1 of UDP port 4791. The peer is a plain socket on another host.
 */
#include <arpa/inet.h>
#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <netinet/in.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include "check/support/roce.h"
#include "check/support/support.h"
#include "check/support/twonets.h"
#include "core/clock.h"
#include "core/settings.h"
#include "core/soft/cm/cm.h"
#include "core/soft/cm/cm_id.h"
#include "core/soft/cm/ib_address.h"
#include "core/soft/cm/ib_message.h"
#include "core/soft/engine/wire.h"
#include "core/soft/link/icrc.h"
#include "core/soft/verbs/verbs.h"

#define PORT 7471
#define GUID UINT64_C(0x0123456789abcdef)
#define QPN 0x4321
#define PSN 0x777
#define NUMBER 0x99 /* of the peer's connection */
#define QKEY 0x80010000u
#define PATIENCE_MS 20000

static union soft_addr address(const char *text, unsigned port)
{
    union soft_addr addr = {.in = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)}};

    if (strchr(text, ':') != NULL) {
        addr.sa.sa_family = AF_INET6; /* the port is at the same place */
        ck_assert_int_eq(inet_pton(AF_INET6, text, &addr.in6.sin6_addr), 1);
        return addr;
    }
    ck_assert_int_eq(inet_pton(AF_INET, text, &addr.in.sin_addr), 1);
    return addr;
}

/* ---- The peer ---- */

static struct {
    int fd;
    struct soft_path path; /* as it sees it */
    uint32_t number;       /* of our connection */
} peer;

static void peer_open(void)
{
    int mode = IP_PMTUDISC_DO;

    peer.path = (struct soft_path){.local = address(TWONETS_FAR, SOFT_UDP_PORT),
                                   .remote = address(TWONETS_NEAR, SOFT_UDP_PORT)};
    twonets_enter(true);
    peer.fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    ck_assert_int_eq(bind(peer.fd, &peer.path.local.sa, sizeof peer.path.local.in), 0);
    twonets_enter(false);
    ck_assert_int_eq(setsockopt(peer.fd, IPPROTO_IP, IP_MTU_DISCOVER, &mode, sizeof mode), 0);
}

static void say_as(struct ib_message *message, uint32_t qkey)
{
    uint8_t packet[ROCE_MAX], mad[IB_MAD_BYTES];
    struct roce roce = {.opcode = ROCE_UD + SEND_ONLY,
                        .migreq = true,
                        .ackreq = true,
                        .pkey = 0xffff,
                        .qpn = 1,
                        .qkey = qkey,
                        .source = 1,
                        .payload = mad,
                        .payload_length = sizeof mad};
    struct icrc_flow flow;
    size_t length;

    ib_encode(message, mad);
    length = roce_write(packet, &roce);
    icrc_flow_init(&flow, &peer.path, true);
    icrc_store(packet + length, icrc_compute(&flow, 0, packet, length));
    length += ICRC_SIZE;
    ck_assert_int_eq(sendto(peer.fd, packet, length, 0, &peer.path.remote.sa, sizeof peer.path.remote.in),
                     (ssize_t)length);
}

static void says(struct ib_message *message)
{
    say_as(message, QKEY);
}

/* An answer with both numbers. */
static struct ib_message answer(enum ib_type type)
{
    return (struct ib_message){.type = type, .transaction = 5, .local_id = NUMBER, .remote_id = peer.number};
}

/* The next packet, whose every header is as adapters want it. */
static struct ib_message hears_any(void)
{
    struct pollfd one = {.fd = peer.fd, .events = POLLIN};
    struct soft_path from = peer.path; /* of any port */
    socklen_t size = sizeof from.remote;
    uint8_t packet[ROCE_MAX];
    struct ib_message message;
    struct icrc_flow flow;
    struct roce roce;
    ssize_t got;

    ck_assert_int_eq(poll(&one, 1, PATIENCE_MS), 1);
    got = recvfrom(peer.fd, packet, sizeof packet, 0, &from.remote.sa, &size);
    ck_assert_int_eq(got, 280);
    got -= ICRC_SIZE;
    ck_assert(ib_same_address(&from.remote, &peer.path.remote));
    icrc_flow_init(&flow, &from, false);
    ck_assert_uint_eq(icrc_load(packet + got), icrc_compute(&flow, 0, packet, (size_t)got));
    ck_assert(roce_read(&roce, packet, (size_t)got));
    ck_assert_uint_eq(roce.opcode, ROCE_UD + SEND_ONLY);
    ck_assert_uint_eq(roce.qpn, 1);
    ck_assert_uint_eq(roce.pkey, 0xffff);
    ck_assert_uint_eq(roce.qkey, QKEY);
    ck_assert_uint_eq(roce.source, 1);
    ck_assert(ib_decode(&message, roce.payload));
    return message;
}

/* The next one that isn't a request that comes again, since it was not answered so soon. */
static struct ib_message hears(enum ib_type type)
{
    struct ib_message message = hears_any();

    while (message.type != type && (message.type == IB_REQ || message.type == IB_SIDR_REQ))
        message = hears_any();
    ck_assert_uint_eq(message.type, type);
    return message;
}

static void hears_nothing(void)
{
    struct pollfd one = {.fd = peer.fd, .events = POLLIN};

    ck_assert_int_eq(poll(&one, 1, 100), 0);
}

static void fill(uint8_t *data, size_t length)
{
    for (size_t i = 0; i < length; i++)
        data[i] = (uint8_t)(i + 1);
}

static struct ib_message request(unsigned port)
{
    union soft_addr from = address(TWONETS_FAR, 5000), to = address(TWONETS_NEAR, 0);
    struct ib_message req = {
        .type = IB_REQ,
        .transaction = 5,
        .local_id = NUMBER,
        .req = {.service = ib_service(IB_SPACE_TCP, (uint16_t)port),
                .ca_guid = GUID,
                .qpn = QPN,
                .psn = PSN,
                .responder_resources = 3,
                .initiator_depth = 2,
                .remote_response = 20,
                .local_response = 20,
                .retry_count = 5,
                .rnr_retry_count = 6,
                .cm_retries = 15,
                .pkey = 0xffff,
                .mtu = IBV_MTU_1024,
                .hop_limit = 64,
                .ack_timeout = 19},
    };
    union ibv_gid gid;

    soft_gid_of(&gid, &from.sa);
    memcpy(req.req.local_gid, gid.raw, IB_GID_BYTES);
    soft_gid_of(&gid, &to.sa);
    memcpy(req.req.remote_gid, gid.raw, IB_GID_BYTES);
    ib_address_encode(&from, &to, req.private_data);
    fill(req.private_data + IB_ADDRESS_BYTES, 56);
    return req;
}

/* ---- Ours ---- */

static struct rdma_event_channel *channel;
static enum rdma_port_space space = RDMA_PS_TCP;

static struct rdma_cm_event *next_event(enum rdma_cm_event_type type)
{
    struct rdma_cm_event *event;

    ck_assert_int_eq(soft_get_cm_event(channel, &event), 0);
    ck_assert_msg(event->event == type, "event %d, status %d", event->event, event->status);
    return event;
}

static int status_of(enum rdma_cm_event_type type)
{
    struct rdma_cm_event *event = next_event(type);
    int status = event->status;

    ck_assert_int_eq(soft_ack_cm_event(event), 0);
    return status;
}

/* The channel is looked at meanwhile, and has no event. */
static struct ib_message hears_meanwhile(enum ib_type type)
{
    struct pollfd fds[] = {{.fd = peer.fd, .events = POLLIN}, {.fd = channel->fd, .events = POLLIN}};
    struct rdma_cm_event *event;

    ck_assert_int_eq(fcntl(channel->fd, F_SETFL, O_NONBLOCK), 0);
    do {
        ck_assert_int_ge(poll(fds, 2, PATIENCE_MS), 1);
        if (fds[1].revents) {
            ck_assert_int_eq(soft_get_cm_event(channel, &event), -1);
            ck_assert_int_eq(errno, EAGAIN);
        }
    } while (!fds[0].revents);
    ck_assert_int_eq(fcntl(channel->fd, F_SETFL, 0), 0);
    return hears(type);
}

static void make_qp(struct rdma_cm_id *id)
{
    struct ibv_qp_init_attr attr = {.qp_type = space == RDMA_PS_TCP ? IBV_QPT_RC : IBV_QPT_UD,
                                    .cap = {4, 4, 1, 1, 0}};

    ck_assert_int_eq(soft_create_id_qp(id, NULL, &attr), 0);
}

static struct rdma_cm_id *listen_on(const char *text, unsigned port)
{
    union soft_addr addr = address(text, port);
    struct rdma_cm_id *id;

    ck_assert_int_eq(soft_create_id(channel, &id, NULL, space), 0);
    ck_assert_int_eq(soft_bind_addr(id, &addr.sa), 0);
    ck_assert_int_eq(soft_listen(id, 8), 0);
    return id;
}

static struct rdma_cm_id *listen_at(const char *text)
{
    return listen_on(text, PORT);
}

static void end(struct rdma_cm_id *id)
{
    soft_destroy_id_qp(id);
    ck_assert_int_eq(soft_destroy_id(id), 0);
}

static struct rdma_cm_id *take_request(void)
{
    struct rdma_cm_event *event = next_event(RDMA_CM_EVENT_CONNECT_REQUEST);
    struct rdma_cm_id *id = event->id;

    ck_assert_int_eq(soft_ack_cm_event(event), 0);
    return id;
}

/* ---- Whoever listens ---- */

START_TEST(accepted)
{
    struct rdma_cm_id *listener = listen_at(_i == 0 ? TWONETS_NEAR : "0.0.0.0"), *id;
    struct rdma_conn_param param = {.private_data = "hello", .private_data_len = 5, .initiator_depth = 1};
    struct ib_message req = request(PORT), rep, again, message;
    const struct rdma_conn_param *got;
    struct rdma_cm_event *event;
    uint8_t data[56];

    says(&req);
    event = next_event(RDMA_CM_EVENT_CONNECT_REQUEST);
    id = event->id;
    got = &event->param.conn;
    fill(data, sizeof data);
    ck_assert_uint_eq(got->private_data_len, sizeof data);
    ck_assert_mem_eq(got->private_data, data, sizeof data);
    ck_assert_uint_eq(got->qp_num, QPN);
    ck_assert_uint_eq(got->responder_resources, 2);
    ck_assert_uint_eq(got->initiator_depth, 3);
    ck_assert_uint_eq(got->retry_count, 5);
    ck_assert_uint_eq(got->rnr_retry_count, 6);
    ck_assert_ptr_eq(event->listen_id, listener);
    ck_assert_int_eq(soft_ack_cm_event(event), 0);
    ck_assert_uint_eq(id->route.addr.dst_sin.sin_addr.s_addr, peer.path.local.in.sin_addr.s_addr);
    ck_assert_uint_eq(ntohs(id->route.addr.dst_sin.sin_port), 5000);
    ck_assert_uint_eq(ntohs(id->route.addr.src_sin.sin_port), PORT);
    /* Asked again before the answer: it takes time. */
    says(&req);
    message = hears(IB_MRA);
    ck_assert_uint_eq(message.remote_id, NUMBER);
    make_qp(id);
    ck_assert_int_eq(soft_accept(id, &param), 0);
    rep = hears(IB_REP);
    ck_assert_uint_eq(rep.transaction, 5);
    ck_assert_uint_eq(rep.remote_id, NUMBER);
    ck_assert_uint_eq(rep.rep.qpn, id->qp->qp_num);
    ck_assert_uint_eq(rep.rep.initiator_depth, 1);
    ck_assert_mem_eq(rep.private_data, "hello\0", 6);
    says(&req);
    again = hears(IB_REP);
    ck_assert_mem_eq(&again, &rep, sizeof rep);
    peer.number = rep.local_id;
    message = answer(IB_RTU);
    says(&message);
    ck_assert_int_eq(status_of(RDMA_CM_EVENT_ESTABLISHED), 0);
    ck_assert_int_eq(id->qp->state, IBV_QPS_RTS);
    message = answer(IB_DREQ);
    message.transaction = 6;
    message.dreq.qpn = id->qp->qp_num;
    says(&message);
    ck_assert_uint_eq(hears(IB_DREP).transaction, 6);
    ck_assert_int_eq(status_of(RDMA_CM_EVENT_DISCONNECTED), 0);
    end(id);
    /* It is not forgotten yet. */
    says(&message);
    hears(IB_DREP);
    says(&req);
    ck_assert_uint_eq(hears(IB_REJ).rej.reason, IB_STALE);
    end(listener);
}
END_TEST

/* A packet of a message's, with nothing in it but zeros. */
static void sends(uint32_t qpn, unsigned opcode, uint32_t psn)
{
    static const uint8_t zeros[1024];
    struct roce roce = {.opcode = (uint8_t)opcode,
                        .migreq = true,
                        .pkey = 0xffff,
                        .qpn = qpn,
                        .psn = psn & 0xffffff,
                        .payload = zeros,
                        .payload_length = sizeof zeros};
    uint8_t packet[ROCE_MAX];
    struct icrc_flow flow;
    size_t length = roce_write(packet, &roce);

    icrc_flow_init(&flow, &peer.path, true);
    icrc_store(packet + length, icrc_compute(&flow, 0, packet, length));
    length += ICRC_SIZE;
    ck_assert_int_eq(sendto(peer.fd, packet, length, 0, &peer.path.remote.sa, sizeof peer.path.remote.in),
                     (ssize_t)length);
}

static void hears_answer(unsigned syndrome, uint32_t psn)
{
    struct pollfd one = {.fd = peer.fd, .events = POLLIN};
    uint8_t packet[ROCE_MAX];
    struct roce roce;
    ssize_t got;

    ck_assert_int_eq(poll(&one, 1, PATIENCE_MS), 1);
    got = recv(peer.fd, packet, sizeof packet, 0);
    ck_assert(roce_read(&roce, packet, (size_t)got - ICRC_SIZE));
    ck_assert_uint_eq(roce.opcode, ACKNOWLEDGE);
    ck_assert_uint_eq(roce.qpn, QPN);
    ck_assert_uint_eq(roce.syndrome, syndrome);
    ck_assert_uint_eq(roce.psn, psn & 0xffffff);
}

/* What came before a gap is acknowledged by itself: adapters' retries begin anew then, and not by a NAK. */
START_TEST(progress_before_a_gap)
{
    static uint8_t memory[8192];
    struct rdma_cm_id *listener = listen_at(TWONETS_NEAR), *id;
    struct ib_message req = request(PORT), rep, message;
    struct ibv_sge sge = {(uintptr_t)memory, sizeof memory, 0};
    struct ibv_recv_wr wr = {.sg_list = &sge, .num_sge = 1}, *bad;
    struct ibv_mr *mr;

    says(&req);
    id = take_request();
    make_qp(id);
    mr = soft_reg_mr(id->qp->pd, memory, sizeof memory, IBV_ACCESS_LOCAL_WRITE);
    ck_assert_ptr_nonnull(mr);
    sge.lkey = mr->lkey;
    ck_assert_int_eq(ibv_post_recv(id->qp, &wr, &bad), 0);
    ck_assert_int_eq(soft_accept(id, NULL), 0);
    rep = hears(IB_REP);
    peer.number = rep.local_id;
    message = answer(IB_RTU);
    says(&message);
    ck_assert_int_eq(status_of(RDMA_CM_EVENT_ESTABLISHED), 0);
    sends(rep.rep.qpn, SEND_FIRST, rep.rep.psn);
    sends(rep.rep.qpn, SEND_MIDDLE, rep.rep.psn + 2);
    hears_answer(SYNDROME_ACK, rep.rep.psn);
    hears_answer(SYNDROME_SEQUENCE, rep.rep.psn + 1);
    sends(rep.rep.qpn, SEND_MIDDLE, rep.rep.psn + 1);
    sends(rep.rep.qpn, SEND_MIDDLE, rep.rep.psn + 3);
    hears_answer(SYNDROME_ACK, rep.rep.psn + 1);
    hears_answer(SYNDROME_SEQUENCE, rep.rep.psn + 2);
    end(id);
    ck_assert_int_eq(soft_dereg_mr(mr), 0);
    end(listener);
}
END_TEST

START_TEST(rejected_with_data)
{
    struct rdma_cm_id *listener = listen_at(TWONETS_NEAR), *id;
    struct ib_message req = request(PORT), rej;

    says(&req);
    id = take_request();
    ck_assert_int_eq(soft_reject(id, "no", 2), 0);
    rej = hears(IB_REJ);
    ck_assert_uint_eq(rej.rej.reason, IB_CONSUMER);
    ck_assert_uint_eq(rej.rej.answered, IB_TO_REQ);
    ck_assert_mem_eq(rej.private_data, "no\0", 3);
    end(id);
    /* Destroyed instead. */
    req.local_id++;
    says(&req);
    end(take_request());
    ck_assert_uint_eq(hears(IB_REJ).rej.reason, IB_CONSUMER);
    end(listener);
    req.local_id++;
    says(&req);
    ck_assert_uint_eq(hears(IB_REJ).rej.reason, IB_INVALID_SERVICE);
}
END_TEST

/* What is refused, and what isn't even answered; and then one that is taken. */
START_TEST(wrong_requests)
{
    struct rdma_cm_id *listener = listen_at("0.0.0.0");
    union soft_addr elsewhere = address("10.9.0.77", 5000), here = address(TWONETS_NEAR, 0);
    struct ib_message req = request(PORT + 1);

    says(&req);
    ck_assert_uint_eq(hears(IB_REJ).rej.reason, IB_INVALID_SERVICE);
    req = request(PORT);
    req.req.service = ib_service(IB_SPACE_UDP, PORT);
    says(&req);
    ck_assert_uint_eq(hears(IB_REJ).rej.reason, IB_INVALID_SERVICE);
    req = request(PORT); /* in another's name */
    ib_address_encode(&elsewhere, &here, req.private_data);
    says(&req);
    ck_assert_uint_eq(hears(IB_REJ).rej.reason, IB_CONSUMER);
    req = request(PORT); /* data would go to another */
    req.req.local_gid[15]++;
    says(&req);
    ck_assert_uint_eq(hears(IB_REJ).rej.reason, IB_CONSUMER);
    req = request(PORT);
    req.req.transport = IB_UC;
    says(&req);
    ck_assert_uint_eq(hears(IB_REJ).rej.reason, IB_CONSUMER);
    req = request(PORT);
    req.req.mtu = IBV_MTU_4096; /* the cable carries 1500 bytes */
    says(&req);
    ck_assert_uint_eq(hears_meanwhile(IB_REJ).rej.reason, IB_INVALID_MTU);
    req = request(PORT);
    say_as(&req, QKEY + 1);
    hears_nothing();
    says(&req);
    end(take_request());
    hears(IB_REJ);
    end(listener);
}
END_TEST

/* Of a listener with room for 8 the others are let wait, and not refused. */
START_TEST(a_flood)
{
    struct rdma_cm_id *listener = listen_at(TWONETS_NEAR);
    struct ib_message req = request(PORT);
    struct rdma_cm_event *event;

    for (int i = 0; i < 40; i++) {
        req.local_id++;
        req.req.qpn++;
        says(&req);
    }
    req = request(PORT + 1); /* when this is answered all of them have been seen */
    says(&req);
    ck_assert_uint_eq(hears(IB_REJ).rej.reason, IB_INVALID_SERVICE);
    for (int i = 0; i < 8; i++) {
        end(take_request());
        ck_assert_uint_eq(hears(IB_REJ).rej.reason, IB_CONSUMER);
    }
    hears_nothing();
    ck_assert_int_eq(fcntl(channel->fd, F_SETFL, O_NONBLOCK), 0);
    ck_assert_int_eq(soft_get_cm_event(channel, &event), -1);
    ck_assert_int_eq(errno, EAGAIN);
    end(listener);
}
END_TEST

/* Each of many has what is for it, and what is for one that has gone is nobody's. */
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

        req = request(PORT + i);
        req.local_id += i;
        req.req.qpn += i;
        says(&req);
        event = next_event(RDMA_CM_EVENT_CONNECT_REQUEST);
        ck_assert_ptr_eq(event->listen_id, listeners[i]);
        id = event->id;
        ck_assert_int_eq(soft_ack_cm_event(event), 0);
        end(id);
        ck_assert_uint_eq(hears(IB_REJ).rej.reason, IB_CONSUMER);
        end(listeners[i]);
        listeners[i] = NULL;
        req.local_id += LISTENERS;
        says(&req);
        ck_assert_uint_eq(hears(IB_REJ).rej.reason, IB_INVALID_SERVICE);
    }
    for (unsigned i = 0; i < LISTENERS; i++)
        if (listeners[i] != NULL)
            end(listeners[i]);
}
END_TEST

/* ---- Several programs have the port ---- */

/* It accepts whatever comes, and hangs up, until it is killed. */
static void serve(const char *text, unsigned port, int ready)
{
    struct rdma_conn_param param = {.private_data = "there", .private_data_len = 5};
    struct rdma_cm_event *event;

    prctl(PR_SET_PDEATHSIG, SIGKILL); /* a test that fails doesn't kill it */
    channel = soft_create_event_channel();
    (void)listen_on(text, port);
    if (write(ready, "", 1) != 1)
        _exit(1);
    while (soft_get_cm_event(channel, &event) == 0) {
        struct rdma_cm_id *id = event->id;
        enum rdma_cm_event_type type = event->event;

        soft_ack_cm_event(event);
        if (type == RDMA_CM_EVENT_CONNECT_REQUEST) {
            make_qp(id);
            if (soft_accept(id, &param) != 0)
                _exit(1);
            if (space == RDMA_PS_UDP)
                end(id);
        } else if (type == RDMA_CM_EVENT_ESTABLISHED) {
            soft_disconnect(id);
        } else {
            end(id);
        }
    }
    _exit(1);
}

static pid_t start_server(const char *text, unsigned port)
{
    int ready[2];
    pid_t pid;
    char byte;

    ck_assert_int_eq(pipe(ready), 0);
    pid = fork();
    if (pid == 0)
        serve(text, port, ready[1]);
    close(ready[1]);
    ck_assert_int_eq(read(ready[0], &byte, 1), 1);
    close(ready[0]);
    return pid;
}

/* A connection from its beginning to its end. */
static void visit(unsigned port, uint32_t number)
{
    struct ib_message req = request(port), rep, message;

    req.local_id = NUMBER + number;
    req.req.qpn = QPN + number;
    says(&req);
    rep = hears(IB_REP);
    ck_assert_uint_eq(rep.remote_id, req.local_id);
    ck_assert_mem_eq(rep.private_data, "there", 5);
    message = (struct ib_message){.type = IB_RTU, .local_id = req.local_id, .remote_id = rep.local_id};
    says(&message);
    message = hears(IB_DREQ);
    ck_assert_uint_eq(message.remote_id, req.local_id);
    ck_assert_uint_eq(message.dreq.qpn, req.req.qpn);
    message.type = IB_DREP;
    message.local_id = req.local_id;
    message.remote_id = rep.local_id;
    says(&message);
}

/* Whichever of them reads a packet, the one that it is for has it. */
START_TEST(several_programs)
{
    struct {
        const char *text;
        unsigned port;
        pid_t pid;
    } servers[] = {{"0.0.0.0", PORT, 0}, {TWONETS_NEAR, PORT + 1, 0}, {"::", PORT + 2, 0}};
    enum { SERVERS = sizeof servers / sizeof *servers };
    struct ib_message req;
    uint32_t number = 0;

    for (int i = 0; i < SERVERS; i++)
        servers[i].pid = start_server(servers[i].text, servers[i].port);
    for (int gone = 0; gone < SERVERS; gone++) {
        for (int round = 0; round < 8; round++)
            for (int i = gone; i < SERVERS; i++)
                visit(servers[i].port, ++number);
        ck_assert_int_eq(kill(servers[gone].pid, SIGKILL), 0);
        ck_assert_int_eq(waitpid(servers[gone].pid, NULL, 0), servers[gone].pid);
        if (gone == SERVERS - 1)
            break;
        req = request(servers[gone].port);
        req.local_id = NUMBER + ++number;
        says(&req);
        ck_assert_uint_eq(hears(IB_REJ).rej.reason, IB_INVALID_SERVICE);
    }
}
END_TEST

/* Ours has heard the request, or given its answer, and is killed before the peer says that it is ready. Another
 * that has the port answers for it from then on, and whoever listens next has what is asked anew. */
START_TEST(a_program_dies_in_a_handshake)
{
    pid_t other = start_server("0.0.0.0", PORT + 1), dying = start_server("0.0.0.0", PORT);
    struct ib_message req = request(PORT), rep, message;

    says(&req);
    rep = hears(IB_REP);
    ck_assert_int_eq(kill(dying, SIGKILL), 0);
    ck_assert_int_eq(waitpid(dying, NULL, 0), dying);
    peer.number = rep.local_id;
    message = answer(IB_RTU);
    says(&message); /* to nobody */
    visit(PORT + 1, 1);
    message = answer(IB_DREQ);
    message.dreq.qpn = rep.rep.qpn;
    says(&message);
    ck_assert_uint_eq(hears(IB_DREP).remote_id, NUMBER);
    says(&req);
    ck_assert_uint_eq(hears(IB_REJ).rej.reason, IB_INVALID_SERVICE);
    dying = start_server("0.0.0.0", PORT);
    says(&req);
    ck_assert_uint_eq(hears(IB_REP).remote_id, NUMBER);
    visit(PORT + 1, 2);
    ck_assert_int_eq(kill(dying, SIGKILL), 0);
    ck_assert_int_eq(waitpid(dying, NULL, 0), dying);
    ck_assert_int_eq(kill(other, SIGKILL), 0);
    ck_assert_int_eq(waitpid(other, NULL, 0), other);
}
END_TEST

/* One that stands still has its packets wait, and nobody else's. */
START_TEST(a_program_is_stopped)
{
    pid_t stopped = start_server("0.0.0.0", PORT), other = start_server("0.0.0.0", PORT + 1);
    struct ib_message req = request(PORT);

    ck_assert_int_eq(kill(stopped, SIGSTOP), 0);
    ck_assert_int_eq(waitpid(stopped, NULL, WUNTRACED), stopped);
    says(&req);
    for (uint32_t number = 100; number < 200; number++) { /* more than a socket's queue may hold */
        req.local_id = NUMBER + number;
        req.req.qpn = QPN + number;
        says(&req);
    }
    for (uint32_t number = 1; number < 9; number++)
        visit(PORT + 1, number);
    ck_assert_int_eq(kill(stopped, SIGCONT), 0);
    ck_assert_uint_ge(hears(IB_REP).remote_id, NUMBER + 100); /* it has room for few, and the last get it */
    ck_assert_int_eq(kill(stopped, SIGKILL), 0);
    ck_assert_int_eq(kill(other, SIGKILL), 0);
    ck_assert_int_eq(waitpid(stopped, NULL, 0), stopped);
    ck_assert_int_eq(waitpid(other, NULL, 0), other);
}
END_TEST

/* ---- Whoever connects ---- */

static struct rdma_cm_id *resolve(void)
{
    union soft_addr far = address(TWONETS_FAR, PORT);
    struct rdma_cm_id *id;

    ck_assert_int_eq(soft_create_id(channel, &id, NULL, space), 0);
    ck_assert_int_eq(soft_resolve_addr(id, NULL, &far.sa, 1000), 0);
    ck_assert_int_eq(status_of(RDMA_CM_EVENT_ADDR_RESOLVED), 0);
    ck_assert_int_eq(soft_resolve_route(id, 1000), 0);
    ck_assert_int_eq(status_of(RDMA_CM_EVENT_ROUTE_RESOLVED), 0);
    make_qp(id);
    return id;
}

static struct ib_message asked(struct rdma_cm_id *id)
{
    struct rdma_conn_param param = {.private_data = "hi",
                                    .private_data_len = 2,
                                    .responder_resources = 1,
                                    .initiator_depth = 1,
                                    .retry_count = 4,
                                    .rnr_retry_count = 3};
    struct ib_message req;

    ck_assert_int_eq(soft_connect(id, &param), 0);
    req = hears_meanwhile(IB_REQ); /* TCP is refused */
    peer.number = req.local_id;
    return req;
}

static struct ib_message reply(void)
{
    struct ib_message rep = answer(IB_REP);

    rep.rep = (struct ib_rep){.ca_guid = GUID, .qpn = QPN, .psn = PSN, .ack_delay = 15, .rnr_retry_count = 7};
    fill(rep.private_data, 196);
    return rep;
}

START_TEST(connects)
{
    struct rdma_cm_id *id = resolve();
    struct ib_message req = asked(id), rep = reply(), message;
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
    says(&rep);
    event = next_event(RDMA_CM_EVENT_ESTABLISHED);
    fill(data, sizeof data);
    ck_assert_uint_eq(event->param.conn.private_data_len, sizeof data);
    ck_assert_mem_eq(event->param.conn.private_data, data, sizeof data);
    ck_assert_int_eq(soft_ack_cm_event(event), 0);
    message = hears(IB_RTU);
    ck_assert_uint_eq(message.remote_id, NUMBER);
    says(&rep); /* RTU was lost */
    hears(IB_RTU);
    ck_assert_int_eq(soft_disconnect(id), 0);
    ck_assert_int_eq(status_of(RDMA_CM_EVENT_DISCONNECTED), 0);
    message = hears(IB_DREQ);
    ck_assert_uint_eq(message.dreq.qpn, QPN);
    end(id);
    hears(IB_DREQ); /* as long as there is no answer, whoever has gone */
    message.type = IB_DREP;
    message.remote_id = message.local_id;
    message.local_id = NUMBER;
    says(&message);
    peer.number = message.remote_id;
}
END_TEST

/* With a port of its own it is not patient where nobody listens. */
static struct rdma_cm_id *resolve_bound(void)
{
    union soft_addr near = address(TWONETS_NEAR, 0), far = address(TWONETS_FAR, PORT);
    struct rdma_cm_id *id;

    ck_assert_int_eq(soft_create_id(channel, &id, NULL, space), 0);
    ck_assert_int_eq(soft_bind_addr(id, &near.sa), 0);
    ck_assert_int_eq(soft_resolve_addr(id, NULL, &far.sa, 1000), 0);
    ck_assert_int_eq(status_of(RDMA_CM_EVENT_ADDR_RESOLVED), 0);
    ck_assert_int_eq(soft_resolve_route(id, 1000), 0);
    ck_assert_int_eq(status_of(RDMA_CM_EVENT_ROUTE_RESOLVED), 0);
    make_qp(id);
    return id;
}

/* One that connects. */
static pid_t start_client(void)
{
    struct rdma_conn_param param = {.retry_count = 7};
    pid_t pid = fork();

    if (pid > 0)
        return pid;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    channel = soft_create_event_channel();
    (void)soft_connect(resolve_bound(), &param);
    (void)status_of(RDMA_CM_EVENT_ESTABLISHED);
    _exit(0);
}

/* One that connects is killed before the answer comes, which nobody takes then: who gave it asks for its end,
 * and is told that there is none. */
START_TEST(a_client_dies_in_a_handshake)
{
    pid_t other = start_server("0.0.0.0", PORT + 1), dying = start_client();
    struct ib_message req = hears(IB_REQ), rep = reply(), message;

    ck_assert_int_eq(kill(dying, SIGKILL), 0);
    ck_assert_int_eq(waitpid(dying, NULL, 0), dying);
    peer.number = rep.remote_id = req.local_id;
    says(&rep);
    visit(PORT + 1, 1); /* and is heard meanwhile */
    message = answer(IB_DREQ);
    message.dreq.qpn = req.req.qpn;
    says(&message);
    ck_assert_uint_eq(hears(IB_DREP).remote_id, NUMBER);
    ck_assert_int_eq(kill(other, SIGKILL), 0);
    ck_assert_int_eq(waitpid(other, NULL, 0), other);
}
END_TEST

/* Neither by TCP nor at RoCE's port: the host says so at once. */
START_TEST(nobody_is_there)
{
    struct rdma_conn_param param = {.retry_count = 7};
    struct rdma_cm_id *id = resolve_bound();

    close(peer.fd);
    ck_assert_int_eq(soft_connect(id, &param), 0);
    ck_assert_int_eq(status_of(RDMA_CM_EVENT_REJECTED), 8);
    end(id);
    peer_open();
}
END_TEST

static const struct {
    uint16_t reason;
    int status;
} refusals[] = {{IB_CONSUMER, 28}, {IB_INVALID_SERVICE, 8}, {IB_STALE, 10}, {0, 28}};

START_TEST(is_refused)
{
    struct rdma_cm_id *id = resolve();
    struct rdma_cm_event *event;
    struct ib_message rej;

    if (refusals[_i].reason == IB_INVALID_SERVICE) {
        end(id);
        id = resolve_bound();
    }
    (void)asked(id);
    rej = answer(IB_REJ);
    rej.local_id = 0;
    rej.rej.reason = refusals[_i].reason;
    fill(rej.private_data, 148);
    says(&rej);
    event = next_event(RDMA_CM_EVENT_REJECTED);
    ck_assert_int_eq(event->status, refusals[_i].status);
    ck_assert_uint_eq(event->param.conn.private_data_len, 148);
    ck_assert_uint_eq(((const uint8_t *)event->param.conn.private_data)[147], 148);
    ck_assert_int_eq(soft_ack_cm_event(event), 0);
    end(id);
}
END_TEST

/* ---- TCP that nobody answers ---- */

/* At the far end's TCP port, whose queue is full: more is dropped, as by a firewall. */
struct wall {
    int listener, waits[8];
    int count;
};

static struct wall wall_open(void)
{
    union soft_addr far = address(TWONETS_FAR, PORT);
    struct wall wall = {.count = 0};
    int on = 1;

    twonets_enter(true);
    wall.listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    ck_assert_int_eq(setsockopt(wall.listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on), 0);
    ck_assert_int_eq(bind(wall.listener, &far.sa, sizeof far.in), 0);
    ck_assert_int_eq(listen(wall.listener, 0), 0);
    for (; wall.count < 1; wall.count++) { /* a queue of 0 has place for one */
        wall.waits[wall.count] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        ck_assert_int_eq(connect(wall.waits[wall.count], &far.sa, sizeof far.in), 0);
    }
    twonets_enter(false);
    return wall;
}

static void wall_close(struct wall *wall)
{
    for (int i = 0; i < wall->count; i++)
        close(wall->waits[i]);
    if (wall->listener != -1)
        close(wall->listener);
}

/* There is place again: what is said again comes through. */
static void wall_opens(struct wall *wall)
{
    for (int i = 0; i < wall->count; i++)
        close(accept(wall->listener, NULL, NULL));
}

/* The channel is looked at until this is readable. */
static void await(int fd)
{
    struct pollfd fds[] = {{.fd = fd, .events = POLLIN}, {.fd = channel->fd, .events = POLLIN}};
    struct rdma_cm_event *event;

    ck_assert_int_eq(fcntl(channel->fd, F_SETFL, O_NONBLOCK), 0);
    do {
        ck_assert_int_ge(poll(fds, 2, PATIENCE_MS), 1);
        if (fds[1].revents) {
            ck_assert_int_eq(soft_get_cm_event(channel, &event), -1);
            ck_assert_int_eq(errno, EAGAIN);
        }
    } while (!fds[0].revents);
    ck_assert_int_eq(fcntl(channel->fd, F_SETFL, 0), 0);
}

static int socket_of(struct rdma_cm_id *id)
{
    return ((struct cm_id *)(void *)id)->fd;
}

/* TCP has its head start, and no more; and then it ends. */
START_TEST(tcp_is_dropped)
{
    struct rdma_cm_id *id = resolve_bound();
    struct wall wall = wall_open();
    uint64_t before = now_ns(), after;
    struct ib_message rep = reply();

    (void)asked(id);
    after = now_ns();
    ck_assert_uint_ge(after - before, UINT64_C(250000000));
    ck_assert_uint_le(after - before, UINT64_C(15000000000));
    ck_assert_int_ne(socket_of(id), -1);
    rep.remote_id = peer.number;
    says(&rep);
    ck_assert_int_eq(status_of(RDMA_CM_EVENT_ESTABLISHED), 0);
    hears(IB_RTU);
    ck_assert_int_eq(socket_of(id), -1);
    end(id);
    hears(IB_DREQ);
    wall_close(&wall);
    /* The next is asked so at once. */
    before = now_ns();
    id = resolve_bound();
    (void)asked(id);
    ck_assert_int_eq(socket_of(id), -1);
    end(id);
    ck_assert_uint_eq(hears(IB_REJ).rej.reason, IB_TIMEOUT);
}
END_TEST

/* TCP is answered after all: the request at queue pair 1 is taken back, or has been refused for want of a
 * listener. */
START_TEST(tcp_is_late)
{
    struct rdma_cm_id *id = resolve_bound();
    struct wall wall = wall_open();
    uint8_t bytes[CM_SIZE_MAX];
    struct ib_message rej;
    int guest;

    (void)asked(id);
    if (_i == 1) {
        rej = answer(IB_REJ);
        rej.local_id = 0;
        rej.rej.reason = IB_INVALID_SERVICE;
        says(&rej);
    }
    wall_opens(&wall);
    await(wall.listener);
    guest = accept(wall.listener, NULL, NULL);
    ck_assert_int_ne(guest, -1);
    await(guest);
    ck_assert_int_gt(recv(guest, bytes, sizeof bytes, 0), CM_HEADER);
    ck_assert_int_gt(cm_message_size(bytes, CM_HEADER), 0);
    if (_i == 0) {
        rej = hears(IB_REJ);
        ck_assert_uint_eq(rej.rej.reason, IB_TIMEOUT);
        ck_assert_uint_eq(rej.local_id, peer.number);
        ck_assert_uint_eq(rej.rej.info_length, 8);
    } else {
        hears_nothing();
    }
    close(guest);
    ck_assert_int_eq(status_of(RDMA_CM_EVENT_UNREACHABLE), -ECONNRESET);
    end(id);
    wall_close(&wall);
}
END_TEST

/* TCP fails while the other is still to be answered. */
START_TEST(tcp_fails_late)
{
    struct rdma_cm_id *id = resolve_bound();
    struct wall wall = wall_open();
    struct ib_message rep = reply();

    (void)asked(id);
    wall_close(&wall); /* its host refuses what is said again */
    ck_assert_int_eq(fcntl(channel->fd, F_SETFL, O_NONBLOCK), 0);
    while (socket_of(id) != -1) {
        struct pollfd one = {.fd = channel->fd, .events = POLLIN};
        struct rdma_cm_event *event;

        ck_assert_int_eq(poll(&one, 1, PATIENCE_MS), 1);
        ck_assert_int_eq(soft_get_cm_event(channel, &event), -1);
    }
    ck_assert_int_eq(fcntl(channel->fd, F_SETFL, 0), 0);
    rep.remote_id = peer.number;
    says(&rep);
    ck_assert_int_eq(status_of(RDMA_CM_EVENT_ESTABLISHED), 0);
    hears(IB_RTU);
    end(id);
    hears(IB_DREQ);
}
END_TEST

/* Who answers TCP, one of ours, has no packet at queue pair 1, however long the answer takes. */
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
    end(id);
    hears_nothing();
    wall_close(&wall);
}
END_TEST

/* ---- Hosts that say nothing ---- */

/* The time-out that runs is over. */
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

/* TCP is refused, so that there is a host, and where nothing is heard of the other nobody listens there: in as
 * long as TCP would take, and not when a user who thinks would have to have made up his mind. */
START_TEST(tcp_alone_says_no)
{
    struct rdma_cm_id *id = resolve_bound();
    struct rdma_cm_event *event;

    (void)asked(id);
    ck_assert_int_eq(waits_for(id), CM_TIMEOUT_TCP);
    time_is_up(id);
    event = next_event(RDMA_CM_EVENT_REJECTED);
    ck_assert_int_eq(event->status, 8);
    ck_assert_int_eq(soft_ack_cm_event(event), 0);
    ck_assert_uint_eq(hears(IB_REJ).rej.reason, IB_TIMEOUT);
    end(id);
}
END_TEST

/* Until it is. */
static void await_heard(struct rdma_cm_id *id)
{
    while (!cm_ib_is_heard((struct cm_id *)(void *)id))
        sched_yield(); /* the service thread's turn */
}

/* Who was heard of may take his time, and not for ever. */
START_TEST(a_user_thinks)
{
    struct rdma_cm_id *id = resolve_bound();
    struct ib_message mra = answer(IB_MRA), rep = reply();
    struct rdma_cm_event *event;

    (void)asked(id);
    mra = answer(IB_MRA);
    mra.mra.answered = IB_TO_REQ;
    mra.mra.service_time = 24;
    says(&mra);
    await_heard(id);
    time_is_up(id);
    ck_assert_int_eq(fcntl(channel->fd, F_SETFL, O_NONBLOCK), 0);
    while (waits_for(id) != CM_TIMEOUT_HANDSHAKE) {
        ck_assert_int_eq(soft_get_cm_event(channel, &event), -1);
        ck_assert_int_eq(errno, EAGAIN);
    }
    ck_assert_int_eq(fcntl(channel->fd, F_SETFL, 0), 0);
    if (_i == 0) {
        rep.remote_id = peer.number;
        says(&rep);
        ck_assert_int_eq(status_of(RDMA_CM_EVENT_ESTABLISHED), 0);
        hears(IB_RTU);
    } else {
        time_is_up(id);
        ck_assert_int_eq(status_of(RDMA_CM_EVENT_UNREACHABLE), -ETIMEDOUT);
    }
    end(id);
}
END_TEST

/* A host that was found to be reached at queue pair 1 alone is another by now, which drops that and answers by
 * TCP; or one that is not there. */
START_TEST(the_host_is_another)
{
    struct rdma_cm_id *id = resolve_bound();
    struct ib_message rep = reply();
    struct wall wall;
    int guest;

    (void)asked(id);
    rep.remote_id = peer.number;
    says(&rep);
    ck_assert_int_eq(status_of(RDMA_CM_EVENT_ESTABLISHED), 0);
    hears(IB_RTU);
    end(id);
    hears(IB_DREQ);
    wall = wall_open();
    if (_i == 0)
        wall_opens(&wall);
    id = resolve_bound();
    (void)asked(id);
    ck_assert_int_eq(socket_of(id), -1);
    ck_assert_int_eq(waits_for(id), CM_TIMEOUT_HEAD_START);
    if (_i == 0) {
        await(wall.listener);
        guest = accept(wall.listener, NULL, NULL);
        ck_assert_int_ne(guest, -1);
        await(peer.fd);
        ck_assert_uint_eq(hears(IB_REJ).rej.reason, IB_TIMEOUT); /* taken back */
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
        time_is_up(id);
        ck_assert_int_eq(status_of(RDMA_CM_EVENT_UNREACHABLE), -ETIMEDOUT);
        ck_assert_uint_eq(hears(IB_REJ).rej.reason, IB_TIMEOUT);
    }
    end(id);
    wall_close(&wall);
}
END_TEST

/* ---- Datagrams ---- */

static struct ib_message question(unsigned port)
{
    union soft_addr from = address(TWONETS_FAR, 5000), to = address(TWONETS_NEAR, 0);
    struct ib_message message = {
        .type = IB_SIDR_REQ,
        .transaction = 5,
        .local_id = NUMBER,
        .sidr_req = {.service = ib_service(IB_SPACE_UDP, (uint16_t)port), .pkey = 0xffff},
    };

    ib_address_encode(&from, &to, message.private_data);
    fill(message.private_data + IB_ADDRESS_BYTES, 180);
    return message;
}

static void hears_reply(const struct ib_message *asked_for, unsigned status)
{
    struct ib_message reply = hears(IB_SIDR_REP);

    ck_assert_uint_eq(reply.sidr_rep.status, status);
    ck_assert_uint_eq(reply.local_id, asked_for->local_id);
    ck_assert_uint_eq(reply.transaction, asked_for->transaction);
    ck_assert_uint_eq(reply.sidr_rep.service, asked_for->sidr_req.service);
}

START_TEST(is_asked)
{
    struct rdma_conn_param param = {.private_data = "hello", .private_data_len = 5};
    struct ib_message asks = question(PORT), reply, again;
    struct rdma_cm_id *listener, *id;
    struct rdma_cm_event *event;
    uint8_t data[180];
    uint32_t qpn;

    space = RDMA_PS_UDP;
    listener = listen_at(_i == 0 ? TWONETS_NEAR : "0.0.0.0");
    says(&asks);
    event = next_event(RDMA_CM_EVENT_CONNECT_REQUEST);
    id = event->id;
    fill(data, sizeof data);
    ck_assert_uint_eq(event->param.ud.private_data_len, sizeof data);
    ck_assert_mem_eq(event->param.ud.private_data, data, sizeof data);
    ck_assert_ptr_eq(event->listen_id, listener);
    ck_assert_int_eq(soft_ack_cm_event(event), 0);
    ck_assert_int_eq(id->ps, RDMA_PS_UDP);
    ck_assert_uint_eq(id->route.addr.dst_sin.sin_addr.s_addr, peer.path.local.in.sin_addr.s_addr);
    ck_assert_uint_eq(ntohs(id->route.addr.dst_sin.sin_port), 5000);
    ck_assert_uint_eq(ntohs(id->route.addr.src_sin.sin_port), PORT);
    says(&asks); /* nobody is asked twice */
    make_qp(id);
    qpn = id->qp->qp_num;
    ck_assert_int_eq(soft_accept(id, &param), 0);
    reply = hears(IB_SIDR_REP);
    ck_assert_uint_eq(reply.sidr_rep.status, IB_SIDR_VALID);
    ck_assert_uint_eq(reply.sidr_rep.qpn, qpn);
    ck_assert_uint_eq(reply.sidr_rep.qkey, RDMA_UDP_QKEY);
    ck_assert_uint_eq(reply.sidr_rep.service, asks.sidr_req.service);
    ck_assert_uint_eq(reply.local_id, NUMBER);
    ck_assert_uint_eq(reply.transaction, 5);
    ck_assert_mem_eq(reply.private_data, "hello\0", 6);
    end(id); /* and the reply is given again, whoever has gone */
    says(&asks);
    again = hears(IB_SIDR_REP);
    ck_assert_mem_eq(&again, &reply, sizeof reply);
    end(listener);
}
END_TEST

START_TEST(is_asked_in_vain)
{
    union soft_addr elsewhere = address("10.9.0.77", 5000), here = address(TWONETS_NEAR, 0);
    struct ib_message asks = question(PORT), reply;
    struct rdma_cm_id *connections = listen_on(TWONETS_NEAR, PORT + 1), *listener, *id;

    space = RDMA_PS_UDP;
    listener = listen_at(TWONETS_NEAR);
    says(&asks);
    id = take_request();
    ck_assert_int_eq(soft_reject(id, "no", 2), 0);
    reply = hears(IB_SIDR_REP);
    ck_assert_uint_eq(reply.sidr_rep.status, IB_SIDR_REJECTED);
    ck_assert_mem_eq(reply.private_data, "no\0", 3);
    end(id);
    asks.local_id++;
    says(&asks);
    end(take_request());
    hears_reply(&asks, IB_SIDR_REJECTED);
    asks = question(PORT + 1); /* which is another port space's */
    says(&asks);
    hears_reply(&asks, IB_SIDR_UNSUPPORTED);
    asks = question(PORT);
    asks.sidr_req.service = ib_service(IB_SPACE_TCP, PORT + 1);
    says(&asks);
    hears_reply(&asks, IB_SIDR_UNSUPPORTED);
    asks = question(PORT); /* in another's name */
    asks.local_id += 2;
    ib_address_encode(&elsewhere, &here, asks.private_data);
    says(&asks);
    hears_reply(&asks, IB_SIDR_REJECTED);
    end(connections);
    end(listener);
}
END_TEST

/* Of a listener with room for 8 the others are let wait. */
START_TEST(a_flood_of_questions)
{
    struct ib_message asks = question(PORT);
    struct rdma_cm_event *event;
    struct rdma_cm_id *listener;

    space = RDMA_PS_UDP;
    listener = listen_at(TWONETS_NEAR);
    for (int i = 0; i < 40; i++) {
        asks.local_id++;
        says(&asks);
    }
    asks = question(PORT + 1); /* when this is answered all of them have been seen */
    says(&asks);
    hears_reply(&asks, IB_SIDR_UNSUPPORTED);
    for (int i = 0; i < 8; i++) {
        end(take_request());
        ck_assert_uint_eq(hears(IB_SIDR_REP).sidr_rep.status, IB_SIDR_REJECTED);
    }
    ck_assert_int_eq(fcntl(channel->fd, F_SETFL, O_NONBLOCK), 0);
    ck_assert_int_eq(soft_get_cm_event(channel, &event), -1);
    ck_assert_int_eq(errno, EAGAIN);
    end(listener);
}
END_TEST

static struct ib_message asks_for(struct rdma_cm_id *id)
{
    struct rdma_conn_param param = {.private_data = "hi", .private_data_len = 2};

    ck_assert_int_eq(soft_connect(id, &param), 0);
    return hears_meanwhile(IB_SIDR_REQ); /* nobody listens otherwise */
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
        reply.sidr_rep.qpn = QPN, reply.sidr_rep.qkey = 0x1234;
    fill(reply.private_data, 136);
    return reply;
}

START_TEST(looks_up)
{
    struct ib_message asks, reply;
    struct rdma_cm_event *event;
    struct rdma_ud_param *ud;
    union soft_addr from, to;
    struct rdma_cm_id *id;
    struct wall wall;
    enum ib_space of;
    union ibv_gid gid;
    uint8_t data[136];
    uint16_t port;

    space = RDMA_PS_UDP;
    id = resolve();
    asks = asks_for(id);
    ck_assert(ib_service_port(asks.sidr_req.service, &of, &port));
    ck_assert_int_eq(of, IB_SPACE_UDP);
    ck_assert_uint_eq(port, PORT);
    ck_assert_uint_eq(asks.sidr_req.pkey, 0xffff);
    ck_assert(ib_address_decode(&from, &to, asks.private_data));
    ck_assert(ib_same_address(&from, &peer.path.remote) && ib_same_address(&to, &peer.path.local));
    ck_assert_mem_eq(asks.private_data + IB_ADDRESS_BYTES, "hi\0", 3);
    reply = reply_to(&asks, IB_SIDR_VALID);
    says(&reply);
    event = next_event(RDMA_CM_EVENT_ESTABLISHED);
    ud = &event->param.ud;
    fill(data, sizeof data);
    ck_assert_uint_eq(ud->private_data_len, sizeof data);
    ck_assert_mem_eq(ud->private_data, data, sizeof data);
    ck_assert_uint_eq(ud->qp_num, QPN);
    ck_assert_uint_eq(ud->qkey, 0x1234);
    ck_assert_uint_eq(ud->ah_attr.dlid, 0);
    soft_gid_of(&gid, &peer.path.local.sa);
    ck_assert_mem_eq(ud->ah_attr.grh.dgid.raw, gid.raw, sizeof gid.raw);
    ck_assert_int_eq(soft_ack_cm_event(event), 0);
    says(&reply); /* again, and nobody cares */
    ck_assert_int_eq(soft_disconnect(id), 0);
    end(id);
    /* The next question goes there first, and whoever listens by TCP isn't asked. */
    wall = wall_open();
    wall_opens(&wall);
    id = resolve_bound();
    asks = asks_for(id);
    reply = reply_to(&asks, IB_SIDR_VALID);
    says(&reply);
    ck_assert_int_eq(status_of(RDMA_CM_EVENT_ESTABLISHED), 0);
    end(id);
    wall_close(&wall);
}
END_TEST

/* Linux's statuses: rejected, and nobody listens; and one that says where else to ask. */
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
    says(&reply);
    event = next_event(RDMA_CM_EVENT_UNREACHABLE);
    ck_assert_int_eq(event->status, (int)vain[_i]);
    ck_assert_uint_eq(event->param.ud.private_data_len, 136);
    ck_assert_int_eq(soft_ack_cm_event(event), 0);
    end(id);
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
    end(id);
    peer_open();
}
END_TEST

/* One of several programs that look up at the same time. */
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

/* Whichever of them reads an answer, or a question, the one that it is for has it. */
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
    /* Nobody is answered, and goes, before all have asked. */
    for (int count = 0; count < PROGRAMS;) {
        bool again = false;

        all[count] = hears(IB_SIDR_REQ);
        for (int i = 0; i < count; i++)
            again |= all[i].local_id == all[count].local_id;
        count += !again;
    }
    for (int i = 0; i < PROGRAMS; i++) {
        reply = reply_to(&all[i], IB_SIDR_VALID);
        says(&reply);
    }
    for (int i = 0; i < PROGRAMS; i++) {
        int status;

        ck_assert_int_eq(waitpid(pids[i], &status, 0), pids[i]);
        ck_assert_int_eq(status, 0);
    }
    servers[0] = start_server("0.0.0.0", PORT);
    servers[1] = start_server(TWONETS_NEAR, PORT + 1);
    for (unsigned i = 0; i < 8; i++) {
        asks = question(PORT + i % 2);
        asks.local_id += i;
        says(&asks);
        reply = hears(IB_SIDR_REP);
        ck_assert_uint_eq(reply.sidr_rep.status, IB_SIDR_VALID);
        ck_assert_mem_eq(reply.private_data, "there", 5);
    }
    for (int i = 0; i < 2; i++) {
        ck_assert_int_eq(kill(servers[i], SIGKILL), 0);
        ck_assert_int_eq(waitpid(servers[i], NULL, 0), servers[i]);
    }
}
END_TEST

/* ---- The program ---- */

static void open_all(void)
{
    ck_assert_int_eq(setenv("EXS_ROCE", "on", 1), 0);
    settings_read();
    soft_share_context();
    channel = soft_create_event_channel();
    ck_assert_ptr_nonnull(channel);
    peer_open();
}

static void close_all(void)
{
    soft_destroy_event_channel(channel);
    close(peer.fd);
}

static Suite *suite(void)
{
    Suite *suite = suite_create("InfiniBand's connection manager");
    TCase *tcase = tcase_create("InfiniBand's connection manager");

    tcase_set_timeout(tcase, 60);
    tcase_add_checked_fixture(tcase, open_all, close_all);
    tcase_add_loop_test(tcase, accepted, 0, 2);
    tcase_add_test(tcase, progress_before_a_gap);
    tcase_add_test(tcase, rejected_with_data);
    tcase_add_test(tcase, wrong_requests);
    tcase_add_test(tcase, a_flood);
    tcase_add_test(tcase, many_listeners);
    tcase_add_test(tcase, several_programs);
    tcase_add_test(tcase, a_program_dies_in_a_handshake);
    tcase_add_test(tcase, a_client_dies_in_a_handshake);
    tcase_add_test(tcase, a_program_is_stopped);
    tcase_add_test(tcase, connects);
    tcase_add_test(tcase, nobody_is_there);
    tcase_add_loop_test(tcase, is_refused, 0, 4);
    tcase_add_test(tcase, tcp_is_dropped);
    tcase_add_loop_test(tcase, tcp_is_late, 0, 2);
    tcase_add_test(tcase, tcp_fails_late);
    tcase_add_test(tcase, tcp_is_answered);
    tcase_add_test(tcase, tcp_alone_says_no);
    tcase_add_loop_test(tcase, a_user_thinks, 0, 2);
    tcase_add_loop_test(tcase, the_host_is_another, 0, 2);
    tcase_add_loop_test(tcase, is_asked, 0, 2);
    tcase_add_test(tcase, is_asked_in_vain);
    tcase_add_test(tcase, a_flood_of_questions);
    tcase_add_test(tcase, looks_up);
    tcase_add_loop_test(tcase, looks_up_in_vain, 0, 3);
    tcase_add_test(tcase, nobody_to_ask);
    tcase_add_test(tcase, several_programs_and_datagrams);
    suite_add_tcase(suite, tcase);
    return suite;
}

int main(void)
{
    if (twonets_make())
        return run_suite(suite());
    fprintf(stderr, "no network namespaces of its own can be had here: %s\n", strerror(errno));
    return getenv("EXS_NO_SKIP") ? 1 : 77;
}
