/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * wire.h - the protocol between client and server. Each line is one message of a SOCK_SEQPACKET connection:
 *
 *   client  HELLO      its version
 *   server  HELLO      its version; an end that receives a different version reports that and closes
 *   client  REQUEST    the test, and the tokens of the memory that the server accesses
 *   server  ANSWER     yes, and the tokens of the memory that the client accesses; or no, and the reason
 *           the operations of the test
 *   both    BYE        the number of mismatches that this end has found
 *
 * All of these messages are exchanged on each connection of a test. Integers are big-endian and of fixed width. A
 * message begins with magic, version and type, which have the same format in all versions.
 */
#ifndef EXSTEST_WIRE_H
#define EXSTEST_WIRE_H

#include <exs.h>
#include "ops.h"

#define WIRE_MAGIC 0x45585354u /* "EXST" */
#define WIRE_VERSION 1

enum {
    MESSAGE_MAX = 8192, /* bytes */
    HELLO_LENGTH = 8,
    BYE_LENGTH = 16,
    WHY_MAX = 200,               /* bytes of a refusal's reason */
    ITERATIONS_MAX = 1000000000, /* of one connection */
    PIPELINE_MAX = 256,          /* operations of a performance test in flight at once */
    LATENCIES_MAX = 1000000,     /* single operations that a performance test times */
    TOTAL_MAX = 4096,            /* connections of a test */
    MEMORY_MAX = 1 << 30,        /* bytes of one connection's buffers, at either end */
    REQUEST_VALIDATE = 1,        /* flags of struct request */
    REQUEST_POLLING = 2,
};

enum message { HELLO = 1, REQUEST, ANSWER, BYE };

struct tokens {
    exs_token_t token[OPS_MAX + OPS_ADDED];
    int count;
};

struct request {
    char test;              /* 'T', 'P', 'Q' */
    uint32_t flags;         /* a set of REQUEST_... */
    uint64_t session;       /* equal for all connections of a test */
    uint32_t number, total; /* index of this connection; number of connections */
    uint32_t iterations, pipeline;
    struct ops ops;
    struct tokens tokens; /* of the client's exported operations, in order */
};

struct answer {
    bool yes;
    char why[WHY_MAX];
    struct tokens tokens; /* of the server's exported operations, in order */
};

struct bye {
    uint64_t mismatches;
};

/* These functions encode a message into MESSAGE_MAX bytes, and return its length. */
size_t wire_hello(unsigned char *out, unsigned version);
size_t wire_request(unsigned char *out, const struct request *request);
size_t wire_answer(unsigned char *out, const struct answer *answer);
size_t wire_bye(unsigned char *out, const struct bye *bye);

/* These functions decode a message. They return false if it has another type or is invalid. */
bool wire_read_hello(const unsigned char *in, size_t length, unsigned *version);
bool wire_read_request(const unsigned char *in, size_t length, struct request *request);
bool wire_read_answer(const unsigned char *in, size_t length, struct answer *answer);
bool wire_read_bye(const unsigned char *in, size_t length, struct bye *bye);

#endif
