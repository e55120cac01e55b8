/* SPDX-License-Identifier: BSD-2-Clause */
/* fake_exs.c - see fake_exs.h. Calls are put into a list, and become events later. */
#include "fake_exs.h"

#include <errno.h>
#include <stdlib.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

struct fake_calls fake_calls = STAILQ_HEAD_INITIALIZER(fake_calls);
int fake_regions, fake_failing, fake_fails_from, fake_stream_errno;
const unsigned char *fake_stream;
size_t fake_stream_left;
bool fake_stream_hurries;
struct timeval fake_limit;
time_t fake_limit_most;
void (*fake_deliver)(void *ahandle, const exs_event_t *event);
void (*fake_sending)(void);

/* ---- Calls --------------------------------------------------------------------------------------------- */

static bool fails(void)
{
    if (fake_failing == 0 || fake_fails_from-- > 0)
        return false;
    errno = fake_failing;
    fake_failing = fake_fails_from = 0;
    return true;
}

static struct fake_call *keep_call(int type, int sock, const void *buffer, size_t length, void *ahandle)
{
    struct fake_call *call;

    if (fails())
        return NULL;
    call = calloc(1, sizeof(*call));
    *call = (struct fake_call){
        .type = type, .sock = sock, .buffer = (void *)(uintptr_t)buffer, .length = length, .ahandle = ahandle};
    STAILQ_INSERT_TAIL(&fake_calls, call, entry);
    return call;
}

ssize_t exs_send(int sockno, const void *buffer, size_t length, int flags, exs_qhandle_t qhandle,
                 exs_ahandle_t ahandle, exs_mhandle_t mhandle)
{
    struct fake_call *call = keep_call(EXS_EVT_SEND, sockno, buffer, length, ahandle);

    (void)flags, (void)qhandle, (void)mhandle;
    if (call == NULL)
        return -1;
    call->sent = malloc(length + 1);
    memcpy(call->sent, buffer, length);
    return 0;
}

ssize_t exs_recv(int sockno, void *buffer, size_t length, int flags, exs_qhandle_t qhandle,
                 exs_ahandle_t ahandle, exs_mhandle_t mhandle)
{
    (void)flags, (void)qhandle, (void)mhandle;
    return keep_call(EXS_EVT_RECV, sockno, buffer, length, ahandle) == NULL ? -1 : 0;
}

static size_t length_of(const exs_xferfile_t *part)
{
    if (part->exs_xfv_type == EXS_FDVEC)
        return (size_t)part->exs_xfv.exs_fdv.exs_length;
    return part->exs_xfv_type == EXS_IOVEC ? part->exs_xfv.exs_iov.exs_length : 0;
}

ssize_t exs_sendfile(int sockno, const exs_xferfile_t *sendvec, int sendvec_cnt, int flags,
                     exs_qhandle_t qhandle, exs_ahandle_t ahandle)
{
    struct fake_call *call = keep_call(EXS_EVT_SENDFILE, sockno, sendvec, 0, ahandle);

    (void)flags, (void)qhandle;
    if (fake_sending != NULL)
        fake_sending();
    if (call == NULL)
        return -1;
    call->vector_count = sendvec_cnt;
    for (int i = 0; i < sendvec_cnt; i++) {
        call->vector[i] = sendvec[i];
        call->length += length_of(&sendvec[i]);
    }
    return 0;
}

ssize_t exs_rread(int sockno, void *buffer, size_t length, const exs_token_t *token, uint64_t offset, int flags,
                  exs_qhandle_t qhandle, exs_ahandle_t ahandle, exs_mhandle_t mhandle)
{
    (void)token, (void)offset, (void)flags, (void)qhandle, (void)mhandle;
    return keep_call(EXS_EVT_RREAD, sockno, buffer, length, ahandle) == NULL ? -1 : 0;
}

ssize_t exs_rwrite(int sockno, const void *buffer, size_t length, const exs_token_t *token, uint64_t offset,
                   int flags, exs_qhandle_t qhandle, exs_ahandle_t ahandle, exs_mhandle_t mhandle)
{
    (void)token, (void)offset, (void)flags, (void)qhandle, (void)mhandle;
    return keep_call(EXS_EVT_RWRITE, sockno, buffer, length, ahandle) == NULL ? -1 : 0;
}

int exs_connect(int sockno, const struct sockaddr *address, socklen_t address_len, int flags,
                const struct timeval *timeout, exs_qhandle_t qhandle, exs_ahandle_t ahandle)
{
    (void)address, (void)address_len, (void)flags, (void)timeout, (void)qhandle;
    return keep_call(EXS_EVT_CONNECT, sockno, NULL, 0, ahandle) == NULL ? -1 : 0;
}

int exs_shutdown(int sockno, int how, int flags, exs_qhandle_t qhandle, exs_ahandle_t ahandle)
{
    (void)how, (void)flags, (void)qhandle;
    return keep_call(EXS_EVT_SHUTDOWN, sockno, NULL, 0, ahandle) == NULL ? -1 : 0;
}

/* Never fails, because its callers could do nothing about it. */
int exs_close(int sockno, int flags, exs_qhandle_t qhandle, exs_ahandle_t ahandle)
{
    int failing = fake_failing;

    (void)flags;
    if (qhandle == NULL)
        return 0;
    fake_failing = 0;
    keep_call(EXS_EVT_CLOSE, sockno, NULL, 0, ahandle);
    fake_failing = failing;
    return 0;
}

int exs_socket(int family, int socktype, int protocol)
{
    (void)family, (void)socktype, (void)protocol;
    return fails() ? -1 : 1;
}

int exs_getdevice(int sockno, char *name, size_t size)
{
    (void)sockno;
    snprintf(name, size, "fake");
    return fails() ? -1 : 0;
}

int exs_setsockopt(int sockno, int level, int option, const void *value, socklen_t value_len)
{
    (void)sockno, (void)level;
    if (fails())
        return -1;
    if (option == SO_RCVTIMEO && value_len == sizeof(fake_limit))
        memcpy(&fake_limit, value, sizeof(fake_limit));
    if (fake_limit.tv_sec > fake_limit_most)
        fake_limit_most = fake_limit.tv_sec;
    return 0;
}

exs_mhandle_t exs_mregister(void *addr, size_t size, int flags)
{
    (void)size, (void)flags;
    if (fails())
        return EXS_MHANDLE_INVALID;
    fake_regions++;
    return addr;
}

int exs_mderegister(exs_mhandle_t mhandle, int flags)
{
    (void)mhandle, (void)flags;
    fake_regions--;
    return 0;
}

int exs_mexport(int sockno, exs_mhandle_t mhandle, void *addr, size_t length, int access, exs_token_t *token)
{
    (void)sockno, (void)mhandle, (void)addr, (void)length, (void)access;
    memset(token, 0, sizeof(*token));
    return fails() ? -1 : 0;
}

/* ---- Blocking calls ------------------------------------------------------------------------------------ */

int exs_blocking_connect(int sockno, const struct sockaddr *address, socklen_t address_len)
{
    (void)sockno, (void)address, (void)address_len;
    return fails() ? -1 : 0;
}

int exs_blocking_close(int sockno)
{
    (void)sockno;
    return fails() ? -1 : 0;
}

ssize_t exs_blocking_recv(int sockno, void *buffer, size_t max_bytes, int flags, exs_mhandle_t mhandle)
{
    size_t length = max_bytes < fake_stream_left ? max_bytes : fake_stream_left;

    (void)sockno, (void)mhandle;
    if (flags & MSG_DONTWAIT && !fake_stream_hurries) {
        errno = EAGAIN;
        return -1;
    }
    if (fails())
        return -1;
    if (length < max_bytes && fake_stream_errno != 0) {
        errno = fake_stream_errno;
        return -1;
    }
    if (length > 0)
        memcpy(buffer, fake_stream, length);
    if (flags & MSG_PEEK)
        return (ssize_t)length;
    fake_stream += length;
    fake_stream_left -= length;
    return (ssize_t)length;
}

ssize_t exs_blocking_send(int sockno, const void *buffer, size_t length, int flags, exs_mhandle_t mhandle)
{
    (void)sockno, (void)buffer, (void)flags, (void)mhandle;
    return fails() ? -1 : (ssize_t)length;
}

int exs_blocking_sendfile(int sockno, const exs_xferfile_t *sendvec, int sendvec_cnt, int flags)
{
    (void)sockno, (void)sendvec, (void)sendvec_cnt, (void)flags;
    if (fake_sending != NULL)
        fake_sending();
    return fails() ? -1 : 0;
}

/* ---- Events -------------------------------------------------------------------------------------------- */

struct fake_call *fake_first(int sock, int type)
{
    struct fake_call *call;

    STAILQ_FOREACH (call, &fake_calls, entry)
        if (call->sock == sock && call->type == type)
            return call;
    return NULL;
}

/* Removes the call and returns its event. */
static exs_event_t end_call(struct fake_call *call, int error, size_t length, int flags)
{
    exs_event_t event = {.exs_evt_type = call->type,
                         .exs_evt_errno = error,
                         .exs_evt_socket = call->sock,
                         .exs_evt_ahandle = call->ahandle};

    if (call->type == EXS_EVT_SENDFILE)
        event.exs_evt_union.exs_evt_xferfile = (exs_evt_xferfile_t){.exs_evt_vec = call->buffer,
                                                                    .exs_evt_vec_cnt = call->vector_count,
                                                                    .exs_evt_length = (off_t)length};
    else if (call->type != EXS_EVT_CONNECT && call->type != EXS_EVT_CLOSE)
        event.exs_evt_union.exs_evt_xfer = (exs_evt_xfer_t){call->buffer, length, flags};
    STAILQ_REMOVE(&fake_calls, call, fake_call, entry);
    free(call->sent);
    free(call);
    return event;
}

void fake_complete(struct fake_call *call, int error, size_t length, int flags)
{
    exs_event_t event = end_call(call, error, length, flags);

    fake_deliver(event.exs_evt_ahandle, &event);
}

/* Completes the first call. A program must not wait if it has no call. */
int exs_qdequeue(exs_qhandle_t qhandle, exs_event_t *evtvec, int evtvec_cnt, const struct timeval *timeout)
{
    struct fake_call *call = STAILQ_FIRST(&fake_calls);
    int error = fails() ? errno : 0;

    (void)qhandle, (void)timeout;
    if (call == NULL || evtvec_cnt < 1)
        abort();
    *evtvec = end_call(call, error, error == 0 ? call->length : 0, 0);
    return 1;
}

exs_qhandle_t exs_qcreate(int depth)
{
    static char queue;

    (void)depth;
    return fails() ? EXS_QHANDLE_INVALID : (exs_qhandle_t)&queue;
}

int exs_qdelete(exs_qhandle_t qhandle)
{
    (void)qhandle;
    return 0;
}

size_t fake_arrive(int sock, const void *bytes, size_t length)
{
    struct fake_call *call = fake_first(sock, EXS_EVT_RECV);

    if (call == NULL)
        return 0;
    if (length > call->length)
        length = call->length;
    if (length > 0)
        memcpy(call->buffer, bytes, length);
    fake_complete(call, 0, length, 0);
    return length;
}

bool fake_message(int sock, const void *bytes, size_t length)
{
    struct fake_call *call = fake_first(sock, EXS_EVT_RECV);

    if (call == NULL)
        return false;
    size_t room = call->length < length ? call->length : length;

    if (room > 0)
        memcpy(call->buffer, bytes, room);
    fake_complete(call, 0, room, room < length ? MSG_TRUNC : 0);
    return true;
}

ssize_t fake_sent(int sock, void *bytes, size_t most)
{
    struct fake_call *call = fake_first(sock, EXS_EVT_SEND);

    if (call == NULL)
        return -1;
    size_t length = call->length;

    memcpy(bytes, call->sent, length < most ? length : most);
    fake_complete(call, 0, length, 0);
    return (ssize_t)length;
}

static void read_part(const exs_xferfile_t *part, unsigned char *out)
{
    if (part->exs_xfv_type == EXS_IOVEC)
        memcpy(out, part->exs_xfv.exs_iov.exs_base, part->exs_xfv.exs_iov.exs_length);
    else if (pread(part->exs_xfv.exs_fdv.exs_fildes, out, length_of(part), part->exs_xfv.exs_fdv.exs_offset) !=
             (ssize_t)length_of(part))
        abort();
}

ssize_t fake_sent_file(int sock, void *bytes, size_t most)
{
    struct fake_call *call = fake_first(sock, EXS_EVT_SENDFILE);
    unsigned char *out = bytes;

    if (call == NULL)
        return -1;
    size_t length = call->length;

    if (length > most)
        abort();
    for (int i = 0; i < call->vector_count; i++) {
        read_part(&call->vector[i], out);
        out += length_of(&call->vector[i]);
    }
    fake_complete(call, 0, length, 0);
    return (ssize_t)length;
}

static struct fake_call *cancelled_by_close(int sock)
{
    struct fake_call *call;

    STAILQ_FOREACH (call, &fake_calls, entry)
        if (call->sock == sock && call->type != EXS_EVT_CLOSE)
            return call;
    return NULL;
}

bool fake_closed(int sock)
{
    struct fake_call *call;

    if (fake_first(sock, EXS_EVT_CLOSE) == NULL)
        return false;
    while ((call = cancelled_by_close(sock)) != NULL)
        fake_complete(call, ECANCELED, 0, 0);
    fake_complete(fake_first(sock, EXS_EVT_CLOSE), 0, 0, 0);
    return true;
}

void fake_reset(void)
{
    while (!STAILQ_EMPTY(&fake_calls)) {
        struct fake_call *call = STAILQ_FIRST(&fake_calls);

        STAILQ_REMOVE_HEAD(&fake_calls, entry);
        free(call->sent);
        free(call);
    }
    fake_regions = fake_failing = fake_fails_from = fake_stream_errno = 0;
    fake_stream_left = 0;
    fake_stream_hurries = false;
    fake_limit = (struct timeval){0};
    fake_limit_most = 0;
}
