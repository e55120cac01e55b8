/* SPDX-License-Identifier: BSD-2-Clause */
/* mixture_calls.c - starts operations of random lengths, flags and files. See mixture.h. */
#include <sys/mman.h>
#include "mixture.h"

#define LIMIT_MS 12

/* ---- Operations -------------------------------------------------------------------------------------- */

int *op_count(struct mixture *m, const struct op *op)
{
    return op->type == EXS_EVT_POLL ? &m->polls : is_receive(op) ? &m->receives[op->end] : &m->sends[op->end];
}

static struct op *new_op(struct mixture *m, int end, int type, size_t length)
{
    struct op *op = calloc(1, sizeof(*op));

    ck_assert_ptr_nonnull(op);
    op->end = end;
    op->type = type;
    op->length = length;
    op->memory = new_buffer(length);
    op->file = -1;
    if (!is_receive(op))
        pattern_fill(op->memory, length, (uint64_t)m->ops + 1, 0);
    return op;
}

void op_free(struct op *op)
{
    if (op->file >= 0)
        close(op->file);
    free(op->memory);
    free(op);
}

static bool is_send(const struct op *op)
{
    return op->type == EXS_EVT_SEND || op->type == EXS_EVT_SENDMSG || op->type == EXS_EVT_SENDFILE;
}

/* Records a started operation. If the call failed, checks that its errno is one that is allowed now. */
static void begun(struct mixture *m, struct op *op, ssize_t result)
{
    if (result == 0 && m->ops < MOST_OPS) {
        m->op[m->ops++] = op;
        m->pending++;
        ++*op_count(m, op);
        return;
    }
    ck_assert_msg((op->flags & MSG_DONTWAIT && errno == EAGAIN) ||
                      /* An earlier send failed, and its event is not dequeued yet. */
                      (errno == ECANCELED && is_send(op)) ||
                      (m->may_break && (errno == ECONNRESET || errno == EPIPE)),
                  "%s: %s", exs_strevent(op->type), strerror(errno));
    op_free(op);
}

/* ---- Calls ------------------------------------------------------------------------------------------- */

static size_t some_length(struct mixture *m)
{
    return chance_size(&m->chance, 1, below(m, 4) ? 9 * KIB : LONGEST);
}

static int file_with(const void *bytes, size_t length)
{
    int file = memfd_create("mixture", MFD_CLOEXEC);

    must(file);
    ck_assert_int_eq(pwrite(file, bytes, length, 0), (ssize_t)length);
    return file;
}

/* Splits the operation's memory into up to PIECES segments. */
static int cut(struct mixture *m, struct op *op)
{
    size_t at = 0;
    int count = 1 + (int)below(m, PIECES);

    for (int i = 0; i < count; i++) {
        size_t length = i == count - 1 ? op->length - at : below(m, op->length - at + 1);

        op->pieces[i] = (exs_iovec_t){.exs_base = op->memory + at, .exs_length = length};
        at += length;
    }
    op->message = (exs_msghdr_t){.exs_iov = op->pieces, .exs_iovlen = count};
    return count;
}

static void one_transfer(struct mixture *m, struct op *op)
{
    exs_qhandle_t queue = m->box[op->end].queue;
    exs_mhandle_t region = NULL;
    int socket = m->socket[op->end];

    if (is_receive(op)) {
        begun(m, op, exs_recv(socket, op->memory, op->length, op->flags, queue, op, NULL));
        return;
    }
    if (below(m, 3) == 0 && op->flags == 0)
        region = m->region;
    if (region != NULL) { /* all sends from the region send the same bytes, because no send may change it */
        memcpy(op->memory, m->region_memory, op->length);
        begun(m, op, exs_send(socket, m->region_memory, op->length, op->flags, queue, op, region));
    } else {
        begun(m, op, exs_send(socket, op->memory, op->length, op->flags, queue, op, NULL));
    }
}

static void one_message(struct mixture *m, struct op *op)
{
    exs_qhandle_t queue = m->box[op->end].queue;
    int socket = m->socket[op->end];

    cut(m, op);
    begun(m, op,
          is_receive(op) ? exs_recvmsg(socket, &op->message, op->flags, queue, op)
                         : exs_sendmsg(socket, &op->message, op->flags, queue, op));
}

/* A file, followed by memory. */
static void one_file(struct mixture *m, struct op *op)
{
    exs_qhandle_t queue = m->box[op->end].queue;
    size_t in_file = 1 + below(m, op->length);
    int count = op->length > in_file ? 2 : 1, socket = m->socket[op->end];

    op->flags = 0;
    op->file = file_with(op->memory, is_receive(op) ? 0 : in_file);
    op->elements[0] = (exs_xferfile_t){.exs_xfv_type = EXS_FDVEC,
                                       .exs_xfv.exs_fdv = {.exs_fildes = op->file, .exs_length = in_file}};
    op->elements[1] = (exs_xferfile_t){
        .exs_xfv_type = EXS_IOVEC,
        .exs_xfv.exs_iov = {.exs_base = op->memory + in_file, .exs_length = op->length - in_file}};
    begun(m, op,
          is_receive(op) ? exs_recvfile(socket, op->elements, count, 0, queue, op)
                         : exs_sendfile(socket, op->elements, count, 0, queue, op));
}

void call_transfer(struct mixture *m, int end, bool receives)
{
    static const int types[2][3] = {{EXS_EVT_SEND, EXS_EVT_SENDMSG, EXS_EVT_SENDFILE},
                                    {EXS_EVT_RECV, EXS_EVT_RECVMSG, EXS_EVT_RECVFILE}};
    int kind = (int)below(m, 3);
    struct op *op;

    if (m->socket[end] == -1 || (receives ? m->receives : m->sends)[end] >= PENDING || m->ops > MOST_OPS - 50)
        return;
    op = new_op(m, end, types[receives][kind], some_length(m));
    if (below(m, 4) == 0)
        op->flags = MSG_DONTWAIT;
    else if (receives && m->type == SOCK_STREAM && below(m, 2))
        op->flags = MSG_WAITALL;
    (kind == 0 ? one_transfer : kind == 1 ? one_message : one_file)(m, op);
}

void call_receive(struct mixture *m, int end)
{
    struct op *op = new_op(m, end, EXS_EVT_RECV, LONGEST);

    one_transfer(m, op);
}

/* A blocking call with a short timeout. The receive is too short to be advertised, so the peer, which this thread
 * would have to drive, need not answer a recall. */
void call_read(struct mixture *m, int end)
{
    struct timeval short_time = {.tv_usec = 1000}, none = {0};
    struct op *op;

    if (m->socket[end] == -1 || m->type != SOCK_STREAM || m->ops > MOST_OPS - 50 || m->receives[end] > 0)
        return;
    op = new_op(m, end, EXS_EVT_RECV, 1 + below(m, 500));
    must(exs_setsockopt(m->socket[end], SOL_SOCKET, SO_RCVTIMEO, &short_time, sizeof(short_time)));
    ssize_t got = exs_read(m->socket[end], op->memory, op->length);

    if (got < 0)
        ck_assert_msg(errno == ETIMEDOUT || errno == ECONNRESET, "exs_read: %s", strerror(errno));
    if (m->socket[end] != -1)
        must(exs_setsockopt(m->socket[end], SOL_SOCKET, SO_RCVTIMEO, &none, sizeof(none)));
    op->ended = true;
    op->moved = got > 0 ? (size_t)got : 0;
    m->op[m->ops++] = op;
}

void call_look(struct mixture *m, int end)
{
    uint8_t bytes[300];
    ssize_t got;

    if (m->socket[end] == -1 || m->type != SOCK_STREAM || m->receives[end] > 0)
        return;
    got = exs_recv(m->socket[end], bytes, sizeof(bytes), MSG_PEEK | MSG_DONTWAIT | EXS_BLOCK, NULL, NULL, NULL);
    ck_assert_msg(got >= 0 || errno == EAGAIN || errno == ECONNRESET, "a look: %s", strerror(errno));
}

void call_limit(struct mixture *m, int end)
{
    struct timeval time = {.tv_usec = below(m, 2) ? (long)below(m, LIMIT_MS) * 1000 : 0};

    if (m->socket[end] != -1)
        must(exs_setsockopt(m->socket[end], SOL_SOCKET, below(m, 2) ? SO_RCVTIMEO : SO_SNDTIMEO, &time,
                            sizeof(time)));
}

void call_cancel(struct mixture *m, int end)
{
    struct op *op = m->ops > 0
                        ? m->op[below(m, 4) ? m->ops - 1 - (int)below(m, (size_t)(m->ops < 8 ? m->ops : 8))
                                            : (int)below(m, (size_t)m->ops)]
                        : NULL;

    if (m->socket[end] != -1)
        must(exs_cancel(m->socket[end], op, below(m, 6) ? 0 : EXS_CANCEL_ALL));
}

void call_poll(struct mixture *m)
{
    struct timeval time = {.tv_usec = (long)below(m, LIMIT_MS) * 1000};
    struct op *op;

    if (m->polls >= 3 || m->ops > MOST_OPS - 50)
        return;
    op = new_op(m, 0, EXS_EVT_POLL, 1);
    for (int i = 0; i < 2; i++)
        op->polled[i] = (exs_pollfd_t){.exs_fd = m->socket[i],
                                       .exs_events = (short)(below(m, 2) ? EXS_POLLIN : EXS_POLLOUT)};
    op->polled[2] = (exs_pollfd_t){.exs_fd = m->pipe[0], .exs_events = EXS_POLLIN};
    op->end = (int)below(m, 2);
    begun(m, op, exs_poll(op->polled, 3, 0, &time, m->box[op->end].queue, op));
}
