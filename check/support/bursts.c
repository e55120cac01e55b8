/* SPDX-License-Identifier: BSD-2-Clause */
/* bursts.c - see bursts.h. */
#include "bursts.h"
#include "roce.h"

static const char *fault_of(const struct soft_link *link, size_t length, unsigned packets,
                            const size_t sizes[SOFT_BURST_PACKETS])
{
    if (length > (link->room != NULL ? SOFT_BURST_LONG : SOFT_BURST_MAX))
        return "a burst is longer than its link takes";
    for (unsigned i = 0; i < packets; i++) {
        if (sizes[i] < link->trailer + ROCE_BTH)
            return "a packet of a burst has no room for a BTH and the trailer";
        if (link->trailer == 0 && sizes[i] > ROCE_MAX)
            return "a packet is longer than any packet";
    }
    return NULL;
}

static unsigned even_sizes(size_t length, size_t stride, size_t sizes[SOFT_BURST_PACKETS], const char **fault)
{
    unsigned packets = 0;

    for (size_t at = 0; at < length; at += stride) {
        if (packets == SOFT_BURST_PACKETS) {
            *fault = "a burst has more than SOFT_BURST_PACKETS packets";
            return 0;
        }
        sizes[packets++] = length - at < stride ? length - at : stride;
    }
    return packets;
}

unsigned burst_sizes(const struct soft_link *link, size_t length, size_t stride,
                     size_t sizes[SOFT_BURST_PACKETS], const char **fault)
{
    unsigned packets = 0;

    *fault = NULL;
    if (length == 0)
        *fault = "an empty burst was sent";
    else if (stride == 0)
        *fault = "the packets of a burst have no length";
    else
        packets = even_sizes(length, stride, sizes, fault);
    if (*fault == NULL)
        *fault = fault_of(link, length, packets, sizes);
    return *fault == NULL ? packets : 0;
}
