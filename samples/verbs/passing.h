/* SPDX-License-Identifier: BSD-2-Clause */
/* passing.h - data passing out of band: what two queue pairs must know of each other before they can talk. */
#ifndef VERBS_PASSING_H
#define VERBS_PASSING_H

#include <infiniband/verbs.h>

/* One side's part, in this machine's byte order. */
struct port_data {
    uint64_t address; /* of the memory that the other side may write or read */
    uint32_t rkey;
    uint32_t qp_num;
    uint32_t psn;      /* of its first packet */
    uint16_t lid;      /* 0 on Ethernet */
    union ibv_gid gid; /* zero where a LID does */
};

/* A TCP connection to the other side: server NULL waits for it, else goes there. The descriptor, or -1. */
int passing_open(const char *server, const char *tcp_port);
/* Gives the other side local, and takes remote from it. 0 or -1. */
int passing_exchange(int sock, const struct port_data *local, struct port_data *remote);
/* Waits until the other side has come as far; each gives the other a number. theirs may be NULL. 0 or -1. */
int passing_sync(int sock, uint32_t mine, uint32_t *theirs);
void passing_print(const char *whose, const struct port_data *data);

#endif
