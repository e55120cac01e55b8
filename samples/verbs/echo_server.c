/* SPDX-License-Identifier: BSD-2-Clause */
/* Text over a reliable connection: the client sends the lines of its standard input, the daemon prints them.
 * The daemon has posted a ring of receives. It posts each receive again after it has printed the line.
 *
 * Build: see README.md. Run: echo_server here, echo_server HERE there. */
#include "connect.h"
#include "echo.h"
#include "poll.h"

#include <stdio.h>
#include <string.h>

#define RECEIVES 8
#define SLOT TEXT_MAX

static int create(struct resources *r)
{
    if (echo_cq(r, RECEIVES) == -1)
        return -1;
    if (resources_memory(r, RECEIVES * SLOT, r->daemon ? IBV_ACCESS_LOCAL_WRITE : 0) == -1)
        return -1;
    return resources_qp(r, IBV_QPT_RC, 1, RECEIVES);
}

static int post_receive(struct resources *r, uint64_t slot)
{
    struct ibv_sge sge = {.addr = (uintptr_t)r->buf + slot * SLOT, .length = SLOT, .lkey = r->mr->lkey};
    struct ibv_recv_wr rr = {.wr_id = slot, .sg_list = &sge, .num_sge = 1}, *bad;
    int rc = ibv_post_recv(r->qp, &rr, &bad);

    return rc == 0 ? 0 : failed("failed to post RR", rc);
}

static int take(struct resources *r, const struct ibv_wc *wc)
{
    printf("%.*s\n", (int)wc->byte_len, r->buf + wc->wr_id * SLOT);
    return post_receive(r, wc->wr_id);
}

static int give(struct resources *r, uint32_t number, const char *text, size_t length)
{
    struct ibv_sge sge = {.addr = (uintptr_t)r->buf, .length = (uint32_t)length, .lkey = r->mr->lkey};
    struct ibv_send_wr sr = {.wr_id = number, .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND}, *bad;
    struct ibv_wc wc;

    memcpy(r->buf, text, length);
    int rc = ibv_post_send(r->qp, &sr, &bad);
    /* The device reads the buffer until the send has completed. */
    return rc == 0 ? poll_cq(r, &wc) : failed("failed to post SR", rc);
}

static int run(struct resources *r)
{
    r->sends = !r->daemon;
    if (create(r) == -1 || qp_to_init(r) == -1)
        return -1;
    for (uint64_t slot = 0; r->daemon && slot < RECEIVES; slot++)
        if (post_receive(r, slot) == -1)
            return -1;
    if (connect_qp(r) == -1)
        return -1;
    return r->daemon ? echo_serve(r, take, false) : echo_talk(r, give);
}

int main(int argc, char **argv)
{
    return program_main(argc, argv, run);
}
