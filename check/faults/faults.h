/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * faults.h - a matrix of faults, phases of a connection (moments) and links.
 *
 * A cell has a survivor, which lives through all points of the cell; for each point a victim, another process
 * that connects to the survivor or accepts it, and sends or receives; and a bystander, a server that is not
 * involved in the fault. The fault strikes at a random place of the moment. Afterwards each event of the
 * survivor has arrived once, with the errno that the fault's row allows; the bystander serves the survivor and
 * is served by it, on the old connection and on new ones; and the survivor has the same descriptors, mappings
 * and threads as before.
 *
 * A fault is a row of fault_rows.c, a moment one of moments.c, a link one of link_rows.c.
 */
#ifndef CHECK_FAULTS_H
#define CHECK_FAULTS_H

#include "check/support/support.h"
#include "device.h"

#include <stdatomic.h>

#define OPS 16     /* most pending operations of an end */
#define WINDOW 4   /* most pending transfers of one direction */
#define HELLO 8    /* bytes; the point's seed */
#define SMALL 3000 /* bytes of a receive that is too short to be advertised */

struct end;

enum fate {
    LIVES, /* the victim finishes, and neither end notices anything */
    SHORT, /* the same, but the survivor's calls may fail until the shortage is over */
    GONE,  /* both live, but the connection is reset, e.g. because the survivor's device was removed */
    DIES,  /* the victim is killed: connections are reset */
    SILENT /* the victim stops answering: the survivor gets ETIMEDOUT */
};
enum who { VICTIM = 1, SURVIVOR = 2, BOTH = 3 };

struct fault {
    const char *name;
    enum fate fate;
    enum who who;                    /* which end it strikes */
    bool whole;                      /* from before the connection on; otherwise at the point's place */
    void (*strike)(struct end *end); /* in a separate thread */
    void (*heal)(struct end *end);   /* after the point; for BOTH and SURVIVOR */
    int error;                       /* SHORT and GONE: errno that the survivor may get */
    /* SHORT: starts before the survivor connects, by name; must not matter later */
    bool connecting;
    bool embedded;  /* possible with the software device only */
    double bound;   /* s; longest time until the survivor notices */
    double stopped; /* s until a stopped victim continues; 0: never */
    bool again;     /* the next victim uses the same port immediately */
    /* the survivor sends keepalives each second; otherwise the library does */
    bool asked;
    bool adapter;                     /* possible with an adapter only */
    unsigned lost, twice, late, bent; /* packets of ten thousand */
    bool packets;                     /* only on links that may lose packets */
    bool network;                     /* only on links that use the kernel's network */
    bool forwarded;                   /* through a forwarder; only on links with one TCP connection */
    bool files;                       /* only in moments where the survivor writes files */
    int share;                        /* weight of its number of points */
    unsigned most;                    /* most points of a cell; 0: no limit */
};

struct moment {
    const char *name;
    bool (*run)(struct end *end); /* at both ends; false: an operation failed */
    size_t total;                 /* a fault strikes within this number of bytes */
    unsigned after;               /* and within this number of microseconds afterwards */
    bool setup;                   /* while the connection is set up */
    bool closing;                 /* the connection may have ended in order */
    bool files;                   /* the receiver writes files */
    bool exports;                 /* one end uses the peer's memory */
};

struct link_row {
    const char *name;
    const char *device, *link; /* EXS_DEVICE, EXS_LINK */
    const char *host;          /* the name of loopback(AF_INET) on this link */
    /* needs EXS_TEST_ADDR, continues while its process is stopped, and after a kill frees memory before
     * connections */
    bool adapter;
    bool packets; /* packets may be lost */
    bool network; /* the kernel's network carries the packets */
    bool stream;  /* one TCP connection carries everything, which may be forwarded */
};

extern const struct fault fault_rows[];
extern const struct moment moment_rows[];
extern const struct link_row link_rows[];
extern const int fault_count, moment_count, link_count;

enum here { HERE, NO_DEVICE, NO_NAME };
enum here link_ask(const struct link_row *link); /* before there are threads */
void link_use(const struct link_row *link);      /* this process uses the link from now on */

struct cell {
    const struct fault *fault;
    const struct moment *moment;
    const struct link_row *link;
    char name[64];
    uint64_t seed;
    unsigned first, count; /* of the points */
};

struct point { /* known to both ends */
    uint64_t seed;
    unsigned number;
    bool calm;    /* no fault */
    bool last;    /* there is no further point: the survivor ends */
    bool listens; /* the victim listens; otherwise the survivor */
    bool sends;   /* the victim sends; otherwise the survivor */
    size_t at;    /* strike after this number of bytes */
    unsigned after_us;
    struct address address; /* of the end that listens */
};

struct op { /* its address is its ahandle */
    int type, socket;
    bool used, owed;
    int error;
    size_t length;
    int accepted;
};

/* One end of a connection, and all pending operations of its process. Owned by the process's main thread. */
struct end {
    const struct cell *cell;
    const struct point *point;
    bool victim;
    int fd; /* to the cell's process */
    exs_qhandle_t queue;
    int listener, socket; /* -1: none */
    struct op ops[OPS];
    char *in, *out;
    exs_mhandle_t in_region, out_region;
    int in_file, out_file;
    exs_acceptaddr_t element;
    int error;      /* errno of the first operation that failed, or 0 */
    double noticed; /* time of that */
    bool ended;     /* the connection ended in order */
    bool through;   /* the moment was completed */
    bool struck;    /* the survivor knows that the victim was struck */
    double when;    /* time of the strike; GONE: owned by the trigger until it ends */
    pthread_t trigger;
    bool armed;
    /* Shared with the trigger. Each is independent of the others, so no ordering is required. */
    _Atomic size_t moved;      /* bytes */
    _Atomic bool over;         /* the moment has ended */
    _Atomic double stalled_to; /* the queue is not driven before this time */
    _Atomic int busy;          /* socket of the last operation, except a listener's; -1: none */
    _Atomic bool begun;        /* the shortage has begun */
    _Atomic bool lost;         /* the device was removed from this end, or its path broken */
};

/* ---- Operations: end.c ---- */

void end_open(struct end *end, const struct cell *cell, bool victim, int fd); /* after exs_init */
void end_close(struct end *end); /* checks that each event has arrived once, and no other */
void end_turn(struct end *end, int wait_ms);
struct op *op_begin(struct end *end, int type, int socket);
struct op *op_began(struct end *end, struct op *op, ssize_t result);
/* Waits for the event, unless the call failed. Returns the errno, and the number of bytes in *length. */
int op_wait(struct end *end, struct op *op, size_t *length);
bool end_good(struct end *end, int error); /* returns whether error is 0; otherwise records it */

/* Returns whether this end lacks a resource in this point. */
bool is_short(const struct end *end);
bool may_fail(const struct end *end); /* its moment may end early */
bool is_gone(const struct end *end);  /* the survivor's device is removed, or its path broken, in this point */
/* Returns whether a call failed because of the shortage, which has changed nothing: after a moment it must be
 * repeated. */
bool is_refused(const struct end *end, ssize_t result);

int end_send(struct end *end, const void *bytes, size_t length);
/* all bytes, or less at the end of stream */
int end_recv(struct end *end, void *bytes, size_t length, size_t *got);
int end_close_socket(struct end *end, int *socket);
struct op *ask_close(struct end *end, int socket);

/* ---- Connections: meet.c ---- */

bool meet(struct end *end); /* false: the fault prevented the connection */
bool say_end(struct end *end);
bool hear_end(struct end *end);
void part(struct end *end);            /* ends in order, or checks what the survivor notices */
int accept_bystander(struct end *end); /* closes other connections that arrive before */

/* ---- Faults: strike.c, wire.c, lack.c ---- */

bool is_sending(const struct end *end);
bool strikes(const struct end *end); /* this end is struck in this point */
void trigger_arm(struct end *end);
void trigger_wait(struct end *end); /* waits until the fault has struck */
void trigger_end(struct end *end);  /* waits for that, and heals it */
void wire_set(unsigned lost, unsigned twice, unsigned late, unsigned bent, uint64_t seed);
void clock_step(long seconds); /* from now on the wall clock is wrong by this time */
void lack_memory(bool lacks);  /* from now on every allocation of these programs fails; lack.c */
void lack_disk(bool lacks);    /* no file can grow */
void lack_threads(bool lacks); /* no thread can be created */
void lack_memlock(bool lacks); /* the software device registers no memory; others have a limit */

/* ---- The forwarder: forwarder.c ---- */

enum order {
    ORDER_NONE,
    ORDER_RESET,  /* both sides of each connection get an RST */
    ORDER_CLOSE,  /* both sides get the end of stream */
    ORDER_PAUSE,  /* nothing is read or written for a while */
    ORDER_STOP,   /* nothing is read or written any more */
    ORDER_DISCARD /* data is read and discarded */
};
void forwarder_start(struct child *child, struct address *where, uint64_t seed); /* in the cell's process */
void forwarder_aim(const struct address *target);                                /* of later connections */
/* In any process of the cell. Returns whether there were connections; these are struck when it returns. */
bool forwarder_strike(enum order order);

/* ---- The processes ---- */

struct state { /* resources of this process that a connection might leave behind */
    int descriptors, mappings, threads;
};
struct state state_now(void);
void survive(int fd, void *cell);   /* survivor.c */
void bystand(int fd, void *unused); /* bystander.c */
struct victim_task {
    const struct cell *cell;
    const struct point *point;
};
void fall_victim(int fd, void *task); /* victim.c */
void cell_run(const struct cell *cell);

#endif
