/* SPDX-License-Identifier: BSD-2-Clause */
/* Like echo_server, by unreliable datagrams: a datagram without a posted receive is lost, and the client is not
 * notified. At the end the daemon prints how many of the messages it has received.
 *
 * Build: see README.md. Run: echo_server_ud here, echo_server_ud HERE there. */
#include "connect.h"
#include "echo.h"
#include "poll.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#define RECEIVES 8
#define SLOT (GRH_SIZE + TEXT_MAX)

static int create(struct resources *r)
{
    if (echo_cq(r, RECEIVES) == -1)
        return -1;
    if (resources_memory(r, RECEIVES * SLOT, r->daemon ? IBV_ACCESS_LOCAL_WRITE : 0) == -1)
        return -1;
    return resources_qp(r, IBV_QPT_UD, 1, RECEIVES);
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
    printf("%.*s\n", (int)wc->byte_len - GRH_SIZE, r->buf + wc->wr_id * SLOT + GRH_SIZE);
    return post_receive(r, wc->wr_id);
}

static int create_ah(struct resources *r)
{
    struct ibv_ah_attr path = resources_path(r);

    r->ah = ibv_create_ah(r->pd, &path);
    return r->ah ? 0 : failed("ibv_create_ah", errno);
}

static int give(struct resources *r, uint32_t number, const char *text, size_t length)
{
    struct ibv_sge sge = {.addr = (uintptr_t)r->buf, .length = (uint32_t)length, .lkey = r->mr->lkey};
    struct ibv_send_wr sr = {.wr_id = number, .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND}, *bad;
    struct ibv_wc wc;

    sr.wr.ud.ah = r->ah;
    sr.wr.ud.remote_qpn = r->remote.qp_num;
    sr.wr.ud.remote_qkey = QKEY;
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
    if (r->daemon)
        return echo_serve(r, take, true);
    return create_ah(r) == -1 ? -1 : echo_talk(r, give);
}

int main(int argc, char **argv)
{
    return program_main(argc, argv, run);
}
