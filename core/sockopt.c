/* SPDX-License-Identifier: BSD-2-Clause */
/* The options of a socket, each as it holds, and those that can be changed: exs_getsockopt, exs_setsockopt. */
#include <errno.h>
#include <limits.h>
#include <string.h>
#include "clock.h"
#include "conn.h"
#include "core.h"
#include "library.h"
#include "sock.h"

/* What broke the connection, if it is. A peer that has left in good order is no error: receives tell of the
 * end. */
static int error_of(const struct sock *sock)
{
    const struct conn *conn = sock->conn;

    if (sock->state != SOCK_CONNECTED)
        return 0;
    return conn->reading == READ_ENDED && conn->error == ECONNRESET ? 0 : conn->error;
}

/* Called with the socket's lock. -1 and ENOPROTOOPT. */
static int value_of(const struct sock *sock, int level, int option, int *value)
{
    switch (level == SOL_SOCKET ? option : -1) {
    case SO_DOMAIN:
        *value = sock->family;
        return 0;
    case SO_TYPE:
        *value = sock->type;
        return 0;
    case SO_PROTOCOL:
        *value = 0;
        return 0;
    case SO_ERROR:
        *value = error_of(sock);
        return 0;
    case SO_ACCEPTCONN:
        *value = sock->state == SOCK_LISTENING;
        return 0;
    case SO_RCVBUF: /* a message of a SEQPACKET waits at the peer */
        *value = sock->type == SOCK_STREAM ? HIDDEN_SIZE : 0;
        return 0;
    case SO_SNDBUF: /* a send is never refused for what others have pending */
        *value = INT_MAX;
        return 0;
    default:
        xs_log("level %d has no option %d that exs_getsockopt knows", level, option);
        errno = ENOPROTOOPT;
        return -1;
    }
}

/* Of an option that is a length of time, where it is kept, in ns; NULL: it is another. */
static uint64_t *limit_of(struct sock *sock, int level, int option)
{
    if (level != SOL_SOCKET)
        return NULL;
    return option == SO_RCVTIMEO ? &sock->receive_limit : option == SO_SNDTIMEO ? &sock->send_limit : NULL;
}

/* As much of the answer as there is room for, as getsockopt(2) does. */
static int answer(const void *held, size_t size, void *value, socklen_t *value_len)
{
    if (*value_len < size)
        size = *value_len;
    if (value == NULL && size > 0)
        return xs_nowhere("value");
    if (size > 0)
        memcpy(value, held, size);
    *value_len = (socklen_t)size;
    return 0;
}

static int get(struct sock *sock, int level, int option, void *value, socklen_t *value_len)
{
    const uint64_t *limit = limit_of(sock, level, option);
    int held;

    if (limit != NULL) {
        struct timeval time = {.tv_sec = (time_t)(*limit / NS_PER_S),
                               .tv_usec = (suseconds_t)(*limit % NS_PER_S / 1000)};

        return answer(&time, sizeof(time), value, value_len);
    }
    return value_of(sock, level, option, &held) < 0 ? -1 : answer(&held, sizeof(held), value, value_len);
}

int exs_getsockopt(int sockno, int level, int option, void *value, socklen_t *value_len)
{
    int result = -1;
    struct sock *sock = xs_sock_enter(sockno);

    if (sock == NULL)
        return -1;
    if (value_len == NULL)
        xs_nowhere("value_len");
    else if (*value_len > INT_MAX)
        xs_invalid("value_len says %d bytes", (int)*value_len);
    else
        result = get(sock, level, option, value, value_len);
    xs_sock_put_locked(sock);
    return result;
}

/* ---- Changing them ------------------------------------------------------------------------------ */

static int set_limit(uint64_t *limit, const void *value, socklen_t value_len)
{
    struct timeval time;
    uint64_t ns;

    if (value_len < sizeof(time))
        return xs_invalid("value_len is %d: a struct timeval has %zu bytes", (int)value_len, sizeof(time));
    if (value == NULL)
        return xs_nowhere("value");
    memcpy(&time, value, sizeof(time));
    if (!ns_timeval(&time, &ns)) {
        xs_log("a limit of %lld s and %lld us is none", (long long)time.tv_sec, (long long)time.tv_usec);
        errno = EDOM;
        return -1;
    }
    *limit = ns;
    return 0;
}

int exs_setsockopt(int sockno, int level, int option, const void *value, socklen_t value_len)
{
    int result = -1;
    struct sock *sock = xs_sock_enter(sockno);

    if (sock == NULL)
        return -1;
    uint64_t *limit = limit_of(sock, level, option);

    if (limit != NULL) {
        result = set_limit(limit, value, value_len);
    } else {
        xs_log("level %d has no option %d that exs_setsockopt changes", level, option);
        errno = ENOPROTOOPT;
    }
    xs_sock_put_locked(sock);
    return result;
}
