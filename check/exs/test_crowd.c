/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * test_crowd.c - one server and 1 to 64 peers, with small or large transfers. The peers close, shut down, reset, are
 * killed or stop responding, and the server waits for events in each way that the API has. Every byte arrives that
 * must, and every operation has exactly one event. See crowd.h and its files for what happens in a cell.
 *
 * Without EXS_CROWD a selection of cells runs for a few seconds, chosen so that each pair of values of two columns
 * occurs as early as possible; EXS_SEED repeats the choice. EXS_CROWD=all runs every cell, and a pattern runs those
 * whose names match: EXS_CROWD="64*kill*stream". make check-crowd runs the whole table.
 */
#include "crowd.h"

#include <fnmatch.h>

#define SECONDS 6 /* for the selection of cells */

static const int peers[] = {1, 8, 32, 64};
static const char *const endings[] = {"close", "half", "kill", "reset", "stop", "stop-kill", "silent"};
static const char *const ways[] = {"level", "edge", "ev-epoll", "ev-poll", "ev-select", "dequeue", "threads"};
static const int types[] = {SOCK_STREAM, SOCK_SEQPACKET};
enum { COLUMNS = 5 };
static const int values[COLUMNS] = {COUNT(peers), 2, ENDINGS, WAYS, COUNT(types)};
#define CELLS (COUNT(peers) * 2 * ENDINGS * WAYS * COUNT(types))

static struct cell chosen; /* the cell that the test runs */

/* Converts the index of a cell to its value in each column. */
static void split(int index, int place[COLUMNS])
{
    for (int i = COLUMNS - 1; i >= 0; i--) {
        place[i] = index % values[i];
        index /= values[i];
    }
}

static struct cell cell_of(int index)
{
    int at[COLUMNS];

    split(index, at);
    struct cell cell = {.peers = peers[at[0]],
                        .large = at[1],
                        .ending = (enum ending)at[2],
                        .way = (enum way)at[3],
                        .socktype = types[at[4]]};
    snprintf(cell.name, sizeof cell.name, "%d/%s/%s/%s/%s", cell.peers, cell.large ? "large" : "small",
             endings[at[2]], ways[at[3]], at[4] ? "seqpacket" : "stream");
    return cell;
}

START_TEST(cell)
{
    crowd_serve(&chosen);
}
END_TEST

/* Runs one cell in a child process, and prints the result. */
static bool run_cell(const struct cell *cell_to_run)
{
    Suite *suite = suite_create("crowd");
    TCase *tests = add_bare_case(suite, cell_to_run->name, 30);
    double start = seconds_now();

    chosen = *cell_to_run;
    tcase_add_test(tests, cell);
    SRunner *runner = srunner_create(suite);
    srunner_set_fork_status(runner, CK_FORK);
    srunner_run_all(runner, CK_SILENT);
    int failed = srunner_ntests_failed(runner);
    printf("%-40s %s %6.2f s\n", chosen.name, failed ? "FAIL" : "PASS", seconds_now() - start);
    if (failed) {
        TestResult **results = srunner_failures(runner);
        printf("    %s:%d: %s\n", tr_lfile(results[0]), tr_lno(results[0]), tr_msg(results[0]));
        free(results);
    }
    fflush(stdout);
    srunner_free(runner);
    return !failed;
}

static bool run_matching(const char *pattern, int *count)
{
    bool good = true;

    for (int i = 0; i < CELLS; i++) {
        struct cell wanted = cell_of(i);
        /* Longer than one retransmission timeout of the device, and shorter than its limit for giving up. */
        wanted.silence = 1.2;
        if (strcmp(pattern, "all") != 0 && fnmatch(pattern, wanted.name, 0) != 0)
            continue;
        good &= run_cell(&wanted);
        (*count)++;
    }
    return good;
}

/* ---- Selection of cells -------------------------------------------------------------- */

static bool met[COLUMNS][COLUMNS][ENDINGS]
               [ENDINGS]; /* pairs of values that some cell had; no column has more values than ENDINGS */

static int new_pairs(int index, bool meet)
{
    int at[COLUMNS], count = 0;

    split(index, at);
    for (int a = 0; a < COLUMNS; a++)
        for (int b = a + 1; b < COLUMNS; b++) {
            count += !met[a][b][at[a]][at[b]];
            met[a][b][at[a]][at[b]] |= meet;
        }
    return count;
}

/* Chooses the cell with the most new pairs relative to its run time, at random among equals. SILENT takes too long to
 * be detected. */
static int choose(struct chance *chance, int least_peers)
{
    int best = -1, best_score = 1;
    size_t equals = 0;

    for (int i = 0; i < CELLS; i++) {
        struct cell c = cell_of(i);
        int score = new_pairs(i, false) * 1000 / (8 + c.peers);
        if (c.ending == SILENT || c.peers < least_peers || score < best_score)
            continue;
        equals = score > best_score ? 1 : equals + 1;
        if (chance_below(chance, equals) == 0)
            best = i;
        best_score = score;
    }
    return best;
}

static bool run_some(int *count)
{
    struct chance chance = chance_new();
    double until = seconds_now() + SECONDS;
    bool good = true;
    int index;

    bool most = false;

    /* The best cells first, and half-way one with the maximum number of peers. */
    for (double now; (now = seconds_now()) < until;) {
        int least = !most && now > until - SECONDS / 2.0 ? MOST_PEERS : 0;
        most |= least > 0;
        if ((index = choose(&chance, least)) < 0)
            break;
        struct cell wanted = cell_of(index);
        wanted.silence = 0.1;
        new_pairs(index, true);
        good &= run_cell(&wanted);
        (*count)++;
    }
    return good;
}

int main(void)
{
    const char *pattern = getenv("EXS_CROWD");
    int count = 0;
    bool good = pattern ? run_matching(pattern, &count) : run_some(&count);

    good &= count > 0;
    printf("%d of %d cells: %s\n", count, CELLS, good ? "PASS" : "FAIL");
    if (count == 0)
        fprintf(stderr, "no cell's name matches EXS_CROWD=%s: see the names with EXS_CROWD=all\n", pattern);
    return good ? 0 : 1;
}
