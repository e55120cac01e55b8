/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * frames.h - Ethernet frames on their way through the switch, ordered by the time at which they are due.
 *
 * A frame_heap is a binary heap. It owns the frames in it; frame_heap_pop() gives the ownership of one to the caller,
 * who frees it with free(3).
 */
#ifndef CHECK_NETWORK_FRAMES_H
#define CHECK_NETWORK_FRAMES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct frame {
    uint64_t due_ns; /* of the monotonic clock */
    uint64_t
        sequence;  /* of two frames that are due at the same time the one with the lower number leaves first */
    size_t length; /* bytes of data */
    int from;      /* index of the port that the frame came from */
    unsigned char data[];
};

struct frame_heap {
    struct frame **frames;
    size_t count;
    size_t capacity;
};

/* A copy of the bytes. Ends the program when memory is exhausted. */
struct frame *frame_new(const unsigned char *data, size_t length);

/* Takes the ownership of the frame. Ends the program when memory is exhausted. */
void frame_heap_push(struct frame_heap *heap, struct frame *frame);

/* The frame that is due first, or NULL. The heap keeps it. */
const struct frame *frame_heap_first(const struct frame_heap *heap);

/* Removes the frame that is due first and returns it. The heap must not be empty. */
struct frame *frame_heap_pop(struct frame_heap *heap);

#endif
