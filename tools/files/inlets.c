/* SPDX-License-Identifier: BSD-2-Clause */
/* inlets.c - the set of all connections of exs-serve: limits on their number, time limits, and shutdown.
 *
 * A client that exceeds the limit of its host gets an error message. This costs little memory: all refused connections
 * receive into the same buffer, which is never read. */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "inlet_state.h"
#include "kept.h"
#include "log.h"
#include "tools/common/options.h"

enum {
    REFUSED_MAX = 16, /* maximum connections of one host that are being refused with a message */
    SHARES = 8,       /* while all connections are in use, the share of a host is an eighth of them */
    LINE = 1536,      /* bytes of a message: a name and a reason */
};

/* ---- Messages ------------------------------------------------------------------------------------------ */

static void say_suppressed(unsigned long lines)
{
    if (lines > 0)
        log_line(stderr, "%lu more lines suppressed", lines);
}

void inlets_say(struct inlets *inlets, const char *format, ...)
{
    va_list arguments;
    char line[LINE];

    if (!lines_take(&inlets->lines))
        return;
    va_start(arguments, format);
    vsnprintf(line, sizeof(line), format, arguments);
    va_end(arguments);
    log_line(stderr, "%s", line);
}

static void say_given(unsigned long files)
{
    if (files > 0)
        log_line(stdout, "gave %lu more files", files);
}

/* ---- Time ---------------------------------------------------------------------------------------------- */

void inlets_second(struct inlets *inlets)
{
    struct inlet *inlet;

    LIST_FOREACH (inlet, &inlets->list, link)
        if (!inlet->closing)
            inlet_second(inlet);
    kept_second(&inlets->store);
    hosts_second(&inlets->hosts);
    say_suppressed(lines_second(&inlets->lines));
    say_given(lines_second(&inlets->given));
}

/* Resets the client's time limits, because it waits for this process. The number of bytes to read for it has a separate
 * limit (hosts.h). */
static void read_for(struct inlet *inlet)
{
    inlet->silent = inlet->seconds = 0;
    if (giving_read(inlet->giving) == -1 || (!giving_reads(inlet->giving) && inlet_give(inlet) == -1))
        inlet_failed(inlet, errno);
}

void inlets_read(struct inlets *inlets)
{
    struct inlet *inlet = STAILQ_FIRST(&inlets->readers);

    if (inlet == NULL)
        return;
    STAILQ_REMOVE_HEAD(&inlets->readers, reader_link);
    inlet->is_reader = false;
    read_for(inlet);
    if (!inlet->closing && giving_reads(inlet->giving)) {
        inlet->is_reader = true;
        STAILQ_INSERT_TAIL(&inlets->readers, inlet, reader_link);
    }
    if (!STAILQ_EMPTY(&inlets->readers))
        inlets->again(inlets);
}

/* ---- Opening and closing ------------------------------------------------------------------------------- */

void inlets_begin(struct inlets *inlets)
{
    inlets->lines = lines_begin();
    inlets->given = lines_begin();
    memset(&inlets->hosts, 0, sizeof(inlets->hosts));
    STAILQ_INIT(&inlets->readers);
}

/* Returns the number of connections of the peer's host that were refused, or that were not. */
static int count_of(const struct inlets *inlets, const struct sockaddr_storage *peer, bool refused)
{
    const struct inlet *inlet;
    int count = 0;

    LIST_FOREACH (inlet, &inlets->list, link)
        count += inlet->refused == refused && hosts_same(&inlet->peer, peer);
    return count;
}

/* Whether the host has reached both its limits, for accepted and for refused connections. A further connection is then
 * closed without a message. */
static bool is_told_enough(const struct inlets *inlets, const struct sockaddr_storage *peer)
{
    return count_of(inlets, peer, false) >= inlets->of_one && count_of(inlets, peer, true) >= REFUSED_MAX;
}

bool inlets_are_crowded_by(const struct inlet *inlet)
{
    const struct inlets *inlets = inlet->inlets;

    return inlets->count >= inlets->most && count_of(inlets, &inlet->peer, false) > inlets->most / SHARES;
}

static struct inlet *new_inlet(struct inlets *inlets, const struct sockaddr_storage *peer)
{
    struct inlet *inlet = calloc(1, sizeof(*inlet));

    if (inlet == NULL)
        return NULL;
    inlet->peer = *peer;
    inlet->refused = count_of(inlets, peer, false) >= inlets->of_one;
    inlet->block = inlet->refused ? block_sink(&inlets->blocks) : block_take(&inlets->blocks);
    inlet->outbox = malloc(sizeof(*inlet->outbox));
    if (inlet->outbox != NULL && inlet->block != NULL &&
        intake_open(&inlet->intake, &inlets->store, &inlet->peer) == 0) {
        inlet->outbox->length = 0;
        return inlet;
    }
    free(inlet->outbox);
    block_return(&inlets->blocks, inlet->block);
    free(inlet);
    return NULL;
}

static void turn_away(struct inlets *inlets, int sock, const struct sockaddr_storage *peer, const char *why)
{
    char text[OPTIONS_ADDRESS_MAX];

    inlets_say(inlets, "%s: turned away: %s", options_address_text(peer, text), why);
    exs_close(sock, 0, NULL, NULL);
}

void inlet_open(struct inlets *inlets, int sock, const struct sockaddr_storage *peer)
{
    if (is_told_enough(inlets, peer)) {
        turn_away(inlets, sock, peer, "too many connections of one address");
        return;
    }
    struct inlet *inlet = new_inlet(inlets, peer);

    if (inlet == NULL) {
        turn_away(inlets, sock, peer, strerror(errno));
        return;
    }
    inlet->inlets = inlets;
    inlet->sock = sock;
    if (exs_getdevice(sock, inlet->device, sizeof(inlet->device)) == -1)
        snprintf(inlet->device, sizeof(inlet->device), "?");
    LIST_INSERT_HEAD(&inlets->list, inlet, link);
    inlets->count++;
    if (inlets->count == inlets->most)
        inlets_say(inlets, "all %d connections are in use: further clients wait, and some are refused",
                   inlets->most);
    if (inlets->ending)
        inlet_close(inlet); /* accepted before the shutdown, which waits for the close event */
    else if (!inlet_begin(inlet))
        inlet_failed(inlet, errno);
}

int inlets_finish(struct inlets *inlets)
{
    struct inlet *inlet;
    int busy = 0;

    inlets->ending = true;
    LIST_FOREACH (inlet, &inlets->list, link) {
        if (inlet->closing)
            continue;
        if (inlet_is_over(inlet))
            inlet_close(inlet);
        else
            busy++;
    }
    return busy;
}

void inlets_close_all(struct inlets *inlets)
{
    struct inlet *inlet;

    inlets->store.limits.keep = 0; /* unfinished files are removed, because no client can resume them */
    LIST_FOREACH (inlet, &inlets->list, link)
        if (!inlet->closing) {
            if (intake_idle(&inlet->intake) && inlet->giving == NULL)
                inlet_close(inlet);
            else
                inlet_broken(inlet, "the server is ending");
        }
}

void inlets_free(struct inlets *inlets)
{
    blocks_free(&inlets->blocks);
    say_suppressed(lines_end(&inlets->lines));
    say_given(lines_end(&inlets->given));
}
