/* SPDX-License-Identifier: BSD-2-Clause */
/* bytes.h - encodes and decodes integers in messages: big-endian, 1 to 8 bytes wide, unaligned. */
#ifndef TOOLS_BYTES_H
#define TOOLS_BYTES_H

#include <endian.h>
#include <stdint.h>
#include <string.h>

/* Writes an integer, and returns the address after it. */
static inline unsigned char *bytes_put(unsigned char *at, unsigned width, uint64_t value)
{
    value = htobe64(value << (64 - 8 * width));
    memcpy(at, &value, width);
    return at + width;
}

static inline uint64_t bytes_get(const unsigned char *at, unsigned width)
{
    uint64_t value = 0;

    memcpy(&value, at, width);
    return be64toh(value) >> (64 - 8 * width);
}

#endif
