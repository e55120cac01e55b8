/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * ending.h - sends that end before all of their bytes are sent, and the consequences.
 *
 * The peer must not take a part of a send for the whole, and no send may follow missing bytes unless the application
 * knows that they are missing. exs(7) has this table for users. "Started" means that bytes were given to the device.
 *
 *   cause                              state of the send   its event             the sends behind it
 *   exs_cancel, a signal (EXS_INTR)    not started         ECANCELED, EINTR      continue
 *                                      stream, started     the same, and the     continue; the stream is torn
 *                                                          number of bytes sent
 *                                      message, started    it is sent whole      continue
 *   the send fails: SO_SNDTIMEO, a     stream              ETIMEDOUT, EIO,       complete with ECANCELED, as does
 *   file that is shorter or can't be                       ENOMEM, and the       the end of the stream, which is open
 *   read, no memory, memlock limit                         number of bytes sent  for writing again. The failure is
 *                                                                                unreported until it is dequeued; the
 *                                                                                stream is torn if bytes were sent
 *                                      message,            ETIMEDOUT, EIO,       continue
 *                                      not started         ENOMEM
 *                                      message, started    SO_SNDTIMEO: it is sent whole; else the connection breaks
 *     Exception: the connection breaks if the application can't learn of the failure because the send names no queue;
 *     or, on a stream, if a send behind it names no queue or was started; or if the socket is closing and lingers
 *   memory that is not mapped any      any                 the connection breaks, as if the device had found out
 *   more (EFAULT)
 *   MSG_DONTWAIT                       the bytes that can be sent at once are the whole send: it does not end early
 *
 * struct sock, `sent` (socket.h), records this until the connection ends:
 *
 *   SENT_WHOLE            sends may start, and the end of the stream is sent after them
 *   SENT_TORN             the stream stops in the middle of a send. A send that starts now and sends a byte makes it
 *                         whole, as the application decided to continue. If the end of the stream is due (exs_shutdown,
 *                         EXS_SHUT_WR, a close), the connection breaks instead
 *   SENT_UNREPORTED       a send has failed, and its event was not dequeued: new sends and exs_shutdown fail with
 *                         ECANCELED, and a close breaks the connection. Dequeuing the event ends this state
 *   SENT_TORN_UNREPORTED  both
 *   SENT_LOST             the connection broke before all that was sent had arrived: a close that lingers reports it
 *
 * A receive that ends early loses no bytes: it reports those that it has, and later ones go to the next receive.
 * One-sided operations are not part of the stream; only their own events report how they ended.
 */
#ifndef XS_ENDING_H
#define XS_ENDING_H

struct conn;
struct op;
struct sock;

/* ---- ending.c; called with the socket's lock ---------------------------------------------------- */

/* Called when the connection broke, or is about to break, before all that was sent has arrived: sets SENT_LOST. */
void xs_sent_is_lost(struct conn *conn) __attribute__((cold));
/* Ends a send because of exs_cancel or a signal; `error` is the errno of its event. */
void xs_send_stop(struct conn *conn, struct op *op, int error);
/* Ends a send because it has failed with this errno. */
void xs_send_fail(struct conn *conn, struct op *op, int error) __attribute__((cold));
/* Ends the send that is being posted, on a STREAM, after the bytes that were posted (MSG_DONTWAIT). */
void xs_send_end_here(struct conn *conn);
/* Called when bytes of this send were posted while the stream is torn: if the send was started after the stream was
 * torn, the stream is whole again. */
void xs_send_follows(struct conn *conn, const struct op *op);
/* Called when the end of the stream is due and what was sent is not whole: breaks the connection when all earlier
 * sends have completed. */
void xs_end_refused(struct conn *conn) __attribute__((cold));

/* Returns -1 and ECANCELED, for a call that fails because the event of a failed send was not dequeued. */
int xs_unreported(const struct sock *sock) __attribute__((cold));

#endif
