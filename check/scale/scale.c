/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * scale [-n CONNECTIONS] [-p PAIRS] [-s SECONDS] [-t TRIPS] - prints the table of
 * check/scale/README.md. Ends with 1 if something could not be had, or is not flat.
 *
 *   -n CONNECTIONS  of a pair of processes, 10000
 *   -p PAIRS        of processes at once, 1
 *   -s SECONDS      of connections that come and go, 10
 *   -t TRIPS        round trips of each figure, 100000
 */
#include "scale.h"

#include <sys/prctl.h>
#include <sys/resource.h>

#define PAIRS_MAX 16
#define FEW 100 /* connections that others are compared with */
#define LISTENERS 1000
#define PARTS 10     /* of the round trips; the best counts */
#define LEAK_KIB 512 /* of a server after connections that came and went; an allocator is never quite flat */
#define SLOWER                                                                                                 \
    3 /* a round trip with many connections, of one with few: more sockets, caches miss, and others work */

static struct {
    unsigned long connections, pairs, seconds, trips;
} options = {.connections = 10000, .pairs = 1, .seconds = 10, .trips = 100000};
static bool bad;

struct couple {
    struct process server, client;
    struct measure server_before, client_before;
};

static void judge(bool good, const char *what)
{
    if (!good)
        printf("  BAD: %s\n", what);
    bad = bad || !good;
    fflush(stdout);
}

static const char *had(const struct measure *measure, unsigned long wanted)
{
    static char text[100];

    snprintf(text, sizeof text, "%lu of %lu: %s", measure->done, wanted, strerror(measure->error));
    return text;
}

static struct order wish(const struct couple *couple, enum wish what, unsigned long count)
{
    return (struct order){.wish = what, .count = count, .to = couple->server.address};
}

static struct measure server_now(const struct couple *couple)
{
    return order(&couple->server, (struct order){.wish = MEASURE});
}

static struct couple couple_start(int loops, unsigned number)
{
    struct couple couple = {.server = server_start(loops, INADDR_LOOPBACK + number), .client = client_start()};

    couple.server_before = server_now(&couple);
    couple.client_before = order(&couple.client, (struct order){.wish = MEASURE});
    return couple;
}

static void couple_end(struct couple *couple)
{
    process_end(&couple->client);
    process_end(&couple->server);
}

/* ---- Rows ------------------------------------------------------------------------------------ */

static void print_cost(const char *when, const struct couple *couple, const struct measure *client,
                       unsigned long count)
{
    struct measure server = server_now(couple);
    double n = (double)count;

    printf("  %-22s server %6.1f KiB and %.2f descriptors each, client %6.1f KiB and %.2f; threads %d and %d\n",
           when, (double)(server.resident_kib - couple->server_before.resident_kib) / n,
           (double)(server.descriptors - couple->server_before.descriptors) / n,
           (double)(client->resident_kib - couple->client_before.resident_kib) / n,
           (double)(client->descriptors - couple->client_before.descriptors) / n, server.threads,
           client->threads);
}

/* Microseconds of both processors; the best of some parts: what others do on the machine is none of it. */
static double trip_cost(const struct couple *couple, unsigned window)
{
    unsigned long part = options.trips / PARTS;
    double best = 1e30, fastest = 0;
    struct order trips = {.wish = SMALL_TRIPS, .count = part, .window = window};

    for (int i = 0; i < PARTS; i++) {
        struct measure server = server_now(couple),
                       client = order(&couple->client, (struct order){.wish = MEASURE});
        double cpu = server.cpu_s + client.cpu_s;

        client = order(&couple->client, trips);
        server = server_now(couple);
        judge(client.done == part && client.error == 0, had(&client, part));
        cpu = (server.cpu_s + client.cpu_s - cpu) * 1e6 / (double)part;
        best = cpu < best ? cpu : best;
        fastest = (double)part / client.seconds > fastest ? (double)part / client.seconds : fastest;
    }
    printf("  round trips, %2u at once %7.0f a second, %.1f us of processor time each, both ends\n", window,
           fastest, best);
    return best;
}

static double connect_and_go(struct couple *couple, unsigned long count)
{
    struct measure client = order(&couple->client, wish(couple, CONNECT, count));

    printf("%lu connections\n  connect                %.0f a second\n", client.done,
           (double)client.done / client.seconds);
    judge(client.done == count && client.error == 0, had(&client, count));
    if (client.done == 0)
        return 0;
    print_cost("idle", couple, &client, client.done);
    double cost = trip_cost(couple, 1);
    trip_cost(couple, WINDOW);
    client = order(&couple->client, wish(couple, LARGE_TRIPS, 0));
    judge(client.error == 0, "64 KiB there and back");
    print_cost("busy", couple, &client, count);
    client = order(&couple->client, wish(couple, CLOSE, 0));
    printf("  close                  %.0f a second\n", (double)client.done / client.seconds);
    return cost;
}

static void connections(void)
{
    struct couple few = couple_start(1, 0), many = couple_start(1, 0);
    double cost = connect_and_go(&few, FEW), cost_many = connect_and_go(&many, options.connections);

    printf("  one at a time a round trip costs %.2f times what it does with %d\n", cost_many / cost, FEW);
    judge(cost_many / cost < SLOWER, "that is not flat");
    couple_end(&few);
    couple_end(&many);
}

static void several(void)
{
    struct couple couples[PAIRS_MAX];
    struct measure client = {0};
    unsigned long done = 0;
    double begin = seconds_now();

    for (unsigned i = 0; i < options.pairs; i++)
        couples[i] = couple_start(1, i);
    for (unsigned i = 0; i < options.pairs; i++)
        order_give(&couples[i].client, wish(&couples[i], CONNECT, options.connections));
    for (unsigned i = 0; i < options.pairs; i++) {
        client = order_done(&couples[i].client);
        done += client.done;
        judge(client.done == options.connections, had(&client, options.connections));
    }
    printf("%lu connections, between %lu pairs of processes: %.0f a second\n", done, options.pairs,
           (double)done / (seconds_now() - begin));
    print_cost("idle, of the last pair", &couples[options.pairs - 1], &client, client.done ? client.done : 1);
    for (unsigned i = 0; i < options.pairs; i++)
        couple_end(&couples[i]);
}

static void loops(void)
{
    for (int count = 1; count <= 4; count *= 2) {
        struct couple couple = couple_start(count, 0);
        struct measure client = order(&couple.client, wish(&couple, CONNECT, WINDOW * 4));

        judge(client.error == 0, had(&client, WINDOW * 4));
        printf("%d loop%s in threads of a server, %d connections\n", count, count > 1 ? "s" : "", WINDOW * 4);
        trip_cost(&couple, WINDOW);
        couple_end(&couple);
    }
}

static void listeners(void)
{
    struct couple couple = couple_start(1, 0);
    struct measure client = order(&couple.client, wish(&couple, LISTEN, LISTENERS));

    printf("%lu listeners: %.0f a second, %.1f KiB and %.2f descriptors each\n", client.done,
           (double)client.done / client.seconds,
           (double)(client.resident_kib - couple.client_before.resident_kib) / (double)client.done,
           (double)(client.descriptors - couple.client_before.descriptors) / (double)client.done);
    judge(client.done == LISTENERS, had(&client, LISTENERS));
    couple_end(&couple);
}

/* Memory after the first tenth, when whatever is kept for later has been allocated, and at the end. */
static void come_and_go(void)
{
    struct couple couple = couple_start(1, 0);
    unsigned long tenth = options.seconds / 10 ? options.seconds / 10 : 1;
    struct measure client = order(&couple.client, wish(&couple, CHURN, tenth));
    long server_kib = server_now(&couple).resident_kib, client_kib = client.resident_kib;

    judge(client.error == 0, strerror(client.error));
    client = order(&couple.client, wish(&couple, CHURN, options.seconds - tenth));
    server_kib = server_now(&couple).resident_kib - server_kib;
    client_kib = client.resident_kib - client_kib;
    printf("%lu connections came and went in %.0f s: %.0f a second; server %+ld KiB, client %+ld KiB\n",
           client.done, client.seconds, (double)client.done / client.seconds, server_kib, client_kib);
    judge(client.error == 0, strerror(client.error));
    judge(!sees_bytes() || (server_kib < LEAK_KIB && client_kib < LEAK_KIB), "memory is not flat");
    couple_end(&couple);
}

/* ---- Limits ------------------------------------------------------------------------------------ */

/* As many descriptors as may be; what stands in the way is said. */
static void raise_limit(void)
{
    struct rlimit limit,
        wanted = {.rlim_cur = 4 * options.connections + 1000, .rlim_max = 4 * options.connections + 1000};

    getrlimit(RLIMIT_NOFILE, &limit);
    if (limit.rlim_cur >= wanted.rlim_cur || setrlimit(RLIMIT_NOFILE, &wanted) == 0)
        return;
    limit.rlim_cur = limit.rlim_max;
    setrlimit(RLIMIT_NOFILE, &limit);
    unsigned long most = (limit.rlim_max - 600) / 2; /* a connection by udp has two at each end */
    if (most < options.connections) {
        printf("The limit of descriptors is %lu (ulimit -Hn): %lu connections in place of %lu\n",
               (unsigned long)limit.rlim_max, most, options.connections);
        options.connections = most;
    }
}

static bool read_options(int argc, char **argv)
{
    int option;

    while ((option = getopt(argc, argv, "n:p:s:t:")) != -1) {
        unsigned long number = strtoul(optarg ? optarg : "0", NULL, 10);
        unsigned long *which = option == 'n'   ? &options.connections
                               : option == 'p' ? &options.pairs
                               : option == 's' ? &options.seconds
                               : option == 't' ? &options.trips
                                               : NULL;
        if (!which || number == 0)
            return false;
        *which = number;
    }
    return options.pairs <= PAIRS_MAX && optind == argc;
}

int main(int argc, char **argv)
{
    if (!read_options(argc, argv)) {
        fprintf(stderr, "usage: scale [-n CONNECTIONS] [-p PAIRS] [-s SECONDS] [-t TRIPS]\n");
        return 2;
    }
    setenv("EXS_SPIN", "0", 0);            /* looking for what comes would be counted, too */
    prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0); /* when the kernel puts pages together is its own affair */
    raise_limit();
    connections();
    if (options.pairs > 1)
        several();
    loops();
    listeners();
    come_and_go();
    return bad;
}
