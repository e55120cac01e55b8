/* SPDX-License-Identifier: BSD-2-Clause */
/* frames.c - a binary heap of frames, ordered by due time. */
#include "check/network/frames.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static _Noreturn void fail_without_memory(void)
{
    fprintf(stderr, "switch: out of memory for frames\n");
    exit(1);
}

struct frame *frame_new(const unsigned char *data, size_t length)
{
    struct frame *frame = calloc(1, sizeof(*frame) + length);

    if (frame == NULL)
        fail_without_memory();
    frame->length = length;
    memcpy(frame->data, data, length);
    return frame;
}

static bool is_before(const struct frame *a, const struct frame *b)
{
    return a->due_ns != b->due_ns ? a->due_ns < b->due_ns : a->sequence < b->sequence;
}

void frame_heap_push(struct frame_heap *heap, struct frame *frame)
{
    size_t at = heap->count;

    if (heap->count == heap->capacity) {
        size_t capacity = heap->capacity == 0 ? 1024 : 2 * heap->capacity;
        struct frame **frames = realloc(heap->frames, capacity * sizeof(struct frame *));

        if (frames == NULL)
            fail_without_memory();
        heap->frames = frames;
        heap->capacity = capacity;
    }
    heap->count++;
    for (size_t parent; at > 0 && is_before(frame, heap->frames[parent = (at - 1) / 2]); at = parent)
        heap->frames[at] = heap->frames[parent];
    heap->frames[at] = frame;
}

const struct frame *frame_heap_first(const struct frame_heap *heap)
{
    return heap->count == 0 ? NULL : heap->frames[0];
}

struct frame *frame_heap_pop(struct frame_heap *heap)
{
    struct frame *first = heap->frames[0], *last = heap->frames[--heap->count];
    size_t at = 0, child;

    while ((child = 2 * at + 1) < heap->count) {
        if (child + 1 < heap->count && is_before(heap->frames[child + 1], heap->frames[child]))
            child++;
        if (!is_before(heap->frames[child], last))
            break;
        heap->frames[at] = heap->frames[child];
        at = child;
    }
    heap->frames[at] = last;
    return first;
}
