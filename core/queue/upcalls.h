/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * upcalls.h - the functions of sockets and connections that queues call. They are defined in sock/ and conn/.
 */
#ifndef XS_QUEUE_UPCALLS_H
#define XS_QUEUE_UPCALLS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

struct conn;
struct attachment;
struct ibv_wc;
struct nic;
struct queue;
struct rdma_cm_event;
struct sock;

LIST_HEAD(conn_list, conn);

/* ---- Sockets; called with the lock of the socket's home unless stated otherwise --------------------- */

/* Handles a CM event for a socket whose home was polled; the caller acknowledges the event. */
void xs_sock_cm_event(struct sock *sock, struct rdma_cm_event *event, int device);
/* Handles a connection request on a listener. Takes ownership of the event's id. */
void xs_listener_request(struct sock *listener, struct rdma_cm_event *event, int device);
/* Called when the socket's timer has expired. */
void xs_sock_timeout(struct sock *sock);
/* Completes a connect with an errno; the socket may be connected again. */
void xs_open_failed(struct sock *sock, int error);
/* Returns true if the socket is connected or connecting, so that a close may have to wait. */
bool xs_sock_has_peer(const struct sock *sock);
/* Returns how many operations of a socket that this queue drives but does not own come from the queue's pool and do not
 * prevent the queue from being deleted: those of blocking calls, and those whose events go to no queue. */
int xs_sock_foreign_ops(const struct sock *sock, const struct queue *queue);
/* Called when the event of a failed send was dequeued: the socket of this number may send again, if its descriptor has
 * this identity. Takes no lock. */
void xs_sock_reported(int number, uint64_t identity);
/* Returns true if the number stood for a socket, and stands for none now. */
bool xs_sock_was(int number);
/* Called when the host of this attachment, which is on the standby list, has polled the listener's home; `found`:
 * connection events had arrived. The host may then take the place of one that watches the home. Called with the home's
 * lock. */
void xs_standby_polled(struct queue *home, struct attachment *attachment, bool found);

/* ---- Polls ------------------------------------------------------------------------------------------ */

/* Completes polls in the queue's list whose descriptors are ready or whose timeout has passed. Called with the
 * queue's lock. */
void xs_polls_run(struct queue *queue);
/* Empties the list of a queue that is being freed; all polls in it have ended. */
void xs_polls_leave(struct queue *queue);

/* ---- Connections; called with the queue's lock ------------------------------------------------------- */

/* Processes completions of the nic, and adds their connections to the list `touched`. Frees no connection. */
void xs_conns_completed(struct nic *nic, const struct ibv_wc *wc, int count, struct conn_list *touched);
/* Continues these connections, and empties the list. May free connections, and the nic. */
void xs_conns_run(struct conn_list *touched);
/* Posts the sends that are held on connections of this home (conn/batch.c). Frees no connection. */
void xs_conns_send_held(struct queue *home);
/* Called when the device was removed: flushes the work requests of the nic's connections, and adds the connections to
 * the list `touched`. */
void xs_conns_flush(struct nic *nic, struct conn_list *touched);
/* Returns true if a socket of this home has sends that the progress thread must continue (conn/progress.c). */
bool xs_progress_is_needed(const struct queue *home);

#endif
