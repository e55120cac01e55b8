/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * pattern.h - what is sent, so that what arrives can be judged: every segment of every operation, iteration and
 * connection has bytes of its own, and every 8 of them differ from their neighbours.
 */
#ifndef EXSTEST_PATTERN_H
#define EXSTEST_PATTERN_H

#include <stddef.h>
#include <stdint.h>

#define GUARD_BYTE 0xC5

/* The number from which a segment's bytes are made. */
uint64_t pattern_seed(uint64_t session, uint32_t connection, int op, uint32_t segment, uint32_t iteration);
void pattern_put(void *memory, size_t length, uint64_t seed);
/* The first byte that is not as it should be, or length. */
size_t pattern_differs(const void *memory, size_t length, uint64_t seed);
unsigned pattern_byte(size_t at, uint64_t seed);

#endif
