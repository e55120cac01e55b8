/* SPDX-License-Identifier: BSD-2-Clause */
/* Like echo_server, by RDMA WRITE: the client writes the lines alternately into two slots of the daemon's memory. It
 * writes with immediate data, the number of the line, so that the daemon gets a completion that identifies the slot.
 * After the daemon has printed the line, it answers with a write of no bytes, and the client may use the slot again.
 *
 * Build: see README.md. Run: echo_server_rdma here, echo_server_rdma HERE there. */
#include "connect.h"
#include "echo.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>

#define SLOTS 2
#define SLOT TEXT_MAX

static uint32_t lines_in_slots; /* client: lines that were written and not answered yet */

static int create(struct resources *r)
{
    /* A write and an answer for each slot may complete before any is polled. */
    if (echo_cq(r, 2 * SLOTS) == -1)
        return -1;
    if (resources_memory(r, SLOTS * SLOT, r->daemon ? IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE : 0) ==
        -1)
        return -1;
    r->qp_access = IBV_ACCESS_REMOTE_WRITE;
    return resources_qp(r, IBV_QPT_RC, SLOTS, SLOTS);
}

/* A write with immediate data consumes a receive. The receive has no buffer, because the data go into the slot. */
static int post_receive(struct resources *r)
{
    struct ibv_recv_wr rr = {.wr_id = 0}, *bad;
    int rc = ibv_post_recv(r->qp, &rr, &bad);

    return rc == 0 ? 0 : failed("failed to post RR", rc);
}

static int post_write(struct resources *r, uint32_t number, size_t length)
{
    size_t slot = number % SLOTS * SLOT;
    struct ibv_sge sge = {.addr = (uintptr_t)r->buf + slot, .length = (uint32_t)length, .lkey = r->mr->lkey};
    struct ibv_send_wr sr = {.sg_list = &sge, .num_sge = length > 0, .opcode = IBV_WR_RDMA_WRITE_WITH_IMM},
                       *bad;

    sr.imm_data = htonl(number);
    sr.wr.rdma.remote_addr = r->remote.address + slot;
    sr.wr.rdma.rkey = r->remote.rkey;
    int rc = ibv_post_send(r->qp, &sr, &bad);
    return rc == 0 ? 0 : failed("failed to post SR", rc);
}

static int take(struct resources *r, const struct ibv_wc *wc)
{
    if (wc->opcode != IBV_WC_RECV_RDMA_WITH_IMM)
        return 0; /* the daemon's own write has completed */
    uint32_t number = ntohl(wc->imm_data);
    printf("%.*s\n", SLOT, r->buf + number % SLOTS * SLOT);
    /* The receive is posted before the answer, so that the client's next write finds it. */
    return post_receive(r) == -1 ? -1 : post_write(r, number, 0);
}

/* Waits until at most this number of slots is in use. */
static int await_slots(struct resources *r, uint32_t most)
{
    struct ibv_wc wc;

    while (lines_in_slots > most) {
        int rc = echo_await(r, &wc, 20000);
        if (rc != 1)
            return -1;
        if (wc.opcode != IBV_WC_RECV_RDMA_WITH_IMM)
            continue; /* the client's own write has completed; the answer has not arrived */
        lines_in_slots--;
        if (post_receive(r) == -1)
            return -1;
    }
    return 0;
}

static int give(struct resources *r, uint32_t number, const char *text, size_t length)
{
    if (await_slots(r, SLOTS - 1) == -1)
        return -1;
    memcpy(r->buf + number % SLOTS * SLOT, text, length);
    lines_in_slots++;
    return post_write(r, number, length);
}

static int run(struct resources *r)
{
    r->sends = true;
    if (create(r) == -1 || qp_to_init(r) == -1)
        return -1;
    for (int slot = 0; slot < SLOTS; slot++)
        if (post_receive(r) == -1)
            return -1;
    if (connect_qp(r) == -1)
        return -1;
    return r->daemon ? echo_serve(r, take, false) : echo_talk(r, give);
}

int main(int argc, char **argv)
{
    return program_main(argc, argv, run);
}
