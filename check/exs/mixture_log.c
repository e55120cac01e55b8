/* SPDX-License-Identifier: BSD-2-Clause */
/* mixture_log.c - compares what one end sent with what the other received, as bytes or as messages. See mixture.h. */
#include "mixture.h"

struct log { /* of one direction */
    uint8_t *bytes;
    size_t length;
    size_t *ends; /* the end of each message */
    bool *cut, *unsure;
    int messages;
};

static void log_op(struct log *log, const struct op *op, bool receives, int type)
{
    bool is_whole = op->unsure || (op->error == 0 && !(receives && op->moved == 0 && op->told & EXS_EOF));
    size_t bytes = type == SOCK_SEQPACKET && op->unsure ? op->length : op->moved;

    if (type == SOCK_SEQPACKET && !is_whole)
        return;
    memcpy(log->bytes + log->length, op->memory, bytes);
    log->length += bytes;
    log->unsure[log->messages] = op->unsure;
    log->cut[log->messages] = (op->told & MSG_TRUNC) != 0;
    log->ends[log->messages++] = log->length;
}

static struct log log_of(const struct mixture *m, int end, bool receives)
{
    size_t all = 1;
    struct log log = {.ends = calloc(MOST_OPS, sizeof(size_t)),
                      .cut = calloc(MOST_OPS, sizeof(bool)),
                      .unsure = calloc(MOST_OPS, sizeof(bool))};

    for (int i = 0; i < m->ops; i++)
        all += m->op[i]->length;
    log.bytes = malloc(all);
    ck_assert(log.bytes != NULL && log.ends != NULL && log.cut != NULL && log.unsure != NULL);
    for (int i = 0; i < m->ops; i++) {
        const struct op *op = m->op[i];

        if (op->end == end && op->type != EXS_EVT_POLL && is_receive(op) == receives)
            log_op(&log, op, receives, m->type);
    }
    return log;
}

static void free_log(const struct log *log)
{
    free(log->bytes);
    free(log->ends);
    free(log->cut);
    free(log->unsure);
}

/* Is received message `of_received` equal to sent message `of_sent`, or to its beginning if it was truncated? */
static bool same_message(const struct log *sent, int of_sent, const struct log *received, int of_received)
{
    size_t from = of_sent > 0 ? sent->ends[of_sent - 1] : 0,
           at = of_received > 0 ? received->ends[of_received - 1] : 0;
    size_t length = sent->ends[of_sent] - from, got = received->ends[of_received] - at;

    return got <= length && received->cut[of_received] == (got < length) &&
           memcmp(sent->bytes + from, received->bytes + at, got) == 0;
}

/* Do the received messages from `i` on match sent ones from `next` on, in order and each once? Sent messages that are
 * unsure may be missing. A missing one may look like the next one received if that was truncated to one byte, so this
 * tries both. *furthest: the largest number of received messages that could be matched. */
static bool same_from(const struct log *sent, int next, const struct log *received, int i, int *furthest)
{
    if (*furthest < i)
        *furthest = i;
    if (i == received->messages)
        return true;
    for (; next < sent->messages; next++) {
        if (same_message(sent, next, received, i) && same_from(sent, next + 1, received, i + 1, furthest))
            return true;
        if (!sent->unsure[next])
            return false;
    }
    return false;
}

static void same_messages(const struct log *sent, const struct log *received)
{
    int furthest = 0;
    bool same = same_from(sent, 0, received, 0, &furthest);

    ck_assert_msg(same, "message %d of %d differs, or was not sent", furthest, received->messages);
}

/* Compares one direction. `all`: everything that was sent must have arrived. */
void log_compare(struct mixture *m, int from, bool all)
{
    struct log sent = log_of(m, from, false), received = log_of(m, !from, true);

    if (m->type == SOCK_SEQPACKET) {
        if (all)
            ck_assert_int_eq(sent.messages, received.messages);
        same_messages(&sent, &received);
    } else {
        if (all)
            ck_assert_uint_eq(sent.length, received.length);
        size_t length = sent.length < received.length ? sent.length : received.length;

        for (size_t i = 0; i < length; i++)
            ck_assert_msg(sent.bytes[i] == received.bytes[i], "byte %zu of %zu differs", i, length);
    }
    free_log(&sent);
    free_log(&received);
}
