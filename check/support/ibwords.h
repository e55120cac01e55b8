/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * ibwords.h - what a peer says to InfiniBand's connection manager: a request as an adapter makes it, and the
 * packet that carries a message to queue pair 1.
 */
#ifndef CHECK_IBWORDS_H
#define CHECK_IBWORDS_H

#include <stddef.h>
#include <stdint.h>
#include "soft/cm/ib_message.h"
#include "soft/link/icrc.h"

#define IBWORDS_GUID UINT64_C(0x0123456789abcdef) /* of the node that asks */
#define IBWORDS_QPN 0x4321
#define IBWORDS_PSN 0x777
#define IBWORDS_QKEY 0x80010000u /* of queue pair 1 */

/* An address and a port, of either family. */
union soft_addr ib_at(const char *text, unsigned port);
/* Of connection `number`, to the port of the address `to`; its private data is the addresses, and then zeros.
 */
struct ib_message ib_request(const char *from, const char *to, unsigned port, uint32_t number);
/* With its check, by this path, from the BTH on. `packet` has room for ROCE_MAX bytes; how many they are. */
size_t ib_packet(uint8_t *packet, const struct soft_path *path, const struct ib_message *message,
                 uint32_t qkey);

#endif
