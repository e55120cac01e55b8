/* SPDX-License-Identifier: BSD-2-Clause */
/* endpoints.c - see endpoints.h. */
#include "endpoints.h"
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/asan_interface.h>
#endif

void (*before_failure)(void);

struct setup setup_default(void)
{
    return (struct setup){.family = AF_INET,
                          .type = IBV_QPT_RC,
                          .qkey = 0x11111111,
                          .seed = 1,
                          .trailer = 4,
                          .memory = 1 << 16,
                          .mtu = IBV_MTU_1024,
                          .psn = {0x000100, 0x777000},
                          .timeout = 8, /* 1 ms; far more than a round trip of the virtual network */
                          .retry_cnt = 7,
                          .rnr_retry = 7,
                          .min_rnr_timer = 1,
                          .max_rd_atomic = 4,
                          .send_depth = 64,
                          .recv_depth = 64,
                          .sges = 4,
                          .inline_data = 64,
                          .cqe = 256,
                          .all_signaled = false,
                          .qp_access = ACCESS_ALL,
                          .mr_access = ACCESS_ALL};
}

size_t mtu_bytes(enum ibv_mtu mtu)
{
    return (size_t)128 << mtu;
}

/* ---- Queue pairs ---- */

static struct ibv_qp *extended_receiver(struct end *end)
{
    struct ibv_qp_init_attr_ex attr = {
        .qp_type = IBV_QPT_XRC_RECV, .comp_mask = IBV_QP_INIT_ATTR_XRCD, .xrcd = end->xrcd};

    return soft_create_qp_ex(end->context, &attr);
}

struct ibv_qp *qp_new(struct end *end, const struct setup *setup)
{
    struct ibv_qp_init_attr attr = {.send_cq = end->send_cq,
                                    .recv_cq = end->recv_cq,
                                    .srq = end->srq,
                                    .qp_type = setup->type,
                                    .sq_sig_all = setup->all_signaled,
                                    .cap = {.max_send_wr = setup->send_depth,
                                            .max_recv_wr = setup->recv_depth,
                                            .max_send_sge = setup->sges,
                                            .max_recv_sge = setup->sges,
                                            .max_inline_data = setup->inline_data}};
    struct ibv_qp *qp = end->xrcd ? extended_receiver(end) : soft_create_qp(end->pd, &attr);
    expect(qp, "soft_create_qp: %s", strerror(errno));
    end->cap = attr.cap;
    return qp;
}

int qp_init(struct ibv_qp *qp, unsigned access)
{
    struct ibv_qp_attr attr = {
        .qp_state = IBV_QPS_INIT, .port_num = 1, .qp_access_flags = access, .qkey = setup_default().qkey};
    return soft_modify_qp(qp, &attr,
                          IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT |
                              (qp->qp_type == IBV_QPT_UD ? IBV_QP_QKEY : IBV_QP_ACCESS_FLAGS));
}

int qp_ready_to_receive(struct end *end, struct ibv_qp *qp, unsigned to_node, uint32_t to_qpn, uint32_t psn,
                        const struct setup *setup)
{
    struct ibv_qp_attr attr = {.qp_state = IBV_QPS_RTR,
                               .path_mtu = setup->mtu,
                               .dest_qp_num = to_qpn,
                               .rq_psn = psn,
                               .max_dest_rd_atomic = setup->max_rd_atomic,
                               .min_rnr_timer = setup->min_rnr_timer,
                               .ah_attr = {.is_global = 1, .port_num = 1, .grh = {.hop_limit = 64}}};
    int mask = IBV_QP_STATE;
    if (qp->qp_type != IBV_QPT_UD)
        mask |= IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN;
    if (qp->qp_type != IBV_QPT_UD && qp->qp_type != IBV_QPT_UC)
        mask |= IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
    network_gid(end->network, to_node, &attr.ah_attr.grh.dgid);
    int error = soft_modify_qp(qp, &attr, mask);
    if (error || setup->names)
        return error;
    struct soft_path path;
    network_path(end->network, end->node, to_node, &path);
    soft_set_path(qp, &path);
    return 0;
}

int qp_ready_to_send(struct ibv_qp *qp, uint32_t psn, const struct setup *setup)
{
    struct ibv_qp_attr attr = {.qp_state = IBV_QPS_RTS,
                               .sq_psn = psn,
                               .timeout = setup->timeout,
                               .retry_cnt = setup->retry_cnt,
                               .rnr_retry = setup->rnr_retry,
                               .max_rd_atomic = setup->max_rd_atomic};
    int mask = IBV_QP_STATE | IBV_QP_SQ_PSN;
    if (qp->qp_type != IBV_QPT_UD && qp->qp_type != IBV_QPT_UC)
        mask |= IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC;
    return soft_modify_qp(qp, &attr, mask);
}

void qp_connect(struct end *end, struct ibv_qp *qp, unsigned to_node, uint32_t to_qpn, uint32_t psn,
                uint32_t remote_psn, const struct setup *setup)
{
    int error = qp_init(qp, setup->qp_access);
    expect(!error, "to INIT: %s", strerror(error));
    error = qp_ready_to_receive(end, qp, to_node, to_qpn, remote_psn, setup);
    expect(!error, "to RTR: %s", strerror(error));
    error = qp_ready_to_send(qp, psn, setup);
    expect(!error, "to RTS: %s", strerror(error));
}

enum ibv_qp_state qp_state(struct ibv_qp *qp)
{
    struct ibv_qp_attr attr;
    struct ibv_qp_init_attr init;
    int error = soft_query_qp(qp, &attr, IBV_QP_STATE, &init);
    expect(!error, "soft_query_qp: %s", strerror(error));
    return attr.qp_state;
}

void qp_ready_datagrams(struct ibv_qp *qp, uint32_t qkey)
{
    struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT, .port_num = 1, .qkey = qkey};

    ck_assert_int_eq(soft_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY),
                     0);
    attr.qp_state = IBV_QPS_RTR;
    ck_assert_int_eq(soft_modify_qp(qp, &attr, IBV_QP_STATE), 0);
    attr.qp_state = IBV_QPS_RTS;
    ck_assert_int_eq(soft_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_SQ_PSN), 0);
}

void qp_fail(struct ibv_qp *qp)
{
    struct ibv_qp_attr attr = {.qp_state = IBV_QPS_ERR};
    int error = soft_modify_qp(qp, &attr, IBV_QP_STATE);
    expect(!error, "to ERR: %s", strerror(error));
}

/* ---- Ends ---- */

static void end_map(struct end *end, const struct setup *setup)
{
    end->size = setup->memory;
    uint8_t *all =
        mmap(NULL, end->size + 2 * GUARD, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    expect(all != MAP_FAILED, "mmap: %s", strerror(errno));
    memset(all, GUARD_BYTE, GUARD);
    memset(all + GUARD + end->size, GUARD_BYTE, GUARD);
    end->memory = all + GUARD;
}

static void end_name(struct end *end)
{
    struct soft_names names = {
        .lid = (uint16_t)(end->node + 1), .guid = end->node + 1, .mtu = IBV_MTU_4096, .gid_count = 1};
    network_gid(end->network, end->node, &names.gids[0].gid);
    soft_set_names(end->context, &names);
}

static void end_open_shared(struct end *end, const struct setup *setup)
{
    struct ibv_srq_init_attr attr = {.attr = {.max_wr = setup->srq_depth, .max_sge = setup->sges}};

    if (setup->srq_depth)
        end->srq = soft_create_srq(end->pd, &attr);
    expect(end->srq || !setup->srq_depth, "soft_create_srq: %s", strerror(errno));
}

static void end_open_extended(struct end *end, const struct setup *setup)
{
    struct ibv_xrcd_init_attr init = {
        .comp_mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS, .fd = -1, .oflags = O_CREAT};
    struct ibv_srq_init_attr_ex attr = {.attr = {.max_wr = setup->recv_depth, .max_sge = setup->sges},
                                        .comp_mask = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD |
                                                     IBV_SRQ_INIT_ATTR_XRCD | IBV_SRQ_INIT_ATTR_CQ,
                                        .srq_type = IBV_SRQT_XRC,
                                        .pd = end->pd,
                                        .cq = end->recv_cq};

    end->xrcd = attr.xrcd = soft_open_xrcd(end->context, &init);
    expect(end->xrcd, "soft_open_xrcd: %s", strerror(errno));
    end->srq = soft_create_srq_ex(end->context, &attr);
    expect(end->srq && !soft_get_srq_num(end->srq, &end->srqn), "soft_create_srq_ex: %s", strerror(errno));
}

static void end_open(struct end *end, const struct setup *setup, bool second)
{
    end_map(end, setup);
    end->context = network_context(end->network, end->node);
    if (!end->context) {
        end->qpn = GHOST_QPN;
        end->rkey = GHOST_RKEY;
        return;
    }
    if (setup->names)
        end_name(end);
    end->pd = soft_alloc_pd(end->context);
    end->channel = soft_create_comp_channel(end->context);
    expect(end->pd && end->channel, "no protection domain or completion channel: %s", strerror(errno));
    end->send_cq = soft_create_cq(end->context, setup->cqe, end, end->channel, 0);
    end->recv_cq = soft_create_cq(end->context, setup->cqe, NULL, end->channel, 0);
    expect(end->send_cq && end->recv_cq, "soft_create_cq: %s", strerror(errno));
    if (setup->type == IBV_QPT_XRC_SEND && second)
        end_open_extended(end, setup);
    else if (setup->type != IBV_QPT_XRC_SEND)
        end_open_shared(end, setup);
    end->mr = soft_reg_mr(end->pd, end->memory, end->size, (int)setup->mr_access);
    expect(end->mr, "soft_reg_mr: %s", strerror(errno));
    end->rkey = end->mr->rkey;
    end->qp = qp_new(end, setup);
    end->qpn = end->qp->qp_num;
}

static void end_close(struct end *end)
{
    if (end->context) {
        ck_assert_int_eq(soft_destroy_qp(end->qp), 0);
        if (end->srq)
            ck_assert_int_eq(soft_destroy_srq(end->srq), 0);
        if (end->xrcd)
            ck_assert_int_eq(soft_close_xrcd(end->xrcd), 0);
        ck_assert_int_eq(soft_destroy_cq(end->send_cq), 0);
        ck_assert_int_eq(soft_destroy_cq(end->recv_cq), 0);
        ck_assert_int_eq(soft_destroy_comp_channel(end->channel), 0);
        if (end->mr)
            ck_assert_int_eq(soft_dereg_mr(end->mr), 0);
        ck_assert_int_eq(soft_dealloc_pd(end->pd), 0);
    }
    expect_byte(end->memory - GUARD, GUARD, GUARD_BYTE);
    expect_byte(end->memory + end->size, GUARD, GUARD_BYTE);
    munmap(end->memory - GUARD, end->size + 2 * GUARD);
}

/* ---- Pairs ---- */

static void pair_connect(struct pair *pair)
{
    for (int i = 0; i < 2; i++) {
        struct end *end = &pair->end[i], *other = &pair->end[!i];
        end->psn = pair->setup.psn[i];
        if (end->qp)
            qp_connect(end, end->qp, other->node, other->qpn, end->psn, pair->setup.psn[!i], &pair->setup);
    }
}

struct pair *pair_new(const struct setup *setup)
{
    struct pair *pair = calloc(1, sizeof *pair);
    expect(pair, "out of memory");
    pair->setup = *setup;
    pair->network = network_new(setup->family, setup->seed, setup->trailer);
    network_set_pull(pair->network, setup->pull);
    network_set_far(pair->network, setup->far);
    pair->end[0].node = network_add(pair->network);
    if (!setup->loopback)
        pair->end[1].node = setup->ghost ? network_add_ghost(pair->network) : network_add(pair->network);
    for (int i = 0; i < 2; i++) {
        pair->end[i].network = pair->network;
        end_open(&pair->end[i], setup, i == 1);
    }
    pair_connect(pair);
    return pair;
}

void pair_renew(struct pair *pair)
{
    network_drain(pair->network);
    for (int i = 0; i < 2; i++) {
        struct end *end = &pair->end[i];
        if (!end->qp)
            continue;
        int error = soft_destroy_qp(end->qp);
        expect(!error, "soft_destroy_qp: %s", strerror(error));
        end->qp = qp_new(end, &pair->setup);
        end->qpn = end->qp->qp_num;
    }
    network_forget(pair->network);
    pair_connect(pair);
}

void pair_free(struct pair *pair)
{
    expect(!network_fault(pair->network), "%s", network_fault(pair->network));
    for (int i = 0; i < 2; i++)
        end_close(&pair->end[i]);
    ck_assert_msg(network_free(pair->network), "soft_close refuses though all objects were destroyed");
    free(pair);
}

void run(struct pair *pair)
{
    expect(network_run(pair->network, RUN_STEPS), "the conversation does not come to an end");
}

/* ---- Work ---- */

int post_try(struct end *from, const struct end *to, const struct work *work)
{
    struct ibv_sge sge = {.addr = (uintptr_t)from->memory + work->at,
                          .length = (uint32_t)work->length,
                          .lkey = from->mr ? from->mr->lkey : 0};
    struct ibv_send_wr wr = {.wr_id = work->id,
                             .sg_list = &sge,
                             .num_sge = 1,
                             .opcode = work->opcode,
                             .send_flags = work->flags,
                             .imm_data = work->imm},
                       *bad = NULL;
    wr.wr.rdma.remote_addr = (uintptr_t)to->memory + work->target;
    wr.wr.rdma.rkey = to->rkey;
    wr.qp_type.xrc.remote_srqn = to->srqn;
    int error = ibv_post_send(from->qp, &wr, &bad);
    if (error)
        expect(bad == &wr, "the refused work request is not reported in bad_wr");
    return error;
}

void post(struct end *from, const struct end *to, const struct work *work)
{
    int error = post_try(from, to, work);
    expect(!error, "ibv_post_send: %s", strerror(error));
}

void post_receive(struct end *end, uint64_t id, size_t at, size_t length)
{
    struct ibv_sge sge = {
        .addr = (uintptr_t)end->memory + at, .length = (uint32_t)length, .lkey = end->mr->lkey};
    struct ibv_recv_wr wr = {.wr_id = id, .sg_list = &sge, .num_sge = 1}, *bad = NULL;
    int error = end->srq ? ibv_post_srq_recv(end->srq, &wr, &bad) : ibv_post_recv(end->qp, &wr, &bad);
    expect(!error, "ibv_post_recv: %s", strerror(error));
}

struct ibv_wc expect_wc(struct ibv_cq *cq, uint64_t id, enum ibv_wc_status status)
{
    struct ibv_wc wc;
    memset(&wc, 0x5a, sizeof wc);
    int polled = ibv_poll_cq(cq, 1, &wc);
    expect(polled == 1, "no completion where that of work request %llu is due", (unsigned long long)id);
    expect(wc.status == status, "work request %llu: status %s (%d), not %s", (unsigned long long)wc.wr_id,
           soft_wc_status_str(wc.status), wc.status, soft_wc_status_str(status));
    expect(wc.wr_id == id, "completion of %llu where that of %llu is due", (unsigned long long)wc.wr_id,
           (unsigned long long)id);
    return wc;
}

void expect_done(struct ibv_cq *cq, uint64_t id, enum ibv_wc_opcode opcode)
{
    struct ibv_wc wc = expect_wc(cq, id, IBV_WC_SUCCESS);
    expect(wc.opcode == opcode, "work request %llu: opcode %d, not %d", (unsigned long long)id, wc.opcode,
           opcode);
}

void expect_none(struct ibv_cq *cq)
{
    struct ibv_wc wc;
    int polled = ibv_poll_cq(cq, 1, &wc);
    expect(polled == 0, "a completion too many: wr_id %llu, status %d, opcode %d (poll gave %d)",
           (unsigned long long)wc.wr_id, wc.status, wc.opcode, polled);
}

void expect_quiet(struct pair *pair)
{
    for (int i = 0; i < 2; i++)
        if (pair->end[i].qp) {
            expect_none(pair->end[i].send_cq);
            expect_none(pair->end[i].recv_cq);
        }
}

struct soft_counters counters_of(struct end *end)
{
    struct soft_counters counters;
    soft_query_counters(end->context, &counters);
    return counters;
}

/* ---- Events ---- */

static bool event_waits(const struct end *end)
{
    struct pollfd poller = {.fd = end->context->async_fd, .events = POLLIN};
    return poll(&poller, 1, 0) == 1;
}

void expect_async(struct end *end, enum ibv_event_type type, const void *element)
{
    struct ibv_async_event event;
    expect(event_waits(end), "no event where %d is due", type);
    int error = soft_get_async_event(end->context, &event);
    expect(!error, "soft_get_async_event: %s", strerror(errno));
    expect(event.event_type == type, "event %d where %d is due", event.event_type, type);
    expect(event.element.qp == element, "event %d is about another object", type);
    soft_ack_async_event(&event);
}

void expect_no_async(struct end *end)
{
    expect(!event_waits(end), "an event too many");
}

/* ---- Bytes ---- */

uint64_t random_next(uint64_t *state)
{
    uint64_t z = *state += 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

void fill(void *memory, size_t length, uint64_t seed)
{
    uint8_t *at = memory;
    for (; length >= 8; at += 8, length -= 8) {
        uint64_t word = random_next(&seed);
        memcpy(at, &word, 8);
    }
    uint64_t word = random_next(&seed);
    memcpy(at, &word, length);
}

bool filled(const void *memory, size_t length, uint64_t seed)
{
    const uint8_t *at = memory;
    for (; length >= 8; at += 8, length -= 8) {
        uint64_t word = random_next(&seed);
        if (memcmp(at, &word, 8))
            return false;
    }
    uint64_t word = random_next(&seed);
    return !memcmp(at, &word, length);
}

void expect_byte(const uint8_t *memory, size_t length, uint8_t byte)
{
    for (size_t i = 0; i < length; i++)
        expect(memory[i] == byte, "byte %zu of %zu is %02x, not %02x: something was written where it must not",
               i, length, memory[i], byte);
}

/* ---- The log ---- */

const struct packet *find_packet(struct network *network, unsigned from, unsigned opcode, unsigned n)
{
    for (unsigned i = 0; i < network_packets(network); i++) {
        const struct packet *packet = network_packet(network, i);
        if (packet->from == from && (opcode == ROCE_NO_OPCODE || packet->roce.opcode == opcode) && !n--)
            return packet;
    }
    return NULL;
}

const struct packet *find_psn(struct network *network, unsigned from, uint32_t psn, unsigned n)
{
    for (unsigned i = 0; i < network_packets(network); i++) {
        const struct packet *packet = network_packet(network, i);
        if (packet->from == from && packet->roce.psn == roce_psn(psn) && !n--)
            return packet;
    }
    return NULL;
}

void expect_between(uint64_t elapsed, uint64_t least, uint64_t most)
{
    expect(elapsed >= least && elapsed <= most, "%llu ns, not between %llu and %llu",
           (unsigned long long)elapsed, (unsigned long long)least, (unsigned long long)most);
}

unsigned count_packets(struct network *network, unsigned from, unsigned opcode)
{
    unsigned count = 0;
    for (unsigned i = 0; i < network_packets(network); i++) {
        const struct packet *packet = network_packet(network, i);
        count += packet->from == from && (opcode == ROCE_NO_OPCODE || packet->roce.opcode == opcode);
    }
    return count;
}

#define FRAMES (32 << 10) /* bytes of stack; more than the cancelled calls can have used */

void forget_frames(void *unused)
{
    (void)unused;
#ifdef __SANITIZE_ADDRESS__
    __asan_unpoison_memory_region((char *)__builtin_frame_address(0) - FRAMES, FRAMES);
#endif
}
