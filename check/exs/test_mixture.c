/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * test_mixture.c - everything at once, at random, by one thread that has both ends: transfers of every kind,
 * limits of time, cancels, polls, looks, and closes in the middle. Each operation ends once, before its
 * socket's close; what one end sent the other received, in order, and nothing else.
 */
#include <poll.h>
#include <sys/mman.h>
#include "check/support/support.h"

#define MOST_OPS 4000      /* of one connection */
#define PENDING 10         /* of one end, each way */
#define LONGEST (96 * KIB) /* bytes of one transfer */
#define PIECES 3
#define LIMIT_MS 12

struct op {
    int type, end, flags;
    size_t length, moved; /* bytes */
    int error, told;      /* MSG_TRUNC, EXS_EOF */
    bool ended;
    bool unsure;     /* a send that a close ended: it may have arrived */
    uint8_t *memory; /* length bytes; of a file its bytes, when it has ended */
    int file;        /* -1: none */
    exs_iovec_t pieces[PIECES];
    exs_msghdr_t message;
    exs_xferfile_t elements[PIECES];
    exs_pollfd_t polled[3];
};

struct mixture {
    struct chance chance;
    struct inbox box[2];
    int type, listener;
    struct address address;
    int socket[2];                                 /* of each end; -1: closed */
    bool has_closed[2], has_shut[2], has_ended[2]; /* EXS_EVT_CLOSE, EXS_EVT_SHUTDOWN, EXS_EOF of each end */
    bool may_break;                                /* one of them has closed */
    struct op *op[MOST_OPS];
    int ops, pending, receives[2], sends[2], polls;
    uint8_t *region_memory;
    exs_mhandle_t region; /* of LONGEST bytes, for whatever is sent */
    int pipe[2];
};

static size_t below(struct mixture *m, size_t limit)
{
    return chance_below(&m->chance, limit);
}

static bool is_receive(const struct op *op)
{
    return op->type == EXS_EVT_RECV || op->type == EXS_EVT_RECVMSG || op->type == EXS_EVT_RECVFILE;
}

static int *count_of(struct mixture *m, const struct op *op)
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

static void free_op(struct op *op)
{
    if (op->file >= 0)
        close(op->file);
    free(op->memory);
    free(op);
}

/* What the call gave: 0, and it is pending; or it was refused, as only some may be. */
static void begun(struct mixture *m, struct op *op, ssize_t result)
{
    if (result == 0 && m->ops < MOST_OPS) {
        m->op[m->ops++] = op;
        m->pending++;
        ++*count_of(m, op);
        return;
    }
    ck_assert_msg((op->flags & MSG_DONTWAIT && errno == EAGAIN) ||
                      (m->may_break && (errno == ECONNRESET || errno == EPIPE)),
                  "%s: %s", exs_strevent(op->type), strerror(errno));
    free_op(op);
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

/* Cut in up to PIECES. */
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
    if (region != NULL) { /* nobody changes that: all that is sent from it are the same bytes */
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

/* A file, and memory behind it. */
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

static void transfer(struct mixture *m, int end, bool receives)
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

/* By a call that waits a little; short, so that the peer, which this thread would have to run, need not forget
 * it.
 */
static void waiting_receive(struct mixture *m, int end)
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

static void look(struct mixture *m, int end)
{
    uint8_t bytes[300];
    ssize_t got;

    if (m->socket[end] == -1 || m->type != SOCK_STREAM || m->receives[end] > 0)
        return;
    got = exs_recv(m->socket[end], bytes, sizeof(bytes), MSG_PEEK | MSG_DONTWAIT | EXS_BLOCK, NULL, NULL, NULL);
    ck_assert_msg(got >= 0 || errno == EAGAIN || errno == ECONNRESET, "a look: %s", strerror(errno));
}

static void limit(struct mixture *m, int end)
{
    struct timeval time = {.tv_usec = below(m, 2) ? (long)below(m, LIMIT_MS) * 1000 : 0};

    if (m->socket[end] != -1)
        must(exs_setsockopt(m->socket[end], SOL_SOCKET, below(m, 2) ? SO_RCVTIMEO : SO_SNDTIMEO, &time,
                            sizeof(time)));
}

static void cancel(struct mixture *m, int end)
{
    struct op *op = m->ops > 0
                        ? m->op[below(m, 4) ? m->ops - 1 - (int)below(m, (size_t)(m->ops < 8 ? m->ops : 8))
                                            : (int)below(m, (size_t)m->ops)]
                        : NULL;

    if (m->socket[end] != -1)
        must(exs_cancel(m->socket[end], op, below(m, 6) ? 0 : EXS_CANCEL_ALL));
}

static void watch(struct mixture *m)
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

/* ---- Events ------------------------------------------------------------------------------------------ */

static void note_file(struct op *op, size_t moved)
{
    size_t in_file = op->elements[0].exs_xfv.exs_fdv.exs_length;
    size_t bytes = moved < in_file ? moved : in_file;

    ck_assert_int_eq(pread(op->file, op->memory, bytes, 0), (ssize_t)bytes);
}

static void note(struct mixture *m, int end, const exs_event_t *event)
{
    struct op *op = event->exs_evt_ahandle;

    if (event->exs_evt_type == EXS_EVT_CLOSE) {
        ck_assert(!m->has_closed[end]);
        m->has_closed[end] = true;
        return;
    }
    if (event->exs_evt_type == EXS_EVT_SHUTDOWN) {
        m->has_shut[end] = true;
        return;
    }
    ck_assert_int_eq(op->type, event->exs_evt_type);
    ck_assert_msg(!op->ended, "%s ends twice", exs_strevent(op->type));
    op->ended = true;
    op->error = event->exs_evt_errno;
    m->pending--;
    --*count_of(m, op);
    if (op->type == EXS_EVT_POLL)
        return;
    ck_assert_msg(!m->has_closed[op->end], "%s ends behind its socket's close", exs_strevent(op->type));
    if (op->type == EXS_EVT_SENDFILE || op->type == EXS_EVT_RECVFILE) {
        op->moved = (size_t)event->exs_evt_union.exs_evt_xferfile.exs_evt_length;
        op->told = event->exs_evt_union.exs_evt_xferfile.exs_evt_flags;
    } else if (op->type == EXS_EVT_SENDMSG || op->type == EXS_EVT_RECVMSG) {
        op->moved = event->exs_evt_union.exs_evt_xfermsg.exs_evt_length;
        op->told = event->exs_evt_union.exs_evt_xfermsg.exs_evt_flags;
    } else {
        op->moved = event->exs_evt_union.exs_evt_xfer.exs_evt_length;
        op->told = event->exs_evt_union.exs_evt_xfer.exs_evt_flags;
    }
    m->has_ended[op->end] |= (op->told & EXS_EOF) != 0;
    ck_assert_uint_le(op->moved, op->length);
    op->unsure = m->may_break && op->error != 0 && !is_receive(op);
    if (!m->may_break)
        ck_assert_msg(op->error == 0 || op->error == ECANCELED || op->error == ETIMEDOUT, "%s: %s",
                      exs_strevent(op->type), strerror(op->error));
    if (op->type == EXS_EVT_RECVFILE)
        note_file(op, op->moved);
}

/* As many as there are, in batches; wait_ms: wait until one of the queues' descriptors says that there is
 * something. */
static void take(struct mixture *m, int wait_ms)
{
    struct pollfd fds[2];
    exs_event_t events[8];

    for (int end = 0; end < 2; end++)
        fds[end] = (struct pollfd){.fd = exs_qfd(m->box[end].queue), .events = POLLIN};
    if (wait_ms > 0)
        ck_assert_msg(poll(fds, 2, wait_ms) > 0, "%d operations are pending, and no descriptor is readable",
                      m->pending);
    for (int end = 0; end < 2; end++) {
        int most = 1 + (int)below(m, COUNT(events));
        int count = exs_qdequeue(m->box[end].queue, events, most, &(struct timeval){0});

        must(count);
        for (int i = 0; i < count; i++)
            note(m, end, &events[i]);
    }
}

/* ---- What came of it --------------------------------------------------------------------------------- */

struct log { /* of one direction */
    uint8_t *bytes;
    size_t length;
    size_t *ends; /* of messages */
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

/* Message `of` of one is that of the other, or as much of it as there was room for. */
static bool same_message(const struct log *sent, int of_sent, const struct log *received, int of_received)
{
    size_t from = of_sent > 0 ? sent->ends[of_sent - 1] : 0,
           at = of_received > 0 ? received->ends[of_received - 1] : 0;
    size_t length = sent->ends[of_sent] - from, got = received->ends[of_received] - at;

    return got <= length && received->cut[of_received] == (got < length) &&
           memcmp(sent->bytes + from, received->bytes + at, got) == 0;
}

/* In order, and each once; those that may have been left out. */
static void same_messages(const struct log *sent, const struct log *received)
{
    int next = 0;

    for (int i = 0; i < received->messages; i++) {
        while (next < sent->messages && sent->unsure[next] && !same_message(sent, next, received, i))
            next++;
        ck_assert_msg(next < sent->messages, "message %d of %d was not sent", i, received->messages);
        ck_assert_msg(same_message(sent, next, received, i), "message %d of %d differs", i, received->messages);
        next++;
    }
}

/* From this end to the other. `all`: nothing is missing at the end of it. */
static void compare(struct mixture *m, int from, bool all)
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

/* ---- The life of a connection ------------------------------------------------------------------------ */

static void begin(struct mixture *m)
{
    m->ops = m->pending = 0;
    m->may_break = false;
    for (int end = 0; end < 2; end++)
        m->has_closed[end] = m->has_shut[end] = m->has_ended[end] = false;
    connect_ends(m->listener, m->type, &m->address, &m->box[0], &m->box[1], &m->socket[0], &m->socket[1]);
}

static void close_end(struct mixture *m, int end)
{
    must(exs_close(m->socket[end], 0, m->box[end].queue, NULL));
    m->socket[end] = -1;
    m->may_break = true;
}

static void finish(struct mixture *m)
{
    for (int end = 0; end < 2; end++)
        if (m->socket[end] != -1)
            close_end(m, end);
    while (m->pending > 0 || !m->has_closed[0] || !m->has_closed[1])
        take(m, WAIT_MS);
    inbox_quiet(&m->box[0], 0);
    inbox_quiet(&m->box[1], 0);
}

/* Everything that was sent is taken, and then the end, both ways. */
static void drain(struct mixture *m)
{
    struct timeval none = {0};

    for (int end = 0; end < 2; end++) {
        must(exs_setsockopt(m->socket[end], SOL_SOCKET, SO_RCVTIMEO, &none, sizeof(none)));
        must(exs_setsockopt(m->socket[end], SOL_SOCKET, SO_SNDTIMEO, &none, sizeof(none)));
        must(exs_shutdown(m->socket[end], SHUT_WR, 0, m->box[end].queue, NULL));
    }
    while (m->has_shut[0] + m->has_shut[1] + m->has_ended[0] + m->has_ended[1] < 4) {
        for (int end = 0; end < 2; end++)
            if (!m->has_ended[end] && m->receives[end] == 0) {
                struct op *op = new_op(m, end, EXS_EVT_RECV, LONGEST);

                one_transfer(m, op);
            }
        take(m, WAIT_MS);
    }
}

static void one_step(struct mixture *m)
{
    int end = (int)below(m, 2);

    switch (below(m, 16)) {
    case 0:
    case 1:
    case 2:
    case 3:
        transfer(m, end, true);
        break;
    case 4:
    case 5:
    case 6:
    case 7:
        transfer(m, end, false);
        break;
    case 8:
        cancel(m, end);
        break;
    case 9:
        limit(m, end);
        break;
    case 10:
        watch(m);
        break;
    case 11:
        waiting_receive(m, end);
        break;
    case 12:
        look(m, end);
        break;
    default:
        take(m, 0);
    }
}

static void end_life(struct mixture *m)
{
    bool orderly = below(m, 2);

    if (orderly)
        drain(m);
    else if (below(m, 2))
        close_end(m, (int)below(m, 2));
    for (int i = 0; !orderly && m->may_break && i < 20; i++)
        one_step(m);
    finish(m);
    compare(m, 0, orderly);
    compare(m, 1, orderly);
    for (int i = 0; i < m->ops; i++)
        free_op(m->op[i]);
}

static const int types[] = {SOCK_STREAM, SOCK_SEQPACKET};

START_TEST(everything)
{
    struct mixture m = {.chance = chance_new(), .type = types[_i], .region_memory = new_buffer(LONGEST)};
    double end = seconds_now() + seconds_to_spend();

    pattern_fill(m.region_memory, LONGEST, 0, 0);
    m.region = exs_mregister(m.region_memory, LONGEST, 0);
    must(pipe(m.pipe));
    inbox_open(&m.box[0], 16);
    inbox_open(&m.box[1], 16);
    m.box[0].beside = &m.box[1];
    m.box[1].beside = &m.box[0];
    m.listener = open_listener(AF_INET, m.type, 4, &m.address);
    while (seconds_now() < end) {
        begin(&m);
        for (int steps = (int)chance_size(&m.chance, 1, 3000); steps > 0; steps--)
            one_step(&m);
        end_life(&m);
    }
    must(exs_mderegister(m.region, 0));
    must(exs_blocking_close(m.listener));
    m.box[0].beside = m.box[1].beside = NULL;
    inbox_close(&m.box[0]);
    inbox_close(&m.box[1]);
    close(m.pipe[0]);
    close(m.pipe[1]);
    free(m.region_memory);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("mixture");
    TCase *tcase = add_case(suite, "mixture", 30);

    tcase_add_loop_test(tcase, everything, 0, COUNT(types));
    return run_suite(suite);
}
