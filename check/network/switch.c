/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * switch.c - an Ethernet switch between network namespaces that delays, loses, reorders and duplicates frames, and whose
 * ports have a rate and a finite queue. It takes the place of sch_netem where the kernel has none.
 *
 *   switch [-m MTU] [-d USEC] [-l LOSS] [-r REORDER] [-u DUPLICATE] [-b MBIT] [-q BYTES] [-s SEED] HOSTS
 *
 *   HOSTS  hosts to make, 2 to 16 (hosts.h says how they are addressed)
 *   -m     MTU of each host's interface, bytes (1500)
 *   -d     delay from one host to another, one way, microseconds (0)
 *   -l     part of the frames that is lost, 0 to 1 (0)
 *   -r     part of the frames that is delayed by half of -d more, at least 200 us, so that later frames overtake them (0)
 *   -u     part of the frames that arrives twice (0)
 *   -b     rate of each port to its host, Mbit/s, with preamble, checksum and gap of Ethernet; 0: no limit (0)
 *   -q     bytes that wait for the rate of a port at most; frames beyond are dropped (262144)
 *   -s     seed of the random numbers (1)
 *
 * Prints "host N /proc/PID/fd/FD" for each host, for nsenter --net=, and then "ready". Each line on standard input is
 * answered by the counts so far, one line for each host, "host N: dropped A lost B reordered C duplicated D bytes E F ...":
 * frames on their way to the host, and the bytes that it received from host 1, 2, ... Ends on SIGTERM, SIGINT, or when
 * standard input ends.
 */
#include "check/network/frames.h"
#include "check/network/hosts.h"

#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

#define MOST_HOSTS 16
#define MOST_ADDRESSES 64
#define ADDRESS_BYTES 6
#define FRAME_OVERHEAD 24 /* bytes on the wire that a TAP device does not show: preamble, checksum, gap */
#define FRAMES_AT_ONCE 32 /* read from one port before the next port has its share */
#define LEAST_REORDER_NS 200000

struct port {
    struct host host;
    struct frame_heap frames;                      /* on their way to the host */
    uint64_t busy_until_ns;                        /* when the last of them has left the queue */
    uint64_t dropped, lost, reordered, duplicated; /* frames */
    uint64_t bytes_from[MOST_HOSTS];               /* delivered to the host */
};

struct address {
    unsigned char bytes[ADDRESS_BYTES];
    int port;
};

static struct port ports[MOST_HOSTS];
static int port_count;
static struct address addresses[MOST_ADDRESSES];
static int address_count;

static int mtu = 1500;
static uint64_t delay_ns;
static double loss, reorder, duplicate, rate_mbit;
static uint64_t queue_bytes = 262144;
static uint64_t random_state = 1;

static volatile sig_atomic_t is_stopped;

static void stop(int signal_number)
{
    (void)signal_number;
    is_stopped = 1;
}

static uint64_t now_ns(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

/* True with the given probability. A generator of its own (splitmix64): the same seed loses the same frames. */
static bool happens(double probability)
{
    uint64_t z = random_state += 0x9e3779b97f4a7c15;

    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
    z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
    z ^= z >> 31;
    return (double)(z >> 11) * 0x1p-53 < probability;
}

/* ---- Ports ---- */

static void push_copy(struct port *port, int from, const unsigned char *data, size_t length, uint64_t due_ns)
{
    static uint64_t sequence;
    struct frame *frame = frame_new(data, length);

    frame->from = from;
    frame->sequence = sequence++;
    frame->due_ns = due_ns + delay_ns;
    if (happens(reorder)) {
        port->reordered++;
        frame->due_ns += delay_ns / 2 > LEAST_REORDER_NS ? delay_ns / 2 : LEAST_REORDER_NS;
    }
    frame_heap_push(&port->frames, frame);
}

/* The rate and the queue come first, as in a router; delay, reordering and duplication belong to the path behind it. */
static void send_to_port(struct port *port, int from, const unsigned char *data, size_t length, uint64_t now)
{
    uint64_t leaves_ns = now;

    if (happens(loss)) {
        port->lost++;
        return;
    }
    if (rate_mbit > 0) {
        double ns_per_byte = 8000 / rate_mbit;
        uint64_t start_ns = port->busy_until_ns > now ? port->busy_until_ns : now;

        if ((double)(start_ns - now) / ns_per_byte + (double)length > (double)queue_bytes) {
            port->dropped++;
            return;
        }
        leaves_ns = start_ns + (uint64_t)((double)(length + FRAME_OVERHEAD) * ns_per_byte);
        port->busy_until_ns = leaves_ns;
    }
    push_copy(port, from, data, length, leaves_ns);
    if (happens(duplicate)) {
        port->duplicated++;
        push_copy(port, from, data, length, leaves_ns);
    }
}

static struct address *find_address(const unsigned char *bytes)
{
    for (int i = 0; i < address_count; i++) {
        if (memcmp(addresses[i].bytes, bytes, ADDRESS_BYTES) == 0)
            return &addresses[i];
    }
    return NULL;
}

static void learn_address(const unsigned char *bytes, int port)
{
    struct address *known = find_address(bytes);

    if (known == NULL && address_count < MOST_ADDRESSES) {
        known = &addresses[address_count++];
        memcpy(known->bytes, bytes, ADDRESS_BYTES);
    }
    if (known != NULL)
        known->port = port;
}

/* Unicast to a known address goes to its port, everything else to all other ports. */
static void forward(int from, const unsigned char *data, size_t length)
{
    const struct address *target = (data[0] & 1) != 0 ? NULL : find_address(data);
    uint64_t now = now_ns();

    learn_address(data + ADDRESS_BYTES, from);
    for (int i = 0; i < port_count; i++) {
        if (i != from && (target == NULL || target->port == i))
            send_to_port(&ports[i], from, data, length, now);
    }
}

/* Returns whether there was anything. */
static bool receive_from_port(int index)
{
    static unsigned char frame[65536];
    struct port *port = &ports[index];

    for (int i = 0; i < FRAMES_AT_ONCE; i++) {
        ssize_t length = read(port->host.tap, frame, sizeof(frame));

        if (length < 2 * ADDRESS_BYTES)
            return i > 0;
        forward(index, frame, (size_t)length);
    }
    return true;
}

static void deliver_due(struct port *port)
{
    uint64_t now = now_ns();

    for (const struct frame *first;
         (first = frame_heap_first(&port->frames)) != NULL && first->due_ns <= now;) {
        struct frame *frame = frame_heap_pop(&port->frames);

        if (write(port->host.tap, frame->data, frame->length) == (ssize_t)frame->length) {
            port->bytes_from[frame->from] += frame->length;
        } else {
            port->dropped++; /* the host's own queue is full */
        }
        free(frame);
    }
}

/* ---- The loop ---- */

static void print_counts(void)
{
    for (int i = 0; i < port_count; i++) {
        const struct port *port = &ports[i];

        printf("host %d: dropped %" PRIu64 " lost %" PRIu64 " reordered %" PRIu64 " duplicated %" PRIu64
               " bytes",
               i + 1, port->dropped, port->lost, port->reordered, port->duplicated);
        for (int from = 0; from < port_count; from++)
            printf(" %" PRIu64, port->bytes_from[from]);
        printf("\n");
    }
    fflush(stdout);
}

/* Answers the lines on standard input. */
static void read_commands(void)
{
    char commands[256];
    ssize_t length = read(STDIN_FILENO, commands, sizeof(commands));

    if (length <= 0)
        is_stopped = 1;
    for (ssize_t i = 0; i < length; i++) {
        if (commands[i] == '\n')
            print_counts();
    }
}

/* Sleeps until a frame arrives or is due, unless the last pass found frames. */
static void wait_for_frames(bool is_busy)
{
    struct pollfd watched[MOST_HOSTS + 1];
    uint64_t next = UINT64_MAX, now;
    struct timespec left = {.tv_sec = 1};

    for (int i = 0; i < port_count; i++) {
        const struct frame *first = frame_heap_first(&ports[i].frames);

        watched[i] = (struct pollfd){.fd = ports[i].host.tap, .events = POLLIN};
        if (first != NULL && first->due_ns < next)
            next = first->due_ns;
    }
    watched[port_count] = (struct pollfd){.fd = STDIN_FILENO, .events = POLLIN};
    now = now_ns();
    if (is_busy || next <= now)
        left.tv_sec = 0;
    else if (next - now < 1000000000)
        left = (struct timespec){.tv_nsec = (long)(next - now)};
    if (ppoll(watched, (nfds_t)port_count + 1, &left, NULL) > 0 && watched[port_count].revents != 0)
        read_commands();
}

static void run(void)
{
    while (!is_stopped) {
        bool is_busy = false;

        for (int i = 0; i < port_count; i++) {
            deliver_due(&ports[i]);
            is_busy |= receive_from_port(i);
        }
        wait_for_frames(is_busy);
    }
}

/* ---- The command line ---- */

static _Noreturn void end_with_usage(const char *what)
{
    fprintf(stderr,
            "switch: %s\n"
            "usage: switch [-m MTU] [-d USEC] [-l LOSS] [-r REORDER] [-u DUPLICATE] [-b MBIT] [-q BYTES] [-s "
            "SEED] HOSTS\n",
            what);
    exit(2);
}

static double parse_number(const char *text, double least, double most, const char *what)
{
    char *end;
    double value = strtod(text, &end);

    if (end == text || *end != '\0' || !(value >= least && value <= most))
        end_with_usage(what);
    return value;
}

static void parse_options(int argc, char **argv)
{
    for (int option; (option = getopt(argc, argv, "m:d:l:r:u:b:q:s:")) != -1;) {
        switch (option) {
        case 'm':
            mtu = (int)parse_number(optarg, 576, 65000, "-m takes 576 to 65000 bytes");
            break;
        case 'd':
            delay_ns = (uint64_t)(parse_number(optarg, 0, 1e7, "-d takes 0 to 10,000,000 us") * 1000);
            break;
        case 'l':
            loss = parse_number(optarg, 0, 1, "-l takes 0 to 1");
            break;
        case 'r':
            reorder = parse_number(optarg, 0, 1, "-r takes 0 to 1");
            break;
        case 'u':
            duplicate = parse_number(optarg, 0, 1, "-u takes 0 to 1");
            break;
        case 'b':
            rate_mbit = parse_number(optarg, 0, 1e6, "-b takes 0 to 1,000,000 Mbit/s");
            break;
        case 'q':
            queue_bytes = (uint64_t)parse_number(optarg, 1514, 1e9, "-q takes 1514 to 1,000,000,000 bytes");
            break;
        case 's':
            random_state = (uint64_t)parse_number(optarg, 0, 1e15, "-s takes a number of at most 15 digits");
            break;
        default:
            end_with_usage("unknown option");
        }
    }
    if (optind != argc - 1)
        end_with_usage("one argument is the number of hosts");
    port_count = (int)parse_number(argv[optind], 2, MOST_HOSTS, "HOSTS is 2 to 16");
}

int main(int argc, char **argv)
{
    struct sigaction action = {.sa_handler = stop};

    parse_options(argc, argv);
    for (int i = 0; i < port_count; i++) {
        if (!host_make(&ports[i].host, i + 1, mtu))
            return 1;
        printf("host %d /proc/%d/fd/%d\n", i + 1, (int)getpid(), ports[i].host.namespace);
    }
    sigaction(SIGTERM, &action, NULL);
    sigaction(SIGINT, &action, NULL);
    prctl(PR_SET_TIMERSLACK, 1UL); /* nanoseconds: delays are as exact as the clock */
    printf("ready\n");
    fflush(stdout);
    run();
    return 0;
}
