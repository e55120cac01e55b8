/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * test_tcp_link.c - the TCP link with a peer that splits frames, sends invalid ones, stalls, never reads or disappears:
 * only its own connection ends, and memory that the peer may not write is not written.
 */
#include <limits.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/syscall.h>
#include <unistd.h>
#include "check/support/endpoints.h"
#include "check/support/streamed.h"
#include "core/base/bytes.h"
#include "core/base/clock.h"
#include "soft/verbs/verbs.h"

enum {
    SEGMENT = TCP_MTU / STREAMED_SEGMENTS,
    SHORT = 100,
    LONG = 50001,
    ODD = 7,
    BIG = 1 << 20,
    MOMENT_MS = 10,
    MOMENTS = 1000
};

static struct streamed device;
static uint8_t payload[TCP_MTU], frame[STREAMED_FRAME], got[9 << 20];
static int far;                /* the test's end of the connection */
static uint32_t round_trip_us; /* reported as TCP_INFO's round-trip time; 0: the true one */

int getsockopt(int fd, int level, int option, void *value, socklen_t *length)
{
    long result = syscall(SYS_getsockopt, fd, level, option, value, length);

    if (result == 0 && level == IPPROTO_TCP && option == TCP_INFO && round_trip_us != 0)
        ((struct tcp_info *)value)->tcpi_rtt = round_trip_us;
    return (int)result;
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
    near = accept(listener, NULL, NULL);
    ck_assert_int_ge(near, 0);
    close(listener);
    for (size_t i = 0; i < sizeof payload; i++)
        payload[i] = (uint8_t)(i * 31 + 7);
    device = (struct streamed){.memory = NULL};
    streamed_open(&device, near);
}

static void teardown(void)
{
    streamed_close(&device);
    if (far != -1)
        close(far);
}

static void say(const void *bytes, size_t length)
{
    ck_assert_int_eq(send(far, bytes, length, MSG_NOSIGNAL), (ssize_t)length);
}

static size_t put(uint8_t opcode, uint32_t psn, size_t length, uint64_t at)
{
    struct roce roce = {.opcode = opcode,
                        .psn = psn,
                        .ackreq = true,
                        .va = (uintptr_t)device.memory + at,
                        .payload = payload,
                        .payload_length = length};

    return streamed_frame(&device, frame, &roce, 0);
}

/* Waits a moment, because the kernel may deliver or accept bytes with a delay. */
static void wait_for(int fd)
{
    struct pollfd poller = {.fd = fd, .events = POLLIN};

    ck_assert_int_ge(poll(&poller, 1, MOMENT_MS), 0);
}

/* Reads `wanted` bytes that the device sends, and expects no more. */
static void hear(size_t wanted)
{
    size_t length = 0;

    for (int moment = 0; moment < MOMENTS && length < wanted; moment++) {
        ssize_t more = recv(far, got + length, sizeof got - length, MSG_DONTWAIT);

        if (more > 0) {
            length += (size_t)more;
            moment = 0;
        } else {
            wait_for(far);
        }
        streamed_run(&device);
    }
    ck_assert_uint_eq(length, wanted);
    ck_assert_int_eq(recv(far, got + length, 1, MSG_DONTWAIT), -1);
}

static uint32_t expected(void)
{
    return roce_psn((uint32_t)soft_qp_of(device.qp)->resp.expected);
}

/* Runs the device until it expects this PSN. */
static void run_until(uint32_t psn)
{
    for (int moment = 0; moment < MOMENTS && expected() != psn; moment++) {
        streamed_run(&device);
        if (expected() != psn)
            wait_for(device.peer->fd);
    }
    ck_assert_uint_eq(expected(), psn);
}

static size_t frames(size_t packets, size_t payloads)
{
    return packets * (TCP_FRAME_HEADER + ROCE_BTH) + payloads;
}

/* The payloads of the packets in these frames are `wanted` bytes of this value in total. */
static void expect_payloads(size_t length, size_t wanted, uint8_t value)
{
    size_t found = 0;

    for (size_t at = 0; at < length;) {
        uint32_t body = get32(got + at) & 0xffffff;
        struct roce roce;

        ck_assert_uint_eq(got[at], TCP_FRAME_PACKET);
        ck_assert(roce_read(&roce, got + at + TCP_FRAME_HEADER, body));
        expect_byte(roce.payload, roce.payload_length, value);
        found += roce.payload_length;
        at += TCP_FRAME_HEADER + body;
    }
    ck_assert_uint_eq(found, wanted);
}

static void expect_broken(void)
{
    streamed_run(&device);
    ck_assert_int_eq(streamed_state(&device), IBV_QPS_ERR);
}

/* ---- Split frames ---- */

static const size_t lengths[] = {ODD, SHORT, LONG};

START_TEST(frames_come_byte_by_byte)
{
    size_t size = lengths[_i], length;

    streamed_receive(&device, 4096, LONG);
    length = put(SEND_ONLY, 0, size, 0);
    for (size_t i = 0; i < length; i++) {
        say(frame + i, 1);
        streamed_run(&device);
        ck_assert_int_eq(i + 1 < length - 3 ? streamed_poll(&device) : -1, -1);
    }
    run_until(1);
    ck_assert_int_eq(streamed_poll(&device), IBV_WC_SUCCESS);
    ck_assert_mem_eq(device.memory + 4096, payload, size);
    expect_byte(device.memory + 4096 + size, 4096, 0);
    ck_assert_int_eq(streamed_state(&device), IBV_QPS_RTS);
}
END_TEST

/* A long frame, split at each byte of its headers and its end, and at some others. */
START_TEST(frames_come_in_two_parts)
{
    size_t length = put(WRITE_ONLY, 0, LONG, 8192);

    for (size_t cut = 1; cut < length; cut += cut < 80 || cut > length - 80 ? 1 : 997) {
        uint32_t psn = expected();

        memset(device.memory + 8192, 0, LONG);
        length = put(WRITE_ONLY, psn, LONG, 8192);
        say(frame, cut);
        streamed_run(&device);
        say(frame + cut, length - cut);
        run_until(roce_psn(psn + 1));
        ck_assert_mem_eq(device.memory + 8192, payload, LONG);
    }
}
END_TEST

static unsigned activity(void)
{
    return atomic_load(&soft_poll_state(device.service.context)->activity);
}

/* A thread that busy-polls takes packets as a sign that more follow. A peer that stops within a payload, or sends it
 * slowly, must not make it poll for all that time. */
START_TEST(parts_are_no_activity)
{
    size_t length = put(WRITE_ONLY, 0, LONG, 8192), part = length / 8;
    unsigned before = activity();

    for (size_t at = 0; at < 7 * part; at += part) {
        say(frame + at, part);
        wait_for(device.peer->fd);
        for (int i = 0; i < 3; i++)
            ck_assert_int_eq(streamed_poll(&device), -1);
        ck_assert_uint_eq(activity(), before);
    }
    say(frame + 7 * part, length - 7 * part);
    wait_for(device.peer->fd);
    ck_assert_int_eq(streamed_poll(&device), -1);
    ck_assert_uint_eq(activity(), before + 1);
    ck_assert_uint_eq(expected(), 1);
}
END_TEST

/* The longest packet that the link sends can be received, too. */
START_TEST(longest_packet)
{
    size_t length = put(WRITE_ONLY, 0, TCP_MTU, 8192);

    for (size_t at = 0; at < length; at += 50000) {
        say(frame + at, length - at < 50000 ? length - at : 50000);
        streamed_run(&device);
    }
    run_until(1);
    ck_assert_mem_eq(device.memory + 8192, payload, TCP_MTU);
    expect_byte(device.memory + 8192 + TCP_MTU, 4096, 0);
    ck_assert_int_eq(streamed_state(&device), IBV_QPS_RTS);
}
END_TEST

/* ---- Invalid frames ---- */

static const struct {
    uint32_t first, ack;
} headers[] = {
    {0, 0}, /* types that do not exist */
    {0x03000010, 0},
    {0xff000010, 0},          /**/
    {0x0100000b, 0},          /* too short for a BTH */
    {0x01040030, 0},          /* longer than any packet */
    {0x01ffffff, 0},          /**/
    {0x02000001, 0},          /* a DREQ has no body */
    {0x01000010, 0x00000001}, /* a PSN without the flag */
    {0x01000010, 0x40000001},
    {0x01000010, 0xff000001},
    {0x20474554, 0x48545450},
};

START_TEST(headers_that_lie)
{
    uint8_t header[TCP_FRAME_HEADER];

    put32(header, headers[_i].first);
    put32(header + 4, headers[_i].ack);
    streamed_receive(&device, 0, LONG);
    say(header, sizeof header);
    expect_broken();
    ck_assert_int_eq(streamed_poll(&device), IBV_WC_WR_FLUSH_ERR);
    ck_assert_int_eq(recv(far, got, 1, 0), 0); /* the device has closed the connection */
}
END_TEST

/* A long packet that may not be written does not desynchronize the stream: the NAK says why. */
START_TEST(long_writes_that_are_refused)
{
    struct roce roce = {.opcode = WRITE_ONLY,
                        .va = (uintptr_t)device.memory + (_i == 0 ? 0 : STREAMED_MEMORY - LONG + 1),
                        .rkey = _i == 0 ? GHOST_RKEY : 0,
                        .payload = payload,
                        .payload_length = LONG};
    size_t length = streamed_frame(&device, frame, &roce, 0);
    struct roce answer;

    for (size_t at = 0; at < length; at += 10000) {
        say(frame + at, length - at < 10000 ? length - at : 10000);
        streamed_run(&device);
    }
    hear(frames(1, ROCE_AETH));
    ck_assert(roce_read(&answer, got + TCP_FRAME_HEADER, ROCE_BTH + ROCE_AETH));
    ck_assert_int_eq(answer.syndrome, SYNDROME_ACCESS);
    expect_byte(device.memory, STREAMED_MEMORY, 0);
    ck_assert(!device.peer->failed);
}
END_TEST

/* The region is deregistered while a payload arrives: nothing more is written there. */
START_TEST(region_goes_within_a_payload)
{
    size_t length = put(WRITE_ONLY, 0, LONG, 0);
    uint8_t *before;

    say(frame, 20000);
    streamed_run(&device);
    ck_assert_mem_eq(device.memory, payload, 10000);
    before = malloc(LONG);
    memcpy(before, device.memory, LONG);
    ck_assert_int_eq(soft_dereg_mr(device.mr), 0);
    device.mr = NULL;
    say(frame + 20000, length - 20000);
    streamed_run(&device);
    ck_assert_mem_eq(device.memory, before, LONG);
    hear(frames(1, ROCE_AETH));
    free(before);
}
END_TEST

/* No receive is posted for a long message: the peer gets an RNR NAK, and sends the message again. */
START_TEST(long_message_without_a_receive)
{
    struct roce answer;

    say(frame, put(SEND_ONLY, 0, LONG, 0));
    streamed_run(&device);
    hear(frames(1, ROCE_AETH));
    ck_assert(roce_read(&answer, got + TCP_FRAME_HEADER, ROCE_BTH + ROCE_AETH));
    ck_assert_int_eq(answer.syndrome & 0xe0, SYNDROME_RNR);
    streamed_receive(&device, 0, LONG);
    say(frame, put(SEND_ONLY, 0, LONG, 0));
    run_until(1);
    ck_assert_int_eq(streamed_poll(&device), IBV_WC_SUCCESS);
    ck_assert_mem_eq(device.memory, payload, LONG);
}
END_TEST

/* A connection carries only the packets of its own queue pair; datagrams for other queue pairs of the context are
 * refused. */
START_TEST(packets_for_others)
{
    struct ibv_qp_init_attr init = {
        .send_cq = device.cq,
        .recv_cq = device.cq,
        .qp_type = IBV_QPT_UD,
        .cap = {.max_send_wr = 1, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1}};
    struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT, .port_num = 1, .qkey = 1};
    struct ibv_qp *ud = soft_create_qp(device.pd, &init);
    struct roce roce = {.opcode = ROCE_UD | SEND_ONLY, .qkey = 1, .payload = payload, .payload_length = 4096};
    struct soft_counters counters;

    ck_assert_ptr_nonnull(ud);
    ck_assert_int_eq(soft_modify_qp(ud, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY),
                     0);
    attr.qp_state = IBV_QPS_RTR;
    ck_assert_int_eq(soft_modify_qp(ud, &attr, IBV_QP_STATE), 0);
    roce.qpn = ud->qp_num;
    say(frame, streamed_frame(&device, frame, &roce, 0));
    streamed_run(&device);
    roce.qpn = SOFT_GROUP_QPN;
    say(frame, streamed_frame(&device, frame, &roce, 0));
    streamed_run(&device);
    soft_query_counters(device.service.context, &counters);
    ck_assert_uint_eq(counters.refused, 1);
    ck_assert_uint_eq(counters.malformed, 1);
    ck_assert_int_eq(soft_destroy_qp(ud), 0);
}
END_TEST

/* ---- How a stream ends ---- */

START_TEST(stream_ends_within_a_frame)
{
    streamed_receive(&device, 0, LONG);
    say(frame, put(SEND_ONLY, 0, LONG, 0) / 2);
    streamed_run(&device);
    ck_assert_int_eq(streamed_state(&device), IBV_QPS_RTS);
    shutdown(far, SHUT_WR);
    expect_broken();
    ck_assert_int_eq(streamed_poll(&device), IBV_WC_WR_FLUSH_ERR);
}
END_TEST

START_TEST(reset_breaks_the_queue_pair)
{
    struct linger at_once = {.l_onoff = 1, .l_linger = 0};

    streamed_post(&device, IBV_WR_SEND, 0, SHORT);
    streamed_run(&device);
    ck_assert_int_eq(setsockopt(far, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once), 0);
    close(far);
    far = -1;
    expect_broken();
    ck_assert_int_eq(streamed_poll(&device), IBV_WC_WR_FLUSH_ERR);
}
END_TEST

/* A peer that acknowledges nothing: the connection survives an outage of 8 s, but not for ever; the application may set
 * another time. */
static const struct {
    uint64_t patience, least, most; /* s; patience 0: the default */
} outages[] = {{0, 8, 40}, {2, 2, 6}, {25, 25, 55}};

START_TEST(silent_peer)
{
    uint64_t begun = device.now;

    if (outages[_i].patience != 0)
        tcp_peer_wait(device.peer, outages[_i].patience * NS_PER_S);
    streamed_post(&device, IBV_WR_SEND, 0, SHORT);
    while (streamed_state(&device) == IBV_QPS_RTS && device.now < begun + 60 * NS_PER_S) {
        streamed_run(&device);
        soft_lock(device.service.context);
        (void)soft_deadline(device.service.context); /* as the service thread does */
        soft_unlock(device.service.context);
        device.now += NS_PER_S / 20;
    }
    ck_assert_uint_gt(device.now - begun, outages[_i].least * NS_PER_S);
    ck_assert_uint_lt(device.now - begun, outages[_i].most * NS_PER_S);
    ck_assert_int_eq(streamed_poll(&device), IBV_WC_RETRY_EXC_ERR);
}
END_TEST

/* Frames behind a DREQ are not read, and the queue pair stays in its state. */
START_TEST(frames_behind_a_dreq)
{
    static const uint8_t dreq[TCP_FRAME_HEADER] = {TCP_FRAME_DREQ};

    say(frame, put(WRITE_ONLY, 0, SHORT, 0));
    say(dreq, sizeof dreq);
    say(frame, put(WRITE_ONLY, 1, SHORT, 8192));
    shutdown(far, SHUT_WR);
    streamed_run(&device);
    ck_assert_mem_eq(device.memory, payload, SHORT);
    expect_byte(device.memory + 8192, SHORT, 0);
    ck_assert_int_eq(streamed_state(&device), IBV_QPS_RTS);
}
END_TEST

/* ---- A peer that does not read ---- */

/* Posts more than the sockets hold, all bytes `value`; a part is not sent yet. */
static void post_until_full(uint8_t value)
{
    memset(device.memory, value, STREAMED_MEMORY);
    for (int i = 0; i < 8; i++)
        streamed_post(&device, IBV_WR_SEND, 0, BIG);
    streamed_run(&device);
    ck_assert(device.peer->blocked);
    ck_assert(!LIST_EMPTY(&device.tcp.gathering));
}

static void narrow(void)
{
    int bytes = 16384;

    ck_assert_int_eq(setsockopt(device.peer->fd, SOL_SOCKET, SO_SNDBUF, &bytes, sizeof bytes), 0);
    ck_assert_int_eq(setsockopt(far, SOL_SOCKET, SO_RCVBUF, &bytes, sizeof bytes), 0);
}

START_TEST(peer_reads_late)
{
    narrow();
    post_until_full(0x5a);
    hear(frames(BIG / TCP_MTU * 8, (size_t)BIG * 8));
    expect_payloads(frames(BIG / TCP_MTU * 8, (size_t)BIG * 8), (size_t)BIG * 8, 0x5a);
    ck_assert(!device.peer->blocked && LIST_EMPTY(&device.tcp.gathering));
    ck_assert_int_eq(streamed_state(&device), IBV_QPS_RTS);
}
END_TEST

/* The application gets its memory back while the payload waits for the socket: the original bytes are sent. */
enum { BY_ERROR, BY_DEREGISTERING, BY_EARLY_ACK, WAYS };

static void give_back(int way)
{
    struct ibv_qp_attr error = {.qp_state = IBV_QPS_ERR};
    struct roce ack = {.opcode = ACKNOWLEDGE, .psn = 0, .syndrome = SYNDROME_ACK};

    if (way == BY_ERROR) {
        ck_assert_int_eq(soft_modify_qp(device.qp, &error, IBV_QP_STATE), 0);
        ck_assert_int_eq(streamed_poll(&device), IBV_WC_WR_FLUSH_ERR);
    } else if (way == BY_DEREGISTERING) {
        ck_assert_int_eq(soft_dereg_mr(device.mr), 0);
        device.mr = NULL;
    } else {
        say(frame, streamed_frame(&device, frame, &ack, 0));
        streamed_run(&device);
        ck_assert_int_eq(streamed_poll(&device), IBV_WC_SUCCESS);
    }
}

/* Posts a SEND of one packet with several segments. */
static void post_segments(void)
{
    struct ibv_sge segments[STREAMED_SEGMENTS];
    struct ibv_send_wr send = {.opcode = IBV_WR_SEND,
                               .send_flags = IBV_SEND_SIGNALED,
                               .sg_list = segments,
                               .num_sge = STREAMED_SEGMENTS},
                       *bad;

    for (size_t i = 0; i < STREAMED_SEGMENTS; i++)
        segments[i] = (struct ibv_sge){(uintptr_t)device.memory + 2 * i * SEGMENT, SEGMENT, device.mr->lkey};
    ck_assert_int_eq(ibv_post_send(device.qp, &send, &bad), 0);
}

START_TEST(memory_is_given_back_too_early)
{
    narrow();
    memset(device.memory, 0x5a, STREAMED_MEMORY);
    post_segments();
    streamed_run(&device);
    ck_assert(device.peer->blocked && !LIST_EMPTY(&device.tcp.gathering));
    give_back(_i);
    ck_assert(device.peer->blocked && LIST_EMPTY(&device.tcp.gathering));
    memset(device.memory, 0xa5, STREAMED_MEMORY);
    hear(frames(1, TCP_MTU));
    expect_payloads(frames(1, TCP_MTU), TCP_MTU, 0x5a);
}
END_TEST

/* Reads everything until the device has ended the stream. Returns the number of bytes. */
static size_t hear_all(void)
{
    size_t length = 0;

    for (int moment = 0; moment < MOMENTS; moment++) {
        ssize_t more = recv(far, got + length, sizeof got - length, MSG_DONTWAIT);

        if (more == 0)
            return length;
        if (more > 0) {
            length += (size_t)more;
            moment = 0;
        } else {
            wait_for(far);
        }
        streamed_run(&device);
    }
    ck_abort_msg("the stream does not end");
}

/* Whole packets, and a DREQ behind them. */
static void expect_frames_and_dreq(size_t length)
{
    size_t at = 0, packets = 0;

    while (at + TCP_FRAME_HEADER < length && got[at] == TCP_FRAME_PACKET) {
        at += TCP_FRAME_HEADER + (get32(got + at) & 0xffffff);
        packets++;
    }
    ck_assert_uint_gt(packets, 0);
    ck_assert_uint_eq(at + TCP_FRAME_HEADER, length);
    ck_assert_int_eq(got[at], TCP_FRAME_DREQ);
}

/* The application disconnects while the peer does not read: the DREQ follows the frame that was partly sent. */
START_TEST(dreq_behind_a_full_socket)
{
    narrow();
    post_until_full(0x5a);
    qp_fail(device.qp);
    tcp_peer_disconnect(device.peer);
    expect_frames_and_dreq(hear_all());
}
END_TEST

/* While the socket accepts everything, the buffer has space for any packet, however many bytes wait for the end of the
 * step. */
START_TEST(room_for_the_longest_packet)
{
    struct soft_link *link = &device.peer->link;
    size_t limit, waiting = TCP_FLUSH_BYTES - 1;
    uint8_t *bytes;

    soft_lock(device.service.context);
    bytes = link->room(link, waiting, &limit);
    ck_assert_ptr_nonnull(bytes);
    memset(bytes, 0, waiting);
    link->send(link, &device.peer->path, bytes, waiting, waiting);
    ck_assert(device.peer->is_unsent);
    ck_assert_ptr_nonnull(link->room(link, TCP_PACKET_MAX + TCP_FRAME_HEADER, &limit));
    ck_assert_uint_ge(limit, TCP_PACKET_MAX + TCP_FRAME_HEADER);
    soft_unlock(device.service.context);
}
END_TEST

/* A long message asks for an acknowledgement at least every 2 MiB, so that a slow peer is not given up. */
START_TEST(long_message_asks_often)
{
    size_t asked = 0, most = 0, length = frames(BIG * 4 / TCP_MTU, (size_t)BIG * 4);

    streamed_post(&device, IBV_WR_SEND, 0, BIG * 4);
    streamed_run(&device);
    hear(length);
    for (size_t at = 0; at < length;) {
        uint32_t body = get32(got + at) & 0xffffff;
        struct roce roce;

        ck_assert(roce_read(&roce, got + at + TCP_FRAME_HEADER, body));
        asked += roce.payload_length;
        most = asked > most ? asked : most;
        asked = roce.ackreq ? 0 : asked;
        at += TCP_FRAME_HEADER + body;
    }
    ck_assert_uint_eq(asked, 0);
    ck_assert_uint_eq(most, 2 << 20);
}
END_TEST

/* ---- Pacing ---- */

/* The kernel paces connections with a long round trip only. */
START_TEST(long_paths_are_paced)
{
    unsigned long rate = 0;
    socklen_t length = sizeof rate;

    teardown();
    round_trip_us = TCP_PACED_US - 1 + (uint32_t)_i;
    setup();
    round_trip_us = 0;
    ck_assert_int_eq(getsockopt(device.peer->fd, SOL_SOCKET, SO_MAX_PACING_RATE, &rate, &length), 0);
    ck_assert_uint_eq(length, sizeof rate);
    ck_assert_uint_eq(rate, ULONG_MAX - (unsigned long)_i);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("tcp link");
    TCase *torn = new_case(suite, "torn"), *lies = new_case(suite, "lies"), *ends = new_case(suite, "ends"),
          *full = new_case(suite, "full");
    TCase *all[] = {torn, lies, ends, full};

    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        tcase_add_checked_fixture(all[i], setup, teardown);
        tcase_set_timeout(all[i], 60);
    }
    tcase_add_loop_test(torn, frames_come_byte_by_byte, 0, sizeof lengths / sizeof *lengths);
    tcase_add_test(torn, frames_come_in_two_parts);
    tcase_add_test(torn, parts_are_no_activity);
    tcase_add_test(torn, longest_packet);
    tcase_add_loop_test(lies, headers_that_lie, 0, sizeof headers / sizeof *headers);
    tcase_add_loop_test(lies, long_writes_that_are_refused, 0, 2);
    tcase_add_test(lies, region_goes_within_a_payload);
    tcase_add_test(lies, long_message_without_a_receive);
    tcase_add_test(lies, packets_for_others);
    tcase_add_test(ends, stream_ends_within_a_frame);
    tcase_add_test(ends, reset_breaks_the_queue_pair);
    tcase_add_loop_test(ends, silent_peer, 0, sizeof outages / sizeof *outages);
    tcase_add_test(ends, frames_behind_a_dreq);
    tcase_add_loop_test(full, long_paths_are_paced, 0, 2);
    tcase_add_test(full, peer_reads_late);
    tcase_add_test(full, dreq_behind_a_full_socket);
    tcase_add_test(full, room_for_the_longest_packet);
    tcase_add_test(full, long_message_asks_often);
    tcase_add_loop_test(full, memory_is_given_back_too_early, 0, WAYS);
    return run_suite(suite);
}
