/* SPDX-License-Identifier: BSD-2-Clause */
/* resources.h - the verbs objects of a program, from the device to the queue pair. */
#ifndef VERBS_RESOURCES_H
#define VERBS_RESOURCES_H

#include "command.h"
#include "passing.h"

#include <infiniband/verbs.h>
#include <stdbool.h>

#define FIRST_PSN 0x4321 /* any 24-bit number */
#define GRH_SIZE 40      /* bytes before the data of a received datagram: space for the global routing header */

/* Owned by program_main(), used by one thread. Pointers are NULL until the object is created. */
struct resources {
    struct command command;
    bool daemon;
    int sock; /* TCP socket to the other side, for the exchange of data */
    struct ibv_context *context;
    struct ibv_port_attr port;
    int gid_index; /* -1: the port is addressed by LID */
    union ibv_gid gid;
    struct ibv_pd *pd;
    struct ibv_comp_channel *channel;
    struct ibv_cq *cq;
    char *buf;
    struct ibv_mr *mr;
    struct ibv_qp *qp;
    struct ibv_ah *ah;
    /* Properties of the connection, set by the program; see connect.h. */
    unsigned qp_access; /* permissions of the other side: enum ibv_access_flags */
    uint8_t reads;      /* maximum RDMA READs in flight */
    bool sends;         /* this side sends; in the hello_world programs only the daemon does */
    struct port_data remote;
};

/* The functions that return int return 0, or -1 after printing an error. */
/* Opens the device, chooses the GID, and allocates the protection domain. */
int resources_open(struct resources *r);
/* Allocates and registers a buffer of zeros. access: enum ibv_access_flags. */
int resources_memory(struct resources *r, size_t size, int access);
/* Creates the queue pair. Uses r->cq for both queues; all sends are signaled. */
int resources_qp(struct resources *r, enum ibv_qp_type type, uint32_t sends, uint32_t receives);
/* Returns the data that the other side needs. */
struct port_data resources_data(const struct resources *r);
/* Returns the address of the other side; r->remote must be set. */
struct ibv_ah_attr resources_path(const struct resources *r);
int resources_destroy(struct resources *r);
/* Prints "what: the error" and returns -1. error: an errno value. */
int failed(const char *what, int error);

/* The body of main(): parses the command line, opens the device, connects the sides over TCP, calls run(), and destroys
 * all objects. Returns the exit status. */
int program_main(int argc, char **argv, int (*run)(struct resources *r));

#endif
