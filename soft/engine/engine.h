/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * engine.h - functions that the files of the transport engine call in each other. Their structs are in
 *
 *   context.h  a context: its lock, its list of queue pairs with work, its timers, all its objects
 *   qp.h       a queue pair: its requester and its responder
 *   request.h  work requests in their rings, shared receive queues
 *   cq.h       completion queues and channels
 *   event.h    asynchronous events
 *   mr.h       protection domains, memory regions, address handles; mw.h: memory windows
 *   xrc.h      XRC domains
 *   group.h    multicast groups
 *   objects.h  the table of all objects by handle; keys.h: memory regions by key
 *   burst.h    packets that are built and not yet sent (a burst)
 *
 * Each object belongs to one context and is guarded by that context's lock, except the event counts of a completion
 * queue, which a mutex of the queue guards, as in rdma-core. All functions here must be called with the context's lock
 * held. They allocate no memory after an object has been created.
 *
 * A queue pair that has something to send is on the context's work list. soft_step() gives each of them a turn: at most
 * one burst of requests, then at most one of responses. Packets are added to the context's burst, which is sent when it
 * is full and at the end of the step.
 */
#ifndef SOFT_ENGINE_H
#define SOFT_ENGINE_H

#include "context.h" /* export */
#include "cq.h"      /* export */
#include "event.h"   /* export */
#include "mr.h"      /* export */
#include "packet.h"  /* export */
#include "qp.h"      /* export */
#include "request.h" /* export */
#include "burst.h"   /* export */
#include "wire.h"    /* export */

/* requester.c: sends requests. */
/* Sends at most the packets of one turn. Returns true if more could be sent now. */
bool soft_requester_go(struct soft_qp *qp);
/* True if the next request may be sent now; the caller has checked that there is a next one. */
bool soft_requester_may_go(const struct soft_qp *qp);
static inline bool soft_requester_ready(const struct soft_qp *qp)
{
    return qp->req.index != qp->req.ring.head && soft_requester_may_go(qp);
}
/* True if no request that has been started is incomplete. */
bool soft_requester_drained(const struct soft_qp *qp);
/* Raises IBV_EVENT_SQ_DRAINED if the application asked for it and the send queue is drained. */
void soft_requester_drain(struct soft_qp *qp);
/* Go-back-N: sends all packets again from the oldest unacknowledged one on. */
void soft_requester_back(struct soft_qp *qp);
/* Called when a packet was lost: like soft_requester_back(), and reduces the window. */
void soft_requester_lost(struct soft_qp *qp);
/* Sends the oldest unacknowledged packet once more. */
void soft_requester_probe(struct soft_qp *qp);
/* Called when a pause has ended that an RNR NAK or the link's pace() asked for: continues to send. */
void soft_requester_waited(struct soft_qp *qp);
/* Called when the payload of the request with this PSN can't be read: the request fails with this status. */
void soft_requester_fault(struct soft_qp *qp, uint64_t psn, enum ibv_wc_status status) __attribute__((cold));
/* Completes the oldest request with success. */
void soft_request_done(struct soft_qp *qp);
/* Stores in `slice` which memory holds the `length` bytes from `offset` on of a request's payload, and in *nofault a
 * region among it whose memory may vanish, if there is one. Returns the number of segments, or -1: wrong key or
 * bounds. */
int soft_send_slice(const struct soft_qp *qp, struct soft_send *send, uint64_t offset, uint32_t length,
                    struct iovec slice[SOFT_MAX_SGE], const struct soft_mr **nofault);
/* True if data acknowledges the request: the response of a READ or atomic. Other requests get an ACK packet. */
static inline bool soft_send_answered(const struct soft_send *send)
{
    return send->base == SOFT_READ_REQUEST || send->base == SOFT_CMP_SWAP || send->base == SOFT_FETCH_ADD;
}

/* completer.c: processes responses and acknowledgements. */
void soft_completer_input(struct soft_qp *qp, const struct soft_packet *packet) __attribute__((noinline));
/* Processes an acknowledgement that a link carried without a packet. */
void soft_completer_acked(struct soft_qp *qp, uint32_t psn);
/* Called when the link has dropped packets that had arrived, perhaps responses: sends all unacknowledged packets
 * again. */
void soft_completer_overflow(struct soft_qp *qp);
/* Sends all unacknowledged packets again, or fails the queue pair if its retries are used up. */
void soft_completer_retry(struct soft_qp *qp) __attribute__((cold));
/* For lossless links: counts a retry without sending anything. False: the retries are used up and the queue pair has
 * failed. */
bool soft_completer_waits(struct soft_qp *qp);

/* timeout.c: handles a peer that does not answer. The queue pair's timer runs while packets are unacknowledged. */
/* Called when packets have just been sent. */
void soft_silence_begin(struct soft_qp *qp);
/* Called when some packets were acknowledged. */
void soft_silence_broken(struct soft_qp *qp);
/* Called when packets can't be sent because the link is full. */
void soft_silence_held(struct soft_qp *qp);

/* responder.c executes requests; nak.c handles those that fail; response.c sends responses, ACKs and NAKs. */
/* Processes a request packet of a reliable transport. Executes the one with the expected PSN, acknowledges a duplicate
 * again, and sends a NAK for the gap before an early one; a packet far from the expected PSN gets no answer. */
void soft_responder_input(struct soft_qp *qp, const struct soft_packet *packet);
/* Executes the packet with the expected PSN. */
void soft_responder_execute(struct soft_qp *qp, const struct soft_packet *packet);
/* The request at `psn` failed: reports that to the application, sends a NAK, and fails the queue pair. */
void soft_responder_fail(struct soft_qp *qp, uint64_t psn, uint8_t syndrome, enum ibv_wc_status status)
    __attribute__((cold));
/* Called when the packet with the expected PSN can't be executed: calls soft_responder_fail(), or, on an unreliable
 * transport and for an error that is not local, drops the message. */
void soft_refuse(struct soft_qp *qp, uint8_t syndrome, enum ibv_wc_status status) __attribute__((cold));
/* Called when no receive is posted for the packet with the expected PSN: sends an RNR NAK, or drops the message
 * (UC). */
void soft_not_ready(struct soft_qp *qp) __attribute__((cold));
/* Sends responses, at most one burst, then the ACK or NAK that is due; returns true if more remains. */
bool soft_answer_go(struct soft_qp *qp);
/* True if all that remains is an ACK that may be delayed. */
bool soft_answer_can_wait(const struct soft_qp *qp);
/* Record that a NAK or an ACK is due; it is sent in the queue pair's turn. */
void soft_answer_nak(struct soft_qp *qp, uint64_t psn, uint8_t syndrome);
void soft_answer_ack(struct soft_qp *qp);
/* Called when the link has dropped packets: if an incomplete message or a gap shows that packets are missing, requests
 * them with a NAK. */
void soft_answer_overflow(struct soft_qp *qp);
/* Remembers a READ or atomic, and starts to answer it. False: more requests are outstanding than agreed. */
bool soft_resource_add(struct soft_qp *qp, const struct soft_packet *packet);
/* Stops all responses with this PSN or a later one. */
void soft_resource_drop(struct soft_qp *qp, uint64_t psn);
/* Returns the remembered READ or atomic that a repeated request is part of, or NULL. */
struct soft_resource *soft_resource_find(struct soft_qp *qp, uint64_t psn, const struct soft_packet *packet);
/* Starts to send `packets` responses, from this PSN on. */
void soft_resource_answer(struct soft_qp *qp, struct soft_resource *resource, uint64_t psn, uint32_t packets);

/* xrc.c: requests of XRC connections. */
void soft_xrc_input(struct soft_qp *qp, const struct soft_packet *packet);

/* unreliable.c and datagram.c: transports without acknowledgements. */
void soft_uc_input(struct soft_qp *qp, const struct soft_packet *packet);
/* Drops the message that is being received. */
void soft_uc_abandon(struct soft_qp *qp);
void soft_ud_input(struct soft_qp *qp, const struct soft_packet *packet, const struct soft_path *path);
/* Builds a datagram. False: the caller must check again what it has to send. */
bool soft_ud_put(struct soft_qp *qp, struct soft_send *send);

/* timer.c: one timer for each queue pair. */
/* Sets the queue pair's timer; NEVER_NS: stops it. */
void soft_timer_set(struct soft_qp *qp, uint64_t deadline);
/* Marks the queue pair: its ACK timer starts when the packets of this step have been sent. */
void soft_timer_start(struct soft_qp *qp);
/* Starts the ACK timers of the queue pairs that soft_timer_start() has marked. */
void soft_timer_started(struct soft_context *context);
/* Marks the queue pair: its ACK timer starts when soft_deadline() is next called, because the caller is about to wait
 * then. For lossless links, where the answer nearly always arrives before that. */
void soft_timer_start_later(struct soft_qp *qp);
/* Starts the ACK timers of the queue pairs that soft_timer_start_later() has marked. */
void soft_timer_start_unhurried(struct soft_context *context);
/* Stops the timer. */
void soft_timer_end(struct soft_qp *qp);
/* Allocates heap space for this number of queue pairs. False: no memory. */
bool soft_timer_reserve(struct soft_context *context, size_t qps);
/* Removes the queue pair, which is being destroyed, from the timers. */
void soft_timer_forget(struct soft_qp *qp);
/* When the first timer of the context is due, ns, or NEVER_NS. */
uint64_t soft_timer_next(struct soft_context *context);

/* schedule.c: which queue pair sends next. */
/* Puts a queue pair that may have something to send on the work list. */
void soft_work(struct soft_qp *qp);
/* Takes a queue pair that is about to be destroyed from the work list. */
void soft_idle(struct soft_qp *qp);
/* Gives turns to the queue pairs on the work list, and sends the packets that they have built. */
void soft_step(struct soft_context *context);
/* Like soft_step(), after work was posted: the wire may hold packets back (struct poll_state, `polls_again`). */
void soft_step_posted(struct soft_context *context);
/* Like soft_progress(), but delays ACKs for a few packets: the application gets completions, and will probably answer
 * with data that can carry an ACK. */
void soft_progress_delaying_acks(struct soft_context *context);
/* Sends the delayed ACKs, and the packets that the wire holds back. */
void soft_flush_acks(struct soft_context *context);
/* Called when the application is about to sleep. Returns the time when it must poll again because a timer is due, ns;
 * NEVER_NS: no timer runs. */
uint64_t soft_set_next_poll(struct soft_context *context);
/* Returns the clock's time, ns. The engine reads the clock at most once in a step. */
uint64_t soft_now(struct soft_context *context);

/* table.c: queue pairs by number. */
/* Returns the queue pair with this number, or NULL. */
struct soft_qp *soft_qp_find(struct soft_context *context, uint32_t qpn);
/* Gives the queue pair a number. False: no memory, or no number is free. */
bool soft_qp_enter(struct soft_context *context, struct soft_qp *qp);
/* Removes the queue pair. */
void soft_qp_leave(struct soft_context *context, struct soft_qp *qp);

/* path.c */
/* True if the address is a multicast address. */
bool soft_is_group(const union soft_addr *addr);
/* Copies a path. All other bytes of its addresses become 0, because paths are compared with memcmp(). */
void soft_path_copy(struct soft_path *to, const struct soft_path *from);
/* Called when a queue pair no longer uses this path: calls the link's leave(). */
void soft_path_leave(struct soft_path *path);
/* True if a packet that arrived on the path `came` is from the peer of the queue pair, whose path is `own`. */
bool soft_path_matches(const struct soft_path *own, const struct soft_path *came);
/* Derives the path to queue pair qpn from an address handle (of a connection or a datagram). False: the address handle
 * is not valid. */
bool soft_path_from_ah(const struct soft_context *context, struct soft_path *path, const struct ibv_ah_attr *ah,
                       uint32_t qpn);

#endif
