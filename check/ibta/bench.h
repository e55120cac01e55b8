/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * bench.h - a test bench: a device under test (DUT) and a tester, connected by a wire, with channels, one for each
 * conversation.
 *
 * The bench uses the device only by verbs, through the table of core/device/device.h, so the same code works with all
 * devices. The tester is the other end of each channel's queue pair. It has no engine; it sends only the packets of the
 * conversation. In real time many conversations run concurrently, each in a thread; on a virtual clock they run one
 * after the other.
 */
#ifndef IBTA_BENCH_H
#define IBTA_BENCH_H

#include <pthread.h>
#include "core/device/device.h"
#include "frame.h"
#include "judge.h"

#define CHANNEL_MEMORY 16384
#define TESTER_QPN 0x5e5000 /* of the first channel */

struct bench;

/* A connection. Owned by its bench. The bench's lock guards the record; the rest is used by the conversation's thread
 * only. */
struct channel {
    struct bench *bench;
    unsigned number;
    struct ibv_cq *cq;
    struct ibv_mr *mr;
    struct ibv_qp *qp;
    uint8_t *memory; /* registered with the device, CHANNEL_MEMORY bytes */
    struct record record;
    unsigned seen_packets, seen_completions; /* entries of the record that the conversation has read */
    uint32_t next_psn;                       /* of the tester's next request */
    uint32_t msn;                            /* of the tester's responses */
    pthread_cond_t news;
};

/* The bench and its wire. bench_open_...() sets the fields above the lock; bench_init() the others. */
struct bench {
    const char *name;
    const struct device *device;
    struct ibv_context *context;
    struct frame to_dut; /* headers of the tester's packets */
    uint64_t late;       /* see struct record; ns */
    uint64_t patience;   /* timeout for packets that the device should send immediately; ns */

    uint64_t (*now)(struct bench *bench);
    /* Sends a packet with its ICRC. The bytes begin with the BTH. */
    void (*send)(struct bench *bench, const uint8_t *packet, size_t length);
    /* Packets sent between hold() and release() reach the device as one batch, during which time passes. NULL in real
     * time, where no simulation is needed. */
    void (*hold)(struct bench *bench);
    void (*release)(struct bench *bench);
    /* Waits until the channel's record has grown, or until this time. The caller holds the lock. */
    void (*wait)(struct bench *bench, struct channel *channel, uint64_t until);
    /* Sets the address of the tester, for ibv_modify_qp() to RTR. Returns the bits to add to the mask. */
    int (*path)(struct bench *bench, struct ibv_qp *qp, struct ibv_qp_attr *attr);
    /* stop() ends the recording. Then the channels are freed, and close() destroys the bench's objects. */
    void (*stop)(struct bench *bench);
    void (*close)(struct bench *bench);

    /* Set by bench_init(). */
    pthread_mutex_t lock; /* guards all records and the list of channels; taken before the device's locks */
    struct ibv_pd *pd;
    struct ibv_comp_channel *events;
    struct channel **channels;
    unsigned count;
};

/* Open a bench. On failure they print what is missing and how to get it, and return NULL. */
struct bench *bench_open_virtual(void); /* the software device on a virtual clock */
struct bench *bench_open_udp(void);     /* the software device over its UDP link, on loopback */
struct bench *bench_open_rdma(const char *device, const char *dut, const char *tester, const char *netns);
void bench_close(struct bench *bench);

/* Initializes the common part of a bench, after its device was opened. Returns false after printing an error. */
bool bench_init(struct bench *bench);
/* Records a packet of the device, with its ICRC, that arrived with these headers. Takes the lock. */
void bench_arrival(struct bench *bench, uint64_t time, const struct frame *frame, const uint8_t *packet,
                   size_t length);
/* Polls this channel's completion queue into its record. Returns whether there were completions. The caller holds the
 * lock. */
bool channel_poll(struct channel *channel);
/* Exits with a message, because the device under test cannot be used. */
_Noreturn void bench_fail(const char *what, int error);

struct channel *channel_open(struct bench *bench, const struct terms *terms);

#endif
