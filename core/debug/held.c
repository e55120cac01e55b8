/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * held.c - EXS_CHECK: checks the buffers of pending operations. The application must not change a buffer that is
 * being sent before the event, and must not use a buffer that is being filled for another operation.
 *
 * For a buffer that is sent, a CRC is computed at the start and compared at the event. For a buffer that is filled,
 * this checks that it is mapped, and overwrites its first bytes with poison at the start, so that a program that
 * reads it too early does not find valid data. All accesses are fault-safe (nofault.h), because a program with
 * mistakes may have unmapped the memory.
 */
#include <libdeflate.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#define HASH_NONFATAL_OOM 1 /* without memory nothing is added, and the element's hh.tbl is NULL */
#include <uthash.h>
#include "core/base/nofault.h"
#include "core/base/log.h"
#include "core/queue/ask.h"
#include "core/queue/op.h"
#include "misuse.h"

#define POISON 0xa5
#define POISON_MAX 4096 /* maximum number of poisoned bytes per range */

struct range {
    uint8_t *at;
    size_t length; /* bytes */
    uint32_t crc;  /* for a send: the CRC at its start */
    bool is_there; /* true if the range was readable at the start */
    uint8_t *kept; /* a copy of the bytes that the poison replaced, owned; NULL: not poisoned */
};

struct held { /* the ranges of one operation */
    UT_hash_handle hh;
    const struct op *op;
    int type, sockno;
    uint32_t count;
    struct range ranges[];
};

/* Guards the two tables; a leaf lock. A send is compared with receives only. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct held *sent, *filled;

/* ---- Arguments ----------------------------------------------------------------------------------- */

static bool op_fills_buffer(int type)
{
    return type == EXS_EVT_RECV || type == EXS_EVT_RECVMSG || type == EXS_EVT_RECVFILE ||
           type == EXS_EVT_RREAD || type == EXS_EVT_ACCEPT;
}

static bool has_message(const struct ask *ask)
{
    return ask->type == EXS_EVT_SENDMSG || ask->type == EXS_EVT_RECVMSG;
}

static bool has_files(const struct ask *ask)
{
    return ask->type == EXS_EVT_SENDFILE || ask->type == EXS_EVT_RECVFILE;
}

/* Maximum number of ranges of a call. */
static int ranges_of(const struct ask *ask)
{
    return has_message(ask) ? ask->message->exs_iovlen : has_files(ask) ? ask->count : 1;
}

static void add_range(struct held *held, const void *at, size_t length)
{
    if (length > 0)
        held->ranges[held->count++] = (struct range){.at = (uint8_t *)(uintptr_t)at, .length = length};
}

/* Elements that lie in files are not memory, and have no range. */
static void add_ranges(struct held *held, const struct ask *ask)
{
    if (!has_message(ask) && !has_files(ask))
        add_range(held, ask->buffer, ask->length);
    for (int i = 0; has_message(ask) && i < ask->message->exs_iovlen; i++)
        add_range(held, ask->message->exs_iov[i].exs_base, ask->message->exs_iov[i].exs_length);
    for (int i = 0; has_files(ask) && i < ask->count; i++) {
        const exs_iovec_t *memory = &ask->files[i].exs_xfv.exs_iov;

        if (ask->files[i].exs_xfv_type == EXS_IOVEC)
            add_range(held, memory->exs_base, memory->exs_length);
    }
}

/* ---- Digests ------------------------------------------------------------------------------------ */

/* False: a part of the range is not readable. */
static bool crc_of(const struct range *range, uint32_t *crc)
{
    uint8_t piece[4096];

    *crc = 0;
    for (size_t at = 0; at < range->length; at += sizeof(piece)) {
        size_t bytes = range->length - at < sizeof(piece) ? range->length - at : sizeof(piece);

        if (!nofault_take(piece, range->at + at, bytes))
            return false;
        *crc = libdeflate_crc32(*crc, piece, bytes);
    }
    return true;
}

/* For a receive only check that the range is readable. False: a part of it is not. */
static bool read_range(const struct range *range, bool is_filled, uint32_t *crc)
{
    return is_filled ? nofault_readable(range->at, range->length) : crc_of(range, crc);
}

static void compare_ranges(const struct held *held)
{
    for (uint32_t i = 0; i < held->count; i++) {
        const struct range *range = &held->ranges[i];
        uint32_t crc = 0;
        bool is_there = read_range(range, op_fills_buffer(held->type), &crc);

        if (range->is_there && (!is_there || crc != range->crc))
            xs_misused("%s on socket %d: its buffer, %zu bytes at %p, was %s before its event",
                       xs_misuse_name(held->type), held->sockno, range->length, (const void *)range->at,
                       is_there ? "changed" : "taken away");
    }
}

/* ---- Overlaps ----------------------------------------------------------------------------------- */

static bool ranges_overlap(const struct range *a, const struct range *b)
{
    return (uintptr_t)a->at < (uintptr_t)b->at + b->length && (uintptr_t)b->at < (uintptr_t)a->at + a->length;
}

/* Logs the first ranges that overlap. */
static bool tell_overlap(const struct held *held, const struct held *other)
{
    for (uint32_t i = 0; i < held->count * other->count; i++) {
        const struct range *mine = &held->ranges[i / other->count], *its = &other->ranges[i % other->count];

        if (!ranges_overlap(mine, its))
            continue;
        xs_misused("%s on socket %d: its buffer, %zu bytes at %p, overlaps %zu bytes at %p of %s on socket %d, "
                   "which has no event yet",
                   xs_misuse_name(held->type), held->sockno, mine->length, (const void *)mine->at, its->length,
                   (const void *)its->at, xs_misuse_name(other->type), other->sockno);
        return true;
    }
    return false;
}

static bool overlaps_any(const struct held *held, struct held *others)
{
    struct held *other, *next;

    HASH_ITER (hh, others, other, next) {
        if (tell_overlap(held, other))
            return true;
    }
    return false;
}

/* ---- Poison ------------------------------------------------------------------------------------- */

/* Not for other types: it is unknown which of their bytes were written, or the call reads what they contain. */
static bool is_poisoned(int type)
{
    return type == EXS_EVT_RECV || type == EXS_EVT_RECVMSG || type == EXS_EVT_RREAD;
}

static size_t poison_of(const struct range *range)
{
    return range->length < POISON_MAX ? range->length : POISON_MAX;
}

/* If the bytes can't be saved, the range is not poisoned. */
static void poison_range(struct range *range)
{
    uint8_t bytes[POISON_MAX];

    if (!range->is_there || (range->kept = malloc(poison_of(range))) == NULL)
        return;
    memset(bytes, POISON, sizeof(bytes));
    if (nofault_take(range->kept, range->at, poison_of(range)) &&
        nofault_give(range->at, bytes, poison_of(range)))
        return;
    free(range->kept);
    range->kept = NULL;
}

/* Restore the bytes behind those that arrived. */
static void give_back(const struct held *held, uint64_t came)
{
    for (uint32_t i = 0; i < held->count; i++) {
        const struct range *range = &held->ranges[i];
        size_t from = came < range->length ? (size_t)came : range->length;

        if (range->kept != NULL && from < poison_of(range))
            (void)nofault_give(range->at + from, range->kept + from, poison_of(range) - from);
        came -= from;
    }
}

static uint64_t came_by(const struct op *op)
{
    const exs_event_t *event = &op->event;

    return event->exs_evt_type == EXS_EVT_RECVMSG ? event->exs_evt_union.exs_evt_xfermsg.exs_evt_length
                                                  : event->exs_evt_union.exs_evt_xfer.exs_evt_length;
}

/* ---- From the start to the event ---------------------------------------------------------------- */

static bool add_held(struct held *held, struct held **all)
{
    HASH_ADD_PTR(*all, op, held);
    bool is_kept = held->hh.tbl != NULL;

    if (!is_kept) /* no memory: the buffers are not checked */
        free(held);
    return is_kept;
}

static void free_held(struct held *held)
{
    for (uint32_t i = 0; held != NULL && i < held->count; i++)
        free(held->ranges[i].kept);
    free(held);
}

/* NULL: no memory; the buffers are not checked. */
static struct held *new_held(const struct op *op, int most)
{
    struct held *held = calloc(1, sizeof(*held) + (size_t)most * sizeof(held->ranges[0]));

    if (held == NULL)
        return NULL;
    held->op = op;
    held->type = op->event.exs_evt_type;
    held->sockno = op->event.exs_evt_socket;
    return held;
}

static void begin_held(struct held *held)
{
    bool is_filled = op_fills_buffer(held->type);

    for (uint32_t i = 0; i < held->count; i++)
        held->ranges[i].is_there = read_range(&held->ranges[i], is_filled, &held->ranges[i].crc);
    pthread_mutex_lock(&lock);
    bool overlaps = overlaps_any(held, filled) || (is_filled && overlaps_any(held, sent));

    bool is_kept = add_held(held, is_filled ? &filled : &sent);

    for (uint32_t i = 0; is_kept && !overlaps && is_poisoned(held->type) && i < held->count; i++)
        poison_range(&held->ranges[i]);
    pthread_mutex_unlock(&lock);
}

void xs_held_begin(const struct op *op, const struct ask *ask)
{
    struct held *held = new_held(op, ranges_of(ask));

    if (held == NULL)
        return;
    add_ranges(held, ask);
    begin_held(held);
}

void xs_held_begin_element(const struct op *op)
{
    const exs_acceptaddr_t *element = op->accept.element;
    struct held *held = new_held(op, 2);

    if (held == NULL)
        return;
    add_range(held, element, sizeof(*element));
    if (element->exs_addr != NULL)
        add_range(held, element->exs_addr, element->exs_addrlen);
    begin_held(held);
}

static struct held *take_held(struct held **all, const struct op *op)
{
    struct held *held;

    HASH_FIND_PTR(*all, &op, held);
    if (held != NULL)
        HASH_DEL(*all, held);
    return held;
}

void xs_held_end(const struct op *op)
{
    bool is_filled = op_fills_buffer(op->event.exs_evt_type);

    pthread_mutex_lock(&lock);
    struct held *held = take_held(is_filled ? &filled : &sent, op);

    pthread_mutex_unlock(&lock);
    if (held != NULL) {
        compare_ranges(held);
        give_back(held, came_by(op));
    }
    free_held(held);
}

void xs_held_reset(void)
{
    pthread_mutex_init(&lock, NULL);
    sent = filled = NULL;
}
