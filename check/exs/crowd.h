/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * crowd.h - one server and many peers. The peers end their connections in many ways, and the server waits for events in
 * many ways.
 *
 * A cell is one combination of these parameters. The peers run in up to four child processes. Peers of a child with an
 * even number end as the cell says; the others close in order at the same time. Server and peers keep one struct line
 * for each connection. A line sends all that it has to send, piece by piece, and checks each byte that arrives. Bytes
 * and lengths of pieces depend only on the peer, the direction and the position in the stream.
 */
#ifndef CHECK_CROWD_H
#define CHECK_CROWD_H

#include "check/support/support.h"

#include <exs_ev.h>

#define MOST_PEERS 64
#define MOST_CHILDREN 4
#define WINDOW 3   /* concurrent transfers in each direction of a line */
#define THE_END -1 /* in_end of an orderly end of the stream */

enum ending { CLOSES, HALF_CLOSES, KILLED, RESETS, STOPS, STOPPED_KILLED, SILENT, ENDINGS };
enum way { LEVEL, EDGE, EV_EPOLL, EV_POLL, EV_SELECT, DEQUEUE, THREADS, WAYS };

struct cell {
    int peers;
    bool large; /* pieces of up to 100,000 bytes instead of 900 */
    enum ending ending;
    enum way way; /* how the server waits */
    int socktype;
    char name[64];
    double silence; /* seconds that a peer is stopped before it continues or is killed */
};

struct line;
struct crowd;

/* An operation. It is also the operation's ahandle, and is freed only when the crowd is closed, so that a second event
 * would be noticed. */
struct op {
    struct op *self, *next; /* next: in crowd->ops */
    struct line *line;      /* NULL: an operation of the listener */
    int type, events;
    unsigned number; /* index among the line's operations of this type */
    bool hello;
    char *buffer;
    size_t length;
    exs_acceptaddr_t element; /* of an accept */
};

/* One end of a connection. Owned by its crowd, protected by crowd->lock. */
struct line {
    struct crowd *crowd;
    int socket, peer;                  /* peer: -1 until the hello has arrived */
    enum ending ending;                /* how the peer ends */
    size_t in_got, in_asked, in_limit; /* bytes: received and checked, requested, allowed to be requested */
    int receives, in_end;              /* receives in progress; 0, THE_END or an errno */
    int in_refused;                    /* 0, or the errno that exs_recv returned */
    size_t out_done, out_started, out_total;
    int sends, out_end; /* sends in progress; 0 or an errno */
    bool answered, shutting, shut, closing, closed;
    unsigned started[EXS_EVT_RWRITE + 1], finished[EXS_EVT_RWRITE + 1]; /* operations of each type */
    pthread_t receiver, sender;                                         /* only with THREADS */
};

/* All lines of a process. */
struct crowd {
    const struct cell *cell;
    bool server;
    void (*handle)(struct op *op, const exs_event_t *event);
    exs_qhandle_t queue;
    struct address address;
    int listener, accepts; /* listener: the server's; accepts: elements passed to exs_accept so far */
    bool listener_closed;
    struct line lines[MOST_PEERS];
    int count, due; /* lines that exist, lines expected */
    struct op *ops;
    int fds; /* descriptors before the queue was created, without those to the children */
    struct child children[MOST_CHILDREN]; /* of the server */
    int child_count, awaited;             /* awaited: children that must still report */
    bool listened[MOST_CHILDREN], heard[MOST_CHILDREN], gone[MOST_CHILDREN];
    pthread_mutex_t lock; /* held when lines are accessed; only with THREADS there is more than one thread */
    pthread_cond_t more;  /* signaled when a line may receive or send more */
    int epoll, changed;   /* changed: an eventfd, only with THREADS */
    struct ev_loop *loop;
    exs_ev watcher;
    ev_io ears[MOST_CHILDREN];
    ev_timer limit;
    bool late; /* the time limit has expired */
};

/* ---- What each side sends: crowd_line.c ---- */

size_t owed_up(const struct cell *cell);    /* bytes of the first part, from each peer to the server */
size_t owed_down(const struct cell *cell);  /* bytes of the first part, from the server to each peer */
size_t owed_last(const struct cell *cell);  /* bytes of the second part, in either direction */
size_t owed_never(const struct cell *cell); /* bytes of a send that a peer starts and never completes */
bool is_odd(const struct line *line);

struct op *op_new(struct crowd *crowd, struct line *line, int type, size_t length);
void op_forget(struct op *op); /* for an operation that the library refused */
void op_done(struct op *op, const exs_event_t *event);

void line_open(struct crowd *crowd, int socket, int peer); /* append a line to the crowd */
size_t line_next_receive(const struct line *line);         /* bytes, or 0: none now */
size_t line_next_send(const struct line *line);
char *line_piece(const struct line *line, size_t length); /* the bytes to send next; the caller frees them */
void line_received(struct line *line, const char *buffer, size_t asked, size_t length, int error);
void line_sent(struct line *line, size_t length, int error);
void line_go_on(struct line *line); /* start what may be started; not with THREADS */
void line_event(struct op *op, const exs_event_t *event);
void line_close(struct line *line);
void line_shut(struct line *line);

/* ---- Server and peers ---- */

void crowd_open(struct crowd *crowd, const struct cell *cell, bool server);
/* Checks that every operation has had its event and that the queue is empty. */
void crowd_close(struct crowd *crowd);
void crowd_event(struct crowd *crowd, const exs_event_t *event);
/* Process events until all expected lines exist and over() is true for each. */
void crowd_wait(struct crowd *crowd, bool (*over)(const struct line *line), const char *what);
/* Wait once; fails when `until` has passed. */
void crowd_turn(struct crowd *crowd, double until, const char *what);
/* The time when a wait that starts now must be over. */
double crowd_bound(void);
void crowd_hear(struct crowd *crowd, int child);
/* Checks a condition; the message names the cell. */
#define expect(crowd, condition, ...)                                                                          \
    do                                                                                                         \
        if (!(condition))                                                                                      \
            crowd_fail((crowd), #condition, __VA_ARGS__);                                                      \
    while (0)
void crowd_fail(const struct crowd *crowd, const char *condition, const char *format, ...)
    __attribute__((format(printf, 3, 4), noreturn));

/* ---- Waiting: crowd_ways.c ---- */

void way_open(struct crowd *crowd);
void way_close(struct crowd *crowd);
bool way_turn(struct crowd *crowd, double until); /* false: the time is over */
void way_listen(struct crowd *crowd, int child);  /* wait for the child's report, too */
void way_ignore(struct crowd *crowd, int child);

/* ---- The server and its peers ---- */

void crowd_serve(const struct cell *cell);    /* crowd_server.c */
void line_known(struct line *line, int peer); /* its hello has arrived */
void line_end(struct line *line);             /* checks that the line has ended as the peer's ending promises */
void threads_accept(struct crowd *crowd);     /* crowd_threads.c: one thread for each direction of each line */
void threads_join(struct crowd *crowd);
struct peer_task { /* crowd_peer.c: a process that runs some of the peers */
    const struct cell *cell;
    int child;
};
void crowd_peer(int fd, void *task);
enum ending ending_of(const struct cell *cell, int peer);
int children_of(const struct cell *cell); /* peer p is in child p % children */
#define HELLO 8                           /* bytes of each connection's first message: the peer's number */

#endif
