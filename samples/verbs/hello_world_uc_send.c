/* SPDX-License-Identifier: BSD-2-Clause */
/* Like hello_world_rc_send, over an unreliable connection: the daemon's completion means that the message was sent, not
 * that it has arrived.
 *
 * Build: see README.md. Run: hello_world_uc_send here, hello_world_uc_send HERE there. */
#include "connect.h"
#include "poll.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#define MSG "hello world"
#define MSG_SIZE sizeof(MSG)

static int create(struct resources *r)
{
    r->cq = ibv_create_cq(r->context, 1, NULL, NULL, 0);
    if (!r->cq)
        return failed("ibv_create_cq", errno);
    /* The device writes into the client's memory only, so only there it needs permission to write. */
    if (resources_memory(r, MSG_SIZE, r->daemon ? 0 : IBV_ACCESS_LOCAL_WRITE) == -1)
        return -1;
    if (r->daemon) {
        memcpy(r->buf, MSG, MSG_SIZE);
        printf("going to send the message: '%s'\n", r->buf);
    }
    return resources_qp(r, IBV_QPT_UC, 1, 1);
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
    if (poll_completion(r) == -1)
        return -1;
    if (!r->daemon)
        printf("Message is '%s'\n", r->buf);
    return passing_sync(r->sock, 0, NULL);
}

int main(int argc, char **argv)
{
    return program_main(argc, argv, run);
}
