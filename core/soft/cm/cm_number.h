/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * cm_number.h - the port space of datagrams, RDMA_PS_UDP, which is none of TCP's or UDP's.
 *
 * Who has a number has an abstract unix socket whose name says it; so it is one's own within the network
 * namespace, whoever the others are, and ends with its process. Questions about a number come by TCP all the
 * same, from other hosts, too. They come to one of a few TCP ports that follow from the number alone, its
 * seats: a listener takes the first that is free. A client asks all of them, and says which number it means; it
 * uses the answer if exactly one seat claims the number. Any user may listen at a seat.
 */
#ifndef SOFT_CM_NUMBER_H
#define SOFT_CM_NUMBER_H

#include <stdbool.h>
#include <sys/types.h>
#include <netinet/in.h>
#include "core/soft/engine/wire.h"

#define NUMBER_SEATS 8

/* May it be had at this address, by whoever this process is? The address comes back as it is kept: IPv4 in
 * disguise as what it is. 0 or an errno. */
int cm_number_try(union soft_addr *addr);
/* Take it at this address; port 0: one that nobody has, which comes back there. `both`: the wildcard address of
 * IPv6 is IPv4's, too. A descriptor that holds it until fds_close; -1 and errno: EADDRINUSE. */
int cm_number_take(union soft_addr *addr, bool both);
/* Has somebody taken it, so that nobody else could at this address? */
bool cm_number_is_taken(const union soft_addr *addr, bool both);
/* Whose listener is at this TCP port? False: it can't be found out. */
bool cm_number_find_owner(in_port_t seat, uid_t *owner);
/* The TCP port; network byte order, as the number is. */
in_port_t cm_number_seat(in_port_t number, unsigned seat);

#endif
