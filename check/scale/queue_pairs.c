/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * queue_pairs [COUNT [ROUNDS]] - queue pairs by the million, on the virtual network: no sockets, no
 * connections; a table, and 1 if it is not flat. Always the same few of them, which lie between all others,
 * have messages: what is dearer with the idle ones is looking for them, their timers, or the lists of who has
 * work.
 */
#include "check/support/endpoints.h"
#include "check/support/self.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MOST 1000000   /* queue pairs */
#define HOT 1000       /* queue pairs with messages */
#define ROUNDS 200     /* messages of each */
#define LOST_ROUNDS 50 /* and of those whose first packet is lost, so that a timer sends it again */
#define DEARER                                                                                                 \
    4 /* at most, than with no idle ones: caches and TLBs miss; check/scale/flat counts instructions */

struct line {
    struct end end[2];
};

static unsigned long wanted;
static unsigned rounds = ROUNDS, lost_rounds = LOST_ROUNDS;

/* KiB of memory in use. */
static double resident(void)
{
    unsigned long pages = 0;
    FILE *file = fopen("/proc/self/statm", "re");
    char line[100];

    if (file && fgets(line, sizeof line, file) && strchr(line, ' '))
        pages = strtoul(strchr(line, ' '), NULL, 10);
    if (file)
        fclose(file);
    return (double)pages * (double)sysconf(_SC_PAGESIZE) / 1024;
}

static struct pair *all_new(struct line *hot, unsigned long lines)
{
    struct setup setup = setup_default();

    setup.cqe = 4 * HOT;
    setup.send_depth = setup.recv_depth = 4;
    setup.sges = 1;
    struct pair *pair = pair_new(&setup);
    network_keep_bytes(pair->network, false);
    for (unsigned long i = 0; i < lines; i++) {
        struct line one,
            *line = i % (lines / HOT) == 0 && i / (lines / HOT) < HOT ? &hot[i / (lines / HOT)] : &one;
        for (int e = 0; e < 2; e++) {
            line->end[e] = pair->end[e];
            line->end[e].qp = qp_new(&line->end[e], &setup);
            line->end[e].qpn = line->end[e].qp->qp_num;
        }
        for (int e = 0; e < 2; e++)
            qp_connect(&line->end[e], line->end[e].qp, line->end[!e].node, line->end[!e].qpn, 0x100, 0x100,
                       &setup);
        network_forget(pair->network);
    }
    return pair;
}

static enum fate lose_first(void *seen, const struct packet *packet)
{
    if (packet->from != 0 || (*(unsigned long *)seen)++ >= HOT)
        return FATE_DELIVER;
    return FATE_DROP;
}

/* What check/scale/flat counts. */
static __attribute__((noinline)) void one_round(struct pair *pair, struct line *hot)
{
    struct ibv_wc wc;

    for (unsigned i = 0; i < HOT; i++)
        post(&hot[i].end[0], &hot[i].end[1],
             &(struct work){.id = i, .opcode = IBV_WR_RDMA_WRITE, .length = 64, .flags = IBV_SEND_SIGNALED});
    run(pair);
    network_forget(pair->network);
    for (unsigned i = 0; i < HOT; i++)
        expect(ibv_poll_cq(pair->end[0].send_cq, 1, &wc) == 1 && wc.status == IBV_WC_SUCCESS, "message %u", i);
}

/* Nanoseconds of a message, in the best of the rounds: what others do on the machine is none of it. */
static double cost_of(struct pair *pair, struct line *hot, unsigned count, bool lossy)
{
    double best = 1e30;

    for (unsigned round = 0; round < count; round++) {
        unsigned long seen = 0;
        network_set_script(pair->network, lossy ? lose_first : NULL, &seen);
        double begin = seconds_of_cpu();
        one_round(pair, hot);
        double cost = seconds_of_cpu() - begin;
        best = cost < best ? cost : best;
    }
    network_set_script(pair->network, NULL, NULL);
    return best * 1e9 / HOT;
}

START_TEST(queue_pairs)
{
    static struct line hot[HOT];
    double cost[2][2];
    unsigned long counts[2] = {HOT, wanted / 2 > HOT ? wanted / 2 : HOT};

    for (int i = 0; i < 2; i++) {
        double before = resident();
        double begin = seconds_of_cpu();
        struct pair *pair = all_new(hot, counts[i]);
        double made = seconds_of_cpu() - begin;

        printf("%lu queue pairs of two devices: made and connected in %.1f us each, %.2f KiB each\n",
               2 * counts[i], made * 1e6 / (double)(2 * counts[i]),
               (resident() - before) / (double)(2 * counts[i]));
        cost_of(pair, hot, 2, false); /* warms up */
        cost[i][0] = cost_of(pair, hot, rounds, false);
        cost[i][1] = cost_of(pair, hot, lost_rounds, true);
        printf("  a message of %d of them costs %.0f ns, one whose packet is lost %.0f ns\n", HOT, cost[i][0],
               cost[i][1]);
        fflush(stdout);
        /* A million are not taken apart one by one: the process ends. */
    }
    printf("  %.2f and %.2f times what it does with %lu\n", cost[1][0] / cost[0][0], cost[1][1] / cost[0][1],
           2 * counts[0]);
    fflush(stdout);
    expect(cost[1][0] < DEARER * cost[0][0] && cost[1][1] < DEARER * cost[0][1], "that is not flat");
}
END_TEST

int main(int argc, char **argv)
{
    Suite *suite = suite_create("queue pairs");
    TCase *tests = new_case(suite, "queue pairs");

    wanted = argc > 1 ? strtoul(argv[1], NULL, 10) : MOST;
    if (argc > 2)
        rounds = lost_rounds = (unsigned)strtoul(argv[2], NULL, 10);
    tcase_set_timeout(tests, 0);
    tcase_add_test(tests, queue_pairs);
    return run_suite(suite);
}
