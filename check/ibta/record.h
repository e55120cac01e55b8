/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * record.h - all that happened in one conversation, with the time of each thing: the only witness that is
 * judged.
 *
 * "The device" is the device under test. Times are nanoseconds of the bench's clock.
 */
#ifndef IBTA_RECORD_H
#define IBTA_RECORD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <infiniband/verbs.h>
#include "check/support/roce.h"

#define IBTA_MTU 1024 /* path MTU of every conversation, bytes */
#define IBTA_MS UINT64_C(1000000)

/* What the two ends agreed on. */
struct terms {
    uint8_t timeout, retry_cnt, rnr_retry, min_rnr_timer, max_rd_atomic, max_dest_rd_atomic;
    unsigned qp_access, mr_access;
    uint32_t dut_psn, tester_psn; /* of the first request of each */
};

enum entry_kind {
    ENTRY_FROM_DUT,   /* a packet that the device sent, at its arrival */
    ENTRY_TO_DUT,     /* a packet that the tester sent */
    ENTRY_POSTED,     /* work that the device was given */
    ENTRY_COMPLETION, /* what the device said became of it */
    ENTRY_NOTE        /* something looked up: a word of memory, a state */
};

/* Owned by its record; does not move. */
struct entry {
    enum entry_kind kind;
    uint64_t time;
    bool readable, sealed; /* a packet: has all its headers; its ICRC is right */
    struct roce roce;      /* points into bytes */
    size_t length;
    uint8_t *bytes; /* from the BTH on, without the ICRC */
    struct ibv_wc wc;
    const char *name; /* of a note; static */
    uint64_t value;   /* of a note; of posted work, its id */
};

/* Owned by its channel, whose bench's lock guards it until `over`. */
struct record {
    struct terms terms;
    uint32_t dut_qpn, tester_qpn;
    uint64_t late;  /* by how much a timer of the device may be late: what its machine's scheduler does, 0 on a
                       virtual  clock */
    uint64_t stall; /* for how long a processor of this machine stood still, at most, ns */
    bool over;      /* nothing is added any more */
    struct entry **entries;
    unsigned count, room;
};

/* Both copy; after `over` they do nothing and return NULL. */
struct entry *record_packet(struct record *record, enum entry_kind kind, uint64_t time, const uint8_t *packet,
                            size_t length, bool sealed);
struct entry *record_event(struct record *record, enum entry_kind kind, uint64_t time);
void record_free(struct record *record);
struct record *record_copy(const struct record *record);
/* Takes one out of the record. */
void record_remove(struct record *record, unsigned at);

/* The next entry of this kind, from *at on, which goes behind it; NULL at the end. */
const struct entry *record_next(const struct record *record, enum entry_kind kind, unsigned *at);
bool entry_is_answer(const struct entry *entry); /* a packet of a responder */

static inline uint64_t ack_timeout(const struct terms *terms)
{
    return UINT64_C(4096) << terms->timeout;
}

#endif
