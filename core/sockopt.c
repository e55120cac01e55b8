/* SPDX-License-Identifier: BSD-2-Clause */
/* The options of a socket, each as it holds: exs_getsockopt. */
#include <errno.h>
#include <limits.h>
#include <string.h>
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

/* As much of the answer as there is room for, as getsockopt(2) does. */
static int answer(int answer, void *value, socklen_t *value_len)
{
    socklen_t size = *value_len < sizeof(answer) ? *value_len : sizeof(answer);

    if (value == NULL && size > 0)
        return xs_nowhere("value");
    if (size > 0)
        memcpy(value, &answer, size);
    *value_len = size;
    return 0;
}

int exs_getsockopt(int sockno, int level, int option, void *value, socklen_t *value_len)
{
    int result = -1, held;
    struct sock *sock = xs_sock_enter(sockno);

    if (sock == NULL)
        return -1;
    if (value_len == NULL)
        xs_nowhere("value_len");
    else if (*value_len > INT_MAX)
        xs_invalid("value_len says %d bytes", (int)*value_len);
    else if (value_of(sock, level, option, &held) == 0)
        result = answer(held, value, value_len);
    xs_sock_put_locked(sock);
    return result;
}
