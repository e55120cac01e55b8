/* SPDX-License-Identifier: BSD-2-Clause */
/* ops.h - the operations of a test, as given on the command line and executed by both ends. */
#ifndef EXSTEST_OPS_H
#define EXSTEST_OPS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum transfer { SEND_RECV, REMOTE_READ, REMOTE_WRITE };

struct op {
    bool by_server; /* the server starts it, otherwise the client */
    enum transfer transfer;
    uint32_t size, segments; /* size: bytes of a segment */
    bool deferred;           /* -f */
};

enum {
    OPS_MAX = 100,
    OPS_ADDED = 3, /* added for validation */
    SEGMENTS_MAX = 64,
    SIZE_MAX_OF_OP = 1 << 30, /* bytes of all segments */
    SIZE_DEFAULT = 4096
};

struct ops {
    struct op op[OPS_MAX + OPS_ADDED];
    int count;
};

/* Parses "client SR 4096 2 -f" and so on, up to the last word. Returns false after printing an error. */
bool ops_parse(struct ops *ops, char **words, int count);
/* Parses "RW 4096 2" of a performance test. Returns false after printing an error. */
bool ops_parse_one(struct op *op, char **words, int count);
/* Checks the restrictions of a transaction test. Returns false and sets *why if one is violated. */
bool ops_check(const struct ops *ops, const char **why);
/* Appends the operations that validation needs. */
void ops_add_validation(struct ops *ops);
bool op_is_possible(const struct op *op); /* its sizes and counts are within the limits */

static inline size_t op_bytes(const struct op *op)
{
    return (size_t)op->size * op->segments;
}

/* Whether this end (the server or not) starts it. */
static inline bool op_is_mine(const struct op *op, bool server)
{
    return op->by_server == server;
}

/* Whether data are transferred from this end's memory, otherwise into it. */
static inline bool op_is_source(const struct op *op, bool server)
{
    return op_is_mine(op, server) == (op->transfer != REMOTE_READ);
}

/* Whether the other end accesses this end's exported memory. */
static inline bool op_is_exported(const struct op *op, bool server)
{
    return op->transfer != SEND_RECV && !op_is_mine(op, server);
}

const char *op_text(const struct op *op, char out[64]); /* "RDMA_WRITE (client) 4096 x 2" */
const char *op_letters(const struct op *op);            /* "SR", "RR", "RW" */

#endif
