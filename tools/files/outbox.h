/* SPDX-License-Identifier: BSD-2-Clause */
/* outbox.h - replies and small files that exs-serve sends on a connection in one operation: each of its own would cost
 * as much as storing or reading the file. */
#ifndef FILES_OUTBOX_H
#define FILES_OUTBOX_H

#include <stdbool.h>
#include <stddef.h>

#include "giving.h"

enum {
    OUTBOX_BYTES = 128 << 10,
    OUTBOX_FILE_MAX = 64 << 10 /* bytes of a file that is sent in this way */
};

/* Owned by its connection. While it is being sent nothing is put into it. */
struct outbox {
    size_t length; /* bytes */
    unsigned char bytes[OUTBOX_BYTES];
};

/* Whether there is room for any reply. */
bool outbox_takes_reply(const struct outbox *outbox);
void outbox_put(struct outbox *outbox, const void *bytes, size_t length);
/* Whether it is a small file or a link, which is sent from here. */
bool outbox_suits(const struct giving *giving);
/* Whether there is room for it. */
bool outbox_takes(const struct outbox *outbox, const struct giving *giving);
/* Puts all of it, to its end. 0, or -1 and errno: EIO if the file became shorter. */
int outbox_put_giving(struct outbox *outbox, struct giving *giving);

#endif
