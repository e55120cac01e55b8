/* SPDX-License-Identifier: BSD-2-Clause */
/* wire.c - encodes and decodes messages, and checks all that is decoded. See wire.h. */
#include "wire.h"

#include <string.h>
#include "tools/common/bytes.h"
#include "tools/common/terminal.h"

/* ---- Bytes ------------------------------------------------------------------------------------------- */

struct writer {
    unsigned char *out;
    size_t at;
};

struct reader {
    const unsigned char *in;
    size_t at, length;
    bool bad; /* the message is too short */
};

static void put_bytes(struct writer *w, const void *bytes, size_t length)
{
    memcpy(w->out + w->at, bytes, length);
    w->at += length;
}

static void put_number(struct writer *w, unsigned width, uint64_t value)
{
    bytes_put(w->out + w->at, width, value);
    w->at += width;
}

static void get_bytes(struct reader *r, void *bytes, size_t length)
{
    if (r->bad || length > r->length - r->at) {
        r->bad = true;
        memset(bytes, 0, length);
        return;
    }
    memcpy(bytes, r->in + r->at, length);
    r->at += length;
}

static uint64_t get_number(struct reader *r, unsigned width)
{
    unsigned char bytes[8];

    get_bytes(r, bytes, width);
    return bytes_get(bytes, width);
}

static struct writer begin_message(unsigned char *out, unsigned version, enum message type)
{
    struct writer w = {out, 0};

    put_number(&w, 4, WIRE_MAGIC);
    put_number(&w, 2, version);
    put_number(&w, 2, type);
    return w;
}

static bool open_message(struct reader *r, const unsigned char *in, size_t length, enum message type)
{
    *r = (struct reader){.in = in, .length = length};
    return get_number(r, 4) == WIRE_MAGIC && get_number(r, 2) == WIRE_VERSION && get_number(r, 2) == type;
}

/* Whether the message was read completely, and was not too short. */
static bool is_at_end(const struct reader *r)
{
    return !r->bad && r->at == r->length;
}

/* ---- Parts ------------------------------------------------------------------------------------------- */

static void put_tokens(struct writer *w, const struct tokens *tokens)
{
    put_number(w, 2, tokens->count);
    put_bytes(w, tokens->token, (size_t)tokens->count * sizeof(exs_token_t));
}

static bool get_tokens(struct reader *r, struct tokens *tokens)
{
    tokens->count = (int)get_number(r, 2);
    if (tokens->count > OPS_MAX + OPS_ADDED)
        return false;
    get_bytes(r, tokens->token, (size_t)tokens->count * sizeof(exs_token_t));
    return !r->bad;
}

static void put_op(struct writer *w, const struct op *op)
{
    put_number(w, 2, op->transfer | (op->by_server ? 4 : 0) | (op->deferred ? 8 : 0));
    put_number(w, 2, op->segments);
    put_number(w, 4, op->size);
}

static bool get_op(struct reader *r, struct op *op)
{
    unsigned bits = (unsigned)get_number(r, 2);

    *op = (struct op){.transfer = bits & 3, .by_server = (bits & 4) != 0, .deferred = (bits & 8) != 0};
    op->segments = (int)get_number(r, 2);
    op->size = get_number(r, 4);
    return !r->bad && bits < 16 && op_is_possible(op);
}

static int exported_by_client(const struct ops *ops)
{
    int count = 0;

    for (int i = 0; i < ops->count; i++)
        count += op_is_exported(&ops->op[i], false);
    return count;
}

static bool get_ops(struct reader *r, struct ops *ops)
{
    ops->count = (int)get_number(r, 2);
    if (ops->count > OPS_MAX + OPS_ADDED)
        return false;
    for (int i = 0; i < ops->count; i++)
        if (!get_op(r, &ops->op[i]))
            return false;
    return true;
}

/* ---- Messages ---------------------------------------------------------------------------------------- */

size_t wire_hello(unsigned char *out, unsigned version)
{
    return begin_message(out, version, HELLO).at;
}

bool wire_read_hello(const unsigned char *in, size_t length, unsigned *version)
{
    struct reader r = {.in = in, .length = length};
    bool magic = get_number(&r, 4) == WIRE_MAGIC;

    *version = (unsigned)get_number(&r, 2);
    return magic && get_number(&r, 2) == HELLO && is_at_end(&r);
}

size_t wire_request(unsigned char *out, const struct request *request)
{
    struct writer w = begin_message(out, WIRE_VERSION, REQUEST);

    put_number(&w, 4, request->test);
    put_number(&w, 4, request->flags);
    put_number(&w, 8, request->session);
    put_number(&w, 4, request->number);
    put_number(&w, 4, request->total);
    put_number(&w, 4, request->iterations);
    put_number(&w, 4, request->pipeline);
    put_number(&w, 2, request->ops.count);
    for (int i = 0; i < request->ops.count; i++)
        put_op(&w, &request->ops.op[i]);
    put_tokens(&w, &request->tokens);
    return w.at;
}

bool wire_read_request(const unsigned char *in, size_t length, struct request *request)
{
    const char *why;
    struct reader r;

    if (!open_message(&r, in, length, REQUEST))
        return false;
    uint32_t test = (uint32_t)get_number(&r, 4);

    request->test = (char)test;
    request->flags = (uint32_t)get_number(&r, 4);
    request->session = get_number(&r, 8);
    request->number = (uint32_t)get_number(&r, 4);
    request->total = (uint32_t)get_number(&r, 4);
    request->iterations = (uint32_t)get_number(&r, 4);
    request->pipeline = (uint32_t)get_number(&r, 4);
    if (!get_ops(&r, &request->ops) || !get_tokens(&r, &request->tokens) || !is_at_end(&r))
        return false;
    if (request->number >= request->total || request->total > TOTAL_MAX || request->flags > 3)
        return false;
    if (test == 'Q')
        return request->ops.count == 0 && request->tokens.count == 0;
    if (request->iterations < 1 || request->iterations > ITERATIONS_MAX)
        return false;
    if (test == 'P')
        return request->ops.count == 1 && !request->ops.op[0].by_server && request->tokens.count == 0 &&
               request->pipeline >= 1 && request->pipeline <= PIPELINE_MAX;
    return test == 'T' && ops_check(&request->ops, &why) &&
           request->tokens.count == exported_by_client(&request->ops);
}

size_t wire_answer(unsigned char *out, const struct answer *answer)
{
    struct writer w = begin_message(out, WIRE_VERSION, ANSWER);

    put_number(&w, 4, answer->yes);
    put_bytes(&w, answer->why, WHY_MAX);
    put_tokens(&w, &answer->tokens);
    return w.at;
}

bool wire_read_answer(const unsigned char *in, size_t length, struct answer *answer)
{
    struct reader r;

    if (!open_message(&r, in, length, ANSWER))
        return false;
    answer->yes = get_number(&r, 4) != 0;
    get_bytes(&r, answer->why, WHY_MAX);
    answer->why[WHY_MAX - 1] = '\0';
    terminal_filter(answer->why);
    return get_tokens(&r, &answer->tokens) && is_at_end(&r);
}

size_t wire_bye(unsigned char *out, const struct bye *bye)
{
    struct writer w = begin_message(out, WIRE_VERSION, BYE);

    put_number(&w, 8, bye->mismatches);
    return w.at;
}

bool wire_read_bye(const unsigned char *in, size_t length, struct bye *bye)
{
    struct reader r;

    if (!open_message(&r, in, length, BYE))
        return false;
    bye->mismatches = get_number(&r, 8);
    return is_at_end(&r);
}
