/* SPDX-License-Identifier: BSD-2-Clause */
/* meet.c - how victim and survivor connect and disconnect. See faults.h. */
#include "faults.h"

#include <netinet/tcp.h>
#include <poll.h>

#define PATIENCE_S 4.0 /* s; of a connect whose peer does not answer */
#define TRIES 5000
#define NOBODY 1u   /* is flipped in a hello's seed: there will be no connection */
#define GRACE_MS 20 /* an established connection may still be reported in this time */

bool is_sending(const struct end *end)
{
    return end->point->sends == end->victim;
}

static bool is_calm(const struct end *end)
{
    return end->point->calm || end->cell->fault->fate <= SHORT;
}

/* Receives the time of the strike, if it has been sent. */
static void hear_strike(struct end *end, bool wait)
{
    struct pollfd word = {.fd = end->fd, .events = POLLIN};

    if (is_gone(end))
        end->struck = atomic_load(&end->lost); /* with `when` */
    if (end->struck || is_calm(end) || is_gone(end) || (!wait && poll(&word, 1, 0) != 1))
        return;
    hear(end->fd, &end->when, sizeof end->when);
    end->struck = true;
}

/* Enables keepalives. While both ends wait for each other, a stopped peer would not be noticed otherwise.
 * Called at once, because the peer may stop before its first byte. */
static void ask_often(struct end *end)
{
    const struct {
        int level, option, value;
    } asked[] = {{SOL_SOCKET, SO_KEEPALIVE, 1},
                 {IPPROTO_TCP, TCP_KEEPIDLE, 1},
                 {IPPROTO_TCP, TCP_KEEPINTVL, 1},
                 {IPPROTO_TCP, TCP_KEEPCNT, 2}};

    if (end->victim || !end->cell->fault->asked)
        return;
    for (int i = 0; i < COUNT(asked); i++)
        must(exs_setsockopt(end->socket, asked[i].level, asked[i].option, &asked[i].value, sizeof(int)));
}

/* ---- Accepting ----------------------------------------------------------------------- */

static struct op *ask_accept(struct end *end)
{
    struct op *op = op_begin(end, EXS_EVT_ACCEPT, end->listener);

    end->element = (exs_acceptaddr_t){.exs_ahandle = op};
    int result;

    do
        result = exs_accept(end->listener, &end->element, 1, 0, end->queue);
    while (is_refused(end, result));
    return op_began(end, op, result);
}

/* Returns the next connection, or -1 if none is expected any more. */
static int accept_next(struct end *end, bool until_struck)
{
    struct op *op = ask_accept(end);

    while (op->owed && until_struck && !end->struck) {
        end_turn(end, 5);
        hear_strike(end, false);
    }
    if (op->owed && until_struck) {
        end_turn(end, GRACE_MS);
        if (op->owed)
            must(exs_cancel(end->listener, op, 0));
    }
    int error = op_wait(end, op, NULL);
    if (error == 0)
        return op->accepted;
    if (error == end->cell->fault->error && is_short(end))
        return accept_next(end, until_struck);
    ck_assert_msg(error == ECANCELED && until_struck, "exs_accept: %s", strerrorname_np(error));
    return -1;
}

static bool hear_hello(struct end *end, uint64_t want, uint64_t *hello)
{
    size_t got = 0;
    int error = end_recv(end, hello, sizeof *hello, &got);

    return error == 0 && got == sizeof *hello && *hello == want;
}

static bool accept_this(struct end *end, uint64_t want, bool until_struck)
{
    while ((end->socket = accept_next(end, until_struck)) >= 0) {
        uint64_t hello = 0;

        ask_often(end);
        if (hear_hello(end, want, &hello))
            return true;
        ck_assert_int_eq(end_close_socket(end, &end->socket), 0);
        if (is_gone(end) && hello == (want ^ NOBODY))
            return end_good(end, ECONNRESET);
    }
    return false;
}

int accept_bystander(struct end *end)
{
    int before = end->socket, socket;

    ck_assert(accept_this(end, 0, false));
    socket = end->socket;
    end->socket = before;
    return socket;
}

/* ---- Connecting ---------------------------------------------------------------------- */

static int try_connect(struct end *end)
{
    const struct timeval patience = {.tv_sec = (time_t)PATIENCE_S};
    const struct address *to = &end->point->address;
    bool patient = end->cell->fault->fate != SILENT && end->cell->fault->fate != GONE;

    end->socket = exs_socket(PF_INET, SOCK_STREAM, 0);
    if (end->socket < 0)
        return errno;
    struct op *op = op_begin(end, EXS_EVT_CONNECT, end->socket);
    if (end->cell->fault->connecting && !end->victim) {
        char service[12];

        snprintf(service, sizeof service, "%d", port_of(to));
        op_began(end, op,
                 exs_connect_host(end->socket, end->cell->link->host, service, 0, NULL, end->queue, op));
    } else
        op_began(end, op,
                 exs_connect(end->socket, SA(to), to->length, 0, patient || end->victim ? NULL : &patience,
                             end->queue, op));
    return op_wait(end, op, NULL);
}

/* Connects, sends a hello and receives the answer. Returns 0 or an errno; EPIPE: the connection ended instead. */
static int try_greet(struct end *end)
{
    uint64_t hello = end->point->seed;
    size_t got = 0;
    int error = try_connect(end);

    if (error == 0)
        ask_often(end);
    if (error == 0)
        error = end_send(end, &hello, sizeof hello);
    if (error == 0)
        error = end_recv(end, &hello, sizeof hello, &got);
    if (error != 0)
        return error;
    return got == sizeof hello && hello == end->point->seed ? 0 : EPIPE;
}

static int answer_hello(struct end *end)
{
    uint64_t hello = end->point->seed;

    return end_send(end, &hello, sizeof hello);
}

/* During a shortage of the survivor both ends try again, in the same roles, until they succeed. */
static bool greet(struct end *end)
{
    bool listens = end->point->listens == end->victim;
    int error = listens ? answer_hello(end) : try_greet(end);

    for (int i = 0; error != 0 && is_short(end) && i < TRIES; i++) {
        ck_assert_msg(end->victim || error == end->cell->fault->error, "the survivor was told %s",
                      strerrorname_np(error));
        if (end->socket >= 0)
            ck_assert_int_eq(end_close_socket(end, &end->socket), 0);
        poll(NULL, 0, 1);
        if (!listens)
            error = try_greet(end);
        else if (accept_this(end, end->point->seed, false))
            error = answer_hello(end);
    }
    return end_good(end, error);
}

/* The victim may still wait for a connection that is gone. If not, it has left by now, or leaves. */
static void release_victim(struct end *end)
{
    uint64_t hello = end->point->seed ^ NOBODY;
    int before = end->socket;

    if (try_connect(end) == 0)
        end_send(end, &hello, sizeof hello);
    if (end->socket >= 0)
        ck_assert_int_eq(end_close_socket(end, &end->socket), 0);
    end->socket = before;
}

bool meet(struct end *end)
{
    bool met = true;

    if (end->cell->moment->setup || end->cell->fault->whole)
        trigger_arm(end);
    if (end->point->listens == end->victim)
        met = accept_this(end, end->point->seed, !end->victim && !is_calm(end));
    met = met && greet(end);
    if (!met && is_gone(end) && !end->victim && end->point->listens)
        release_victim(end);
    ck_assert_msg(met || is_gone(end) || (end->cell->moment->setup && !is_calm(end) && !end->victim),
                  "the %s has no connection: %s", end->victim ? "victim" : "survivor",
                  strerrorname_np(end->error));
    if (met && !end->cell->moment->setup && !end->cell->fault->whole)
        trigger_arm(end);
    return met;
}

/* ---- Disconnecting ------------------------------------------------------------------- */

bool say_end(struct end *end)
{
    struct op *op = op_begin(end, EXS_EVT_SHUTDOWN, end->socket);

    int result;

    do
        result = exs_shutdown(end->socket, SHUT_WR, 0, end->queue, op);
    while (is_refused(end, result));
    op_began(end, op, result);
    return end_good(end, op_wait(end, op, NULL));
}

bool hear_end(struct end *end)
{
    char byte;
    size_t got = 0;

    if (!end_good(end, end_recv(end, &byte, 1, &got)))
        return false;
    ck_assert_msg(got == 0, "a byte behind the last one");
    end->ended = true;
    return true;
}

/* Each end sends its end of stream and receives that of the other, so that even the last acknowledgement may be
 * lost. */
static void part_in_order(struct end *end)
{
    bool good = true;

    if (end->error == 0 && !end->ended)
        good = end->victim ? say_end(end) && hear_end(end) : hear_end(end) && say_end(end);
    ck_assert_msg(good, "the %s parts with %s", end->victim ? "victim" : "survivor",
                  strerrorname_np(end->error));
    ck_assert_int_eq(end_close_socket(end, &end->socket), 0);
}

static bool is_promised(const struct end *end)
{
    int error = end->error;
    const struct moment *moment = end->cell->moment;

    if (end->cell->fault->fate == SILENT)
        return error == ETIMEDOUT || (error == ECONNRESET && !end->cell->fault->asked);
    return error == ECONNRESET || (moment->setup && error == ECONNREFUSED) ||
           (moment->exports && end->cell->link->adapter && error == EACCES);
}

/* Returns whether the connection may have ended in order: the moment closes it, or the victim, which lives, had
 * finished. */
static bool may_have_ended(const struct end *end)
{
    return end->cell->moment->closing || (is_gone(end) && end->through);
}

/* Whatever the survivor was doing, it notices in time, and with the right errno. */
static void part_from_the_dead(struct end *end)
{
    const struct fault *fault = end->cell->fault;
    char byte;
    size_t got = 0;

    if (end->socket >= 0 && end->error == 0 && !end->ended) {
        end_good(end, end_recv(end, &byte, 1, &got));
        end->ended = end->error == 0 && got == 0;
    }
    hear_strike(end, true);
    if (end->error)
        ck_assert_msg(is_promised(end), "the survivor was told %s", strerrorname_np(end->error));
    else
        ck_assert_msg(end->socket < 0 ? end->cell->moment->setup : end->ended && may_have_ended(end),
                      "nobody told the survivor of the end");
    ck_assert_msg(!end->error || end->noticed - end->when < fault->bound * LATE_S,
                  "the survivor was told after %.1f s", end->noticed - end->when);
    if (end->socket >= 0)
        ck_assert_int_eq(end_close_socket(end, &end->socket), 0);
}

/* The victim, whose peer's device was removed at any moment. Until then everything succeeds. */
static void part_from_the_gone(struct end *end)
{
    if (end->socket >= 0 && end->error == 0 && !end->ended && say_end(end))
        hear_end(end);
    ck_assert_msg(end->error == 0 || end->error == ECONNRESET, "the victim was told %s",
                  strerrorname_np(end->error));
    if (end->socket >= 0)
        ck_assert_int_eq(end_close_socket(end, &end->socket), 0);
}

void part(struct end *end)
{
    bool kept = is_gone(end) && !atomic_load(&end->lost);

    if (is_short(end) && end->error)
        ck_assert_msg(end->victim ? end->error == ECONNRESET || end->error == EPIPE
                                  : end->error == end->cell->fault->error,
                      "the %s was told %s", end->victim ? "victim" : "survivor", strerrorname_np(end->error));
    ck_assert_msg(!kept || end->victim || !end->error,
                  "the survivor was told %s, and nothing was taken from it", strerrorname_np(end->error));
    if (end->victim && is_gone(end))
        part_from_the_gone(end);
    else if (end->victim || is_calm(end) || kept)
        part_in_order(end);
    else
        part_from_the_dead(end);
}
