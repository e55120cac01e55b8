/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * bench.h - a device under test and a tester, joined by a wire; and the conversations on it, one for each
 * channel.
 *
 * The device is driven by the verbs alone, through the table of core/device/device.h, so one text drives every device.
 * The tester is the other end of every channel's queue pair: it has no engine, only what a conversation tells
 * it to send. On a wall clock many talk at once, each in a thread; on a virtual one they talk in
 * turn.
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

/* One connection. Owned by its bench; the record is guarded by the bench's lock, the rest is its one user's. */
struct channel {
    struct bench *bench;
    unsigned number;
    struct ibv_cq *cq;
    struct ibv_mr *mr;
    struct ibv_qp *qp;
    uint8_t *memory; /* the device's, CHANNEL_MEMORY bytes, registered */
    struct record record;
    unsigned seen_packets,
        seen_completions; /* entries of the record that the conversation has looked through */
    uint32_t next_psn;    /* of the tester's requests */
    uint32_t msn;         /* of the tester's answers */
    pthread_cond_t news;
};

/* How a wire joins the two. Filled in by whoever opens the bench. */
struct bench {
    const char *name;
    const struct device *device;
    struct ibv_context *context;
    struct frame to_dut; /* of the tester's packets */
    uint64_t late;
    uint64_t patience; /* how long an answer is waited for that should come at once; ns */

    uint64_t (*now)(struct bench *bench);
    /* One packet with its ICRC, from the BTH on. */
    void (*send)(struct bench *bench, const uint8_t *packet, size_t length);
    /* From `hold` to `release` packets reach the device in one batch, in the middle of which time passes. NULL
     * in real time, where that happens by itself. */
    void (*hold)(struct bench *bench);
    void (*release)(struct bench *bench);
    /* (locked) Until the channel's record has grown or the time has come. */
    void (*wait)(struct bench *bench, struct channel *channel, uint64_t until);
    /* The way to the tester, for ibv_modify_qp to RTR; returns what to add to the mask. */
    int (*path)(struct bench *bench, struct ibv_qp *qp, struct ibv_qp_attr *attr);
    /* Nothing more is recorded; then destroys what it opened, after the channels are gone. */
    void (*stop)(struct bench *bench);
    void (*close)(struct bench *bench);

    /* The bench's own. */
    pthread_mutex_t lock; /* all records, and the list of channels; taken before the device's own locks */
    struct ibv_pd *pd;
    struct ibv_comp_channel *events;
    struct channel **channels;
    unsigned count;
};

/* Each prints what is missing, and how to get it, and returns NULL where it can't. */
struct bench *bench_open_virtual(void); /* the embedded device on a virtual clock */
struct bench *bench_open_udp(void);     /* over its UDP link on this machine's loopback */
struct bench *bench_open_rdma(const char *device, const char *dut, const char *tester, const char *netns);
void bench_close(struct bench *bench);

/* What every bench is made of, once the device's context is open. False and a message. */
bool bench_init(struct bench *bench);
/* A packet of the device, with its ICRC; `frame` is how it came. Takes the lock. */
void bench_arrival(struct bench *bench, uint64_t time, const struct frame *frame, const uint8_t *packet,
                   size_t length);
/* (locked) Take this channel's completions into its record; were there any? */
bool channel_poll(struct channel *channel);
/* Ends the program, with a message: the device under test can't be driven. */
_Noreturn void bench_fail(const char *what, int error);

struct channel *channel_open(struct bench *bench, const struct terms *terms);

#endif
