/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * exs-put [OPTION...] FILE... - sends files to an exs-serve.
 *
 * This file: its own options, and one file after the other. The options that exs-get has, too, are in
 * client_options.c, which files in picks.c, sending one in outlet.c, the connection in client.c, what is said
 * of it in account.c, the bytes in transfer.c.
 */
#include <errno.h>
#include <exs.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "account.h"
#include "client_options.h"
#include "outlet.h"
#include "picks.h"
#include "tools/common/options.h"
#include "tools/common/resolve.h"
#include "tools/common/standard.h"
#include "tools/common/terminal.h"

struct settings {
    const char *name;
    bool recursive;
};

static void take(int letter, const char *word, void *data)
{
    struct settings *settings = data;

    if (letter == 'n')
        settings->name = word;
    else
        settings->recursive = true;
}

static const struct client_option own[] = {
    {'r', "recursive", NULL, "send what is in folders, and below"},
    {'n', "name", "NAME", "what standard input, the FILE -, is stored under"},
};
static const struct client_program program = {.name = "exs-put",
                                              .operands = "FILE...",
                                              .own = own,
                                              .own_count = sizeof(own) / sizeof(own[0]),
                                              .take = take};

static _Noreturn void fail(const char *why)
{
    fprintf(stderr, "exs-put: %s\n", why);
    exit(1);
}

static void read_options(int argc, char **argv, struct client_options *options, struct settings *settings)
{
    bool has_stdin = false;

    client_options_read(&program, argc, argv, options, settings);
    if (optind == argc)
        options_wrong("exs-put", "which files are to be sent?");
    for (int i = optind; i < argc; i++)
        has_stdin = has_stdin || strcmp(argv[i], PICKS_STDIN) == 0;
    if (settings->name != NULL && !has_stdin)
        options_wrong("exs-put", "-n is for standard input alone: send - for it, as in -n %s - <FILE",
                      settings->name);
}

static int pick(struct picks *picks, const struct settings *settings, const char *path)
{
    if (strcmp(path, PICKS_STDIN) != 0)
        return settings->recursive ? picks_add_tree(picks, path) : picks_add(picks, path);
    if (settings->name == NULL)
        options_wrong("exs-put", "- is standard input: say by -n what it is stored under, or send ./-");
    return picks_add_stdin(picks, settings->name);
}

static void pick_files(struct picks *picks, const struct settings *settings, char **paths)
{
    const struct pick *a, *b;

    for (; *paths != NULL; paths++)
        if (pick(picks, settings, *paths) == -1)
            fail(strerror(errno));
    if (!picks_collide(picks, &a, &b))
        return;
    char *said;

    if (asprintf(&said, "%s and %s would both be stored as %s", a->path, b->path, a->name) == -1)
        fail(strerror(errno));
    fprintf(stderr, "exs-put: %s: nothing was sent\n", terminal_filter(said));
    exit(2);
}

static void send_file(struct outlet *outlet, const struct pick *pick, struct account *account)
{
    if (outlet_file(outlet, pick->path, pick->named, pick->name) == -1) {
        account_failed(account, pick->path, outlet->client.error);
        return;
    }
    const struct account_file file = {.path = pick->path,
                                      .size = outlet->size,
                                      .resumed = outlet->resumed,
                                      .seconds = outlet->seconds,
                                      .digest = outlet->digest};

    account_done(account, &file);
}

/* From this one on. */
static void leave_out(struct account *account, const struct picks *picks, size_t first)
{
    for (; first < picks->count; first++)
        account_left_out(account, picks->list[first].path);
}

/* People are told once, programs of each file. */
static _Noreturn void fail_to_reach(struct account *account, const struct picks *picks, const char *why)
{
    leave_out(account, picks, 0);
    if (account->form == ACCOUNT_JSON)
        account_end(account, "");
    account_flush(account);
    fail(why);
}

/* A conversation that went wrong has ended; the next file is sent in another. */
static void send_files(struct outlet *outlet, const struct addrinfo *addresses, const struct picks *picks,
                       struct account *account)
{
    struct client *client = &outlet->client;

    for (size_t i = 0; i < picks->count; i++) {
        const struct pick *pick = &picks->list[i];

        if (pick->problem != NULL) {
            client_failed_text(client, "cannot be sent", pick->problem);
            account_failed(account, pick->path, client->error);
            continue;
        }
        if (client->sock == -1 && client_reach(client, addresses) == -1) {
            account_failed(account, pick->path, client->error);
            leave_out(account, picks, i + 1);
            return;
        }
        send_file(outlet, pick, account);
    }
}

int main(int argc, char **argv)
{
    struct settings settings = {0};
    struct client_options options;
    struct outlet outlet = {.client.sock = -1};
    char why[RESOLVE_TEXT_MAX];
    struct picks picks = {0};
    struct account account;

    standard_open();
    standard_outlive_limit();
    read_options(argc, argv, &options, &settings);
    if (exs_init(EXS_VERSION) == -1) {
        fprintf(stderr, "exs-put: cannot start (EXS_DEBUG=1 says why): %s\n", strerror(errno));
        return 1;
    }
    pick_files(&picks, &settings, argv + optind);
    struct addrinfo *addresses = resolve(options.host, options.port, false, why);
    if (addresses == NULL)
        options_wrong("exs-put", "%s", why);
    outlet.quiet = options.quiet;
    outlet.client.patience = options.patience;
    int reached = client_reach(&outlet.client, addresses);

    account_begin(&account, "exs-put", options.form); /* to connect may take long, and is no sending */
    if (reached == -1)
        fail_to_reach(&account, &picks, outlet.client.error);
    send_files(&outlet, addresses, &picks, &account);
    account_end(&account, outlet.client.device);
    if (outlet.client.sock != -1 && client_close(&outlet.client) == -1 && account.failed == 0)
        fail(outlet.client.error);
    outlet_end(&outlet);
    freeaddrinfo(addresses);
    picks_free(&picks);
    return account_flush(&account) == 0 && account.failed == 0 ? 0 : 1;
}
