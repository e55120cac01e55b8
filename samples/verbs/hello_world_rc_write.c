/* SPDX-License-Identifier: BSD-2-Clause */
/* Like hello_world_rc_send, but the daemon writes directly into the client's memory, by RDMA WRITE. The client posts no
 * request and has no completion; the daemon notifies it over TCP that its memory was written.
 *
 * Build: see README.md. Run: hello_world_rc_write here, hello_world_rc_write HERE there. */
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
    /* The other side writes the client's memory, so its memory region and queue pair must permit that. */
    if (resources_memory(r, MSG_SIZE, r->daemon ? 0 : IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE) == -1)
        return -1;
    r->qp_access = r->daemon ? 0 : IBV_ACCESS_REMOTE_WRITE;
    if (r->daemon) {
        memcpy(r->buf, MSG, MSG_SIZE);
        printf("going to send the message: '%s'\n", r->buf);
    }
    return resources_qp(r, IBV_QPT_RC, 1, 0);
}

static int post_send(struct resources *r)
{
    struct ibv_sge sge = {.addr = (uintptr_t)r->buf, .length = MSG_SIZE, .lkey = r->mr->lkey};
    struct ibv_send_wr sr = {.sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_RDMA_WRITE}, *bad;

    sr.wr.rdma.remote_addr = r->remote.address;
    sr.wr.rdma.rkey = r->remote.rkey;
    int rc = ibv_post_send(r->qp, &sr, &bad);

    if (rc != 0)
        return failed("failed to post SR", rc);
    printf("Send Request was posted\n");
    return 0;
}

static int run(struct resources *r)
{
    if (create(r) == -1 || qp_to_init(r) == -1 || connect_qp(r) == -1)
        return -1;
    if (r->daemon && post_send(r) == -1)
        return -1;
    /* Only the daemon has a request that completes. */
    if (r->daemon && poll_completion(r) == -1)
        return -1;
    /* The daemon notifies the client after the write. Until then the client must not free its memory. */
    if (passing_sync(r->sock, 0, NULL) == -1)
        return -1;
    if (!r->daemon)
        printf("Message is '%s'\n", r->buf);
    return 0;
}

int main(int argc, char **argv)
{
    return program_main(argc, argv, run);
}
