/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * icrc_id.h - finds the IPv4 identification of packets from senders that are not EXS.
 *
 * The ICRC covers the identification, and a UDP socket does not show it. EXS sends known values; the kernel's rxe
 * sends a counter of its host, and adapters one of theirs. But a CRC is linear: the difference between the received
 * ICRC and the one computed for identification 0 determines the 16 bits, or shows that no identification explains it.
 * That weakens the 32-bit check by 16 bits. Most of them are regained, because a counter is expected to continue
 * (struct icrc_count).
 */
#ifndef SOFT_ICRC_ID_H
#define SOFT_ICRC_ID_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define ICRC_ID_BITS 16
#define ICRC_ID_LENGTHS 16 /* packet lengths that are cached, indexed by the length */

/* How the bits of the identification change the ICRC of a packet of `length` bytes, as a system of linear equations in
 * reduced form: identification `id` changes the ICRC by `by`, and no other row has `bit`. Plain data that the caller
 * owns; initially all zero. */
struct icrc_ids {
    struct icrc_id_rows {
        size_t length;
        struct {
            uint32_t by, bit;
            uint16_t id;
        } row[ICRC_ID_BITS];
    } known[ICRC_ID_LENGTHS];
};

/* Finds the identification. `difference` is the exclusive or of the ICRC computed for identification 0 and the received
 * one; `length` is the packet's bytes from the BTH on, without the ICRC. False: no identification explains it. */
bool icrc_id_solve(struct icrc_ids *ids, size_t length, uint32_t difference, uint16_t *id);

/* The identifications of one sender. Initially all zero. */
struct icrc_count {
    bool known, doubted, any; /* `doubted`: `doubt` is set; `any`: the sender does not count */
    uint16_t last, doubt;     /* the highest so far; the last one that did not fit */
    unsigned misfits;         /* in a row */
    uint64_t at;              /* when `last` was received, ns */
};

#define ICRC_COUNT_AHEAD                                                                                       \
    1024 /* how far the counter may be ahead; plus one for each tick (1 ms), as a kernel may count */
#define ICRC_COUNT_BEHIND 256 /* how far behind a packet may be that others have overtaken */
#define ICRC_COUNT_MISFITS 4  /* in a row: the sender does not use a counter */

/* Whether the identification fits the sender's counter. If not, the packet is damaged or the counter has jumped: a
 * second packet that continues from it is then accepted. `now`: ns. */
bool icrc_count_fits(struct icrc_count *count, uint16_t id, uint64_t now);

#endif
