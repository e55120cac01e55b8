/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * blocking.c - the public calls that may block. Each one fills a struct ask with its arguments; do_ask() starts the
 * operation and, with EXS_BLOCK, runs the queue that drives the socket until that operation has completed.
 */
#include <errno.h>
#include "core/base/clock.h"
#include "core/api/core.h"
#include "wait.h"

/* The return value of the call. */
static inline ssize_t result_of(const struct ask *ask, const exs_event_t *event)
{
    if (event == NULL)
        return -1;
    switch (event->exs_evt_type) {
    case EXS_EVT_SEND:
    case EXS_EVT_RECV:
    case EXS_EVT_RREAD:
    case EXS_EVT_RWRITE:
        return (ssize_t)event->exs_evt_union.exs_evt_xfer.exs_evt_length;
    case EXS_EVT_RECVMSG:
        ask->message->exs_msg_flags = event->exs_evt_union.exs_evt_xfermsg.exs_evt_flags;
        /* fall through */
    case EXS_EVT_SENDMSG:
        return (ssize_t)event->exs_evt_union.exs_evt_xfermsg.exs_evt_length;
    case EXS_EVT_RECVFILE:
        return (ssize_t)event->exs_evt_union.exs_evt_xferfile.exs_evt_length;
    default:
        return 0;
    }
}

/* This function and the next one are out of line, because calls that don't block don't need them. */
static __attribute__((noinline)) ssize_t wait_for(struct ask *ask)
{
    struct wait wait;

    wait_begin(&wait);
    ask->waiter = &wait.waiter;
    if (xs_start(ask, ask->type) < 0)
        return -1;
    return result_of(ask, wait_end(&wait));
}

/* For EXS_INTR. */
static __attribute__((noinline)) ssize_t wait_or_signal(struct ask *ask)
{
    ssize_t result = -1;
    struct wait wait;
    sigset_t held;

    if (!(ask->flags & EXS_BLOCK))
        return xs_invalid("flags has EXS_INTR without EXS_BLOCK");
    wait_begin(&wait);
    ask->waiter = &wait.waiter;
    hold_signals(&held);
    if (xs_start(ask, ask->type) == 0)
        result = result_of(ask, wait_end_or_signal(&wait, ask->sockno, &held));
    release_signals(&held);
    return result;
}

/* The socket has O_NONBLOCK. */
static __attribute__((noinline)) ssize_t do_not_wait(struct ask *ask)
{
    switch (xs_prepare_nonblocking(ask)) {
    case NONBLOCKING_AT_ONCE:
        return wait_for(ask);
    case NONBLOCKING_IN_BACKGROUND:
        if (xs_start(ask, ask->type) < 0)
            return -1;
        return ask->type == EXS_EVT_CONNECT ? xs_fails(EINPROGRESS) : 0;
    default:
        return -1;
    }
}

/* Start the operation, and with EXS_BLOCK wait for it. Returns 0 or the number of bytes; -1 and errno. */
static inline __attribute__((always_inline)) ssize_t do_ask(int type, struct ask *ask)
{
    ask->type = (short)type;
    if (xs_enter_ask(ask) < 0)
        return -1;
    if ((ask->flags & (EXS_BLOCK | EXS_INTR)) == 0)
        return xs_start(ask, type);
    if (ask->flags & EXS_BLOCK && xs_is_nonblocking(ask->sockno))
        return do_not_wait(ask);
    return ask->flags & EXS_INTR ? wait_or_signal(ask) : wait_for(ask);
}

/* ---- Connections ----------------------------------------------------------------------------------------- */

int exs_connect(int sockno, const struct sockaddr *address, socklen_t address_len, int flags,
                const struct timeval *timeout, exs_qhandle_t qhandle, exs_ahandle_t ahandle)
{
    const struct destination to = {.address = address, .address_length = address_len, .timeout = timeout};

    return (int)do_ask(
        EXS_EVT_CONNECT,
        &(struct ask){.sockno = sockno, .flags = flags, .qhandle = qhandle, .ahandle = ahandle, .to = &to});
}

int exs_connect_host(int sockno, const char *host, const char *service, int flags,
                     const struct timeval *timeout, exs_qhandle_t qhandle, exs_ahandle_t ahandle)
{
    const struct destination to = {.by_name = true, .host = host, .service = service, .timeout = timeout};

    return (int)do_ask(
        EXS_EVT_CONNECT,
        &(struct ask){.sockno = sockno, .flags = flags, .qhandle = qhandle, .ahandle = ahandle, .to = &to});
}

int exs_accept(int sockno, exs_acceptaddr_t *addrvec, int addrvec_cnt, int flags, exs_qhandle_t qhandle)
{
    return (int)do_ask(
        EXS_EVT_ACCEPT,
        &(struct ask){
            .sockno = sockno, .flags = flags, .qhandle = qhandle, .accepts = addrvec, .count = addrvec_cnt});
}

int exs_shutdown(int sockno, int how, int flags, exs_qhandle_t qhandle, exs_ahandle_t ahandle)
{
    return (int)do_ask(
        EXS_EVT_SHUTDOWN,
        &(struct ask){.sockno = sockno, .flags = flags, .qhandle = qhandle, .ahandle = ahandle, .how = how});
}

/* If neither a queue of the application nor a thread of the library can drive the socket (EAGAIN), the connection breaks,
 * and the call only waits until the device has released the memory. */
static int close_socket(int sockno, int flags, exs_qhandle_t qhandle, exs_ahandle_t ahandle)
{
    struct ask ask = {
        .type = EXS_EVT_CLOSE, .sockno = sockno, .flags = flags, .qhandle = qhandle, .ahandle = ahandle};

    if (!(flags & EXS_BLOCK)) {
        int result = xs_start(&ask, ask.type);

        if (result == 0 || qhandle != NULL || errno != EAGAIN)
            return result;
        ask.how = CLOSE_ABORTS;
    }
    return (int)wait_for(&ask);
}

int exs_close(int sockno, int flags, exs_qhandle_t qhandle, exs_ahandle_t ahandle)
{
    if (xs_enter_socket(__func__, sockno) < 0)
        return -1;
    if (!xs_number_is_lost(sockno))
        return close_socket(sockno, flags, qhandle, ahandle);
    if (close_socket(sockno, flags & EXS_BLOCK, NULL, NULL) == 0) /* no event for this close */
        errno = EBADF;
    return -1;
}

/* ---- Transfers ----------------------------------------------------------------------------------- */

ssize_t exs_send(int sockno, const void *buffer, size_t length, int flags, exs_qhandle_t qhandle,
                 exs_ahandle_t ahandle, exs_mhandle_t mhandle)
{
    return do_ask(EXS_EVT_SEND, &(struct ask){.sockno = sockno,
                                              .flags = flags,
                                              .qhandle = qhandle,
                                              .ahandle = ahandle,
                                              .buffer = (void *)(uintptr_t)buffer,
                                              .length = length,
                                              .mhandle = mhandle});
}

ssize_t exs_recv(int sockno, void *buffer, size_t length, int flags, exs_qhandle_t qhandle,
                 exs_ahandle_t ahandle, exs_mhandle_t mhandle)
{
    return do_ask(EXS_EVT_RECV, &(struct ask){.sockno = sockno,
                                              .flags = flags,
                                              .qhandle = qhandle,
                                              .ahandle = ahandle,
                                              .buffer = buffer,
                                              .length = length,
                                              .mhandle = mhandle});
}

ssize_t exs_sendmsg(int sockno, const exs_msghdr_t *message, int flags, exs_qhandle_t qhandle,
                    exs_ahandle_t ahandle)
{
    return do_ask(EXS_EVT_SENDMSG, &(struct ask){.sockno = sockno,
                                                 .flags = flags,
                                                 .qhandle = qhandle,
                                                 .ahandle = ahandle,
                                                 .message = (exs_msghdr_t *)(uintptr_t)message});
}

ssize_t exs_recvmsg(int sockno, exs_msghdr_t *message, int flags, exs_qhandle_t qhandle, exs_ahandle_t ahandle)
{
    return do_ask(
        EXS_EVT_RECVMSG,
        &(struct ask){
            .sockno = sockno, .flags = flags, .qhandle = qhandle, .ahandle = ahandle, .message = message});
}

ssize_t exs_sendfile(int sockno, const exs_xferfile_t *sendvec, int sendvec_cnt, int flags,
                     exs_qhandle_t qhandle, exs_ahandle_t ahandle)
{
    return do_ask(EXS_EVT_SENDFILE, &(struct ask){.sockno = sockno,
                                                  .flags = flags,
                                                  .qhandle = qhandle,
                                                  .ahandle = ahandle,
                                                  .files = sendvec,
                                                  .count = sendvec_cnt});
}

ssize_t exs_recvfile(int sockno, const exs_xferfile_t *recvvec, int recvvec_cnt, int flags,
                     exs_qhandle_t qhandle, exs_ahandle_t ahandle)
{
    return do_ask(EXS_EVT_RECVFILE, &(struct ask){.sockno = sockno,
                                                  .flags = flags,
                                                  .qhandle = qhandle,
                                                  .ahandle = ahandle,
                                                  .files = recvvec,
                                                  .count = recvvec_cnt});
}

/* ---- One-sided ----------------------------------------------------------------------------------- */

ssize_t exs_rread(int sockno, void *buffer, size_t length, const exs_token_t *token, uint64_t offset, int flags,
                  exs_qhandle_t qhandle, exs_ahandle_t ahandle, exs_mhandle_t mhandle)
{
    return do_ask(EXS_EVT_RREAD, &(struct ask){.sockno = sockno,
                                               .flags = flags,
                                               .qhandle = qhandle,
                                               .ahandle = ahandle,
                                               .buffer = buffer,
                                               .length = length,
                                               .mhandle = mhandle,
                                               .token = token,
                                               .offset = offset});
}

ssize_t exs_rwrite(int sockno, const void *buffer, size_t length, const exs_token_t *token, uint64_t offset,
                   int flags, exs_qhandle_t qhandle, exs_ahandle_t ahandle, exs_mhandle_t mhandle)
{
    return do_ask(EXS_EVT_RWRITE, &(struct ask){.sockno = sockno,
                                                .flags = flags,
                                                .qhandle = qhandle,
                                                .ahandle = ahandle,
                                                .buffer = (void *)(uintptr_t)buffer,
                                                .length = length,
                                                .mhandle = mhandle,
                                                .token = token,
                                                .offset = offset});
}

/* ---- Synonyms ----------------------------------------------------------------------------------------- */

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

int exs_blocking_connect_host(int sockno, const char *host, const char *service)
{
    return exs_connect_host(sockno, host, service, EXS_BLOCK, NULL, NULL, NULL);
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

ssize_t exs_blocking_recvmsg(int sockno, exs_msghdr_t *message, int flags)
{
    return exs_recvmsg(sockno, message, flags | EXS_BLOCK, NULL, NULL);
}

ssize_t exs_blocking_sendmsg(int sockno, const exs_msghdr_t *message, int flags)
{
    return exs_sendmsg(sockno, message, flags | EXS_BLOCK, NULL, NULL);
}

int exs_blocking_sendfile(int sockno, const exs_xferfile_t *sendvec, int sendvec_cnt, int flags)
{
    return (int)exs_sendfile(sockno, sendvec, sendvec_cnt, flags | EXS_BLOCK, NULL, NULL);
}

ssize_t exs_blocking_recvfile(int sockno, const exs_xferfile_t *recvvec, int recvvec_cnt, int flags)
{
    return exs_recvfile(sockno, recvvec, recvvec_cnt, flags | EXS_BLOCK, NULL, NULL);
}

ssize_t exs_read(int sockno, void *buffer, size_t max_bytes)
{
    return exs_recv(sockno, buffer, max_bytes, EXS_BLOCK, NULL, NULL, NULL);
}

ssize_t exs_write(int sockno, const void *buffer, size_t max_bytes)
{
    return exs_send(sockno, buffer, max_bytes, EXS_BLOCK, NULL, NULL, NULL);
}

/* ---- Events -------------------------------------------------------------------------------------- */

int exs_qdequeue(exs_qhandle_t qhandle, exs_event_t *evtvec, int evtvec_cnt, const struct timeval *timeout)
{
    if (xs_enter(__func__) < 0)
        return -1;
    uint64_t limit = NEVER_NS;

    if (timeout != NULL && !ns_timeval(timeout, &limit)) {
        /* the thesis specifies this errno for an invalid timeout (5.2.8) */
        xs_invalid("timeout is %lld s and %lld us", (long long)timeout->tv_sec, (long long)timeout->tv_usec);
        return xs_fails(xs_last_call.error = EFAULT);
    }
    int count = xs_dequeue(qhandle, evtvec, evtvec_cnt);

    if (count != 0)
        return count;
    uint64_t now = now_ns(), end = ns_after(now, limit);
    /* the reference keeps the queue while this thread sleeps on its descriptor */
    struct queue *queue = xs_queue_get(qhandle);

    if (queue == NULL) {
        errno = EINVAL; /* another thread has deleted the queue */
        return -1;
    }
    while (count == 0 && now < end) {
        if (!xs_spin_for_events(queue, end)) {
            now = now_ns();
            xs_prepare_sleep_home(queue);
            if (now < end && wait_readable(exs_qfd(qhandle), ns_left(end, now)) < 0)
                break;
        }
        count = xs_dequeue(qhandle, evtvec, evtvec_cnt);
        now = now_ns();
    }
    xs_queue_put(queue);
    return count;
}

int exs_qpoll(exs_qhandle_t qhandle, exs_event_t *evtvec, int evtvec_cnt, int budget_us)
{
    if (xs_enter(__func__) < 0)
        return -1;
    if (budget_us == EXS_LOOP_BUDGET)
        return xs_dequeue_in_loop(qhandle, evtvec, evtvec_cnt);
    if (budget_us < 0 || budget_us > EXS_WAIT_US_MAX)
        return xs_invalid("budget_us is %d: it must be 0 to EXS_WAIT_US_MAX, %d, or EXS_LOOP_BUDGET", budget_us,
                          EXS_WAIT_US_MAX);
    int count = xs_dequeue(qhandle, evtvec, evtvec_cnt);

    if (count != 0 || budget_us == 0)
        return count;
    struct queue *queue = xs_queue_get(qhandle);

    if (queue == NULL)
        return xs_no_queue(qhandle); /* another thread has deleted it */
    if (xs_spin_for_budget(queue, (uint64_t)budget_us * 1000))
        count = xs_dequeue(qhandle, evtvec, evtvec_cnt);
    xs_queue_put(queue);
    return count;
}

int exs_qprepare(exs_qhandle_t qhandle)
{
    if (xs_enter(__func__) < 0)
        return -1;
    struct queue *queue = xs_queue_get(qhandle);

    if (queue == NULL)
        return xs_no_queue(qhandle);
    xs_prepare_sleep_in_loop(queue);
    xs_queue_put(queue);
    return 0;
}
