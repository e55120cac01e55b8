/* SPDX-License-Identifier: BSD-2-Clause */
/* flights.c - see flights.h. A binary heap by arrival time, then by order of sending, and a list of delayed packets. */
#include "flights.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void *flights_must(void *memory)
{
    if (!memory) {
        fprintf(stderr, "virtual network: out of memory: give the test more, or fewer packets\n");
        abort();
    }
    return memory;
}

static bool earlier(const struct flight *a, const struct flight *b)
{
    return a->time != b->time ? a->time < b->time : a->order < b->order;
}

static void push(struct flights *flights, struct flight *flight)
{
    if (flights->count == flights->room) {
        flights->room = flights->room ? flights->room * 2 : 256;
        flights->heap = flights_must(realloc(flights->heap, flights->room * sizeof *flights->heap));
    }
    size_t at = flights->count++;
    for (; at && earlier(flight, flights->heap[(at - 1) / 2]); at = (at - 1) / 2)
        flights->heap[at] = flights->heap[(at - 1) / 2];
    flights->heap[at] = flight;
}

static struct flight *pop(struct flights *flights)
{
    struct flight *top = flights->heap[0], *last = flights->heap[--flights->count];
    size_t at = 0, child;
    while ((child = 2 * at + 1) < flights->count) {
        if (child + 1 < flights->count && earlier(flights->heap[child + 1], flights->heap[child]))
            child++;
        if (!earlier(flights->heap[child], last))
            break;
        flights->heap[at] = flights->heap[child];
        at = child;
    }
    if (flights->count)
        flights->heap[at] = last;
    return top;
}

static struct flight *copy(struct flights *flights, uint64_t time, const void *packet, size_t length,
                           unsigned from, unsigned to)
{
    /* A link guarantees no alignment: the packets start at different ones. */
    size_t skew = flights->order & 3;
    struct flight *flight = flights_must(malloc(sizeof *flight + skew + length));
    *flight =
        (struct flight){.time = time, .order = flights->order++, .from = from, .to = to, .length = length};
    flight->packet = flight->room + skew;
    memcpy(flight->packet, packet, length);
    return flight;
}

struct flight *flights_add(struct flights *flights, uint64_t time, const void *packet, size_t length,
                           unsigned from, unsigned to)
{
    struct flight *flight = copy(flights, time, packet, length, from, to);
    push(flights, flight);
    return flight;
}

void flights_hold(struct flights *flights, uint64_t time, const void *packet, size_t length, unsigned from,
                  unsigned to)
{
    struct flight *flight = copy(flights, time, packet, length, from, to);
    flight->next = flights->held;
    flights->held = flight;
}

void flights_release(struct flights *flights, uint64_t time, unsigned from, unsigned to)
{
    for (struct flight **link = &flights->held; *link;) {
        struct flight *flight = *link;
        if (flight->from != from || flight->to != to) {
            link = &flight->next;
            continue;
        }
        *link = flight->next;
        flight->time = time;
        flight->order = flights->order++;
        push(flights, flight);
    }
}

uint64_t flights_next(const struct flights *flights)
{
    uint64_t time = flights->count ? flights->heap[0]->time : UINT64_MAX;
    for (const struct flight *flight = flights->held; flight; flight = flight->next)
        if (flight->time < time)
            time = flight->time;
    return time;
}

/* These packets were not overtaken in time, and arrive without it. */
static void release_late(struct flights *flights, uint64_t now)
{
    for (struct flight **link = &flights->held; *link;) {
        struct flight *flight = *link;
        if (flight->time > now) {
            link = &flight->next;
            continue;
        }
        *link = flight->next;
        push(flights, flight);
    }
}

struct flight *flights_take(struct flights *flights, uint64_t now, int to)
{
    release_late(flights, now);
    if (!flights->count || flights->heap[0]->time > now || (to >= 0 && flights->heap[0]->to != (unsigned)to))
        return NULL;
    return pop(flights);
}

void flights_drop(struct flights *flights)
{
    while (flights->count)
        free(pop(flights));
    while (flights->held) {
        struct flight *flight = flights->held;
        flights->held = flight->next;
        free(flight);
    }
    free(flights->heap);
    *flights = (struct flights){0};
}
