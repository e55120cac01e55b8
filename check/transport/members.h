/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * members.h - UD queue pairs that send to multicast groups and receive from them over real sockets, and a plain UDP
 * socket that sends RoCE v2 packets like another vendor's adapter.
 *
 * All bytes of a datagram have one value, and each queue pair is asked for its next datagram. A datagram that a queue
 * pair must not receive, receives twice, or misses is found in this way.
 */
#ifndef CHECK_MEMBERS_H
#define CHECK_MEMBERS_H

#include <stdbool.h>
#include <stdint.h>
#include "soft/engine/wire.h"
#include "soft/service/home.h"

/* Equals RDMA_UDP_QKEY, so that the queue pair of an rdma_cm_id can be a member. */
#define MEMBER_QKEY 0x01234567
#define MEMBER_BYTES 64   /* payload of a datagram */
#define MEMBER_GRH 40     /* bytes of the GRH in front of the payload */
#define MEMBER_RECEIVES 4 /* receives posted; a completion queue has at least as many entries */
#define MEMBER_SLOT (MEMBER_GRH + MEMBER_BYTES)

/* A queue pair, its memory, and its context. */
struct member {
    struct soft_home *home;
    struct ibv_pd *pd; /* NULL: the queue pair belongs to the caller */
    struct ibv_qp *qp;
    struct ibv_mr *mr;
    bool beside;         /* its context belongs to another member, which closes it */
    int watched, served; /* sockets of the context that are not for groups */
    uint8_t memory[(MEMBER_RECEIVES + 1) * MEMBER_SLOT]; /* the last slot holds the datagram that it sends */
};

/* Opens a queue pair in a new context with its own names (LID and numbers), or in the context of `first`, which must be
 * closed after this one. */
void member_open(struct member *self);
void member_open_beside(struct member *self, const struct member *first);
void member_close(struct member *self); /* must not be in a group */
/* Uses the caller's queue pair, which must be ready and have no receives; member_give_back() ends that, also after the
 * queue pair was destroyed. */
void member_take(struct member *self, struct ibv_qp *qp);
void member_give_back(struct member *self);

/* Return 0 or an errno value. */
int member_attach(struct member *self, const char *group);
int member_detach(struct member *self, const char *group);

/* Returns the address vector from one of this host's addresses to the group. */
struct ibv_ah_attr member_way(struct member *self, const char *from, const char *group);
void member_says(struct member *self, const char *from, const char *group, uint8_t value);
void member_says_as(struct member *self, const struct ibv_ah_attr *way, uint32_t qkey, uint8_t value);
/* Expects that the next datagram has this value. Returns its GRH, which is valid until MEMBER_RECEIVES more have
 * arrived. */
const uint8_t *member_hears(struct member *self, uint8_t value);
void member_hears_nothing(struct member *self); /* no datagram has arrived so far */

struct soft_counters member_counters(struct member *self);
/* Waits until the context has counted this number of refused, or malformed, packets, and expects that no datagram was
 * received. */
void member_refuses(struct member *self, uint64_t count);
void member_finds_damaged(struct member *self, uint64_t count);

/* Expects that the context has sockets for this number of groups, and that its completion channels and the service
 * thread watch as many. */
void member_has_sockets(struct member *self, int groups);
bool member_is_at(struct member *self, const char *group);

/* A plain UDP socket at an address of the host, which sends to a group at RoCE's port. */
struct outsider {
    int fd;
    struct soft_path path;
};

struct outsider outsider_at(const char *from, const char *group);
/* Sends a datagram whose ICRC is computed for an IPv4 header with identification `id`; `damaged`: with one bit
 * flipped. */
void outsider_says(struct outsider *self, uint32_t qpn, uint8_t value, unsigned id, bool damaged);

#endif
