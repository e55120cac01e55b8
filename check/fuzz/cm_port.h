/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * cm_port.h - RoCE's port, which is none of the kernel's: nobody else can have it, and nothing leaves the
 * process. Its sockets give what the input says, and what is sent by them is looked at: a right packet, to
 * somebody on loopback.
 */
#ifndef CHECK_FUZZ_CM_PORT_H
#define CHECK_FUZZ_CM_PORT_H

#include <sys/socket.h>
#include "check/fuzz/cm_world.h"
#include "soft/cm/ib_message.h"
#include "soft/link/icrc.h"
#include "soft/link/qp1.h"

#define SHARE 3 /* of the port */
#define HEARD 16

enum { PLACES = 16, PACKET = QP1_PACKET + ICRC_SIZE };

/* What the library has said, the last of it, and whereto. */
struct heard {
    struct soft_path path;
    struct ib_message message;
};

/* What one of the sockets gives when it is read next. */
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
    int neighbour; /* another process's inbox */
    bool passes;   /* what is passed on to another process is taken there */
    bool foreign;  /* whoever is at the other end is another user's */
    int no_route;  /* errno of what is sent, or 0 */
    bool anywhere; /* one of the same user has lied about where it came from: he could send it himself */
} port;

/* The service thread's, which does none here. */
extern void (*task)(void);

void port_open(void);
bool is_near(const union soft_addr *addr);
/* What another process of this user was told is its own affair. */
void neighbour_hears(void);

#endif
