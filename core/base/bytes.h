/* SPDX-License-Identifier: BSD-2-Clause */
/* bytes.h - reading and writing big-endian integers of 16 to 64 bits in messages, at any alignment. The put functions
 * return the address after the integer. */
#ifndef XS_BYTES_H
#define XS_BYTES_H

#include <endian.h>
#include <stdint.h>
#include <string.h>

static inline uint8_t *put16(uint8_t *at, uint16_t value)
{
    value = htobe16(value);
    memcpy(at, &value, sizeof(value));
    return at + sizeof(value);
}

static inline uint8_t *put32(uint8_t *at, uint32_t value)
{
    value = htobe32(value);
    memcpy(at, &value, sizeof(value));
    return at + sizeof(value);
}

static inline uint8_t *put64(uint8_t *at, uint64_t value)
{
    value = htobe64(value);
    memcpy(at, &value, sizeof(value));
    return at + sizeof(value);
}

static inline uint16_t get16(const uint8_t *at)
{
    uint16_t value;

    memcpy(&value, at, sizeof(value));
    return be16toh(value);
}

static inline uint32_t get24(const uint8_t *at)
{
    return (uint32_t)at[0] << 16 | (uint32_t)at[1] << 8 | at[2];
}

static inline uint32_t get32(const uint8_t *at)
{
    uint32_t value;

    memcpy(&value, at, sizeof(value));
    return be32toh(value);
}

static inline uint64_t get64(const uint8_t *at)
{
    uint64_t value;

    memcpy(&value, at, sizeof(value));
    return be64toh(value);
}

#endif
