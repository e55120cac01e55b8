/* SPDX-License-Identifier: BSD-2-Clause */
/* inlet.c - one connection of exs-serve. BLOCK_SLOTS large receives are posted; received bytes are consumed in order,
 * and replies or files are sent in between. */

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "inlet_state.h"
#include "log.h"
#include "tools/common/clock.h"
#include "tools/common/options.h"
#include "tools/common/terminal.h"

enum {
    GRANT_MAX = 600,       /* seconds, plus one for each GRANT_READ */
    GRANT_READ = 16 << 20, /* minimum bytes that a client's disk reads in a second */
    PIECE_MIN = 16 << 10,  /* minimum bytes of a piece of a file that is sent */
    FILE_WORTH =
        64 << 10, /* minimum bytes that a stored or sent file counts as, because each costs a round trip */
};

/* ---- Messages and closing ------------------------------------------------------------------------------ */

void inlet_close(struct inlet *inlet)
{
    if (inlet->closing)
        return;
    inlet->closing = true;
    intake_close(&inlet->intake);
    if (inlet->is_reader)
        STAILQ_REMOVE(&inlet->inlets->readers, inlet, inlet, reader_link);
    if (exs_close(inlet->sock, 0, inlet->inlets->queue, inlet) == -1) {
        perror("exs-serve: exs_close");
        abort(); /* the posted receives would keep their memory in use for ever */
    }
}

static void inlet_closed(struct inlet *inlet)
{
    struct inlets *inlets = inlet->inlets;

    LIST_REMOVE(inlet, link);
    if (inlet->giving != NULL && giving_reads(inlet->giving))
        hosts_repay(&inlets->hosts, &inlet->peer, inlet->giving->there - inlet->giving->read);
    block_return(&inlets->blocks, inlet->block);
    giving_close(inlet->giving);
    inlets->count--;
    free(inlet->outbox);
    free(inlet);
    inlets->gone(inlets);
}

void inlet_broken(struct inlet *inlet, const char *what)
{
    char text[OPTIONS_ADDRESS_MAX];

    inlets_say(inlet->inlets, "%s: %s%s", options_address_text(&inlet->peer, text), what,
               inlet->giving != NULL          ? ", it did not get all of a file"
               : intake_idle(&inlet->intake)  ? ""
               : intake_keeps(&inlet->intake) ? ", an unfinished file is kept for a while"
                                              : ", an unfinished file was dropped");
    inlet_close(inlet);
}

void inlet_failed(struct inlet *inlet, int error)
{
    const struct giving *giving = inlet->giving != NULL ? inlet->giving : inlet->intake.giving;
    char why[TRANSFER_PATH_MAX + 64];

    if (error == EIO && giving != NULL && giving_is_shorter(giving)) {
        snprintf(why, sizeof(why), "%s became shorter while it was sent", giving->name);
        inlet_broken(inlet, terminal_filter(why));
    } else {
        inlet_broken(inlet, strerror(error));
    }
}

/* ---- Replies ------------------------------------------------------------------------------------------- */

/* Prints the refusal with the name of the file, if that is known. */
static void report_refused(const struct inlet *inlet, const char *address)
{
    const struct intake *intake = &inlet->intake;
    char name[TRANSFER_PATH_MAX + 1];

    snprintf(name, sizeof(name), "%s", intake->name);
    inlets_say(inlet->inlets, "%s: %s%s: %s", address,
               name[0] == '\0'                     ? "refused"
               : transfer_is_wish(&intake->header) ? "was not given "
                                                   : "refused ",
               terminal_filter(name), intake_text(intake));
}

static void report_file(const struct inlet *inlet)
{
    const struct intake *intake = &inlet->intake;
    double seconds = clock_seconds() - intake->started;
    double size = (double)intake->header.size, moved = size - (double)intake->from;
    char address[OPTIONS_ADDRESS_MAX], digest[2 * TRANSFER_DIGEST + 1], name[TRANSFER_PATH_MAX + 1];

    options_address_text(&inlet->peer, address);
    transfer_digest_text(intake->result.digest, digest);
    snprintf(name, sizeof(name), "%s", intake->file.name);
    if (intake->result.status == TRANSFER_STORED)
        log_line(stdout, "%s: %.0f bytes in %.3f s, %.2f GB/s, digest %s, from %s by %s", terminal_filter(name),
                 size, seconds, moved / 1e9 / seconds, digest, address, inlet->device);
    else
        report_refused(inlet, address);
}

/* A client that resumes first reads and hashes the bytes that it has sent before. It gets the time that sending them at
 * the minimum rate takes, but not more than reading from a slow disk takes. With less time it would be disconnected in
 * each attempt. */
static void grant_time(struct inlet *inlet)
{
    uint64_t written = inlet->intake.file.written, seconds = written / inlet->inlets->rate;
    uint64_t most = GRANT_MAX + written / GRANT_READ;

    if (seconds > most)
        seconds = most;
    if (seconds > 0)
        inlet->silent = inlet->seconds = -(int)(seconds < INT_MAX ? seconds : INT_MAX);
}

/* A small file counts as FILE_WORTH bytes, because it costs a round trip. If the server is full and the client's host
 * has more than its share of connections, only its bytes count: otherwise a client that gets an empty file each second
 * could hold a connection for 33 bytes a second. */
static void credit_file(struct inlet *inlet, uint64_t size)
{
    if (size < FILE_WORTH && !inlets_are_crowded_by(inlet))
        inlet->brought += FILE_WORTH;
}

static int send_outbox(struct inlet *inlet)
{
    inlet->replying = true;
    return (int)exs_send(inlet->sock, inlet->outbox->bytes, inlet->outbox->length, 0, inlet->inlets->queue,
                         inlet, NULL);
}

/* Moves the reply to the outbox. */
static void take_reply(struct inlet *inlet)
{
    struct intake *intake = &inlet->intake;

    if (intake->result.status == TRANSFER_GO)
        grant_time(inlet);
    else
        report_file(inlet);
    if (intake->result.status == TRANSFER_STORED)
        credit_file(inlet, intake->header.size);
    outbox_put(inlet->outbox, intake->reply, intake->reply_length);
    intake->reply_length = 0;
}

static int send_reply(struct inlet *inlet)
{
    take_reply(inlet);
    return send_outbox(inlet);
}

/* ---- Sending files ------------------------------------------------------------------------------------- */

static void report_given(const struct inlet *inlet, struct giving *giving)
{
    double seconds = clock_seconds() - giving->started, bytes = (double)(giving->size - giving->from);
    char address[OPTIONS_ADDRESS_MAX], digest[2 * TRANSFER_DIGEST + 1];

    if (giving->fd == -1 || !lines_take(&inlet->inlets->given))
        return;
    transfer_digest_text(giving->digest, digest);
    log_line(stdout, "%s: gave %.0f bytes in %.3f s, %.2f GB/s, digest %s, to %s by %s",
             terminal_filter(giving->name), bytes, seconds, bytes / 1e9 / seconds, digest,
             options_address_text(&inlet->peer, address), inlet->device);
}

int inlet_give(struct inlet *inlet)
{
    struct giving *giving = inlet->giving;
    exs_xferfile_t vector[GIVING_PARTS];

    while (inlet->flying < GIVING_FLYING) {
        int count = giving_next(giving, vector);

        if (count == -1)
            return -1;
        if (count == 0)
            return 0;
        if (exs_sendfile(inlet->sock, vector, count, 0, inlet->inlets->queue, inlet) == -1)
            return -1;
        inlet->flying++;
    }
    return 0;
}

/* Returns the bytes of a piece: so few that a client at the minimum rate completes several pieces in `patience`
 * seconds, and does not time out. */
static size_t piece_for(const struct inlets *inlets)
{
    uint64_t piece = inlets->rate * (uint64_t)inlets->patience / 8;

    return piece < PIECE_MIN ? PIECE_MIN : piece < GIVING_PIECE ? (size_t)piece : GIVING_PIECE;
}

/* A client may claim at no cost to have many bytes, which the server must read. Refuses the request and returns true if
 * the client's host has too much debt (hosts.h). */
static bool refuses_to_read(struct inlet *inlet)
{
    struct giving *giving = inlet->intake.giving;
    char why[TRANSFER_TEXT_MAX];
    uint64_t seconds =
        giving_reads(giving) ? hosts_borrow(&inlet->inlets->hosts, &inlet->peer, giving->there) : 0;

    if (seconds == 0)
        return false;
    snprintf(why, sizeof(why),
             "too much was read for your address that it did not take: go on in %" PRIu64 " seconds", seconds);
    giving_close(giving);
    inlet->intake.giving = NULL;
    intake_refuse(&inlet->intake, why);
    return true;
}

static int put_small(struct inlet *inlet)
{
    struct giving *giving = inlet->intake.giving;

    if (outbox_put_giving(inlet->outbox, giving) == -1)
        return -1;
    report_given(inlet, giving);
    credit_file(inlet, giving->size);
    giving_close(intake_take_giving(&inlet->intake));
    return 0;
}

static int begin_to_give(struct inlet *inlet)
{
    struct inlets *inlets = inlet->inlets;

    inlet->giving = intake_take_giving(&inlet->intake);
    inlet->giving->piece = piece_for(inlets);
    inlet->replying = true;
    if (!giving_reads(inlet->giving))
        return inlet_give(inlet);
    inlet->is_reader = true;
    if (STAILQ_EMPTY(&inlets->readers))
        inlets->again(inlets);
    STAILQ_INSERT_TAIL(&inlets->readers, inlet, reader_link);
    return 0;
}

/* ---- Time ---------------------------------------------------------------------------------------------- */

/* Sends the reason; the client has another `patience` seconds to read it. Closes immediately if a send is in flight. */
static void slow_close(struct inlet *inlet, const char *why)
{
    if (inlet->replying || inlet->intake.state == INTAKE_REFUSED) {
        inlet_broken(inlet, why);
        return;
    }
    intake_refuse(&inlet->intake, why);
    inlet->silent = inlet->seconds = 0;
    if (send_reply(inlet) == -1)
        inlet_failed(inlet, errno);
}

/* Returns the bytes in flight: the client may have received nearly all of a piece that has not completed. */
static uint64_t under_way(const struct inlet *inlet)
{
    return inlet->giving == NULL ? 0 : inlet->giving->piece;
}

/* Seconds are counted by a timer of the loop, so the time during which the disk blocks this process does not count
 * against clients. In each period of `patience` seconds a connection must transfer enough bytes, so that a client
 * cannot hold it with a few bytes now and then. */
void inlet_second(struct inlet *inlet)
{
    const struct inlets *inlets = inlet->inlets;

    inlet->seconds++;
    if (++inlet->silent > inlets->patience) {
        slow_close(inlet, "silent for too long (exs-serve -t)");
    } else if (inlet->seconds > inlets->patience) {
        if (inlet->intake.state == INTAKE_REFUSED)
            inlet_close(inlet); /* the client has had time to read the reason */
        else if (inlet->brought + under_way(inlet) < inlets->rate * (uint64_t)inlets->patience)
            slow_close(inlet, "too slow (exs-serve -r)");
        inlet->seconds = 0;
        inlet->brought = 0;
    }
}

/* ---- Transfers ----------------------------------------------------------------------------------------- */

static int post_receive(struct inlet *inlet, unsigned slot)
{
    unsigned char *memory = inlet->block->memory + (size_t)(slot % BLOCK_SLOTS) * BLOCK_SLOT;

    return (int)exs_recv(inlet->sock, memory, BLOCK_SLOT, 0, inlet->inlets->queue, inlet, inlet->block->region);
}

bool inlet_is_over(const struct inlet *inlet)
{
    return inlet->inlets->ending && !inlet->replying && intake_idle(&inlet->intake);
}

/* Starts the requested file or list, after the replies before it were sent. */
static int continue_giving(struct inlet *inlet)
{
    if (outbox_suits(inlet->intake.giving))
        return outbox_takes(inlet->outbox, inlet->intake.giving) ? put_small(inlet) : 0;
    if (inlet->outbox->length > 0 || refuses_to_read(inlet))
        return 0;
    return begin_to_give(inlet);
}

/* Whether the client waits for the bytes in the outbox, or the outbox is full. Otherwise the outbox is sent after all
 * received bytes were consumed. */
static bool must_send(const struct inlet *inlet)
{
    return inlet->outbox->length > 0 && !inlet->replying &&
           (inlet->intake.state == INTAKE_OFFSET || inlet->intake.state == INTAKE_REFUSED ||
            inlet->intake.giving != NULL || !outbox_takes_reply(inlet->outbox));
}

/* Passes the bytes of the oldest slot to the intake. Posts the slot again after all of them were consumed. */
static int feed_slots(struct inlet *inlet)
{
    unsigned slot = inlet->consumed;
    size_t length = inlet->lengths[slot % BLOCK_SLOTS];
    const unsigned char *memory = inlet->block->memory + (size_t)(slot % BLOCK_SLOTS) * BLOCK_SLOT;

    inlet->used += intake_feed(&inlet->intake, memory + inlet->used, length - inlet->used);
    if (inlet->used < length)
        return 0;
    inlet->used = 0;
    inlet->consumed++;
    return inlet->ended ? 0 : post_receive(inlet, slot);
}

/* While the outbox or a file is being sent, received bytes stay in their slots. This slows down a client that sends
 * faster than it reads. */
static int consume_slots(struct inlet *inlet)
{
    struct intake *intake = &inlet->intake;

    while (!inlet->replying && !inlet_is_over(inlet) &&
           (intake->giving != NULL || inlet->consumed != inlet->filled)) {
        if (intake->giving == NULL && feed_slots(inlet) == -1)
            return -1;
        if (intake->giving != NULL && continue_giving(inlet) == -1)
            return -1;
        if (intake->reply_length > 0)
            take_reply(inlet);
        if (must_send(inlet) && send_outbox(inlet) == -1)
            return -1;
    }
    return inlet->outbox->length > 0 && !inlet->replying ? send_outbox(inlet) : 0;
}

static int slot_received(struct inlet *inlet, size_t length)
{
    if (length == 0) {
        inlet->ended = true;
    } else {
        inlet->lengths[inlet->filled++ % BLOCK_SLOTS] = length;
        inlet->silent = 0;
        inlet->brought += length;
    }
    return consume_slots(inlet);
}

static int reply_sent(struct inlet *inlet)
{
    inlet->replying = false;
    if (inlet->silent > 0) /* negative: it has more time, see grant_time() */
        inlet->silent = 0;
    inlet->brought += inlet->outbox->length;
    inlet->outbox->length = 0;
    if (inlet->intake.state == INTAKE_REFUSED && !inlet->ended &&
        exs_shutdown(inlet->sock, SHUT_WR, 0, inlet->inlets->queue, inlet) == -1)
        return -1;
    return consume_slots(inlet);
}

/* A vector of a file or list was sent. */
static int vector_sent(struct inlet *inlet, uint64_t length)
{
    inlet->flying--;
    inlet->silent = 0;
    inlet->brought += length;
    hosts_repay(&inlet->inlets->hosts, &inlet->peer, length);
    if (!inlet->giving->over || inlet->flying > 0)
        return inlet_give(inlet);
    report_given(inlet, inlet->giving);
    credit_file(inlet, inlet->giving->size);
    giving_close(inlet->giving);
    inlet->giving = NULL;
    inlet->replying = false;
    return consume_slots(inlet);
}

static int handle_event(struct inlet *inlet, const exs_event_t *event)
{
    if (event->exs_evt_errno != 0) {
        errno = event->exs_evt_errno;
        return -1;
    }
    if (event->exs_evt_type == EXS_EVT_RECV)
        return slot_received(inlet, (size_t)exs_event_result(event));
    if (event->exs_evt_type == EXS_EVT_SEND)
        return reply_sent(inlet);
    if (event->exs_evt_type == EXS_EVT_SENDFILE)
        return vector_sent(inlet, (uint64_t)exs_event_result(event));
    return 0;
}

void inlet_event(struct inlet *inlet, const exs_event_t *event)
{
    if (event->exs_evt_type == EXS_EVT_CLOSE) {
        inlet_closed(inlet);
        return;
    }
    if (inlet->closing)
        return; /* the events of cancelled operations arrive before the close event */
    if (handle_event(inlet, event) == -1)
        inlet_failed(inlet, errno);
    else if (inlet_is_over(inlet))
        inlet_close(inlet);
    else if (!inlet->ended || inlet->consumed != inlet->filled || inlet->replying)
        return;
    else if (intake_idle(&inlet->intake))
        inlet_close(inlet);
    else
        inlet_broken(inlet, "ended in the middle of a file");
}

bool inlet_begin(struct inlet *inlet)
{
    char why[TRANSFER_TEXT_MAX];

    for (unsigned slot = 0; slot < BLOCK_SLOTS; slot++)
        if (post_receive(inlet, slot) == -1)
            return false;
    if (!inlet->refused)
        return true;
    snprintf(why, sizeof(why), "your address has %d connections already, as many as it may (exs-serve -c)",
             inlet->inlets->of_one);
    intake_refuse(&inlet->intake, why);
    return send_reply(inlet) == 0;
}
