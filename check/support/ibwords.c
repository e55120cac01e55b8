/* SPDX-License-Identifier: BSD-2-Clause */
/* ibwords.c - see ibwords.h. */
#include "ibwords.h"
#include <arpa/inet.h>
#include <check.h>
#include <string.h>
#include "check/support/roce.h"
#include "soft/cm/ib_address.h"
#include "soft/verbs/verbs.h"

union soft_addr ib_at(const char *text, unsigned port)
{
    union soft_addr addr = {.in6 = {.sin6_family = AF_INET, .sin6_port = htons((uint16_t)port)}};

    if (strchr(text, ':') != NULL) {
        addr.sa.sa_family = AF_INET6; /* the port is at the same offset */
        ck_assert_int_eq(inet_pton(AF_INET6, text, &addr.in6.sin6_addr), 1);
        return addr;
    }
    ck_assert_int_eq(inet_pton(AF_INET, text, &addr.in.sin_addr), 1);
    return addr;
}

struct ib_message ib_request(const char *from_text, const char *to_text, unsigned port, uint32_t number)
{
    union soft_addr from = ib_at(from_text, 5000), to = ib_at(to_text, 0);
    struct ib_message req = {
        .type = IB_REQ,
        .transaction = 5,
        .local_id = number,
        .req = {.service = ib_service(IB_SPACE_TCP, (uint16_t)port),
                .ca_guid = IBWORDS_GUID,
                .qpn = IBWORDS_QPN,
                .psn = IBWORDS_PSN,
                .responder_resources = 3,
                .initiator_depth = 2,
                .remote_response = 20,
                .local_response = 20,
                .retry_count = 5,
                .rnr_retry_count = 6,
                .cm_retries = 15,
                .pkey = 0xffff,
                .mtu = IBV_MTU_1024,
                .hop_limit = 64,
                .ack_timeout = 19},
    };
    union ibv_gid gid;

    soft_gid_of(&gid, &from.sa);
    memcpy(req.req.local_gid, gid.raw, IB_GID_BYTES);
    soft_gid_of(&gid, &to.sa);
    memcpy(req.req.remote_gid, gid.raw, IB_GID_BYTES);
    ib_address_encode(&from, &to, req.private_data);
    return req;
}

size_t ib_packet(uint8_t *packet, const struct soft_path *path, const struct ib_message *message, uint32_t qkey)
{
    uint8_t mad[IB_MAD_BYTES];
    struct roce roce = {.opcode = ROCE_UD + SEND_ONLY,
                        .migreq = true,
                        .ackreq = true,
                        .congestion = 0xc0, /* as if a switch had marked it */
                        .pkey = 0xffff,
                        .qpn = 1,
                        .qkey = qkey,
                        .source = 1,
                        .payload = mad,
                        .payload_length = sizeof mad};
    struct icrc_flow flow;
    size_t length;

    ib_encode(message, mad);
    length = roce_write(packet, &roce);
    icrc_flow_init(&flow, path, true);
    icrc_store(packet + length, icrc_compute(&flow, 0, packet, length));
    return length + ICRC_SIZE;
}
