/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * record.h - the record of one conversation: all packets, requests and completions with their times. Only the record is
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

#define IBTA_MTU 1024 /* path MTU of all conversations, bytes */
#define IBTA_MS UINT64_C(1000000)

/* The parameters of the connection. */
struct terms {
    uint8_t timeout, retry_cnt, rnr_retry, min_rnr_timer, max_rd_atomic, max_dest_rd_atomic;
    unsigned qp_access, mr_access;
    uint32_t dut_psn, tester_psn; /* of the first request of each end */
};

enum entry_kind {
    ENTRY_FROM_DUT,   /* a packet that the device sent, at its arrival */
    ENTRY_TO_DUT,     /* a packet that the tester sent */
    ENTRY_POSTED,     /* a work request posted to the device */
    ENTRY_COMPLETION, /* a work completion of the device */
    ENTRY_NOTE        /* a value that the conversation has read: a word of memory, a state */
};

/* Owned by its record; its address does not change. */
struct entry {
    enum entry_kind kind;
    uint64_t time;
    bool readable, sealed; /* of a packet: all headers are complete; the ICRC is correct */
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
    uint64_t
        late; /* tolerance for a late timer of the device, because of the scheduler, ns; 0 on a virtual clock */
    uint64_t stall; /* longest time for which a CPU of this machine was stopped, ns */
    bool over;      /* complete: no entry is added any more */
    struct entry **entries;
    unsigned count, room;
};

/* Add an entry, with a copy of the bytes. If `over`, they do nothing and return NULL. */
struct entry *record_packet(struct record *record, enum entry_kind kind, uint64_t time, const uint8_t *packet,
                            size_t length, bool sealed);
struct entry *record_event(struct record *record, enum entry_kind kind, uint64_t time);
void record_free(struct record *record);
struct record *record_copy(const struct record *record);
/* Removes an entry. */
void record_remove(struct record *record, unsigned at);

/* Returns the next entry of this kind from index *at on, and sets *at to the index after it; NULL at the end. */
const struct entry *record_next(const struct record *record, enum entry_kind kind, unsigned *at);
bool entry_is_answer(const struct entry *entry); /* the packet is a response */

static inline uint64_t ack_timeout(const struct terms *terms)
{
    return UINT64_C(4096) << terms->timeout;
}

#endif
