/* SPDX-License-Identifier: BSD-2-Clause */
/* cq.c - completion queues: overrun, notification, sizes. */
#include "cases.h"
#include "work.h"

#include <errno.h>
#include <poll.h>

static void create(struct rig *r, int entries, int vector)
{
    struct ibv_comp_channel *channel = need(ibv_create_comp_channel(r->context), "ibv_create_comp_channel");

    say_result("create", ibv_create_cq(r->context, entries, NULL, channel, vector) != NULL);
}
static void cq_of_none(struct rig *r)
{
    create(r, 0, 0);
}
static void cq_too_large(struct rig *r)
{
    struct ibv_device_attr limits;

    must(ibv_query_device(r->context, &limits), "ibv_query_device");
    create(r, limits.max_cqe + 1, 0);
}
static void cq_vector_wrong(struct rig *r)
{
    create(r, 16, r->context->num_comp_vectors);
}

/* More completions than entries: the first ones are in the queue, and an asynchronous event reports the overrun. */
static void cq_overrun(struct rig *r)
{
    struct work w;

    r->depth = 64;
    rig_cq(r, &r->a, 4);
    rig_pair(r, IBV_QPT_RC);
    for (int i = 0; i < r->a.cq->cqe + 4; i++) {
        work(&w, r, IBV_WR_RDMA_WRITE, 8);
        if (!work_post(r, &w))
            break;
    }
    say_async("event", r);
}

static bool rings(struct rig_end *end, int limit)
{
    struct pollfd channel = {.fd = end->channel->fd, .events = POLLIN};
    struct ibv_cq *cq;
    void *context;

    if (poll(&channel, 1, limit) != 1)
        return false;
    must(ibv_get_cq_event(end->channel, &cq, &context), "ibv_get_cq_event");
    ibv_ack_cq_events(cq, 1);
    return true;
}

static void post_write(struct rig *r)
{
    struct work w;

    work(&w, r, IBV_WR_RDMA_WRITE, 8);
    work_post(r, &w);
}

/* Polls this number of completions, without arming the queue. */
static void drain(struct rig_end *end, int count)
{
    struct ibv_wc wc;

    while (count > 0)
        if (ibv_poll_cq(end->cq, 1, &wc) == 1)
            count--;
        else
            poll(NULL, 0, 1);
}

/* A queue that was armed once causes one event; a queue that was not armed causes none. */
static void cq_rings_once(struct rig *r)
{
    rig_pair(r, IBV_QPT_RC);
    must(ibv_req_notify_cq(r->a.cq, 0), "ibv_req_notify_cq");
    post_write(r);
    say("first", rings(&r->a, PATIENCE) ? "rings" : "silent");
    post_write(r);
    drain(&r->a, 2);
    say("second", rings(&r->a, 200) ? "rings" : "silent");
}

/* Arming a queue without a completion channel is not an error. */
static void cq_arm_no_channel(struct rig *r)
{
    struct ibv_cq *cq = need(ibv_create_cq(r->context, 4, NULL, NULL, 0), "ibv_create_cq");

    say_error("any", ibv_req_notify_cq(cq, 0));
    say_error("solicited", ibv_req_notify_cq(cq, 1));
    say_error("destroy", ibv_destroy_cq(cq));
}

/* Completions that precede the arming cause no event. */
static void cq_armed_late(struct rig *r)
{
    struct pollfd none = {.fd = -1};

    rig_pair(r, IBV_QPT_RC);
    post_write(r);
    post_write(r);
    drain(&r->a, 1);
    poll(&none, 1, 100); /* the second completion has arrived, or arrives below */
    drain(&r->a, 1);
    must(ibv_req_notify_cq(r->a.cq, 0), "ibv_req_notify_cq");
    say("old", rings(&r->a, 200) ? "rings" : "silent");
    post_write(r);
    say("new", rings(&r->a, PATIENCE) ? "rings" : "silent");
}

static void solicited(struct rig *r, unsigned flags)
{
    struct work w;

    receive(&r->b, 7, 64);
    work(&w, r, IBV_WR_SEND, 8);
    w.wr.send_flags |= flags;
    work_run(r, &w);
}

/* A queue armed for solicited completions only: solicited and failed ones cause an event. */
static void cq_solicited(struct rig *r)
{
    rig_pair(r, IBV_QPT_RC);
    must(ibv_req_notify_cq(r->b.cq, 1), "ibv_req_notify_cq");
    solicited(r, 0);
    say("plain", rings(&r->b, 200) ? "rings" : "silent");
    solicited(r, IBV_SEND_SOLICITED);
    say("solicited", rings(&r->b, PATIENCE) ? "rings" : "silent");
}
static void cq_solicited_error(struct rig *r)
{
    rig_pair(r, IBV_QPT_RC);
    must(ibv_req_notify_cq(r->b.cq, 1), "ibv_req_notify_cq");
    receive(&r->b, 7, 64);
    rig_state(r->b.qp, IBV_QPS_ERR);
    say("error", rings(&r->b, 1000) ? "rings" : "silent");
}

/* Only signaled requests have a completion; an unsignaled one has one if it fails. */
static void cq_unsignaled(struct rig *r)
{
    struct work w;
    struct ibv_wc wc;

    r->selective = true;
    rig_pair(r, IBV_QPT_RC);
    work(&w, r, IBV_WR_RDMA_WRITE, 8);
    w.wr.wr_id = 1;
    w.wr.send_flags = 0;
    work_post(r, &w);
    w.wr.wr_id = 2;
    w.wr.send_flags = IBV_SEND_SIGNALED;
    work_post(r, &w);
    if (say_completion("send", &r->a, &wc))
        say_number("wr_id", (long)wc.wr_id);
    w.wr.wr_id = 3;
    w.wr.send_flags = 0;
    w.wr.wr.rdma.rkey ^= 0x5a5a00;
    work_post(r, &w);
    if (say_completion("send", &r->a, &wc))
        say_number("wr_id", (long)wc.wr_id);
}

static void cq_resize(struct rig *r)
{
    rig_pair(r, IBV_QPT_RC);
    say_error("resize", ibv_resize_cq(r->a.cq, 1000));
    say("room", r->a.cq->cqe >= 1000 ? "enough" : "less");
}
static void cq_resize_too_small(struct rig *r)
{
    r->depth = 64;
    rig_pair(r, IBV_QPT_RC);
    for (int i = 0; i < 40; i++)
        post_write(r);
    must(ibv_req_notify_cq(r->b.cq, 0), "ibv_req_notify_cq");
    receive(&r->b, 7, 64);
    struct work w;
    work(&w, r, IBV_WR_SEND, 8);
    work_post(r, &w);
    rings(&r->b, PATIENCE); /* the 40 requests before it have completed, too */
    say_error("resize", ibv_resize_cq(r->a.cq, 8));
}

const struct verbs_case cq_cases[] = {
    {"cq-of-none", cq_of_none},
    {"cq-too-large", cq_too_large},
    {"cq-vector-wrong", cq_vector_wrong},
    {"cq-overrun", cq_overrun},
    {"cq-rings-once", cq_rings_once},
    {"cq-arm-no-channel", cq_arm_no_channel},
    {"cq-armed-late", cq_armed_late},
    {"cq-solicited", cq_solicited},
    {"cq-solicited-error", cq_solicited_error},
    {"cq-unsignaled", cq_unsignaled},
    {"cq-resize", cq_resize},
    {"cq-resize-too-small", cq_resize_too_small},
    {0},
};
