/* SPDX-License-Identifier: BSD-2-Clause */
/* client_options.c - the command line of exs-put and exs-get; see client_options.h. */
#include "client_options.h"

#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/common/options.h"
#include "tools/common/standard.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

enum { PATIENCE_MAX = 86400 }; /* seconds */

/* Common options that --help prints before (server) and after (said) those of the program. */
static const struct client_option server[] = {
    {'a', "address", "ADDR", "the server's name or number (127.0.0.1)"},
    {'p', "port", "PORT", "its port (" TRANSFER_PORT ")"},
    {'t', "timeout", "SECONDS", "give up when it says or takes nothing for so long (never)"},
};
static const struct client_option said[] = {
    {'v', "verbose", NULL, "say which files went, how fast, and by which device"},
    {'q', "quiet", NULL, "draw no progress bar"},
    {'j', "json", NULL, "say which files went as lines of JSON"},
    {'h', "help", NULL, "this"},
};

enum { OPTIONS_MAX = COUNT(server) + CLIENT_OPTIONS_OWN + COUNT(said) };

struct table { /* all options of a program, for getopt_long */
    struct option names[OPTIONS_MAX + 1];
    char letters[1 + 2 * OPTIONS_MAX + 1]; /* ":a:p:rv": the first ':' makes getopt report a missing argument */
    size_t count, length;
};

static void add_options(struct table *table, const struct client_option *options, size_t count)
{
    for (const struct client_option *o = options; o < options + count; o++) {
        if (table->count == OPTIONS_MAX)
            abort(); /* a program has more than CLIENT_OPTIONS_OWN options */
        table->names[table->count++] =
            (struct option){o->name, o->word != NULL ? required_argument : no_argument, NULL, o->letter};
        if (o->letter >= CLIENT_LONG)
            continue;
        table->letters[table->length++] = (char)o->letter;
        if (o->word != NULL)
            table->letters[table->length++] = ':';
    }
}

static void print_options(const struct client_option *options, size_t count)
{
    for (const struct client_option *o = options; o < options + count; o++) {
        const char *word = o->word != NULL ? o->word : "";
        int width = 18 - (int)strlen(o->name);

        if (o->letter >= CLIENT_LONG)
            printf("      --%s %-*s%s\n", o->name, width, word, o->text);
        else
            printf("  -%c, --%s %-*s%s\n", o->letter, o->name, width, word, o->text);
    }
}

static _Noreturn void print_help(const struct client_program *program)
{
    printf("usage: %s [OPTION...] %s\n", program->name, program->operands);
    print_options(server, COUNT(server));
    print_options(program->own, program->own_count);
    print_options(said, COUNT(said));
    printf("      --version            which release this is\n");
    if (program->last != NULL)
        puts(program->last);
    exit(standard_flush(program->name, "cannot print the help"));
}

static int read_patience(const struct client_program *program, const char *word)
{
    long value = options_number(word, 1, PATIENCE_MAX);

    if (value == -1)
        options_wrong(program->name, "bad number '%s' for -t: want one from 1 to %d", word, PATIENCE_MAX);
    return (int)value;
}

static bool take_shared(const struct client_program *program, int letter, struct client_options *options)
{
    switch (letter) {
    case 'a':
        options->host = optarg;
        return true;
    case 'p':
        options->port = optarg;
        return true;
    case 't':
        options->patience = read_patience(program, optarg);
        return true;
    case 'v':
        if (options->form != ACCOUNT_JSON) /* -v has no effect on JSON */
            options->form = ACCOUNT_LINES;
        return true;
    case 'q':
        options->quiet = true;
        return true;
    case 'j':
        options->form = ACCOUNT_JSON;
        return true;
    default:
        return false;
    }
}

void client_options_read(const struct client_program *program, int argc, char **argv,
                         struct client_options *options, void *settings)
{
    struct table table = {.letters = ":", .length = 1};
    int letter;

    *options = (struct client_options){.host = "127.0.0.1", .port = TRANSFER_PORT};
    add_options(&table, server, COUNT(server));
    add_options(&table, program->own, program->own_count);
    add_options(&table, said, COUNT(said));
    options_version(program->name, argc, argv);
    opterr = 0;
    while ((letter = getopt_long(argc, argv, table.letters, table.names, NULL)) != -1) {
        if (letter == 'h')
            print_help(program);
        if (letter == '?' || letter == ':')
            options_unknown(program->name, argv, table.letters + 1, letter);
        if (!take_shared(program, letter, options))
            program->take(letter, optarg, settings);
    }
}
