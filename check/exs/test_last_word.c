/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * test_last_word.c - the last acknowledgement is lost, and the receiver has closed in order: sends that have arrived
 * succeed, and those that have not arrived fail.
 *
 * Both ends are in this process, on the software device's UDP link. From a given moment on, sendmsg() drops the
 * acknowledgements to the sender. The sender's service thread is suspended until the receiver has closed. However long
 * the process does not run, the sender then neither retransmits before all has been sent once nor gives up.
 */
#include "check/support/support.h"

#include <dlfcn.h>
#include <netinet/udp.h>
#include <stdatomic.h>
#include "inside.h"

enum { READ_RESPONSE = 0xd, ACKNOWLEDGE = 0x11, BTH = 12 };

static _Atomic uint32_t deaf;  /* number of a queue pair; acknowledgements sent to it are dropped; 0: none */
static _Atomic uint32_t blind; /* number of a queue pair; all other packets sent to it are dropped; 0: none */
static atomic_uint lost;

static uint32_t qpn_of(const uint8_t *bth)
{
    return (uint32_t)(bth[5] << 16 | bth[6] << 8 | bth[7]);
}

/* The segment size: the distance of the packets in one buffer. */
static size_t stride_of(const struct msghdr *message, size_t length)
{
    struct msghdr all = *message;
    uint16_t stride;

    for (struct cmsghdr *each = CMSG_FIRSTHDR(&all); each != NULL; each = CMSG_NXTHDR(&all, each)) {
        if (each->cmsg_level != SOL_UDP || each->cmsg_type != UDP_SEGMENT)
            continue;
        memcpy(&stride, CMSG_DATA(each), sizeof(stride));
        return stride > 0 ? stride : length;
    }
    return length;
}

/* Does the message have a read response for the deaf queue pair? */
static bool has_response(const struct msghdr *message)
{
    for (size_t i = 0; i < message->msg_iovlen; i++) {
        const uint8_t *packets = message->msg_iov[i].iov_base;
        size_t length = message->msg_iov[i].iov_len, stride = stride_of(message, length);

        for (size_t at = 0; at + BTH <= length; at += stride) {
            const uint8_t *bth = packets + at;

            if (bth[0] >= READ_RESPONSE && bth[0] < ACKNOWLEDGE && qpn_of(bth) == atomic_load(&deaf))
                return true;
        }
    }
    return false;
}

/* Acknowledgements are dropped if they are sent alone. A burst that contains a read response is dropped as a whole, and
 * is retransmitted. */
static bool is_lost(const struct msghdr *message)
{
    const uint8_t *bth = message->msg_iov[0].iov_base;

    if (message->msg_iov[0].iov_len < BTH)
        return false;
    if (bth[0] == ACKNOWLEDGE && message->msg_iovlen == 1 && qpn_of(bth) == atomic_load(&deaf))
        return true;
    return has_response(message) || (bth[0] != ACKNOWLEDGE && qpn_of(bth) == atomic_load(&blind));
}

/* Replaces the system's function, for the library, too. */
__attribute__((visibility("default"))) ssize_t sendmsg(int fd, const struct msghdr *message, int flags)
{
    static ssize_t (*_Atomic real)(int, const struct msghdr *, int);

    if (atomic_load(&real) == NULL) {
        ssize_t (*found)(int, const struct msghdr *, int);

        *(void **)&found = dlsym(RTLD_NEXT, "sendmsg");
        atomic_store(&real, found);
    }
    if (!is_lost(message))
        return atomic_load(&real)(fd, message, flags);
    size_t length = 0;

    for (size_t i = 0; i < message->msg_iovlen; i++)
        length += message->msg_iov[i].iov_len;
    atomic_fetch_add(&lost, 1);
    return (ssize_t)length;
}

static struct service_member *still; /* of the sender */

/* Makes one end deaf or blind, and suspends the sender's service thread. */
static void make(_Atomic uint32_t *what, int socket, const struct pair *pair)
{
    still = service_of(pair->client);
    service_suspend(still);
    atomic_store(what, conn_of(socket)->qp->qp_num);
}

static void at_the_end(struct inbox *box, int socket)
{
    char byte;

    must(exs_recv(socket, &byte, 1, 0, box->queue, NULL, NULL));
    ck_assert_uint_eq(take_good(box, EXS_EVT_RECV, socket).exs_evt_union.exs_evt_xfer.exs_evt_length, 0);
}

static void both_quiet(const struct pair *pair)
{
    inbox_quiet(pair->client_box, QUIET_MS);
    inbox_quiet(pair->server_box, QUIET_MS);
}

/* Closes the receiver's socket, and resumes the sender's service thread. */
static void leaves(struct inbox *box, int socket)
{
    must(exs_close(socket, 0, box->queue, NULL));
    take_good(box, EXS_EVT_CLOSE, socket);
    service_resume(still);
}

/* A pair whose server exports memory to its client. */
static exs_mhandle_t pair_with_memory(struct pair *pair, void *bytes, size_t length, int rights,
                                      exs_token_t *token)
{
    exs_mhandle_t region = exs_mregister(bytes, length, 0);

    pair_open(pair, AF_INET, SOCK_STREAM);
    must(exs_mexport(pair->server, region, bytes, length, rights, token));
    return region;
}

static const struct {
    int type;
    bool sends, answers; /* before its end of the stream; answers: the server has ended its stream before */
} cases[] = {
    {SOCK_STREAM, false, false}, {SOCK_STREAM, true, false},    {SOCK_STREAM, false, true},
    {SOCK_STREAM, true, true},   {SOCK_SEQPACKET, true, false}, {SOCK_SEQPACKET, true, true},
};

START_TEST(what_has_arrived)
{
    struct pair pair;
    char out[100] = "x", in[100];

    if (on_rdma())
        return;
    pair_open(&pair, AF_INET, cases[_i].type);
    struct inbox *near = pair.client_box, *far = pair.server_box;

    must(exs_recv(pair.server, in, sizeof(in), MSG_WAITALL, far->queue, NULL, NULL));
    both_quiet(&pair);
    if (cases[_i].answers) {
        must(exs_shutdown(pair.server, SHUT_WR, 0, far->queue, NULL));
        take_good(far, EXS_EVT_SHUTDOWN, pair.server);
        at_the_end(near, pair.client);
    }
    make(&deaf, pair.client, &pair);
    if (cases[_i].sends)
        must(exs_send(pair.client, out, sizeof(out), 0, near->queue, NULL, NULL));
    must(exs_shutdown(pair.client, SHUT_WR, 0, near->queue, NULL));
    take_good(far, EXS_EVT_RECV, pair.server);
    if (cases[_i].sends)
        at_the_end(far, pair.server);
    leaves(far, pair.server);
    if (cases[_i].sends)
        take_good(near, EXS_EVT_SEND, pair.client);
    take_good(near, EXS_EVT_SHUTDOWN, pair.client);
    if (!cases[_i].answers)
        at_the_end(near, pair.client);
    ck_assert_uint_gt(atomic_load(&lost), 0);
    close_socket(near, pair.client);
    pair_close_rest(&pair);
}
END_TEST

static char out[30000], in[sizeof(out)]; /* fits into the window, so it needs no acknowledgement */

/* The server has received everything and closes. The client has not ended its stream, and does not. */
static const struct {
    int type;
    size_t sends, bytes;
} leavings[] = {
    {SOCK_STREAM, 1, 11},   {SOCK_STREAM, 9, 11},   {SOCK_STREAM, 1, sizeof(out)},
    {SOCK_SEQPACKET, 1, 0}, {SOCK_SEQPACKET, 3, 5}, {SOCK_SEQPACKET, 1, sizeof(out)},
};

START_TEST(who_got_all_leaves)
{
    struct pair pair;
    size_t bytes = leavings[_i].bytes, sends = leavings[_i].sends;
    int flags = leavings[_i].type == SOCK_STREAM ? MSG_WAITALL : 0;

    if (on_rdma())
        return;
    pair_open(&pair, AF_INET, leavings[_i].type);
    struct inbox *near = pair.client_box, *far = pair.server_box;

    for (size_t i = 0; i < sends; i++)
        must(exs_recv(pair.server, in, bytes > 0 ? bytes : 1, flags, far->queue, NULL, NULL));
    both_quiet(&pair);
    make(&deaf, pair.client, &pair);
    for (size_t i = 0; i < sends; i++)
        must(exs_send(pair.client, out, bytes, 0, near->queue, NULL, NULL));
    for (size_t i = 0; i < sends; i++)
        take_good(far, EXS_EVT_RECV, pair.server);
    leaves(far, pair.server);
    for (size_t i = 0; i < sends; i++)
        ck_assert_uint_eq(take_good(near, EXS_EVT_SEND, pair.client).exs_evt_union.exs_evt_xfer.exs_evt_length,
                          bytes);
    ck_assert_uint_gt(atomic_load(&lost), 0);
    close_socket(near, pair.client);
    pair_close_rest(&pair);
}
END_TEST

START_TEST(who_got_less_leaves)
{
    struct pair pair;

    if (on_rdma())
        return;
    pair_open(&pair, AF_INET, SOCK_STREAM);
    struct inbox *near = pair.client_box, *far = pair.server_box;

    must(exs_recv(pair.server, in, 1, 0, far->queue, NULL, NULL));
    must(exs_send(pair.client, out, 1, 0, near->queue, NULL, NULL));
    take_good(far, EXS_EVT_RECV, pair.server);
    take_good(near, EXS_EVT_SEND, pair.client);
    make(&blind, pair.server, &pair);
    must(exs_send(pair.client, out, 1, 0, near->queue, NULL, NULL));
    leaves(far, pair.server);
    take_failed(near, EXS_EVT_SEND, pair.client, ECONNRESET);
    ck_assert_uint_gt(atomic_load(&lost), 0);
    close_socket(near, pair.client);
    pair_close_rest(&pair);
}
END_TEST

/* An exs_rwrite has arrived if a send or an end of the stream that follows it has, and then succeeds. If nothing
 * follows, its arrival is unknown. */
static const struct {
    size_t bytes;
    bool sends, ends, arrives;
} writings[] = {
    {11, true, false, true}, {sizeof(out), true, false, true}, {11, false, true, true},
    {11, true, true, true},  {11, false, false, false},        {11, true, false, false},
};

START_TEST(what_was_written)
{
    bool sends = writings[_i].sends, ends = writings[_i].ends, arrives = writings[_i].arrives;
    size_t bytes = writings[_i].bytes;
    exs_token_t token;
    exs_mhandle_t region;
    struct pair pair;
    char byte;

    if (on_rdma())
        return;
    region = pair_with_memory(&pair, in, sizeof(in), EXS_REMOTE_WRITE, &token);
    struct inbox *near = pair.client_box, *far = pair.server_box;

    if (sends && arrives)
        must(exs_recv(pair.server, &byte, 1, 0, far->queue, NULL, NULL));
    both_quiet(&pair);
    if (arrives)
        make(&deaf, pair.client, &pair);
    else
        make(&blind, pair.server, &pair);
    must(exs_rwrite(pair.client, out, bytes, &token, 0, 0, near->queue, NULL, NULL));
    if (sends)
        must(exs_send(pair.client, "x", 1, 0, near->queue, NULL, NULL));
    if (ends)
        must(exs_shutdown(pair.client, SHUT_WR, 0, near->queue, NULL));
    if (sends && arrives)
        take_good(far, EXS_EVT_RECV, pair.server);
    if (ends)
        at_the_end(far, pair.server);
    leaves(far, pair.server);
    if (arrives)
        take_good(near, EXS_EVT_RWRITE, pair.client);
    else
        take_failed(near, EXS_EVT_RWRITE, pair.client, ECONNRESET);
    if (sends && arrives)
        take_good(near, EXS_EVT_SEND, pair.client);
    else if (sends)
        take_failed(near, EXS_EVT_SEND, pair.client, ECONNRESET);
    if (ends)
        take_good(near, EXS_EVT_SHUTDOWN, pair.client);
    ck_assert_uint_gt(atomic_load(&lost), 0);
    close_socket(near, pair.client);
    must(exs_mderegister(region, 0));
    pair_close_rest(&pair);
}
END_TEST

/* An exs_rread fails, even if a send that follows it has arrived. */
START_TEST(what_was_read)
{
    exs_mhandle_t region;
    exs_token_t token;
    struct pair pair;
    char byte;

    if (on_rdma())
        return;
    region = pair_with_memory(&pair, out, sizeof(out), EXS_REMOTE_READ, &token);
    struct inbox *near = pair.client_box, *far = pair.server_box;

    must(exs_recv(pair.server, &byte, 1, 0, far->queue, NULL, NULL));
    both_quiet(&pair);
    make(&deaf, pair.client, &pair);
    must(exs_rread(pair.client, in, 11, &token, 0, 0, near->queue, NULL, NULL));
    must(exs_send(pair.client, "x", 1, 0, near->queue, NULL, NULL));
    take_good(far, EXS_EVT_RECV, pair.server);
    leaves(far, pair.server);
    take_failed(near, EXS_EVT_RREAD, pair.client, ECONNRESET);
    take_good(near, EXS_EVT_SEND, pair.client);
    ck_assert_uint_gt(atomic_load(&lost), 0);
    close_socket(near, pair.client);
    must(exs_mderegister(region, 0));
    pair_close_rest(&pair);
}
END_TEST

/* A lingering close succeeds in this case, too. */
START_TEST(what_was_written_and_closed)
{
    exs_mhandle_t region;
    exs_token_t token;
    struct pair pair;
    char byte;

    if (on_rdma())
        return;
    region = pair_with_memory(&pair, in, sizeof(in), EXS_REMOTE_WRITE, &token);
    struct inbox *near = pair.client_box, *far = pair.server_box;

    must(exs_recv(pair.server, &byte, 1, 0, far->queue, NULL, NULL));
    both_quiet(&pair);
    make(&deaf, pair.client, &pair);
    must(exs_rwrite(pair.client, out, 11, &token, 0, 0, near->queue, NULL, NULL));
    must(exs_send(pair.client, "x", 1, 0, near->queue, NULL, NULL));
    must(exs_close(pair.client, EXS_LINGER, near->queue, NULL));
    take_good(far, EXS_EVT_RECV, pair.server);
    leaves(far, pair.server);
    take_good(near, EXS_EVT_RWRITE, pair.client);
    take_good(near, EXS_EVT_SEND, pair.client);
    take_good(near, EXS_EVT_CLOSE, pair.client);
    ck_assert_uint_gt(atomic_load(&lost), 0);
    must(exs_mderegister(region, 0));
    pair_close_rest(&pair);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("last word");
    TCase *tcase = add_case(suite, "last word", 40);

    setenv("EXS_LINK", "udp", 1);
    tcase_add_loop_test(tcase, what_has_arrived, 0, COUNT(cases));
    tcase_add_loop_test(tcase, who_got_all_leaves, 0, COUNT(leavings));
    tcase_add_test(tcase, who_got_less_leaves);
    tcase_add_loop_test(tcase, what_was_written, 0, COUNT(writings));
    tcase_add_test(tcase, what_was_written_and_closed);
    tcase_add_test(tcase, what_was_read);
    return run_suite(suite);
}
