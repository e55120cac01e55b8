/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * crowd.h - one server and many peers, who end in many ways while the server waits in many ways.
 *
 * A cell says how many and how. The peers live in up to four processes; those with an even number end as the
 * cell says, the others in good order, beside them. Both ends are made of lines: a line sends what it owes, a
 * piece at a time, and holds what comes against what is owed to it. Each byte depends on its peer, its
 * direction and its place only, and so does each piece's length.
 */
#ifndef CHECK_CROWD_H
#define CHECK_CROWD_H

#include "check/support/support.h"

#include <exs_ev.h>

#define MOST_PEERS 64
#define MOST_CHILDREN 4
#define WINDOW 3   /* transfers of one direction of a line that are in progress at once */
#define THE_END -1 /* of what comes in: orderly */

enum ending { CLOSES, HALF_CLOSES, KILLED, RESETS, STOPS, STOPPED_KILLED, SILENT, ENDINGS };
enum way { LEVEL, EDGE, EV_EPOLL, EV_POLL, EV_SELECT, DEQUEUE, THREADS, WAYS };

struct cell {
    int peers;
    bool large; /* pieces: up to 100,000 bytes, or 900 */
    enum ending ending;
    enum way way; /* that the server waits in */
    int socktype;
    char name[64];
    double silence; /* seconds that a peer is stopped for, where it goes on or is killed */
};

struct line;
struct crowd;

/* An operation; its ahandle. It stays until the crowd is closed, so that a second event would be seen. */
struct op {
    struct op *self, *next; /* of the crowd's list */
    struct line *line;      /* NULL: the listener's */
    int type, events;
    unsigned number; /* of its type on its line */
    bool hello;
    char *buffer;
    size_t length;
    exs_acceptaddr_t element; /* of an accept */
};

/* One end of a connection. Owned by its crowd, guarded by its lock. */
struct line {
    struct crowd *crowd;
    int socket, peer;                  /* -1 until it is known */
    enum ending ending;                /* of the peer */
    size_t in_got, in_asked, in_limit; /* bytes: checked, asked for as well, that may be asked for */
    int receives, in_end;              /* in progress; 0, THE_END or an errno */
    int in_refused;                    /* 0, or why exs_recv itself failed */
    size_t out_done, out_started, out_total;
    int sends, out_end; /* in progress; 0 or an errno */
    bool answered, shutting, shut, closing, closed;
    unsigned started[EXS_EVT_RWRITE + 1], finished[EXS_EVT_RWRITE + 1]; /* operations of each type */
    pthread_t receiver, sender;                                         /* THREADS only */
};

/* All lines of a process. */
struct crowd {
    const struct cell *cell;
    bool server;
    void (*handle)(struct op *op, const exs_event_t *event);
    exs_qhandle_t queue;
    struct address address;
    int listener, accepts; /* of the server; elements given to exs_accept so far */
    bool listener_closed;
    struct line lines[MOST_PEERS];
    int count, due; /* lines there are, and will be */
    struct op *ops;
    int fds; /* descriptors, without those to the children, before anything else was opened */
    struct child children[MOST_CHILDREN]; /* of the server */
    int child_count, awaited;             /* of the children, those that have something to say */
    bool listened[MOST_CHILDREN], heard[MOST_CHILDREN], gone[MOST_CHILDREN];
    pthread_mutex_t lock; /* held by whoever looks at lines; only THREADS has others than the main thread */
    pthread_cond_t more;  /* a line may receive or send more than before */
    int epoll, changed;   /* changed: an eventfd, of THREADS */
    struct ev_loop *loop;
    exs_ev watcher;
    ev_io ears[MOST_CHILDREN];
    ev_timer limit;
    bool late; /* the limit has passed */
};

/* ---- What is owed: crowd_line.c ---- */

size_t owed_up(const struct cell *cell);    /* bytes of the first part, from each peer */
size_t owed_down(const struct cell *cell);  /* and to it */
size_t owed_last(const struct cell *cell);  /* of the second part, in either direction */
size_t owed_never(const struct cell *cell); /* begun by a peer that breaks off */
bool is_odd(const struct line *line);

struct op *op_new(struct crowd *crowd, struct line *line, int type, size_t length);
void op_forget(struct op *op); /* it was not started */
void op_done(struct op *op, const exs_event_t *event);

void line_open(struct crowd *crowd, int socket, int peer); /* the crowd's next */
size_t line_next_receive(const struct line *line);         /* bytes, or 0: none for now */
size_t line_next_send(const struct line *line);
char *line_piece(const struct line *line, size_t length); /* of what is sent next; free() it */
void line_received(struct line *line, const char *buffer, size_t asked, size_t length, int error);
void line_sent(struct line *line, size_t length, int error);
void line_go_on(struct line *line); /* start what may be started; not for THREADS */
void line_event(struct op *op, const exs_event_t *event);
void line_close(struct line *line);
void line_shut(struct line *line);

/* ---- Both ends ---- */

void crowd_open(struct crowd *crowd, const struct cell *cell, bool server);
void crowd_close(struct crowd *crowd); /* every operation has had its event, and the queue is empty */
void crowd_event(struct crowd *crowd, const exs_event_t *event);
/* Until it is over for every line, and all lines are there. */
void crowd_wait(struct crowd *crowd, bool (*over)(const struct line *line), const char *what);
void crowd_turn(struct crowd *crowd, double until, const char *what); /* once; fails when that has passed */
double crowd_bound(void);                                             /* until when a wait lasts at most */
void crowd_hear(struct crowd *crowd, int child);
/* Of the cell, with its name. */
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
bool way_turn(struct crowd *crowd, double until); /* false: the time was over */
void way_listen(struct crowd *crowd, int child);  /* for what it says */
void way_ignore(struct crowd *crowd, int child);

/* ---- The two sides ---- */

void crowd_serve(const struct cell *cell);    /* crowd_server.c */
void line_known(struct line *line, int peer); /* its hello has come */
void line_end(struct line *line);             /* it is as the ending promises */
void threads_accept(struct crowd *crowd);     /* crowd_threads.c: a thread for each direction of each line */
void threads_join(struct crowd *crowd);
struct peer_task { /* crowd_peer.c: a process with some of the peers */
    const struct cell *cell;
    int child;
};
void crowd_peer(int fd, void *task);
enum ending ending_of(const struct cell *cell, int peer);
int children_of(const struct cell *cell); /* peer p is in child p % children */
#define HELLO 8                           /* bytes, before all others: the peer's number */

#endif
