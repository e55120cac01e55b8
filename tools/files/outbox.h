/* SPDX-License-Identifier: BSD-2-Clause */
/* outbox.h - replies and small files that exs-serve sends on a connection in one operation. A separate send for each
 * would cost as much as storing or reading the file. */
#ifndef FILES_OUTBOX_H
#define FILES_OUTBOX_H

#include <stdbool.h>
#include <stddef.h>

#include "giving.h"

enum {
    OUTBOX_BYTES = 128 << 10,
    OUTBOX_FILE_MAX = 64 << 10 /* maximum bytes of a file that is sent from the outbox */
};

/* Owned by its connection. The owner must not add to it while it is being sent. */
struct outbox {
    size_t length; /* bytes */
    unsigned char bytes[OUTBOX_BYTES];
};

/* Whether a reply of any length fits. */
bool outbox_takes_reply(const struct outbox *outbox);
void outbox_put(struct outbox *outbox, const void *bytes, size_t length);
/* Whether it is a small file or a link, which is sent from the outbox. */
bool outbox_suits(const struct giving *giving);
/* Whether this file or link fits. */
bool outbox_takes(const struct outbox *outbox, const struct giving *giving);
/* Adds all bytes of this file or link. Returns 0, or -1 and errno: EIO if the file became shorter. */
int outbox_put_giving(struct outbox *outbox, struct giving *giving);

#endif
