/* SPDX-License-Identifier: BSD-2-Clause */
/* options.h - the command line of exstest. */
#ifndef EXSTEST_OPTIONS_H
#define EXSTEST_OPTIONS_H

#include "ops.h"

#define EXSTEST_PORT "45278"

enum { THREADS_MAX = 256, CONNECTIONS_MAX = 1024, WIDTH_MAX = 256, DEBUG_MAX = 3 };

struct options {
    char test;           /* S, Q, T, P or L */
    const char *device;  /* NULL: as EXS_DEVICE says */
    const char *port;    /* of the server */
    const char *server;  /* its name or address */
    const char *address; /* server: to listen on; NULL: every one */
    int debug;
    const char *quality; /* HT, LL, EC, PM, BE */
    bool json, statistics, validate, polling, shared_queue;
    uint32_t threads, connections, iterations, pipeline;
    uint32_t memory;         /* server: MiB of its budget */
    uint32_t maximum, width; /* limit test; maximum 0: until it fails */
    struct ops ops;
    char **limits; /* words that name what to exhaust; none: everything */
    int limits_count;
};

/* Ends the process where the command line is wrong (2), or only asks for help (0). */
struct options options_read(int argc, char **argv);
/* -R: does this class poll? */
bool options_poll(const struct options *options);

#endif
