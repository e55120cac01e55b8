/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * rows.h - errors of calls as tables: what is wrong, and which errno says so; blocking or not, from a world
 * in which everything that can be wrong is at hand.
 */
#ifndef CHECK_ROWS_H
#define CHECK_ROWS_H

#include "support.h"

#define BAD_FLAG 2 /* the thesis's; MSG_PEEK of Linux */
#define ROW(what_, error_, ...)                                                                                \
    {                                                                                                          \
        .what = what_, .error = error_, __VA_ARGS__                                                            \
    }

enum which_socket { CONNECTED, FRESH, BOUND, LISTENING, SHUT, NEGATIVE, UNUSED, FOREIGN, SOCKETS };
enum which_queue { USUAL, NO_QUEUE, INVALID_QUEUE }; /* usual: none with EXS_BLOCK, else a good one */
enum mode { BOTH, ASYNC, BLOCKING };

struct world { /* what the rows choose from; the fixture makes it anew for each test */
    struct pair pair, shut_pair;
    struct inbox box;
    int sockets[SOCKETS];
    char *bytes;
};

struct row {
    const char *what;
    int error, or_error; /* the errno; another one that will do, or 0 */
    enum mode mode;
    enum which_socket socket;
    enum which_queue queue;
    int flags, number; /* number: count of elements, backlog, how */
    bool null;         /* NULL in place of the buffer, the vector, the address */
    size_t length;     /* 0: 100 */
};

extern struct world world;

typedef long call_fn(const struct row *row, int socket, int flags);

/* A call's errors, one after the other; every row that goes wrong is reported, not the first one only. */
void try_rows(const char *function, call_fn *call, const struct row *rows, int count);
exs_qhandle_t queue_of(const struct row *row, int flags);
bool is_either(int error, int this, int that);
/* A case of tests that each get a world of their own. Closing it looks whether a failed call has left an event,
 * or a socket that no longer works. */
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
