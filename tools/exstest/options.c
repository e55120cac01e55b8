/* SPDX-License-Identifier: BSD-2-Clause */
/* options.c - the command line: letters and defaults as in dapltest's manual page, and long options. */
#include "options.h"

#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "budget.h"
#include "tools/common/options.h"
#include "tools/common/standard.h"
#include "say.h"
#include "script.h"
#include "wire.h"

enum { JSON = 256, STATISTICS };

static const char usage_text[] =
    "usage: exstest [-T S] [-D device] [-n port] [-d] [-a address] [-M MiB]\n"
    "       exstest -T Q -s server [common options]\n"
    "       exstest -T T -s server [-t threads] [-w connections] [-i iterations] [-Q] [-V] [-P] OP OP [OP "
    "...]\n"
    "       exstest -T P -s server [-m b|p] [-i iterations] [-p pipeline] OP\n"
    "       exstest -T L [-m maximum] [-w width] [limit ...]\n"
    "Common to all:\n"
    "  -T, --test S|Q|T|P|L   server, quit, transaction, performance, limit (S)\n"
    "  -D, --device NAME      the device to use, as EXS_DEVICE (auto)\n"
    "  -n, --port PORT        of the server (" EXSTEST_PORT ")\n"
    "  -R, --quality CLASS    HT, LL, EC, PM or BE (BE)\n"
    "  -d, --debug            trace; again: more\n"
    "  -f, --script FILE      take all options from a file\n"
    "      --json             the result as one line of JSON\n"
    "      --statistics       T, P: what the library counted, too\n"
    "  -s, --server NAME      Q, T, P: name or address of the server\n"
    "  -a, --address ADDRESS  S: listen on this numeric address only; L: an own address of the device\n"
    "  -M, --memory MIB       S: memory for all connections together (2048)\n"
    "  -t, --threads N        T: threads (1)\n"
    "  -w, --connections N    T: connections of a thread (1)\n"
    "  -i, --iterations N     T, P: how often (1000)\n"
    "  -Q, --shared-queue     T: the connections of a thread share one event queue\n"
    "  -V, --validate         T: validate the data\n"
    "  -P, --polling          T: poll for completions\n"
    "  -m, --mode b|p         P: wait for completions, or poll (b)\n"
    "  -p, --pipeline N       P: operations under way at once (256)\n"
    "  -m, --maximum N        L: attempts (until one fails)\n"
    "  -w, --width N          L: sets of queue, connection and memory made before (1)\n"
    "  -h, --help             this text\n"
    "      --version          which release this is\n"
    "OP: client|server SR|RR|RW [segment size [segments]] [-f], in a performance test without the first word\n"
    "    and without -f; the size is 4096, and it is one segment, unless given.\n"
    "limit: limit_device, limit_domain, limit_queue, limit_socket, limit_listener, limit_region, limit_rpost,\n"
    "    limit_size_region, limit_connection, or their names in dapltest; none means all.\n"
    "Exit status: 0 the test passed, 1 it did not, 2 the command line is wrong.\n";

static const struct option long_options[] = {{"test", required_argument, NULL, 'T'},
                                             {"device", required_argument, NULL, 'D'},
                                             {"port", required_argument, NULL, 'n'},
                                             {"quality", required_argument, NULL, 'R'},
                                             {"debug", no_argument, NULL, 'd'},
                                             {"script", required_argument, NULL, 'f'},
                                             {"json", no_argument, NULL, JSON},
                                             {"statistics", no_argument, NULL, STATISTICS},
                                             {"server", required_argument, NULL, 's'},
                                             {"address", required_argument, NULL, 'a'},
                                             {"memory", required_argument, NULL, 'M'},
                                             {"threads", required_argument, NULL, 't'},
                                             {"connections", required_argument, NULL, 'w'},
                                             {"width", required_argument, NULL, 'w'},
                                             {"iterations", required_argument, NULL, 'i'},
                                             {"shared-queue", no_argument, NULL, 'Q'},
                                             {"validate", no_argument, NULL, 'V'},
                                             {"polling", no_argument, NULL, 'P'},
                                             {"mode", required_argument, NULL, 'm'},
                                             {"maximum", required_argument, NULL, 'm'},
                                             {"pipeline", required_argument, NULL, 'p'},
                                             {"help", no_argument, NULL, 'h'},
                                             {NULL, 0, NULL, 0}};

static _Noreturn void exit_with_hint(void)
{
    fputs("exstest --help says what there is\n", stderr);
    exit(2);
}

/* Returns the letters of the tests that have this option; NULL: all tests. */
static const char *tests_of(int option)
{
    static const struct {
        int option;
        const char *tests;
    } known[] = {{'s', "QTP"}, {'a', "SL"}, {'M', "S"}, {'t', "T"},  {'w', "TL"}, {'i', "TP"},
                 {'Q', "T"},   {'V', "T"},  {'P', "T"}, {'m', "PL"}, {'p', "P"},  {STATISTICS, "TP"}};

    for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++)
        if (known[i].option == option)
            return known[i].tests;
    return NULL;
}

/* Returns the option as the user writes it: its letter, or its name if it has no letter. */
static const char *option_text(int option, char letter[3])
{
    if (option == STATISTICS)
        return "--statistics";
    letter[0] = '-';
    letter[1] = (char)option;
    letter[2] = '\0';
    return letter;
}

static uint32_t number_option(int option, const char *word, long low, long high)
{
    long value = options_number(word, low, high);

    if (value >= 0)
        return (uint32_t)value;
    complain("-%c: want a number from %ld to %ld, not '%s'", option, low, high, word);
    exit_with_hint();
}

static const char *one_of(int option, const char *word, const char *const *known)
{
    for (const char *const *k = known; *k != NULL; k++)
        if (strcmp(word, *k) == 0)
            return word;
    complain("-%c: there is no '%s'", option, word);
    exit_with_hint();
}

static char read_test(const char *word)
{
    static const char *const known[] = {"S", "Q", "T", "P", "L", NULL};

    return *one_of('T', word, known);
}

static void read_mode(struct options *o, const char *word)
{
    static const char *const modes[] = {"b", "p", NULL};

    if (o->test == 'L')
        o->maximum = number_option('m', word, 1, INT32_MAX);
    else
        o->polling = *one_of('m', word, modes) == 'p';
}

/* The meaning of -m and -w depends on the test, which may be a later option. Therefore options are interpreted after
 * all of them were collected. */
static void read_option(struct options *o, int option, const char *word)
{
    static const char *const qualities[] = {"HT", "LL", "EC", "PM", "BE", NULL};

    switch (option) {
    case 'D':
        o->device = word;
        break;
    case 'n':
        o->port = word;
        break;
    case 'R':
        o->quality = one_of('R', word, qualities);
        break;
    case 'd':
        o->debug++;
        break;
    case JSON:
        o->json = true;
        break;
    case STATISTICS:
        o->statistics = true;
        break;
    case 's':
        o->server = word;
        break;
    case 'a':
        o->address = word;
        break;
    case 'M':
        o->memory = number_option('M', word, BUDGET_MIN, BUDGET_MAX);
        break;
    case 't':
        o->threads = number_option('t', word, 1, THREADS_MAX);
        break;
    case 'w':
        if (o->test == 'L')
            o->width = number_option('w', word, 1, WIDTH_MAX);
        else
            o->connections = number_option('w', word, 1, CONNECTIONS_MAX);
        break;
    case 'i':
        o->iterations = number_option('i', word, 1, ITERATIONS_MAX);
        break;
    case 'Q':
        o->shared_queue = true;
        break;
    case 'V':
        o->validate = true;
        break;
    case 'P':
        o->polling = true;
        break;
    case 'm':
        read_mode(o, word);
        break;
    case 'p':
        o->pipeline = number_option('p', word, 0, INT32_MAX);
        break;
    default:
        break;
    }
}

struct given { /* the options in the order of the command line */
    int option;
    const char *word;
};

enum { GIVEN_MAX = 256 };

static int collect_options(int argc, char **argv, struct given *given, struct options *o)
{
    int count = 0, option;

    optind = 0;
    while ((option = getopt_long(argc, argv, "+T:D:n:R:df:s:a:M:t:w:i:QVPm:p:h", long_options, NULL)) != -1) {
        if (option == 'h') {
            fputs(usage_text, stdout);
            exit(standard_flush("exstest", "cannot print the help"));
        }
        if (option == '?')
            exit_with_hint();
        if (option == 'T')
            o->test = read_test(optarg);
        if (count == GIVEN_MAX) {
            complain("more than %d options", GIVEN_MAX);
            exit_with_hint();
        }
        given[count++] = (struct given){option, optarg};
    }
    return count;
}

/* Reads the command line from the file of -f, which must be the only option. */
static const struct script *from_script(const struct given *given, int count, int words, const char *program)
{
    static struct script script; /* static: its words are used until the program ends */

    for (int i = 0; i < count; i++) {
        if (given[i].option != 'f')
            continue;
        if (count > 1 || words > 0) {
            complain("-f: all options come from the file, so none may be beside it");
            exit_with_hint();
        }
        if (script_read(&script, given[i].word, program) == -1) {
            complain("-f %s: %s", given[i].word, strerror(errno));
            exit_with_hint();
        }
    }
    return &script;
}

static void read_words(struct options *o, char **words, int count)
{
    if (o->test == 'T') {
        if (!ops_parse(&o->ops, words, count))
            exit_with_hint();
    } else if (o->test == 'P') {
        o->ops.count = 1;
        if (!ops_parse_one(&o->ops.op[0], words, count))
            exit_with_hint();
    } else if (o->test == 'L') {
        o->limits = words;
        o->limits_count = count;
    } else if (count > 0) {
        complain("-T %c takes no operations, not '%s'", o->test, words[0]);
        exit_with_hint();
    }
}

static void check_all(struct options *o)
{
    struct sockaddr_storage address;
    const char *why;

    if (strchr("QTP", o->test) != NULL && o->server == NULL) {
        complain("-T %c needs a server: -s NAME", o->test);
        exit_with_hint();
    }
    int least = o->test == 'S' ? 0 : 1; /* of a server: any port */

    if (options_number(o->port, least, 65535) < 0) {
        complain("-n: want a port from %d to 65535, not '%s'", least, o->port);
        exit_with_hint();
    }
    if (o->address != NULL && options_address(o->address, "0", &address) == 0) {
        complain("-a: want a numeric address, not '%s'", o->address);
        exit_with_hint();
    }
    if (o->test != 'T')
        return;
    if (o->threads * o->connections > TOTAL_MAX) {
        complain("%u threads with %u connections each are more than %d", o->threads, o->connections, TOTAL_MAX);
        exit_with_hint();
    }
    if (o->validate) {
        for (int i = 0; i < OPS_ADDED; i++)
            say("NOTE: Adding OP \"%s SR\" - for validation", i == 1 ? "client" : "server");
        ops_add_validation(&o->ops);
    }
    if (!ops_check(&o->ops, &why)) {
        complain("%s", why);
        exit_with_hint();
    }
}

struct options options_read(int argc, char **argv)
{
    struct options o = {.test = 'S',
                        .port = EXSTEST_PORT,
                        .quality = "BE",
                        .memory = BUDGET_DEFAULT,
                        .threads = 1,
                        .connections = 1,
                        .iterations = 1000,
                        .pipeline = PIPELINE_MAX,
                        .width = 1};
    struct given given[GIVEN_MAX];
    int count = collect_options(argc, argv, given, &o);
    const struct script *script = from_script(given, count, argc - optind, argv[0]);

    if (script->argc > 0) {
        argc = script->argc;
        argv = script->argv;
        count = collect_options(argc, argv, given, &o);
    }
    for (int i = 0; i < count; i++) {
        const char *tests = tests_of(given[i].option);
        char letter[3];

        if (given[i].option == 'f') {
            complain("-f: a script can't name another");
            exit_with_hint();
        }
        if (tests != NULL && strchr(tests, o.test) == NULL) {
            complain("%s is an option of the tests %s, not of %c", option_text(given[i].option, letter), tests,
                     o.test);
            exit_with_hint();
        }
        read_option(&o, given[i].option, given[i].word);
    }
    say_debug = o.debug;
    say_quiet = o.json;
    read_words(&o, argv + optind, argc - optind);
    check_all(&o);
    return o;
}

bool options_poll(const struct options *o)
{
    return o->polling || strcmp(o->quality, "LL") == 0 || strcmp(o->quality, "PM") == 0;
}
