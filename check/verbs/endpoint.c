/* SPDX-License-Identifier: BSD-2-Clause */
/* endpoint.c - endpoints: identifiers that rdma_create_ep() creates from an address, with all resources, and whose
 * calls block. a connects to b, which listens in another thread, because each end waits for the other. */
#include "address.h"
#include "cases.h"

#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <pthread.h>
#include <rdma/rdma_cma.h>
#include <rdma/rdma_verbs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define QUESTION "may I?"
#define ANSWER "you may"
#define BYTES 64
#define GRH 40

/* ---- Creating both ends ---- */

/* Resolves the device's address with this port, or any port if it is 0. flags: RAI_PASSIVE for a listener. */
static struct rdma_addrinfo *address_at(struct rig *r, enum rdma_port_space ps, enum ibv_qp_type type,
                                        uint16_t port, int flags)
{
    struct rdma_addrinfo hints = {.ai_flags = flags, .ai_port_space = (int)ps, .ai_qp_type = (int)type}, *found;
    union address own = own_address(r);
    socklen_t length = own.any.sa_family == AF_INET ? sizeof own.ipv4 : sizeof own.ipv6;
    char node[NI_MAXHOST], service[8];

    if (getnameinfo(&own.any, length, node, sizeof node, NULL, 0, NI_NUMERICHOST) != 0)
        give_up("getnameinfo", EINVAL);
    snprintf(service, sizeof service, "%u", port);
    must(rdma_getaddrinfo(node, service, &hints, &found), "rdma_getaddrinfo");
    return found;
}

static struct rdma_addrinfo *address_of(struct rig *r, struct rdma_cm_id *listener, enum rdma_port_space ps,
                                        enum ibv_qp_type type)
{
    return address_at(r, ps, type, ntohs(rdma_get_src_port(listener)), 0);
}

static struct ibv_qp_init_attr qp_attr(void)
{
    return (struct ibv_qp_init_attr){.cap = {4, 4, 1, 1, 0}, .sq_sig_all = 1};
}

/* Creates a listening endpoint. with_qp: each connection gets a queue pair. */
static struct rdma_cm_id *listen_ep(struct rig *r, enum rdma_port_space ps, enum ibv_qp_type type, bool with_qp)
{
    struct ibv_qp_init_attr attr = qp_attr();
    struct rdma_cm_id *id;

    must(rdma_create_ep(&id, address_at(r, ps, type, 0, RAI_PASSIVE), NULL, with_qp ? &attr : NULL),
         "rdma_create_ep");
    must(rdma_listen(id, 4), "rdma_listen");
    return id;
}

/* Creates an endpoint with a route to the listener and a queue pair. Prints a word and returns NULL if the device does
 * not support this type. */
static struct rdma_cm_id *active_ep(struct rig *r, struct rdma_cm_id *listener, enum rdma_port_space ps,
                                    enum ibv_qp_type type)
{
    struct ibv_qp_init_attr attr = qp_attr();
    struct rdma_cm_id *id = NULL;
    int rc = rdma_create_ep(&id, address_of(r, listener, ps, type), NULL, &attr);

    say_error("create", rc);
    return rc == 0 ? id : NULL;
}

/* ---- Server ---- */

struct server {
    struct rdma_cm_id *listener, *id; /* id: of the connection */
    void (*serve)(struct server *s);
    pthread_t thread;
    struct ibv_xrcd *xrcd;
    char memory[BYTES + GRH];
    bool asked;                /* the request contained QUESTION */
    int got, answered, closed; /* errnos */
};

static int error_of(int rc)
{
    return rc == 0 ? 0 : errno;
}

static bool carries(const void *data, uint8_t length, const char *expected)
{
    return length >= strlen(expected) + 1 && strcmp(data, expected) == 0;
}

static void *serve(void *context)
{
    struct server *s = context;

    s->got = error_of(rdma_get_request(s->listener, &s->id));
    if (s->got == 0)
        s->serve(s);
    return NULL;
}

static struct server *start(struct rdma_cm_id *listener, void (*how)(struct server *s))
{
    struct server *s = need(calloc(1, sizeof *s), "calloc");

    s->listener = listener;
    s->serve = how;
    must(pthread_create(&s->thread, NULL, serve, s), "pthread_create");
    return s;
}

static void say_served(struct server *s)
{
    must(pthread_join(s->thread, NULL), "pthread_join");
    say_error("request", s->got);
    say("question", s->asked ? "came" : "lost");
    say_error("answer", s->answered);
}

static void hear(struct server *s)
{
    const struct rdma_cm_event *event = s->id->event;
    bool datagrams = s->id->qp_type == IBV_QPT_UD;

    s->asked =
        carries(datagrams ? event->param.ud.private_data : event->param.conn.private_data,
                datagrams ? event->param.ud.private_data_len : event->param.conn.private_data_len, QUESTION);
}

static void accept_it(struct server *s)
{
    struct rdma_conn_param param = {.private_data = ANSWER, .private_data_len = sizeof ANSWER};

    s->answered = error_of(rdma_accept(s->id, &param));
}

static void serve_message(struct server *s)
{
    struct ibv_mr *mr = need(rdma_reg_msgs(s->id, s->memory, sizeof s->memory), "rdma_reg_msgs");

    hear(s);
    must(rdma_post_recv(s->id, NULL, s->memory, sizeof s->memory, mr), "rdma_post_recv");
    accept_it(s);
}

static void serve_no(struct server *s)
{
    hear(s);
    s->answered = error_of(rdma_reject(s->id, ANSWER, sizeof ANSWER));
}

/* ---- Client ---- */

static void ask(struct rdma_cm_id *id)
{
    struct rdma_conn_param param = {.private_data = QUESTION, .private_data_len = sizeof QUESTION};

    say_error("connect", rdma_connect(id, &param));
}

/* Prints the event that the identifier keeps from a blocking call. */
static void say_kept(struct rdma_cm_id *id)
{
    const struct rdma_cm_event *event = id->event;
    bool datagrams = id->qp_type == IBV_QPT_UD;

    if (event == NULL) {
        say("event", "none");
        return;
    }
    say("event", rdma_event_str(event->event) + strlen("RDMA_CM_EVENT_"));
    say_number("status", event->status);
    say("data",
        carries(datagrams ? event->param.ud.private_data : event->param.conn.private_data,
                datagrams ? event->param.ud.private_data_len : event->param.conn.private_data_len, ANSWER)
            ? "came"
            : "lost");
}

static void send_message(struct rdma_cm_id *id, struct ibv_send_wr *wr)
{
    static char memory[BYTES] = "by endpoints";
    struct ibv_mr *mr = need(rdma_reg_msgs(id, memory, sizeof memory), "rdma_reg_msgs");
    struct ibv_sge sge = {(uintptr_t)memory, BYTES, mr->lkey};
    struct ibv_wc wc = {.status = IBV_WC_GENERAL_ERR};
    struct ibv_send_wr *bad;

    wr->opcode = IBV_WR_SEND;
    wr->sg_list = &sge;
    wr->num_sge = 1;
    must(ibv_post_send(id->qp, wr, &bad), "ibv_post_send");
    if (rdma_get_send_comp(id, &wc) != 1)
        give_up("rdma_get_send_comp", errno);
    say_status("send", wc.status);
}

static void say_received(struct server *s, size_t offset)
{
    struct ibv_wc wc = {.status = IBV_WC_GENERAL_ERR};

    if (rdma_get_recv_comp(s->id, &wc) != 1)
        give_up("rdma_get_recv_comp", errno);
    say_status("recv", wc.status);
    say_number("bytes", wc.byte_len);
    say("memory", strcmp(s->memory + offset, "by endpoints") == 0 ? "same" : "other");
}

/* ---- Cases ---- */

static void message(struct rig *r, enum rdma_port_space ps, enum ibv_qp_type type)
{
    struct rdma_cm_id *listener = listen_ep(r, ps, type, true), *id;
    struct server *s = start(listener, serve_message);
    struct ibv_send_wr wr = {0};

    id = active_ep(r, listener, ps, type);
    if (id == NULL)
        return;
    ask(id);
    say_served(s);
    say_kept(id);
    send_message(id, &wr);
    say_received(s, 0);
}

static void ep_rc(struct rig *r)
{
    message(r, RDMA_PS_TCP, IBV_QPT_RC);
}
static void ep_ib_rc(struct rig *r)
{
    message(r, RDMA_PS_IB, IBV_QPT_RC);
}
static void ep_uc(struct rig *r)
{
    message(r, RDMA_PS_IB, IBV_QPT_UC);
}

static void ep_ud(struct rig *r)
{
    struct rdma_cm_id *listener = listen_ep(r, RDMA_PS_UDP, IBV_QPT_UD, true), *id;
    struct server *s = start(listener, serve_message);
    struct ibv_send_wr wr = {0};
    struct ibv_ah_attr to;

    id = active_ep(r, listener, RDMA_PS_UDP, IBV_QPT_UD);
    ask(id);
    say_served(s);
    say_kept(id);
    to = id->event->param.ud.ah_attr;
    wr.wr.ud.ah = need(ibv_create_ah(id->pd, &to), "ibv_create_ah");
    wr.wr.ud.remote_qpn = id->event->param.ud.qp_num;
    wr.wr.ud.remote_qkey = id->event->param.ud.qkey;
    send_message(id, &wr);
    say_received(s, GRH);
}

/* For an extended connection (XRC) the program must create b's queue pair, because it must specify the XRC domain. */
static void serve_extended(struct server *s)
{
    struct ibv_xrcd_init_attr domain = {
        .comp_mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS, .fd = -1, .oflags = O_CREAT};
    struct ibv_qp_init_attr_ex attr = {.qp_type = IBV_QPT_XRC_RECV, .comp_mask = IBV_QP_INIT_ATTR_XRCD};

    hear(s);
    s->xrcd = attr.xrcd = need(ibv_open_xrcd(s->id->verbs, &domain), "ibv_open_xrcd");
    must(rdma_create_qp_ex(s->id, &attr), "rdma_create_qp_ex");
    accept_it(s);
}

static void ep_xrc(struct rig *r)
{
    struct rdma_cm_id *listener = listen_ep(r, RDMA_PS_IB, IBV_QPT_XRC_RECV, false), *id;
    struct server *s = start(listener, serve_extended);
    struct ibv_srq_init_attr_ex attr = {.attr = {.max_wr = 4, .max_sge = 1},
                                        .comp_mask = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD |
                                                     IBV_SRQ_INIT_ATTR_XRCD | IBV_SRQ_INIT_ATTR_CQ,
                                        .srq_type = IBV_SRQT_XRC};
    struct ibv_send_wr wr = {0};
    struct ibv_mr *mr;

    id = active_ep(r, listener, RDMA_PS_IB, IBV_QPT_XRC_SEND);
    if (id == NULL)
        return;
    ask(id);
    say_served(s);
    say_kept(id);
    attr.xrcd = s->xrcd;
    must(rdma_create_srq_ex(s->id, &attr), "rdma_create_srq_ex");
    mr = need(rdma_reg_msgs(s->id, s->memory, sizeof s->memory), "rdma_reg_msgs");
    must(rdma_post_recv(s->id, NULL, s->memory, sizeof s->memory, mr), "rdma_post_recv");
    must(ibv_get_srq_num(s->id->srq, &wr.qp_type.xrc.remote_srqn), "ibv_get_srq_num");
    send_message(id, &wr);
    say_received(s, 0);
}

/* Creates the queue pair of an endpoint without one, with attributes that rdma_create_ep() does not support. */
static void make_qp(struct rdma_cm_id *id)
{
    struct ibv_qp_init_attr_ex attr = {
        .cap = {4, 4, 1, 1, 0}, .qp_type = IBV_QPT_RC, .sq_sig_all = 1, .comp_mask = IBV_QP_INIT_ATTR_PD};

    attr.pd = need(ibv_alloc_pd(id->verbs), "ibv_alloc_pd");
    must(rdma_create_qp_ex(id, &attr), "rdma_create_qp_ex");
}

static void serve_with_own_qp(struct server *s)
{
    if (s->id->qp != NULL)
        give_up("queue pair", EEXIST);
    make_qp(s->id);
    serve_message(s);
}

static void ep_qp_later(struct rig *r)
{
    struct rdma_cm_id *listener = listen_ep(r, RDMA_PS_TCP, IBV_QPT_RC, false), *id;
    struct server *s = start(listener, serve_with_own_qp);
    struct ibv_send_wr wr = {0};

    must(rdma_create_ep(&id, address_of(r, listener, RDMA_PS_TCP, IBV_QPT_RC), NULL, NULL), "rdma_create_ep");
    say("qp", id->qp != NULL ? "made" : "none");
    make_qp(id);
    ask(id);
    say_served(s);
    send_message(id, &wr);
    say_received(s, 0);
}

static void ep_reject(struct rig *r)
{
    struct rdma_cm_id *listener = listen_ep(r, RDMA_PS_TCP, IBV_QPT_RC, true), *id;
    struct server *s = start(listener, serve_no);

    id = active_ep(r, listener, RDMA_PS_TCP, IBV_QPT_RC);
    ask(id);
    say_served(s);
    say_kept(id);
}

/* The port is bound, so that no other process uses it, but no endpoint listens on it. */
static void ep_nobody(struct rig *r)
{
    struct rdma_cm_id *bound, *id;

    must(rdma_create_ep(&bound, address_at(r, RDMA_PS_TCP, IBV_QPT_RC, 0, RAI_PASSIVE), NULL, NULL),
         "rdma_create_ep");
    id = active_ep(r, bound, RDMA_PS_TCP, IBV_QPT_RC);
    ask(id);
    say_kept(id);
}

/* Private data in the address take precedence over those of the program. */
static void ep_connect_data(struct rig *r)
{
    struct rdma_cm_id *listener = listen_ep(r, RDMA_PS_TCP, IBV_QPT_RC, true), *id;
    struct server *s = start(listener, serve_message);
    struct rdma_addrinfo *to = address_of(r, listener, RDMA_PS_TCP, IBV_QPT_RC);
    struct rdma_conn_param param = {.private_data = &QUESTION[3], .private_data_len = sizeof QUESTION - 3};
    struct ibv_qp_init_attr attr = qp_attr();

    to->ai_connect = need(malloc(3), "malloc");
    memcpy(to->ai_connect, QUESTION, 3);
    to->ai_connect_len = 3;
    must(rdma_create_ep(&id, to, NULL, &attr), "rdma_create_ep");
    rdma_freeaddrinfo(to);
    say_error("connect", rdma_connect(id, &param));
    say_served(s);
}

/* Only calls of identifiers without an event channel of the program block. */
static void ep_request_of_channel(struct rig *r)
{
    struct rdma_event_channel *channel = need(rdma_create_event_channel(), "rdma_create_event_channel");
    union address own = own_address(r);
    struct rdma_cm_id *id, *request = NULL;

    must(rdma_create_id(channel, &id, NULL, RDMA_PS_TCP), "rdma_create_id");
    must(rdma_bind_addr(id, &own.any), "rdma_bind_addr");
    must(rdma_listen(id, 4), "rdma_listen");
    say_error("request", rdma_get_request(id, &request));
}

static void serve_and_close(struct server *s)
{
    hear(s);
    accept_it(s);
    s->closed = error_of(rdma_disconnect(s->id));
}

/* The call of each end waits for the other end. */
static void ep_disconnect(struct rig *r)
{
    struct rdma_cm_id *listener = listen_ep(r, RDMA_PS_TCP, IBV_QPT_RC, true), *id;
    struct server *s = start(listener, serve_and_close);

    id = active_ep(r, listener, RDMA_PS_TCP, IBV_QPT_RC);
    ask(id);
    say_error("disconnect", rdma_disconnect(id));
    say_served(s);
    say_error("disconnect", s->closed);
    say("a", id->qp->state == IBV_QPS_ERR ? "ERR" : "other");
    say("b", s->id->qp->state == IBV_QPS_ERR ? "ERR" : "other");
}

const struct verbs_case endpoint_cases[] = {
    {"ep-rc", ep_rc},
    {"ep-ib-rc", ep_ib_rc},
    {"ep-uc", ep_uc},
    {"ep-ud", ep_ud},
    {"ep-xrc", ep_xrc},
    {"ep-qp-later", ep_qp_later},
    {"ep-reject", ep_reject},
    {"ep-nobody", ep_nobody},
    {"ep-connect-data", ep_connect_data},
    {"ep-request-of-channel", ep_request_of_channel},
    {"ep-disconnect", ep_disconnect},
    {0},
};
