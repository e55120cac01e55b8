/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * model.h - random programs of calls at two ends, compared with a small model of the manual's promises.
 *
 * A program is a list of steps, which is made from a random seed (program.c). play.c makes the calls.
 * reference.c defines what a call may return, which events must follow, what they may contain and which bytes
 * arrive; it is written from the manual, without knowledge of the library. owed.c defines which events must
 * arrive when both ends are driven. The first violation ends the process (wrong()); model.c then searches for
 * the shortest program that still shows it.
 *
 * One thread runs both ends and owns all data.
 */
#ifndef CHECK_MODEL_H
#define CHECK_MODEL_H

#include "check/support/support.h"

#define PAIRS 2  /* concurrent connections, which share the queues */
#define QUEUES 2 /* of each end */
#define STEPS_MAX 160
#define OPS_MAX (2 * STEPS_MAX)
#define PIECES 3            /* most segments of a transfer */
#define SHARED (64 * KIB)   /* bytes that an end exports */
#define LARGEST (300 * KIB) /* bytes of the longest transfer */
#define LINGER_S 1

/* ---- Programs: program.c ----------------------------------------------------------------- */

enum verb {
    CONNECT,
    SEND,
    RECV,
    SENDMSG,
    RECVMSG,
    SENDFILE,
    RECVFILE,
    RWRITE,
    RREAD,
    SHUTDOWN,
    CANCEL,
    OPTION,
    CLOSE,
    DEQUEUE,
    STATUS,
    SETTLE,
    VERBS
};

/* Flags of a step; the letter is used in a program's text */
enum {
    WAITALL = 1,     /* W */
    DONTWAIT = 2,    /* D */
    PEEK = 4,        /* P */
    UNSIGNALED = 8,  /* U */
    REGISTERED = 16, /* R: registered memory */
    LINGERS = 32,    /* L: exs_close lingers for LINGER_S */
    CUTS = 64,       /* Z: exs_close resets, SO_LINGER of 0 seconds */
    ENDS = 128,      /* E: EXS_SHUT_WR in the last element */
    ALL = 256,       /* A: exs_cancel of all operations */
    NO_QUEUE = 512   /* N: exs_close without an event; with U a fire-and-forget exs_send */
};

struct step {
    enum verb verb;
    unsigned pair, end, queue;
    unsigned flags;
    size_t length;   /* bytes; the value of an option */
    unsigned detail; /* chooses all other parameters */
};

struct program {
    struct step steps[STEPS_MAX];
    int count;
};

void program_make(struct program *program, uint64_t seed);
void program_print(FILE *to, const struct program *program);
bool program_read(FILE *from, struct program *program); /* false: it is no program */

/* ---- Memory and files of transfers: memory.c --------------------------------------------- */

struct piece {
    unsigned char *base;  /* NULL: the segment is in the end's file */
    off_t offset;         /* in the file */
    size_t length;        /* bytes */
    exs_mhandle_t region; /* or NULL */
};

void memory_open(void);  /* once, after exs_init */
void memory_begin(void); /* start of a program: no memory is in use */
void memory_end(void);   /* checks that only transfers' memory was written, and only before their events */
void memory_close(void);
/* Divides a transfer into segments, some in files if `files`. Returns false if this program has no memory left
 * for it. */
bool memory_cut(struct piece *pieces, int count, int end, size_t length, bool registered, bool files);
void memory_put(const struct piece *pieces, int count, int end, const void *bytes);
void memory_get(const struct piece *pieces, int count, int end, void *bytes, size_t length);
void memory_forget(const struct piece *pieces, int count); /* its event has arrived */
int memory_file(int end);
unsigned char *shared_memory(unsigned pair, int end, exs_mhandle_t *region);

/* ---- The model: reference.c, bytes.c, owed.c ----------------------------------------------- */

struct side;

struct op {   /* one operation; its address is its ahandle */
    int type; /* EXS_EVT_... */
    struct side *side;
    unsigned number;       /* unique in this program, and the seed of its bytes */
    int queue;             /* index among all queues */
    unsigned flags;        /* of the step */
    size_t length;         /* bytes that it should move */
    int how;               /* of a shutdown */
    bool owed;             /* its event has not arrived */
    bool cancelled, timed; /* was cancelled; has a timeout */
    bool may_be_cut;       /* by a cancel or a timeout */
    bool may_be_dropped;   /* or because an earlier send of the stream may have failed */
    /* a shutdown that was requested when the stream certainly ended in the middle of a send */
    bool behind_a_part;
    unsigned began, ended; /* sequence numbers of the call and of the event */
    int error;             /* of its event */
    size_t moved;          /* of its event */
    int event_flags;
    unsigned char *bytes; /* that a receive got, until they were compared */
    struct piece pieces[PIECES];
    int piece_count;
    exs_xferfile_t elements[PIECES];
    exs_iovec_t vector[PIECES];
    exs_msghdr_t message;
    size_t offset; /* one-sided: position in the peer's memory */
    bool vague;    /* the manual does not promise what a read finds there */
};

struct side { /* one end of a connection */
    struct setup *setup;
    int end;
    int socket;
    int home;    /* the queue that owns the socket */
    bool closed; /* exs_close was called */
    bool gone;   /* the close has completed */
    bool lingers;
    struct op *close;            /* NULL: a close without an event */
    bool reads_no_more;          /* SHUT_RD */
    int enders;                  /* shutdowns of writing that were not cancelled */
    int unsure_enders;           /* shutdowns of writing that may have been cancelled */
    size_t window;               /* SO_RCVBUF */
    size_t limit;                /* SO_SNDBUF with EXS_SO_SENDLIMIT, or SIZE_MAX */
    bool recv_limit, send_limit; /* timeouts */
    struct op *ops[OPS_MAX];     /* in the order of their calls */
    int count;
    /* Comparison of received bytes with those that the other end sent */
    int next_in, next_out; /* first operations here, and at the peer, that were not compared yet */
    size_t out_at;         /* bytes of next_out that were compared */
    size_t consumed;       /* bytes, or messages, that receives took */
    bool saw_end, saw_break;
    bool may_not_end; /* it was closed when its stream certainly ended in the middle of a send */
    bool compare_no_more;
    /* Memory that the other end reads and writes */
    bool exported;
    exs_token_t token;
    unsigned char wanted[SHARED];
    bool unsure[SHARED];
};

struct setup { /* a connection, from the call of connect on */
    int type;  /* SOCK_... */
    unsigned pair;
    struct side sides[2];
    bool may_break; /* one end closed while operations were in flight */
};

/* Checks what a call that starts an operation returned: 0, or -1 and errno. Returns whether its event must
 * follow. */
bool reference_started(struct op *op, long result, int error);
/* A cancel of this operation, or of all (NULL), returned `count`. */
void reference_cancelled(struct side *side, const struct op *of, int count); /* NULL: all */
void reference_closed(struct side *side, unsigned flags);
void reference_event(struct op *op, const exs_event_t *event);
void reference_end(struct setup *setup); /* both ends are closed, and all events have arrived */

void bytes_absorb(struct side *side); /* compares received bytes as far as possible */
void bytes_end(struct side *side);
bool is_sender(const struct op *op);
bool is_receiver(const struct op *op);
bool is_one_sided(const struct op *op);
bool is_ender(const struct op *op);
void pattern_of(const struct op *op, size_t at, void *bytes, size_t length);

/* early.c: sends that end before all of their bytes are sent */
bool is_silent(const struct op *op); /* a send without a queue, which never has an event */
bool may_end_short(const struct op *op);
/* a send of a stream may have timed out, and its event has not arrived */
bool may_have_failed(const struct side *side);
void early_start(struct op *op);
void early_event(struct op *op);
void early_cancel(struct side *side);
void early_close(struct side *side);

/* Returns whether this event must arrive if both ends are driven and no other call is made. */
bool must_come(const struct op *op);

struct side *other_side(const struct side *side);
const char *op_text(const struct op *op);

/* ---- Running: play.c ----------------------------------------------------------------------- */

void play_open(void);
void play(const struct program *program);
void play_close(void);
extern double patience_s; /* s; to wait for an event that must arrive */

struct figures { /* in memory shared with the process that waits for this one */
    unsigned long programs, calls, events, refused, connections, started[VERBS];
    long resident_kib[2]; /* after the first programs, and after the last */
    unsigned number;      /* of the current program */
    int step;             /* of the current step */
    char text[600];       /* the violation */
};
extern struct figures *figures;

_Noreturn void wrong(const char *format, ...) __attribute__((format(printf, 1, 2)));
extern const char *const verb_names[VERBS];

#endif
