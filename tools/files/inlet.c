/* SPDX-License-Identifier: BSD-2-Clause */
/* One connection of exs-serve: a few large receives always posted, consumed in order, replies in between. */
#include "inlet.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "intake.h"
#include "tools/common/options.h"

enum {
    SLOTS = 4,           /* receives posted at once: while one is consumed the others fill */
    SLOT_SIZE = 1 << 20, /* bytes; also the longest that one event keeps the loop from others */
};

/* Owned by itself, from inlet_open to its close event; used by the loop's thread only. */
struct inlet {
    LIST_ENTRY(inlet) link;
    struct inlets *inlets;
    struct inlet_block *block;
    struct intake intake;
    ev_timer idle;
    int sock;
    bool closing, replying, ended;
    unsigned filled, consumed;   /* slots, counted for ever; slot n is at n % SLOTS */
    size_t lengths[SLOTS], used; /* bytes arrived in each, and consumed of the oldest */
    struct sockaddr_storage peer;
    char device[32];
};

static struct inlet_block *take_block(struct inlets *inlets)
{
    struct inlet_block *block = SLIST_FIRST(&inlets->blocks);

    if (block != NULL) {
        SLIST_REMOVE_HEAD(&inlets->blocks, link);
        return block;
    }
    block = malloc(sizeof(*block));
    if (block == NULL)
        return NULL;
    block->memory = aligned_alloc(4096, (size_t)SLOTS * SLOT_SIZE);
    block->region = EXS_MHANDLE_INVALID;
    if (block->memory != NULL)
        block->region = exs_mregister(block->memory, (size_t)SLOTS * SLOT_SIZE, EXS_MRF_SEND_DISABLE);
    if (block->region != EXS_MHANDLE_INVALID)
        return block;
    free(block->memory);
    free(block);
    return NULL;
}

static void inlet_close(struct inlet *inlet)
{
    if (inlet->closing)
        return;
    inlet->closing = true;
    ev_timer_stop(inlet->inlets->loop, &inlet->idle);
    intake_close(&inlet->intake);
    if (exs_close(inlet->sock, 0, inlet->inlets->queue, inlet) == -1) {
        perror("exs-serve: exs_close");
        abort(); /* receives are posted into memory that could never be given back */
    }
}

static void inlet_closed(struct inlet *inlet)
{
    struct inlets *inlets = inlet->inlets;

    LIST_REMOVE(inlet, link);
    SLIST_INSERT_HEAD(&inlets->blocks, inlet->block, link);
    inlets->count--;
    free(inlet);
    inlets->gone(inlets);
}

static void inlet_broken(struct inlet *inlet, const char *what)
{
    char text[OPTIONS_ADDRESS_MAX];

    fprintf(stderr, "exs-serve: %s: %s%s\n", options_address_text(&inlet->peer, text), what,
            intake_idle(&inlet->intake) ? "" : ", an unfinished file was dropped");
    inlet_close(inlet);
}

static void idle_cb(EV_P_ ev_timer *timer, int revents)
{
    (void)loop, (void)revents;
    inlet_broken(timer->data, "silent for too long (see option -t)");
}

static int post(struct inlet *inlet, unsigned slot)
{
    unsigned char *memory = inlet->block->memory + (size_t)(slot % SLOTS) * SLOT_SIZE;

    return (int)exs_recv(inlet->sock, memory, SLOT_SIZE, 0, inlet->inlets->queue, inlet, inlet->block->region);
}

static void report(const struct inlet *inlet)
{
    const struct intake *intake = &inlet->intake;
    double seconds = intake_clock() - intake->started;
    double size = (double)intake->header.size;
    char address[OPTIONS_ADDRESS_MAX], digest[2 * TRANSFER_DIGEST + 1];

    options_address_text(&inlet->peer, address);
    transfer_digest_text(intake->result.digest, digest);
    if (intake->result.status == TRANSFER_STORED)
        printf("exs-serve: %s: %.0f bytes in %.3f s, %.2f GB/s, digest %s, from %s by %s\n", intake->file.name,
               size, seconds, size / 1e9 / seconds, digest, address, inlet->device);
    else
        fprintf(stderr, "exs-serve: %s: refused a file: %s\n", address, intake_text(intake));
}

static int reply(struct inlet *inlet)
{
    report(inlet);
    inlet->replying = true;
    return (int)exs_send(inlet->sock, inlet->intake.reply, inlet->intake.reply_length, 0, inlet->inlets->queue,
                         inlet, NULL);
}

/* While a reply is on its way, what has arrived waits in its slots: so a hasty client is slowed down. */
static int consume(struct inlet *inlet)
{
    while (inlet->consumed != inlet->filled && !inlet->replying) {
        unsigned slot = inlet->consumed;
        size_t length = inlet->lengths[slot % SLOTS];
        const unsigned char *memory = inlet->block->memory + (size_t)(slot % SLOTS) * SLOT_SIZE;

        inlet->used += intake_feed(&inlet->intake, memory + inlet->used, length - inlet->used);
        if (inlet->intake.reply_length > 0 && reply(inlet) == -1)
            return -1;
        if (inlet->used < length)
            return 0;
        inlet->used = 0;
        inlet->consumed++;
        if (!inlet->ended && post(inlet, slot) == -1)
            return -1;
    }
    return 0;
}

static int received(struct inlet *inlet, size_t length)
{
    if (length == 0) {
        inlet->ended = true;
    } else {
        inlet->lengths[inlet->filled++ % SLOTS] = length;
        ev_timer_again(inlet->inlets->loop, &inlet->idle);
    }
    return consume(inlet);
}

static int sent(struct inlet *inlet)
{
    inlet->replying = false;
    inlet->intake.reply_length = 0;
    if (inlet->intake.state == INTAKE_REFUSED && !inlet->ended &&
        exs_shutdown(inlet->sock, SHUT_WR, 0, inlet->inlets->queue, inlet) == -1)
        return -1;
    return consume(inlet);
}

static int done(struct inlet *inlet, const exs_event_t *event)
{
    if (event->exs_evt_errno != 0) {
        errno = event->exs_evt_errno;
        return -1;
    }
    if (event->exs_evt_type == EXS_EVT_RECV)
        return received(inlet, event->exs_evt_union.exs_evt_xfer.exs_evt_length);
    if (event->exs_evt_type == EXS_EVT_SEND)
        return sent(inlet);
    return 0;
}

void inlet_event(struct inlet *inlet, const exs_event_t *event)
{
    if (event->exs_evt_type == EXS_EVT_CLOSE) {
        inlet_closed(inlet);
        return;
    }
    if (inlet->closing)
        return; /* the cancelled ones, which come before the close event */
    if (done(inlet, event) == -1)
        inlet_broken(inlet, strerror(errno));
    else if (!inlet->ended || inlet->consumed != inlet->filled || inlet->replying)
        return;
    else if (intake_idle(&inlet->intake))
        inlet_close(inlet);
    else
        inlet_broken(inlet, "ended in the middle of a file");
}

void inlet_open(struct inlets *inlets, int sock, const struct sockaddr_storage *peer)
{
    struct inlet *inlet = calloc(1, sizeof(*inlet));
    struct inlet_block *block = take_block(inlets);

    if (inlet == NULL || block == NULL || intake_open(&inlet->intake, &inlets->store) == -1)
        goto failed;
    inlet->inlets = inlets;
    inlet->block = block;
    inlet->sock = sock;
    inlet->peer = *peer;
    if (exs_getdevice(sock, inlet->device, sizeof(inlet->device)) == -1)
        snprintf(inlet->device, sizeof(inlet->device), "?");
    ev_timer_init(&inlet->idle, idle_cb, 0., inlets->patience);
    inlet->idle.data = inlet;
    ev_timer_again(inlets->loop, &inlet->idle);
    LIST_INSERT_HEAD(&inlets->list, inlet, link);
    inlets->count++;
    for (unsigned slot = 0; slot < SLOTS; slot++)
        if (post(inlet, slot) == -1) {
            inlet_broken(inlet, strerror(errno));
            return;
        }
    return;
failed:
    perror("exs-serve: no memory for a connection");
    if (block != NULL)
        SLIST_INSERT_HEAD(&inlets->blocks, block, link);
    free(inlet);
    exs_close(sock, 0, NULL, NULL);
}

void inlets_close_all(struct inlets *inlets)
{
    struct inlet *inlet;

    LIST_FOREACH (inlet, &inlets->list, link)
        if (!inlet->closing) {
            if (intake_idle(&inlet->intake))
                inlet_close(inlet);
            else
                inlet_broken(inlet, "the server is ending");
        }
}

void inlets_free(struct inlets *inlets)
{
    while (!SLIST_EMPTY(&inlets->blocks)) {
        struct inlet_block *block = SLIST_FIRST(&inlets->blocks);

        SLIST_REMOVE_HEAD(&inlets->blocks, link);
        exs_mderegister(block->region, 0);
        free(block->memory);
        free(block);
    }
}
