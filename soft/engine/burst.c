/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * burst.c - collects packets in bursts, so that one call of a link sends many packets.
 *
 * All packets of a burst have the same path. All have the length of the first one (the stride), except that the last
 * may be shorter. Payload is copied when a packet is added. Payload in files and shared memory, which other processes
 * can truncate (nofault.h), is copied when the burst is sent: by the kernel, from memory or from the file, with one
 * call for adjacent segments.
 */
#include <stdlib.h>
#include "core/base/copy.h"
#include "core/base/nofault.h"
#include "core/base/pages.h"
#include "core/base/tsan.h"
#include "engine.h"

char soft_packet_order;

/* The buffer begins with unused bytes. If the kernel copies from the start of a page to one of the first 63 bytes of
 * another page, with rep movsb, that takes three times as long. A file's bytes start at a page, and without the unused
 * bytes the payload of the first packet would start just behind its header. */
#define LEAD 128 /* bytes before a burst in the engine's buffer */
#define OWN_BYTES (LEAD + SOFT_BURST_LONG)
#define GATHERED_MIN 4096 /* Bytes: it takes less time to copy shorter payload than to list it. */

/* No page of the buffer is touched before it is needed, so an idle context uses no memory here. */
bool soft_burst_begin(struct soft_burst *burst)
{
    burst->own = pages_new(OWN_BYTES);
    burst->owner = malloc(SOFT_BURST_PACKETS * sizeof *burst->owner);
    burst->piece = malloc(SOFT_PIECES * sizeof *burst->piece);
    return burst->own != NULL && burst->owner != NULL && burst->piece != NULL;
}

void soft_burst_end(struct soft_burst *burst)
{
    pages_free(burst->own, OWN_BYTES);
    free(burst->owner);
    free(burst->piece);
}

static void reset_burst(struct soft_burst *burst)
{
    burst->packets = burst->pieces = 0;
    burst->length = 0;
    burst->closed = false;
}

/* Adds a segment, or extends the last one if they are adjacent. Returns the number of segments. */
static unsigned add_segment(struct iovec *list, unsigned count, uint8_t *base, size_t length)
{
    if (count > 0 && (uint8_t *)list[count - 1].iov_base + list[count - 1].iov_len == base) {
        list[count - 1].iov_len += length;
        return count;
    }
    list[count] = (struct iovec){base, length};
    return count + 1;
}

/* Where the kernel stores a segment's bytes. For a link with `far` they go to the engine's buffer first, which stays in
 * the cache, and from there to the link's buffer with non-temporal stores. */
static uint8_t *fetched_to(const struct soft_burst *burst, const struct soft_piece *piece)
{
    return burst->link->far ? burst->own + LEAD + (piece->to - burst->bytes) : piece->to;
}

/* True if one call can fetch both segments, because they are adjacent in one file or both in memory. */
static bool goes_on(const struct soft_piece *piece, const struct soft_piece *next)
{
    return piece->file == next->file && (piece->file == -1 || piece->place + piece->length == next->place);
}

/* Fetches the segments from `first` to before `last` with one call. */
static bool fetch_run(const struct soft_burst *burst, unsigned first, unsigned last)
{
    struct iovec to[SOFT_PIECES], from[SOFT_PIECES];
    size_t total = 0;
    unsigned tos = 0, froms = 0;

    for (unsigned i = first; i < last; i++) {
        const struct soft_piece *piece = &burst->piece[i];

        tos = add_segment(to, tos, fetched_to(burst, piece), piece->length);
        if (piece->file == -1)
            froms = add_segment(from, froms, (void *)piece->from, piece->length);
        total += piece->length;
    }
    if (burst->piece[first].file != -1)
        return nofault_read(burst->piece[first].file, to, tos, burst->piece[first].place, total);
    return nofault_copyv(to, tos, from, froms, total);
}

static bool fetch_there(const struct soft_burst *burst, unsigned first, unsigned last)
{
    while (first < last) {
        unsigned end = first + 1;

        while (end < last && goes_on(&burst->piece[end - 1], &burst->piece[end]))
            end++;
        if (!fetch_run(burst, first, end))
            return false;
        first = end;
    }
    return true;
}

/* Fetches the segments from `first` to before `last`. False: some memory has vanished. */
static bool fetch_segments(const struct soft_burst *burst, unsigned first, unsigned last)
{
    if (!fetch_there(burst, first, last))
        return false;
    for (unsigned i = first; i < last && burst->link->far; i++)
        copy_far(burst->piece[i].to, fetched_to(burst, &burst->piece[i]), burst->piece[i].length);
    return true;
}

/* Reports that the packet's payload has vanished. An acknowledgement that the link was to carry belongs behind the lost
 * response, so it is withdrawn: the NAK replaces it. */
static void report_vanished(struct soft_burst *burst, unsigned packet)
{
    struct soft_qp *qp = burst->owner[packet].qp;
    uint64_t psn = burst->owner[packet].psn;

    if (!burst->owner[packet].answer) {
        soft_requester_fault(qp, psn, IBV_WC_LOC_PROT_ERR);
        return;
    }
    burst->link->ack = 0;
    soft_responder_fail(qp, psn, SOFT_SYNDROME_OPERATION, IBV_WC_LOC_PROT_ERR);
}

/* Some payload could not be fetched. Keeps the packets that can be fetched and notifies the queue pairs of the others.
 * Packets of a queue pair behind a lost one are dropped, too: the peer would only request them again. */
static void drop_failed(struct soft_burst *burst)
{
    unsigned packets = burst->packets, piece = 0;
    size_t length = burst->length, at = 0;
    struct soft_qp *failed[SOFT_BURST_PACKETS];
    unsigned failures = 0;

    if (burst->link->settle != NULL)
        burst->link->settle(burst->link);
    burst->packets = 0;
    burst->length = 0;
    for (unsigned i = 0; i < packets; i++) {
        size_t size = length - at < burst->stride ? length - at : burst->stride;
        unsigned first = piece;
        bool lost = false;

        while (piece < burst->pieces && burst->piece[piece].packet == i)
            piece++;
        for (unsigned f = 0; f < failures; f++)
            lost |= failed[f] == burst->owner[i].qp;
        if (!lost && piece > first && !fetch_segments(burst, first, piece)) {
            lost = true;
            failed[failures++] = burst->owner[i].qp;
            report_vanished(burst, i);
        }
        if (!lost) {
            if (burst->packets++ == 0)
                burst->stride = size;
            memmove(burst->bytes + burst->length, burst->bytes + at, size);
            burst->length += size;
        }
        at += size;
    }
}

inline bool soft_burst_leave(struct soft_context *context)
{
    struct soft_burst *burst = &context->burst;
    bool whole = burst->pieces == 0 || fetch_segments(burst, 0, burst->pieces);

    if (!whole)
        drop_failed(burst);
    if (burst->packets > 0) {
        burst->left = true;
        context->counters.packets_sent += burst->packets;
        context->counters.bytes_sent += burst->length - burst->packets * burst->link->trailer;
        tsan_release(&soft_packet_order);
        burst->link->send(burst->link, burst->way, burst->bytes, burst->length, burst->stride);
    }
    reset_burst(burst);
    return whole;
}

/* Payload that is copied now is sent early in short bursts, so that the receiver copies in parallel. Payload that is
 * fetched later, or gathered by the link, is sent in long bursts with one call. */
static size_t max_length(const struct soft_burst *burst)
{
    bool is_copied = burst->pieces == 0 && burst->link->gather == NULL;

    return is_copied && burst->limit > SOFT_BURST_MAX ? SOFT_BURST_MAX : burst->limit;
}

static bool fits_burst(const struct soft_burst *burst, const struct soft_path *way, size_t size)
{
    return !burst->closed && burst->packets < SOFT_BURST_PACKETS && size <= burst->stride &&
           burst->length + size <= max_length(burst) && burst->pieces + SOFT_MAX_SGE <= SOFT_PIECES &&
           (burst->way == way || memcmp(burst->way, way, sizeof *way) == 0);
}

/* Starts an empty burst whose first packet has this size. False: the link is full. */
static bool begin_burst(struct soft_burst *burst, const struct soft_path *way, struct soft_link *link,
                        size_t size)
{
    burst->bytes = burst->own + LEAD;
    burst->limit = SOFT_BURST_MAX;
    if (link->room != NULL)
        burst->bytes = link->room(link, size, &burst->limit);
    burst->stride = size;
    burst->way = way;
    burst->link = link;
    return burst->bytes != NULL;
}

inline __attribute__((always_inline)) uint8_t *soft_burst_add(struct soft_qp *qp, const struct soft_path *way,
                                                              size_t size, uint64_t psn, bool answer)
{
    struct soft_context *context = qp->context;
    struct soft_burst *burst = &context->burst;
    struct soft_link *link = way->link != NULL ? way->link : context->wire->link;
    uint8_t *at;

    size += link->trailer;
    if (burst->packets > 0 && !fits_burst(burst, way, size) && !soft_burst_leave(context))
        return NULL;
    if (burst->packets == 0 && !begin_burst(burst, way, link, size))
        return NULL;
    at = burst->bytes + burst->length;
    burst->owner[burst->packets].qp = qp;
    burst->owner[burst->packets].psn = psn;
    burst->owner[burst->packets].answer = answer;
    burst->length += size;
    burst->packets++;
    burst->closed = size < burst->stride;
    return at;
}

/* Lists a segment to be fetched when the burst is sent. A file's segment is the only one of its packet (sge.c). */
static void put_off(struct soft_burst *burst, uint8_t *to, const struct iovec *from, const struct soft_mr *mr)
{
    struct soft_piece *piece = &burst->piece[burst->pieces++];

    *piece = (struct soft_piece){to, from->iov_base, from->iov_len, burst->packets - 1, -1, 0};
    if (mr->is_file) {
        piece->file = mr->file;
        piece->place = mr->start + (uintptr_t)from->iov_base;
    }
}

/* Asks the link to send the payload directly from memory, or, if `file` is not NULL, from that region's file. False:
 * the link does not, and the payload must be copied. */
static __attribute__((noinline)) bool gather_payload(struct soft_burst *burst, uint8_t *to,
                                                     const struct iovec *from, const struct soft_mr *file)
{
    const struct soft_owner *owner = &burst->owner[burst->packets - 1];
    struct soft_source source = {.memory = from->iov_base, .length = from->iov_len};

    if (file != NULL) {
        source.memory = NULL;
        source.file = file->file;
        source.place = file->start + (uintptr_t)from->iov_base;
    }
    return burst->link->gather(burst->link, to, &source, owner->answer ? UINT64_MAX : owner->psn);
}

/* True if the link may send the payload directly. Not from memory that may vanish (a mapped file). */
static bool may_gather(const struct soft_burst *burst, const struct iovec *from, const struct soft_mr *nofault)
{
    return from->iov_len > GATHERED_MIN && burst->link->gather != NULL && (nofault == NULL || nofault->is_file);
}

inline void soft_burst_payload(struct soft_context *context, uint8_t *to, const struct iovec *from, int count,
                               const struct soft_mr *nofault)
{
    struct soft_burst *burst = &context->burst;

    for (; count > 0; count--, from++) {
        if (may_gather(burst, from, nofault) && gather_payload(burst, to, from, nofault))
            ;
        else if (nofault != NULL)
            put_off(burst, to, from, nofault);
        else if (burst->link->far)
            copy_far(to, from->iov_base, from->iov_len);
        else
            copy_near(to, from->iov_base, from->iov_len);
        to += from->iov_len;
    }
}
