/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * hosts.h - the hosts that clients come from: which addresses are one's, and what was read for each of them
 * that it has not taken.
 *
 * To say that much of a file is there costs a client a few bytes, and the server the reading of all that. What
 * a host has had read it owes, until it has taken as much of files, and is forgiven slowly; who owes too much
 * has to wait, so that nobody keeps the disk busy for ever.
 */
#ifndef FILES_HOSTS_H
#define FILES_HOSTS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

enum { HOSTS_MAX = 256 }; /* that owe something; of more, who owes the least is forgotten */

#define HOSTS_MAY_OWE (UINT64_C(64) << 30)  /* bytes, or four times what is to be read next, if that is more */
#define HOSTS_FORGIVEN (UINT64_C(16) << 20) /* bytes a second */

/* Begins as zeros; used by the loop's thread only. */
struct hosts {
    struct host {
        struct sockaddr_storage address;
        uint64_t owes; /* bytes; 0: there is nobody */
    } list[HOSTS_MAX];
};

/* All of 127/8 is this host's, and of IPv6 a host may have a whole /64. */
bool hosts_same(const struct sockaddr_storage *a, const struct sockaddr_storage *b);
/* So many bytes are to be read for it: 0, and it owes them, or in how many seconds they may be. */
uint64_t hosts_borrow(struct hosts *hosts, const struct sockaddr_storage *address, uint64_t bytes);
/* So many were taken, or not read after all. */
void hosts_repay(struct hosts *hosts, const struct sockaddr_storage *address, uint64_t bytes);
/* Once a second. */
void hosts_second(struct hosts *hosts);

#endif
