/* SPDX-License-Identifier: BSD-2-Clause */
/* limits.h - what the system allows a process that uses EXS. */
#ifndef INFO_LIMITS_H
#define INFO_LIMITS_H

#include <stdint.h>

#define LIMITS_CONNECTION (UINT64_C(296) << 10) /* bytes that a connection pins, before the program's buffers  \
                                                 */
#define LIMITS_NONE UINT64_MAX

struct limits {
    uint64_t memlock;          /* bytes, or LIMITS_NONE */
    uint64_t descriptors;      /* likewise */
    int first_port, last_port; /* that a socket gets which asks for none; 0: unknown */
};

struct limits limits_read(void);

#endif
