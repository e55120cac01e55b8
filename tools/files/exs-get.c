/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * exs-get [OPTION...] NAME... - gets files from an exs-serve that permits it, with blocking calls.
 *
 * This file has main() and the options of exs-get only. client_options.c has the options that exs-put has, too;
 * wishes.c builds the list of files; gathering.c decides in which order they are requested; fetch.c gets one file;
 * landing.c stores it; client.c has the connection; account.c prints results; transfer.c encodes messages.
 */
#include <errno.h>
#include <exs.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "account.h"
#include "client_options.h"
#include "fetch.h"
#include "gathering.h"
#include "tools/common/options.h"
#include "tools/common/resolve.h"
#include "tools/common/standard.h"
#include "tools/common/terminal.h"
#include "wishes.h"

#define OUTPUT "-" /* argument of -o for standard output */

struct settings {
    const char *folder, *output; /* of -d and -o; NULL: option not given */
    bool recursive, list, skips, archive;
    unsigned takes; /* see struct picks */
    uint64_t limit;
};

static uint64_t read_bytes(const char *word)
{
    uint64_t bytes;

    if (!options_bytes(word, &bytes))
        options_wrong("exs-get", "bad size '%s' for -s: want bytes, as in 64K, 2G or 1048576", word);
    return bytes;
}

static void take_option(int letter, const char *word, void *data)
{
    struct settings *settings = data;

    switch (letter) {
    case 'd':
        settings->folder = word;
        break;
    case 'o':
        settings->output = word;
        break;
    case 's':
        settings->limit = read_bytes(word);
        break;
    case 'A':
        settings->archive = true;
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
    case 'c':
        settings->recursive = settings->skips = true;
        break;
    case 'l':
        settings->list = true;
        break;
    default:
        settings->recursive = true;
        break;
    }
}

static const struct client_option own[] = {
    {'d', "directory", "DIR", "where files are put (.)"},
    {'o', "output", "FILE", "what the only NAME is stored under; - is standard output"},
    {'r', "recursive", NULL, "get what is in folders, and below; / is all that is served"},
    {'A', "archive", NULL, "as -r --links --hidden --dirs: all that is in folders"},
    {CLIENT_LINKS, "links", NULL, "get symbolic links as links"},
    {CLIENT_HIDDEN, "hidden", NULL, "get files and folders whose name begins with a dot"},
    {CLIENT_DIRS, "dirs", NULL, "make folders, also empty ones, with permissions and times"},
    {'c', "continue", NULL, "as -r, without files that are here with the same size and time"},
    {'l', "list", NULL, "say what is in folders, in place of getting it"},
    {'s', "file-size", "BYTES", "that a file may have"},
};
static const struct client_program program = {.name = "exs-get",
                                              .operands = "NAME...",
                                              .own = own,
                                              .own_count = sizeof(own) / sizeof(own[0]),
                                              .last = "BYTES may end with K, M, G or T.",
                                              .take = take_option};

static void read_options(int argc, char **argv, struct client_options *options, struct settings *settings)
{
    client_options_read(&program, argc, argv, options, settings);
    if (optind == argc)
        options_wrong("exs-get", "which files are to be got? -l / says what there is");
    if (settings->output != NULL && settings->list)
        options_wrong("exs-get", "-o is for a file, and -l gets none");
    if (settings->list && (settings->recursive || settings->folder != NULL))
        options_wrong("exs-get", "-l says what is in the folders that are named: leave %s out",
                      settings->recursive ? "-r" : "-d");
    settings->recursive = settings->recursive || (settings->archive && !settings->list);
    if (settings->output != NULL && settings->folder != NULL)
        options_wrong("exs-get", "-d and -o both say where to: leave -d out, as in -o DIR/FILE");
    if (settings->output != NULL && (argc - optind > 1 || settings->recursive))
        options_wrong("exs-get", "-o is for one file: -d says where many are put");
    if (settings->output != NULL &&
        (settings->output[0] == '\0' || settings->output[strlen(settings->output) - 1] == '/'))
        options_wrong("exs-get", "-o '%s' names no file", settings->output);
}

static _Noreturn void exit_failing(const char *what, const char *why)
{
    fprintf(stderr, "exs-get: %s%s%s\n", what, what[0] == '\0' ? "" : ": ", why);
    exit(1);
}

/* ---- Target -------------------------------------------------------------------------------------------- */

/* Opens a path that is written to instead of being replaced by a file: a device, a pipe, or another name of standard
 * output, like /dev/stdout. Returns its descriptor, or -1 if the path is none of these. */
static int open_output(const char *path)
{
    struct stat status, standard;

    if (strcmp(path, OUTPUT) == 0)
        return STDOUT_FILENO;
    if (stat(path, &status) == -1)
        return -1;
    if (fstat(STDOUT_FILENO, &standard) == 0 && status.st_dev == standard.st_dev &&
        status.st_ino == standard.st_ino)
        return STDOUT_FILENO;
    if (S_ISREG(status.st_mode) || S_ISDIR(status.st_mode))
        return -1;
    int fd = open(path, O_WRONLY | O_NOCTTY | O_CLOEXEC);

    if (fd == -1)
        exit_failing(path, strerror(errno));
    return fd;
}

static void open_target(struct target *target, const struct settings *settings)
{
    char *folder = settings->output == NULL ? NULL : strdup(settings->output), *slash;
    const char *path = settings->folder != NULL ? settings->folder : ".";

    *target = (struct target){.folder = -1, .name = settings->output, .output = -1, .skips = settings->skips};
    if (settings->output != NULL)
        target->output = open_output(settings->output);
    if (folder != NULL && (slash = strrchr(folder, '/')) != NULL) {
        target->name = settings->output + (slash + 1 - folder);
        slash[slash == folder] = '\0'; /* the folder of /NAME is / */
        path = folder;
    }
    if (target->output == -1) {
        target->folder = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
        if (target->folder == -1)
            exit_failing(path, strerror(errno));
    }
    free(folder);
}

/* Prints the reason once as text; as JSON, accounts for each name. */
static _Noreturn void fail_to_reach(struct account *account, char **names, bool list, const char *why)
{
    for (; *names != NULL; names++) {
        wishes_plain(*names);
        account_left_out(account, (*names)[0] == '\0' ? "/" : *names);
    }
    if (account->form == ACCOUNT_JSON && !list)
        account_end(account, "");
    account_flush(account);
    exit_failing("", why);
}

/* ---- Files --------------------------------------------------------------------------------------------- */

static int look_up(struct fetch *fetch, const struct addrinfo *addresses, const struct settings *settings,
                   enum account_form form, struct picks *picks, const char *name)
{
    if (!settings->list && !settings->recursive)
        return wishes_add(picks, name) == 0 ? 0 : client_failed(&fetch->client, "cannot keep a list");
    if (fetch->client.sock == -1 && client_reach(&fetch->client, addresses) == -1)
        return -1;
    return settings->list ? wishes_list(stdout, fetch, name, form == ACCOUNT_JSON)
                          : wishes_add_tree(picks, fetch, name);
}

static void pick_files(struct fetch *fetch, const struct addrinfo *addresses, const struct settings *settings,
                       struct picks *picks, char **names, struct account *account)
{
    const struct pick *a, *b;

    for (; *names != NULL; names++) {
        wishes_plain(*names);
        if (look_up(fetch, addresses, settings, account->form, picks, *names) == -1)
            gathering_account_failed(account, fetch, (*names)[0] == '\0' ? "/" : *names);
    }
    if (!picks_collide(picks, &a, &b))
        return;
    client_close(&fetch->client);
    char *said;

    if (asprintf(&said, "two would both be stored as %s", a->name) == -1)
        exit_failing("", strerror(errno));
    fprintf(stderr, "exs-get: %s: nothing was got\n", terminal_filter(said));
    exit(2);
}

int main(int argc, char **argv)
{
    struct settings settings = {.limit = INT64_MAX};
    struct client_options options;
    struct fetch fetch = {.client.sock = -1};
    char why[RESOLVE_TEXT_MAX];
    struct blocks blocks = {0};
    struct picks picks = {0};
    struct account account;
    struct target target;

    standard_open();
    standard_outlive_limit();
    read_options(argc, argv, &options, &settings);
    struct addrinfo *addresses = resolve(options.host, options.port, false, why);
    if (addresses == NULL)
        options_wrong("exs-get", "%s", why);
    open_target(&target, &settings);
    if (exs_init(EXS_VERSION) == -1)
        exit_failing("cannot start (EXS_DEBUG=1 says why)", strerror(errno));
    if ((fetch.block = block_take(&blocks)) == NULL)
        exit_failing("no buffer", strerror(errno));
    fetch.quiet = options.quiet || target.output == STDOUT_FILENO;
    fetch.limit = settings.limit;
    fetch.takes = picks.takes = settings.takes;
    fetch.detailed = settings.takes != 0 || settings.skips;
    fetch.client.patience = options.patience;
    int reached = client_reach(&fetch.client, addresses);

    account_begin(&account, "exs-get", options.form); /* the duration does not include the connect */
    if (target.output == STDOUT_FILENO)
        account.out = stderr;
    if (reached == -1)
        fail_to_reach(&account, argv + optind, settings.list, fetch.client.error);
    pick_files(&fetch, addresses, &settings, &picks, argv + optind, &account);
    if (!settings.list) {
        gathering_get(&fetch, addresses, &picks, &target, &account);
        account_end(&account, fetch.client.device);
    }
    if (fetch.client.sock != -1 && client_close(&fetch.client) == -1 && account.failed == 0)
        exit_failing("", fetch.client.error);
    block_return(&blocks, fetch.block);
    blocks_free(&blocks);
    freeaddrinfo(addresses);
    picks_free(&picks);
    if (target.output == -1)
        close(target.folder);
    return account_flush(&account) == 0 && account.failed == 0 ? 0 : 1;
}
