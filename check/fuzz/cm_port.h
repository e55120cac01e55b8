/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * cm_port.h - simulates RoCE's port, so that no real port is needed and nothing leaves the process. Its sockets return
 * what the input says, and packets that are sent to them are checked: each must be valid and have a loopback
 * destination.
 */
#ifndef CHECK_FUZZ_CM_PORT_H
#define CHECK_FUZZ_CM_PORT_H

#include <sys/socket.h>
#include "check/fuzz/cm_world.h"
#include "soft/cm/ib_message.h"
#include "soft/link/icrc.h"
#include "soft/link/qp1.h"

#define SHARE 3 /* the share of the port */
#define HEARD 16

enum { PLACES = 16, PACKET = QP1_PACKET + ICRC_SIZE };

/* One of the last messages that the library sent, and its path. */
struct heard {
    struct soft_path path;
    struct ib_message message;
};

/* What a socket returns when it is read next. */
struct coming {
    int fd; /* -1: nothing */
    int flags;
    union soft_addr from;
    uint8_t bytes[1024];
    size_t length;
    _Alignas(struct cmsghdr) uint8_t control[128];
    size_t control_length;
};

extern struct port {
    struct heard heard[HEARD];
    unsigned count;
    struct coming coming;
    int neighbour; /* inbox of another process */
    bool passes;   /* messages for other processes are accepted there */
    bool foreign;  /* the process at the other end belongs to another user */
    int no_route;  /* errno of sending, or 0 */
    /* A process of the same user has forged a source address: the library may answer to any address. */
    bool anywhere;
} port;

/* The task of the service thread, which does not run it here. */
extern void (*task)(void);

void port_open(void);
bool is_near(const union soft_addr *addr);
/* Discards what was passed to the other process. */
void neighbour_hears(void);

#endif
