/* SPDX-License-Identifier: BSD-2-Clause */
/* test_stats.c - exs_getdevices and exs_getstats: available devices, and counters. */
#include "check/support/support.h"

/* ---- Counters ------------------------------------------------------------------------------ */

static exs_stats_t of_socket(int socket)
{
    exs_stats_t stats;

    memset(&stats, CANARY, sizeof stats);
    must(exs_getstats(socket, NULL, &stats));
    return stats;
}

static exs_stats_t of_queue(const struct inbox *box)
{
    exs_stats_t stats;

    memset(&stats, CANARY, sizeof stats);
    must(exs_getstats(-1, box->queue, &stats));
    return stats;
}

static void nothing_counted(const exs_stats_t *stats)
{
    static const exs_stats_t none;

    ck_assert_mem_eq(stats, &none, sizeof none);
}

#define SHORT 100
#define LONG 1000000

/* Bytes that arrive before a receive is posted go through the receive ring; those that a receive waits for are
 * written directly. */
START_TEST(bytes)
{
    struct pair pair;
    char *buffer = new_buffer(LONG);

    pair_open(&pair, kinds[_i].family, SOCK_STREAM);
    exs_mhandle_t region = exs_mregister(buffer, LONG, 0);

    must(exs_send(pair.client, buffer, SHORT, 0, pair.client_box->queue, NULL, NULL));
    take_good(pair.client_box, EXS_EVT_SEND, pair.client);
    exs_stats_t stats = of_socket(pair.client);
    ck_assert_uint_eq(stats.exs_sends, 1);
    ck_assert_uint_eq(stats.exs_receives, 0);
    ck_assert_uint_eq(stats.exs_sent, SHORT);
    ck_assert_uint_eq(stats.exs_sent_direct, 0);
    ck_assert_uint_eq(stats.exs_received, 0);
    ck_assert_uint_eq(stats.exs_events, 0);
    must(exs_recv(pair.server, buffer, SHORT, MSG_WAITALL, pair.server_box->queue, NULL, NULL));
    take_good(pair.server_box, EXS_EVT_RECV, pair.server);

    must(exs_recv(pair.server, buffer, LONG, MSG_WAITALL, pair.server_box->queue, NULL, region));
    inbox_pump(pair.client_box, QUIET_MS);
    char *from = new_buffer(LONG);
    must(exs_send(pair.client, from, LONG, 0, pair.client_box->queue, NULL, NULL));
    take_good(pair.client_box, EXS_EVT_SEND, pair.client);
    take_good(pair.server_box, EXS_EVT_RECV, pair.server);
    stats = of_socket(pair.client);
    ck_assert_uint_eq(stats.exs_sends, 2);
    ck_assert_uint_eq(stats.exs_sent, SHORT + LONG);
    ck_assert(stats.exs_sent_direct > 0 && stats.exs_sent_direct <= LONG);
    exs_stats_t there = of_socket(pair.server);
    ck_assert_uint_eq(there.exs_receives, 2);
    ck_assert_uint_eq(there.exs_sends, 0);
    ck_assert_uint_eq(there.exs_received, SHORT + LONG);
    ck_assert_uint_eq(there.exs_received_direct, stats.exs_sent_direct);
    if (on_rdma())
        ck_assert_uint_eq(there.exs_retransmissions, EXS_STATS_UNKNOWN);
    must(exs_mderegister(region, 0));
    free(buffer);
    free(from);
    pair_close(&pair);
}
END_TEST

/* A packet is always written directly. */
START_TEST(packets)
{
    struct pair pair;

    pair_open(&pair, AF_INET, SOCK_SEQPACKET);
    pass_bytes(pair.client_box, pair.client, pair.server_box, pair.server, SHORT, 1);
    exs_stats_t stats = of_socket(pair.client);
    ck_assert_uint_eq(stats.exs_sent, SHORT);
    ck_assert_uint_eq(stats.exs_sent_direct, SHORT);
    stats = of_socket(pair.server);
    ck_assert_uint_eq(stats.exs_received, SHORT);
    ck_assert_uint_eq(stats.exs_received_direct, SHORT);
    pair_close(&pair);
}
END_TEST

START_TEST(one_sided)
{
    struct pair pair;
    exs_token_t token;
    char there[SHORT] = "there", here[SHORT];

    pair_open(&pair, AF_INET, SOCK_STREAM);
    exs_mhandle_t region = exs_mregister(there, sizeof there, 0);

    must(exs_mexport(pair.server, region, there, sizeof there, EXS_REMOTE_READ | EXS_REMOTE_WRITE, &token));
    must(exs_rread(pair.client, here, 60, &token, 0, 0, pair.client_box->queue, NULL, NULL));
    take_good(pair.client_box, EXS_EVT_RREAD, pair.client);
    must(exs_rwrite(pair.client, here, 40, &token, 0, 0, pair.client_box->queue, NULL, NULL));
    take_good(pair.client_box, EXS_EVT_RWRITE, pair.client);
    exs_stats_t stats = of_socket(pair.client);
    ck_assert_uint_eq(stats.exs_sends, 2);
    ck_assert_uint_eq(stats.exs_bytes_read, 60);
    ck_assert_uint_eq(stats.exs_bytes_written, 40);
    ck_assert_uint_eq(stats.exs_sent, 0);
    must(exs_munexport(pair.server, &token));
    pair_close(&pair);
    must(exs_mderegister(region, 0));
}
END_TEST

/* A queue's counters are sums over its connections, also over closed ones. */
START_TEST(queue)
{
    struct pair pair;
    exs_event_t event;
    struct timeval now = {0, 0};

    pair_open(&pair, AF_INET, SOCK_STREAM);
    exs_stats_t before = of_queue(pair.client_box);
    ck_assert_uint_ge(before.exs_events, 1); /* that of the connect */
    ck_assert_uint_eq(before.exs_sent, 0);
    pass_bytes(pair.client_box, pair.client, pair.server_box, pair.server, SHORT, 1);
    exs_stats_t after = of_queue(pair.client_box), server = of_queue(pair.server_box);
    ck_assert_uint_eq(after.exs_events, before.exs_events + 1);
    ck_assert_uint_eq(after.exs_sends, 1);
    ck_assert_uint_eq(after.exs_sent, SHORT);
    ck_assert_uint_gt(after.exs_completions, before.exs_completions);
    ck_assert_uint_gt(after.exs_turns, before.exs_turns);
    uint64_t full = after.exs_turns - after.exs_empty_turns; /* each pass found at least one event */
    ck_assert(full >= 1 && full <= after.exs_events);
    ck_assert_uint_eq(server.exs_receives, 1);
    ck_assert_uint_eq(server.exs_received, SHORT);
    close_socket(pair.client_box, pair.client);
    close_socket(pair.server_box, pair.server);
    exs_stats_t gone = of_queue(pair.client_box);
    ck_assert_uint_eq(gone.exs_sent, SHORT);
    ck_assert_uint_ge(gone.exs_sends, 1);
    if (on_rdma())
        ck_assert_uint_eq(gone.exs_retransmissions, EXS_STATS_UNKNOWN);
    ck_assert_int_eq(exs_qdequeue(pair.client_box->queue, &event, 1, &now), 0);
    exs_stats_t last = of_queue(pair.client_box);
    ck_assert_uint_eq(last.exs_turns, gone.exs_turns + 1);
    ck_assert_uint_eq(last.exs_empty_turns, gone.exs_empty_turns + 1);
    pair_close_rest(&pair);
}
END_TEST

START_TEST(nothing_yet)
{
    struct inbox box;
    struct address address;
    int fresh = exs_socket(PF_INET, SOCK_STREAM, 0),
        listener = open_listener(AF_INET, SOCK_STREAM, 1, &address);

    inbox_open(&box, 4);
    exs_stats_t stats = of_socket(fresh);
    nothing_counted(&stats);
    stats = of_socket(listener);
    nothing_counted(&stats);
    stats = of_queue(&box);
    nothing_counted(&stats);
    must_fail(exs_getstats(fresh, NULL, NULL), EFAULT);
    must_fail(exs_getstats(-1, box.queue, NULL), EFAULT);
    must_fail(exs_getstats(fresh, box.queue, &stats), EINVAL);
    must_fail(exs_getstats(-1, EXS_QHANDLE_INVALID, &stats), EINVAL);
    must_fail(exs_getstats(-1, NULL, &stats), EBADF);
    must(exs_blocking_close(fresh));
    must_fail(exs_getstats(fresh, NULL, &stats), EBADF);
    close_socket(&box, listener);
    inbox_close(&box);
}
END_TEST

/* ---- Devices ------------------------------------------------------------------------------- */

static bool has_address(const exs_device_t *device, const struct address *address)
{
    for (int i = 0; i < device->exs_address_count && i < EXS_DEVICE_ADDRESSES; i++) {
        const struct sockaddr_in *in = (const struct sockaddr_in *)&device->exs_addresses[i];

        if (in->sin_family == AF_INET &&
            in->sin_addr.s_addr == ((const struct sockaddr_in *)&address->storage)->sin_addr.s_addr)
            return true;
    }
    return false;
}

static const char *links_of_device(void)
{
    const char *link = getenv("EXS_LINK");

    if (on_rdma())
        return "RoCE";
    if (on_shm())
        return "shm,tcp,udp";
    return strcmp(link, "tcp") == 0 ? "tcp,udp" : "udp";
}

/* The device of a connection is listed, with its address and capabilities. */
START_TEST(device_of_a_connection)
{
    struct pair pair;
    exs_device_t devices[16];
    char name[64];
    int found = -1;

    pair_open(&pair, AF_INET, SOCK_STREAM);
    must(exs_getdevice(pair.client, name, sizeof name));
    int fds = count_fds(), count = exs_getdevices(devices, COUNT(devices));

    ck_assert_int_ge(count, 1);
    ck_assert_int_eq(count_fds(), fds);
    for (int i = 0; i < count; i++)
        if (strcmp(devices[i].exs_name, name) == 0)
            found = i;
    ck_assert_int_ge(found, 0);
    const exs_device_t *device = &devices[found];

    ck_assert_str_eq(device->exs_kind, on_rdma() ? "rdma" : "soft");
    ck_assert_str_eq(device->exs_links, links_of_device());
    ck_assert(has_address(device, &pair.address));
    ck_assert_int_ge(device->exs_mtu, 256);
    ck_assert_int_ge(device->exs_max_connections, 2);
    ck_assert_int_ge(device->exs_max_requests, 16);
    ck_assert_uint_ge(device->exs_max_message, 1 << 20);
    ck_assert_uint_ge(device->exs_max_region, 1 << 20);
    pair_close(&pair);
}
END_TEST

START_TEST(fewer_than_there_are)
{
    exs_device_t devices[2];

    memset(devices, CANARY, sizeof devices);
    int count = exs_getdevices(NULL, 0);

    ck_assert_int_ge(count, 1);
    ck_assert_int_eq(exs_getdevices(devices, 1), count);
    same_bytes(&devices[1], sizeof devices[1], CANARY);
    ck_assert_str_ne(devices[0].exs_name, "");
    must_fail(exs_getdevices(NULL, 1), EFAULT);
    must_fail(exs_getdevices(devices, -1), EINVAL);
}
END_TEST

/* EXS_DEVICE names a kind of devices, or one device. */
START_TEST(allowed)
{
    exs_device_t device;

    setenv("EXS_DEVICE", _i ? "soft0" : "soft", 1);
    must(exs_init(EXS_VERSION));
    ck_assert_int_eq(exs_getdevices(&device, 1), 1);
    ck_assert_str_eq(device.exs_name, "soft0");
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("stats");
    TCase *c = add_case(suite, "counters", 20);

    tcase_add_loop_test(c, bytes, 0, COUNT(kinds) / 2);
    tcase_add_test(c, packets);
    tcase_add_test(c, one_sided);
    tcase_add_test(c, queue);
    tcase_add_test(c, nothing_yet);
    c = add_case(suite, "devices", 20);
    tcase_add_test(c, device_of_a_connection);
    tcase_add_test(c, fewer_than_there_are);
    c = add_bare_case(suite, "choice", 20);
    tcase_add_loop_test(c, allowed, 0, 2);
    return run_suite(suite);
}
