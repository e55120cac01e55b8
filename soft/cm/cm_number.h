/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * cm_number.h - the port space of datagrams, RDMA_PS_UDP, which is separate from TCP's and UDP's. Its ports are called
 * numbers here.
 *
 * A process that has a number has bound an abstract unix socket to a name that contains the number. So a number is
 * unique within the network namespace, among the processes of all users, and is free when its process ends. Requests
 * about a number (SIDR_REQ) arrive over TCP, also from other hosts, at one of NUMBER_SLOTS TCP ports, the number's
 * "slots", which are computed from the number alone. A listener takes the first slot that is free. A client asks at all
 * slots which queue pair has the number, and uses the reply only if exactly one slot claims the number, because any
 * user may listen at a slot.
 */
#ifndef SOFT_CM_NUMBER_H
#define SOFT_CM_NUMBER_H

#include <stdbool.h>
#include <sys/types.h>
#include <netinet/in.h>
#include "soft/engine/wire.h"

#define NUMBER_SLOTS 8

/* Checks whether this process may bind a number at this address. Replaces an IPv4-mapped address by the IPv4 address. 0
 * or an errno. */
int cm_number_try(union soft_addr *addr);
/* Takes the number in addr's port; 0: takes a free one, and stores it there. `both`: IPv6's wildcard address includes
 * IPv4's. Returns a descriptor that holds the number until fds_close(); or -1 and errno, EADDRINUSE if another process
 * has the number. */
int cm_number_take(union soft_addr *addr, bool both);
/* Returns whether a process has taken the number, so that it is not free at this address. */
bool cm_number_is_taken(const union soft_addr *addr, bool both);
/* Finds the user whose process listens at this TCP port. False: the user is not known. */
bool cm_number_find_owner(in_port_t slot, uid_t *owner);
/* Returns the TCP port of a number's slot, 0 to NUMBER_SLOTS - 1. Port and number are in network byte order. */
in_port_t cm_number_slot(in_port_t number, unsigned slot);

#endif
