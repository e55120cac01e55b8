/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * exs-put [OPTION...] FILE... - sends files to an exs-serve, with blocking calls.
 *
 * This file: options, and one file after the other. Which files is in picks.c, sending one in outlet.c, the
 * connection in client.c, what is said of it in account.c, the bytes in transfer.c.
 */
#include <errno.h>
#include <exs.h>
#include <getopt.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "account.h"
#include "outlet.h"
#include "picks.h"
#include "tools/common/options.h"
#include "tools/common/resolve.h"
#include "tools/common/standard.h"

#define LETTERS "a:p:n:rvqjh"

struct settings {
    const char *host, *port, *name;
    enum account_form form;
    bool quiet, recursive;
};

static _Noreturn void help(void)
{
    printf("usage: exs-put [OPTION...] FILE...\n"
           "  -a, --address ADDR  the server's name or number (127.0.0.1)\n"
           "  -p, --port PORT     its port (" TRANSFER_PORT ")\n"
           "  -r, --recursive     send what is in folders, and below\n"
           "  -n, --name NAME     what standard input, the FILE -, is stored under\n"
           "  -v, --verbose       say what was sent, how fast, and by which device\n"
           "  -q, --quiet         draw no progress bar\n"
           "  -j, --json          say what was sent as lines of JSON\n"
           "  -h, --help          this\n"
           "      --version       which release this is\n");
    exit(0);
}

static void read_option(int option, char **argv, struct settings *settings)
{
    switch (option) {
    case 'a':
        settings->host = optarg;
        break;
    case 'p':
        settings->port = optarg;
        break;
    case 'n':
        settings->name = optarg;
        break;
    case 'r':
        settings->recursive = true;
        break;
    case 'v':
        settings->form = ACCOUNT_LINES;
        break;
    case 'q':
        settings->quiet = true;
        break;
    case 'j':
        settings->form = ACCOUNT_JSON;
        break;
    case 'h':
        help();
    default:
        options_unknown("exs-put", argv, LETTERS, option);
    }
}

static void read_options(int argc, char **argv, struct settings *settings)
{
    static const struct option names[] = {{"address", required_argument, NULL, 'a'},
                                          {"port", required_argument, NULL, 'p'},
                                          {"name", required_argument, NULL, 'n'},
                                          {"recursive", no_argument, NULL, 'r'},
                                          {"verbose", no_argument, NULL, 'v'},
                                          {"quiet", no_argument, NULL, 'q'},
                                          {"json", no_argument, NULL, 'j'},
                                          {"help", no_argument, NULL, 'h'},
                                          {NULL, 0, NULL, 0}};
    int option;

    options_version("exs-put", argc, argv);
    opterr = 0;
    while ((option = getopt_long(argc, argv, ":" LETTERS, names, NULL)) != -1)
        read_option(option, argv, settings);
    if (optind == argc)
        options_wrong("exs-put", "which files are to be sent?");
}

static _Noreturn void fail(const char *why)
{
    fprintf(stderr, "exs-put: %s\n", why);
    exit(1);
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
    fprintf(stderr, "exs-put: %s and %s would both be stored as %s: nothing was sent\n", a->path, b->path,
            a->name);
    exit(2);
}

static void send_file(struct outlet *outlet, const struct pick *pick, struct account *account)
{
    if (outlet_file(outlet, pick->path, pick->name) == -1) {
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
            account->failed += picks->count - i - 1;
            return;
        }
        send_file(outlet, pick, account);
    }
}

int main(int argc, char **argv)
{
    struct settings settings = {.host = "127.0.0.1", .port = TRANSFER_PORT};
    struct outlet outlet = {.client.sock = -1};
    char why[RESOLVE_TEXT_MAX];
    struct picks picks = {0};
    struct account account;

    standard_open();
    read_options(argc, argv, &settings);
    if (exs_init(EXS_VERSION) == -1) {
        fprintf(stderr, "exs-put: cannot start: %s\n", strerror(errno));
        return 1;
    }
    pick_files(&picks, &settings, argv + optind);
    struct addrinfo *addresses = resolve(settings.host, settings.port, false, why);
    if (addresses == NULL)
        options_wrong("exs-put", "%s", why);
    outlet.quiet = settings.quiet;
    if (client_reach(&outlet.client, addresses) == -1)
        fail(outlet.client.error);
    account_begin(&account, "exs-put", settings.form);
    send_files(&outlet, addresses, &picks, &account);
    account_end(&account, outlet.client.device);
    if (outlet.client.sock != -1 && client_close(&outlet.client) == -1 && account.failed == 0)
        fail(outlet.client.error);
    freeaddrinfo(addresses);
    picks_free(&picks);
    return account.failed == 0 ? 0 : 1;
}
