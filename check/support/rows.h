/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * rows.h - tables of a function's errors: what is wrong, and which errno is returned, blocking or not. A "world"
 * contains an object for everything that can be wrong.
 */
#ifndef CHECK_ROWS_H
#define CHECK_ROWS_H

#include "support.h"

#define BAD_FLAG 2 /* a flag of the UNH EXS thesis; MSG_PEEK on Linux */
#define ROW(what_, error_, ...)                                                                                \
    {                                                                                                          \
        .what = what_, .error = error_, __VA_ARGS__                                                            \
    }

enum which_socket { CONNECTED, FRESH, BOUND, LISTENING, SHUT, NEGATIVE, UNUSED, FOREIGN, SOCKETS };
enum which_queue { USUAL, NO_QUEUE, INVALID_QUEUE }; /* USUAL: none with EXS_BLOCK, otherwise a valid one */
enum mode { BOTH, ASYNC, BLOCKING };

struct world { /* objects for the rows; the fixture creates them for each test */
    struct pair pair, shut_pair;
    struct inbox box;
    int sockets[SOCKETS];
    char *bytes;
};

struct row {
    const char *what;
    int error, or_error; /* the errno; another one that is also accepted, or 0 */
    enum mode mode;
    enum which_socket socket;
    enum which_queue queue;
    int flags, number; /* number: count of elements, backlog, or how */
    bool null;         /* pass NULL instead of the buffer, vector or address */
    size_t length;     /* 0: means 100 */
};

extern struct world world;

typedef long call_fn(const struct row *row, int socket, int flags);

/* Tests all rows of a function, and reports every one that fails. */
void try_rows(const char *function, call_fn *call, const struct row *rows, int count);
exs_qhandle_t queue_of(const struct row *row, int flags);
bool is_either(int error, int this, int that);
/* Adds a case whose tests have separate worlds. Closing a world checks that the failed calls have left no event, and
 * that its sockets still work. */
void add_world_case(Suite *suite, const char *name, const TTest *const *tests, int count);

/* clang-format off */
#define NOT_A_SOCKET                                                                                           \
    ROW("a negative number", EBADF, .socket = NEGATIVE),                                                       \
    ROW("a number that is not open", EBADF, .socket = UNUSED),                                                 \
    ROW("a descriptor that is not ours", EBADF, .socket = FOREIGN)
#define BAD_QUEUES(s)                                                                                          \
    ROW("no queue", EINVAL, .mode = ASYNC, .socket = s, .queue = NO_QUEUE),                                    \
    ROW("an invalid queue", EINVAL, .socket = s, .queue = INVALID_QUEUE)
#define BAD_FLAGS(s, error)                                                                                    \
    ROW("flag 2", error, .socket = s, .flags = BAD_FLAG),                                                      \
    BAD_RECEIVE_FLAGS(s, error)
#define BAD_RECEIVE_FLAGS(s, error)                                                                            \
    ROW("MSG_OOB", error, .socket = s, .flags = MSG_OOB),                                                      \
    ROW("every flag", error, .or_error = EINVAL, .socket = s, .flags = -1)
#define BAD_TRANSFERS                                                                                          \
    NOT_A_SOCKET,                                                                                              \
    ROW("no buffer", EINVAL, .null = true),                                                                    \
    ROW("more bytes than a transfer may have", EINVAL, .or_error = EMSGSIZE, .length = EXS_MSG_MAX + 1),       \
    ROW("a fresh socket", ENOTCONN, .socket = FRESH),                                                          \
    ROW("a bound socket", ENOTCONN, .socket = BOUND),                                                          \
    ROW("a listening socket", ENOTCONN, .socket = LISTENING)
#define BAD_FILES                                                                                              \
    NOT_A_SOCKET,                                                                                              \
    ROW("no vector", EINVAL, .or_error = EFAULT, .null = true),                                                \
    ROW("0 elements", EINVAL, .number = 99),                                                                   \
    ROW("-1 elements", EINVAL, .number = -1),                                                                  \
    ROW("too many elements", EINVAL, .number = EXS_XFV_MAX + 1),                                               \
    ROW("an element of no type", EINVAL, .length = 77),                                                        \
    ROW("a fresh socket", ENOTCONN, .socket = FRESH),                                                          \
    ROW("a listening socket", ENOTCONN, .socket = LISTENING),                                                  \
    ROW("after a shutdown", EPIPE, .socket = SHUT)
/* clang-format on */

#endif
