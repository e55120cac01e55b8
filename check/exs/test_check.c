/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * test_check.c - with EXS_CHECK, the library reports each misuse of the API in one line on standard error, which names
 * the call, and reports nothing for correct programs.
 */
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <sys/mman.h>
#include "check/support/processes.h"
#include "check/support/support.h"

enum { LARGE = 4 << 20, SMALL = 64 }; /* bytes: more than the ring buffer of a STREAM, and less */

static FILE *said; /* standard error of the test's process */
static struct pair pair;
static uint8_t *memory; /* LARGE bytes */

static void listen_to(const char *setting, int type)
{
    must(setenv("EXS_CHECK", setting, 1));
    said = tmpfile();
    ck_assert_ptr_nonnull(said);
    init_library();
    pair_open(&pair, AF_INET, type);
    memory = new_buffer(LARGE);
    must(dup2(fileno(said), STDERR_FILENO));
}

static void checked_stream(void)
{
    listen_to("1", SOCK_STREAM);
}

static void checked_packets(void)
{
    listen_to("1", SOCK_SEQPACKET);
}

static void unchecked(void)
{
    listen_to("0", SOCK_STREAM);
}

static void forget(void)
{
    must(ftruncate(fileno(said), 0));
    rewind(said);
}

static bool next_line(char line[512])
{
    return fgets(line, 512, said) != NULL;
}

/* Checks that this is the only line since the last check. */
static __attribute__((format(printf, 1, 2))) void told(const char *format, ...)
{
    char wanted[400], line[512] = "", whole[512];
    va_list arguments;

    va_start(arguments, format);
    vsnprintf(wanted, sizeof(wanted), format, arguments);
    va_end(arguments);
    snprintf(whole, sizeof(whole), "exs: misuse: %s\n", wanted);
    rewind(said);
    ck_assert_msg(next_line(line), "nothing was said, want: %s", whole);
    ck_assert_str_eq(line, whole);
    ck_assert_msg(!next_line(line), "and this was said: %s", line);
    forget();
}

static void told_nothing(void)
{
    char line[512];

    rewind(said);
    ck_assert_msg(!next_line(line), "this was said: %s", line);
    forget();
}

static void send_bytes(const void *from, size_t length)
{
    must(exs_send(pair.client, from, length, 0, pair.client_box->queue, NULL, NULL));
}

/* The server receives these bytes; the event of the send is left to the caller. */
static void take_bytes(size_t length)
{
    uint8_t *into = new_buffer(length);
    exs_qhandle_t queue = pair.server_box->queue;

    must(exs_recv(pair.server, into, length, MSG_WAITALL, queue, NULL, NULL));
    take_good(pair.server_box, EXS_EVT_RECV, pair.server);
    free(into);
}

static void receive(int socket, void *into, size_t length)
{
    exs_qhandle_t queue = socket == pair.client ? pair.client_box->queue : pair.server_box->queue;

    must(exs_recv(socket, into, length, 0, queue, NULL, NULL));
}

/* ---- Buffers that change while they are sent --------------------------------------------- */

START_TEST(changed)
{
    send_bytes(memory, LARGE);
    memory[LARGE - 1] ^= 1;
    take_bytes(LARGE);
    take_good(pair.client_box, EXS_EVT_SEND, pair.client);
    told("exs_send on socket %d: its buffer, %d bytes at %p, was changed before its event", pair.client, LARGE,
         (void *)memory);
    send_bytes(memory, LARGE);
    take_bytes(LARGE);
    take_good(pair.client_box, EXS_EVT_SEND, pair.client);
    memory[0] ^= 1; /* the buffer belongs to the application again */
    told_nothing();
}
END_TEST

/* The line names the segment that was changed. */
START_TEST(changed_message)
{
    exs_iovec_t pieces[] = {{.exs_base = memory, .exs_length = LARGE / 2},
                            {.exs_base = memory + LARGE / 2, .exs_length = LARGE / 2}};
    exs_msghdr_t message = {.exs_iov = pieces, .exs_iovlen = 2};

    must(exs_sendmsg(pair.client, &message, 0, pair.client_box->queue, NULL));
    memory[LARGE / 2] ^= 1;
    take_bytes(LARGE);
    take_good(pair.client_box, EXS_EVT_SENDMSG, pair.client);
    told("exs_sendmsg on socket %d: its buffer, %d bytes at %p, was changed before its event", pair.client,
         LARGE / 2, (void *)(memory + LARGE / 2));
}
END_TEST

START_TEST(changed_between_files)
{
    FILE *file = tmpfile();
    exs_xferfile_t elements[] = {{.exs_xfv_type = EXS_FDVEC}, {.exs_xfv_type = EXS_IOVEC}};

    ck_assert_ptr_nonnull(file);
    must(fputs("head", file));
    must(fflush(file));
    elements[0].exs_xfv.exs_fdv = (exs_fdvec_t){.exs_fildes = fileno(file)};
    elements[1].exs_xfv.exs_iov = (exs_iovec_t){.exs_base = memory, .exs_length = LARGE};
    must(exs_sendfile(pair.client, elements, 2, 0, pair.client_box->queue, NULL));
    memory[LARGE / 2] ^= 1;
    take_bytes(LARGE + 4);
    take_good(pair.client_box, EXS_EVT_SENDFILE, pair.client);
    told("exs_sendfile on socket %d: its buffer, %d bytes at %p, was changed before its event", pair.client,
         LARGE, (void *)memory);
}
END_TEST

/* No receive is pending for the message. The library has copied it, but the application can't know that. The CRC of
 * these four bytes is 0, the CRC of no bytes. */
START_TEST(taken_away)
{
    static const uint8_t bytes[] = {0x9d, 0x0a, 0xd9, 0x6d};
    uint8_t *mapped = mmap(NULL, sizeof(bytes), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    ck_assert_ptr_ne(mapped, MAP_FAILED);
    memcpy(mapped, bytes, sizeof(bytes));
    send_bytes(mapped, sizeof(bytes));
    must(munmap(mapped, sizeof(bytes)));
    take_bytes(sizeof(bytes));
    take_good(pair.client_box, EXS_EVT_SEND, pair.client);
    told("exs_send on socket %d: its buffer, %zu bytes at %p, was taken away before its event", pair.client,
         sizeof(bytes), (void *)mapped);
}
END_TEST

/* Unmaps a buffer as free() does with a large one, too large to be copied. The software device can no longer send it;
 * other devices have pinned its pages. */
START_TEST(long_taken_away)
{
    uint8_t *mapped = mmap(NULL, LARGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    exs_mhandle_t region = NULL;

    ck_assert_ptr_ne(mapped, MAP_FAILED);
    memset(mapped, 1, LARGE);
    if (_i == 1)
        region = exs_mregister(mapped, LARGE, 0);
    must(exs_send(pair.client, mapped, LARGE, 0, pair.client_box->queue, NULL, region));
    must(munmap(mapped, LARGE));
    must(exs_recv(pair.server, memory, LARGE, MSG_WAITALL, pair.server_box->queue, NULL, NULL));
    exs_event_t event = inbox_take(pair.client_box, EXS_EVT_SEND, pair.client);
    ck_assert_int_eq(event.exs_evt_errno, on_rdma() ? 0 : EFAULT);
    told("exs_send on socket %d: its buffer, %d bytes at %p, was taken away before its event", pair.client,
         LARGE, (void *)mapped);
    inbox_take(pair.server_box, EXS_EVT_RECV, pair.server);
    if (_i == 1)
        must(exs_mderegister(region, 0));
}
END_TEST

/* The buffer of a receive, registered or not, is unmapped before the data arrives. */
START_TEST(receive_taken_away)
{
    uint8_t *mapped = mmap(NULL, LARGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    exs_mhandle_t region = NULL;

    ck_assert_ptr_ne(mapped, MAP_FAILED);
    if (_i == 1)
        region = exs_mregister(mapped, LARGE, 0);
    must(exs_recv(pair.server, mapped, LARGE, MSG_WAITALL, pair.server_box->queue, NULL, region));
    must(munmap(mapped, LARGE));
    send_bytes(memory, LARGE);
    exs_event_t event = inbox_take(pair.server_box, EXS_EVT_RECV, pair.server);
    if (!on_rdma()) /* the adapter may have the advertised buffer's pages pinned */
        ck_assert_int_eq(event.exs_evt_errno, EFAULT);
    told("exs_recv on socket %d: its buffer, %d bytes at %p, was taken away before its event", pair.server,
         LARGE, (void *)mapped);
}
END_TEST

/* If the buffer never was mapped, the event's EFAULT suffices. */
START_TEST(receive_into_nothing)
{
    uint8_t *mapped = mmap(NULL, SMALL, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    ck_assert_ptr_ne(mapped, MAP_FAILED);
    must(munmap(mapped, SMALL));
    receive(pair.server, mapped, SMALL);
    send_bytes(memory, SMALL);
    exs_event_t event = inbox_take(pair.server_box, EXS_EVT_RECV, pair.server);
    ck_assert_int_eq(event.exs_evt_errno, EFAULT);
    told_nothing();
}
END_TEST

/* One-sided operations: exs_rwrite reads its buffer like a send, exs_rread writes to it like a receive. */
START_TEST(one_sided)
{
    exs_qhandle_t queue = pair.client_box->queue;
    uint8_t *there = new_buffer(LARGE);
    exs_mhandle_t region = exs_mregister(there, LARGE, EXS_MRF_SHARED);
    exs_token_t token;

    must(exs_mexport(pair.server, region, there, LARGE, EXS_REMOTE_READ | EXS_REMOTE_WRITE, &token));
    must(exs_rwrite(pair.client, memory, LARGE, &token, 0, 0, queue, NULL, NULL));
    receive(pair.client, memory, SMALL);
    told("exs_recv on socket %d: its buffer, %d bytes at %p, overlaps %d bytes at %p of exs_rwrite on socket "
         "%d, which has no event yet",
         pair.client, SMALL, (void *)memory, LARGE, (void *)memory, pair.client);
    must(exs_rread(pair.client, memory, 1, &token, 0, 0, queue, NULL, NULL));
    told("exs_rread on socket %d: its buffer, 1 bytes at %p, overlaps %d bytes at %p of exs_recv on socket %d, "
         "which has no event yet",
         pair.client, (void *)memory, SMALL, (void *)memory, pair.client);
    must(exs_rread(pair.client, memory + SMALL, 1, &token, 0, 0, queue, NULL, NULL));
    told("exs_rread on socket %d: its buffer, 1 bytes at %p, overlaps %d bytes at %p of exs_rwrite on socket "
         "%d, which has no event yet",
         pair.client, (void *)(memory + SMALL), LARGE, (void *)memory, pair.client);
}
END_TEST

/* ---- Overlapping buffers ----------------------------------------------------------------- */

START_TEST(two_receives)
{
    receive(pair.client, memory, SMALL);
    receive(pair.client, memory + SMALL, SMALL); /* adjacent */
    told_nothing();
    receive(pair.server, memory + 2 * SMALL - 1, SMALL);
    told("exs_recv on socket %d: its buffer, %d bytes at %p, overlaps %d bytes at %p of exs_recv on socket %d, "
         "which has no event yet",
         pair.server, SMALL, (void *)(memory + 2 * SMALL - 1), SMALL, (void *)(memory + SMALL), pair.client);
}
END_TEST

/* Until its event, an accept element belongs to the library, and so does the buffer for the peer's address. */
START_TEST(two_accepts)
{
    struct sockaddr_in6 peers[2];
    exs_acceptaddr_t elements[2] = {{.exs_addr = (struct sockaddr *)&peers[0], .exs_addrlen = sizeof(peers[0])},
                                    {.exs_addr = (struct sockaddr *)&peers[1],
                                     .exs_addrlen = sizeof(peers[1])}},
                     other = {.exs_addr = (struct sockaddr *)&peers[1], .exs_addrlen = sizeof(peers[1])};
    exs_qhandle_t queue = pair.server_box->queue;

    must(exs_accept(pair.listener, elements, 2, 0, queue));
    told_nothing();
    must(exs_accept(pair.listener, &elements[1], 1, 0, queue));
    told("exs_accept on socket %d: its buffer, %zu bytes at %p, overlaps %zu bytes at %p of exs_accept on "
         "socket %d, which has no event yet",
         pair.listener, sizeof(elements[1]), (void *)&elements[1], sizeof(elements[1]), (void *)&elements[1],
         pair.listener);
    must(exs_accept(pair.listener, &other, 1, 0, queue));
    told("exs_accept on socket %d: its buffer, %zu bytes at %p, overlaps %zu bytes at %p of exs_accept on "
         "socket %d, which has no event yet",
         pair.listener, sizeof(peers[1]), (void *)&peers[1], sizeof(peers[1]), (void *)&peers[1],
         pair.listener);
    ck_assert_int_eq(exs_cancel(pair.listener, NULL, 0), 4);
    for (int i = 0; i < 4; i++)
        take_failed(pair.server_box, EXS_EVT_ACCEPT, pair.listener, ECANCELED);
    must(exs_accept(pair.listener, elements, 2, 0, queue));
    told_nothing();
}
END_TEST

/* Ranges of a file do not overlap memory, whatever their offsets. */
START_TEST(two_ranges_of_a_file)
{
    FILE *file = tmpfile();
    exs_xferfile_t range = {.exs_xfv_type = EXS_FDVEC};

    ck_assert_ptr_nonnull(file);
    for (int i = 1; i <= 2; i++) {
        range.exs_xfv.exs_fdv =
            (exs_fdvec_t){.exs_fildes = fileno(file), .exs_offset = i * SMALL, .exs_length = SMALL};
        must(exs_recvfile(pair.server, &range, 1, 0, pair.server_box->queue, NULL));
    }
    told_nothing();
}
END_TEST

START_TEST(receive_into_what_is_sent)
{
    send_bytes(memory, LARGE);
    send_bytes(memory + 1, SMALL); /* both only read the buffer */
    told_nothing();
    receive(pair.client, memory + LARGE - 1, SMALL);
    told("exs_recv on socket %d: its buffer, %d bytes at %p, overlaps %d bytes at %p of exs_send on socket %d, "
         "which has no event yet",
         pair.client, SMALL, (void *)(memory + LARGE - 1), LARGE, (void *)memory, pair.client);
}
END_TEST

START_TEST(send_what_is_filled)
{
    exs_iovec_t pieces[] = {{.exs_base = memory, .exs_length = SMALL},
                            {.exs_base = memory + 2 * SMALL, .exs_length = SMALL}};
    exs_msghdr_t message = {.exs_iov = pieces, .exs_iovlen = 2};

    must(exs_recvmsg(pair.server, &message, 0, pair.server_box->queue, NULL));
    send_bytes(memory + SMALL, SMALL); /* between the segments */
    take_good(pair.client_box, EXS_EVT_SEND, pair.client);
    take_good(pair.server_box, EXS_EVT_RECVMSG, pair.server);
    send_bytes(memory, SMALL); /* the buffer belongs to the application again */
    take_good(pair.client_box, EXS_EVT_SEND, pair.client);
    told_nothing();
    must(exs_recvmsg(pair.client, &message, 0, pair.client_box->queue, NULL));
    send_bytes(memory + 3 * SMALL - 1, SMALL);
    told("exs_send on socket %d: its buffer, %d bytes at %p, overlaps %d bytes at %p of exs_recvmsg on socket "
         "%d, which has no event yet",
         pair.client, SMALL, (void *)(memory + 3 * SMALL - 1), SMALL, (void *)(memory + 2 * SMALL),
         pair.client);
}
END_TEST

/* ---- Handles and sockets after their end ------------------------------------------------- */

START_TEST(queue_that_is_gone)
{
    exs_qhandle_t gone = exs_qcreate(1), other;
    exs_event_t event;
    exs_qstatus_t status;

    must(exs_qdelete(gone));
    must_fail(exs_recv(pair.client, memory, 1, 0, gone, NULL, NULL), EINVAL);
    told("exs_recv: qhandle %p is gone: exs_qdelete was called for it before", gone);
    other = exs_qcreate(1); /* in the same slot of the handle table */
    must_fail(exs_qdequeue(gone, &event, 1, NULL), EINVAL);
    told("exs_qdequeue: qhandle %p is gone: exs_qdelete was called for it before", gone);
    must_fail(exs_qdelete(gone), EINVAL);
    told("exs_qdelete: qhandle %p is gone: exs_qdelete was called for it before", gone);
    must_fail(exs_qstatus(gone, &status), EINVAL);
    told("exs_qstatus: qhandle %p is gone: exs_qdelete was called for it before", gone);
    must(exs_qdelete(other));
    for (uintptr_t next = 1; next <= 2; next++) /* handles that were never returned */
        must_fail(exs_qfd((exs_qhandle_t)((uintptr_t)other + (next << 20))), EINVAL);
    must_fail(exs_qfd((exs_qhandle_t)memory), EINVAL);
    told_nothing();
}
END_TEST

/* A queue of the parent: the child has not deleted it, but can't use it either. */
START_TEST(queue_of_the_parent)
{
    exs_qhandle_t queue = pair.client_box->queue;
    exs_mhandle_t region = exs_mregister(memory, SMALL, 0);
    pid_t child = fork();

    if (child == 0) {
        must(setenv("EXS_DEVICE", "soft", 1)); /* a child can't use its parent's adapter */
        must(exs_init(EXS_VERSION));
        must_fail(exs_qfd(queue), EINVAL);
        told("exs_qfd: qhandle %p belongs to the process that forked", queue);
        must_fail(exs_mderegister(region, 0), EINVAL);
        told("exs_mderegister: mhandle %p belongs to the process that forked", region);
        exs_qhandle_t own = exs_qcreate(1);
        must(exs_qdelete(own));
        must_fail(exs_qfd(own), EINVAL);
        told("exs_qfd: qhandle %p is gone: exs_qdelete was called for it before", own);
        _exit(0);
    }
    process_join(child);
}
END_TEST

START_TEST(memory_that_is_gone)
{
    exs_mhandle_t gone = exs_mregister(memory, SMALL, 0);

    must(exs_mderegister(gone, 0));
    must_fail(exs_send(pair.client, memory, 1, 0, pair.client_box->queue, NULL, gone), EINVAL);
    told("exs_send: mhandle %p is gone: exs_mderegister was called for it before", gone);
    must_fail(exs_mderegister(gone, 0), EINVAL);
    told("exs_mderegister: mhandle %p is gone: exs_mderegister was called for it before", gone);
    must_fail(exs_mderegister((exs_mhandle_t)memory, 0), EINVAL);
    told_nothing();
}
END_TEST

START_TEST(socket_that_is_gone)
{
    int gone = exs_socket(PF_INET, SOCK_STREAM, 0);

    must(exs_close(gone, 0, NULL, NULL));
    must_fail(exs_listen(gone, 1), EBADF);
    told("exs_listen: socket %d is gone: exs_close was called for it before", gone);
    must_fail(exs_recv(gone, memory, 1, 0, pair.client_box->queue, NULL, NULL), EBADF);
    told("exs_recv: socket %d is gone: exs_close was called for it before", gone);
    must_fail(exs_connect_host(gone, "::1", "1", 0, NULL, pair.client_box->queue, NULL), EBADF);
    told("exs_connect_host: socket %d is gone: exs_close was called for it before", gone);
    must_fail(exs_close(gone, 0, NULL, NULL), EBADF);
    told("exs_close: socket %d is gone: exs_close was called for it before", gone);
    must_fail(exs_getpeername(gone, (struct sockaddr *)memory, &(socklen_t){LARGE}), EBADF);
    told("exs_getpeername: socket %d is gone: exs_close was called for it before", gone);
    must_fail(exs_getsockname(gone, (struct sockaddr *)memory, &(socklen_t){LARGE}), EBADF);
    told("exs_getsockname: socket %d is gone: exs_close was called for it before", gone);
    must_fail(exs_cancel(gone, NULL, EXS_CANCEL_ALL), EBADF);
    told("exs_cancel: socket %d is gone: exs_close was called for it before", gone);
    must_fail(exs_listen(fileno(said), 1), EBADF); /* never was a socket */
    told_nothing();
    for (int other = -1; other != gone;) /* the number is reused: the library can't detect the misuse */
        must(other = exs_socket(PF_INET, SOCK_STREAM, 0));
    must(exs_fcntl(gone, F_GETFL));
    told_nothing();
}
END_TEST

/* ---- Events that are not dequeued -------------------------------------------------------- */

/* Waits for the library's line. */
static void wait_for_word(void)
{
    char line[512];
    double end = seconds_now() + 30 * LATE_S;

    do {
        rewind(said);
        ck_assert_msg(seconds_now() < end, "nothing was said");
        must(poll(NULL, 0, 100));
    } while (!next_line(line));
}

/* No thread has polled the descriptor. Another queue's descriptor that is readable, but not because of an event, is not
 * reported. */
START_TEST(descriptor_left_readable)
{
    exs_acceptaddr_t element = {0};
    static struct pair other; /* not closed */

    pair_open(&other, AF_INET, SOCK_STREAM);
    must(exs_accept(other.listener, &element, 1, 0, other.server_box->queue));
    ck_assert_int_eq(exs_write(other.client, memory, 1), 1);
    must(exs_qdelete(exs_qcreate(1)));       /* no thread polls it */
    receive(pair.client, memory + SMALL, 1); /* older, on another queue, and without an event */
    receive(pair.server, memory, 1);
    double start = seconds_now();

    ck_assert_int_eq(exs_write(pair.client, memory + 1, 1), 1);
    wait_for_word();
    ck_assert_double_ge(seconds_now() - start, 5);
    told("exs_recv on socket %d: its event has waited on queue %p for 5 s: call exs_qdequeue", pair.server,
         pair.server_box->queue);
    must(poll(NULL, 0, 1500)); /* the next check, a second later, reports nothing about the other queue */
    told_nothing();
    take_good(pair.server_box, EXS_EVT_RECV, pair.server);
}
END_TEST

/* One of two events was dequeued. */
START_TEST(event_left_on_its_queue)
{
    exs_event_t event;
    int fresh = exs_socket(PF_INET, SOCK_STREAM, 0);

    must(fresh);
    receive(pair.server, memory, 1);
    receive(pair.server, memory + 1, 1);
    double start = seconds_now();

    ck_assert_int_eq(exs_write(pair.client, memory + 2, 2), 2);
    ck_assert_int_eq(exs_qdequeue(pair.server_box->queue, &event, 1, NULL), 1);
    must(exs_close(fresh, 0, pair.server_box->queue, NULL));
    wait_for_word();
    ck_assert_double_ge(seconds_now() - start, 4); /* the library checks once a second */
    told("exs_recv on socket %d: its event has waited on queue %p for 5 s: call exs_qdequeue", pair.server,
         pair.server_box->queue);
    must(poll(NULL, 0, 1500)); /* the next check does not report the event again */
    told_nothing();
    take_good(pair.server_box, EXS_EVT_RECV, pair.server);
    take_good(pair.server_box, EXS_EVT_CLOSE, fresh);
}
END_TEST

/* ---- On and off -------------------------------------------------------------------------- */

START_TEST(off)
{
    exs_qhandle_t gone = exs_qcreate(1);

    must(exs_qdelete(gone));
    must_fail(exs_qfd(gone), EINVAL);
    receive(pair.client, memory, SMALL);
    receive(pair.client, memory, SMALL);
    send_bytes(memory + SMALL, LARGE - SMALL);
    memory[SMALL] ^= 1;
    take_bytes(LARGE - SMALL);
    take_good(pair.client_box, EXS_EVT_SEND, pair.client);
    told_nothing();
}
END_TEST

/* A thread that was joined may be listed in /proc a little longer. */
static void threads_are(int count)
{
    double end = seconds_now() + 10 * LATE_S;

    while (count_threads() != count) {
        ck_assert_double_lt(seconds_now(), end);
        must(poll(NULL, 0, 1));
    }
}

/* The check's thread and descriptor exist from exs_init to exs_fini. */
START_TEST(begins_and_ends)
{
    int before = count_threads(), descriptors;

    must(setenv("EXS_CHECK", "1", 1));
    init_library();
    must(exs_fini());
    threads_are(before);
    descriptors = count_fds();
    init_library();
    ck_assert_int_gt(count_threads(), before);
    must(exs_fini());
    threads_are(before);
    ck_assert_int_eq(count_fds(), descriptors);
    must(setenv("EXS_CHECK", "", 1));
    init_library();
    ck_assert_int_eq(count_threads(), before);
}
END_TEST

START_TEST(ends_the_process)
{
    exs_qhandle_t gone;

    must(setenv("EXS_CHECK", "abort", 1));
    init_library();
    gone = exs_qcreate(1);
    must(exs_qdelete(gone));
    exs_qfd(gone);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("check");
    TCase *streams = add_bare_case(suite, "streams", 20), *packets = add_bare_case(suite, "packets", 20);
    TCase *waits = add_bare_case(suite, "events", 60), *unset = add_bare_case(suite, "not set", 20);
    TCase *settings = add_bare_case(suite, "settings", 20);

    tcase_add_checked_fixture(streams, checked_stream, NULL);
    tcase_add_test(streams, changed);
    tcase_add_test(streams, changed_message);
    tcase_add_test(streams, changed_between_files);
    tcase_add_loop_test(streams, long_taken_away, 0, 2);
    tcase_add_loop_test(streams, receive_taken_away, 0, 2);
    tcase_add_test(streams, receive_into_nothing);
    tcase_add_test(streams, one_sided);
    tcase_add_test(streams, two_receives);
    tcase_add_test(streams, two_accepts);
    tcase_add_test(streams, two_ranges_of_a_file);
    tcase_add_test(streams, receive_into_what_is_sent);
    tcase_add_test(streams, send_what_is_filled);
    tcase_add_test(streams, queue_that_is_gone);
    tcase_add_test(streams, queue_of_the_parent);
    tcase_add_test(streams, memory_that_is_gone);
    tcase_add_test(streams, socket_that_is_gone);
    tcase_add_checked_fixture(packets, checked_packets, NULL);
    tcase_add_test(packets, taken_away);
    tcase_add_checked_fixture(waits, checked_stream, NULL);
    tcase_add_test(waits, descriptor_left_readable);
    tcase_add_test(waits, event_left_on_its_queue);
    tcase_add_checked_fixture(unset, unchecked, NULL);
    tcase_add_test(unset, off);
    tcase_add_test(settings, begins_and_ends);
    tcase_add_test_raise_signal(settings, ends_the_process, SIGABRT);
    return run_suite(suite);
}
