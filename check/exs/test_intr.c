/* SPDX-License-Identifier: BSD-2-Clause */
/* test_intr.c - EXS_INTR: a signal handler ends a blocking call, and the connection still works. */
#include "check/support/asleep.h"
#include "check/support/support.h"

#include <signal.h>
#include <stdatomic.h>

#define LENGTH (300 * KIB) /* more than the peer's ring buffer */

static _Atomic int handled;

static void handle(int signal)
{
    (void)signal;
    handled++;
}

/* SA_RESTART must make no difference: calls with EXS_INTR are not restarted. */
static void catch_signals(void)
{
    struct sigaction action = {.sa_handler = handle, .sa_flags = SA_RESTART};

    init_library();
    ck_assert_int_eq(sigaction(SIGUSR1, &action, NULL), 0);
}

struct job { /* a call in another thread */
    long (*call)(struct job *job);
    int socket, flags;
    size_t length;
    uint8_t *buffer;
    exs_mhandle_t region;
    struct address address;
    _Atomic pid_t tid;
    pthread_t thread;
    long result;
    int error;
    _Atomic bool done;
};

static void *run_job(void *argument)
{
    struct job *job = argument;
    sigset_t before = {0}, after = {0};

    pthread_sigmask(SIG_SETMASK, NULL, &before);
    job->tid = gettid();
    job->result = job->call(job);
    job->error = errno;
    pthread_sigmask(SIG_SETMASK, NULL, &after);
    ck_assert_mem_eq(&before, &after, sizeof before);
    job->done = true;
    return NULL;
}

static void start_job(struct job *job)
{
    job->thread = thread_start(run_job, job);
    await_sleep(&job->tid);
}

static void interrupt(const struct job *job)
{
    int before = handled;

    ck_assert_int_eq(pthread_kill(job->thread, SIGUSR1), 0);
    while (handled == before)
        sched_yield();
}

static void ends(struct job *job, long result, int error)
{
    thread_join(job->thread);
    ck_assert_int_eq(job->result, result);
    if (result < 0)
        ck_assert_int_eq(job->error, error);
    free(job->buffer);
}

static long receive(struct job *job)
{
    return exs_blocking_recv(job->socket, job->buffer, job->length, job->flags, job->region);
}

static long receive_message(struct job *job)
{
    exs_iovec_t pieces[] = {{.exs_base = job->buffer, .exs_length = 1},
                            {.exs_base = job->buffer + 1, .exs_length = job->length - 1}};
    exs_msghdr_t message = {.exs_iov = pieces, .exs_iovlen = 2};

    return exs_blocking_recvmsg(job->socket, &message, job->flags);
}

static long receive_file(struct job *job)
{
    exs_xferfile_t element = {.exs_xfv_type = EXS_IOVEC,
                              .exs_xfv.exs_iov = {.exs_base = job->buffer, .exs_length = job->length}};

    return exs_blocking_recvfile(job->socket, &element, 1, job->flags);
}

static long send_all(struct job *job)
{
    return exs_blocking_send(job->socket, job->buffer, job->length, job->flags, NULL);
}

static long send_message(struct job *job)
{
    exs_iovec_t pieces[] = {{.exs_base = job->buffer, .exs_length = job->length}};
    exs_msghdr_t message = {.exs_iov = pieces, .exs_iovlen = 1};

    return exs_blocking_sendmsg(job->socket, &message, job->flags);
}

static long send_file(struct job *job)
{
    exs_xferfile_t element = {.exs_xfv_type = EXS_IOVEC,
                              .exs_xfv.exs_iov = {.exs_base = job->buffer, .exs_length = job->length}};

    return exs_blocking_sendfile(job->socket, &element, 1, job->flags);
}

static long accept_one(struct job *job)
{
    exs_acceptaddr_t element = {0};

    return exs_accept(job->socket, &element, 1, EXS_BLOCK | job->flags, NULL);
}

static long connect_to(struct job *job)
{
    return exs_connect(job->socket, SA(&job->address), job->address.length, EXS_BLOCK | job->flags, NULL, NULL,
                       NULL);
}

static struct job job_of(long (*call)(struct job *), int socket, size_t length, int flags)
{
    return (struct job){
        .call = call, .socket = socket, .length = length, .buffer = new_buffer(length), .flags = flags};
}

/* Data that arrives is received completely by the next call. */
static void still_works(const struct pair *pair)
{
    char in[5];

    ck_assert_int_eq(exs_blocking_send(pair->client, "hello", 5, 0, NULL), 5);
    ck_assert_int_eq(exs_blocking_recv(pair->server, in, 5, MSG_WAITALL, NULL), 5);
    ck_assert_mem_eq(in, "hello", 5);
}

/* ---- Receives -------------------------------------------------------------------------------------------- */

static long (*const receives[])(struct job *) = {receive, receive_message, receive_file};

/* No byte had arrived, and the peer does not run: short and long receives, by each call. */
START_TEST(nothing_came)
{
    struct pair pair;
    struct job job;

    pair_open_blocking(&pair, AF_INET, SOCK_STREAM);
    for (int i = 0; i < 2 * COUNT(receives); i++) {
        job = job_of(receives[i / 2], pair.server, i % 2 ? 100 * KIB : 10, EXS_INTR);
        if (i / 2 == 2 && i % 2)
            job.length = 4000; /* longer segments of a vector would be advertised */
        start_job(&job);
        interrupt(&job);
        ends(&job, -1, EINTR);
    }
    still_works(&pair);
    pair_close_blocking(&pair);
}
END_TEST

/* Some bytes had arrived: the call returns their number. */
START_TEST(some_came)
{
    struct pair pair;
    struct job job;

    pair_open_blocking(&pair, AF_INET, SOCK_STREAM);
    for (int i = 0; i < 2; i++) {
        job = job_of(receives[i], pair.server, 10, EXS_INTR | MSG_WAITALL);
        ck_assert_int_eq(exs_blocking_send(pair.client, "abc", 3, 0, NULL), 3);
        start_job(&job);
        while (memcmp(job.buffer, "abc", 3) != 0) /* the call has received the bytes */
            sched_yield();
        await_sleep(&job.tid);
        interrupt(&job);
        thread_join(job.thread);
        ck_assert_int_eq(job.result, 3);
        free(job.buffer);
    }
    still_works(&pair);
    pair_close_blocking(&pair);
}
END_TEST

/* The signal ends only the call of the thread that handles it, not another thread's call on the same socket, nor an
 * operation with an event. */
START_TEST(others_go_on)
{
    uint8_t in[3];
    struct pair pair;
    struct job other, job;
    struct inbox box;

    pair_open_blocking(&pair, AF_INET, SOCK_STREAM);
    inbox_open(&box, 1);
    must(exs_recv(pair.server, in, sizeof in, 0, box.queue, in, NULL));
    other = job_of(receive, pair.server, 3, EXS_INTR);
    start_job(&other);
    job = job_of(receive, pair.server, 3, EXS_INTR);
    start_job(&job);
    interrupt(&job);
    ends(&job, -1, EINTR);
    ck_assert_int_eq(exs_blocking_send(pair.client, "abcdef", 6, 0, NULL), 6);
    ck_assert_ptr_eq(take_good(&box, EXS_EVT_RECV, pair.server).exs_evt_ahandle, in);
    ck_assert_mem_eq(in, "abc", 3);
    thread_join(other.thread);
    ck_assert_int_eq(other.result, 3);
    ck_assert_mem_eq(other.buffer, "def", 3);
    free(other.buffer);
    still_works(&pair);
    pair_close_blocking(&pair);
    inbox_close(&box);
}
END_TEST

/* The buffer was advertised: the peer must run to reply to the recall. */
START_TEST(advertised)
{
    int type = _i ? SOCK_SEQPACKET : SOCK_STREAM;
    struct pair pair;
    struct job job;
    char byte;

    pair_open_blocking(&pair, AF_INET, type);
    job = job_of(receive, pair.server, 100 * KIB, EXS_INTR);
    job.region = exs_mregister(job.buffer, job.length, 0);
    start_job(&job);
    interrupt(&job);
    while (!job.done)
        must_fail(exs_blocking_recv(pair.client, &byte, 1, MSG_DONTWAIT, NULL), EAGAIN);
    must(exs_mderegister(job.region, 0));
    ends(&job, -1, EINTR);
    if (type == SOCK_STREAM)
        still_works(&pair);
    pair_close_blocking(&pair);
}
END_TEST

/* ---- Sends ----------------------------------------------------------------------------------------------- */

static long (*const sends[])(struct job *) = {send_all, send_message, send_file};

/* The first call returns the number of bytes that the peer had space for, except exs_sendfile, and the next one
 * transfers nothing. */
START_TEST(no_room)
{
    uint8_t *in = new_buffer(2 * LENGTH);
    struct pair pair;
    struct job job;
    long sent = 0;

    pair_open_blocking(&pair, AF_INET, SOCK_STREAM);
    job = job_of(sends[_i], pair.client, LENGTH, EXS_INTR);
    pattern_fill(job.buffer, LENGTH, 1, 0);
    start_job(&job);
    interrupt(&job);
    thread_join(job.thread);
    if (_i == 2) {
        ck_assert_int_eq(job.result, -1);
        ck_assert_int_eq(job.error, EINTR);
    } else {
        ck_assert(job.result > 0 && job.result < (long)LENGTH);
        sent = job.result;
    }
    free(job.buffer);
    job = job_of(sends[_i], pair.client, 10, EXS_INTR);
    start_job(&job);
    interrupt(&job);
    ends(&job, -1, EINTR);
    if (_i != 2) {
        ck_assert_int_eq(exs_blocking_recv(pair.server, in, (size_t)sent, MSG_WAITALL, NULL), sent);
        pattern_check(in, (size_t)sent, 1, 0);
        must_fail(exs_blocking_recv(pair.server, in, 1, MSG_DONTWAIT, NULL), EAGAIN);
        still_works(&pair);
    }
    free(in);
    pair_close_blocking(&pair);
}
END_TEST

/* ---- Connections ----------------------------------------------------------------------------- */

START_TEST(accepts)
{
    struct address address;
    int listener = open_listener(AF_INET, SOCK_STREAM, 5, &address);
    struct job job = job_of(accept_one, listener, 1, EXS_INTR);

    start_job(&job);
    interrupt(&job);
    ends(&job, -1, EINTR);
    job = job_of(accept_one, listener, 1, 0);
    start_job(&job);
    int client = exs_socket(PF_INET, SOCK_STREAM, 0);
    must(exs_blocking_connect(client, SA(&address), address.length));
    ends(&job, 0, 0);
    must(exs_blocking_close(client));
    must(exs_blocking_close(listener));
}
END_TEST

START_TEST(connects)
{
    int keep, client = exs_socket(PF_INET, SOCK_STREAM, 0);
    struct job job = job_of(connect_to, client, 1, EXS_INTR);
    struct address address;
    int listener = open_listener(AF_INET, SOCK_STREAM, 5, &address);

    job.address = deaf_address(&keep);
    start_job(&job);
    interrupt(&job);
    ends(&job, -1, EINTR);
    job = job_of(connect_to, client, 1, EXS_INTR); /* the socket may connect again */
    job.address = address;
    job.thread = thread_start(run_job, &job);
    int server = exs_blocking_accept(listener, NULL, NULL);
    must(server);
    ends(&job, 0, 0);
    must(exs_blocking_close(client));
    must(exs_blocking_close(server));
    must(exs_blocking_close(listener));
    close(keep);
}
END_TEST

/* ---- Calls that a signal does not end -------------------------------------------------------- */

/* A call without EXS_INTR, and a call with it whose thread has blocked the signal. */
START_TEST(goes_on)
{
    struct pair pair;
    sigset_t set, none;

    sigemptyset(&none);
    sigemptyset(&set);
    sigaddset(&set, SIGUSR1);
    pair_open_blocking(&pair, AF_INET, SOCK_STREAM);
    for (int i = 0; i < 2; i++) {
        struct job job = job_of(receive, pair.server, 3, i ? EXS_INTR : 0);

        pthread_sigmask(SIG_SETMASK, i ? &set : &none, NULL); /* the new thread inherits the mask */
        start_job(&job);
        if (i)
            ck_assert_int_eq(pthread_kill(job.thread, SIGUSR1), 0);
        else
            interrupt(&job);
        await_sleep(&job.tid);
        ck_assert(!job.done);
        ck_assert_int_eq(exs_blocking_send(pair.client, "abc", 3, 0, NULL), 3);
        ends(&job, 3, 0);
    }
    pair_close_blocking(&pair);
}
END_TEST

/* EXS_INTR is only for blocking calls. */
START_TEST(refused)
{
    exs_acceptaddr_t element = {0};
    exs_iovec_t piece;
    exs_msghdr_t message = {.exs_iov = &piece, .exs_iovlen = 1};
    exs_xferfile_t file = {.exs_xfv_type = EXS_IOVEC};
    struct pair pair;
    char byte = 0;

    pair_open(&pair, AF_INET, SOCK_STREAM);
    exs_qhandle_t queue = pair.server_box->queue;

    piece = file.exs_xfv.exs_iov = (exs_iovec_t){.exs_base = &byte, .exs_length = 1};
    must_fail(exs_recv(pair.server, &byte, 1, EXS_INTR, queue, NULL, NULL), EINVAL);
    must_fail(exs_send(pair.server, &byte, 1, EXS_INTR, queue, NULL, NULL), EINVAL);
    must_fail(exs_recvmsg(pair.server, &message, EXS_INTR, queue, NULL), EINVAL);
    must_fail(exs_sendmsg(pair.server, &message, EXS_INTR, queue, NULL), EINVAL);
    must_fail(exs_recvfile(pair.server, &file, 1, EXS_INTR, queue, NULL), EINVAL);
    must_fail(exs_sendfile(pair.server, &file, 1, EXS_INTR, queue, NULL), EINVAL);
    must_fail(exs_accept(pair.listener, &element, 1, EXS_INTR, queue), EINVAL);
    must_fail(exs_shutdown(pair.server, SHUT_WR, EXS_INTR | EXS_BLOCK, NULL, NULL), EINVAL);
    must_fail(exs_close(pair.server, EXS_INTR | EXS_BLOCK, NULL, NULL), EINVAL);
    pair_close(&pair);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("intr");
    TCase *tcase = add_bare_case(suite, "intr", 20);

    tcase_add_checked_fixture(tcase, catch_signals, NULL);
    tcase_add_test(tcase, nothing_came);
    tcase_add_test(tcase, some_came);
    tcase_add_test(tcase, others_go_on);
    tcase_add_loop_test(tcase, advertised, 0, 2);
    tcase_add_loop_test(tcase, no_room, 0, COUNT(sends));
    tcase_add_test(tcase, accepts);
    tcase_add_test(tcase, connects);
    tcase_add_test(tcase, goes_on);
    tcase_add_test(tcase, refused);
    return run_suite(suite);
}
