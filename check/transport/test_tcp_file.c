/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * test_tcp_file.c - file regions on the TCP link, which sends them with sendfile(2): while the peer does not read, when
 * the file changes or is truncated, the region is deregistered, or the peer resets the connection.
 */
#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <netinet/in.h>
#include <unistd.h>
#include "check/support/endpoints.h"
#include "check/support/streamed.h"
#include "core/base/bytes.h"

enum { BEFORE = 4099, PACKETS = 12, MOMENT_MS = 10, MOMENTS = 1000, SMALL_BUFFER = 16384 };

#define LENGTH ((size_t)PACKETS * TCP_MTU)
#define FRAME (TCP_FRAME_HEADER + ROCE_BTH + TCP_MTU)

static struct streamed device;
static struct ibv_mr *region; /* LENGTH bytes of the file, from offset BEFORE */
static uint8_t bytes[LENGTH], got[PACKETS * FRAME + 1];
static int file, far; /* far: the test's end of the connection */

static void connect_far(int listener)
{
    struct sockaddr_in any = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t length = sizeof any;
    int size = SMALL_BUFFER;

    ck_assert_int_eq(bind(listener, (struct sockaddr *)&any, sizeof any), 0);
    ck_assert_int_eq(listen(listener, 1), 0);
    ck_assert_int_eq(getsockname(listener, (struct sockaddr *)&any, &length), 0);
    far = socket(AF_INET, SOCK_STREAM, 0);
    ck_assert_int_eq(setsockopt(far, SOL_SOCKET, SO_RCVBUF, &size, sizeof size), 0);
    ck_assert_int_eq(connect(far, (struct sockaddr *)&any, sizeof any), 0);
}

static void setup(void)
{
    int listener = socket(AF_INET, SOCK_STREAM, 0), near, size = SMALL_BUFFER;

    connect_far(listener);
    near = accept4(listener, NULL, NULL, SOCK_NONBLOCK);
    ck_assert_int_ge(near, 0);
    close(listener);
    ck_assert_int_eq(setsockopt(near, SOL_SOCKET, SO_SNDBUF, &size, sizeof size), 0);
    device = (struct streamed){.memory = NULL};
    streamed_open(&device, near);
    file = memfd_create("payload", MFD_CLOEXEC);
    fill(bytes, LENGTH, 3);
    ck_assert_int_eq(pwrite(file, bytes, LENGTH, BEFORE), (ssize_t)LENGTH);
    region = soft_reg_file(device.pd, file, BEFORE, LENGTH);
    ck_assert_ptr_nonnull(region);
}

static void teardown(void)
{
    if (region != NULL)
        ck_assert_int_eq(soft_dereg_mr(region), 0);
    streamed_close(&device);
    close(file);
    if (far != -1)
        close(far);
}

static void post_all(void)
{
    struct ibv_sge sge = {0, (uint32_t)LENGTH, region->lkey};
    struct ibv_send_wr wr = {
        .opcode = IBV_WR_SEND, .send_flags = IBV_SEND_SIGNALED, .sg_list = &sge, .num_sge = 1};
    struct ibv_send_wr *bad;

    ck_assert_int_eq(ibv_post_send(device.qp, &wr, &bad), 0);
    streamed_run(&device);
}

/* Posts more than the sockets hold: a part waits in the link. */
static void post_file(void)
{
    post_all();
    ck_assert(device.peer->blocked && !LIST_EMPTY(&device.tcp.gathering));
}

/* Reads `wanted` bytes that the device sends, or all until the end of the stream. Returns their number. */
static size_t hear(size_t wanted)
{
    size_t length = 0;

    for (int moment = 0; moment < MOMENTS && length < wanted; moment++) {
        ssize_t more = recv(far, got + length, sizeof got - length, MSG_DONTWAIT);
        struct pollfd poller = {.fd = far, .events = POLLIN};

        if (more == 0)
            break;
        if (more > 0) {
            length += (size_t)more;
            moment = 0;
        } else {
            ck_assert_int_ge(poll(&poller, 1, MOMENT_MS), 0);
        }
        streamed_run(&device);
    }
    return length;
}

/* All frames have arrived, with the file's bytes. */
static void expect_file(void)
{
    ck_assert_uint_eq(hear(PACKETS * FRAME), PACKETS * FRAME);
    for (size_t packet = 0; packet < PACKETS; packet++) {
        const uint8_t *frame = got + packet * FRAME;

        ck_assert_uint_eq(get32(frame), UINT32_C(1) << 24 | (FRAME - TCP_FRAME_HEADER));
        ck_assert_mem_eq(frame + TCP_FRAME_HEADER + ROCE_BTH, bytes + packet * TCP_MTU, TCP_MTU);
    }
    ck_assert_int_eq(streamed_state(&device), IBV_QPS_RTS);
}

START_TEST(file_arrives)
{
    post_file();
    expect_file();
    ck_assert(!device.peer->blocked && LIST_EMPTY(&device.tcp.gathering));
}
END_TEST

/* The link reads the rest of the packets in its buffer before the application may close the file. What it has not built
 * yet fails. */
START_TEST(region_is_deregistered)
{
    size_t built;

    post_file();
    built = device.peer->out
                .end; /* the sockets hold only a part, so the buffer still starts with the first frame */
    ck_assert_int_eq(soft_dereg_mr(region), 0);
    region = NULL;
    ck_assert(device.peer->blocked && LIST_EMPTY(&device.tcp.gathering));
    ck_assert_int_eq(ftruncate(file, 0), 0);
    ck_assert_uint_eq(hear(built), built);
    ck_assert_uint_eq(built % FRAME, 0);
    for (size_t at = 0; at < built; at += FRAME)
        ck_assert_mem_eq(got + at + TCP_FRAME_HEADER + ROCE_BTH, bytes + at / FRAME * TCP_MTU, TCP_MTU);
    ck_assert_int_eq(streamed_poll(&device), IBV_WC_LOC_PROT_ERR);
}
END_TEST

/* The frame's header has left, so the stream ends within the frame, and the request fails. */
START_TEST(file_becomes_shorter)
{
    size_t length;

    post_file();
    ck_assert_int_eq(ftruncate(file, 0), 0);
    length = hear(PACKETS * FRAME);
    ck_assert_uint_gt(length % FRAME, 0);
    ck_assert_int_eq(streamed_poll(&device), IBV_WC_LOC_PROT_ERR);
    ck_assert_int_eq(streamed_state(&device), IBV_QPS_ERR);
}
END_TEST

/* sendfile(2) would raise SIGPIPE, which ends the process by default. It does so once the socket's error has been read. */
START_TEST(peer_resets)
{
    struct linger at_once = {.l_onoff = 1};
    struct pollfd near = {.fd = device.peer->fd};
    int error;
    socklen_t size = sizeof error;

    post_file();
    ck_assert_int_eq(setsockopt(far, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once), 0);
    close(far);
    far = -1;
    ck_assert_int_eq(poll(&near, 1, MOMENTS * MOMENT_MS), 1);
    ck_assert_int_eq(getsockopt(near.fd, SOL_SOCKET, SO_ERROR, &error, &size), 0);
    ck_assert_int_eq(error, ECONNRESET);
    streamed_run(&device);
    ck_assert_int_eq(streamed_poll(&device), IBV_WC_WR_FLUSH_ERR);
    ck_assert_int_eq(streamed_state(&device), IBV_QPS_ERR);
}
END_TEST

/* The peer has closed its end, and answers the first bytes with a reset. sendfile(2) may then have sent a part, and
 * nevertheless raise SIGPIPE. */
START_TEST(peer_has_closed)
{
    struct pollfd near = {.fd = device.peer->fd, .events = POLLIN};
    int size = 8 * SMALL_BUFFER << _i % 4;

    ck_assert_int_eq(setsockopt(near.fd, SOL_SOCKET, SO_SNDBUF, &size, sizeof size), 0);
    close(far);
    far = -1;
    ck_assert_int_eq(poll(&near, 1, MOMENTS * MOMENT_MS), 1);
    post_all();
    for (int moment = 0; moment < MOMENTS && streamed_state(&device) != IBV_QPS_ERR; moment++) {
        (void)poll(&near, 1, MOMENT_MS);
        streamed_run(&device);
    }
    ck_assert_int_eq(streamed_poll(&device), IBV_WC_WR_FLUSH_ERR);
    ck_assert_int_eq(streamed_state(&device), IBV_QPS_ERR);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("tcp link: files");
    TCase *tcase = new_case(suite, "files");

    tcase_add_checked_fixture(tcase, setup, teardown);
    tcase_set_timeout(tcase, 60);
    tcase_add_test(tcase, file_arrives);
    tcase_add_test(tcase, region_is_deregistered);
    tcase_add_test(tcase, file_becomes_shorter);
    tcase_add_test(tcase, peer_resets);
    tcase_add_loop_test(tcase, peer_has_closed, 0, 16);
    return run_suite(suite);
}
