/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * icrc_id.h - finds the IPv4 identification of packets from senders that are not EXS.
 *
 * The ICRC covers the identification, and a UDP socket does not show it to the receiver. EXS sends known values. The
 * kernel's rxe counts up for all packets of its host, and an adapter for its own packets. But a CRC is linear: the
 * difference between the received ICRC and the one computed for identification 0 determines the 16 bits of the
 * identification, or shows that no identification explains the received ICRC. This weakens the 32-bit check by 16 bits.
 * Most of them are regained by the check that the sender's counter continues (struct icrc_count).
 */
#ifndef SOFT_ICRC_ID_H
#define SOFT_ICRC_ID_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define ICRC_ID_BITS 16
#define ICRC_ID_LENGTHS 16 /* packet lengths that are cached, indexed by the length */

/* A cache of systems of linear equations in reduced form, each of which says how the bits of the identification change
 * the ICRC of a packet of `length` bytes: identification `id` changes the ICRC by `by`, and only this row has `bit` in
 * `by`. Plain data that the caller owns; initially all zero. */
struct icrc_ids {
    struct icrc_id_rows {
        size_t length;
        struct {
            uint32_t by, bit;
            uint16_t id;
        } row[ICRC_ID_BITS];
    } known[ICRC_ID_LENGTHS];
};

/* Finds the identification of a packet. `difference` is the exclusive or of the received ICRC and the one computed for
 * identification 0; `length` is the number of the packet's bytes from the BTH on, without the ICRC. False: no
 * identification explains the received ICRC. */
bool icrc_id_solve(struct icrc_ids *ids, size_t length, uint32_t difference, uint16_t *id);

/* The identifications of one sender. Initially all zero. */
struct icrc_count {
    /* known: `last` is set. doubted: `doubt` is set. any: the sender does not count, so any identification fits. */
    bool known, doubted, any;
    uint16_t last, doubt; /* the identification that the counter has reached; the last one that did not fit */
    unsigned misfits;     /* identifications in a row that did not fit */
    uint64_t at;          /* when `last` was received, ns */
};

/* How far an identification may be ahead of the counter; 1 more for each tick (1 ms) since the last packet, because a
 * kernel may count ticks. */
#define ICRC_COUNT_AHEAD 1024
#define ICRC_COUNT_BEHIND 256 /* how far behind the counter a packet may be that others have overtaken */
#define ICRC_COUNT_MISFITS 4  /* misfits in a row: the sender does not use a counter */

/* Returns whether the identification fits the sender's counter. If it does not, the packet is damaged or the counter
 * has jumped; the next packet is accepted if it continues from this identification. `now`: ns. */
bool icrc_count_fits(struct icrc_count *count, uint16_t id, uint64_t now);

#endif
