/* SPDX-License-Identifier: BSD-2-Clause */
/* flush.c - work requests that are outstanding when their queue pair fails, or its peer no longer responds. */
#include "cases.h"
#include "work.h"

#include <stdio.h>

static void post_sends(struct rig *r, int from, int to)
{
    struct work w;

    for (int i = from; i <= to; i++) {
        work(&w, r, IBV_WR_SEND, 8);
        w.wr.wr_id = (uint64_t)i;
        work_post(r, &w);
    }
}

/* All posted requests complete, in order for each queue. */
static void flush_sends(struct rig *r)
{
    rig_half(r);
    post_sends(r, 1, 3);
    rig_state(r->a.qp, IBV_QPS_ERR);
    say_completions("send", &r->a, 3);
}
static void flush_receives(struct rig *r)
{
    rig_half(r);
    receive(&r->a, 1, 8);
    receive(&r->a, 2, 8);
    receive(&r->a, 3, 8);
    rig_state(r->a.qp, IBV_QPS_ERR);
    say_completions("recv", &r->a, 3);
}

/* An unsignaled request has a completion if it fails. */
static void flush_unsignaled(struct rig *r)
{
    struct work w;

    r->selective = true;
    rig_half(r);
    work(&w, r, IBV_WR_SEND, 8);
    w.wr.send_flags = 0;
    work_post(r, &w);
    rig_state(r->a.qp, IBV_QPS_ERR);
    say_completions("send", &r->a, 1);
}

/* The first request fails because of its own error, the following ones because the queue pair is in error. */
static void flush_after_local(struct rig *r)
{
    struct work bad;

    rig_pair(r, IBV_QPT_RC);
    work(&bad, r, IBV_WR_SEND, 8);
    bad.sges[0].lkey ^= 0x5a5a00;
    work_post(r, &bad);
    post_sends(r, 2, 3);
    say_completions("send", &r->a, 3);
}

static void flush_after_remote(struct rig *r)
{
    struct work bad;

    rig_pair(r, IBV_QPT_RC);
    receive(&r->b, 7, 64);
    work(&bad, r, IBV_WR_RDMA_WRITE, 8);
    bad.wr.wr.rdma.rkey ^= 0x5a5a00;
    work_post(r, &bad);
    post_sends(r, 2, 3);
    say_completions("send", &r->a, 3);
    say_completions("recv", &r->b, 1);
}

/* RESET drops posted requests without completions. */
static void reset_forgets(struct rig *r)
{
    struct ibv_wc wc;

    rig_half(r);
    receive(&r->a, 1, 8);
    rig_state(r->a.qp, IBV_QPS_RESET);
    say("recv", completion_within(&r->a, &wc, 200) ? "some" : "none");
}

/* RESET also removes completions from the completion queue, except those of other queue pairs. */
static void reset_takes_back(struct rig *r)
{
    struct rig other;
    struct ibv_wc wc;
    char each[32];

    rig_pair(r, IBV_QPT_RC);
    other = *r; /* shares the completion queues */
    rig_pair(&other, IBV_QPT_RC);
    receive(&r->b, 1, 64);
    receive(&other.b, 2, 64);
    receive(&r->b, 3, 64);
    work_send(r, 8);
    work_send(&other, 8);
    work_send(r, 8);
    rig_state(r->b.qp, IBV_QPS_RESET);
    while (completion_within(&r->b, &wc, 200)) {
        snprintf(each, sizeof(each), "recv%d", (int)wc.wr_id);
        say_status(each, wc.status);
    }
}

static void silent_peer(struct rig *r)
{
    struct work w;

    r->timeout = 12; /* 17 ms */
    r->retry = 2;
    rig_half(r);
    work(&w, r, IBV_WR_SEND, 8);
    work_run(r, &w);
    say_state("a", r->a.qp);
}

static void peer_destroyed(struct rig *r)
{
    struct work w;

    r->timeout = 12;
    r->retry = 2;
    rig_pair(r, IBV_QPT_RC);
    must(ibv_destroy_qp(r->b.qp), "ibv_destroy_qp");
    work(&w, r, IBV_WR_RDMA_READ, 8);
    work_run(r, &w);
    say_state("a", r->a.qp);
}

static void peer_in_error(struct rig *r)
{
    struct work w;

    r->timeout = 12;
    r->retry = 2;
    rig_pair(r, IBV_QPT_RC);
    rig_state(r->b.qp, IBV_QPS_ERR);
    work(&w, r, IBV_WR_RDMA_WRITE, 8);
    work_run(r, &w);
}

const struct verbs_case flush_cases[] = {
    {"flush-sends", flush_sends},
    {"flush-receives", flush_receives},
    {"flush-unsignaled", flush_unsignaled},
    {"flush-after-local", flush_after_local},
    {"flush-after-remote", flush_after_remote},
    {"reset-forgets", reset_forgets},
    {"reset-takes-back", reset_takes_back},
    {"silent-peer", silent_peer},
    {"peer-destroyed", peer_destroyed},
    {"peer-in-error", peer_in_error},
    {0},
};
