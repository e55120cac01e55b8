/* SPDX-License-Identifier: BSD-2-Clause */
/* ordinary.c - successful cases, with which the others can be compared. */
#include "cases.h"
#include "work.h"

#include <arpa/inet.h>
#include <string.h>

static void say_same(const struct rig *r, uint32_t offset, uint32_t length)
{
    say("data", memcmp(r->a.memory, r->b.memory + offset, length) == 0 ? "same" : "other");
}

/* Prints the completion of b's receive. */
static void say_received(struct rig *r)
{
    struct ibv_wc wc;

    if (!say_completion("recv", &r->b, &wc) || wc.status != IBV_WC_SUCCESS)
        return;
    say_number("bytes", wc.byte_len);
    if (wc.wc_flags & IBV_WC_WITH_IMM)
        say_number("imm", ntohl(wc.imm_data));
    /* For connected queue pairs this flag has no meaning. */
    if (r->b.qp->qp_type == IBV_QPT_UD)
        say("grh", wc.wc_flags & IBV_WC_GRH ? "yes" : "no");
}

static void one(struct rig *r, enum ibv_qp_type type, enum ibv_wr_opcode opcode, uint32_t length,
                uint32_t offset)
{
    struct work w;

    rig_pair(r, type);
    memset(r->a.memory, 0x5a, length);
    if (type != IBV_QPT_RC || opcode != IBV_WR_RDMA_WRITE)
        receive(&r->b, 7, 8192);
    work(&w, r, opcode, length);
    w.wr.imm_data = htonl(123456);
    work_run(r, &w);
    if (opcode != IBV_WR_RDMA_WRITE)
        say_received(r);
    say_same(r, offset, length);
}

static void rc_send(struct rig *r)
{
    one(r, IBV_QPT_RC, IBV_WR_SEND, 64, 8192);
}
static void rc_send_long(struct rig *r)
{
    one(r, IBV_QPT_RC, IBV_WR_SEND, 8000, 8192);
}
static void rc_send_empty(struct rig *r)
{
    one(r, IBV_QPT_RC, IBV_WR_SEND, 0, 8192);
}
static void rc_send_imm(struct rig *r)
{
    one(r, IBV_QPT_RC, IBV_WR_SEND_WITH_IMM, 64, 8192);
}
static void rc_write(struct rig *r)
{
    one(r, IBV_QPT_RC, IBV_WR_RDMA_WRITE, 8000, 0);
}
static void rc_write_imm(struct rig *r)
{
    one(r, IBV_QPT_RC, IBV_WR_RDMA_WRITE_WITH_IMM, 64, 0);
}
static void uc_send(struct rig *r)
{
    one(r, IBV_QPT_UC, IBV_WR_SEND, 64, 8192);
}
static void uc_send_long(struct rig *r)
{
    one(r, IBV_QPT_UC, IBV_WR_SEND, 8000, 8192);
}
static void uc_write_imm(struct rig *r)
{
    one(r, IBV_QPT_UC, IBV_WR_RDMA_WRITE_WITH_IMM, 64, 0);
}
static void ud_send(struct rig *r)
{
    one(r, IBV_QPT_UD, IBV_WR_SEND, 64, 8192 + 40);
}
static void ud_send_imm(struct rig *r)
{
    one(r, IBV_QPT_UD, IBV_WR_SEND_WITH_IMM, 64, 8192 + 40);
}

static void rc_read(struct rig *r)
{
    struct work w;

    rig_pair(r, IBV_QPT_RC);
    memset(r->b.memory, 0x77, 8000);
    work(&w, r, IBV_WR_RDMA_READ, 8000);
    work_run(r, &w);
    say_same(r, 0, 8000);
}

static void rc_send_gathered(struct rig *r)
{
    struct work w;

    rig_pair(r, IBV_QPT_RC);
    memset(r->a.memory, 0x33, 128);
    receive(&r->b, 7, 8192);
    work(&w, r, IBV_WR_SEND, 64);
    w.wr.num_sge = 2;
    work_run(r, &w);
    say_received(r);
    say_same(r, 8192, 128);
}

/* Inline data are copied by the post: the key is not checked, and the memory may be reused immediately. */
static void rc_send_inline(struct rig *r)
{
    struct work w;
    char here[32] = "inline";

    rig_pair(r, IBV_QPT_RC);
    memcpy(r->a.memory, here, sizeof(here));
    receive(&r->b, 7, 8192);
    work(&w, r, IBV_WR_SEND, sizeof(here));
    w.wr.send_flags |= IBV_SEND_INLINE;
    w.sges[0].addr = (uintptr_t)here;
    w.sges[0].lkey ^= 0x5a5a00;
    if (work_post(r, &w)) {
        struct ibv_wc wc;

        memset(here, 0, sizeof(here));
        say_completion("send", &r->a, &wc);
    }
    say_received(r);
    say_same(r, 8192, sizeof(here));
}

/* The target contains 1000. Prints the value that a receives, and the new value of the target. */
static void atomic(struct rig *r, enum ibv_wr_opcode opcode, uint64_t compare_add, uint64_t swap)
{
    struct work w;
    uint64_t value = 1000;

    rig_pair(r, IBV_QPT_RC);
    memcpy(r->b.memory, &value, sizeof(value));
    work(&w, r, opcode, sizeof(value));
    w.wr.wr.atomic.compare_add = compare_add;
    w.wr.wr.atomic.swap = swap;
    work_run(r, &w);
    memcpy(&value, r->a.memory, sizeof(value));
    say_number("was", (long)value);
    memcpy(&value, r->b.memory, sizeof(value));
    say_number("is", (long)value);
}
static void fetch_and_add(struct rig *r)
{
    atomic(r, IBV_WR_ATOMIC_FETCH_AND_ADD, 23, 0);
}
static void swap_equal(struct rig *r)
{
    atomic(r, IBV_WR_ATOMIC_CMP_AND_SWP, 1000, 5);
}
static void swap_unequal(struct rig *r)
{
    atomic(r, IBV_WR_ATOMIC_CMP_AND_SWP, 999, 5);
}

const struct verbs_case ordinary_cases[] = {
    {"rc-send", rc_send},
    {"rc-send-long", rc_send_long},
    {"rc-send-empty", rc_send_empty},
    {"rc-send-imm", rc_send_imm},
    {"rc-send-gathered", rc_send_gathered},
    {"rc-send-inline", rc_send_inline},
    {"rc-write", rc_write},
    {"rc-write-imm", rc_write_imm},
    {"rc-read", rc_read},
    {"fetch-and-add", fetch_and_add},
    {"swap-equal", swap_equal},
    {"swap-unequal", swap_unequal},
    {"uc-send", uc_send},
    {"uc-send-long", uc_send_long},
    {"uc-write-imm", uc_write_imm},
    {"ud-send", ud_send},
    {"ud-send-imm", ud_send_imm},
    {0},
};
