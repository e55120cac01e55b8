/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * ibwords.h - messages of a peer to InfiniBand's connection manager: a REQ as an adapter sends it, and the packet that
 * carries a message to queue pair 1.
 */
#ifndef CHECK_IBWORDS_H
#define CHECK_IBWORDS_H

#include <stddef.h>
#include <stdint.h>
#include "soft/cm/ib_message.h"
#include "soft/link/icrc.h"

#define IBWORDS_GUID UINT64_C(0x0123456789abcdef) /* node GUID of the peer */
#define IBWORDS_QPN 0x4321
#define IBWORDS_PSN 0x777
#define IBWORDS_QKEY 0x80010000u /* of queue pair 1 */

/* An address of either family, and a port. */
union soft_addr ib_at(const char *text, unsigned port);
/* Returns a REQ with communication ID `number` to this port of address `to`. Its private data is the addresses, and
 * then zeros. */
struct ib_message ib_request(const char *from, const char *to, unsigned port, uint32_t number);
/* Stores the packet for this path, from the BTH to the ICRC, in `packet`, which holds ROCE_MAX bytes. Returns its
 * length. */
size_t ib_packet(uint8_t *packet, const struct soft_path *path, const struct ib_message *message,
                 uint32_t qkey);

#endif
