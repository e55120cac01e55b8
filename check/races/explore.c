/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * explore.c - runs all orders of a scenario's steps: depth first, each from the start.
 *
 * Orders that were explored after a choice are not explored again after steps that are independent of them: sleep sets
 * (Godefroid). Two steps depend on each other if they are on the same memory and at least one writes. A thread in the
 * sleep set does not run until a step has run on which its own depends.
 */
#undef _FORTIFY_SOURCE /* the fortified longjmp() supports one stack only */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <ucontext.h>
#include "races.h"

#define STACK 65536
#define STEPS_MAX 3000 /* maximum steps of one order; more than any scenario needs */
#define SHOWN 60       /* steps to print of an order that fails */
#define VALUE UINT32_MAX
#define PASSES 4 /* number of sleeps with a timeout that end while other threads could run */

struct step {
    const void *where; /* NULL: no memory */
    bool writes;
    const char *word;
    bool (*ready)(void *argument); /* NULL: the step can run at once */
    void *argument;
    bool yields;
    bool passes; /* a sleep with a timeout */
};

static struct thread {
    bool used, ended, late;
    unsigned yielded_at; /* total number of steps when it yielded */
    struct step next;
    jmp_buf at;
    ucontext_t begin;
    void (*run)(void);
    char stack[STACK] __attribute__((aligned(16)));
} threads[THREADS];

/* A choice: between threads (a bit for each), or between values. */
struct node {
    uint32_t enabled; /* VALUE: a choice between values */
    uint32_t sleep, done;
    unsigned chosen, count;
};

static struct {
    const struct race *race;
    struct node nodes[STEPS_MAX * 2];
    unsigned depth, known; /* number of choices: in this order so far, and taken over from the one before */
    unsigned steps, passed;
    uint32_t sleep;
    int current;
    bool failed;
    jmp_buf back;
    ucontext_t main;
    struct {
        int thread;
        struct step step;
    } trace[STEPS_MAX + 1];
    char message[400];
} explorer;

int race_self(void)
{
    return explorer.current;
}

bool access_is_own_stack(const void *at)
{
    const struct thread *thread = &threads[explorer.current];

    return explorer.current != 0 && (const char *)at >= thread->stack &&
           (const char *)at < thread->stack + STACK;
}

/* ---- Choices ------------------------------------------------------------------------------------------ */

static struct node *next_node(void)
{
    if (explorer.depth >= sizeof explorer.nodes / sizeof *explorer.nodes)
        race_fail("it does not come to an end");
    return &explorer.nodes[explorer.depth++];
}

unsigned explore_choose(unsigned count)
{
    if (count == 1 || explorer.current == 0)
        return 0;
    struct node *node = next_node();

    if (explorer.depth > explorer.known) {
        *node = (struct node){.enabled = VALUE, .count = count};
        explorer.known = explorer.depth;
    }
    return node->chosen;
}

/* A thread that has yielded continues when another thread has run, or when no other thread can (alone). */
static bool is_enabled(const struct thread *thread, bool alone)
{
    const struct step *next = &thread->next;

    if (!thread->used || thread->ended || (next->yields && !alone && explorer.steps == thread->yielded_at))
        return false;
    if (next->passes)
        return alone || explorer.passed < PASSES;
    return next->ready == NULL || next->ready(next->argument);
}

static uint32_t enabled_threads(void)
{
    uint32_t enabled = 0;

    for (int alone = 0; alone < 2 && enabled == 0; alone++)
        for (unsigned i = 1; i < THREADS; i++)
            enabled |= (uint32_t)is_enabled(&threads[i], alone) << i;
    return enabled;
}

static bool are_apart(const struct step *a, const struct step *b)
{
    return a->where == NULL || b->where == NULL || a->where != b->where || (!a->writes && !b->writes);
}

/* The threads that stay in the sleep set after the step of this thread. */
static uint32_t still_asleep(uint32_t asleep, unsigned thread)
{
    uint32_t still = 0;

    for (unsigned i = 1; i < THREADS; i++)
        if (i != thread && (asleep >> i & 1) && are_apart(&threads[i].next, &threads[thread].next))
            still |= UINT32_C(1) << i;
    return still;
}

/* Returns the next thread; 0: all threads that may run were explored. */
static unsigned choose_thread(uint32_t enabled)
{
    struct node *node = next_node();

    if (explorer.depth > explorer.known) {
        *node = (struct node){.enabled = enabled, .sleep = explorer.sleep};
        explorer.known = explorer.depth;
        node->chosen = (unsigned)__builtin_ctz(enabled & ~node->sleep ? enabled & ~node->sleep : 1);
    }
    explorer.sleep = still_asleep(node->sleep | node->done, node->chosen);
    return node->chosen;
}

/* Prepares the next order. Returns false if that was the last. */
static bool backtrack(void)
{
    while (explorer.known > 0) {
        struct node *node = &explorer.nodes[explorer.known - 1];

        if (node->enabled == VALUE) {
            if (++node->chosen < node->count)
                return true;
        } else if (node->chosen != 0) {
            node->done |= UINT32_C(1) << node->chosen;
            uint32_t left = node->enabled & ~node->sleep & ~node->done;
            node->chosen = left ? (unsigned)__builtin_ctz(left) : 0;
            if (left)
                return true;
        }
        explorer.known--;
    }
    return false;
}

/* ---- Threads ------------------------------------------------------------------------------------------ */

static void begin_thread(void)
{
    struct thread *thread = &threads[explorer.current];

    access_begin(explorer.current);
    thread->run();
    thread->ended = true;
    _longjmp(explorer.back, 1);
}

/* Runs the thread up to its next step. */
static void run_thread(unsigned number, bool first)
{
    explorer.current = (int)number;
    if (_setjmp(explorer.back) == 0) {
        if (first)
            setcontext(&threads[number].begin);
        _longjmp(threads[number].at, 1);
    }
    explorer.current = 0;
}

static void step(struct step next)
{
    struct thread *thread = &threads[explorer.current];

    if (explorer.current == 0)
        return;
    thread->next = next;
    thread->yielded_at = explorer.steps;
    if (_setjmp(thread->at) == 0)
        _longjmp(explorer.back, 1);
    if (next.yields)
        thread->late = true;
}

bool explore_is_late(void)
{
    bool late = threads[explorer.current].late;

    threads[explorer.current].late = false;
    return late;
}

void explore_step(const void *where, bool writes, const char *word)
{
    step((struct step){.where = where, .writes = writes, .word = word});
}

void race_yield(void)
{
    step((struct step){.word = "yields", .yields = true});
}

void explore_sleep(const void *where, bool (*ready)(void *argument), void *argument)
{
    step((struct step){
        .where = where, .writes = true, .word = "has slept", .ready = ready, .argument = argument});
}

void race_sleep(const void *object, bool (*ready)(void *argument), void *argument)
{
    explore_sleep(object, ready, argument);
    access_sync(object);
}

void race_sleep_a_while(const void *object)
{
    step((struct step){.where = object, .writes = true, .word = "has slept a while", .passes = true});
    access_sync(object);
}

void race_kernel(const void *object)
{
    step((struct step){.where = object, .writes = true, .word = "asks the kernel"});
    access_sync(object);
}

/* ---- Locks -------------------------------------------------------------------------------------------- */

#define LOCKS 16

static struct lock {
    const void *lock;
    bool taken;
} locks[LOCKS];

static struct lock *find_lock(const void *lock)
{
    for (int i = 0; i < LOCKS; i++) {
        if (locks[i].lock == NULL)
            locks[i].lock = lock;
        if (locks[i].lock == lock)
            return &locks[i];
    }
    race_fail("too many locks");
}

static bool is_free(void *lock)
{
    return !((struct lock *)lock)->taken;
}

void race_lock(void *lock)
{
    struct lock *own = find_lock(lock);

    step((struct step){.where = lock, .writes = true, .word = "locks", .ready = is_free, .argument = own});
    EXPECT(!own->taken);
    own->taken = true;
    access_sync(lock);
}

bool race_trylock(void *lock)
{
    struct lock *own = find_lock(lock);

    step((struct step){.where = lock, .writes = true, .word = "tries to lock"});
    if (own->taken)
        return false;
    own->taken = true;
    access_sync(lock);
    return true;
}

void race_unlock(void *lock)
{
    struct lock *own = find_lock(lock);

    step((struct step){.where = lock, .writes = true, .word = "unlocks"});
    EXPECT(own->taken);
    own->taken = false;
    access_sync(lock);
}

/* ---- One order ---------------------------------------------------------------------------------------- */

static jmp_buf failure;

void race_fail(const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    vsnprintf(explorer.message, sizeof explorer.message, format, arguments);
    va_end(arguments);
    explorer.failed = true;
    if (explorer.current != 0)
        _longjmp(explorer.back, 1);
    _longjmp(failure, 1);
}

static void begin(const struct race *race)
{
    explorer.depth = explorer.steps = explorer.passed = 0;
    explorer.sleep = 0;
    explorer.current = 0;
    memset(locks, 0, sizeof locks);
    access_reset();
    if (race->prepare)
        race->prepare();
    for (unsigned i = 1; i < THREADS; i++) {
        struct thread *thread = &threads[i];

        thread->run = race->threads[i - 1];
        thread->used = thread->run != NULL;
        thread->ended = thread->late = false;
        if (!thread->used)
            continue;
        getcontext(&thread->begin);
        thread->begin.uc_stack.ss_sp = thread->stack;
        thread->begin.uc_stack.ss_size = STACK;
        makecontext(&thread->begin, begin_thread, 0);
    }
    for (unsigned i = 1; i < THREADS && !explorer.failed; i++)
        if (threads[i].used)
            run_thread(i, true);
}

static void end(const struct race *race)
{
    bool left = false;

    for (int i = 1; i < THREADS; i++)
        left = left || (threads[i].used && !threads[i].ended);
    access_join();
    if (left && !(race->rests && race->rests()))
        race_fail("all that are left wait for ever");
    if (race->finish)
        race->finish();
}

/* Returns true if the order was completed, and false if it repeats an explored one. */
static bool run_order(const struct race *race)
{
    begin(race);
    while (!explorer.failed) {
        uint32_t enabled = enabled_threads();

        if (enabled == 0) {
            end(race);
            return true;
        }
        unsigned number = choose_thread(enabled);
        if (number == 0)
            return false;
        if (explorer.steps == STEPS_MAX)
            race_fail("it does not come to an end");
        explorer.trace[explorer.steps].thread = (int)number;
        explorer.trace[explorer.steps++].step = threads[number].next;
        explorer.passed += threads[number].next.passes;
        run_thread(number, false);
    }
    _longjmp(failure, 1);
}

static void print_failure(const struct race *race)
{
    unsigned from = explorer.steps > SHOWN ? explorer.steps - SHOWN : 0;

    printf("%s: %s\n", race->name, explorer.message);
    for (unsigned i = from; i < explorer.steps; i++)
        printf("  thread %d %s %p\n", explorer.trace[i].thread, explorer.trace[i].step.word,
               explorer.trace[i].step.where);
    for (int i = 1; i < THREADS; i++)
        if (threads[i].used && !threads[i].ended)
            printf("  thread %d is before: %s %p\n", i, threads[i].next.word, threads[i].next.where);
}

bool explore(const struct race *race, struct tally *tally)
{
    *tally = (struct tally){0};
    explorer.known = 0;
    explorer.failed = false;
    explorer.race = race;
    if (_setjmp(failure) != 0) {
        explorer.current = 0;
        print_failure(race);
        return false;
    }
    do {
        bool whole = run_order(race);

        tally->orders += whole;
        tally->cut += !whole;
        tally->steps += explorer.steps;
    } while (backtrack());
    return true;
}
