/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * hosts.h - the hosts of clients: which addresses belong to one host, and how many bytes the server has read for a host
 * beyond those that the host has fetched.
 *
 * A client that claims to have a part of a file sends a few bytes, but the server must read all of that part. The bytes
 * read are the host's debt, which decreases by the bytes that it fetches, and slowly with time. A host with too much
 * debt must wait, so that no host can keep the disk busy all the time.
 */
#ifndef FILES_HOSTS_H
#define FILES_HOSTS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

enum { HOSTS_MAX = 256 }; /* maximum hosts with a debt; if there are more, the smallest debt is dropped */

#define HOSTS_MAY_OWE (UINT64_C(64) << 30)  /* bytes, or four times the next read, if that is more */
#define HOSTS_FORGIVEN (UINT64_C(16) << 20) /* bytes a second by which a debt decreases */

/* Initially zero; used only by the loop's thread. */
struct hosts {
    struct host {
        struct sockaddr_storage address;
        uint64_t owes; /* bytes; 0: the entry is free */
    } list[HOSTS_MAX];
};

/* Whether two addresses belong to one host. All of 127/8 counts as one host, and so does an IPv6 /64 that is not
 * link-local. */
bool hosts_same(const struct sockaddr_storage *a, const struct sockaddr_storage *b);
/* Asks to read this many bytes for a host. Returns 0 if allowed, after adding them to its debt; else the number of
 * seconds that the host must wait. */
uint64_t hosts_borrow(struct hosts *hosts, const struct sockaddr_storage *address, uint64_t bytes);
/* Reduces the debt by bytes that the host has fetched, or that were not read after all. */
void hosts_repay(struct hosts *hosts, const struct sockaddr_storage *address, uint64_t bytes);
/* To be called once a second. */
void hosts_second(struct hosts *hosts);

#endif
