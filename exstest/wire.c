/* SPDX-License-Identifier: BSD-2-Clause */
/* Messages to bytes and back; what comes in is believed only after it was checked. See wire.h. */
#include "wire.h"

#include <endian.h>
#include <string.h>

/* ---- Bytes ------------------------------------------------------------------------------------------- */

struct writer {
    unsigned char *out;
    size_t at;
};

struct reader {
    const unsigned char *in;
    size_t at, length;
    bool bad; /* it ended too early */
};

static void put(struct writer *w, const void *bytes, size_t length)
{
    memcpy(w->out + w->at, bytes, length);
    w->at += length;
}

static void put16(struct writer *w, uint16_t value)
{
    value = htobe16(value);
    put(w, &value, sizeof(value));
}

static void put32(struct writer *w, uint32_t value)
{
    value = htobe32(value);
    put(w, &value, sizeof(value));
}

static void put64(struct writer *w, uint64_t value)
{
    value = htobe64(value);
    put(w, &value, sizeof(value));
}

static void get(struct reader *r, void *bytes, size_t length)
{
    if (r->bad || length > r->length - r->at) {
        r->bad = true;
        memset(bytes, 0, length);
        return;
    }
    memcpy(bytes, r->in + r->at, length);
    r->at += length;
}

static uint16_t get16(struct reader *r)
{
    uint16_t value;

    get(r, &value, sizeof(value));
    return be16toh(value);
}

static uint32_t get32(struct reader *r)
{
    uint32_t value;

    get(r, &value, sizeof(value));
    return be32toh(value);
}

static uint64_t get64(struct reader *r)
{
    uint64_t value;

    get(r, &value, sizeof(value));
    return be64toh(value);
}

static struct writer begin(unsigned char *out, unsigned version, enum message type)
{
    struct writer w = {out, 0};

    put32(&w, WIRE_MAGIC);
    put16(&w, (uint16_t)version);
    put16(&w, (uint16_t)type);
    return w;
}

static bool open_message(struct reader *r, const unsigned char *in, size_t length, enum message type)
{
    *r = (struct reader){.in = in, .length = length};
    return get32(r) == WIRE_MAGIC && get16(r) == WIRE_VERSION && get16(r) == type;
}

/* All of it was read, and nothing was missing. */
static bool ended(const struct reader *r)
{
    return !r->bad && r->at == r->length;
}

/* ---- Parts ------------------------------------------------------------------------------------------- */

static void put_tokens(struct writer *w, const struct tokens *tokens)
{
    put16(w, (uint16_t)tokens->count);
    put(w, tokens->token, (size_t)tokens->count * sizeof(exs_token_t));
}

static bool get_tokens(struct reader *r, struct tokens *tokens)
{
    tokens->count = get16(r);
    if (tokens->count > OPS_MAX + OPS_ADDED)
        return false;
    get(r, tokens->token, (size_t)tokens->count * sizeof(exs_token_t));
    return !r->bad;
}

static void put_op(struct writer *w, const struct op *op)
{
    put16(w, (uint16_t)(op->transfer | (op->by_server ? 4 : 0) | (op->deferred ? 8 : 0)));
    put16(w, (uint16_t)op->segments);
    put32(w, op->size);
}

static bool get_op(struct reader *r, struct op *op)
{
    uint16_t bits = get16(r);

    *op = (struct op){.transfer = bits & 3, .by_server = (bits & 4) != 0, .deferred = (bits & 8) != 0};
    op->segments = get16(r);
    op->size = get32(r);
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
    ops->count = get16(r);
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
    return begin(out, version, HELLO).at;
}

bool wire_read_hello(const unsigned char *in, size_t length, unsigned *version)
{
    struct reader r = {.in = in, .length = length};
    bool magic = get32(&r) == WIRE_MAGIC;

    *version = get16(&r);
    return magic && get16(&r) == HELLO && ended(&r);
}

size_t wire_request(unsigned char *out, const struct request *request)
{
    struct writer w = begin(out, WIRE_VERSION, REQUEST);

    put32(&w, (uint32_t)request->test);
    put32(&w, request->flags);
    put64(&w, request->session);
    put32(&w, request->number);
    put32(&w, request->total);
    put32(&w, request->iterations);
    put32(&w, request->pipeline);
    put16(&w, (uint16_t)request->ops.count);
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
    uint32_t test = get32(&r);

    request->test = (char)test;
    request->flags = get32(&r);
    request->session = get64(&r);
    request->number = get32(&r);
    request->total = get32(&r);
    request->iterations = get32(&r);
    request->pipeline = get32(&r);
    if (!get_ops(&r, &request->ops) || !get_tokens(&r, &request->tokens) || !ended(&r))
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
    struct writer w = begin(out, WIRE_VERSION, ANSWER);

    put32(&w, answer->yes);
    put(&w, answer->why, WHY_MAX);
    put_tokens(&w, &answer->tokens);
    return w.at;
}

bool wire_read_answer(const unsigned char *in, size_t length, struct answer *answer)
{
    struct reader r;

    if (!open_message(&r, in, length, ANSWER))
        return false;
    answer->yes = get32(&r) != 0;
    get(&r, answer->why, WHY_MAX);
    answer->why[WHY_MAX - 1] = '\0';
    for (char *c = answer->why; *c != '\0'; c++) /* it goes to a terminal */
        if (*c < ' ' || *c > '~')
            *c = '?';
    return get_tokens(&r, &answer->tokens) && ended(&r);
}

size_t wire_bye(unsigned char *out, const struct bye *bye)
{
    struct writer w = begin(out, WIRE_VERSION, BYE);

    put64(&w, bye->mismatches);
    return w.at;
}

bool wire_read_bye(const unsigned char *in, size_t length, struct bye *bye)
{
    struct reader r;

    if (!open_message(&r, in, length, BYE))
        return false;
    bye->mismatches = get64(&r);
    return ended(&r);
}
