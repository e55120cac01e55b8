/* SPDX-License-Identifier: BSD-2-Clause */
/* passing.h - out-of-band exchange of the data that two queue pairs need to know of each other before they are
 * connected. */
#ifndef VERBS_PASSING_H
#define VERBS_PASSING_H

#include <infiniband/verbs.h>

/* The data of one side, in host byte order. */
struct port_data {
    uint64_t address; /* of the memory that the other side may write or read */
    uint32_t rkey;
    uint32_t qp_num;
    uint32_t psn;      /* of its first packet */
    uint16_t lid;      /* 0 on Ethernet */
    union ibv_gid gid; /* zero if the LID is sufficient */
};

/* Opens a TCP connection to the other side: connects to `server`, or accepts one connection if it is NULL. Returns the
 * descriptor, or -1 after printing an error. */
int passing_open(const char *server, const char *tcp_port);
/* Sends `local` to the other side, and receives `remote`. Returns 0 or -1. */
int passing_exchange(int sock, const struct port_data *local, struct port_data *remote);
/* Waits until the other side calls this function, too. The sides exchange a number. theirs may be NULL. Returns 0 or
 * -1. */
int passing_sync(int sock, uint32_t mine, uint32_t *theirs);
void passing_print(const char *whose, const struct port_data *data);

#endif
