/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * fake_exs.h - the EXS interface without the library, to test how the installed programs process the bytes of their
 * peers: calls are recorded, and complete when a test says so.
 *
 * Single-threaded. A program's source file that is linked with this gets its events in the order that exs_recv(3) and
 * exs_close(3) promise. Buffers are written when their event is made, or earlier, as by a real peer.
 */
#ifndef CHECK_FAKE_EXS_H
#define CHECK_FAKE_EXS_H

#include <exs.h>
#include <stdbool.h>
#include <sys/queue.h>
#include <sys/time.h>

/* A call that has not completed. */
struct fake_call {
    STAILQ_ENTRY(fake_call) entry;
    int type; /* an EXS_EVT_ constant */
    int sock;
    void *buffer;
    size_t length;
    void *ahandle;
    unsigned char *sent;                /* of a send: a copy of its data */
    exs_xferfile_t vector[EXS_XFV_MAX]; /* of an exs_sendfile; it sends `length` bytes in total */
    int vector_count;
    bool seen; /* for the test's use */
};

STAILQ_HEAD(fake_calls, fake_call);

extern struct fake_calls fake_calls;
extern int fake_regions;    /* number of registered regions */
extern int fake_failing;    /* 0, or the errno with which one call fails ... */
extern int fake_fails_from; /* ... after this number of calls that do not */
/* Receives the events. */
extern void (*fake_deliver)(void *ahandle, const exs_event_t *event);
extern void (*fake_sending)(void); /* if not NULL, called while a call sends files */

/* Returns the first call of this type on a socket, or NULL. */
struct fake_call *fake_first(int sock, int type);
/* Completes the call with an event. After exs_close() only fake_closed() may do so. */
void fake_complete(struct fake_call *call, int error, size_t length, int flags);
/* Delivers bytes to the first receive. Returns how many its buffer took. */
size_t fake_arrive(int sock, const void *bytes, size_t length);
/* Delivers a message, truncated if the buffer is too short. Returns false if there is no receive. */
bool fake_message(int sock, const void *bytes, size_t length);
/* Completes the first send. Copies its data to `bytes`, at most `most` bytes, and returns the length, or -1 if there is
 * no send. */
ssize_t fake_sent(int sock, void *bytes, size_t most);
/* The same for exs_sendfile, whose files are read now. */
ssize_t fake_sent_file(int sock, void *bytes, size_t most);
/* Cancels all other calls of the socket, and then completes its exs_close. Returns false if there is none. */
bool fake_closed(int sock);
/* The bytes that blocking receives get, on any socket, and what follows them: end of stream (0) or an errno. Blocking
 * sends discard their data. */
extern const unsigned char *fake_stream;
extern size_t fake_stream_left;
extern int fake_stream_errno;
extern bool fake_stream_hurries;  /* MSG_DONTWAIT gets the bytes, too */
extern struct timeval fake_limit; /* receive timeout as exs_setsockopt last set it */
extern time_t fake_limit_most;    /* the longest timeout so far, s */

/* Removes all calls, regions and failures. */
void fake_reset(void);

#endif
