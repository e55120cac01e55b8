/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * exstest.c - fuzzes exstest's connections, as a server or a client. The peer sends valid messages or any bytes;
 * operations succeed or fail, in any order.
 *
 * For every input: the connection's owner is told exactly once that it has ended, and why, and nothing after that. What
 * was taken from the server's memory budget returns to it, and all memory is freed. The text that is printed has no
 * control characters.
 */
#include <check.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "check/fuzz/input.h"
#include "check/support/fake_exs.h"
#include "tools/exstest/figures.h"
#include "tools/exstest/link.h"
#include "tools/exstest/say.h"
#include "tools/exstest/session.h"

enum { LINKS = 3, STEPS = 300 };

struct end { /* one connection; its socket is its number plus 1 */
    struct link link;
    struct session *session;
    bool open, told_done, told_failed;
};

static struct world {
    struct end *end[LINKS];
    struct sessions sessions;
    struct budget budget;
    struct figures figures;
    struct addrinfo where[2];
    struct sockaddr_in address;
    FILE *quiet, *loud;
    bool server;
    unsigned char last[MESSAGE_MAX]; /* the last message sent */
} world;

static bool is_plain(const char *text)
{
    for (; *text != '\0'; text++)
        if ((unsigned char)*text < 0x20 || *text == 0x7f)
            return false;
    return true;
}

/* ---- The owner ----------------------------------------------------------------------------------------- */

static void leave_session(struct end *end, bool failed)
{
    if (end->session != NULL)
        session_leave(end->session, failed, end->link.mismatches);
    end->session = NULL;
}

static void join_session(struct end *end)
{
    const struct request *request = &end->link.request;

    if (request->test != 'Q' && request->total <= LINKS)
        end->session =
            session_join(&world.sessions, request->session, request->test, request->total, "a client");
    if (request->test != 'Q' && end->session == NULL)
        snprintf(end->link.answer.why, sizeof(end->link.answer.why), "the owner says no");
}

static void tell(struct link *link, enum news news)
{
    struct end *end = link->owner;

    ck_assert(end->open);
    switch (news) {
    case LINK_READY:
        ck_assert(!end->told_done && !end->told_failed);
        if (link->server)
            join_session(end);
        break;
    case LINK_DONE:
        ck_assert(!end->told_done && !end->told_failed);
        end->told_done = true;
        leave_session(end, false);
        break;
    case LINK_FAILED:
        ck_assert(!end->told_done && !end->told_failed);
        ck_assert_msg(link->failure[0] != '\0' && is_plain(link->failure), "'%s'", link->failure);
        end->told_failed = true;
        leave_session(end, true);
        break;
    case LINK_GONE:
        ck_assert(end->told_done || end->told_failed);
        ck_assert_ptr_null(link->work);
        ck_assert_ptr_null(link->area.base);
        end->open = false;
        break;
    }
}

static void deliver(void *ahandle, const exs_event_t *event)
{
    link_event(ahandle, event);
}

/* ---- Requests ------------------------------------------------------------------------------------------ */

static void read_op(struct input *input, struct op *op)
{
    uint8_t bits = input_u8(input);

    *op = (struct op){.transfer = bits % 3,
                      .by_server = bits & 4,
                      .deferred = bits & 8,
                      .size = 1 + input_u8(input),
                      .segments = 1 + (bits >> 4) % 3};
    if (bits & 128)
        /* More than is allowed, or, with other requests, more than the budget. */
        op->size <<= op->size == 256 ? 22 : 12;
    op->deferred &= op->transfer == SEND_RECV;
}

static void read_request(struct input *input, struct request *request)
{
    uint8_t what = input_u8(input), count = what & 16 ? 1 : input_below(input, 5);

    *request = (struct request){.test = what & 16   ? 'P'
                                        : what & 32 ? 'Q'
                                                    : 'T',
                                .flags = what & 3,
                                .session = what >> 6,
                                .number = 0,
                                .total = 1 + input_below(input, 4),
                                .iterations = 1 + input_below(input, 4),
                                .pipeline = 1 + input_below(input, 8)};
    if (request->test == 'Q')
        return;
    for (int i = 0; i < count; i++)
        read_op(input, &request->ops.op[request->ops.count++]);
    if (request->test == 'P')
        request->ops.op[0].by_server = false;
    else if (what & 1)
        ops_add_validation(&request->ops);
}

/* The command line accepts only sensible requests; those that the peer sends are not corrected. */
static void make_sensible(struct request *request)
{
    const char *why;

    if (request->test != 'T' || ops_check(&request->ops, &why))
        return;
    for (int i = 0; i < request->ops.count; i++)
        request->ops.op[i].deferred = false;
    ops_add_validation(&request->ops);
}

static void count_tokens(const struct ops *ops, bool server, struct tokens *tokens)
{
    for (int i = 0; i < ops->count; i++)
        tokens->count += op_is_exported(&ops->op[i], server);
}

/* ---- Ends ---------------------------------------------------------------------------------------------- */

static void open_end(int number, struct input *input)
{
    struct end *end = world.end[number];

    if (end != NULL && end->open)
        return;
    free(end);
    end = world.end[number] = calloc(1, sizeof(*end));
    end->open = true;
    end->link.owner = end;
    end->link.tell = tell;
    end->link.version = WIRE_VERSION;
    if (world.server) {
        end->link.budget = &world.budget;
        link_accepted(&end->link, number + 1, (exs_qhandle_t)&world);
        return;
    }
    end->link.figures = &world.figures;
    world.figures.latencies = 0;
    read_request(input, &end->link.request);
    make_sensible(&end->link.request);
    if (link_connect(&end->link, world.where, (exs_qhandle_t)&world) == -1) {
        ck_assert(is_plain(end->link.failure));
        end->open = false;
    }
}

static struct fake_call *first_of(const struct link *link, int type)
{
    struct fake_call *call;

    STAILQ_FOREACH (call, &fake_calls, entry)
        if (call->ahandle == link && call->type == type)
            return call;
    return NULL;
}

/* Completes the exs_close, after the operations that it cancels. */
static void finish_close(struct link *link)
{
    struct fake_call *call, *next;

    if (first_of(link, EXS_EVT_CLOSE) == NULL)
        return;
    for (call = STAILQ_FIRST(&fake_calls); call != NULL; call = next) {
        next = STAILQ_NEXT(call, entry);
        if (call->ahandle == link && call->type != EXS_EVT_CLOSE)
            fake_complete(call, ECANCELED, 0, 0);
    }
    fake_complete(first_of(link, EXS_EVT_CLOSE), 0, 0, 0);
}

static void complete(struct link *link, int type, int error, size_t length, int flags)
{
    struct fake_call *call = first_of(link, type);

    if (call != NULL && first_of(link, EXS_EVT_CLOSE) == NULL)
        fake_complete(call, error, length, flags);
}

static void arrive(struct link *link, const void *bytes, size_t length)
{
    struct fake_call *call = first_of(link, EXS_EVT_RECV);

    if (call == NULL || first_of(link, EXS_EVT_CLOSE) != NULL)
        return;
    size_t room = call->length < length ? call->length : length;

    memcpy(call->buffer, bytes, room);
    fake_complete(call, 0, room, room < length ? MSG_TRUNC : 0);
}

/* ---- What the peer sends ------------------------------------------------------------------------------- */

static void say_raw(struct link *link, struct input *input)
{
    const uint8_t *bytes;
    size_t length = input_bytes(input, &bytes, input_u8(input));

    if (length > 0)
        arrive(link, bytes, length);
}

/* A valid message, which is then perhaps spoiled. */
static void say_message(struct link *link, struct input *input)
{
    unsigned char out[MESSAGE_MAX];
    uint8_t what = input_u8(input);
    struct request request;
    struct answer answer = {.yes = what & 4};
    size_t length = 0;

    if (what % 4 == 0)
        length = wire_hello(out, what & 8 ? 2 : WIRE_VERSION);
    else if (what % 4 == 1)
        length = wire_bye(out, &(struct bye){.mismatches = what >> 4});
    else if (world.server) {
        read_request(input, &request);
        count_tokens(&request.ops, false, &request.tokens);
        length = wire_request(out, &request);
    } else {
        snprintf(answer.why, sizeof(answer.why), "because \x1b[2J\n");
        count_tokens(&link->area.ops, true, &answer.tokens);
        answer.tokens.count += what >> 4 & 1;
        length = wire_answer(out, &answer);
    }
    if (what & 128)
        out[input_below(input, (uint32_t)length)] ^= (unsigned char)(1 << (what >> 4) % 8);
    if (what & 64)
        length -= input_below(input, (uint32_t)length);
    arrive(link, out, length);
}

/* Does the area have a byte before this place, and one behind it? */
static bool is_within(const struct area *area, const char *at, size_t length)
{
    return area->base != NULL && at > area->base && at + length < area->base + area->length;
}

/* Completes a receive with right or wrong data, perhaps written beyond its buffer too. */
static void say_data(struct link *link, struct input *input)
{
    struct fake_call *call = first_of(link, EXS_EVT_RECV);
    uint8_t what = input_u8(input);

    if (call == NULL || first_of(link, EXS_EVT_CLOSE) != NULL)
        return;
    if (what & 4)
        memset(call->buffer, what, call->length);
    if (what & 8 && is_within(&link->area, call->buffer, call->length))
        ((char *)call->buffer)[what & 16 ? -1 : (ptrdiff_t)call->length] = 0;
    fake_complete(call, 0, call->length - (what % 4 == 1), what % 4 == 2 ? MSG_TRUNC : 0);
}

/* ---- Steps --------------------------------------------------------------------------------------------- */

static void step(struct input *input)
{
    static const int errors[] = {ECONNRESET, ENOMEM, EPIPE, ECONNREFUSED};
    static const int types[] = {EXS_EVT_SEND, EXS_EVT_RECV, EXS_EVT_CONNECT, EXS_EVT_RREAD};
    static const int sends[] = {EXS_EVT_SEND, EXS_EVT_SENDFILE, EXS_EVT_RREAD, EXS_EVT_RWRITE};
    uint8_t what = input_u8(input);
    int number = what / 16 % LINKS;

    if (world.end[number] == NULL || !world.end[number]->open) {
        open_end(number, input);
        return;
    }
    struct link *link = &world.end[number]->link;

    switch (what % 16) {
    case 0:
        say_raw(link, input);
        break;
    case 1:
    case 2:
    case 3:
        say_message(link, input);
        break;
    case 4:
    case 5:
        say_data(link, input);
        break;
    case 6:
    case 7:
    case 8:
    case 9:
        complete(link, sends[what % 4], 0, 0, 0);
        break;
    case 10:
        complete(link, EXS_EVT_CONNECT, 0, 0, 0);
        break;
    case 11:
        complete(link, types[input_below(input, 4)], errors[input_below(input, 4)], 0, 0);
        break;
    case 12:
        finish_close(link);
        break;
    case 13:
        if (!link->server)
            link_start(link);
        break;
    case 14:
        link_fail(link, "the owner gives up");
        break;
    default:
        fake_failing = errors[input_below(input, 4)];
        fake_fails_from = (int)input_below(input, 6);
        break;
    }
}

static void open_world(void)
{
    world.figures.latency = calloc(LATENCIES_MAX, sizeof(*world.figures.latency));
    world.address.sin_family = AF_INET;
    for (int i = 0; i < 2; i++)
        world.where[i] = (struct addrinfo){.ai_family = AF_INET,
                                           .ai_addr = (struct sockaddr *)&world.address,
                                           .ai_addrlen = sizeof(world.address),
                                           .ai_next = i == 0 ? &world.where[1] : NULL};
    world.loud = stderr;
    world.quiet = fopen("/dev/null", "we");
    fclose(stdout);
    stdout = world.quiet;
    fake_deliver = deliver;
}

static void end_all(void)
{
    fake_failing = 0;
    for (int i = 0; i < LINKS; i++) {
        if (world.end[i] != NULL && world.end[i]->open) {
            link_fail(&world.end[i]->link, "the end");
            finish_close(&world.end[i]->link);
            ck_assert(!world.end[i]->open);
        }
        free(world.end[i]);
        world.end[i] = NULL;
    }
    stderr = world.loud;
    say_second();
    say_end();
    ck_assert(STAILQ_EMPTY(&fake_calls));
    ck_assert(LIST_EMPTY(&world.sessions));
    ck_assert_uint_eq(world.budget.used, 0);
    ck_assert_int_eq(fake_regions, 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct input input = {data, size};

    if (world.quiet == NULL)
        open_world();
    stderr = world.quiet;
    uint8_t what = input_u8(&input);

    world.server = what & 1;
    world.budget = budget_of(1);
    say_debug = 0;
    if (what & 2)
        say_limited();
    for (int i = 0; i < STEPS && input_left(&input) > 0; i++) {
        step(&input);
        ck_assert_uint_le(world.budget.used, world.budget.half);
    }
    end_all();
    return 0;
}
