/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The public calls that may wait. Each reads the same: check, start, and where it was asked to block, run the
 * queue that the socket lives on until that one operation is done.
 */
#include <errno.h>
#include "core/core.h"
#include "wait.h"

#define NS_PER_S UINT64_C(1000000000)

/* ---- Connections ----------------------------------------------------------------------------------------- */

int exs_connect(int sockno, const struct sockaddr *address, socklen_t address_len, int flags,
                const struct timeval *timeout, exs_qhandle_t qhandle, exs_ahandle_t ahandle)
{
    struct wait wait;

    if (xs_enter() < 0)
        return -1;
    if (!(flags & EXS_BLOCK))
        return xs_start_connect(sockno, address, address_len, flags, timeout, qhandle, ahandle, NULL);
    if (wait_begin(&wait) < 0 ||
        xs_start_connect(sockno, address, address_len, flags, timeout, qhandle, ahandle, &wait.waiter) < 0)
        return -1;
    return wait_end(&wait) != NULL ? 0 : -1;
}

int exs_accept(int sockno, exs_acceptaddr_t *addrvec, int addrvec_cnt, int flags, exs_qhandle_t qhandle)
{
    struct wait wait;

    if (xs_enter() < 0)
        return -1;
    if (!(flags & EXS_BLOCK))
        return xs_start_accept(sockno, addrvec, addrvec_cnt, flags, qhandle, NULL);
    if (wait_begin(&wait) < 0 ||
        xs_start_accept(sockno, addrvec, addrvec_cnt, flags, qhandle, &wait.waiter) < 0)
        return -1;
    return wait_end(&wait) != NULL ? 0 : -1;
}

int exs_shutdown(int sockno, int how, int flags, exs_qhandle_t qhandle, exs_ahandle_t ahandle)
{
    struct wait wait;

    if (xs_enter() < 0)
        return -1;
    if (!(flags & EXS_BLOCK))
        return xs_start_shutdown(sockno, how, flags, qhandle, ahandle, NULL);
    if (wait_begin(&wait) < 0 || xs_start_shutdown(sockno, how, flags, qhandle, ahandle, &wait.waiter) < 0)
        return -1;
    return wait_end(&wait) != NULL ? 0 : -1;
}

int exs_close(int sockno, int flags, exs_qhandle_t qhandle, exs_ahandle_t ahandle)
{
    struct wait wait;

    if (xs_enter() < 0)
        return -1;
    enum close_kind kind = xs_close_kind(sockno);

    if (qhandle == NULL ? kind == CLOSE_AT_ONCE || (kind == CLOSE_DRIVEN && !(flags & EXS_BLOCK))
                        : !(flags & EXS_BLOCK))
        return xs_start_close(sockno, flags, qhandle, ahandle, NULL);
    if (wait_begin(&wait) < 0 || xs_start_close(sockno, flags, qhandle, ahandle, &wait.waiter) < 0)
        return -1;
    return wait_end(&wait) != NULL ? 0 : -1;
}

/* ---- Transfers --------------------------------------------------------------------------------------------
 */

static ssize_t bytes_of(const exs_event_t *event)
{
    return event != NULL ? (ssize_t)event->exs_evt_union.exs_evt_xfer.exs_evt_length : -1;
}

ssize_t exs_send(int sockno, const void *buffer, size_t length, int flags, exs_qhandle_t qhandle,
                 exs_ahandle_t ahandle, exs_mhandle_t mhandle)
{
    struct wait wait;

    if (xs_enter() < 0)
        return -1;
    if (!(flags & EXS_BLOCK))
        return xs_start_send(sockno, buffer, length, flags, qhandle, ahandle, mhandle, NULL);
    if (wait_begin(&wait) < 0 ||
        xs_start_send(sockno, buffer, length, flags, qhandle, ahandle, mhandle, &wait.waiter) < 0)
        return -1;
    return bytes_of(wait_end(&wait));
}

ssize_t exs_recv(int sockno, void *buffer, size_t length, int flags, exs_qhandle_t qhandle,
                 exs_ahandle_t ahandle, exs_mhandle_t mhandle)
{
    struct wait wait;

    if (xs_enter() < 0)
        return -1;
    if (!(flags & EXS_BLOCK))
        return xs_start_recv(sockno, buffer, length, flags, qhandle, ahandle, mhandle, NULL);
    if (wait_begin(&wait) < 0 ||
        xs_start_recv(sockno, buffer, length, flags, qhandle, ahandle, mhandle, &wait.waiter) < 0)
        return -1;
    return bytes_of(wait_end(&wait));
}

ssize_t exs_sendfile(int sockno, exs_xferfile_t *sendvec, int sendvec_cnt, int flags, exs_qhandle_t qhandle,
                     exs_ahandle_t ahandle)
{
    struct wait wait;

    if (xs_enter() < 0)
        return -1;
    if (!(flags & EXS_BLOCK))
        return xs_start_sendfile(sockno, sendvec, sendvec_cnt, flags, qhandle, ahandle, NULL);
    if (wait_begin(&wait) < 0 ||
        xs_start_sendfile(sockno, sendvec, sendvec_cnt, flags, qhandle, ahandle, &wait.waiter) < 0)
        return -1;
    return wait_end(&wait) != NULL ? 0 : -1;
}

/* ---- One-sided --------------------------------------------------------------------------------------------
 */

static ssize_t onesided(int sockno, int type, void *buffer, size_t length, const exs_token_t *token,
                        uint64_t offset, int flags, exs_qhandle_t qhandle, exs_ahandle_t ahandle,
                        exs_mhandle_t mhandle)
{
    struct wait wait;

    if (xs_enter() < 0)
        return -1;
    if (!(flags & EXS_BLOCK))
        return xs_start_onesided(sockno, type, buffer, length, token, offset, flags, qhandle, ahandle, mhandle,
                                 NULL);
    if (wait_begin(&wait) < 0 || xs_start_onesided(sockno, type, buffer, length, token, offset, flags, qhandle,
                                                   ahandle, mhandle, &wait.waiter) < 0)
        return -1;
    return bytes_of(wait_end(&wait));
}

ssize_t exs_rread(int sockno, void *buffer, size_t length, const exs_token_t *token, uint64_t offset, int flags,
                  exs_qhandle_t qhandle, exs_ahandle_t ahandle, exs_mhandle_t mhandle)
{
    return onesided(sockno, EXS_EVT_RREAD, buffer, length, token, offset, flags, qhandle, ahandle, mhandle);
}

ssize_t exs_rwrite(int sockno, const void *buffer, size_t length, const exs_token_t *token, uint64_t offset,
                   int flags, exs_qhandle_t qhandle, exs_ahandle_t ahandle, exs_mhandle_t mhandle)
{
    return onesided(sockno, EXS_EVT_RWRITE, (void *)(uintptr_t)buffer, length, token, offset, flags, qhandle,
                    ahandle, mhandle);
}

/* ---- The same, by other names
 * -------------------------------------------------------------------------------- */

int exs_blocking_accept(int sockno, struct sockaddr *address, socklen_t *address_len)
{
    exs_acceptaddr_t element = {.exs_addr = address, .exs_addrlen = address_len != NULL ? *address_len : 0};

    if (address_len == NULL)
        element.exs_addr = NULL;
    if (exs_accept(sockno, &element, 1, EXS_BLOCK, NULL) < 0)
        return -1;
    if (address_len != NULL)
        *address_len = element.exs_addrlen;
    return element.exs_socket;
}

int exs_blocking_connect(int sockno, const struct sockaddr *address, socklen_t address_len)
{
    return exs_connect(sockno, address, address_len, EXS_BLOCK, NULL, NULL, NULL);
}

int exs_blocking_close(int sockno)
{
    return exs_close(sockno, EXS_BLOCK, NULL, NULL);
}

ssize_t exs_blocking_recv(int sockno, void *buffer, size_t max_bytes, int flags, exs_mhandle_t mhandle)
{
    return exs_recv(sockno, buffer, max_bytes, flags | EXS_BLOCK, NULL, NULL, mhandle);
}

ssize_t exs_blocking_send(int sockno, const void *buffer, size_t max_bytes, int flags, exs_mhandle_t mhandle)
{
    return exs_send(sockno, buffer, max_bytes, flags | EXS_BLOCK, NULL, NULL, mhandle);
}

int exs_blocking_sendfile(int sockno, exs_xferfile_t *sendvec, int sendvec_cnt, int flags)
{
    return (int)exs_sendfile(sockno, sendvec, sendvec_cnt, flags | EXS_BLOCK, NULL, NULL);
}

ssize_t exs_read(int sockno, void *buffer, size_t max_bytes)
{
    return exs_recv(sockno, buffer, max_bytes, EXS_BLOCK, NULL, NULL, NULL);
}

ssize_t exs_write(int sockno, const void *buffer, size_t max_bytes)
{
    return exs_send(sockno, buffer, max_bytes, EXS_BLOCK, NULL, NULL, NULL);
}

/* ---- Events -----------------------------------------------------------------------------------------------
 */

int exs_qdequeue(exs_qhandle_t qhandle, exs_event_t *evtvec, int evtvec_cnt, const struct timeval *timeout)
{
    if (xs_enter() < 0)
        return -1;
    if (timeout != NULL && (timeout->tv_sec < 0 || timeout->tv_usec < 0 || timeout->tv_usec >= 1000000)) {
        errno = EFAULT; /* the thesis's word for an invalid time-out (5.2.8) */
        return -1;
    }
    int count = xs_dequeue(qhandle, evtvec, evtvec_cnt, BY_EDGE);

    if (count != 0)
        return count;
    uint64_t now = xs_now(), end = UINT64_MAX;

    if (timeout != NULL)
        end = now + (uint64_t)timeout->tv_sec * NS_PER_S + (uint64_t)timeout->tv_usec * 1000;
    struct queue *queue = xs_queue_get(qhandle); /* nobody deletes it while we sleep on its descriptor */

    if (queue == NULL) {
        errno = EINVAL;
        return -1;
    }
    while (count == 0 && now < end) {
        xs_rest_home(queue);
        if (wait_readable(exs_qfd(qhandle), timeout != NULL ? end - now : UINT64_MAX) < 0)
            break;
        count = xs_dequeue(qhandle, evtvec, evtvec_cnt, BY_EDGE);
        now = xs_now();
    }
    xs_queue_put(queue);
    return count;
}
