/* SPDX-License-Identifier: BSD-2-Clause */
/* trains.c - packets that are equally far apart, or of which each says how long the next one is. */
#include "trains.h"
#include "roce.h"

static const char *fault_of(const struct soft_link *link, size_t length, unsigned packets,
                            const size_t sizes[SOFT_TRAIN_PACKETS])
{
    if (length > (link->room != NULL ? SOFT_TRAIN_LONG : SOFT_TRAIN_MAX))
        return "a train is longer than its link takes";
    for (unsigned i = 0; i < packets; i++) {
        if (sizes[i] < link->trailer + ROCE_BTH)
            return "a packet of a train has no room for a BTH and the trailer";
        if (link->trailer == 0 && sizes[i] > ROCE_MAX)
            return "a packet is longer than any packet";
    }
    return NULL;
}

/* The last one says it of the first. */
static unsigned coalesced_sizes(const uint8_t *train, size_t length, size_t sizes[SOFT_TRAIN_PACKETS],
                                const char **fault)
{
    size_t size = soft_chained(train + length), at = 0;
    unsigned packets = 0;

    for (; at < length; packets++) {
        if (packets == SOFT_TRAIN_PACKETS)
            *fault = "a train has more than SOFT_TRAIN_PACKETS coalesced packets";
        else if (size == 0 || size > length - at)
            *fault = "coalesced packets don't end where their train does";
        if (*fault != NULL)
            return 0;
        sizes[packets] = size;
        at += size;
        size = soft_chained(train + at);
    }
    if (packets < 2)
        *fault = "a packet alone is coalesced with none";
    return packets;
}

static unsigned even_sizes(size_t length, size_t stride, size_t sizes[SOFT_TRAIN_PACKETS], const char **fault)
{
    unsigned packets = 0;

    for (size_t at = 0; at < length; at += stride) {
        if (packets == SOFT_TRAIN_PACKETS) {
            *fault = "a train has more than SOFT_TRAIN_PACKETS packets";
            return 0;
        }
        sizes[packets++] = length - at < stride ? length - at : stride;
    }
    return packets;
}

unsigned train_sizes(const struct soft_link *link, const struct soft_path *path, const uint8_t *train,
                     size_t length, size_t stride, size_t sizes[SOFT_TRAIN_PACKETS], const char **fault)
{
    unsigned packets = 0;

    *fault = NULL;
    if (length == 0)
        *fault = "an empty train was sent";
    else if (path->coalesced && stride != 0 && length > stride)
        *fault = "packets that may be coalesced are not";
    else if (!path->coalesced && stride == 0)
        *fault = "packets are coalesced that may not be";
    else if (stride == 0)
        packets = coalesced_sizes(train, length, sizes, fault);
    else
        packets = even_sizes(length, stride, sizes, fault);
    if (*fault == NULL)
        *fault = fault_of(link, length, packets, sizes);
    return *fault == NULL ? packets : 0;
}
