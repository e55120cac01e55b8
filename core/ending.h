/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * ending.h - sends that end before all of their bytes are sent, and what follows from that.
 *
 * The peer must never take a part for the whole, and no send may follow bytes that are missing unless the application
 * knows that they are. exs(7) has the same table for users.
 *
 *   what ends the send                   how far it is      its event            what stands behind it
 *   exs_cancel, a signal (EXS_INTR)      not begun          ECANCELED, EINTR     goes on
 *                                        stream, begun      the same, and how    goes on; the stream is torn
 *                                                           many bytes went
 *                                        message, begun     it is sent whole     goes on
 *   itself: the time of SO_SNDTIMEO,     stream             ETIMEDOUT, EIO,      sends end with ECANCELED, and so does
 *   a file that is shorter or can't be                      ENOMEM, and how      the end of the stream: writing goes on.
 *   read, no memory, the memlock limit                      many bytes went      The stream is untold, and torn if any
 *                                                                                bytes went
 *                                        message,           ETIMEDOUT, EIO,      goes on
 *                                        not begun          ENOMEM
 *                                        message, begun     by time it is sent whole; else the connection breaks
 *     the same of a send without a queue, so that the application can't be told; of a stream where one behind it has
 *     no queue, or was given to the device already; while the socket closes and lingers: the connection breaks
 *   memory that vanished (EFAULT)        any                the connection breaks, as where the device finds it out
 *   MSG_DONTWAIT                         what can be sent at once is all of it, so nothing ends early
 *
 * What is remembered of it until the connection ends (struct sock, `sent`):
 *
 *   SENT_WHOLE         sends start; the end of the stream is sent behind them
 *   SENT_TORN          the stream stops in the middle of a send. A send that starts now and sends a byte makes it whole:
 *                      the application goes on by its own decision. In place of the end of the stream - exs_shutdown,
 *                      EXS_SHUT_WR, a close - the connection breaks
 *   SENT_UNTOLD        a send has ended by itself, and its event was not dequeued: sends and exs_shutdown are refused with
 *                      ECANCELED, and a close breaks the connection. Then it is whole again
 *   SENT_TORN_UNTOLD   both
 *   SENT_LOST          the connection broke, and not all that was sent has arrived: a close that lingers says so
 *
 * A receive that ends early costs nobody a byte: what it had is received, what comes later is for the next one. One-sided
 * operations are no part of the stream, and their own ends are their events' alone.
 */
#ifndef XS_ENDING_H
#define XS_ENDING_H

#include <stdint.h>

struct conn;
struct op;
struct sock;

enum sent { SENT_WHOLE = 0, SENT_TORN = 1, SENT_UNTOLD = 2, SENT_TORN_UNTOLD = 3, SENT_LOST = 4 };

/* ---- ending.c; called with the lock ------------------------------------------------------------ */

/* The connection broke, or is about to, before all that was sent has arrived. */
void xs_sent_is_lost(struct conn *conn) __attribute__((cold));
/* The application ends the send with this errno. */
void xs_send_stop(struct conn *conn, struct op *op, int error);
/* The send fails by itself with this errno. */
void xs_send_fail(struct conn *conn, struct op *op, int error) __attribute__((cold));
/* The send that is being posted, of a STREAM, is done with what was posted (MSG_DONTWAIT). */
void xs_send_end_here(struct conn *conn);
/* While the stream is torn: bytes of this send were posted. */
void xs_send_follows(struct conn *conn, const struct op *op);
/* The end of the stream is due, and what was sent is not whole: break the connection when all before it is done. */
void xs_end_refused(struct conn *conn) __attribute__((cold));

/* -1 and ECANCELED: nothing is sent before the event of a send that failed was dequeued. */
int xs_untold(const struct sock *sock) __attribute__((cold));

/* ---- table.c ----------------------------------------------------------------------------------- */

/* The event of a send that failed by itself was dequeued: the socket of this number may send again, if it still is the
 * one with this identity. Takes no lock. */
void xs_sock_told(int number, uint64_t identity);

#endif
