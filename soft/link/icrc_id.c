/* SPDX-License-Identifier: BSD-2-Clause */
/* icrc_id.c - solves linear equations over bits for the identification, and follows a sender's counter. */
#include <libdeflate.h>
#include "core/base/clock.h"
#include "icrc_id.h"

#define POLYNOMIAL 0xedb88320u /* of the CRC-32, least significant bit first */
#define BEHIND_ID (20 - 6 + 8) /* bytes of IP and UDP headers between the identification and the BTH */
#define TICK_NS 1000000        /* the shortest tick of a kernel */

/* The change of the final CRC that a change in front of `length` bytes causes. */
static uint32_t carry_difference(uint32_t difference, size_t length)
{
    static const uint8_t zeros[4096];
    uint32_t crc = ~difference;

    while (length > 0) {
        size_t piece = length < sizeof zeros ? length : sizeof zeros;

        crc = libdeflate_crc32(crc, zeros, piece);
        length -= piece;
    }
    return ~crc;
}

/* A CRC processes bytes in order, the lowest bit of each first: the identification's bits 8 to 15, and then 0 to 7.
 * The rows are filled from the last bit backwards: each has one more bit behind it. */
static void fill_rows(struct icrc_id_rows *rows, size_t length)
{
    uint32_t by = carry_difference(POLYNOMIAL, BEHIND_ID + length);

    rows->length = length;
    for (unsigned i = 0; i < ICRC_ID_BITS; i++) {
        rows->row[i].by = by;
        rows->row[i].id = (uint16_t)(1u << (i < 8 ? 7 - i : 23 - i));
        by = by >> 1 ^ (by & 1 ? POLYNOMIAL : 0);
    }
}

/* Gaussian elimination: gives every row a bit that no other row has. There always is one, because 16 consecutive bits
 * are linearly independent in a 32-bit CRC. */
static void reduce_rows(struct icrc_id_rows *rows)
{
    for (unsigned i = 0; i < ICRC_ID_BITS; i++) {
        rows->row[i].bit = rows->row[i].by & -rows->row[i].by;
        for (unsigned other = 0; other < ICRC_ID_BITS; other++)
            if (other != i && (rows->row[other].by & rows->row[i].bit) != 0) {
                rows->row[other].by ^= rows->row[i].by;
                rows->row[other].id ^= rows->row[i].id;
            }
    }
}

bool icrc_id_solve(struct icrc_ids *ids, size_t length, uint32_t difference, uint16_t *id)
{
    struct icrc_id_rows *rows = &ids->known[length / 4 % ICRC_ID_LENGTHS];

    if (rows->length != length) {
        fill_rows(rows, length);
        reduce_rows(rows);
    }
    *id = 0;
    for (unsigned i = 0; i < ICRC_ID_BITS; i++)
        if ((difference & rows->row[i].bit) != 0) {
            difference ^= rows->row[i].by;
            *id ^= rows->row[i].id;
        }
    return difference == 0;
}

/* ---- The counter ---- */

static bool accept_id(struct icrc_count *count, uint16_t id, uint64_t now)
{
    count->known = true;
    count->doubted = false;
    count->misfits = 0;
    count->last = id;
    count->at = now;
    return true;
}

bool icrc_count_fits(struct icrc_count *count, uint16_t id, uint64_t now)
{
    uint16_t ahead = (uint16_t)(id - count->last), behind = (uint16_t)(count->last - id);
    uint64_t most = ICRC_COUNT_AHEAD + ns_left(now, count->at) / TICK_NS;

    if (count->any)
        return true;
    if (!count->known || ahead <= most)
        return accept_id(count, id, now);
    if (behind <= ICRC_COUNT_BEHIND)
        return true;
    if (count->doubted && (uint16_t)(id - count->doubt) <= ICRC_COUNT_AHEAD)
        return accept_id(count, id, now);
    count->doubted = true;
    count->doubt = id;
    count->any = ++count->misfits >= ICRC_COUNT_MISFITS;
    return count->any;
}
