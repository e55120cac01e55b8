/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * test_transport_random.c - random conversations over a random network, compared with a model of the result.
 *
 * Each conversation has a seed; a failing one prints it, and EXS_SEED=seed starts with that one.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include "check/support/endpoints.h"

#define SLICES 4
#define CONVERSATIONS 2500 /* in each test */
#define MEMORY (1 << 19)
#define SOURCE (1 << 16) /* the first bytes of a region are only read and sent, never written */
#define LONGEST 20000
#define WORKS 12

/* A work request of one side, and its expected result. */
struct task {
    struct work work;
    bool receive;             /* consumes a receive of the other side */
    size_t received_at, room; /* offset and length of that receive's buffer */
};

/* One side of a conversation. */
struct side {
    struct end *end;
    struct task tasks[WORKS];
    unsigned count, posted, completed;
    unsigned receives, received; /* receives for the other side's tasks: posted here, and completed */
    unsigned next_receive;       /* the next of these tasks to post a receive for */
    unsigned next_received;      /* the next of these tasks whose receive completes */
    size_t used;                 /* bytes of its memory that are targets */
    uint8_t *expected;           /* expected contents of its memory at the end */
};

struct conversation {
    uint64_t seed, random;
    struct pair *pair;
    struct side side[2];
    unsigned percent[7]; /* probability of each fate of a packet */
    uint8_t mishaps[4096];
};

static uint64_t base_seed;
static struct conversation *current;

static uint64_t below(struct conversation *talk, uint64_t limit)
{
    return random_next(&talk->random) % limit;
}

static void explain(void)
{
    fprintf(stderr, "repeat with EXS_SEED=%llu\n", (unsigned long long)current->seed);
    network_print(current->pair->network);
}

/* ---- The network: no packet is disturbed more than twice, so that no retry count is exceeded ---- */

static enum fate random_fate(void *arg, const struct packet *packet)
{
    struct conversation *talk = arg;
    unsigned dice = (unsigned)below(talk, 100), fate = FATE_DROP;
    while (fate <= FATE_TRUNCATE && dice >= talk->percent[fate])
        dice -= talk->percent[fate++];
    if (fate > FATE_TRUNCATE)
        return FATE_DELIVER;
    uint8_t *mishaps =
        &talk->mishaps[(packet->roce.psn + 97u * packet->roce.opcode + 2048 * packet->from) & 4095];
    return ++*mishaps > 2 ? FATE_DELIVER : (enum fate)fate;
}

/* ---- Generating a conversation ---- */

static size_t random_length(struct conversation *talk)
{
    size_t mtu = mtu_bytes(talk->pair->setup.mtu), most;
    switch (below(talk, 4)) {
    case 0:
        return below(talk, 5);
    case 1: /* close to the end of a packet */
        most = mtu * (1 + below(talk, 4)) + below(talk, 5) - 2;
        return most < LONGEST ? most : LONGEST;
    case 2:
        return below(talk, 3 * mtu) % LONGEST;
    default:
        return below(talk, LONGEST);
    }
}

static size_t take_target(struct conversation *talk, struct side *side, size_t length)
{
    size_t at = SOURCE + side->used + below(talk, 9);
    side->used = at + length + 1 - SOURCE;
    expect(at + length < MEMORY, "the region is too small");
    return at;
}

static void make_task(struct conversation *talk, struct side *from, struct side *to, uint64_t id)
{
    static const enum ibv_wr_opcode opcodes[] = {IBV_WR_SEND, IBV_WR_SEND_WITH_IMM, IBV_WR_RDMA_WRITE,
                                                 IBV_WR_RDMA_WRITE_WITH_IMM, IBV_WR_RDMA_READ};
    struct task *task = &from->tasks[from->count++];
    struct work *work = &task->work;
    work->id = id;
    work->opcode = opcodes[below(talk, 5)];
    work->length = random_length(talk);
    work->imm = (uint32_t)random_next(&talk->random);
    work->at = below(talk, SOURCE - LONGEST);
    bool read = work->opcode == IBV_WR_RDMA_READ, write = work->opcode == IBV_WR_RDMA_WRITE;
    if (read) {
        work->target = work->at;
        work->at = take_target(talk, from, work->length);
    } else if (write || work->opcode == IBV_WR_RDMA_WRITE_WITH_IMM)
        work->target = take_target(talk, to, work->length);
    task->receive = !read && !write;
    if (task->receive) {
        bool send = work->opcode != IBV_WR_RDMA_WRITE_WITH_IMM;
        task->room = send ? work->length + below(talk, 3) * below(talk, 100) : below(talk, 10);
        task->received_at = take_target(talk, to, task->room);
    }
    work->flags = (below(talk, 2) ? IBV_SEND_SIGNALED : 0) | (below(talk, 4) ? 0 : IBV_SEND_FENCE) |
                  (below(talk, 2) ? IBV_SEND_SOLICITED : 0);
    if (!read && work->length <= talk->pair->setup.inline_data && below(talk, 2))
        work->flags |= IBV_SEND_INLINE;
}

static struct setup random_setup(struct conversation *talk)
{
    struct setup setup = setup_default();
    setup.seed = talk->seed;
    setup.family = below(talk, 4) ? AF_INET : AF_INET6;
    setup.trailer = below(talk, 2) * 4;
    setup.memory = MEMORY;
    setup.mtu = (enum ibv_mtu)(IBV_MTU_256 + below(talk, 5));
    setup.psn[0] = below(talk, 2) ? 0xffffff - (uint32_t)below(talk, 20) : (uint32_t)below(talk, 1 << 24);
    setup.psn[1] = below(talk, 2) ? 0xffffff - (uint32_t)below(talk, 20) : (uint32_t)below(talk, 1 << 24);
    setup.timeout = (uint8_t)(6 + below(talk, 6));
    setup.min_rnr_timer = (uint8_t)below(talk, 32);
    setup.max_rd_atomic = (uint8_t)(1 + below(talk, 8));
    setup.send_depth = setup.recv_depth = 2 * WORKS;
    setup.loopback = !below(talk, 8);
    setup.pull = below(talk, 2);
    return setup;
}

static void make_network(struct conversation *talk)
{
    unsigned left = (unsigned)below(talk, 40); /* percentage of disturbed packets */
    for (unsigned fate = FATE_DROP; fate <= FATE_TRUNCATE; fate++) {
        talk->percent[fate] = (unsigned)below(talk, left / 2 + 1);
        left -= talk->percent[fate];
    }
    network_keep_bytes(talk->pair->network, false);
    network_set_script(talk->pair->network, random_fate, talk);
}

/* ---- Running it ---- */

/* Splits a piece of memory into up to four segments, some of them empty. */
static int random_sges(struct conversation *talk, struct end *end, struct ibv_sge *sges, size_t at,
                       size_t length)
{
    int count = 1 + (int)below(talk, 4);
    for (int i = 0; i < count; i++) {
        size_t piece = i == count - 1 ? length : below(talk, length + 1);
        sges[i] = (struct ibv_sge){
            .addr = (uintptr_t)end->memory + at, .length = (uint32_t)piece, .lkey = end->mr->lkey};
        at += piece;
        length -= piece;
    }
    return count;
}

static void post_next(struct conversation *talk, struct side *side, struct side *other)
{
    const struct work *work = &side->tasks[side->posted++].work;
    struct ibv_sge sges[4];
    struct ibv_send_wr wr = {.wr_id = work->id,
                             .sg_list = sges,
                             .num_sge = random_sges(talk, side->end, sges, work->at, work->length),
                             .opcode = work->opcode,
                             .send_flags = work->flags,
                             .imm_data = work->imm},
                       *bad;
    wr.wr.rdma.remote_addr = (uintptr_t)other->end->memory + work->target;
    wr.wr.rdma.rkey = other->end->rkey;
    int error = ibv_post_send(side->end->qp, &wr, &bad);
    expect(!error, "ibv_post_send: %s", strerror(error));
}

/* Returns the next of the other side's tasks, from `next` on, that consumes a receive. */
static struct task *receiving(struct side *other, unsigned *next)
{
    while (*next < other->count && !other->tasks[*next].receive)
        ++*next;
    return *next < other->count ? &other->tasks[(*next)++] : NULL;
}

static void post_next_receive(struct conversation *talk, struct side *side, struct side *other)
{
    struct task *task = receiving(other, &side->next_receive);
    if (!task)
        return;
    struct ibv_sge sges[4];
    struct ibv_recv_wr wr = {.wr_id = 1000 + side->receives++,
                             .sg_list = sges,
                             .num_sge = random_sges(talk, side->end, sges, task->received_at, task->room)},
                       *bad;
    int error = ibv_post_recv(side->end->qp, &wr, &bad);
    expect(!error, "ibv_post_recv: %s", strerror(error));
}

static void reap(struct side *side, struct side *other)
{
    struct ibv_wc wc;
    while (ibv_poll_cq(side->end->send_cq, 1, &wc) > 0) {
        while (side->completed < side->count && !(side->tasks[side->completed].work.flags & IBV_SEND_SIGNALED))
            side->completed++;
        expect(wc.status == IBV_WC_SUCCESS, "work request %llu: %s", (unsigned long long)wc.wr_id,
               soft_wc_status_str(wc.status));
        expect(side->completed < side->posted && wc.wr_id == side->tasks[side->completed].work.id,
               "completion of %llu out of order", (unsigned long long)wc.wr_id);
        side->completed++;
    }
    while (ibv_poll_cq(side->end->recv_cq, 1, &wc) > 0) {
        struct task *task = receiving(other, &side->next_received);
        expect(wc.status == IBV_WC_SUCCESS, "receive %llu: %s", (unsigned long long)wc.wr_id,
               soft_wc_status_str(wc.status));
        expect(task && wc.wr_id == 1000 + side->received++, "receive %llu out of order",
               (unsigned long long)wc.wr_id);
        expect(wc.byte_len == task->work.length, "receive %llu: %u bytes, not %zu",
               (unsigned long long)wc.wr_id, wc.byte_len, task->work.length);
        bool imm = task->work.opcode != IBV_WR_SEND;
        expect(!imm == !(wc.wc_flags & IBV_WC_WITH_IMM), "receive %llu: flags", (unsigned long long)wc.wr_id);
        expect(!imm || wc.imm_data == task->work.imm, "receive %llu: immediate", (unsigned long long)wc.wr_id);
    }
}

/* Posts, polls and lets time pass in random order, until everything is posted and the network is quiet. */
static void converse(struct conversation *talk)
{
    bool quiet = false;
    for (unsigned long steps = 0; steps < 1000000; steps++) {
        unsigned who = (unsigned)below(talk, 2), action = (unsigned)below(talk, 16);
        struct side *side = &talk->side[who], *other = &talk->side[!who];
        bool all = true;
        if (action < 2 && side->posted < side->count)
            post_next(talk, side, other);
        else if (action < 4 || (quiet && action < 8))
            post_next_receive(talk, side, other);
        else if (action < 6)
            reap(side, other);
        else
            quiet = !network_step(talk->pair->network);
        for (int i = 0; i < 2; i++) {
            unsigned next = talk->side[i].next_receive;
            all = all && talk->side[i].posted == talk->side[i].count && !receiving(&talk->side[!i], &next);
        }
        if (quiet && all && network_next(talk->pair->network) == NEVER_NS)
            return;
    }
    expect(false, "the conversation does not come to an end");
}

/* ---- The expected result ---- */

static void expect_result(struct conversation *talk)
{
    for (int i = 0; i < 2; i++)
        reap(&talk->side[i], &talk->side[!i]);
    for (int i = 0; i < 2; i++) {
        struct side *side = &talk->side[i], *other = &talk->side[!i];
        for (unsigned k = side->completed; k < side->count; k++)
            expect(!(side->tasks[k].work.flags & IBV_SEND_SIGNALED), "task %u of side %d is not complete", k,
                   i);
        expect(!receiving(other, &side->next_received), "side %d has not received all", i);
        expect(side->received == side->receives, "a receive of side %d is left", i);
    }
    for (int i = 0; i < 2; i++) {
        struct side *side = &talk->side[i], *other = &talk->side[!i];
        for (unsigned k = 0; k < side->count; k++) {
            const struct task *task = &side->tasks[k];
            const struct work *work = &task->work;
            uint8_t *mine = side->end->memory, *theirs = other->end->memory;
            if (work->opcode == IBV_WR_RDMA_READ)
                memcpy(side->expected + work->at, theirs + work->target, work->length);
            else if (work->opcode == IBV_WR_RDMA_WRITE || work->opcode == IBV_WR_RDMA_WRITE_WITH_IMM)
                memcpy(other->expected + work->target, mine + work->at, work->length);
            else
                memcpy(other->expected + task->received_at, mine + work->at, work->length);
        }
    }
    for (int i = 0; i < 2; i++)
        expect(!memcmp(talk->side[i].expected, talk->side[i].end->memory, SOURCE + talk->side[i].used + 4096),
               "the memory of side %d is not as it must be", i);
}

/* A READ is answered by its data only: no ACK has the PSN of one. */
static void expect_data_for_reads(struct conversation *talk, const struct end *asks, const struct end *answers)
{
    struct network *network = talk->pair->network;
    struct {
        uint32_t psn, count;
    } reads[1000];
    unsigned count = 0;
    for (unsigned i = 0; i < network_packets(network); i++) {
        const struct roce *roce = &network_packet(network, i)->roce;
        if (!network_packet(network, i)->readable)
            continue;
        if (roce->opcode == READ_REQUEST && roce->qpn == answers->qpn && count < 1000) {
            reads[count].psn = roce->psn;
            reads[count++].count = roce_packets(roce->dma_length, mtu_bytes(talk->pair->setup.mtu));
        }
        if (roce->opcode != ACKNOWLEDGE || roce->qpn != asks->qpn || roce->syndrome != SYNDROME_ACK)
            continue;
        for (unsigned k = 0; k < count; k++)
            expect(roce_psn(roce->psn - reads[k].psn) >= reads[k].count,
                   "packet %u acknowledges the READ at %06x", i, reads[k].psn);
    }
}

static void one_conversation(uint64_t seed)
{
    struct conversation talk = {.seed = seed, .random = seed};
    struct setup setup;
    static uint8_t expected[2][MEMORY];
    talk.pair = NULL;
    /* random_setup() uses only the random numbers, not the pair */
    setup = random_setup(&talk);
    talk.pair = pair_new(&setup);
    current = &talk;
    for (int i = 0; i < 2; i++) {
        talk.side[i].end = &talk.pair->end[i];
        talk.side[i].expected = expected[i];
        fill(talk.pair->end[i].memory, SOURCE, seed + (uint64_t)i);
    }
    make_network(&talk);
    for (int i = 0; i < 2; i++)
        for (uint64_t k = 0, count = 1 + below(&talk, WORKS); k < count; k++)
            make_task(&talk, &talk.side[i], &talk.side[!i], k);
    for (int i = 0; i < 2; i++) {
        memset(expected[i] + SOURCE, 0, talk.side[i].used + 4096);
        memcpy(expected[i], talk.pair->end[i].memory, SOURCE);
    }
    converse(&talk);
    expect_result(&talk);
    for (int i = 0; i < 2; i++)
        expect_data_for_reads(&talk, talk.side[i].end, talk.side[!i].end);
    pair_free(talk.pair);
}

START_TEST(random_conversations)
{
    before_failure = explain;
    for (uint64_t i = 0; i < CONVERSATIONS; i++)
        one_conversation(base_seed + (uint64_t)_i * CONVERSATIONS + i);
}
END_TEST

static Suite *suite(void)
{
    Suite *suite = suite_create("transport: random");
    TCase *tcase = new_case(suite, "conversations");
    tcase_set_timeout(tcase, 60);
    tcase_add_loop_test(tcase, random_conversations, 0, SLICES);
    return suite;
}

int main(void)
{
    const char *seed = getenv("EXS_SEED");
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    base_seed = seed ? strtoull(seed, NULL, 0) : (uint64_t)now.tv_sec * 1000000 + (uint64_t)now.tv_nsec / 1000;
    printf("EXS_SEED=%llu\n", (unsigned long long)base_seed);
    fflush(stdout);
    return run_suite(suite());
}
