/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * faults.h - a matrix: what goes wrong, in which moment of a connection, on which link.
 *
 * A cell has a survivor, which lives through all its points; for each point a victim, another process that
 * meets the survivor, connecting or listening, sending or receiving; and a bystander, a server that has nothing
 * to do with it. The fault strikes at a random place of the moment. Afterwards the survivor has had each event
 * once, with the errno that the fault promises; it is served by the bystander and serves it, on the old
 * connection and on new ones; and it has the descriptors, mappings and threads that it had before.
 *
 * A fault is a row of fault_rows.c, a moment one of moments.c, a link one of link_rows.c.
 */
#ifndef CHECK_FAULTS_H
#define CHECK_FAULTS_H

#include "check/support/support.h"
#include "device.h"

#include <stdatomic.h>

#define OPS 16     /* of an end, at once */
#define WINDOW 4   /* transfers of one direction at once */
#define HELLO 8    /* bytes: the point's seed */
#define SMALL 3000 /* bytes of a receive that the peer is not told of */

struct end;

enum fate {
    LIVES, /* the victim comes to its end, and nobody noticed anything */
    SHORT, /* the same, but that the survivor may have been refused what it asked for, until it was healed */
    GONE,  /* both live, but their connection is reset: its device was taken away from the survivor */
    DIES,  /* it is killed: connections are reset */
    SILENT /* it says no more: whoever asks it has ETIMEDOUT */
};
enum who { VICTIM = 1, SURVIVOR = 2, BOTH = 3 };

struct fault {
    const char *name;
    enum fate fate;
    enum who who;                     /* that it strikes */
    bool whole;                       /* from before the connection on; else at the point's place */
    void (*strike)(struct end *end);  /* in a thread of its own */
    void (*heal)(struct end *end);    /* when the point is over; of BOTH and SURVIVOR */
    int error;                        /* of SHORT and GONE: what the survivor may be told */
    bool connecting;                  /* of SHORT: from when it connects, by name; later it must not matter */
    bool embedded;                    /* only the embedded device can be struck so */
    double bound;                     /* seconds until the survivor knows, at most */
    double stopped;                   /* seconds until a victim that was stopped goes on; 0: never */
    bool again;                       /* the next victim has the same port at once */
    bool asked;                       /* each second, if it is there, by the survivor; else by the library */
    bool adapter;                     /* only an adapter can be struck so */
    unsigned lost, twice, late, bent; /* packets of ten thousand */
    bool packets;                     /* only where packets may get lost */
    bool network;                     /* only where the kernel's network is between the ends */
    bool forwarded;                   /* by a forwarder: only where one connection carries all */
    bool files;                       /* only where files are written, and the survivor writes them */
    int share;                        /* of the points, */
    unsigned most;                    /* and how many a cell has of them at most; 0: all */
};

struct moment {
    const char *name;
    bool (*run)(struct end *end); /* at both ends; false: an operation failed */
    size_t total;                 /* bytes within which a fault strikes, */
    unsigned after;               /* and microseconds after the byte */
    bool setup;                   /* while the connection is made */
    bool closing;                 /* the end may have come in good order */
    bool files;                   /* the receiver writes files */
    bool exports;                 /* the peer's memory is used */
};

struct link_row {
    const char *name;
    const char *device, *link; /* EXS_DEVICE, EXS_LINK */
    const char *host;          /* the name of loopback(AF_INET) there */
    bool adapter;              /* has EXS_TEST_ADDR, goes on while its process is stopped, and of one that dies
                                * takes back memory before connections */
    bool packets;              /* that get lost */
    bool network;              /* the kernel's carries them */
    bool stream;               /* one TCP connection does, which may be forwarded */
};

extern const struct fault fault_rows[];
extern const struct moment moment_rows[];
extern const struct link_row link_rows[];
extern const int fault_count, moment_count, link_count;

enum here { HERE, NO_DEVICE, NO_NAME };
enum here link_ask(const struct link_row *link); /* before there are threads */
void link_use(const struct link_row *link);      /* by this process, from now on */

struct cell {
    const struct fault *fault;
    const struct moment *moment;
    const struct link_row *link;
    char name[64];
    uint64_t seed;
    unsigned first, count; /* of the points */
};

struct point { /* which both ends know */
    uint64_t seed;
    unsigned number;
    bool calm;    /* nothing goes wrong */
    bool last;    /* there is no such point: the survivor ends */
    bool listens; /* the victim; else the survivor */
    bool sends;   /* the victim; else the survivor */
    size_t at;    /* bytes that have moved, */
    unsigned after_us;
    struct address address; /* of who listens */
};

struct op { /* its own ahandle */
    int type, socket;
    bool used, owed;
    int error;
    size_t length;
    int accepted;
};

/* One end of a connection, and all that its process has under way. Owned by the process's main thread. */
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
    int error;      /* 0, or with what the first operation failed that failed, */
    double noticed; /* when, */
    bool ended;     /* or the end came in good order */
    bool through;   /* the moment came to its own end */
    bool struck;    /* the survivor was told that the victim is */
    double when;    /* of GONE: the trigger's until that has ended */
    pthread_t trigger;
    bool armed;
    /* These are the trigger's, too; each stands for itself, so that no order is asked for. */
    _Atomic size_t moved;      /* bytes */
    _Atomic bool over;         /* the moment is */
    _Atomic double stalled_to; /* until then nobody drives the queue */
    _Atomic int busy;          /* the socket of the last operation that is no listener's; -1: none */
    _Atomic bool begun;        /* the shortage has */
    _Atomic bool lost;         /* a device was taken away from it */
};

/* ---- Operations: end.c ---- */

void end_open(struct end *end, const struct cell *cell, bool victim, int fd); /* after exs_init */
void end_close(struct end *end); /* every event has come, once, and no other */
void end_turn(struct end *end, int wait_ms);
struct op *op_begin(struct end *end, int type, int socket);
struct op *op_began(struct end *end, struct op *op, ssize_t result);
/* Its event has come, or it was not begun: its error, and how many bytes. */
int op_wait(struct end *end, struct op *op, size_t *length);
bool end_good(struct end *end, int error); /* it was good; else that is noted */

/* The point lets this end lack something. */
bool is_short(const struct end *end);
bool may_fail(const struct end *end); /* its moment may end early */
bool is_gone(const struct end *end);  /* the survivor's device is taken away in this point */
/* A call was refused for it, which has changed nothing: a moment later, it is to be made again. */
bool is_refused(const struct end *end, ssize_t result);

int end_send(struct end *end, const void *bytes, size_t length);
int end_recv(struct end *end, void *bytes, size_t length, size_t *got); /* all of it, or the end */
int end_close_socket(struct end *end, int *socket);
struct op *ask_close(struct end *end, int socket);

/* ---- Connections: meet.c ---- */

bool meet(struct end *end); /* false: the fault has kept them from it */
bool say_end(struct end *end);
bool hear_end(struct end *end);
void part(struct end *end); /* they leave in good order, or the survivor learns what befell the victim */
int accept_bystander(struct end *end); /* what else has come meanwhile is closed */

/* ---- Faults: strike.c, wire.c, lack.c ---- */

bool is_sending(const struct end *end);
bool strikes(const struct end *end); /* this end, in this point */
void trigger_arm(struct end *end);
void trigger_wait(struct end *end); /* it has struck */
void trigger_end(struct end *end);  /* and is healed */
void wire_set(unsigned lost, unsigned twice, unsigned late, unsigned bent, uint64_t seed);
void clock_step(long seconds); /* from now on the wall clock is wrong by so much */
void lack_memory(bool lacks);  /* from now on no allocation of these programs succeeds; lack.c */
void lack_disk(bool lacks);    /* nor does a file become longer, */
void lack_threads(bool lacks); /* nor does a thread begin, */
void lack_memlock(bool lacks); /* nor is memory registered, by the embedded device; others have a limit */

/* ---- The forwarder: forwarder.c ---- */

enum order {
    ORDER_NONE,
    ORDER_RESET,  /* both sides of each connection get a RST, */
    ORDER_CLOSE,  /* or the end of the stream */
    ORDER_PAUSE,  /* nothing is read or written for a while, */
    ORDER_STOP,   /* or never again */
    ORDER_DISCARD /* what comes from now on is taken and lost */
};
void forwarder_start(struct child *child, struct address *where, uint64_t seed); /* by the cell's process */
void forwarder_aim(const struct address *target); /* of connections from now on */
/* By any process of the cell. True: there were connections, which are struck when it returns. */
bool forwarder_strike(enum order order);

/* ---- The processes ---- */

struct state { /* of this process: what a connection might leave behind */
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
