/* SPDX-License-Identifier: BSD-2-Clause */
/* run.h - runs a program once, with one of its library's calls failing, and judges the result. */
#ifndef TORTURE_RUN_H
#define TORTURE_RUN_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/resource.h>
#include <sys/types.h>

#define WORDS_MAX 6
#define CALLS_MAX 80
#define PLACES_MAX 256
#define REASON_MAX 200

struct scene { /* a program with its arguments, and its properties when nothing fails */
    const char *words[WORDS_MAX];
    bool script; /* a script, which applies EXS_TORTURE itself */
    bool spins;  /* busy-polls before it sleeps (EXS_SPIN) */
    char name[64];
    unsigned long counts[CALLS_MAX]; /* of each call */
    int descriptors, threads;
    double seconds; /* of CPU time */
    struct {
        unsigned long place;
        unsigned count;
    } live[PLACES_MAX]; /* memory at the end */
};

struct attempt {
    struct scene *scene;
    int call; /* -1: nothing fails */
    int error;
    bool for_good, passing;
    unsigned long number; /* of the call that fails */
};

struct run { /* owned by the driver */
    struct attempt attempt;
    pid_t pid; /* of the process and of its group; 0: none */
    int output;
    uint64_t deadline; /* ns, monotonic; then the whole group is killed */
    bool overdue;
};

struct verdict {
    bool good, fired;
    char reason[REASON_MAX];
    char failure[REASON_MAX]; /* the first one that the program printed */
};

/* Must be called first, in the build directory. Returns whether the preloaded library exists. */
bool run_prepare(void);
const char *call_name(int call); /* NULL behind the last one */

void run_start(struct run *run, const struct attempt *attempt);
void run_kill(struct run *run);
/* Judges a run that has ended. The first runs of a scene, in which nothing fails, set its properties. */
struct verdict run_judge(struct run *run, int status, const struct rusage *used);
/* Converts an attempt to a text like "calloc 12 ENOMEM once", and back. */
void run_aim(const struct attempt *attempt, char *out, size_t size);
bool run_aim_parse(struct attempt *attempt, const char *text);
/* Writes the run's output to this file. */
void run_keep(const struct run *run, const char *path);

#endif
