/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * train.c - builds bursts (in the code: trains), so that one call of a link sends many packets.
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

/* If the kernel copies from the start of a page to one of the first 63 bytes of another page, and the CPU does so with
 * one instruction for byte-wise copying (rep movsb), it takes three times as long. A file's bytes start at a page, and
 * a packet's payload would start behind its header: therefore the lead. */
#define LEAD 128 /* bytes before a burst in the engine's buffer */
#define OWN_BYTES (LEAD + SOFT_TRAIN_LONG)
#define GATHERED_MIN 4096 /* Bytes; shorter payload is copied faster than it is listed. */

/* No page is touched before it is needed, so an idle context uses no memory here. */
bool soft_train_begin(struct soft_train *train)
{
    train->own = pages_new(OWN_BYTES);
    train->owner = malloc(SOFT_TRAIN_PACKETS * sizeof *train->owner);
    train->piece = malloc(SOFT_PIECES * sizeof *train->piece);
    return train->own != NULL && train->owner != NULL && train->piece != NULL;
}

void soft_train_end(struct soft_train *train)
{
    pages_free(train->own, OWN_BYTES);
    free(train->owner);
    free(train->piece);
}

static void forget(struct soft_train *train)
{
    train->packets = train->pieces = 0;
    train->length = 0;
    train->closed = false;
}

/* Adds a segment, or extends the last one if they are adjacent. Returns the number of segments. */
static unsigned extend(struct iovec *list, unsigned count, uint8_t *base, size_t length)
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
static uint8_t *fetched_to(const struct soft_train *train, const struct soft_piece *piece)
{
    return train->link->far ? train->own + LEAD + (piece->to - train->bytes) : piece->to;
}

/* True if one call can fetch both. */
static bool goes_on(const struct soft_piece *piece, const struct soft_piece *next)
{
    return piece->file == next->file && (piece->file == -1 || piece->place + piece->length == next->place);
}

/* Fetches adjacent segments with one call. */
static bool fetch_run(const struct soft_train *train, unsigned first, unsigned last)
{
    struct iovec to[SOFT_PIECES], from[SOFT_PIECES];
    size_t total = 0;
    unsigned tos = 0, froms = 0;

    for (unsigned i = first; i < last; i++) {
        const struct soft_piece *piece = &train->piece[i];

        tos = extend(to, tos, fetched_to(train, piece), piece->length);
        if (piece->file == -1)
            froms = extend(from, froms, (void *)piece->from, piece->length);
        total += piece->length;
    }
    if (train->piece[first].file != -1)
        return nofault_read(train->piece[first].file, to, tos, train->piece[first].place, total);
    return nofault_copyv(to, tos, from, froms, total);
}

static bool fetch_there(const struct soft_train *train, unsigned first, unsigned last)
{
    while (first < last) {
        unsigned end = first + 1;

        while (end < last && goes_on(&train->piece[end - 1], &train->piece[end]))
            end++;
        if (!fetch_run(train, first, end))
            return false;
        first = end;
    }
    return true;
}

/* Fetches the segments first..last. False: some memory has vanished. */
static bool fetch(const struct soft_train *train, unsigned first, unsigned last)
{
    if (!fetch_there(train, first, last))
        return false;
    for (unsigned i = first; i < last && train->link->far; i++)
        copy_far(train->piece[i].to, fetched_to(train, &train->piece[i]), train->piece[i].length);
    return true;
}

/* Reports that the packet's payload has vanished. An acknowledgement that the link was to carry belongs behind the lost
 * response, so it is withdrawn: the NAK replaces it. */
static void tell(struct soft_train *train, unsigned packet)
{
    struct soft_qp *qp = train->owner[packet].qp;
    uint64_t psn = train->owner[packet].psn;

    if (!train->owner[packet].answer) {
        soft_requester_fault(qp, psn, IBV_WC_LOC_PROT_ERR);
        return;
    }
    train->link->ack = 0;
    soft_responder_fail(qp, psn, SOFT_SYNDROME_OPERATION, IBV_WC_LOC_PROT_ERR);
}

/* Some payload could not be fetched. Keeps the packets that can be fetched and notifies the queue pairs of the others.
 * Packets of a queue pair behind a lost one are dropped, too: the peer would only request them again. */
static void drop_failed(struct soft_train *train)
{
    unsigned packets = train->packets, piece = 0;
    size_t length = train->length, at = 0;
    struct soft_qp *failed[SOFT_TRAIN_PACKETS];
    unsigned failures = 0;

    if (train->link->settle != NULL)
        train->link->settle(train->link);
    train->packets = 0;
    train->length = 0;
    for (unsigned i = 0; i < packets; i++) {
        size_t size = length - at < train->stride ? length - at : train->stride;
        unsigned first = piece;
        bool lost = false;

        while (piece < train->pieces && train->piece[piece].packet == i)
            piece++;
        for (unsigned f = 0; f < failures; f++)
            lost |= failed[f] == train->owner[i].qp;
        if (!lost && piece > first && !fetch(train, first, piece)) {
            lost = true;
            failed[failures++] = train->owner[i].qp;
            tell(train, i);
        }
        if (!lost) {
            if (train->packets++ == 0)
                train->stride = size;
            memmove(train->bytes + train->length, train->bytes + at, size);
            train->length += size;
        }
        at += size;
    }
}

inline bool soft_train_leave(struct soft_context *context)
{
    struct soft_train *train = &context->train;
    bool whole = train->pieces == 0 || fetch(train, 0, train->pieces);

    if (!whole)
        drop_failed(train);
    if (train->packets > 0) {
        train->left = true;
        context->counters.packets_sent += train->packets;
        context->counters.bytes_sent += train->length - train->packets * train->link->trailer;
        tsan_release(&soft_packet_order);
        train->link->send(train->link, train->way, train->bytes, train->length, train->stride);
    }
    forget(train);
    return whole;
}

/* Payload that is copied now is sent early in short bursts, so that the receiver copies in parallel. Payload that is
 * fetched later, or gathered by the link, is sent in long bursts with one call. */
static size_t longest(const struct soft_train *train)
{
    bool is_copied = train->pieces == 0 && train->link->gather == NULL;

    return is_copied && train->limit > SOFT_TRAIN_MAX ? SOFT_TRAIN_MAX : train->limit;
}

static bool joins(const struct soft_train *train, const struct soft_path *way, size_t size)
{
    return !train->closed && train->packets < SOFT_TRAIN_PACKETS && size <= train->stride &&
           train->length + size <= longest(train) && train->pieces + SOFT_MAX_SGE <= SOFT_PIECES &&
           (train->way == way || memcmp(train->way, way, sizeof *way) == 0);
}

/* Starts an empty burst whose first packet has this size. False: the link is full. */
static bool begin(struct soft_train *train, const struct soft_path *way, struct soft_link *link, size_t size)
{
    train->bytes = train->own + LEAD;
    train->limit = SOFT_TRAIN_MAX;
    if (link->room != NULL)
        train->bytes = link->room(link, size, &train->limit);
    train->stride = size;
    train->way = way;
    train->link = link;
    return train->bytes != NULL;
}

inline __attribute__((always_inline)) uint8_t *soft_train_add(struct soft_qp *qp, const struct soft_path *way,
                                                              size_t size, uint64_t psn, bool answer)
{
    struct soft_context *context = qp->context;
    struct soft_train *train = &context->train;
    struct soft_link *link = way->link != NULL ? way->link : context->wire->link;
    uint8_t *at;

    size += link->trailer;
    if (train->packets > 0 && !joins(train, way, size) && !soft_train_leave(context))
        return NULL;
    if (train->packets == 0 && !begin(train, way, link, size))
        return NULL;
    at = train->bytes + train->length;
    train->owner[train->packets].qp = qp;
    train->owner[train->packets].psn = psn;
    train->owner[train->packets].answer = answer;
    train->length += size;
    train->packets++;
    train->closed = size < train->stride;
    return at;
}

/* Lists a segment to be fetched when the burst is sent. A file's segment is the only one of its packet (sge.c). */
static void put_off(struct soft_train *train, uint8_t *to, const struct iovec *from, const struct soft_mr *mr)
{
    struct soft_piece *piece = &train->piece[train->pieces++];

    *piece = (struct soft_piece){to, from->iov_base, from->iov_len, train->packets - 1, -1, 0};
    if (mr->is_file) {
        piece->file = mr->file;
        piece->place = mr->start + (uintptr_t)from->iov_base;
    }
}

/* Asks the link to send the payload from where it is: memory, or, if `file` is not NULL, that region's file. */
static __attribute__((noinline)) bool gather(struct soft_train *train, uint8_t *to, const struct iovec *from,
                                             const struct soft_mr *file)
{
    const struct soft_owner *owner = &train->owner[train->packets - 1];
    struct soft_source source = {.memory = from->iov_base, .length = from->iov_len};

    if (file != NULL) {
        source.memory = NULL;
        source.file = file->file;
        source.place = file->start + (uintptr_t)from->iov_base;
    }
    return train->link->gather(train->link, to, &source, owner->answer ? UINT64_MAX : owner->psn);
}

/* True for payload that the link may send from where it is. Memory that may vanish (a mapped file) is no such payload. */
static bool may_gather(const struct soft_train *train, const struct iovec *from, const struct soft_mr *nofault)
{
    return from->iov_len > GATHERED_MIN && train->link->gather != NULL && (nofault == NULL || nofault->is_file);
}

inline void soft_train_payload(struct soft_context *context, uint8_t *to, const struct iovec *from, int count,
                               const struct soft_mr *nofault)
{
    struct soft_train *train = &context->train;

    for (; count > 0; count--, from++) {
        if (may_gather(train, from, nofault) && gather(train, to, from, nofault))
            ;
        else if (nofault != NULL)
            put_off(train, to, from, nofault);
        else if (train->link->far)
            copy_far(to, from->iov_base, from->iov_len);
        else
            copy_near(to, from->iov_base, from->iov_len);
        to += from->iov_len;
    }
}
