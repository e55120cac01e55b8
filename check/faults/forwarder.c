/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * forwarder.c - a process between victim and survivor, like a NAT or an ssh tunnel between hosts. It accepts
 * connections, connects each to the end that listens, and passes the bytes on in segments of random sizes. A
 * fault orders it to break the connections. See faults.h.
 */
#include "faults.h"

#include <poll.h>
#include <sched.h>
#include <sys/eventfd.h>
#include <sys/mman.h>

#define PAIRS 16
#define PIECE 4000 /* most bytes passed on at once */
#define PAUSE_S 1.5

/* One direction of a connection. */
struct way {
    char bytes[PIECE];
    size_t begin, end; /* bytes between these were not passed on yet */
    bool over;         /* the end of stream has arrived */
    bool told;         /* the end of stream was passed on */
};

struct passage {
    int ends[2]; /* -1: none */
    struct way ways[2];
    bool answered;       /* the listening end has sent bytes */
    double paused_until; /* nothing is read or written before this time */
    bool stopped;        /* nothing is read or written any more */
    bool discards;       /* bytes that arrive are not passed on */
};

static struct shared { /* shared with the processes of the cell */
    struct address target;
    _Atomic int order; /* set by the process that strikes; the forwarder's ORDER_NONE publishes `struck` */
    int struck;        /* number of connections */
} * shared;
static int wakefd; /* an eventfd that is signaled after an order */
static struct passage pairs[PAIRS];
static struct chance chance;

/* ---- Orders ---- */

static void drop_pair(struct passage *pair, bool reset)
{
    const struct linger linger = {.l_onoff = 1};

    for (int i = 0; i < 2; i++) {
        if (reset)
            setsockopt(pair->ends[i], SOL_SOCKET, SO_LINGER, &linger, sizeof linger);
        close(pair->ends[i]);
    }
    *pair = (struct passage){.ends = {-1, -1}};
}

/* Returns the number of connections that were struck. One that is silenced is not struck before the listening
 * end has sent bytes: a listening survivor would otherwise wait for its request, and could not distinguish it
 * from an idle TCP client. */
static int strike_pair(struct passage *pair, enum order order)
{
    if (pair->ends[0] == -1 || (!pair->answered && (order == ORDER_STOP || order == ORDER_DISCARD)))
        return 0;
    switch (order) {
    case ORDER_RESET:
    case ORDER_CLOSE:
        drop_pair(pair, order == ORDER_RESET);
        break;
    case ORDER_PAUSE:
        pair->paused_until = seconds_now() + PAUSE_S;
        break;
    case ORDER_STOP:
        pair->stopped = true;
        break;
    case ORDER_DISCARD:
        pair->discards = true;
        break;
    case ORDER_NONE:
        break;
    }
    return 1;
}

static void obey(void)
{
    enum order order = (enum order)atomic_load(&shared->order);
    eventfd_t count;

    eventfd_read(wakefd, &count);
    shared->struck = 0;
    for (int i = 0; i < PAIRS; i++)
        shared->struck += strike_pair(&pairs[i], order);
    atomic_store(&shared->order, ORDER_NONE);
}

/* ---- Bytes ---- */

/* If the target refuses the connection the forwarder resets it. */
static void accept_pair(int listener)
{
    const struct address *target = &shared->target;
    struct passage pair = {.ends = {accept4(listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK), -1}};
    struct passage *place = pairs;

    if (pair.ends[0] == -1)
        return;
    while (place < pairs + PAIRS && place->ends[0] != -1)
        place++;
    pair.ends[1] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (place == pairs + PAIRS || connect(pair.ends[1], SA(target), target->length) == -1)
        drop_pair(&pair, true);
    else
        *place = pair;
}

static void read_piece(struct passage *pair, int from)
{
    struct way *way = &pair->ways[from];
    ssize_t got = recv(pair->ends[from], way->bytes, chance_size(&chance, 1, PIECE), MSG_DONTWAIT);

    if (got == -1 && (errno == EAGAIN || errno == EINTR))
        return;
    pair->answered |= from == 1 && got > 0;
    if (got == -1 || (got == 0 && pair->discards))
        drop_pair(pair, true);
    else if (!pair->discards) {
        way->over = got == 0;
        way->begin = 0;
        way->end = (size_t)got;
    }
}

static void write_piece(struct passage *pair, int from)
{
    struct way *way = &pair->ways[from];
    ssize_t sent =
        send(pair->ends[!from], way->bytes + way->begin, way->end - way->begin, MSG_NOSIGNAL | MSG_DONTWAIT);

    if (sent > 0)
        way->begin += (size_t)sent;
    else if (errno != EAGAIN && errno != EINTR)
        drop_pair(pair, true);
}

static bool is_empty(const struct way *way)
{
    return way->begin == way->end;
}

static short events_of(const struct passage *pair, int end)
{
    if (pair->ends[0] == -1 || seconds_now() < pair->paused_until)
        return 0;
    if (pair->stopped)
        return POLLRDHUP;
    return (short)((is_empty(&pair->ways[end]) && !pair->ways[end].over ? POLLIN : 0) |
                   (is_empty(&pair->ways[!end]) ? 0 : POLLOUT));
}

/* Passes the end of one direction on. Drops the pair after both. */
static void pass_ends(struct passage *pair)
{
    for (int i = 0; i < 2; i++) {
        struct way *way = &pair->ways[i];

        if (way->over && !way->told && is_empty(way)) {
            shutdown(pair->ends[!i], SHUT_WR);
            way->told = true;
        }
    }
    if (pair->ways[0].told && pair->ways[1].told)
        drop_pair(pair, false);
}

static void serve_pair(struct passage *pair, const struct pollfd wait[2])
{
    if (pair->stopped && ((wait[0].revents | wait[1].revents) & (POLLRDHUP | POLLHUP | POLLERR)))
        drop_pair(pair, true);
    for (int i = 0; i < 2; i++) {
        if (pair->ends[0] != -1 && (wait[i].revents & (POLLIN | POLLHUP | POLLERR)) &&
            (wait[i].events & POLLIN))
            read_piece(pair, i);
        if (pair->ends[0] != -1 && (wait[i].revents & (POLLOUT | POLLERR)) && !is_empty(&pair->ways[!i]))
            write_piece(pair, !i);
    }
    if (pair->ends[0] != -1)
        pass_ends(pair);
}

/* ---- The process ---- */

static void run_forwarder(int fd, void *seed)
{
    struct address here = loopback(AF_INET, 0);
    int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

    chance.state = *(uint64_t *)seed;
    for (int i = 0; i < PAIRS; i++)
        pairs[i].ends[0] = pairs[i].ends[1] = -1;
    must(bind(listener, SA(&here), here.length));
    must(listen(listener, PAIRS));
    must(getsockname(listener, SA(&here), &here.length));
    tell(fd, &here, sizeof here);
    for (;;) {
        struct pollfd wait[3 + 2 * PAIRS] = {
            {.fd = fd, .events = POLLIN}, {.fd = wakefd, .events = POLLIN}, {.fd = listener, .events = POLLIN}};

        /* poll(2) would report a hang-up of a descriptor even without requested events */
        for (int i = 0; i < 2 * PAIRS; i++) {
            short events = events_of(&pairs[i / 2], i % 2);

            wait[3 + i] = (struct pollfd){.fd = events != 0 ? pairs[i / 2].ends[i % 2] : -1, .events = events};
        }
        must(poll(wait, COUNT(wait), 100));
        if (wait[0].revents)
            return; /* the cell has ended */
        for (int i = 0; i < PAIRS; i++)
            if (pairs[i].ends[0] != -1)
                serve_pair(&pairs[i], wait + 3 + 2 * i);
        if (wait[2].revents)
            accept_pair(listener);
        if (wait[1].revents)
            obey();
    }
}

void forwarder_start(struct child *child, struct address *where, uint64_t seed)
{
    shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    ck_assert_ptr_ne(shared, MAP_FAILED);
    must(wakefd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    child_start(child, run_forwarder, &seed);
    hear(child->fd, where, sizeof *where);
}

void forwarder_aim(const struct address *target)
{
    shared->target = *target;
}

bool forwarder_strike(enum order order)
{
    atomic_store(&shared->order, (int)order);
    must(eventfd_write(wakefd, 1));
    while (atomic_load(&shared->order) != ORDER_NONE)
        sched_yield();
    return shared->struck > 0;
}
