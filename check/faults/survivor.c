/* SPDX-License-Identifier: BSD-2-Clause */
/* survivor.c - the process that lives through all points of a cell, and is checked after each. See faults.h. */
#include "faults.h"

/* ---- Its resources ------------------------------------------------------------------- */

/* Counts mappings of files and of shared memory; the others belong to malloc and to threads. */
static int count_mappings(void)
{
    FILE *maps = fopen("/proc/self/maps", "re");
    char line[512];
    int count = 0;

    ck_assert_ptr_nonnull(maps);
    while (fgets(line, sizeof line, maps))
        count += strstr(line, "memfd:") != NULL || strstr(line, " rw-s ") != NULL;
    fclose(maps);
    return count;
}

struct state state_now(void)
{
    return (struct state){count_fds(), count_mappings(), count_threads()};
}

/* Fewer descriptors are allowed: a queue closes those of a listener when it has not accepted for a while. */
static bool has_no_more(const struct state *now, const struct state *before)
{
    return now->descriptors <= before->descriptors && now->mappings == before->mappings &&
           now->threads == before->threads;
}

#define SOON_S 5
#define HALF_OPEN_S 12 /* s; a listener waits 10 s for the request on a TCP connection */

/* The resources of a connection are freed soon after its end. The smallest state so far is the limit for later
 * points. */
static void expect_state(struct end *end, struct state *before)
{
    struct state now = state_now();
    bool is_half_open = end->cell->fault->fate == SILENT && end->cell->moment->setup;

    for (double limit = seconds_now() + (is_half_open ? HALF_OPEN_S : SOON_S) * LATE_S;
         !has_no_more(&now, before) && seconds_now() < limit;) {
        end_turn(end, 10);
        now = state_now();
    }
    ck_assert_msg(has_no_more(&now, before),
                  "the survivor has %d descriptors, %d mappings, %d threads; before %d, %d, %d",
                  now.descriptors, now.mappings, now.threads, before->descriptors, before->mappings,
                  before->threads);
    *before = now;
}

/* ---- The bystander ------------------------------------------------------------------- */

static void connect_bystander(struct end *end, const struct address *bystander)
{
    must(end->socket = exs_socket(PF_INET, SOCK_STREAM, 0));
    struct op *op = op_begin(end, EXS_EVT_CONNECT, end->socket);

    op_began(end, op, exs_connect(end->socket, SA(bystander), bystander->length, 0, NULL, end->queue, op));
    ck_assert_int_eq(op_wait(end, op, NULL), 0);
}

static void be_served(struct end *end, int socket, uint64_t number)
{
    uint64_t answer = 0;
    size_t got = 0;

    end->socket = socket;
    ck_assert_int_eq(end_send(end, &number, HELLO), 0);
    ck_assert_int_eq(end_recv(end, &answer, HELLO, &got), 0);
    ck_assert_int_eq(got, HELLO);
    ck_assert_uint_eq(answer, number);
    end->socket = -1;
}

static void serve(struct end *end)
{
    uint64_t answer = 0;
    char byte;
    size_t got = 0;

    tell(end->fd, "c", 1);
    end->socket = accept_bystander(end);
    ck_assert_int_eq(end_send(end, &answer, HELLO), 0);
    ck_assert_int_eq(end_recv(end, &byte, 1, &got), 0);
    ck_assert_int_eq(got, 0);
    ck_assert_int_eq(end_close_socket(end, &end->socket), 0);
}

/* Everything works as if the fault had not happened. */
static void aftermath(struct end *end, int old, const struct address *bystander)
{
    be_served(end, old, end->point->seed);
    connect_bystander(end, bystander);
    int fresh = end->socket;
    be_served(end, fresh, ~end->point->seed);
    ck_assert_int_eq(end_close_socket(end, &fresh), 0);
    serve(end);
}

/* ---- Points -------------------------------------------------------------------------- */

static void live_through(struct end *end)
{
    end->error = 0;
    end->ended = end->struck = end->through = false;
    atomic_store(&end->moved, 0);
    atomic_store(&end->over, false);
    atomic_store(&end->begun, false);
    atomic_store(&end->lost, false);
    if (meet(end)) {
        end->through = end->cell->moment->run(end);
        ck_assert_msg(end->through || may_fail(end), "the survivor failed with %s",
                      end->ended ? "the end" : strerrorname_np(end->error));
    }
    atomic_store(&end->over, true);
    trigger_wait(end);
    part(end);
    trigger_end(end);
}

void survive(int fd, void *arg)
{
    static struct end end;
    struct address here, bystander;
    struct point point;
    struct state before;

    memlock_count();
    init_library();
    end_open(&end, arg, false, fd);
    end.listener = open_listener(AF_INET, SOCK_STREAM, 16, &here);
    tell(fd, &here, sizeof here);
    hear(fd, &bystander, sizeof bystander);
    connect_bystander(&end, &bystander);
    int old = end.socket;
    end.socket = -1;
    end.point = &point;
    for (hear(fd, &point, sizeof point); !point.last; hear(fd, &point, sizeof point)) {
        live_through(&end);
        aftermath(&end, old, &bystander);
        if (point.number == 0)
            before = state_now();
        else
            expect_state(&end, &before);
        tell(fd, "d", 1);
    }
    ck_assert_int_eq(end_close_socket(&end, &old), 0);
    ck_assert_int_eq(end_close_socket(&end, &end.listener), 0);
    end_close(&end);
}
