/* SPDX-License-Identifier: BSD-2-Clause */
/* The client: one loop, which connects, goes round and closes, so many at once. See scale.h. */
#include "scale.h"

#define MOST (1 << 20)
#define HOT 3 /* connections with round trips, of each of the window */

struct slot { /* of a window: a round trip, or a connection that comes or goes */
    int socket;
    size_t length;
    bool sent, received;
    char *out, *in;
};

static exs_qhandle_t queue;
static int *sockets;
static unsigned long count;
static struct slot slots[WINDOW];
static struct chance chance = {.state = 1};
static struct measure result;

static bool failed(int error)
{
    if (error != 0 && result.error == 0)
        result.error = error;
    return error != 0;
}

/* The next event; false: it tells of a failure. */
static struct slot *await(exs_event_t *event)
{
    if (exs_qdequeue(queue, event, 1, NULL) != 1)
        give_up("exs_qdequeue");
    return event->exs_evt_ahandle;
}

/* ---- Coming and going ------------------------------------------------------------------- */

static bool connect_begin(struct slot *slot, const struct sockaddr_in *to)
{
    slot->socket = exs_socket(PF_INET, SOCK_STREAM, 0);
    return slot->socket >= 0 &&
           exs_connect(slot->socket, (const struct sockaddr *)to, sizeof *to, 0, NULL, queue, slot) == 0;
}

static void connect_all(unsigned long wanted, const struct sockaddr_in *to)
{
    unsigned long begun = 0;
    int busy = 0;
    exs_event_t event;

    for (int i = 0; i < WINDOW; i++)
        if (begun < wanted && connect_begin(&slots[i], to))
            busy++, begun++;
    failed(busy == 0 ? errno : 0);
    for (; busy > 0; busy--) {
        struct slot *slot = await(&event);
        if (failed(event.exs_evt_errno))
            exs_close(slot->socket, 0, NULL, NULL);
        else
            sockets[count++] = slot->socket, result.done++;
        if (result.error == 0 && begun < wanted && failed(connect_begin(slot, to) ? 0 : errno) == false)
            busy++, begun++;
    }
}

static void close_all(void)
{
    exs_event_t event;
    unsigned long begun = 0;

    for (; result.done < count; result.done++) {
        for (; begun < count && begun < result.done + WINDOW; begun++)
            if (exs_close(sockets[begun], 0, queue, NULL) != 0)
                give_up("exs_close");
        await(&event);
    }
    count = 0;
}

/* Connections come and go, for so many seconds. */
static void churn(double seconds, const struct sockaddr_in *to)
{
    double until = seconds_now() + seconds;
    exs_event_t event;
    int busy = 0;

    for (int i = 0; i < WINDOW; i++)
        busy += connect_begin(&slots[i], to);
    for (; busy > 0; busy--) {
        struct slot *slot = await(&event);
        failed(event.exs_evt_errno);
        if (event.exs_evt_type == EXS_EVT_CONNECT)
            busy += exs_close(slot->socket, 0, queue, slot) == 0;
        else if (++result.done && seconds_now() < until && result.error == 0)
            busy += !failed(connect_begin(slot, to) ? 0 : errno);
    }
}

/* ---- Round trips -------------------------------------------------------------------------- */

static bool trip_begin(struct slot *slot, size_t length, unsigned long number)
{
    slot->length = length;
    slot->sent = slot->received = false;
    slot->socket = sockets[number];
    return exs_recv(slot->socket, slot->in, length, MSG_WAITALL, queue, slot, NULL) == 0 &&
           exs_send(slot->socket, slot->out, length, 0, queue, slot, NULL) == 0;
}

/* Each connection in turn; or any of the same few, which lie between all others: what is dearer then is finding
 * them. */
static unsigned long next_of(size_t length, unsigned long begun, int slot)
{
    unsigned long part = count / WINDOW, few = part < HOT ? part : HOT;

    if (length == LARGE)
        return begun;
    return part == 0 ? (unsigned long)slot
                     : (unsigned long)slot * part + chance_below(&chance, few) * (part / few);
}

static void trips(unsigned long wanted, size_t length, unsigned window)
{
    unsigned long begun = 0;
    int busy = 0;
    exs_event_t event;

    for (int i = 0; i < (int)window && begun < wanted && (unsigned long)i < count; i++)
        if (trip_begin(&slots[i], length, next_of(length, begun++, i)))
            busy++;
    while (busy > 0) {
        struct slot *slot = await(&event);
        failed(event.exs_evt_errno);
        slot->sent = slot->sent || event.exs_evt_type == EXS_EVT_SEND;
        slot->received = slot->received || event.exs_evt_type == EXS_EVT_RECV;
        if (!slot->sent || !slot->received)
            continue;
        busy--;
        if (memcmp(slot->in, slot->out, length) != 0)
            failed(EIO);
        result.done++;
        if (begun < wanted && result.error == 0 &&
            trip_begin(slot, length, next_of(length, begun, (int)(slot - slots))))
            busy++, begun++;
    }
}

/* ---- Listeners ------------------------------------------------------------------------------ */

static void listen_all(unsigned long wanted)
{
    struct sockaddr_in here = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};

    while (result.done < wanted) {
        int socket = exs_socket(PF_INET, SOCK_STREAM, 0);
        if (socket < 0 || exs_bind(socket, (struct sockaddr *)&here, sizeof here) != 0 ||
            exs_listen(socket, 16) != 0)
            break;
        sockets[count++] = socket;
        result.done++;
    }
    failed(result.done < wanted ? errno : 0);
}

/* ---- Orders ---------------------------------------------------------------------------------- */

static void obey(const struct order *what)
{
    double begin = seconds_now();

    result = (struct measure){.done = 0};
    switch (what->wish) {
    case CONNECT:
        connect_all(what->count, &what->to);
        break;
    case SMALL_TRIPS:
        trips(what->count, SMALL, what->window);
        break;
    case LARGE_TRIPS:
        trips(count, LARGE, WINDOW);
        break;
    case CLOSE:
        close_all();
        break;
    case CHURN:
        churn((double)what->count, &what->to);
        break;
    case LISTEN:
        listen_all(what->count);
        break;
    default:
        break;
    }
    struct measure now = measure_now();
    now.seconds = seconds_now() - begin;
    now.done = result.done;
    now.error = result.error;
    result = now;
}

static _Noreturn void run(int fd)
{
    struct order what;

    if (exs_init(EXS_VERSION) != 0 || (queue = exs_qcreate(1024)) == EXS_QHANDLE_INVALID)
        give_up("the client");
    sockets = calloc(MOST, sizeof *sockets);
    for (int i = 0; i < WINDOW; i++) {
        slots[i].out = malloc(LARGE);
        slots[i].in = calloc(1, LARGE);
        pattern_fill(slots[i].out, LARGE, (uint64_t)i, 0);
    }
    while (read(fd, &what, sizeof what) == sizeof what && what.wish != END) {
        obey(&what);
        if (write(fd, &result, sizeof result) != sizeof result)
            break;
    }
    _exit(0);
}

struct process client_start(void)
{
    struct process process = {.pid = -1};
    int ends[2];

    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0 || (process.pid = fork()) < 0)
        give_up("fork");
    if (process.pid == 0) {
        close(ends[0]);
        run(ends[1]);
    }
    close(ends[1]);
    process.fd = ends[0];
    return process;
}
