/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * exs-put [OPTION...] FILE... - sends files to an exs-serve.
 *
 * This file has main() and the options of exs-put only. client_options.c has the options that exs-get has, too;
 * picks.c builds the list of files; shipping.c decides in which order they are sent; outlet.c sends one large file,
 * parcel.c a batch of small ones; client.c has the connection; account.c prints results; transfer.c encodes messages.
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
#include "shipping.h"
#include "tools/common/options.h"
#include "tools/common/resolve.h"
#include "tools/common/standard.h"
#include "tools/common/terminal.h"

struct settings {
    const char *name;
    bool recursive, may_grow;
    unsigned takes; /* see struct picks */
};

static void take_option(int letter, const char *word, void *data)
{
    struct settings *settings = data;

    switch (letter) {
    case 'n':
        settings->name = word;
        break;
    case 'A':
        settings->recursive = true;
        settings->takes = PICKS_ALL;
        break;
    case CLIENT_LINKS:
        settings->takes |= PICKS_LINKS;
        break;
    case CLIENT_HIDDEN:
        settings->takes |= PICKS_HIDDEN;
        break;
    case CLIENT_DIRS:
        settings->takes |= PICKS_FOLDERS;
        break;
    case 'G':
        settings->may_grow = true;
        break;
    default:
        settings->recursive = true;
        break;
    }
}

static const struct client_option own[] = {
    {'r', "recursive", NULL, "send what is in folders, and below"},
    {'A', "archive", NULL, "as -r --links --hidden --dirs: all that is in folders"},
    {CLIENT_LINKS, "links", NULL, "send symbolic links as links"},
    {CLIENT_HIDDEN, "hidden", NULL, "send files and folders whose name begins with a dot"},
    {CLIENT_DIRS, "dirs", NULL, "send folders, also empty ones, with permissions and times"},
    {'G', "growing", NULL, "a file that grows is no failure: send what it has at the start"},
    {'n', "name", "NAME", "what standard input, the FILE -, is stored under"},
};
static const struct client_program program = {.name = "exs-put",
                                              .operands = "FILE...",
                                              .own = own,
                                              .own_count = sizeof(own) / sizeof(own[0]),
                                              .take = take_option};

static _Noreturn void exit_failing(const char *why)
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

static int pick_path(struct picks *picks, const struct settings *settings, const char *path)
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
        if (pick_path(picks, settings, *paths) == -1)
            exit_failing(strerror(errno));
    if (!picks_collide(picks, &a, &b))
        return;
    char *said;

    if (asprintf(&said, "%s and %s would both be stored as %s", a->path, b->path, a->name) == -1)
        exit_failing(strerror(errno));
    fprintf(stderr, "exs-put: %s: nothing was sent\n", terminal_filter(said));
    exit(2);
}

/* Prints the reason once as text; as JSON, accounts for each file. */
static _Noreturn void fail_to_reach(struct account *account, const struct picks *picks, const char *why)
{
    shipping_leave_out(account, picks);
    if (account->form == ACCOUNT_JSON)
        account_end(account, "");
    account_flush(account);
    exit_failing(why);
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
    picks.takes = settings.takes;
    pick_files(&picks, &settings, argv + optind);
    struct addrinfo *addresses = resolve(options.host, options.port, false, why);
    if (addresses == NULL)
        options_wrong("exs-put", "%s", why);
    outlet.quiet = options.quiet;
    outlet.hidden = (settings.takes & PICKS_HIDDEN) != 0;
    outlet.may_grow = settings.may_grow;
    outlet.client.patience = options.patience;
    int reached = client_reach(&outlet.client, addresses);

    account_begin(&account, "exs-put", options.form); /* the duration does not include the connect */
    if (reached == -1)
        fail_to_reach(&account, &picks, outlet.client.error);
    if (shipping_send(&outlet, &picks, &account) == -1)
        exit_failing(strerror(errno));
    account_end(&account, outlet.client.device);
    if (outlet.client.sock != -1 && client_close(&outlet.client) == -1 && account.failed == 0)
        exit_failing(outlet.client.error);
    outlet_end(&outlet);
    freeaddrinfo(addresses);
    picks_free(&picks);
    return account_flush(&account) == 0 && account.failed == 0 ? 0 : 1;
}
