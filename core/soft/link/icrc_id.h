/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * icrc_id.h - which identification a foreign sender's IPv4 header had.
 *
 * The ICRC covers it, and a UDP socket doesn't show it. Other makers' devices send any: the kernel's rxe a
 * counter of its host, adapters one of their own. But a CRC is linear: by how much it is off says which of the
 * 16 bits were others than those that it was computed with, or that no such bits explain it. That costs the
 * check 16 of its 32 bits; most of them come back, since an identification that counts on is to be expected.
 */
#ifndef SOFT_ICRC_ID_H
#define SOFT_ICRC_ID_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define ICRC_ID_BITS 16
#define ICRC_ID_LENGTHS 16 /* remembered, each in a place that depends on it */

/* By how much each bit changes the check of a packet of `length` bytes, brought into a form that is solved bit
 * by bit: each row has a bit of the check that no other has, and is what the identification `id` changes. Plain
 * data, its holder's; all zero is a good start. */
struct icrc_ids {
    struct icrc_id_rows {
        size_t length;
        struct {
            uint32_t by, bit;
            uint16_t id;
        } row[ICRC_ID_BITS];
    } known[ICRC_ID_LENGTHS];
};

/* `difference` is the exclusive or of the check computed with identification 0 and the one that came with a
 * packet of `length` bytes from the BTH on, without the check. False: no identification explains it. */
bool icrc_id_solve(struct icrc_ids *ids, size_t length, uint32_t difference, uint16_t *id);

/* What one sender's identifications were so far. All zero: nothing is known. */
struct icrc_count {
    bool known, doubted, any; /* `any`: it doesn't count */
    uint16_t last, doubt;     /* the furthest; one that did not fit, and came last */
    unsigned misfits;         /* in a row */
    uint64_t at;              /* when `last` came, ns */
};

#define ICRC_COUNT_AHEAD                                                                                       \
    1024 /* so far it may be at once, and a kernel's may go one on with each tick besides */
#define ICRC_COUNT_BEHIND 256 /* overtaken on the way */
#define ICRC_COUNT_MISFITS 4  /* in a row, and no counter is behind them */

/* Does it fit? One that does not is a damaged packet, or the counter has made a leap: then the next one shows.
 */
bool icrc_count_fits(struct icrc_count *count, uint16_t id, uint64_t now);

#endif
