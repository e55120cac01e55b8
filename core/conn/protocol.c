/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * protocol.c - packs and unpacks hello, control messages and tokens. Received values are checked before they are
 * used.
 */
#include <errno.h>
#include <sys/socket.h>
#include "core/base/bytes.h"
#include "protocol.h"

void xs_hello_pack(const struct hello *hello, uint8_t out[HELLO_SIZE])
{
    put32(out, hello->magic);
    put16(out + 4, hello->version);
    out[6] = hello->socktype;
    out[7] = hello->reason;
    put32(out + 8, hello->credits);
    put16(out + 12, hello->flags);
    put16(out + 14, hello->adverts);
    put32(out + 16, hello->recv_ring_size);
    put32(out + 20, hello->recv_ring_rkey);
    put64(out + 24, hello->recv_ring_addr);
}

static bool read_hello(struct hello *hello, const uint8_t *in, size_t length)
{
    if (length < HELLO_SIZE || get32(in) != HELLO_MAGIC)
        return false;
    *hello = (struct hello){
        .magic = get32(in),
        .version = get16(in + 4),
        .socktype = in[6],
        .reason = in[7],
        .credits = get32(in + 8),
        .flags = get16(in + 12),
        .adverts = get16(in + 14),
        .recv_ring_size = get32(in + 16),
        .recv_ring_rkey = get32(in + 20),
        .recv_ring_addr = get64(in + 24),
    };
    return true;
}

int xs_hello_unpack(struct hello *hello, const void *in, size_t length, int socktype)
{
    if (!read_hello(hello, in, length))
        return HELLO_NO_EXS;
    if (hello->version != HELLO_VERSION)
        return HELLO_BAD_VERSION;
    if (hello->socktype != socktype)
        return HELLO_BAD_TYPE;
    if (hello->credits < HELLO_CREDITS_MIN || hello->credits > HELLO_CREDITS_MAX || hello->adverts == 0 ||
        hello->recv_ring_size < HELLO_RECV_RING_MIN || hello->recv_ring_size > HELLO_RECV_RING_MAX ||
        hello->recv_ring_addr + hello->recv_ring_size < hello->recv_ring_addr)
        return HELLO_BAD_VALUE;
    return HELLO_OK;
}

int xs_hello_errno(int reason)
{
    switch (reason) {
    case HELLO_BAD_VERSION:
        return EPROTONOSUPPORT;
    case HELLO_BAD_TYPE:
        return EPROTOTYPE;
    case HELLO_BAD_VALUE:
    case HELLO_NO_EXS:
        return EPROTO;
    default:
        return ECONNREFUSED;
    }
}

int xs_reject_errno(const void *in, size_t length)
{
    struct hello hello;

    return read_hello(&hello, in, length) ? xs_hello_errno(hello.reason) : ECONNREFUSED;
}

void xs_control_pack(const struct control *control, uint8_t out[CONTROL_SIZE])
{
    out[0] = control->type;
    out[1] = control->flags;
    put16(out + 2, control->credits);
    put32(out + 4, control->phase);
    put64(out + 8, control->position);
    put64(out + 16, control->addr);
    put64(out + 24, control->length);
    put32(out + 32, control->rkey);
    put32(out + 36, 0);
}

bool xs_control_unpack(struct control *control, const void *in, size_t length)
{
    const uint8_t *p = in;

    if (length != CONTROL_SIZE || p[0] < CONTROL_ADVERT || p[0] > CONTROL_RING)
        return false;
    *control = (struct control){
        .type = p[0],
        .flags = p[1],
        .credits = get16(p + 2),
        .phase = get32(p + 4),
        .position = get64(p + 8),
        .addr = get64(p + 16),
        .length = get64(p + 24),
        .rkey = get32(p + 32),
    };
    return true;
}

void xs_token_pack(const struct token *token, exs_token_t *out)
{
    uint8_t *p = out->exs_bytes;

    put32(p, TOKEN_MAGIC);
    put32(p + 4, token->access);
    put32(p + 8, token->recv_ring_rkey);
    put32(p + 12, token->rkey);
    put64(p + 16, token->recv_ring_addr);
    put64(p + 24, token->addr);
    put64(p + 32, token->length);
}

bool xs_token_unpack(struct token *token, const exs_token_t *in)
{
    const uint8_t *p = in->exs_bytes;

    *token = (struct token){
        .access = get32(p + 4),
        .recv_ring_rkey = get32(p + 8),
        .rkey = get32(p + 12),
        .recv_ring_addr = get64(p + 16),
        .addr = get64(p + 24),
        .length = get64(p + 32),
    };
    return get32(p) == TOKEN_MAGIC && token->length > 0 && token->addr + token->length > token->addr;
}
