/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * test_ib_seen.c - captured conversations of connection managers, read by the library's decoder and by tshark, which
 * must agree.
 *
 * captures/cm-linux-6.1.pcap is of two hosts, the software device and rxe of Debian's Linux 6.1, each connecting to the
 * other: rping, udaddy, a service that does not exist, and a server that is stopped for a while. The capture with -ipv6
 * in its name is of the same hosts over IPv6, without the stopped server. Next to each capture is tshark's output, one
 * line for each packet, which check/guest/capture reproduces.
 */
#include <check.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "check/support/support.h"
#include "core/base/bytes.h"
#include "soft/cm/ib_address.h"
#include "soft/cm/ib_message.h"
#include "soft/link/icrc.h"
#include "soft/link/qp1.h"

#define CAPTURES "check/transport/captures/"
#define LINES 64
#define LINE 256
#define ETHERNET 14 /* bytes of the Ethernet header */
#define IPV4 20
#define IPV6 40
#define UDP 8

static const char *path_of(const char *capture, const char *suffix)
{
    const char *tree = getenv("EXS_SRCDIR");
    static char path[4096];

    snprintf(path, sizeof path, "%s/" CAPTURES "%s%s", tree != NULL ? tree : ".", capture, suffix);
    return path;
}

/* ---- Read by the library ---- */

/* Of SIDR messages and MRA tshark decodes only the header. */
static void describe(const struct ib_message *message, char *line, size_t size)
{
    int length =
        snprintf(line, size, "0x%04x 0x%016llx", message->type, (unsigned long long)message->transaction);
    const struct ib_req *req = &message->req;
    const struct ib_rep *rep = &message->rep;

    line += length;
    size -= (size_t)length;
    switch (message->type) {
    case IB_REQ:
        snprintf(line, size, " 0x%08x 0x%016llx 0x%016llx 0x%06x 0x%06x 0x%02x 0x%04x", message->local_id,
                 (unsigned long long)req->service, (unsigned long long)req->ca_guid, req->qpn, req->psn,
                 req->retry_count, get16(message->private_data + 2));
        break;
    case IB_REP:
        snprintf(line, size, " 0x%08x 0x%08x 0x%06x 0x%06x 0x%016llx", message->local_id, message->remote_id,
                 rep->qpn, rep->psn, (unsigned long long)rep->ca_guid);
        break;
    case IB_REJ:
        snprintf(line, size, " 0x%08x 0x%08x 0x%04x", message->local_id, message->remote_id,
                 message->rej.reason);
        break;
    case IB_DREQ:
        snprintf(line, size, " 0x%08x 0x%08x 0x%06x", message->local_id, message->remote_id, message->dreq.qpn);
        break;
    case IB_RTU:
    case IB_DREP:
        snprintf(line, size, " 0x%08x 0x%08x", message->local_id, message->remote_id);
        break;
    case IB_MRA:
    case IB_SIDR_REQ:
    case IB_SIDR_REP:
        break;
    }
}

/* Reads the addresses and ports of a packet without its Ethernet header. Returns the length of its IP header. */
static size_t read_path(struct soft_path *path, const uint8_t *ip)
{
    bool ipv6 = ip[0] >> 4 == 6;
    size_t header = ipv6 ? IPV6 : IPV4;

    *path = (struct soft_path){.link = NULL};
    path->local.sa.sa_family = path->remote.sa.sa_family = ipv6 ? AF_INET6 : AF_INET;
    if (ipv6) {
        memcpy(&path->local.in6.sin6_addr, ip + 8, 16);
        memcpy(&path->remote.in6.sin6_addr, ip + 24, 16);
    } else {
        memcpy(&path->local.in.sin_addr, ip + 12, 4);
        memcpy(&path->remote.in.sin_addr, ip + 16, 4);
    }
    /* The port is at the same offset in both address families. */
    memcpy(&path->local.in.sin_port, ip + header, 2);
    memcpy(&path->remote.in.sin_port, ip + header + 2, 2);
    return header;
}

/* Reads a packet without its Ethernet header. The ICRC must be right for the identification in its IP header. */
static const uint8_t *open_packet(const uint8_t *ip, size_t length)
{
    struct soft_path path;
    size_t header = read_path(&path, ip);
    const uint8_t *packet = ip + header + UDP, *mad;
    uint16_t id = header == IPV4 ? get16(ip + 4) : 0;
    struct icrc_flow flow;

    ck_assert_uint_eq(length, header + UDP + QP1_PACKET + ICRC_SIZE);
    icrc_flow_init(&flow, &path, true);
    ck_assert_uint_eq(icrc_load(packet + QP1_PACKET), icrc_compute(&flow, id, packet, QP1_PACKET));
    mad = qp1_read(packet, QP1_PACKET);
    ck_assert_ptr_nonnull(mad);
    return mad;
}

static uint32_t number(FILE *file) /* in this machine's byte order, which is that of the capturing one */
{
    uint8_t bytes[4];

    ck_assert_uint_eq(fread(bytes, 1, sizeof bytes, file), sizeof bytes);
    return icrc_load(bytes);
}

/* Fills `lines` and returns their number. Each message is encoded again, and must be equal to the packet. */
static int read_capture(const char *capture, char lines[LINES][LINE])
{
    uint8_t frame[4096], again[IB_MAD_BYTES], skipped[24];
    FILE *file = fopen(path_of(capture, ".pcap"), "rb");
    int count = 0;

    ck_assert_ptr_nonnull(file);
    ck_assert_uint_eq(fread(skipped, 1, sizeof skipped, file), sizeof skipped);
    while (fread(skipped, 1, 8, file) == 8) { /* skips the time stamp */
        uint32_t length = number(file);
        struct ib_message message;
        const uint8_t *mad;

        ck_assert_uint_eq(number(file), length);
        ck_assert_uint_le(length, sizeof frame);
        ck_assert_uint_eq(fread(frame, 1, length, file), length);
        mad = open_packet(frame + ETHERNET, length - ETHERNET);
        ck_assert(ib_decode(&message, mad));
        ib_encode(&message, again);
        ck_assert_mem_eq(again, mad, IB_MAD_BYTES);
        ck_assert_int_lt(count, LINES);
        describe(&message, lines[count++], LINE);
    }
    fclose(file);
    return count;
}

/* ---- Read by tshark ---- */

static void same_lines(FILE *file, char lines[LINES][LINE], int count)
{
    char line[LINE];
    int read = 0;

    for (; fgets(line, sizeof line, file) != NULL; read++) {
        line[strcspn(line, "\n")] = '\0';
        ck_assert_int_lt(read, count);
        ck_assert_str_eq(line, lines[read]);
    }
    ck_assert_int_eq(read, count);
}

static const struct {
    const char *name;
    enum ib_type absent; /* a message type that the capture does not contain, or 0 */
} captures[] = {{"cm-linux-6.1", 0}, {"cm-linux-6.1-ipv6", IB_MRA}};

START_TEST(as_tshark_read_them)
{
    static char lines[LINES][LINE];
    int count = read_capture(captures[_i].name, lines), of_type[32] = {0};
    FILE *file = fopen(path_of(captures[_i].name, ".tshark"), "r");

    ck_assert_ptr_nonnull(file);
    same_lines(file, lines, count);
    fclose(file);
    for (int i = 0; i < count; i++)
        of_type[strtoul(lines[i], NULL, 16) & 31]++;
    for (enum ib_type type = IB_REQ; type <= IB_SIDR_REP; type++)
        ck_assert_msg(of_type[type & 31] > 0 || type == captures[_i].absent,
                      "no message of type 0x%x is among them", type);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("conversations that were seen");
    TCase *tcase = new_case(suite, "conversations that were seen");

    tcase_set_timeout(tcase, 60);
    tcase_add_loop_test(tcase, as_tshark_read_them, 0, COUNT(captures));
    return run_suite(suite);
}
