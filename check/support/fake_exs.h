/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * fake_exs.h - EXS without a library below it, for what the installed programs make of their peers' bytes:
 * calls are kept, and become events when a test says so.
 *
 * One thread. A program's file that is linked with this gets what it would from EXS, in the order that
 * exs_recv(3) and exs_close(3) promise; buffers are written when their event is made, or before, as a peer may.
 */
#ifndef CHECK_FAKE_EXS_H
#define CHECK_FAKE_EXS_H

#include <exs.h>
#include <stdbool.h>
#include <sys/queue.h>
#include <sys/time.h>

/* A call whose event has not been made. */
struct fake_call {
    STAILQ_ENTRY(fake_call) entry;
    int type; /* EXS_EVT_... */
    int sock;
    void *buffer;
    size_t length;
    void *ahandle;
    unsigned char *sent;                /* of a send: a copy of what was to be sent */
    exs_xferfile_t vector[EXS_XFV_MAX]; /* of an exs_sendfile, whose length is all that it sends */
    int vector_count;
    bool seen; /* the test's */
};

STAILQ_HEAD(fake_calls, fake_call);

extern struct fake_calls fake_calls;
extern int fake_regions;    /* registered, and not deregistered */
extern int fake_failing;    /* 0, or the errno that one call fails with ... */
extern int fake_fails_from; /* ... after so many that don't */
/* Who gets the events. */
extern void (*fake_deliver)(void *ahandle, const exs_event_t *event);
extern void (*fake_sending)(void); /* called while a call sends files; NULL: nothing is */

/* The first call of this type on a socket; NULL: there is none. */
struct fake_call *fake_first(int sock, int type);
/* Its event, and the end of it. Not while a close is under way, but for those that it cancels. */
void fake_complete(struct fake_call *call, int error, size_t length, int flags);
/* Bytes arrive for the first receive; returns how many it had room for. */
size_t fake_arrive(int sock, const void *bytes, size_t length);
/* A message arrives, and is cut if it is too long. False: nobody receives. */
bool fake_message(int sock, const void *bytes, size_t length);
/* The first send is done: a copy of what it has sent is in `bytes`, room for `most`; its length. -1: there is
 * none. */
ssize_t fake_sent(int sock, void *bytes, size_t most);
/* The same of an exs_sendfile, whose files are read now. */
ssize_t fake_sent_file(int sock, void *bytes, size_t most);
/* The event of an exs_close, after those of all other calls, which it cancels. False: there was none. */
bool fake_closed(int sock);
/* What the blocking calls receive, on any socket, and what there is behind it: 0, the end, or an errno. They
 * send into nowhere. */
extern const unsigned char *fake_stream;
extern size_t fake_stream_left;
extern int fake_stream_errno;
extern bool fake_stream_hurries;  /* it is there before anybody waits for it: MSG_DONTWAIT gets it */
extern struct timeval fake_limit; /* of receives, as it was last set by exs_setsockopt */
extern time_t fake_limit_most;    /* seconds, the longest of these */

/* No calls, regions or failures are left over. */
void fake_reset(void);

#endif
