/* SPDX-License-Identifier: BSD-2-Clause */
/* sidr.c - the connection manager's port space of datagrams: a client asks which queue pair serves a port. Both ends
 * are in this process, each with a separate event channel. */
#include "address.h"
#include "cases.h"
#include "ends.h"

#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <rdma/rdma_cma.h>
#include <string.h>
#include <unistd.h>

#define QUESTION "which?"
#define ANSWER "this one"
#define BYTES 64
#define GRH 40

/* ---- Both ends ---- */

/* The thread of a server, which waits for an event. The software device refuses requests without an event, within this
 * wait. */
static void *serve(void *listener)
{
    return cm_next_event(listener);
}

static struct rdma_cm_id *serve_in(struct rig *r, enum rdma_port_space ps)
{
    struct rdma_cm_id *listener = cm_listen(r, ps);
    pthread_t thread;

    if (pthread_create(&thread, NULL, serve, listener) != 0)
        give_up("pthread_create", EAGAIN);
    return listener;
}

static void ask(struct rdma_cm_id *id)
{
    struct rdma_conn_param param = {.private_data = QUESTION, .private_data_len = sizeof QUESTION};

    must(rdma_connect(id, &param), "rdma_connect");
}

static void say_private(const struct rdma_cm_event *event, const char *expected)
{
    const struct rdma_ud_param *ud = &event->param.ud;
    bool same = ud->private_data_len >= strlen(expected) + 1 && strcmp(ud->private_data, expected) == 0;

    say("data", same ? "came" : "lost");
}

/* Prints the event that the client gets as the result. */
static struct rdma_cm_event *say_outcome(struct rdma_cm_id *id)
{
    struct rdma_cm_event *event = cm_next_event(id);

    say("event", cm_event_name(event));
    say_number("status", event->status);
    return event;
}

static struct rdma_cm_event *take_question(struct rdma_cm_id *listener)
{
    struct rdma_cm_event *event = cm_next_event(listener);

    say("event", cm_event_name(event));
    say("listener", event->listen_id == listener ? "it" : "another");
    return event;
}

/* ---- Cases ---- */

static const struct rdma_conn_param answer = {.private_data = ANSWER, .private_data_len = sizeof ANSWER};

/* Creates both ends. Returns the event by which the client learns the server's queue pair. */
static struct rdma_cm_event *meet(struct rig *r, struct rdma_cm_id **client, struct rdma_cm_id **server)
{
    struct rdma_cm_id *listener = cm_listen(r, RDMA_PS_UDP);
    struct rdma_conn_param param = answer;
    struct rdma_cm_event *event;

    *client = cm_prepare(listener, RDMA_PS_UDP);
    ask(*client);
    event = take_question(listener);
    say_private(event, QUESTION);
    *server = event->id;
    cm_make_qp(*server, IBV_QPT_UD);
    say_error("accept", rdma_accept(*server, &param));
    must(rdma_ack_cm_event(event), "rdma_ack_cm_event");
    return say_outcome(*client);
}

static void sidr_accept(struct rig *r)
{
    struct rdma_cm_id *client, *server;
    struct rdma_cm_event *event = meet(r, &client, &server);
    const struct rdma_ud_param *ud = &event->param.ud;
    struct pollfd poller = {.fd = server->channel->fd, .events = POLLIN};

    say_private(event, ANSWER);
    say("qp", ud->qp_num == server->qp->qp_num ? "right" : "wrong");
    say("qkey", ud->qkey == RDMA_UDP_QKEY ? "right" : "wrong");
    say("handle", ud->ah_attr.is_global && ud->ah_attr.port_num == client->port_num ? "right" : "wrong");
    /* The server gets no further event. */
    say_number("more", poll(&poller, 1, 100));
}

static void post_datagram(struct rdma_cm_id *id, const struct rdma_ud_param *ud, struct ibv_sge *sge)
{
    struct ibv_send_wr wr = {.sg_list = sge, .num_sge = 1, .opcode = IBV_WR_SEND}, *bad;
    struct ibv_ah_attr to = ud->ah_attr;

    wr.wr.ud.ah = need(ibv_create_ah(id->qp->pd, &to), "ibv_create_ah");
    wr.wr.ud.remote_qpn = ud->qp_num;
    wr.wr.ud.remote_qkey = ud->qkey;
    must(ibv_post_send(id->qp, &wr, &bad), "ibv_post_send");
}

static void await_bytes(struct rdma_cm_id *id, char *memory, struct ibv_sge *sge)
{
    struct ibv_recv_wr wr = {.sg_list = sge, .num_sge = 1}, *bad;
    struct ibv_mr *mr = need(ibv_reg_mr(id->qp->pd, memory, BYTES + GRH, IBV_ACCESS_LOCAL_WRITE), "ibv_reg_mr");

    *sge = (struct ibv_sge){(uintptr_t)memory, BYTES + GRH, mr->lkey};
    must(ibv_post_recv(id->qp, &wr, &bad), "ibv_post_recv");
}

/* Sends a datagram with the data of the event only. */
static void sidr_datagram(struct rig *r)
{
    static char to[BYTES + GRH], from[BYTES] = "a datagram";
    struct rdma_cm_id *client, *server;
    struct rdma_cm_event *event = meet(r, &client, &server);
    struct ibv_sge sge, out = {.addr = (uintptr_t)from, .length = sizeof from};
    struct ibv_wc wc = {.status = IBV_WC_GENERAL_ERR};

    await_bytes(server, to, &sge);
    out.lkey = ((struct ibv_mr *)need(ibv_reg_mr(client->qp->pd, from, BYTES, 0), "ibv_reg_mr"))->lkey;
    post_datagram(client, &event->param.ud, &out);
    while (ibv_poll_cq(server->recv_cq, 1, &wc) == 0)
        ; /* if none arrives, the case exceeds its time */
    say_status("recv", wc.status);
    say("from", wc.src_qp == client->qp->qp_num ? "asker" : "another");
    say("bytes", memcmp(to + GRH, from, sizeof from) == 0 ? "same" : "other");
}

static void sidr_reject(struct rig *r)
{
    struct rdma_cm_id *listener = cm_listen(r, RDMA_PS_UDP), *id = cm_prepare(listener, RDMA_PS_UDP);
    struct rdma_cm_event *event;

    ask(id);
    event = take_question(listener);
    say_error("reject", rdma_reject(event->id, ANSWER, sizeof ANSWER));
    say_private(say_outcome(id), ANSWER);
    say("qp", id->qp->state == IBV_QPS_RTS ? "RTS" : "other");
}

static void sidr_nobody(struct rig *r)
{
    struct rdma_cm_id *listener = cm_make_id(RDMA_PS_UDP), *id;
    union address own = own_address(r);

    must(rdma_bind_addr(listener, &own.any), "rdma_bind_addr");
    id = cm_prepare(listener, RDMA_PS_UDP);
    must(rdma_destroy_id(listener), "rdma_destroy_id");
    ask(id);
    say_outcome(id);
}

static void sidr_of_connections(struct rig *r)
{
    struct rdma_cm_id *id = cm_prepare(serve_in(r, RDMA_PS_TCP), RDMA_PS_UDP);

    ask(id);
    say_outcome(id);
}

static void connect_of_datagrams(struct rig *r)
{
    struct rdma_cm_id *id = cm_prepare(serve_in(r, RDMA_PS_UDP), RDMA_PS_TCP);

    ask(id);
    say_outcome(id);
}

static void sidr_qp_type(struct rig *r)
{
    struct rdma_cm_id *id = cm_prepare(cm_listen(r, RDMA_PS_UDP), RDMA_PS_UDP), *other;
    struct ibv_qp_init_attr attr = {.cap = {4, 4, 1, 1, 0}, .qp_type = IBV_QPT_RC};

    say("first", id->qp_type == IBV_QPT_UD && id->qp->qp_type == IBV_QPT_UD ? "UD" : "other");
    say("state", id->qp->state == IBV_QPS_RTS ? "RTS" : "other");
    other = cm_prepare(cm_listen(r, RDMA_PS_UDP), RDMA_PS_UDP);
    rdma_destroy_qp(other);
    say_error("connected", rdma_create_qp(other, id->qp->pd, &attr));
}

static void sidr_private_long(struct rig *r)
{
    static const char data[255];
    struct rdma_cm_id *id = cm_prepare(cm_listen(r, RDMA_PS_UDP), RDMA_PS_UDP);
    struct rdma_conn_param param = {.private_data = data, .private_data_len = 181};

    say_error("connect", rdma_connect(id, &param));
    param.private_data_len = 180;
    say_error("connect", rdma_connect(id, &param));
}

/* ---- The port space ---- */

/* Binds an identifier to the port number of another one, or to any port, and prints the result. */
static void say_bind(const char *what, struct rig *r, struct rdma_cm_id *other, enum rdma_port_space ps,
                     bool reuse)
{
    union address own = own_address(r);
    struct rdma_cm_id *id = cm_make_id(ps);
    int on = reuse;

    must(rdma_set_option(id, RDMA_OPTION_ID, RDMA_OPTION_ID_REUSEADDR, &on, sizeof on), "rdma_set_option");
    if (other != NULL)
        own.ipv4.sin_port = rdma_get_src_port(other); /* same offset in sockaddr_in6 */
    say_error(what, rdma_bind_addr(id, &own.any));
}

/* Whether the kernel's TCP uses this port number, also for a connection in TIME_WAIT. */
static bool is_in_use(struct rig *r, in_port_t number)
{
    union address own = own_address(r);
    int fd = socket(own.any.sa_family, SOCK_STREAM, 0), result;

    own.ipv4.sin_port = number; /* same offset in sockaddr_in6 */
    result = bind(fd, &own.any, own.any.sa_family == AF_INET ? sizeof own.ipv4 : sizeof own.ipv6);
    close(fd);
    return result == -1;
}

static struct rdma_cm_id *listen_at_free_number(struct rig *r)
{
    struct rdma_cm_id *listener;
    int tries = 100;

    do
        listener = cm_listen(r, RDMA_PS_UDP);
    while (is_in_use(r, rdma_get_src_port(listener)) && --tries > 0);
    return listener;
}

/* The port spaces TCP and UDP are independent: the same number can be used in both. */
static void sidr_number_of_tcp(struct rig *r)
{
    struct rdma_cm_id *listener = cm_listen(r, RDMA_PS_TCP);

    say_bind("first", r, listener, RDMA_PS_UDP, false);
    say_bind("again", r, listener, RDMA_PS_TCP, false);
    listener = listen_at_free_number(r);
    say_bind("second", r, listener, RDMA_PS_TCP, false);
    say_bind("again", r, listener, RDMA_PS_UDP, false);
}

/* The port numbers are independent of those of the kernel's TCP. */
static void sidr_number_of_kernel(struct rig *r)
{
    union address own = own_address(r);
    struct rdma_cm_id *id = cm_make_id(RDMA_PS_UDP);
    socklen_t length = own.any.sa_family == AF_INET ? sizeof own.ipv4 : sizeof own.ipv6;
    int fd = socket(own.any.sa_family, SOCK_STREAM, 0);

    must(bind(fd, &own.any, length), "bind");
    must(listen(fd, 1), "listen");
    must(getsockname(fd, &own.any, &length), "getsockname");
    say_error("bind", rdma_bind_addr(id, &own.any));
    say_error("listen", rdma_listen(id, 4));
    id = cm_prepare(id, RDMA_PS_UDP);
    say("number", rdma_get_dst_port(id) == own.ipv4.sin_port ? "same" : "other");
}

/* A number bound to all addresses is also used for each of them. */
static void sidr_number_everywhere(struct rig *r)
{
    union address any = own_address(r), own = any;
    struct rdma_cm_id *id = cm_make_id(RDMA_PS_UDP);
    sa_family_t family = own.any.sa_family;

    memset(&any, 0, sizeof any);
    any.any.sa_family = family;
    must(rdma_bind_addr(id, &any.any), "rdma_bind_addr");
    say_bind("one", r, id, RDMA_PS_UDP, false);
    id = cm_make_id(RDMA_PS_UDP);
    must(rdma_bind_addr(id, &own.any), "rdma_bind_addr");
    any.ipv4.sin_port = rdma_get_src_port(id);
    say_error("all", rdma_bind_addr(cm_make_id(RDMA_PS_UDP), &any.any));
}

static struct rdma_cm_id *make_sharing_id(void)
{
    struct rdma_cm_id *id = cm_make_id(RDMA_PS_UDP);
    int on = 1;

    must(rdma_set_option(id, RDMA_OPTION_ID, RDMA_OPTION_ID_REUSEADDR, &on, sizeof on), "rdma_set_option");
    return id;
}

/* With REUSEADDR several identifiers may share a number until one of them listens. */
static void sidr_number_shared(struct rig *r)
{
    union address own = own_address(r);
    struct rdma_cm_id *id = make_sharing_id();

    say_error("bind", rdma_bind_addr(id, &own.any));
    own.ipv4.sin_port = rdma_get_src_port(id);
    must(rdma_destroy_id(id), "rdma_destroy_id");
    id = make_sharing_id();
    say_error("again", rdma_bind_addr(id, &own.any));
    say_bind("too", r, id, RDMA_PS_UDP, true);
    id = make_sharing_id();
    own.ipv4.sin_port = 0;
    must(rdma_bind_addr(id, &own.any), "rdma_bind_addr");
    say_error("listen", rdma_listen(id, 4));
    say_bind("late", r, id, RDMA_PS_UDP, true);
}

/* Distance of port numbers for which the software device tries the same TCP port first. */
#define NEIGHBOUR 4513

static void *reject_one(void *listener)
{
    struct rdma_cm_event *event = cm_next_event(listener);

    if (event->listen_id == listener)
        must(rdma_reject(event->id, NULL, 0), "rdma_reject");
    return event;
}

/* A request is for one port number, even if the listener of another number receives it. */
static void sidr_number_neighbours(struct rig *r)
{
    struct rdma_cm_id *first = serve_in(r, RDMA_PS_UDP), *second = cm_make_id(RDMA_PS_UDP), *id;
    union address own = own_address(r);
    struct rdma_cm_event *event;
    pthread_t thread;
    void *heard;

    own.ipv4.sin_port = htons((uint16_t)(ntohs(rdma_get_src_port(first)) - 2 * NEIGHBOUR));
    must(rdma_bind_addr(second, &own.any), "rdma_bind_addr");
    id = cm_prepare(second, RDMA_PS_UDP);
    ask(id);
    say_outcome(id); /* `second` is bound to the number, but does not listen */
    must(rdma_listen(second, 4), "rdma_listen");
    must(pthread_create(&thread, NULL, reject_one, second), "pthread_create");
    id = cm_prepare(second, RDMA_PS_UDP);
    ask(id);
    say_outcome(id);
    must(pthread_join(thread, &heard), "pthread_join");
    event = heard;
    say("event", cm_event_name(event));
    say("listener", event->listen_id == second ? "it" : "another");
}

/* Each end knows the port number of the other. */
static void sidr_numbers(struct rig *r)
{
    struct rdma_cm_id *client, *server;

    meet(r, &client, &server);
    say("asker", rdma_get_dst_port(server) == rdma_get_src_port(client) && rdma_get_src_port(client) != 0
                     ? "known"
                     : "not known");
    say("asked", rdma_get_src_port(server) == rdma_get_dst_port(client) ? "known" : "not known");
}

const struct verbs_case sidr_cases[] = {
    {"sidr-accept", sidr_accept},
    {"sidr-datagram", sidr_datagram},
    {"sidr-reject", sidr_reject},
    {"sidr-nobody", sidr_nobody},
    {"sidr-of-connections", sidr_of_connections},
    {"connect-of-datagrams", connect_of_datagrams},
    {"sidr-qp-type", sidr_qp_type},
    {"sidr-private-long", sidr_private_long},
    {"sidr-number-of-tcp", sidr_number_of_tcp},
    {"sidr-number-of-kernel", sidr_number_of_kernel},
    {"sidr-number-everywhere", sidr_number_everywhere},
    {"sidr-number-shared", sidr_number_shared},
    {"sidr-number-neighbours", sidr_number_neighbours},
    {"sidr-numbers", sidr_numbers},
    {0},
};
