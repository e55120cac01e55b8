/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * pattern.h - test data that the receiver can check. The bytes depend on session, connection, operation, segment and
 * iteration, and each group of 8 bytes differs from the next.
 */
#ifndef EXSTEST_PATTERN_H
#define EXSTEST_PATTERN_H

#include <stddef.h>
#include <stdint.h>

#define GUARD_BYTE 0xC5

/* Returns the seed of a segment's bytes. */
uint64_t pattern_seed(uint64_t session, uint32_t connection, int op, uint32_t segment, uint32_t iteration);
void pattern_put(void *memory, size_t length, uint64_t seed);
/* Returns the offset of the first wrong byte, or length. */
size_t pattern_differs(const void *memory, size_t length, uint64_t seed);
unsigned pattern_byte(size_t at, uint64_t seed);

#endif
