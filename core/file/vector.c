/* SPDX-License-Identifier: BSD-2-Clause */
/* vector.c - the segments of a message. See vector.h. */
#include <errno.h>
#include <stdlib.h>
#include "core/base/nofault.h"
#include "core/base/log.h"
#include "core/memory/memory.h"
#include "core/queue/op.h"
#include "vector.h"

static int check_element(const exs_iovec_t *element, int index)
{
    if (element->exs_flags != 0)
        return xs_invalid("exs_flags of element %d is 0x%x: must be 0 in a message", index,
                          (unsigned)element->exs_flags);
    if (element->exs_base == NULL && element->exs_length > 0)
        return xs_invalid("exs_base of element %d is NULL", index);
    return element->exs_length > EXS_MSG_MAX ? xs_too_long(element->exs_length) : 0;
}

int xs_vector_check(const exs_msghdr_t *message, size_t *length)
{
    if (message == NULL || message->exs_iov == NULL)
        return xs_invalid("%s is NULL", message == NULL ? "the message" : "exs_iov");
    if (message->exs_iovlen < 1 || message->exs_iovlen > EXS_IOV_MAX)
        return xs_invalid("exs_iovlen is %d: from 1 to EXS_IOV_MAX, %d", message->exs_iovlen, EXS_IOV_MAX);
    *length = 0;
    for (int i = 0; i < message->exs_iovlen; i++) {
        if (check_element(&message->exs_iov[i], i) < 0)
            return -1;
        *length += message->exs_iov[i].exs_length;
    }
    return *length > EXS_MSG_MAX ? xs_too_long(*length) : 0;
}

static int use_memory(const exs_iovec_t *element, int forbidden, struct memory **memory)
{
    return xs_memory_use(element->exs_mhandle, element->exs_base, element->exs_length, forbidden, memory);
}

struct piece *xs_vector_pieces(const exs_msghdr_t *message, int forbidden)
{
    struct piece *pieces = calloc((size_t)message->exs_iovlen, sizeof(*pieces));
    int done = 0;

    if (pieces == NULL)
        return NULL;
    for (; done < message->exs_iovlen; done++) {
        const exs_iovec_t *element = &message->exs_iov[done];

        pieces[done] = (struct piece){.base = element->exs_base, .length = element->exs_length};
        if (use_memory(element, forbidden, &pieces[done].memory) < 0)
            break;
    }
    if (done == message->exs_iovlen)
        return pieces;
    xs_vector_leave(pieces, done);
    free(pieces); /* free() preserves errno */
    return NULL;
}

void xs_vector_leave(struct piece *pieces, int count)
{
    for (int i = 0; i < count; i++) {
        if (pieces[i].memory != NULL)
            xs_memory_unuse(pieces[i].memory);
    }
}

int xs_vector_gather(const exs_msghdr_t *message, uint8_t *to)
{
    struct gather gather;
    bool copied = true;

    gather_begin(&gather, to);
    for (int i = 0; i < message->exs_iovlen && copied; i++) {
        const exs_iovec_t *element = &message->exs_iov[i];
        struct memory *memory;

        if (use_memory(element, EXS_MRF_SEND_DISABLE, &memory) < 0)
            return -1;
        copied = gather_add(&gather, element->exs_base, element->exs_length, xs_memory_lasts(memory));
        if (memory != NULL)
            xs_memory_unuse(memory);
    }
    if (copied && gather_end(&gather))
        return 0;
    errno = EACCES;
    return -1;
}
