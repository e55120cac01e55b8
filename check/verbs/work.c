/* SPDX-License-Identifier: BSD-2-Clause */
/* work.c - posts requests, and prints completions, states and events; see work.h. */
#include "work.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

/* Timeouts are counted in polls, not in time: while this process does not run, no event can arrive. */
#define LOOK 10         /* interval of polls, milliseconds */
#define STATE_LOOKS 30  /* polls for a change of state, which may follow its completion */
#define EVENT_LOOKS 150 /* polls for an event */

static int now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int)(t.tv_sec % 100000 * 1000 + t.tv_nsec / 1000000);
}

void work(struct work *w, const struct rig *r, enum ibv_wr_opcode opcode, uint32_t length)
{
    memset(w, 0, sizeof(*w));
    for (int i = 0; i < 4; i++)
        w->sges[i] = (struct ibv_sge){
            .addr = (uintptr_t)r->a.memory + (unsigned)i * length, .length = length, .lkey = r->a.mr->lkey};
    w->wr = (struct ibv_send_wr){.wr_id = 1, .sg_list = w->sges, .num_sge = 1, .opcode = opcode};
    w->wr.send_flags = IBV_SEND_SIGNALED;
    if (r->ah) {
        w->wr.wr.ud.ah = r->ah;
        w->wr.wr.ud.remote_qpn = r->b.qp->qp_num;
        w->wr.wr.ud.remote_qkey = RIG_QKEY;
    } else if (opcode == IBV_WR_ATOMIC_CMP_AND_SWP || opcode == IBV_WR_ATOMIC_FETCH_AND_ADD) {
        w->wr.wr.atomic.remote_addr = (uintptr_t)r->b.memory;
        w->wr.wr.atomic.rkey = r->b.mr->rkey;
    } else {
        w->wr.wr.rdma.remote_addr = (uintptr_t)r->b.memory;
        w->wr.wr.rdma.rkey = r->b.mr->rkey;
    }
}

bool work_post(struct rig *r, struct work *w)
{
    struct ibv_send_wr *bad = NULL;
    int rc = ibv_post_send(r->a.qp, &w->wr, &bad);

    if (rc == 0)
        return true;
    say_error("post", rc);
    say("bad_wr", bad == &w->wr ? "it" : "other");
    return false;
}

void work_run(struct rig *r, struct work *w)
{
    struct ibv_wc wc;

    if (work_post(r, w))
        say_completion("send", &r->a, &wc);
}

void work_outcome(struct rig *r, struct work *w)
{
    work_run(r, w);
    say_state("a", r->a.qp);
    say_state("b", r->b.qp);
}

void work_send(struct rig *r, uint32_t length)
{
    struct work w;

    work(&w, r, IBV_WR_SEND, length);
    work_run(r, &w);
}

int receive_at(struct rig_end *end, uint64_t wr_id, uint32_t offset, uint32_t length, uint32_t lkey)
{
    struct ibv_sge sge = {.addr = (uintptr_t)end->memory + offset, .length = length, .lkey = lkey};
    struct ibv_recv_wr wr = {.wr_id = wr_id, .sg_list = &sge, .num_sge = 1}, *bad;

    return ibv_post_recv(end->qp, &wr, &bad);
}

void receive(struct rig_end *end, uint64_t wr_id, uint32_t length)
{
    must(receive_at(end, wr_id, 8192, length, end->mr->lkey), "ibv_post_recv");
}

bool completion_within(struct rig_end *end, struct ibv_wc *wc, int limit)
{
    struct pollfd channel = {.fd = end->channel->fd, .events = POLLIN};
    int until = now() + limit;

    for (;;) {
        struct ibv_cq *cq;
        void *context;

        must(ibv_req_notify_cq(end->cq, 0), "ibv_req_notify_cq");
        int count = ibv_poll_cq(end->cq, 1, wc);
        if (count < 0)
            give_up("ibv_poll_cq", EIO);
        if (count == 1)
            return true;
        int left = until - now();
        if (left <= 0 || poll(&channel, 1, left) != 1)
            return false;
        must(ibv_get_cq_event(end->channel, &cq, &context), "ibv_get_cq_event");
        ibv_ack_cq_events(cq, 1);
    }
}

bool say_completion(const char *what, struct rig_end *end, struct ibv_wc *wc)
{
    if (!completion_within(end, wc, PATIENCE)) {
        say(what, "none");
        return false;
    }
    say_status(what, wc->status);
    return true;
}

void say_completions(const char *what, struct rig_end *end, int count)
{
    struct ibv_wc wc;
    char each[32];

    for (int i = 0; i < count; i++) {
        if (!completion_within(end, &wc, PATIENCE)) {
            say(what, "none");
            return;
        }
        snprintf(each, sizeof(each), "%s%d", what, (int)wc.wr_id);
        say_status(each, wc.status);
    }
}

void say_state(const char *what, struct ibv_qp *qp)
{
    static const char *names[] = {"RESET", "INIT", "RTR", "RTS", "SQD", "SQE", "ERR"};
    struct ibv_qp_attr attr;
    struct ibv_qp_init_attr init;
    int looks = 0;

    do {
        must(ibv_query_qp(qp, &attr, IBV_QP_STATE, &init), "ibv_query_qp");
    } while (attr.qp_state != IBV_QPS_ERR && attr.qp_state != IBV_QPS_RESET && looks++ < STATE_LOOKS &&
             poll(NULL, 0, LOOK) == 0);
    say(what, attr.qp_state <= IBV_QPS_ERR ? names[attr.qp_state] : "?");
}

void say_async(const char *what, struct rig *r)
{
    struct pollfd async = {.fd = r->context->async_fd, .events = POLLIN};
    struct ibv_async_event event;
    int looks = 0, ready;

    while ((ready = poll(&async, 1, LOOK)) == 0 && ++looks < EVENT_LOOKS)
        ;
    if (ready != 1) {
        say(what, "none");
        return;
    }
    must(ibv_get_async_event(r->context, &event), "ibv_get_async_event");
    say_event(what, event.event_type);
    ibv_ack_async_event(&event);
}
