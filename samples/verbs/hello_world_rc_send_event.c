/* SPDX-License-Identifier: BSD-2-Clause */
/* Like hello_world_rc_send, but each side sleeps until an event reports its completion. It uses no CPU time while it
 * waits, but a wake-up takes longer than polling.
 *
 * Build: see README.md. Run: hello_world_rc_send_event here, hello_world_rc_send_event HERE there. */
#include "connect.h"
#include "poll.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>

#define MSG "hello world"
#define MSG_SIZE sizeof(MSG)

static int create(struct resources *r)
{
    r->channel = ibv_create_comp_channel(r->context);
    if (!r->channel)
        return failed("ibv_create_comp_channel", errno);
    r->cq = ibv_create_cq(r->context, 1, NULL, r->channel, 0);
    if (!r->cq)
        return failed("ibv_create_cq", errno);
    /* Only a completion after this call causes an event, so the queue is armed before any request is posted. */
    int rc = ibv_req_notify_cq(r->cq, 0);
    if (rc != 0)
        return failed("failed to arm the CQ", rc);
    printf("CQ was armed\n");
    /* The device writes into the client's memory only, so only there it needs permission to write. */
    if (resources_memory(r, MSG_SIZE, r->daemon ? 0 : IBV_ACCESS_LOCAL_WRITE) == -1)
        return -1;
    if (r->daemon) {
        memcpy(r->buf, MSG, MSG_SIZE);
        printf("going to send the message: '%s'\n", r->buf);
    }
    return resources_qp(r, IBV_QPT_RC, 1, 1);
}

static int post_receive(struct resources *r)
{
    struct ibv_sge sge = {.addr = (uintptr_t)r->buf, .length = MSG_SIZE, .lkey = r->mr->lkey};
    struct ibv_recv_wr rr = {.sg_list = &sge, .num_sge = 1}, *bad;
    int rc = ibv_post_recv(r->qp, &rr, &bad);

    if (rc != 0)
        return failed("failed to post RR", rc);
    printf("Receive Request was posted\n");
    return 0;
}

static int post_send(struct resources *r)
{
    struct ibv_sge sge = {.addr = (uintptr_t)r->buf, .length = MSG_SIZE, .lkey = r->mr->lkey};
    struct ibv_send_wr sr = {.sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND}, *bad;
    int rc = ibv_post_send(r->qp, &sr, &bad);

    if (rc != 0)
        return failed("failed to post SR", rc);
    printf("Send Request was posted\n");
    return 0;
}

static int await_event(struct resources *r)
{
    struct pollfd channel = {.fd = r->channel->fd, .events = POLLIN};
    struct ibv_cq *cq;
    void *context;
    int ready = poll(&channel, 1, COMPLETION_LIMIT);

    if (ready != 1)
        return failed("no completion event after timeout", ready == 0 ? ETIMEDOUT : errno);
    if (ibv_get_cq_event(r->channel, &cq, &context) != 0)
        return failed("ibv_get_cq_event", errno);
    printf("got completion event\n");
    /* Each event must be acknowledged: ibv_destroy_cq() waits for that. */
    ibv_ack_cq_events(cq, 1);
    /* The queue is armed before it is polled. A completion in between is therefore either polled or causes another
     * event. */
    int rc = ibv_req_notify_cq(cq, 0);
    return rc == 0 ? 0 : failed("failed to arm the CQ", rc);
}

static int run(struct resources *r)
{
    if (create(r) == -1 || qp_to_init(r) == -1)
        return -1;
    /* The receive is posted before the other side can send. */
    if (!r->daemon && post_receive(r) == -1)
        return -1;
    if (connect_qp(r) == -1)
        return -1;
    if (r->daemon && post_send(r) == -1)
        return -1;
    /* Both sides have a request that completes. */
    if (await_event(r) == -1 || poll_completion(r) == -1)
        return -1;
    if (!r->daemon)
        printf("Message is '%s'\n", r->buf);
    return passing_sync(r->sock, 0, NULL);
}

int main(int argc, char **argv)
{
    return program_main(argc, argv, run);
}
