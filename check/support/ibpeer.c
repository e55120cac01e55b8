/* SPDX-License-Identifier: BSD-2-Clause */
/* ibpeer.c - see ibpeer.h. */
#include "ibpeer.h"
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <netinet/in.h>
#include <sys/prctl.h>
#include "check/support/processes.h"
#include "check/support/roce.h"
#include "core/base/settings.h"
#include "soft/cm/ib_address.h"
#include "soft/link/icrc.h"
#include "soft/verbs/verbs.h"

struct ibpeer peer;
struct rdma_event_channel *channel;
enum rdma_port_space space = RDMA_PS_TCP;

/* ---- The peer ---- */

void peer_open(void)
{
    int mode = IP_PMTUDISC_DO;

    peer.path = (struct soft_path){.local = ib_at(TWONETS_FAR, SOFT_UDP_PORT),
                                   .remote = ib_at(TWONETS_NEAR, SOFT_UDP_PORT)};
    twonets_enter(true);
    peer.fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    ck_assert_int_eq(bind(peer.fd, &peer.path.local.sa, sizeof peer.path.local.in), 0);
    twonets_enter(false);
    ck_assert_int_eq(setsockopt(peer.fd, IPPROTO_IP, IP_MTU_DISCOVER, &mode, sizeof mode), 0);
}

void peer_says_as(const struct ib_message *message, uint32_t qkey)
{
    uint8_t packet[ROCE_MAX];
    size_t length = ib_packet(packet, &peer.path, message, qkey);

    ck_assert_int_eq(sendto(peer.fd, packet, length, 0, &peer.path.remote.sa, sizeof peer.path.remote.in),
                     (ssize_t)length);
}

void peer_says(const struct ib_message *message)
{
    peer_says_as(message, IBWORDS_QKEY);
}

struct ib_message peer_answer(enum ib_type type)
{
    return (struct ib_message){.type = type, .transaction = 5, .local_id = NUMBER, .remote_id = peer.number};
}

struct ib_message peer_hears_any(void)
{
    struct pollfd one = {.fd = peer.fd, .events = POLLIN};
    struct soft_path from = peer.path; /* from any port */
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
    ck_assert_uint_eq(roce.qkey, IBWORDS_QKEY);
    ck_assert_uint_eq(roce.source, 1);
    ck_assert(ib_decode(&message, roce.payload));
    return message;
}

struct ib_message peer_hears(enum ib_type type)
{
    struct ib_message message = peer_hears_any();

    while (message.type != type &&
           (message.type == IB_REQ || message.type == IB_SIDR_REQ || message.type == IB_DREQ))
        message = peer_hears_any();
    ck_assert_uint_eq(message.type, type);
    return message;
}

void peer_hears_nothing(void)
{
    struct pollfd one = {.fd = peer.fd, .events = POLLIN};

    ck_assert_int_eq(poll(&one, 1, 100), 0);
}

void peer_fill(uint8_t *data, size_t length)
{
    for (size_t i = 0; i < length; i++)
        data[i] = (uint8_t)(i + 1);
}

struct ib_message peer_request(unsigned port)
{
    struct ib_message req = ib_request(TWONETS_FAR, TWONETS_NEAR, port, NUMBER);

    peer_fill(req.private_data + IB_ADDRESS_BYTES, 56);
    return req;
}

struct ib_message peer_question(unsigned port)
{
    union soft_addr from = ib_at(TWONETS_FAR, 5000), to = ib_at(TWONETS_NEAR, 0);
    struct ib_message message = {
        .type = IB_SIDR_REQ,
        .transaction = 5,
        .local_id = NUMBER,
        .sidr_req = {.service = ib_service(IB_SPACE_UDP, (uint16_t)port), .pkey = 0xffff},
    };

    ib_address_encode(&from, &to, message.private_data);
    peer_fill(message.private_data + IB_ADDRESS_BYTES, 180);
    return message;
}

struct ib_message peer_reply(void)
{
    struct ib_message rep = peer_answer(IB_REP);

    rep.transaction = peer.transaction;
    rep.rep = (struct ib_rep){
        .ca_guid = IBWORDS_GUID, .qpn = IBWORDS_QPN, .psn = IBWORDS_PSN, .ack_delay = 15, .rnr_retry_count = 7};
    peer_fill(rep.private_data, 196);
    return rep;
}

/* ---- The device's side ---- */

struct rdma_cm_event *next_event(enum rdma_cm_event_type type)
{
    struct rdma_cm_event *event;

    ck_assert_int_eq(soft_get_cm_event(channel, &event), 0);
    ck_assert_msg(event->event == type, "event %d, status %d", event->event, event->status);
    return event;
}

int status_of(enum rdma_cm_event_type type)
{
    struct rdma_cm_event *event = next_event(type);
    int status = event->status;

    ck_assert_int_eq(soft_ack_cm_event(event), 0);
    return status;
}

void no_event(void)
{
    struct rdma_cm_event *event;

    ck_assert_int_eq(fcntl(channel->fd, F_SETFL, O_NONBLOCK), 0);
    ck_assert_int_eq(soft_get_cm_event(channel, &event), -1);
    ck_assert_int_eq(errno, EAGAIN);
    ck_assert_int_eq(fcntl(channel->fd, F_SETFL, 0), 0);
}

void await_fd(int fd)
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

struct ib_message peer_hears_meanwhile(enum ib_type type)
{
    await_fd(peer.fd);
    return peer_hears(type);
}

void make_id_qp(struct rdma_cm_id *id)
{
    struct ibv_qp_init_attr attr = {.qp_type = space == RDMA_PS_TCP ? IBV_QPT_RC : IBV_QPT_UD,
                                    .cap = {4, 4, 1, 1, 0}};

    ck_assert_int_eq(soft_create_id_qp(id, NULL, &attr), 0);
}

struct rdma_cm_id *listen_on(const char *text, unsigned port)
{
    union soft_addr addr = ib_at(text, port);
    struct rdma_cm_id *id;

    ck_assert_int_eq(soft_create_id(channel, &id, NULL, space), 0);
    ck_assert_int_eq(soft_bind_addr(id, &addr.sa), 0);
    ck_assert_int_eq(soft_listen(id, 8), 0);
    return id;
}

struct rdma_cm_id *listen_at(const char *text)
{
    return listen_on(text, PORT);
}

void end_id(struct rdma_cm_id *id)
{
    soft_destroy_id_qp(id);
    ck_assert_int_eq(soft_destroy_id(id), 0);
}

struct rdma_cm_id *take_request(void)
{
    struct rdma_cm_event *event = next_event(RDMA_CM_EVENT_CONNECT_REQUEST);
    struct rdma_cm_id *id = event->id;

    ck_assert_int_eq(soft_ack_cm_event(event), 0);
    return id;
}

struct rdma_cm_id *resolve_id(void)
{
    union soft_addr far = ib_at(TWONETS_FAR, PORT);
    struct rdma_cm_id *id;

    ck_assert_int_eq(soft_create_id(channel, &id, NULL, space), 0);
    ck_assert_int_eq(soft_resolve_addr(id, NULL, &far.sa, 1000), 0);
    ck_assert_int_eq(status_of(RDMA_CM_EVENT_ADDR_RESOLVED), 0);
    ck_assert_int_eq(soft_resolve_route(id, 1000), 0);
    ck_assert_int_eq(status_of(RDMA_CM_EVENT_ROUTE_RESOLVED), 0);
    make_id_qp(id);
    return id;
}

struct rdma_cm_id *resolve_bound(void)
{
    union soft_addr near = ib_at(TWONETS_NEAR, 0), far = ib_at(TWONETS_FAR, PORT);
    struct rdma_cm_id *id;

    ck_assert_int_eq(soft_create_id(channel, &id, NULL, space), 0);
    ck_assert_int_eq(soft_bind_addr(id, &near.sa), 0);
    ck_assert_int_eq(soft_resolve_addr(id, NULL, &far.sa, 1000), 0);
    ck_assert_int_eq(status_of(RDMA_CM_EVENT_ADDR_RESOLVED), 0);
    ck_assert_int_eq(soft_resolve_route(id, 1000), 0);
    ck_assert_int_eq(status_of(RDMA_CM_EVENT_ROUTE_RESOLVED), 0);
    make_id_qp(id);
    return id;
}

struct ib_message peer_is_asked(struct rdma_cm_id *id)
{
    struct rdma_conn_param param = {.private_data = "hi",
                                    .private_data_len = 2,
                                    .responder_resources = 1,
                                    .initiator_depth = 1,
                                    .retry_count = 4,
                                    .rnr_retry_count = 3};
    struct ib_message req;

    ck_assert_int_eq(soft_connect(id, &param), 0);
    req = peer_hears_meanwhile(IB_REQ); /* TCP is refused */
    peer.number = req.local_id;
    peer.transaction = req.transaction;
    return req;
}

/* ---- Other programs ---- */

/* Accepts every request and disconnects, until it is killed. */
static void serve(const char *text, unsigned port, int ready)
{
    struct rdma_conn_param param = {.private_data = "there", .private_data_len = 5};
    struct rdma_cm_event *event;

    prctl(PR_SET_PDEATHSIG, SIGKILL); /* a test that fails does not kill it */
    channel = soft_create_event_channel();
    (void)listen_on(text, port);
    if (write(ready, "", 1) != 1)
        _exit(1);
    while (soft_get_cm_event(channel, &event) == 0) {
        struct rdma_cm_id *id = event->id;
        enum rdma_cm_event_type type = event->event;

        soft_ack_cm_event(event);
        if (type == RDMA_CM_EVENT_CONNECT_REQUEST) {
            make_id_qp(id);
            if (soft_accept(id, &param) != 0)
                _exit(1);
            if (space == RDMA_PS_UDP)
                end_id(id);
        } else if (type == RDMA_CM_EVENT_ESTABLISHED) {
            soft_disconnect(id);
        } else {
            end_id(id);
        }
    }
    _exit(1);
}

pid_t start_server(const char *text, unsigned port)
{
    int ready[2];
    pid_t pid;

    ck_assert_int_eq(pipe(ready), 0);
    pid = fork();
    if (pid == 0)
        serve(text, port, ready[1]);
    close(ready[1]);
    await_byte(ready[0]);
    close(ready[0]);
    return pid;
}

struct ib_message peer_asks(const struct ib_message *req)
{
    struct pollfd one = {.fd = peer.fd, .events = POLLIN};
    struct ib_message message;

    for (int tries = 0; tries < PATIENCE_MS / AGAIN_MS; tries++) {
        peer_says(req);
        while (poll(&one, 1, AGAIN_MS) == 1) {
            message = peer_hears_any();
            if (message.remote_id == req->local_id && (message.type == IB_REP || message.type == IB_REJ))
                return message;
        }
    }
    ck_abort_msg("nobody answers a request");
}

/* Waits for the DREQ. A repeated REP means that the peer's RTU was lost, so it is sent again. */
static struct ib_message hear_end(const struct ib_message *rtu)
{
    struct ib_message message;

    do {
        message = peer_hears_any(); /* perhaps a repeated message of an earlier connection */
        if (message.type == IB_REP && message.remote_id == rtu->local_id)
            peer_says(rtu);
    } while (message.type != IB_DREQ || message.remote_id != rtu->local_id);
    return message;
}

void peer_visits(unsigned port, uint32_t number)
{
    struct ib_message req = peer_request(port), rep, message;

    req.local_id = NUMBER + number;
    req.req.qpn = IBWORDS_QPN + number;
    rep = peer_asks(&req);
    ck_assert_uint_eq(rep.type, IB_REP);
    ck_assert_mem_eq(rep.private_data, "there", 5);
    message = (struct ib_message){.type = IB_RTU, .local_id = req.local_id, .remote_id = rep.local_id};
    peer_says(&message);
    message = hear_end(&message);
    ck_assert_uint_eq(message.dreq.qpn, req.req.qpn);
    message.type = IB_DREP;
    message.local_id = req.local_id;
    message.remote_id = rep.local_id;
    peer_says(&message);
}

/* ---- A TCP port that is not answered ---- */

struct wall wall_open(void)
{
    union soft_addr far = ib_at(TWONETS_FAR, PORT);
    struct wall wall = {.count = 0};
    int on = 1;

    twonets_enter(true);
    wall.listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    ck_assert_int_eq(setsockopt(wall.listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on), 0);
    ck_assert_int_eq(bind(wall.listener, &far.sa, sizeof far.in), 0);
    ck_assert_int_eq(listen(wall.listener, 0), 0);
    for (; wall.count < 1; wall.count++) { /* a queue of length 0 holds one connection */
        wall.waits[wall.count] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        ck_assert_int_eq(connect(wall.waits[wall.count], &far.sa, sizeof far.in), 0);
    }
    twonets_enter(false);
    return wall;
}

void wall_close(struct wall *wall)
{
    for (int i = 0; i < wall->count; i++)
        close(wall->waits[i]);
    if (wall->listener != -1)
        close(wall->listener);
}

void wall_opens(struct wall *wall)
{
    for (int i = 0; i < wall->count; i++)
        close(accept(wall->listener, NULL, NULL));
}

/* ---- The program ---- */

static void open_all(void)
{
    ck_assert_int_eq(setenv("EXS_ROCE", "on", 1), 0);
    settings_read(NULL);
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

TCase *ib_case(Suite *suite, const char *name)
{
    TCase *tcase = new_case(suite, name);

    tcase_set_timeout(tcase, 60);
    tcase_add_checked_fixture(tcase, open_all, close_all);
    return tcase;
}

int ib_main(Suite *(*suite)(void))
{
    return twonets_main(twonets_make, suite);
}
