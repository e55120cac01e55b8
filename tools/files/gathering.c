/* SPDX-License-Identifier: BSD-2-Clause */
/* gathering.c - gets the picks in order, with a window of files that are requested ahead. See gathering.h. */
#include "gathering.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "progress.h"
#include "special.h"
#include "tools/common/terminal.h"

enum { WINDOW = 2 * FETCH_ASK_MAX }; /* maximum files requested ahead */

/* Owned by gathering_get(). */
struct gathering {
    struct fetch *fetch;
    const struct addrinfo *addresses;
    struct picks *picks;
    const struct target *target;
    struct account *account;
    size_t next, asked;              /* index of the pick to receive next; of the first one not requested */
    struct progress progress;        /* of all files; a large file has its own bar */
    struct recent recent;            /* below the target; forgotten before files are requested */
    struct landing landings[WINDOW]; /* of picks from `next` to before `asked`; pick n is at n % WINDOW */
};

/* ---- What is printed ----------------------------------------------------------------------------------- */

/* Copies a path, which may be from the server, without control characters. */
static void filter_path(char shown[TRANSFER_PATH_MAX + 1], const char *path)
{
    snprintf(shown, TRANSFER_PATH_MAX + 1, "%s", path);
    terminal_filter(shown);
}

void gathering_account_failed(struct account *account, const struct fetch *fetch, const char *path)
{
    char shown[TRANSFER_PATH_MAX + 1];

    filter_path(shown, path);
    account_failed(account, shown, fetch->client.error);
}

static void settle_pick(struct gathering *g, struct pick *pick, int result)
{
    const struct fetch *fetch = g->fetch;
    char shown[TRANSFER_PATH_MAX + 1];

    pick->is_settled = true;
    if (result == -1) {
        progress_end(&g->progress);
        gathering_account_failed(g->account, fetch, pick->path);
        return;
    }
    filter_path(shown, pick->path);
    const struct account_file file = {.path = shown,
                                      .size = fetch->size,
                                      .resumed = fetch->resumed,
                                      .seconds = fetch->seconds,
                                      .digest = fetch->digest};

    account_done(g->account, &file);
    progress_count(&g->progress, pick->name, g->account->done, g->picks->count, g->account->bytes);
}

static void leave_out(struct gathering *g)
{
    for (size_t i = 0; i < g->picks->count; i++)
        if (!g->picks->list[i].is_settled)
            account_left_out(g->account, g->picks->list[i].path);
}

/* Adds to the error that the part is kept, because its name begins with a dot and ls(1) does not show it. */
static void say_kept(struct client *client, uint64_t kept)
{
    size_t length = strlen(client->error);

    snprintf(client->error + length, sizeof(client->error) - length,
             "; %" PRIu64 " bytes are kept, and the next attempt goes on from there", kept);
}

/* ---- A file -------------------------------------------------------------------------------------------- */

static int open_landing(struct gathering *g, struct landing *landing, const struct pick *pick)
{
    const struct target *target = g->target;
    struct client *client = &g->fetch->client;

    if (target->output != -1) {
        landing_open_output(landing, target->output);
        return 0;
    }
    if (landing_open(landing, &g->recent, target->folder, target->name != NULL ? target->name : pick->name) ==
        0)
        return 0;
    if (errno == EBUSY)
        return client_failed_text(client, "cannot write", "another exs-get gets it right now");
    if (errno == EEXIST)
        return client_failed_text(client, "cannot write", "another program uses its temporary name");
    if (errno == ENODEV)
        return client_failed_text(client, "cannot write", "what has its name is no file: -o writes to it");
    return client_failed(client, "cannot write");
}

static int make_folder(struct gathering *g, const struct pick *pick)
{
    const struct transfer_header header = {
        .mode = pick->details.mode, .seconds = pick->details.seconds, .nanoseconds = pick->details.nanoseconds};
    uint64_t may_make = TRANSFER_FOLDERS_MAX;
    mode_t mask = umask(0);

    umask(mask);
    g->fetch->size = g->fetch->resumed = 0;
    g->fetch->seconds = 0;
    transfer_hash("", 0, g->fetch->digest);
    if (special_make_folder(g->target->folder, pick->name, &header, mask, &may_make) == 0)
        return 0;
    return client_failed(&g->fetch->client, "cannot write");
}

static bool is_done(const struct gathering *g, const struct pick *pick, const struct landing *landing)
{
    return g->target->skips && pick->details.known && pick->kind == TRANSFER_FILE &&
           landing_is_done(landing, pick->details.size, pick->details.seconds, pick->details.nanoseconds);
}

/* ---- The window ---------------------------------------------------------------------------------------- */

static struct landing *landing_of(struct gathering *g, size_t pick)
{
    return &g->landings[pick % WINDOW];
}

/* Opens the landing of a pick. Returns true if the file must be requested; else it is already stored or has failed, and
 * the pick is settled. */
static bool prepare_landing(struct gathering *g, struct pick *pick, struct landing *landing)
{
    int result;

    if (pick->problem != NULL) {
        result = client_failed_text(&g->fetch->client, "cannot be asked for", pick->problem);
    } else {
        result = open_landing(g, landing, pick);
        if (result == 0 && !is_done(g, pick, landing))
            return true;
        landing_end(landing);
    }
    if (result == -1) {
        settle_pick(g, pick, -1);
    } else {
        pick->is_settled = true;
        account_skipped(g->account, pick->path, pick->details.size);
    }
    return false;
}

/* After a connection is closed its requests are lost: closes the landings of picks from `first`. */
static void forget_asked(struct gathering *g, size_t first)
{
    for (size_t i = first; i < g->asked; i++)
        if (!g->picks->list[i].is_settled)
            landing_end(landing_of(g, i));
    g->asked = first;
}

/* Requests the next files, up to the first pick that get_alone() must handle: a folder, or a file with a part from an
 * earlier attempt. Returns false on failure. */
static bool ask_ahead(struct gathering *g)
{
    const char *paths[FETCH_ASK_MAX];
    int count = 0;

    recent_forget(&g->recent);
    while (g->asked < g->picks->count && g->asked - g->next < WINDOW && count < FETCH_ASK_MAX) {
        struct pick *pick = &g->picks->list[g->asked];
        struct landing *landing = landing_of(g, g->asked);

        if (pick->kind == TRANSFER_FOLDER && pick->problem == NULL)
            break;
        if (!pick->is_settled && prepare_landing(g, pick, landing)) {
            if (landing->there > 0) {
                landing_end(landing);
                break;
            }
            paths[count++] = pick->path;
        }
        g->asked++;
    }
    return count == 0 || fetch_ask(g->fetch, paths, count) == 0;
}

static void end_file(struct gathering *g, struct pick *pick, struct landing *landing, int result)
{
    uint64_t kept = landing_end(landing);

    if (result == -1 && kept > 0)
        say_kept(&g->fetch->client, kept);
    settle_pick(g, pick, result);
    if (g->fetch->client.sock == -1)
        forget_asked(g, g->next + 1);
}

/* Gets the next pick, which was not requested ahead. */
static void get_alone(struct gathering *g, struct pick *pick)
{
    struct landing *landing = landing_of(g, g->next);

    g->asked = g->next + 1;
    if (pick->kind == TRANSFER_FOLDER && pick->problem == NULL)
        settle_pick(g, pick, make_folder(g, pick));
    else if (prepare_landing(g, pick, landing))
        end_file(g, pick, landing, fetch_file(g->fetch, pick->path, landing));
}

static bool has_connection(struct gathering *g, struct pick *pick)
{
    struct client *client = &g->fetch->client;

    if (client->sock == -1 ? client_reach(client, g->addresses) == 0
                           : g->asked > g->next || client_renew(client) == 0)
        return true;
    settle_pick(g, pick, -1);
    leave_out(g);
    return false;
}

/* Returns false if the server is unreachable. */
static bool get_next(struct gathering *g)
{
    struct pick *pick = &g->picks->list[g->next];
    struct landing *landing = landing_of(g, g->next);

    if (!has_connection(g, pick))
        return false;
    if (g->asked < g->next + WINDOW - FETCH_ASK_MAX && !ask_ahead(g)) {
        forget_asked(g, g->next);
        if (!pick->is_settled)
            settle_pick(g, pick, -1);
    }
    if (pick->is_settled)
        return true;
    if (g->asked > g->next)
        end_file(g, pick, landing, fetch_asked(g->fetch, pick->path, landing));
    else
        get_alone(g, pick);
    return true;
}

void gathering_get(struct fetch *fetch, const struct addrinfo *addresses, struct picks *picks,
                   const struct target *target, struct account *account)
{
    struct gathering g = {
        .fetch = fetch, .addresses = addresses, .picks = picks, .target = target, .account = account};

    recent_init(&g.recent);
    progress_start(&g.progress, "", 0, fetch->quiet || picks->count < 2 || account->form != ACCOUNT_SHORT);
    while (g.next < picks->count) {
        if (!picks->list[g.next].is_settled && !get_next(&g)) {
            forget_asked(&g, g.next);
            break;
        }
        if (picks->list[g.next].is_settled) {
            g.next++;
            if (g.asked < g.next)
                g.asked = g.next;
        }
    }
    recent_forget(&g.recent);
    progress_end(&g.progress);
}
