/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * test_unchecked.c - which packets go without RoCE's invariant CRC: those that the kernel's loopback carries
 * between two of us, as far as both ends' addresses say so, and EXS_ICRC doesn't say otherwise. All others have
 * it, or the receiver would not take them. And where it is left out, a datagram may take several packets, if both
 * ends know of that.
 *
 * In a network of its own, where addresses are known: 127.0.0.1, ::1 and TWONETS_NEAR.
 */
#include "check/support/support.h"
#include "check/support/twonets.h"

#include <arpa/inet.h>
#include <netinet/udp.h>
#include <sys/syscall.h>
#include "core/settings.h"
#include "core/soft/engine/wire.h"

enum { BYTES = 300000, CHECK = 4, BTH = 12 };
enum { REQ = 1, REP, TYPE_AT = 5, NUMBER_AT = 8, FLAGS_AT = 23, COALESCED = 16 }; /* cm_message.h */

/* What left by datagrams, each packet of a train. Atomic: the device's own thread sends, too. */
static _Atomic unsigned checked, unchecked;
static _Atomic unsigned datagrams, coalesced; /* all of them, and those that say so */

/* Whoever says this, a REQ or a REP, knows nothing of coalesced packets; 0: both do. Then his queue pair, as in packets
 * to him, and how many such datagrams went there. */
static unsigned old_type;
static _Atomic uint32_t old_number;
static _Atomic unsigned coalesced_to_old;

static size_t segment_of(const struct msghdr *message)
{
    struct msghdr *all = (struct msghdr *)(uintptr_t)message;
    uint16_t segment = 0;

    for (struct cmsghdr *c = CMSG_FIRSTHDR(all); c != NULL; c = CMSG_NXTHDR(all, c))
        if (c->cmsg_level == IPPROTO_UDP && c->cmsg_type == UDP_SEGMENT)
            memcpy(&segment, CMSG_DATA(c), sizeof segment);
    return segment;
}

static void count_packet(const unsigned char *packet, size_t length)
{
    static const unsigned char none[CHECK];

    ck_assert_uint_ge(length, BTH + CHECK);
    if (memcmp(packet + length - CHECK, none, CHECK) == 0)
        unchecked++;
    else
        checked++;
}

static uint32_t number_at(const unsigned char *bytes)
{
    uint32_t number;

    memcpy(&number, bytes, sizeof number);
    return ntohl(number) & 0xffffff;
}

/* One datagram whose packets say how long the next one is. False: it is of another kind. */
static bool count_coalesced(const unsigned char *datagram, size_t all)
{
    size_t size = soft_chained(datagram + all), at = 0, packets = 0;

    if (size == 0)
        return false;
    for (; at < all; packets++) {
        ck_assert_uint_ge(size, BTH + CHECK);
        ck_assert_uint_le(size, all - at);
        at += size;
        size = soft_chained(datagram + at);
    }
    ck_assert_uint_ge(packets, 2);
    ck_assert_uint_le(packets, SOFT_TRAIN_PACKETS);
    unchecked += packets;
    coalesced++;
    coalesced_to_old += number_at(datagram + 4) == old_number;
    return true;
}

static void count_datagram(const unsigned char *train, size_t all, size_t stride)
{
    datagrams++;
    if (stride == 0 && count_coalesced(train, all))
        return;
    for (size_t at = 0, size; at < all; at += size) {
        size = stride > 0 && stride < all - at ? stride : all - at;
        count_packet(train + at, size);
    }
}

/* Stands before the C library's, which the device sends each train by. */
ssize_t sendmsg(int fd, const struct msghdr *message, int flags)
{
    int type = 0;
    socklen_t length = sizeof type;

    getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &length);
    if (type == SOCK_DGRAM && message->msg_iovlen == 1)
        count_datagram(message->msg_iov->iov_base, message->msg_iov->iov_len, segment_of(message));
    return syscall(SYS_sendmsg, fd, message, flags);
}

/* Stands before the C library's, which the connection managers' messages go by: makes one of them older. */
ssize_t send(int fd, const void *bytes, size_t length, int flags)
{
    unsigned char copy[512];
    const unsigned char magic[] = {0xe8, 'E', 'X', 'S'};

    if (old_type != 0 && length > FLAGS_AT && length <= sizeof copy &&
        memcmp(bytes, magic, sizeof magic) == 0 && ((const unsigned char *)bytes)[TYPE_AT] == old_type) {
        memcpy(copy, bytes, length);
        ck_assert_uint_ne(copy[FLAGS_AT] & COALESCED, 0);
        copy[FLAGS_AT] &= (unsigned char)~COALESCED;
        old_number = number_at(copy + NUMBER_AT);
        bytes = copy;
    }
    return syscall(SYS_sendto, fd, bytes, length, flags, NULL, 0);
}

static struct address address_of(const char *host, int port)
{
    struct address address = {.length = sizeof(struct sockaddr_in)};
    struct sockaddr_in *in = (struct sockaddr_in *)(void *)&address.storage;
    struct sockaddr_in6 *in6 = (struct sockaddr_in6 *)(void *)&address.storage;

    if (inet_pton(AF_INET, host, &in->sin_addr) == 1) {
        in->sin_family = AF_INET;
        in->sin_port = htons((uint16_t)port);
    } else {
        ck_assert_int_eq(inet_pton(AF_INET6, host, &in6->sin6_addr), 1);
        in6->sin6_family = AF_INET6;
        in6->sin6_port = htons((uint16_t)port);
        address.length = sizeof *in6;
    }
    return address;
}

static const struct row {
    const char *server, *client; /* addresses; a client of NULL has the kernel choose */
    const char *setting;         /* EXS_ICRC */
    bool checked;
    unsigned old; /* what the end says that is too old for coalesced packets */
} rows[] = {
    {"127.0.0.1", NULL, NULL, false, 0},
    {"127.0.0.1", NULL, "0", false, 0},
    {"127.0.0.1", NULL, "1", true, 0},
    {"127.0.0.2", "127.0.0.1", NULL, false, 0},
    {"::1", NULL, NULL, false, 0},
    {"::1", NULL, "1", true, 0},
    {TWONETS_NEAR, NULL, NULL, false, 0},
    {TWONETS_NEAR, NULL, "1", true, 0},
    {TWONETS_NEAR, "127.0.0.1", NULL, true, 0},
    {"127.0.0.1", NULL, NULL, false, REQ},
    {"::1", NULL, NULL, false, REP},
};

static void open_as(struct pair *pair, const struct row *row)
{
    struct address to = address_of(row->server, 0), from;
    exs_acceptaddr_t wanted = {.exs_ahandle = NULL};
    int family = to.storage.ss_family;

    *pair = (struct pair){.client_box = &pair->own[0], .server_box = &pair->own[1]};
    inbox_open(pair->client_box, 64);
    inbox_open(pair->server_box, 64);
    pair->client_box->beside = pair->server_box;
    pair->server_box->beside = pair->client_box;
    must(pair->listener = exs_socket(family, SOCK_STREAM, 0));
    must(exs_bind(pair->listener, SA(&to), to.length));
    must(exs_listen(pair->listener, 8));
    must(exs_getsockname(pair->listener, SA(&to), &to.length));
    must(exs_accept(pair->listener, &wanted, 1, 0, pair->server_box->queue));
    must(pair->client = exs_socket(family, SOCK_STREAM, 0));
    if (row->client != NULL) {
        from = address_of(row->client, 0);
        must(exs_bind(pair->client, SA(&from), from.length));
    }
    must(exs_connect(pair->client, SA(&to), to.length, 0, NULL, pair->client_box->queue, NULL));
    take_good(pair->client_box, EXS_EVT_CONNECT, pair->client);
    take_good(pair->server_box, EXS_EVT_ACCEPT, pair->listener);
    pair->server = wanted.exs_socket;
}

START_TEST(where_it_is_left_out)
{
    const struct row *row = &rows[_i];
    struct pair pair;

    must(setenv("EXS_DEVICE", "soft", 1));
    must(setenv("EXS_LINK", "udp", 1));
    must(row->setting != NULL ? setenv("EXS_ICRC", row->setting, 1) : unsetenv("EXS_ICRC"));
    old_type = row->old;
    init_library();
    open_as(&pair, row);
    pass_bytes(pair.client_box, pair.client, pair.server_box, pair.server, BYTES, 1);
    pass_bytes(pair.server_box, pair.server, pair.client_box, pair.client, BYTES, 2);
    pair_close(&pair);
    if (row->checked)
        ck_assert_uint_eq(unchecked, 0);
    else
        ck_assert_uint_eq(checked, 0);
    ck_assert_uint_gt(checked + unchecked, BYTES / 4096 * 2);
    ck_assert_int_eq(old_number != 0, row->old != 0);
    ck_assert_uint_eq(coalesced_to_old, 0);
    if (row->checked)
        ck_assert_uint_eq(coalesced, 0);
    else
        ck_assert_uint_ge(coalesced, row->old ? 2 : 4);
    ck_assert_uint_lt(datagrams, (checked + unchecked) / 2);
}
END_TEST

static Suite *unchecked_suite(void)
{
    Suite *suite = suite_create("unchecked");
    TCase *tcase = add_bare_case(suite, "addresses", 10);

    tcase_add_loop_test(tcase, where_it_is_left_out, 0, COUNT(rows));
    return suite;
}

int main(void)
{
    return twonets_main(twonets_make, unchecked_suite);
}
