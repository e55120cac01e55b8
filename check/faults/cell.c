/* SPDX-License-Identifier: BSD-2-Clause */
/* cell.c - runs one cell: starts its processes and passes between them, for each point, what they must know of
 * each other. See faults.h. */
#include "faults.h"

#include <poll.h>
#include <signal.h>
#include <sys/wait.h>

static struct child survivor, bystander, forwarder;
static struct address survivors, forwarders;

static struct point new_point(const struct cell *cell, unsigned number)
{
    struct chance chance = {.state = cell->seed ^ (uint64_t)number << 32};
    struct point point = {.number = number, .calm = number == 0, .seed = chance_next(&chance) | 1};

    chance = (struct chance){.state = point.seed};
    point.listens = chance_below(&chance, 2) || cell->fault->again;
    point.sends = chance_below(&chance, 2) || cell->fault->files;
    point.at = chance_below(&chance, cell->moment->total + 1);
    point.after_us = (unsigned)chance_below(&chance, cell->moment->after + 1);
    point.address = loopback(AF_INET, 0);
    return point;
}

/* ---- The victim ---------------------------------------------------------------------- */

static void tell_of_strike(void)
{
    double now = seconds_now();

    tell(survivor.fd, &now, sizeof now);
}

static void await_death(struct child *victim)
{
    int status;

    must(waitpid(victim->pid, &status, 0));
    close(victim->fd);
    ck_assert_msg(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL,
                  "the victim ended with status %#x before it was killed", (unsigned)status);
    tell_of_strike();
}

static void await_stop(struct child *victim)
{
    int status;

    must(waitpid(victim->pid, &status, WUNTRACED));
    ck_assert_msg(WIFSTOPPED(status), "the victim ended with status %#x before it was stopped",
                  (unsigned)status);
}

static void nurse(const struct cell *cell, const struct point *point, struct child *victim)
{
    const struct fault *fault = cell->fault;

    if (!point->calm && fault->fate == DIES) {
        await_death(victim);
        return;
    }
    if (!point->calm && fault->fate == SILENT) {
        await_stop(victim);
        tell_of_strike();
        return;
    }
    if (!point->calm && fault->stopped > 0) {
        await_stop(victim);
        poll(NULL, 0, (int)(fault->stopped * 1e3)); /* the fault itself */
        must(kill(victim->pid, SIGCONT));
    }
    child_join(victim);
}

/* ---- Points -------------------------------------------------------------------------- */

/* Waits until the survivor has finished the point and the bystander has served it. Then tells the bystander to
 * connect to the survivor. */
static void await_survivor(void)
{
    char word;

    hear(survivor.fd, &word, 1);
    ck_assert_int_eq(word, 'c');
    tell(bystander.fd, &word, 1);
    hear(bystander.fd, &word, 1);
    hear(survivor.fd, &word, 1);
    ck_assert_int_eq(word, 'd');
}

static struct address run_point(const struct cell *cell, struct point point)
{
    struct victim_task task = {cell, &point};
    struct child victim;
    struct address where = survivors;

    if (!point.listens && cell->fault->forwarded)
        forwarder_aim(&survivors);
    if (!point.listens)
        point.address = cell->fault->forwarded ? forwarders : survivors;
    child_start(&victim, fall_victim, &task);
    if (point.listens) {
        hear(victim.fd, &where, sizeof where);
        point.address = where;
        if (cell->fault->forwarded) {
            forwarder_aim(&where);
            point.address = forwarders;
        }
    }
    tell(survivor.fd, &point, sizeof point);
    nurse(cell, &point, &victim);
    await_survivor();
    if (!point.calm && cell->fault->fate == SILENT)
        child_kill(&victim);
    return where;
}

void cell_run(const struct cell *cell)
{
    struct address bystanders;
    struct point last = {.last = true};

    link_use(cell->link);
    if (cell->fault->forwarded)
        forwarder_start(&forwarder, &forwarders, cell->seed);
    child_start(&bystander, bystand, NULL);
    child_start(&survivor, survive, (void *)(uintptr_t)cell);
    hear(survivor.fd, &survivors, sizeof survivors);
    hear(bystander.fd, &bystanders, sizeof bystanders);
    tell(survivor.fd, &bystanders, sizeof bystanders);
    tell(bystander.fd, &survivors, sizeof survivors);
    run_point(cell, new_point(cell, 0));
    for (unsigned i = cell->first; i < cell->first + cell->count; i++) {
        struct point point = new_point(cell, i);
        struct address where;

        printf("%u\n", i); /* if this is the last line, the cell failed at this point */
        fflush(stdout);
        where = run_point(cell, point);
        if (cell->fault->again) {
            point.calm = true;
            point.address = where;
            run_point(cell, point);
        }
    }
    tell(survivor.fd, &last, sizeof last);
    child_join(&survivor);
    close(bystander.fd);
    must(waitpid(bystander.pid, NULL, 0));
    if (!cell->fault->forwarded)
        return;
    close(forwarder.fd);
    must(waitpid(forwarder.pid, NULL, 0));
}
