/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * support.h - what the Check programs of EXS share.
 *
 * Each test runs in a process of its own (Check's fork mode) with a timeout, and calls exs_init() in the fixture of
 * add_case(). The functions here fail the running test on an error, so the tests need no error handling.
 */
#ifndef CHECK_SUPPORT_H
#define CHECK_SUPPORT_H

#include <check.h>
#include <errno.h>
#include <exs.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "runner.h"
#include "self.h"

#define COUNT(array) ((int)(sizeof(array) / sizeof((array)[0])))
#define KIB ((size_t)1 << 10)
#define MIB ((size_t)1 << 20)
#define WAIT_MS wait_ms()       /* longer than any wait for an event that does occur */
#define LATE_S (WAIT_MS / 15e3) /* 1 s, times the factors in wait_ms() */
#define QUIET_MS 30             /* how long to wait for an event that must not occur */

/* ---- Programs ------------------------------------------------------------------------ */

void init_library(void); /* the fixture: calls exs_init() */
/* With the fixture; seconds on an idle machine. */
TCase *add_case(Suite *suite, const char *name, double seconds);
TCase *add_bare_case(Suite *suite, const char *name, double seconds);

/* Expect that the call succeeds, or fails with this errno; otherwise report the call and errno. */
#define must(call)                                                                                             \
    do {                                                                                                       \
        long result_ = (long)(call);                                                                           \
        ck_assert_msg(result_ >= 0, "%s: %s", #call, strerror(errno));                                         \
    } while (0)
#define must_fail(call, error)                                                                                 \
    do {                                                                                                       \
        errno = 0;                                                                                             \
        long result_ = (long)(call);                                                                           \
        ck_assert_msg(result_ == -1, "%s: %ld, want -1", #call, result_);                                      \
        ck_assert_msg(errno == (error), "%s: errno is %s, want %s", #call, strerrorname_np(errno),             \
                      strerrorname_np(error));                                                                 \
    } while (0)

/* ---- Time, random numbers, patterns ---------------------------------------------------- */

int wait_ms(void);             /* 60 s, times CK_TIMEOUT_MULTIPLIER, for sanitizers and valgrind */
double seconds_to_spend(void); /* of one randomised test: 2.5; 60 with EXS_LONG=1; 0.4 with EXS_SHORT=1 */
bool sees_bytes(void);         /* false with sanitizers, which add to resident_kib() */
#define MORE_SOCKETS 65        /* descriptors that a queue may have for all of its connections together */

struct chance { /* a seeded random number generator; owned by one thread */
    uint64_t state;
};

struct chance chance_new(void); /* prints its seed; EXS_SEED repeats it */
uint64_t chance_next(struct chance *c);
size_t chance_below(struct chance *c, size_t limit);             /* 0 to limit - 1 */
size_t chance_size(struct chance *c, size_t least, size_t most); /* each power of two is equally likely */

/* An infinite pattern: byte number `at` depends only on the seed and `at`. */
void pattern_fill(void *buffer, size_t length, uint64_t seed, uint64_t at);
void pattern_check(const void *buffer, size_t length, uint64_t seed, uint64_t at);
void same_bytes(const void *buffer, size_t length, unsigned char value);
void *new_buffer(size_t length); /* filled with CANARY; to be freed with free() */
#define CANARY 0xC5

/* ---- Addresses ----------------------------------------------------------------------- */

struct address {
    struct sockaddr_storage storage;
    socklen_t length;
};
#define SA(address) ((struct sockaddr *)&(address)->storage)

struct address loopback(int family, int port); /* 127.0.0.1, ::1; EXS_TEST_ADDR, EXS_TEST_ADDR6 */
int port_of(const struct address *address);
struct address refusing_address(int *keep); /* no listener there until *keep is closed */
struct address deaf_address(int *keep);     /* connecting to it takes for ever until *keep is closed */
bool on_rdma(void);                         /* EXS_DEVICE=rdma: EXS uses rdma-core */
bool on_shm(void); /* packets within the host use shared memory: EXS_LINK is neither udp nor tcp */
int tcp_listener(struct address *address); /* a kernel socket without EXS */

/* ---- Events -------------------------------------------------------------------------- */

/* A queue, and the events that were dequeued from it before a test asked for them. Owned by one thread. While a test
 * waits for an inbox, the one in `beside` is driven, too. */
struct inbox {
    exs_qhandle_t queue;
    struct inbox *beside;
    exs_event_t *kept;
    int count, room;
};

void inbox_open(struct inbox *box, int depth);
void inbox_close(struct inbox *box); /* its events and those of its queue must have been taken */
void inbox_pump(struct inbox *box, int wait_ms);
exs_event_t inbox_take(struct inbox *box, int type, int socket); /* the oldest event; socket -1: any */
exs_event_t take_good(struct inbox *box, int type, int socket);
exs_event_t take_failed(struct inbox *box, int type, int socket, int error);
void inbox_quiet(struct inbox *box, int ms); /* expects no event, kept or new */

/* ---- Connections --------------------------------------------------------------------- */

struct pair { /* two connected sockets of this process */
    struct inbox own[2];
    struct inbox *client_box, *server_box; /* `own`, or the caller's; may be the same */
    struct address address;                /* of the listener */
    int listener, client, server;
};

extern const struct kind { /* type of socket */
    int family, type;
} kinds[4];

int open_listener(int family, int type, int backlog, struct address *address);
void connect_ends(int listener, int type, const struct address *to, struct inbox *client_box,
                  struct inbox *server_box, int *client, int *server);
void close_socket(struct inbox *box, int socket); /* expects EXS_EVT_CLOSE without error */

/* Each end has a queue; each inbox is `beside` the other. */
void pair_open(struct pair *pair, int family, int type);
void pair_open_kind(struct pair *pair, int kind);
void pair_close(struct pair *pair);      /* closes both ends and the rest */
void pair_close_rest(struct pair *pair); /* closes the listener and its own queues */
void pair_open_on(struct pair *pair, int family, int type, struct inbox *client, struct inbox *server);
void pair_open_blocking(struct pair *pair, int family, int type); /* with blocking calls, without inboxes */
void pair_close_blocking(struct pair *pair);

/* Transfers length bytes from one socket to the other, with one send and one MSG_WAITALL receive. */
void pass_bytes(struct inbox *from_box, int from, struct inbox *to_box, int to, size_t length, uint64_t seed);
/* Makes `count` receives of one byte, all complete, whose events are not dequeued. */
void owe_events(struct pair *pair, exs_qhandle_t queue, int count);

/* ---- Other threads and processes ----------------------------------------------------- */

pthread_t thread_start(void *(*run)(void *), void *arg);
void thread_join(pthread_t thread);

struct child { /* forked before exs_init(); killed when its parent exits */
    pid_t pid;
    int fd; /* socket to the other process */
};

void child_start(struct child *child, void (*run)(int fd, void *arg), void *arg);
void child_join(struct child *child); /* expects that it exits without a failure */
void child_kill(struct child *child); /* with SIGKILL */
/* A function for child_start(): listens, sends its address, accepts a connection, sends a byte, and exits when it
 * receives one. */
void child_accepts(int fd, void *arg);
void tell(int fd, const void *what, size_t length);
void hear(int fd, void *what, size_t length);

#endif
