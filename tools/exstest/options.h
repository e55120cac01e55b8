/* SPDX-License-Identifier: BSD-2-Clause */
/* options.h - the command line of exstest. */
#ifndef EXSTEST_OPTIONS_H
#define EXSTEST_OPTIONS_H

#include "ops.h"

#define EXSTEST_PORT "45278"

enum { THREADS_MAX = 256, CONNECTIONS_MAX = 1024, WIDTH_MAX = 256, DEBUG_MAX = 3 };

struct options {
    char test;           /* S, Q, T, P or L */
    const char *device;  /* NULL: EXS_DEVICE applies */
    const char *port;    /* of the server */
    const char *server;  /* its name or address */
    const char *address; /* server: local address; NULL: all */
    int debug;
    const char *quality; /* HT, LL, EC, PM, BE */
    bool json, statistics, validate, polling, shared_queue;
    uint32_t threads, connections, iterations, pipeline;
    uint32_t memory;         /* server: MiB of its budget */
    uint32_t maximum, width; /* limit test; maximum 0: until an attempt fails */
    struct ops ops;
    char **limits; /* names of the resources to exhaust; none: all */
    int limits_count;
};

/* Parses the command line. Exits with status 2 if it is invalid, with 0 after help. */
struct options options_read(int argc, char **argv);
/* Whether the service class of -R busy-polls. */
bool options_poll(const struct options *options);

#endif
