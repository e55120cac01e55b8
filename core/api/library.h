/* SPDX-License-Identifier: BSD-2-Clause */
/* library.h - the state of the whole library: initialized or not, devices, the debug log. */
#ifndef XS_LIBRARY_H
#define XS_LIBRARY_H

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "core.h"
#include "core/device/device.h"

/* Writes a line to standard error if the environment sets EXS_DEBUG. Lines say what failed and what to do. Keeps
 * errno. */
void xs_log(const char *format, ...) __attribute__((cold, format(printf, 1, 2)));

/* Reports a mistake of the program (EXS_CHECK), whether EXS_DEBUG is set or not. With EXS_CHECK=abort it aborts the
 * process. */
void xs_misused(const char *format, ...) __attribute__((cold, format(printf, 1, 2)));

/* Sets errno and returns -1. */
static inline int xs_fails(int error)
{
    errno = error;
    return -1;
}

/* Like xs_invalid(): for flags other than the allowed ones, and for a length of more than EXS_MSG_MAX. */
int xs_bad_flags(int flags, int allowed) __attribute__((cold));
int xs_too_long(size_t length) __attribute__((cold));
/* Logs that the argument for a result is NULL or not valid. Returns -1 and EFAULT. */
int xs_nowhere(const char *argument) __attribute__((cold));

/* The devices that EXS_DEVICE permits, in the order in which they are tried: their number, and one of them. */
int xs_devices(void);
const struct device *xs_device(int index);
/* Returns false if EXS_DEVICE names another device. */
bool xs_device_allowed(const struct ibv_context *context);

#endif
