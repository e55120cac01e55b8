/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * members.h - queue pairs that send datagrams to multicast groups and have what comes there, by real sockets,
 * and a plain socket that speaks as another maker's device would.
 *
 * Each datagram is of one value, and each queue pair is asked for the next one that it has: so it shows who has
 * one that is not for him, has it twice, or not at all.
 */
#ifndef CHECK_MEMBERS_H
#define CHECK_MEMBERS_H

#include <stdbool.h>
#include <stdint.h>
#include "soft/engine/wire.h"
#include "soft/service/home.h"

#define MEMBER_QKEY 0x01234567 /* RDMA_UDP_QKEY, so that an identifier's queue pair can be one */
#define MEMBER_BYTES 64        /* of a datagram, */
#define MEMBER_GRH 40          /* behind so many of its headers */
#define MEMBER_RECEIVES 4      /* that it has posted; a completion queue has as many places at least */
#define MEMBER_SLOT (MEMBER_GRH + MEMBER_BYTES)

/* A queue pair, its memory, and the context that it is in. */
struct member {
    struct soft_home *home;
    struct ibv_pd *pd; /* NULL: the queue pair is somebody else's */
    struct ibv_qp *qp;
    struct ibv_mr *mr;
    bool beside;                                         /* another is in the context, too, and closes it */
    int watched, served;                                 /* sockets of the context that are no group's */
    uint8_t memory[(MEMBER_RECEIVES + 1) * MEMBER_SLOT]; /* the last is what it sends */
};

/* In a context with names of its own; or in another's, which is closed after it. */
void member_open(struct member *self);
void member_open_beside(struct member *self, const struct member *first);
void member_close(struct member *self); /* in no group any more */
/* With a queue pair that is there, ready, and without receives; and without it, which may be gone. */
void member_take(struct member *self, struct ibv_qp *qp);
void member_give_back(struct member *self);

/* 0 or an errno. */
int member_attach(struct member *self, const char *group);
int member_detach(struct member *self, const char *group);

/* How what is sent gets from one of this host's addresses to the group. */
struct ibv_ah_attr member_way(struct member *self, const char *from, const char *group);
void member_says(struct member *self, const char *from, const char *group, uint8_t value);
void member_says_as(struct member *self, const struct ibv_ah_attr *way, uint32_t qkey, uint8_t value);
/* It is the next that it has; the GRH, until there are MEMBER_RECEIVES more. */
const uint8_t *member_hears(struct member *self, uint8_t value);
void member_hears_nothing(struct member *self); /* so far */

struct soft_counters member_counters(struct member *self);
/* It, or its context, has refused so many, or found them damaged, and has them not. */
void member_refuses(struct member *self, uint64_t count);
void member_finds_damaged(struct member *self, uint64_t count);

/* The context has sockets at so many groups, and whoever is to be woken by them watches as many. */
void member_has_sockets(struct member *self, int groups);
bool member_is_at(struct member *self, const char *group);

/* A socket at this address of a host, which speaks to a group at RoCE's port. */
struct outsider {
    int fd;
    struct soft_path path;
};

struct outsider outsider_at(const char *from, const char *group);
/* Of an IPv4 packet that had this identification; `damaged` under way. */
void outsider_says(struct outsider *self, uint32_t qpn, uint8_t value, unsigned id, bool damaged);

#endif
