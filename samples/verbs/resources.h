/* SPDX-License-Identifier: BSD-2-Clause */
/* resources.h - what a program here owns, from the device down to the queue pair. */
#ifndef VERBS_RESOURCES_H
#define VERBS_RESOURCES_H

#include "command.h"
#include "passing.h"

#include <infiniband/verbs.h>
#include <stdbool.h>

#define FIRST_PSN 0x4321 /* any 24 bits do */
#define GRH_SIZE 40      /* what a datagram leaves free before its data: the global routing header */

/* Owned by main's program_main, used by one thread. What is NULL is not there yet. */
struct resources {
    struct command command;
    bool daemon;
    int sock; /* to the other side, for data passing */
    struct ibv_context *context;
    struct ibv_port_attr port;
    int gid_index; /* -1: by LID */
    union ibv_gid gid;
    struct ibv_pd *pd;
    struct ibv_comp_channel *channel;
    struct ibv_cq *cq;
    char *buf;
    struct ibv_mr *mr;
    struct ibv_qp *qp;
    struct ibv_ah *ah;
    /* What a program wants of the connection: see connect.h. */
    unsigned qp_access; /* what the other side may do: enum ibv_access_flags */
    uint8_t reads;      /* RDMA READs in flight at once */
    bool sends;         /* of the hello worlds only the daemon */
    struct port_data remote;
};

/* Each: 0, or -1 after saying what failed. */
int resources_open(struct resources *r);
/* A buffer of zeros, registered. access: enum ibv_access_flags. */
int resources_memory(struct resources *r, size_t size, int access);
/* Uses r->cq for both queues; every send is signaled. */
int resources_qp(struct resources *r, enum ibv_qp_type type, uint32_t sends, uint32_t receives);
/* What the other side must know of this one. */
struct port_data resources_data(const struct resources *r);
/* The way to the other side, once that is known. */
struct ibv_ah_attr resources_path(const struct resources *r);
int resources_destroy(struct resources *r);
/* -1, after "what: the error". error: an errno value. */
int failed(const char *what, int error);

/* main: reads the command line, opens, connects the two sides by TCP, runs, destroys; the exit status. */
int program_main(int argc, char **argv, int (*run)(struct resources *r));

#endif
