/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * test_tcp_hold.c - packets that the TCP link holds back while the thread that posts them handles events: the first one
 * of each connection is sent at once, the others together, when the thread polls or stops polling, or when the service
 * thread runs.
 */
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <netinet/in.h>
#include <unistd.h>
#include "check/support/endpoints.h"
#include "check/support/streamed.h"
#include "soft/verbs/verbs.h"

enum { SHORT = 100, FRAME = TCP_FRAME_HEADER + ROCE_BTH + SHORT, MANY = 10, WAIT_MS = 10000 };

static struct streamed device;
static int far; /* the test's end of the connection */

static struct ibv_context *context(void)
{
    return device.service.context;
}

static void set_polls_again(bool polls_again)
{
    atomic_store(&soft_poll_state(context())->polls_again, polls_again);
}

static void setup(void)
{
    struct sockaddr_in any = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t length = sizeof any;
    int listener = socket(AF_INET, SOCK_STREAM, 0), near;

    ck_assert_int_eq(bind(listener, (struct sockaddr *)&any, sizeof any), 0);
    ck_assert_int_eq(listen(listener, 1), 0);
    ck_assert_int_eq(getsockname(listener, (struct sockaddr *)&any, &length), 0);
    far = socket(AF_INET, SOCK_STREAM, 0);
    ck_assert_int_eq(connect(far, (struct sockaddr *)&any, sizeof any), 0);
    near = accept4(listener, NULL, NULL, SOCK_NONBLOCK);
    ck_assert_int_ge(near, 0);
    close(listener);
    device = (struct streamed){.memory = NULL};
    streamed_open(&device, near);
    set_polls_again(true);
}

static void teardown(void)
{
    streamed_close(&device);
    close(far);
}

/* Unlike streamed_run() this does not poll. */
static void post_short(void)
{
    streamed_post(&device, IBV_WR_SEND, 0, SHORT);
}

/* The bytes that the device has written to the socket and the test has not read. The network is the loopback interface,
 * on which send(2) delivers before it returns, unless the kernel defers that to another thread. */
static int sent_bytes(int at_least)
{
    struct pollfd poller = {.fd = far, .events = POLLIN};
    int bytes = 0;

    for (int waited = 0; bytes < at_least && waited < WAIT_MS; waited++) {
        ck_assert_int_ge(poll(&poller, 1, bytes == 0), 0);
        ck_assert_int_eq(ioctl(far, FIONREAD, &bytes), 0);
    }
    return bytes;
}

static void expect_packets(int sent, int held)
{
    ck_assert_int_eq(sent_bytes(sent * FRAME), sent * FRAME);
    ck_assert_uint_eq(device.peer->out.end - device.peer->out.sent, (size_t)held * FRAME);
    if (held > 0)
        ck_assert(atomic_load(&soft_poll_state(context())->flush_wanted));
}

/* Posts one packet that is sent and MANY that are held back. */
static void post_batch(void)
{
    for (int i = 0; i <= MANY; i++)
        post_short();
    expect_packets(1, MANY);
}

START_TEST(poll_sends)
{
    post_batch();
    ck_assert_int_eq(streamed_poll(&device), -1);
    expect_packets(1 + MANY, 0);
}
END_TEST

/* After a poll the first packet is sent at once again. */
START_TEST(each_batch_begins_at_once)
{
    post_batch();
    ck_assert_int_eq(streamed_poll(&device), -1);
    post_short();
    expect_packets(2 + MANY, 0);
    post_short();
    expect_packets(2 + MANY, 1);
    ck_assert_int_eq(streamed_poll(&device), -1);
    expect_packets(3 + MANY, 0);
}
END_TEST

START_TEST(thread_stops_polling)
{
    post_batch();
    soft_stop_polling(context(), true);
    expect_packets(1 + MANY, 0);
}
END_TEST

/* As the service thread does: it runs a step as soon as soft_deadline() says that one is due. */
START_TEST(service_thread_sends)
{
    soft_lock(context());
    ck_assert_uint_gt(soft_deadline(context()), 0);
    soft_unlock(context());
    post_batch();
    soft_lock(context());
    ck_assert_uint_eq(soft_deadline(context()), 0);
    soft_progress(context());
    ck_assert_uint_gt(soft_deadline(context()), 0);
    soft_unlock(context());
    expect_packets(1 + MANY, 0);
}
END_TEST

/* A thread that does not poll again posts: it sends what another thread has posted, too. */
START_TEST(other_thread_posts)
{
    post_batch();
    set_polls_again(false);
    post_short();
    expect_packets(2 + MANY, 0);
}
END_TEST

/* Long payload is not held back beyond TCP_FLUSH_BYTES. */
START_TEST(long_payload)
{
    int frame = TCP_FRAME_HEADER + ROCE_BTH + TCP_FLUSH_BYTES / 2;

    for (int i = 0; i < 3; i++)
        streamed_post(&device, IBV_WR_SEND, 0, TCP_FLUSH_BYTES / 2);
    ck_assert_int_eq(sent_bytes(3 * frame), 3 * frame);
}
END_TEST

START_TEST(queue_pair_is_destroyed)
{
    post_batch();
    tcp_peer_disconnect(device.peer);
    ck_assert_int_eq(sent_bytes((1 + MANY) * FRAME + TCP_FRAME_HEADER), (1 + MANY) * FRAME + TCP_FRAME_HEADER);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("tcp link: packets that are held back");
    TCase *tcase = new_case(suite, "held back");

    tcase_add_checked_fixture(tcase, setup, teardown);
    tcase_set_timeout(tcase, 60);
    tcase_add_test(tcase, poll_sends);
    tcase_add_test(tcase, each_batch_begins_at_once);
    tcase_add_test(tcase, thread_stops_polling);
    tcase_add_test(tcase, service_thread_sends);
    tcase_add_test(tcase, other_thread_posts);
    tcase_add_test(tcase, long_payload);
    tcase_add_test(tcase, queue_pair_is_destroyed);
    return run_suite(suite);
}
