/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * hosts.h - the hosts that clients come from: which addresses belong to one host, and how many bytes were read for a
 * host that it has not fetched.
 *
 * A client that claims to have a part of a file sends a few bytes, and the server must read all of that part. The host
 * then owes these bytes until it has fetched as many, and its debt decreases slowly. A host that owes too much must
 * wait, so that no host can keep the disk busy all the time.
 */
#ifndef FILES_HOSTS_H
#define FILES_HOSTS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

enum { HOSTS_MAX = 256 }; /* hosts with a debt; if there are more, the smallest debt is dropped */

#define HOSTS_MAY_OWE (UINT64_C(64) << 30)  /* bytes, or four times the next read, if that is more */
#define HOSTS_FORGIVEN (UINT64_C(16) << 20) /* bytes a second by which a debt decreases */

/* Initially zero; used only by the loop's thread. */
struct hosts {
    struct host {
        struct sockaddr_storage address;
        uint64_t owes; /* bytes; 0: the entry is free */
    } list[HOSTS_MAX];
};

/* Whether two addresses belong to one host. All of 127/8 is one host, and so is an IPv6 /64, if not link-local. */
bool hosts_same(const struct sockaddr_storage *a, const struct sockaddr_storage *b);
/* Asks to read this many bytes for a host. 0: allowed, and added to its debt; else: the seconds that it must wait. */
uint64_t hosts_borrow(struct hosts *hosts, const struct sockaddr_storage *address, uint64_t bytes);
/* The host has fetched this many bytes, or they were not read: reduces its debt. */
void hosts_repay(struct hosts *hosts, const struct sockaddr_storage *address, uint64_t bytes);
/* To be called once a second. */
void hosts_second(struct hosts *hosts);

#endif
