/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * engine.h - how the parts of the embedded device's transport engine call each other, on the objects of
 *
 *   context.h  a context: its lock, its work list, its timers, all its objects
 *   qp.h       a queue pair: its requester and its responder
 *   request.h  work requests in their rings, shared receive queues
 *   cq.h       completion queues and channels
 *   event.h    asynchronous events
 *   mr.h       protection domains, memory regions, address handles; mw.h: memory windows
 *   xrc.h      domains of extended connections
 *   group.h    multicast groups
 *   objects.h  which of these there are; keys.h: whose a key is
 *   train.h    packets on their way out
 *
 * Every object belongs to one context and is guarded by that context's lock, except the event counts of a
 * completion queue, which its own mutex guards as in rdma-core. All functions here are called with the lock
 * held. Nothing here allocates after an object has been created.
 *
 * A queue pair that has something to send is on the context's work list; soft_step gives each in turn a
 * bounded go. Packets are built in the context's train, which leaves when it is full or the step ends.
 */
#ifndef SOFT_ENGINE_H
#define SOFT_ENGINE_H

#include "context.h"
#include "cq.h"
#include "event.h"
#include "mr.h"
#include "packet.h"
#include "qp.h"
#include "request.h"
#include "train.h"
#include "wire.h"

/* requester.c: send up to a train of requests; is there more that could go? */
bool soft_requester_go(struct soft_qp *qp);
bool soft_requester_may_go(const struct soft_qp *qp); /* the next one, which there is */
static inline bool soft_requester_ready(const struct soft_qp *qp)
{
    return qp->req.index != qp->req.ring.head && soft_requester_may_go(qp);
}
bool soft_requester_drained(const struct soft_qp *qp); /* nothing of what has begun is under way */
void soft_requester_drain(struct soft_qp *qp);         /* tell, if it is and somebody asked */
void soft_requester_back(struct soft_qp *qp);          /* to the oldest unacknowledged packet */
void soft_requester_lost(struct soft_qp *qp);          /* and slower: a packet was lost */
void soft_requester_probe(struct soft_qp *qp);         /* the oldest unacknowledged packet once more */
void soft_requester_waited(
    struct soft_qp *qp); /* a pause is over: of a peer that was not ready, or the link's */
void soft_requester_fault(struct soft_qp *qp, uint64_t psn, enum ibv_wc_status status) __attribute__((cold));
void soft_request_done(struct soft_qp *qp); /* the oldest one */
/* Which memory these bytes of a request's payload are. -1: its key or bounds are wrong. */
int soft_send_slice(const struct soft_qp *qp, struct soft_send *send, uint64_t offset, uint32_t length,
                    struct iovec slice[SOFT_MAX_SGE], const struct soft_mr **fragile);
static inline bool soft_send_answered(const struct soft_send *send) /* by data, not by an ACK */
{
    return send->base == SOFT_READ_REQUEST || send->base == SOFT_CMP_SWAP || send->base == SOFT_FETCH_ADD;
}

/* completer.c */
void soft_completer_input(struct soft_qp *qp, const struct soft_packet *packet) __attribute__((noinline));
void soft_completer_acked(struct soft_qp *qp, uint32_t psn); /* an ACK that was no packet */
void soft_completer_overflow(struct soft_qp *qp);
void soft_completer_retry(struct soft_qp *qp)
    __attribute__((cold));                     /* send again what is not acknowledged, or fail */
bool soft_completer_waits(struct soft_qp *qp); /* for what can't be lost, once more; false: it has failed */

/* silence.c: what a requester does that hears nothing. Its queue pair's timer runs while packets are out. */
void soft_silence_begin(struct soft_qp *qp);  /* packets have just left */
void soft_silence_broken(struct soft_qp *qp); /* some of them are acknowledged */
void soft_silence_held(struct soft_qp *qp);   /* they can't leave, since the link is full */

/* responder.c: requests; refuse.c: those that go wrong; answer.c: what goes back */
void soft_responder_input(struct soft_qp *qp, const struct soft_packet *packet);
void soft_responder_execute(struct soft_qp *qp, const struct soft_packet *packet);
void soft_responder_fail(struct soft_qp *qp, uint64_t psn, uint8_t syndrome, enum ibv_wc_status status)
    __attribute__((cold));
void soft_refuse(struct soft_qp *qp, uint8_t syndrome, enum ibv_wc_status status)
    __attribute__((cold));                                     /* the packet at expected */
void soft_not_ready(struct soft_qp *qp) __attribute__((cold)); /* no receive is posted for it */
bool soft_answer_go(struct soft_qp *qp);
bool soft_answer_can_wait(const struct soft_qp *qp);
/* The train has come to a place where only one more packet fits, if it is short: an ACK that is owed takes it. */
void soft_answer_along(struct soft_qp *qp);
void soft_answer_nak(struct soft_qp *qp, uint64_t psn, uint8_t syndrome);
void soft_answer_ack(struct soft_qp *qp);
void soft_answer_overflow(struct soft_qp *qp);
bool soft_resource_add(struct soft_qp *qp, const struct soft_packet *packet);
void soft_resource_drop(struct soft_qp *qp, uint64_t psn);
struct soft_resource *soft_resource_find(struct soft_qp *qp, uint64_t psn, const struct soft_packet *packet);
void soft_resource_answer(struct soft_qp *qp, struct soft_resource *resource, uint64_t psn, uint32_t packets);

/* xrc.c: what comes by an extended connection */
void soft_xrc_input(struct soft_qp *qp, const struct soft_packet *packet);

/* unreliable.c and datagram.c: receiving without acknowledging */
void soft_uc_input(struct soft_qp *qp, const struct soft_packet *packet);
void soft_uc_abandon(struct soft_qp *qp); /* the message that is coming in */
void soft_ud_input(struct soft_qp *qp, const struct soft_packet *packet, const struct soft_path *path);
bool soft_ud_put(struct soft_qp *qp, struct soft_send *send);

/* timer.c */
void soft_timer_set(struct soft_qp *qp, uint64_t deadline);
/* Wait for an ACK from when the packets of this step have left, which soft_timer_started is told. */
void soft_timer_start(struct soft_qp *qp);
void soft_timer_started(struct soft_context *context);
/* The same where nothing is lost, so that the answer is nearly always there before anybody could have asked:
 * from when somebody wants to know the next deadline, and so would wait for it. */
void soft_timer_start_later(struct soft_qp *qp);
void soft_timer_start_unhurried(struct soft_context *context);
void soft_timer_end(struct soft_qp *qp); /* it waits for nothing any more */
bool soft_timer_reserve(struct soft_context *context, size_t qps);
void soft_timer_forget(struct soft_qp *qp);
uint64_t soft_timer_next(struct soft_context *context);

/* step.c */
void soft_work(struct soft_qp *qp); /* it may have something to send */
void soft_idle(struct soft_qp *qp); /* it is going away */
void soft_step(struct soft_context *context);
/* As soft_progress; but ACKs of a few packets may wait if the application comes back soon: it has been given
 * something, will very likely answer, and then both go together. With soft_hurry they wait no longer. */
void soft_progress_patiently(struct soft_context *context);
void soft_hurry(struct soft_context *context);
/* The user sleeps, and looks again when the next timer is due, ns, which is returned; NEVER_NS: there is none. */
uint64_t soft_looks_next(struct soft_context *context);
uint64_t soft_now(struct soft_context *context);

/* table.c */
struct soft_qp *soft_qp_find(struct soft_context *context, uint32_t qpn);
bool soft_qp_enter(struct soft_context *context, struct soft_qp *qp);
void soft_qp_leave(struct soft_context *context, struct soft_qp *qp);

/* path.c */
bool soft_is_group(const union soft_addr *addr); /* a multicast address? */
void soft_path_copy(struct soft_path *to, const struct soft_path *from);
void soft_path_leave(struct soft_path *path); /* goes by no link of its own any more */
bool soft_path_matches(const struct soft_path *own, const struct soft_path *came);
/* The way to queue pair qpn (of a connection, or of a datagram). False: the address handle leads nowhere. */
bool soft_path_from_ah(const struct soft_context *context, struct soft_path *path, const struct ibv_ah_attr *ah,
                       uint32_t qpn);

#endif
