/* SPDX-License-Identifier: BSD-2-Clause */
/* settings.c - parses options and checks their values. See settings.h. */
#include "settings.h"

#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>

#include "tools/common/options.h"
#include "tools/common/standard.h"

#define LETTERS "a:p:gAyt:r:c:s:S:n:k:h"

enum {
    OF_ONE_MAX = 64,
    FILES_MAX = 1000000,
    RATE_MIN = 64 << 10,
    PATIENCE = 60,
    KEEP = 3600,
    PATIENCE_MAX = 86400,
};

static const struct option names[] = {{"address", required_argument, NULL, 'a'},
                                      {"port", required_argument, NULL, 'p'},
                                      {"give", no_argument, NULL, 'g'},
                                      {"archive", no_argument, NULL, 'A'},
                                      {"sync", no_argument, NULL, 'y'},
                                      {"timeout", required_argument, NULL, 't'},
                                      {"rate", required_argument, NULL, 'r'},
                                      {"clients", required_argument, NULL, 'c'},
                                      {"file-size", required_argument, NULL, 's'},
                                      {"total-size", required_argument, NULL, 'S'},
                                      {"files", required_argument, NULL, 'n'},
                                      {"keep", required_argument, NULL, 'k'},
                                      {"help", no_argument, NULL, 'h'},
                                      {NULL, 0, NULL, 0}};

static _Noreturn void print_help(void)
{
    printf("usage: exs-serve [OPTION...] DIR\n"
           "  -a, --address ADDR      listen on this name or number (127.0.0.1; 0.0.0.0 or :: for every one)\n"
           "  -p, --port PORT         and port (" TRANSFER_PORT "; 0 picks a free one)\n"
           "  -g, --give              let clients get what is in DIR, too\n"
           "  -A, --archive           take and give symbolic links and names that begin with a dot, too\n"
           "  -y, --sync              have a file on the disk before its client hears that it is stored\n"
           "  -t, --timeout SECONDS   close a connection that was silent for so long (60)\n"
           "  -r, --rate BYTES        close one that brings or takes fewer bytes a second, over so long (64K)\n"
           "  -c, --clients COUNT     connections that one address may have (64)\n"
           "  -s, --file-size BYTES   that a file may have (as -S)\n"
           "  -S, --total-size BYTES  that are taken in all (what is free at the start, but a reserve)\n"
           "  -n, --files COUNT       that are taken in all (1000000)\n"
           "  -k, --keep SECONDS      that a file that was broken off is kept (3600)\n"
           "  -h, --help              this\n"
           "      --version           which release this is\n"
           "BYTES may end with K, M, G or T.\n");
    exit(standard_flush("exs-serve", "cannot print the help"));
}

static int number_option(int option, long low, long high)
{
    long value = options_number(optarg, low, high);

    if (value == -1)
        options_wrong("exs-serve", "bad number '%s' for -%c: want one from %ld to %ld", optarg, option, low,
                      high);
    return (int)value;
}

static uint64_t bytes_option(int option)
{
    uint64_t value;

    if (!options_bytes(optarg, &value))
        options_wrong("exs-serve", "bad size '%s' for -%c: want bytes, as in 64K, 2G or 1048576", optarg,
                      option);
    return value;
}

static void read_option(int option, char **argv, struct settings *s)
{
    switch (option) {
    case 'a':
        s->host = optarg;
        break;
    case 'p':
        s->port = optarg;
        break;
    case 'g':
        s->limits.gives = true;
        break;
    case 'A':
        s->limits.archive = true;
        break;
    case 'y':
        s->limits.syncs = true;
        break;
    case 't':
        s->patience = number_option('t', 1, PATIENCE_MAX);
        break;
    case 'r':
        s->rate = bytes_option('r');
        break;
    case 'c':
        s->of_one = number_option('c', 1, CONNECTIONS_MAX);
        break;
    case 's':
        s->limits.file = bytes_option('s');
        break;
    case 'S':
        s->limits.total = bytes_option('S');
        break;
    case 'n':
        s->limits.files = (uint64_t)number_option('n', 1, INT32_MAX);
        break;
    case 'k':
        s->limits.keep = number_option('k', 0, INT32_MAX - 1);
        break;
    case 'h':
        print_help();
    default:
        options_unknown("exs-serve", argv, LETTERS, option);
    }
}

struct settings settings_read(int argc, char **argv)
{
    struct settings s = {.host = "127.0.0.1",
                         .port = TRANSFER_PORT,
                         .limits = {.files = FILES_MAX, .keep = KEEP},
                         .patience = PATIENCE,
                         .rate = RATE_MIN,
                         .of_one = OF_ONE_MAX};
    int option;

    options_version("exs-serve", argc, argv);
    opterr = 0;
    while ((option = getopt_long(argc, argv, ":" LETTERS, names, NULL)) != -1)
        read_option(option, argv, &s);
    if (optind == argc)
        options_wrong("exs-serve", "which directory are files to be put into?");
    if (optind < argc - 1)
        options_wrong("exs-serve", "one directory, not '%s' beside '%s'", argv[optind], argv[optind + 1]);
    s.directory = argv[optind];
    return s;
}
