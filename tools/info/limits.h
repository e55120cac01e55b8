/* SPDX-License-Identifier: BSD-2-Clause */
/* limits.h - the system limits for a process that uses EXS. */
#ifndef INFO_LIMITS_H
#define INFO_LIMITS_H

#include <stdint.h>

/* Bytes that a connection pins, without the application's buffers. */
#define LIMITS_CONNECTION (UINT64_C(296) << 10)
#define LIMITS_NONE UINT64_MAX

struct limits {
    uint64_t memlock;          /* bytes, or LIMITS_NONE */
    uint64_t descriptors;      /* a number, or LIMITS_NONE */
    int first_port, last_port; /* range of ephemeral ports; 0: unknown */
};

struct limits limits_read(void);

#endif
