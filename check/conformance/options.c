/* SPDX-License-Identifier: BSD-2-Clause */
/* options.c - the command line: the thesis's options (appendix A, 4.1), each in lower and upper case, and some more. */
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "conformance.h"

#define SHORT "hHlLvVnNxt:T:a:A:p:P:o:"

enum { TAP = 256, JUNIT, MARKDOWN, LIMIT, SERVE, PEER };

static const struct option long_options[] = {
    {"help", no_argument, NULL, 'h'},          {"list", no_argument, NULL, 'l'},
    {"test", required_argument, NULL, 't'},    {"verbose", no_argument, NULL, 'v'},
    {"address", required_argument, NULL, 'a'}, {"port", required_argument, NULL, 'p'},
    {"non-blocking", no_argument, NULL, 'n'},  {"log", required_argument, NULL, 'o'},
    {"stop", no_argument, NULL, 'x'},          {"limit", required_argument, NULL, LIMIT},
    {"tap", no_argument, NULL, TAP},           {"junit", required_argument, NULL, JUNIT},
    {"markdown", no_argument, NULL, MARKDOWN}, {"serve", required_argument, NULL, SERVE},
    {"peer", required_argument, NULL, PEER},   {NULL, 0, NULL, 0}};

static void usage(FILE *stream)
{
    fputs(
        "usage: exs-conformance [options] [FUNCTION...] [TEST...]\n"
        "Tests the functions of exs.h against the thesis on UNH EXS, in blocking mode unless told otherwise.\n"
        "FUNCTION: exs_connect, ...; none means all. TEST: a test's number or a range, 3 or 2-5; none means "
        "all.\n"
        "  -h, -H        this text\n"
        "  -l, -L        list the tests as function:number:expected:call:modes, and run none\n"
        "  -t, -T N      list the tests with this number, and run none\n"
        "  -v, -V        print the tests that pass as well\n"
        "  -a, -A ADDR   address of this machine to test on (localhost)\n"
        "  -p, -P PORT   port to listen on (any that is free)\n"
        "  -n, -N        non-blocking mode\n"
        "  -o FILE       log file (exs-conformance.log); two of them can be compared with diff\n"
        "  -x            stop at the first test that fails\n"
        "  --limit S     seconds that a test may take (10)\n"
        "  --peer A:P    let the tests' peers run on the machine at address A, which takes orders on port P\n"
        "  --serve P     be that machine: take orders on port P of the address that -a gives, and run no test\n"
        "  --tap         print TAP, version 13\n"
        "  --junit FILE  write JUnit XML as well\n"
        "  --markdown    print the tests as a page of documentation, and run none\n"
        "A line: number : expected : call : mode : PASS or FAIL : errno : reason.\n"
        "Exit status: 0 when every test has passed, 1 when not, 2 when the command line is wrong.\n",
        stream);
}

/* Parses a number of 1 or more at *text, and moves *text after it. Returns 0 if there is none. */
static int number(const char **text)
{
    char *end;
    long value = strtol(*text, &end, 10);

    if (end == *text || **text < '0' || **text > '9' || value < 1 || value > 99999)
        return 0;
    *text = end;
    return (int)value;
}

static bool is_port(const char *text)
{
    int port = number(&text);

    return port > 0 && port < 65536 && *text == 0;
}

static bool add_range(struct options *options, const char *text)
{
    struct range range;

    if (options->ranges == (int)(sizeof(options->range) / sizeof(options->range[0])))
        return false;
    range.first = range.last = number(&text);
    if (range.first > 0 && *text == '-') {
        text++;
        range.last = number(&text);
    }
    if (range.first == 0 || range.last < range.first || *text != 0)
        return false;
    options->range[options->ranges++] = range;
    return true;
}

static bool add_function(struct options *options, const char *name)
{
    const struct group *group = group_find(name);

    if (group == NULL || options->functions == (int)(sizeof(options->only) / sizeof(options->only[0])))
        return false;
    options->only[options->functions++] = group;
    return true;
}

bool options_want_group(const struct options *options, const struct group *group)
{
    for (int i = 0; i < options->functions; i++)
        if (options->only[i] == group)
            return true;
    return options->functions == 0;
}

/* Whether each range contains a test of the selected functions. */
static bool ranges_exist(const struct options *options)
{
    for (int r = 0; r < options->ranges; r++) {
        bool exists = false;

        for (int g = 0; groups[g] != NULL; g++)
            for (int i = 0; options_want_group(options, groups[g]) && i < groups[g]->rows; i++)
                exists |= groups[g]->row[i].number >= options->range[r].first &&
                          groups[g]->row[i].number <= options->range[r].last;
        if (!exists)
            return false;
    }
    return true;
}

/* Splits ADDRESS:PORT in place. */
static bool set_peer(struct options *options, char *text)
{
    char *colon = strrchr(text, ':');

    if (colon == NULL || colon == text || !is_port(colon + 1))
        return false;
    *colon = 0;
    options->peer = text;
    options->orders = colon + 1;
    return true;
}

static bool set_option(struct options *options, int option)
{
    switch (option) {
    case 't':
    case 'T':
        options->list = true;
        return add_range(options, optarg);
    case 'l':
    case 'L':
        return options->list = true;
    case 'v':
    case 'V':
        return options->verbose = true;
    case 'n':
    case 'N':
        return options->nonblocking = true;
    case 'a':
    case 'A':
        options->address = optarg;
        return true;
    case 'p':
    case 'P':
        options->port = optarg;
        return is_port(optarg);
    case 'o':
        options->log = optarg;
        return true;
    case 'x':
        return options->stop = true;
    case TAP:
        return options->tap = true;
    case JUNIT:
        options->junit = optarg;
        return true;
    case MARKDOWN:
        return options->markdown = true;
    case PEER:
        return set_peer(options, optarg);
    case SERVE:
        options->serve = true;
        options->orders = optarg;
        return is_port(optarg);
    case LIMIT: {
        const char *text = optarg;

        options->limit = number(&text);
        return options->limit > 0 && *text == 0;
    }
    default:
        return false;
    }
}

static bool wrong(const char *what, int *status)
{
    fprintf(stderr, "exs-conformance: %s is not accepted; -h shows what is\n", what);
    *status = 2;
    return false;
}

bool options_parse(struct options *options, int argc, char **argv, int *status)
{
    int option;

    *options = (struct options){.address = "localhost", .port = "0", .log = "exs-conformance.log", .limit = 10};
    *status = 0;
    while ((option = getopt_long(argc, argv, SHORT, long_options, NULL)) != -1) {
        if (option == 'h' || option == 'H') {
            usage(stdout);
            return false;
        }
        if (option == '?') /* getopt_long() has printed the error */
            return wrong("this option", status);
        if (!set_option(options, option))
            return wrong(optarg, status);
    }
    for (int i = optind; i < argc; i++)
        if (!add_function(options, argv[i]) && !add_range(options, argv[i]))
            return wrong(argv[i], status);
    return ranges_exist(options) || wrong("a test number that no test has", status);
}

bool options_want(const struct options *options, const struct row *row)
{
    for (int i = 0; i < options->ranges; i++)
        if (row->number >= options->range[i].first && row->number <= options->range[i].last)
            return true;
    return options->ranges == 0;
}
