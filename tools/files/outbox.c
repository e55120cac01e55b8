/* SPDX-License-Identifier: BSD-2-Clause */
/* outbox.c - copies small files into a send buffer, instead of sending them from the page cache. See outbox.h. */
#include "outbox.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

bool outbox_takes_reply(const struct outbox *outbox)
{
    return OUTBOX_BYTES - outbox->length >= TRANSFER_REPLY + TRANSFER_TEXT_MAX;
}

void outbox_put(struct outbox *outbox, const void *bytes, size_t length)
{
    memcpy(outbox->bytes + outbox->length, bytes, length);
    outbox->length += length;
}

bool outbox_suits(const struct giving *giving)
{
    bool has_data = giving->fd != -1 || giving->is_link;

    return has_data && !giving_reads(giving) && giving->size - giving->from <= OUTBOX_FILE_MAX;
}

bool outbox_takes(const struct outbox *outbox, const struct giving *giving)
{
    size_t length = giving->front_length + (size_t)(giving->size - giving->from) + TRANSFER_DIGEST;

    return OUTBOX_BYTES - outbox->length >= length;
}

static int put_part(struct outbox *outbox, const exs_xferfile_t *part)
{
    const exs_fdvec_t *fdv = &part->exs_xfv.exs_fdv;
    ssize_t got;

    if (part->exs_xfv_type == EXS_IOVEC) {
        outbox_put(outbox, part->exs_xfv.exs_iov.exs_base, part->exs_xfv.exs_iov.exs_length);
        return 0;
    }
    for (size_t done = 0; done < fdv->exs_length; done += (size_t)got) {
        got = pread(fdv->exs_fildes, outbox->bytes + outbox->length, fdv->exs_length - done,
                    fdv->exs_offset + (off_t)done);
        if (got <= 0) {
            errno = got == 0 ? EIO : errno;
            return -1;
        }
        outbox->length += (size_t)got;
    }
    return 0;
}

int outbox_put_giving(struct outbox *outbox, struct giving *giving)
{
    exs_xferfile_t vector[GIVING_PARTS];

    while (!giving->over) {
        int count = giving_next(giving, vector);

        if (count == -1)
            return -1;
        for (int i = 0; i < count; i++)
            if (put_part(outbox, &vector[i]) == -1)
                return -1;
    }
    return 0;
}
