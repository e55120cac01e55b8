/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * model.h - random programs of calls on two ends, held to a small model of what the manual promises.
 *
 * A program is a list of steps, made from a seed (program.c). play.c makes the calls; what each may answer,
 * which events are owed, what each may say and which bytes come is reference.c's, which knows the manual and
 * nothing of the library; owed.c says which events must come when both ends are driven. The first thing that is
 * not as it should be ends the process (wrong()); model.c then looks for the shortest program that still shows
 * it.
 *
 * One thread is both ends. All of this is owned by it.
 */
#ifndef CHECK_MODEL_H
#define CHECK_MODEL_H

#include "check/support/support.h"

#define PAIRS 2  /* connections at once; they share the queues */
#define QUEUES 2 /* of each end */
#define STEPS_MAX 160
#define OPS_MAX (2 * STEPS_MAX)
#define PIECES 3            /* of a vector, at most */
#define SHARED (64 * KIB)   /* bytes that an end exports */
#define LARGEST (300 * KIB) /* of one transfer */
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

/* Flags of a step, a letter each in a program's text */
enum {
    WAITALL = 1,     /* W */
    DONTWAIT = 2,    /* D */
    PEEK = 4,        /* P */
    UNSIGNALED = 8,  /* U */
    REGISTERED = 16, /* R: registered memory */
    LINGERS = 32,    /* L: exs_close waits, for LINGER_S */
    CUTS = 64,       /* Z: exs_close cuts off, SO_LINGER of 0 seconds */
    ENDS = 128,      /* E: EXS_SHUT_WR in the last element */
    ALL = 256,       /* A: exs_cancel of all */
    NO_QUEUE = 512   /* N: exs_close without an event; with U an exs_send that tells nobody */
};

struct step {
    enum verb verb;
    unsigned pair, end, queue;
    unsigned flags;
    size_t length;   /* bytes; of an option its value */
    unsigned detail; /* whatever else is to be chosen */
};

struct program {
    struct step steps[STEPS_MAX];
    int count;
};

void program_make(struct program *program, uint64_t seed);
void program_print(FILE *to, const struct program *program);
bool program_read(FILE *from, struct program *program); /* false: it is none */

/* ---- Memory and files of transfers: memory.c --------------------------------------------- */

struct piece {
    unsigned char *base;  /* NULL: of the end's file */
    off_t offset;         /* there */
    size_t length;        /* bytes */
    exs_mhandle_t region; /* or NULL */
};

void memory_open(void);  /* once, after exs_init */
void memory_begin(void); /* of a program: nothing is in use */
void memory_end(void);   /* nothing was written but into transfers, and nothing behind their events */
void memory_close(void);
/* Cut a transfer into pieces, of which files may be some. false: there is no room for it in this program. */
bool memory_cut(struct piece *pieces, int count, int end, size_t length, bool registered, bool files);
void memory_put(const struct piece *pieces, int count, int end, const void *bytes);
void memory_get(const struct piece *pieces, int count, int end, void *bytes, size_t length);
void memory_forget(const struct piece *pieces, int count); /* its event has come */
int memory_file(int end);
unsigned char *shared_memory(unsigned pair, int end, exs_mhandle_t *region);

/* ---- The reference: reference.c, bytes.c, owed.c ------------------------------------------- */

struct side;

struct op {   /* one operation; its own ahandle */
    int type; /* EXS_EVT_... */
    struct side *side;
    unsigned number;       /* of this program: also the seed of its bytes */
    int queue;             /* index among all queues */
    unsigned flags;        /* of the step */
    size_t length;         /* bytes that it was to move */
    int how;               /* of a shutdown */
    bool owed;             /* its event has not come */
    bool cancelled, timed; /* asked to end early; has a limit of time */
    bool may_be_cut;       /* by either, */
    bool may_be_dropped;   /* or since one before it fails by itself, on a stream */
    bool behind_a_part;    /* an end that was asked for when the stream was torn for sure */
    unsigned began, ended; /* the call and the event, in the order of all */
    int error;             /* of its event, */
    size_t moved;          /* and its bytes, */
    int event_flags;
    unsigned char *bytes; /* what a receive got, until it was compared */
    struct piece pieces[PIECES];
    int piece_count;
    exs_xferfile_t elements[PIECES];
    exs_iovec_t vector[PIECES];
    exs_msghdr_t message;
    size_t offset; /* one-sided: where in the peer's memory; */
    bool vague;    /* what a read finds there is not promised */
};

struct side { /* one end of a connection */
    struct setup *setup;
    int end;
    int socket;
    int home;    /* queue */
    bool closed; /* exs_close was called, */
    bool gone;   /* and is done */
    bool lingers;
    struct op *close;            /* NULL: nobody is told */
    bool reads_no_more;          /* SHUT_RD */
    int enders;                  /* shutdowns of writing that were not undone, */
    int unsure_enders;           /* and those that may be */
    size_t window;               /* SO_RCVBUF, */
    size_t limit;                /* SO_SNDBUF with EXS_SO_SENDLIMIT, or SIZE_MAX */
    bool recv_limit, send_limit; /* of time */
    struct op *ops[OPS_MAX];     /* in the order of their starts */
    int count;
    /* What was received, against what the other end sent */
    int next_in, next_out; /* ops here, and there, that were not yet compared */
    size_t out_at;         /* bytes of that one which were */
    size_t consumed;       /* bytes, or messages, that receives took */
    bool saw_end, saw_break;
    bool may_not_end; /* it was closed when its stream was torn for sure */
    bool compare_no_more;
    /* Memory that the other end reads and writes */
    bool exported;
    exs_token_t token;
    unsigned char wanted[SHARED];
    bool unsure[SHARED];
};

struct setup { /* a connection, from its two connects on */
    int type;  /* SOCK_... */
    unsigned pair;
    struct side sides[2];
    bool may_break; /* one end closed while something was on its way */
};

/* What a call that starts an operation answered: 0, or -1 and errno. True: the operation is owed its event. */
bool reference_started(struct op *op, long result, int error);
/* Bytes that a receive with MSG_DONTWAIT, or a send, is refused only where the manual says so. */
void reference_cancelled(struct side *side, const struct op *of, int count); /* NULL: all */
void reference_closed(struct side *side, unsigned flags);
void reference_event(struct op *op, const exs_event_t *event);
void reference_end(struct setup *setup); /* both ends are gone, and all events have come */

void bytes_absorb(struct side *side); /* compare what receives got, as far as it can be known */
void bytes_end(struct side *side);
bool is_sender(const struct op *op);
bool is_receiver(const struct op *op);
bool is_one_sided(const struct op *op);
bool is_ender(const struct op *op);
void pattern_of(const struct op *op, size_t at, void *bytes, size_t length);

/* early.c: sends that end before all of their bytes are sent */
bool is_silent(const struct op *op); /* it has no queue, and so never an event */
bool may_end_short(const struct op *op);
bool may_have_failed(const struct side *side); /* a send of a stream, by itself, and its event has not come */
void early_start(struct op *op);
void early_event(struct op *op);
void early_cancel(struct side *side);
void early_close(struct side *side);

/* Must this event come, with both ends driven and nothing else done? */
bool must_come(const struct op *op);

struct side *other_side(const struct side *side);
const char *op_text(const struct op *op);

/* ---- Playing: play.c ----------------------------------------------------------------------- */

void play_open(void);
void play(const struct program *program);
void play_close(void);
extern double patience_s; /* for an event that is owed */

struct figures { /* shared with the process that waits for this one */
    unsigned long programs, calls, events, refused, connections, started[VERBS];
    long resident_kib[2]; /* after the first programs, and after the last */
    unsigned number;      /* of the program that is played, */
    int step;             /* and its step */
    char text[600];       /* what was wrong */
};
extern struct figures *figures;

_Noreturn void wrong(const char *format, ...) __attribute__((format(printf, 1, 2)));
extern const char *const verb_names[VERBS];

#endif
