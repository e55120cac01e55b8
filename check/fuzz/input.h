/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * input.h - what a fuzzer gives to a harness, taken apart in small pieces: each decision is one byte or a few.
 *
 * Where the input has ended every piece is zero, so a harness needs no checks of its own but the one that ends
 * its loop: input_left.
 */
#ifndef CHECK_FUZZ_INPUT_H
#define CHECK_FUZZ_INPUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* Plain data, the harness's; the bytes are libFuzzer's and are never written. */
struct input {
    const uint8_t *at;
    size_t left;
};

/* What libFuzzer calls, in every harness: the same bytes have the same effects, whatever came before. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static inline size_t input_left(const struct input *input)
{
    return input->left;
}

/* Up to `length` of the next bytes, which stay where they are; returns how many there were. */
static inline size_t input_bytes(struct input *input, const uint8_t **bytes, size_t length)
{
    size_t got = length < input->left ? length : input->left;

    *bytes = input->at;
    input->at += got;
    input->left -= got;
    return got;
}

/* Little-endian, of 1 to 8 bytes. */
static inline uint64_t input_number(struct input *input, size_t bytes)
{
    const uint8_t *at;
    size_t got = input_bytes(input, &at, bytes);
    uint64_t value = 0;

    for (size_t i = 0; i < got; i++)
        value |= (uint64_t)at[i] << 8 * i;
    return value;
}

static inline uint8_t input_u8(struct input *input)
{
    return (uint8_t)input_number(input, 1);
}

static inline uint16_t input_u16(struct input *input)
{
    return (uint16_t)input_number(input, 2);
}

static inline uint32_t input_u32(struct input *input)
{
    return (uint32_t)input_number(input, 4);
}

static inline uint64_t input_u64(struct input *input)
{
    return input_number(input, 8);
}

/* 0 to limit - 1, of one byte where that is enough. */
static inline uint32_t input_below(struct input *input, uint32_t limit)
{
    return (uint32_t)(input_number(input, limit <= 256 ? 1 : 4) % limit);
}

#endif
