/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * input.h - divides the fuzzer's input into small pieces: a decision takes one byte or a few.
 *
 * After the end of the input all pieces are zero. A harness need not check for the end, except in its main loop, with
 * input_left.
 */
#ifndef CHECK_FUZZ_INPUT_H
#define CHECK_FUZZ_INPUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* The rest of the input. libFuzzer owns the bytes, and nothing writes to them. */
struct input {
    const uint8_t *at;
    size_t left;
};

/* libFuzzer calls this in each harness. The same bytes must have the same effects, whatever inputs came before. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static inline size_t input_left(const struct input *input)
{
    return input->left;
}

/* Takes up to `length` bytes, without copying them; returns how many there were. */
static inline size_t input_bytes(struct input *input, const uint8_t **bytes, size_t length)
{
    size_t got = length < input->left ? length : input->left;

    *bytes = input->at;
    input->at += got;
    input->left -= got;
    return got;
}

/* A little-endian number of 1 to 8 bytes. */
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

/* 0 to limit - 1; takes one byte if that is enough, otherwise four. */
static inline uint32_t input_below(struct input *input, uint32_t limit)
{
    return (uint32_t)(input_number(input, limit <= 256 ? 1 : 4) % limit);
}

#endif
