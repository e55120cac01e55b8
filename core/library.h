/* SPDX-License-Identifier: BSD-2-Clause */
/* library.h - the state of the whole library: initialised or not, devices, the debug log. */
#ifndef XS_LIBRARY_H
#define XS_LIBRARY_H

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "core.h"
#include "device.h"

/* Lines of advice on standard error, when EXS_DEBUG is set in the environment: say what to do. */
void xs_log(const char *format, ...) __attribute__((cold, format(printf, 1, 2)));

/* The same, whether that is set or not: under EXS_CHECK, what the program must not do. With EXS_CHECK=abort
 * that is its end. */
void xs_misused(const char *format, ...) __attribute__((cold, format(printf, 1, 2)));

/* -1, with this errno. */
static inline int xs_fails(int error)
{
    errno = error;
    return -1;
}

/* As xs_invalid, for flags of which only these are allowed, and for more bytes than EXS_MSG_MAX. */
int xs_bad_flags(int flags, int allowed) __attribute__((cold));
int xs_too_long(size_t length) __attribute__((cold));
/* What is to hold a result is NULL, or can't be there: -1 and EFAULT, and in the log which. */
int xs_nowhere(const char *argument) __attribute__((cold));

/* The devices that EXS_DEVICE lets us use, in the order in which they are tried. */
int xs_devices(void);
const struct device *xs_device(int index);
/* False when EXS_DEVICE names another. */
bool xs_device_allowed(const struct ibv_context *context);

#endif
