/* SPDX-License-Identifier: BSD-2-Clause */
/* message.c - messages of data as work requests. See message.h. */
#include <endian.h>
#include "core/queue/nic.h"
#include "message.h"

#define PARTS_AT_ONCE 8 /* requests per call of ibv_post_send() */

/* Fill a WRITE of the next `bytes`. The caller has set opcode, flags and immediate value. Other members stay
 * uninitialized: no device reads them, and clearing the struct for each message costs time. */
static inline __attribute__((always_inline)) void
write_next(const struct message *message, struct ibv_send_wr *wr, struct ibv_sge *sge, uint32_t bytes)
{
    *sge = (struct ibv_sge){
        .addr = message->span.addr + message->posted, .length = bytes, .lkey = message->span.lkey};
    wr->sg_list = sge;
    wr->num_sge = bytes > 0;
    wr->wr.rdma.remote_addr = message->target.addr + message->posted;
    wr->wr.rdma.rkey = message->target.rkey;
}

/* Post the last request of a message. */
static inline __attribute__((always_inline)) bool post_last(struct conn *conn, struct message *message,
                                                            struct ibv_send_wr *wr, enum posted_kind kind)
{
    uint32_t bytes = message->bytes - message->posted;
    struct posted posted = {
        .kind = kind,
        .op = kind == POSTED_SILENT ? NULL : message->op,
        .window = message->span.window,
        .bytes = bytes,
        .told = message->bytes,
    };
    struct ibv_sge sge;

    wr->next = NULL;
    write_next(message, wr, &sge, bytes);
    return xs_conn_post(conn, wr, &posted);
}

/* The length part of the immediate value, with the credits due if they fit in. */
static uint32_t length_and_credits(struct conn *conn, uint32_t bytes)
{
    uint32_t owed = conn->credits.unreturned;

    if (owed == 0 || bytes > IMM_SHORT_MAX || owed > IMM_CREDITS_MASK >> IMM_CREDITS_SHIFT ||
        (conn->peer.flags & HELLO_IMM_CREDITS) == 0)
        return bytes;
    conn->credits.unreturned = 0;
    return IMM_CREDITS | owed << IMM_CREDITS_SHIFT | bytes;
}

/* Is the operation over once its request is posted? True for a silent send whose bytes are copied (inline). */
static inline bool is_over_when_posted(const struct conn *conn, const struct message *message)
{
    const struct op *op = message->op;

    return op->silent && op->out.requests == 0 && op->out.files == NULL &&
           xs_conn_may_inline(conn, op, message->bytes - message->posted);
}

/* Post the rest of the message, which fits into one request, with the immediate value. */
static inline __attribute__((always_inline)) bool post_with_news(struct conn *conn, struct message *message)
{
    struct ibv_send_wr wr;

    wr.opcode = IBV_WR_RDMA_WRITE_WITH_IMM;
    wr.send_flags = IBV_SEND_SOLICITED;
    wr.imm_data = htobe32(message->target.imm | length_and_credits(conn, message->bytes));
    conn->credits.available--;
    if (is_over_when_posted(conn, message))
        return post_last(conn, message, &wr, POSTED_SILENT);
    return post_last(conn, message, &wr, POSTED_DATA);
}

/* All bytes were written: notify the peer by a control message. */
static bool post_news(struct conn *conn, struct message *message)
{
    struct control control = {.type = CONTROL_DATA, .phase = message->target.imm | message->bytes};
    struct posted posted = {.kind = POSTED_DATA, .op = message->op, .told = message->bytes};

    return xs_control_post(conn, &control, &posted);
}

inline bool xs_message_room(const struct conn *conn, uint64_t *bytes)
{
    const uint32_t free = conn_sq_free(conn), kept = SQ_KEPT_BY_DATA + 1; /* the last is for the notification */

    if (conn->credits.available <= CREDITS_KEPT || free <= kept)
        return false;
    *bytes = (uint64_t)conn->nic->max_request * (free - kept);
    return true;
}

/* Post all but the last `last` bytes, in requests of maximum size. */
static bool post_parts(struct conn *conn, struct message *message, uint32_t last)
{
    uint32_t most = conn->nic->max_request;
    struct ibv_send_wr wr[PARTS_AT_ONCE];
    struct ibv_sge sge[PARTS_AT_ONCE];
    struct posted posted[PARTS_AT_ONCE];

    while (message->bytes - message->posted > last) {
        int count = 0;

        for (; count < PARTS_AT_ONCE && message->bytes - message->posted > last; count++) {
            uint32_t left = message->bytes - message->posted, bytes = left < most ? left : most;

            posted[count] = (struct posted){
                .kind = POSTED_PART, .op = message->op, .window = message->span.window, .bytes = bytes};
            wr[count].opcode = IBV_WR_RDMA_WRITE;
            wr[count].send_flags = 0;
            write_next(message, &wr[count], &sge[count], bytes);
            message->posted += bytes;
        }
        if (!xs_conn_post_list(conn, wr, posted, count))
            return false;
    }
    return true;
}

/* Post a message that takes several requests. */
static __attribute__((noinline)) bool post_in_parts(struct conn *conn, struct message message)
{
    if (!post_parts(conn, &message, conn->limits.immediate ? conn->nic->max_request : 0))
        return false;
    return conn->limits.immediate ? post_with_news(conn, &message) : post_news(conn, &message);
}

inline __attribute__((always_inline)) bool xs_message_post(struct conn *conn, struct message *message)
{
    if (conn->limits.immediate && message->bytes <= conn->nic->max_request)
        return post_with_news(conn, message);
    return post_in_parts(conn, *message);
}

bool xs_message_gather(struct conn *conn, const struct message *message, struct ibv_sge *segments)
{
    struct ibv_send_wr wr = {
        .sg_list = segments,
        .num_sge = message->followers + 1,
        .opcode = IBV_WR_RDMA_WRITE_WITH_IMM,
        .send_flags = IBV_SEND_SOLICITED,
        .imm_data = htobe32(message->target.imm | length_and_credits(conn, message->bytes)),
        .wr.rdma = {.remote_addr = message->target.addr, .rkey = message->target.rkey},
    };
    const struct posted posted = {
        .kind = POSTED_DATA,
        .followers = message->followers,
        .op = message->op,
        .bytes = message->bytes,
        .told = message->bytes,
    };

    conn->credits.available--;
    return xs_conn_post(conn, &wr, &posted);
}

bool xs_message_end(struct conn *conn, const struct advert *advert)
{
    struct control control = {.type = CONTROL_DATA, .phase = IMM_DIRECT};
    struct ibv_send_wr wr = {
        .opcode = IBV_WR_RDMA_WRITE_WITH_IMM,
        .send_flags = IBV_SEND_SOLICITED,
        .imm_data = htobe32(IMM_DIRECT),
        .wr.rdma = {.remote_addr = advert->addr, .rkey = advert->rkey},
    };
    struct posted posted = {.kind = POSTED_CONTROL};

    if (!conn->limits.immediate)
        return xs_control_post(conn, &control, &posted);
    conn->credits.available--;
    return xs_conn_post(conn, &wr, &posted);
}
