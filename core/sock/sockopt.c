/* SPDX-License-Identifier: BSD-2-Clause */
/* sockopt.c - exs_getsockopt and exs_setsockopt: the options of a socket. */
#include <errno.h>
#include <limits.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <string.h>
#include "core/base/clock.h"
#include "core/base/log.h"
#include "core/base/settings.h"
#include "core/conn/conn.h"
#include "sock.h"

union value {
    int number;
    struct timeval time;
    struct linger linger;
};

/* The functions are called with the socket's lock. */
struct option {
    int level, name;
    socklen_t size; /* bytes of its value */
    void (*get)(const struct sock *sock, union value *value);
    int (*set)(struct sock *sock, const union value *value); /* -1 and errno; NULL: read-only */
};

/* ---- Properties of a socket --------------------------------------------------------------------------- */

static void get_domain(const struct sock *sock, union value *value)
{
    value->number = sock->family;
}

static void get_type(const struct sock *sock, union value *value)
{
    value->number = sock->type;
}

static void get_protocol(const struct sock *sock, union value *value)
{
    (void)sock;
    value->number = 0;
}

static void get_accepts(const struct sock *sock, union value *value)
{
    value->number = sock->state == SOCK_LISTENING;
}

/* The errno that broke the connection. An orderly close by the peer is no error: receives report the end. */
static void get_error(const struct sock *sock, union value *value)
{
    const struct conn *conn = sock->conn;

    value->number = sock->connect_error;
    if (sock->state == SOCK_CONNECTED &&
        !(conn->state.reading >= READ_ENDED && conn->state.error == ECONNRESET))
        value->number = conn->state.error;
}

/* ---- Buffers ----------------------------------------------------------------------------------------- */

/* A SEQPACKET has no ring buffer: its messages wait at the sender. */
static void get_receive_buffer(const struct sock *sock, union value *value)
{
    value->number = sock_is_stream(sock) ? (int)xs_recv_ring_size(sock) : 0;
}

static int check_positive(const union value *value)
{
    return value->number > 0 ? 0 : xs_invalid("invalid buffer size %d", value->number);
}

/* Bytes as a ring buffer has them: a power of 2. */
static uint32_t round_receive_buffer(int bytes)
{
    uint32_t size = RECV_RING_MIN;

    while (size < (uint32_t)bytes && size < RECV_RING_MAX)
        size *= 2;
    return size;
}

/* A connection starts with a ring buffer of this size, which then does not grow (ring.c). So the option must be set
 * before. */
static int set_receive_buffer(struct sock *sock, const union value *value)
{
    if (!sock_is_stream(sock))
        return xs_fails(ENOPROTOOPT);
    if (check_positive(value) < 0)
        return -1;
    if (sock->state == SOCK_CONNECTING || sock->state == SOCK_CONNECTED)
        return xs_fails(EISCONN);
    sock->options.receive_buffer = round_receive_buffer(value->number);
    return 0;
}

static void get_send_buffer(const struct sock *sock, union value *value)
{
    value->number = sock->options.send_buffer != 0 ? sock->options.send_buffer : INT_MAX;
}

static void bound_sends(struct sock *sock, int bytes)
{
    sock->options.send_buffer = bytes < INT_MAX ? bytes : 0;
    xs_sends_bound_changed(sock);
}

static int set_send_buffer(struct sock *sock, const union value *value)
{
    if (check_positive(value) < 0)
        return -1;
    bound_sends(sock, value->number);
    return 0;
}

void xs_sock_set_defaults(struct sock *sock)
{
    if (settings()->receive_buffer > 0 && sock_is_stream(sock))
        sock->options.receive_buffer = round_receive_buffer(settings()->receive_buffer);
    if (settings()->send_buffer > 0)
        bound_sends(sock, settings()->send_buffer);
}

static void get_refuses(const struct sock *sock, union value *value)
{
    value->number = sock->options.refuses;
}

static int set_refuses(struct sock *sock, const union value *value)
{
    sock->options.refuses = value->number != 0;
    return 0;
}

/* ---- Time ---------------------------------------------------------------------------------------- */

static void to_time(uint64_t ns, union value *value)
{
    value->time.tv_sec = (time_t)(ns / NS_PER_S);
    value->time.tv_usec = (suseconds_t)(ns % NS_PER_S / 1000);
}

static int from_time(const union value *value, uint64_t *ns)
{
    if (ns_timeval(&value->time, ns))
        return 0;
    return xs_refuse(EDOM, "invalid timeout: %lld s %lld us", (long long)value->time.tv_sec,
                     (long long)value->time.tv_usec);
}

static void get_receive_limit(const struct sock *sock, union value *value)
{
    to_time(sock->receive_limit, value);
}

static int set_receive_limit(struct sock *sock, const union value *value)
{
    int result = from_time(value, &sock->receive_limit);

    xs_receives_bound_changed(sock);
    return result;
}

static void get_send_limit(const struct sock *sock, union value *value)
{
    to_time(sock->send_limit, value);
}

static int set_send_limit(struct sock *sock, const union value *value)
{
    if (from_time(value, &sock->send_limit) < 0)
        return -1;
    xs_sends_bound_changed(sock);
    return 0;
}

static void get_linger(const struct sock *sock, union value *value)
{
    value->linger.l_onoff = sock->options.lingers;
    value->linger.l_linger = (int)(sock->options.linger / NS_PER_S);
}

static int set_linger(struct sock *sock, const union value *value)
{
    if (value->linger.l_linger < 0)
        return xs_refuse(EDOM, "to linger for %d s is impossible", value->linger.l_linger);
    sock->options.lingers = value->linger.l_onoff != 0;
    sock->options.linger = (uint64_t)value->linger.l_linger * NS_PER_S;
    return 0;
}

/* ---- Keepalive ----------------------------------------------------------------------------------------- */

#define KEEP_MAX 32767 /* s, the same limit as TCP */
#define COUNT_MAX 127
#define USER_TIMEOUT_MAX (KEEP_MAX * 1000) /* ms */

static int restart_probe(struct sock *sock)
{
    if (sock->state == SOCK_CONNECTED)
        xs_probe_start(sock->conn);
    return 0;
}

static void get_keeps_alive(const struct sock *sock, union value *value)
{
    value->number = sock->options.keeps_alive;
}

static int set_keeps_alive(struct sock *sock, const union value *value)
{
    sock->options.keeps_alive = value->number != 0;
    return restart_probe(sock);
}

static void get_chosen(uint32_t chosen, int otherwise, union value *value)
{
    value->number = chosen != 0 ? (int)chosen : otherwise;
}

static int set_chosen(struct sock *sock, const union value *value, int most, uint32_t *chosen)
{
    if (value->number < 1 || value->number > most)
        return xs_invalid("%d is not from 1 to %d", value->number, most);
    *chosen = (uint32_t)value->number;
    return restart_probe(sock);
}

static void get_keep_idle(const struct sock *sock, union value *value)
{
    get_chosen(sock->options.keep_idle, PROBE_S, value);
}

static int set_keep_idle(struct sock *sock, const union value *value)
{
    return set_chosen(sock, value, KEEP_MAX, &sock->options.keep_idle);
}

static void get_keep_interval(const struct sock *sock, union value *value)
{
    get_chosen(sock->options.keep_interval, PROBE_S, value);
}

static int set_keep_interval(struct sock *sock, const union value *value)
{
    return set_chosen(sock, value, KEEP_MAX, &sock->options.keep_interval);
}

static void get_keep_count(const struct sock *sock, union value *value)
{
    get_chosen(sock->options.keep_count, PROBES, value);
}

static int set_keep_count(struct sock *sock, const union value *value)
{
    return set_chosen(sock, value, COUNT_MAX, &sock->options.keep_count);
}

static void get_user_timeout(const struct sock *sock, union value *value)
{
    value->number = (int)sock->options.user_timeout;
}

static int set_user_timeout(struct sock *sock, const union value *value)
{
    if (value->number < 0 || value->number > USER_TIMEOUT_MAX)
        return xs_invalid("%d ms is not from 0 to %d", value->number, USER_TIMEOUT_MAX);
    sock->options.user_timeout = (uint32_t)value->number;
    if (sock->state == SOCK_CONNECTED)
        xs_conn_limit_outage(sock->conn);
    return 0;
}

/* ---- Addresses ------------------------------------------------------------------------------------ */

static void get_reuses(const struct sock *sock, union value *value)
{
    value->number = sock->options.reuses;
}

static int set_reuses(struct sock *sock, const union value *value)
{
    sock->options.reuses = value->number != 0;
    return 0;
}

static void get_ipv6_only(const struct sock *sock, union value *value)
{
    value->number = sock->options.ipv6_only;
}

static int set_ipv6_only(struct sock *sock, const union value *value)
{
    if (sock->state != SOCK_FRESH)
        return xs_invalid("socket %d has its address already", sock->number);
    sock->options.ipv6_only = value->number != 0;
    return 0;
}

/* ---- All ----------------------------------------------------------------------------------------- */

#define NUMBER sizeof(int)

static const struct option options[] = {
    {SOL_SOCKET, SO_DOMAIN, NUMBER, get_domain, NULL},
    {SOL_SOCKET, SO_TYPE, NUMBER, get_type, NULL},
    {SOL_SOCKET, SO_PROTOCOL, NUMBER, get_protocol, NULL},
    {SOL_SOCKET, SO_ACCEPTCONN, NUMBER, get_accepts, NULL},
    {SOL_SOCKET, SO_ERROR, NUMBER, get_error, NULL},
    {SOL_SOCKET, SO_RCVBUF, NUMBER, get_receive_buffer, set_receive_buffer},
    {SOL_SOCKET, SO_SNDBUF, NUMBER, get_send_buffer, set_send_buffer},
    {SOL_SOCKET, EXS_SO_SENDLIMIT, NUMBER, get_refuses, set_refuses},
    {SOL_SOCKET, SO_RCVTIMEO, sizeof(struct timeval), get_receive_limit, set_receive_limit},
    {SOL_SOCKET, SO_SNDTIMEO, sizeof(struct timeval), get_send_limit, set_send_limit},
    {SOL_SOCKET, SO_LINGER, sizeof(struct linger), get_linger, set_linger},
    {SOL_SOCKET, SO_REUSEADDR, NUMBER, get_reuses, set_reuses},
    {SOL_SOCKET, SO_KEEPALIVE, NUMBER, get_keeps_alive, set_keeps_alive},
    {IPPROTO_TCP, TCP_KEEPIDLE, NUMBER, get_keep_idle, set_keep_idle},
    {IPPROTO_TCP, TCP_KEEPINTVL, NUMBER, get_keep_interval, set_keep_interval},
    {IPPROTO_TCP, TCP_KEEPCNT, NUMBER, get_keep_count, set_keep_count},
    {IPPROTO_TCP, TCP_USER_TIMEOUT, NUMBER, get_user_timeout, set_user_timeout},
    {IPPROTO_IPV6, IPV6_V6ONLY, NUMBER, get_ipv6_only, set_ipv6_only},
};

/* NULL and ENOPROTOOPT. */
static const struct option *find_option(const struct sock *sock, int level, int name)
{
    bool has_level = level != IPPROTO_IPV6 || sock->family == PF_INET6;

    for (size_t i = 0; i < sizeof(options) / sizeof(options[0]); i++) {
        if (has_level && options[i].level == level && options[i].name == name)
            return &options[i];
    }
    xs_explain(ENOPROTOOPT, "unknown option: level %d has no option %d", level, name);
    return NULL;
}

/* Copy as much of the value as fits, like getsockopt(2). */
static int get_option(const struct sock *sock, const struct option *option, void *value, socklen_t *value_len)
{
    union value held;
    socklen_t size = option->size;

    if (*value_len < size)
        size = *value_len;
    if (value == NULL && size > 0)
        return xs_nowhere("value");
    option->get(sock, &held);
    if (size > 0)
        memcpy(value, &held, size);
    *value_len = size;
    return 0;
}

int exs_getsockopt(int sockno, int level, int option, void *value, socklen_t *value_len)
{
    int result = -1;
    struct sock *sock = xs_sock_enter(__func__, sockno);

    if (sock == NULL)
        return -1;
    const struct option *found = find_option(sock, level, option);

    if (found == NULL)
        ;
    else if (value_len == NULL)
        xs_nowhere("value_len");
    else if (*value_len > INT_MAX)
        xs_invalid("value_len is %d", (int)*value_len);
    else
        result = get_option(sock, found, value, value_len);
    xs_sock_put_locked(sock);
    return result;
}

static int change_option(struct sock *sock, const struct option *option, const void *value, socklen_t value_len)
{
    union value wanted;

    if (option->set == NULL)
        return xs_refuse(ENOPROTOOPT, "option %d of level %d can't be changed", option->name, option->level);
    if (value_len < option->size || value_len > INT_MAX)
        return xs_invalid("value_len is %d: the option has %d bytes", (int)value_len, (int)option->size);
    if (value == NULL) {
        xs_invalid("value is NULL");
        return xs_fails(xs_last_call.error = EFAULT);
    }
    memcpy(&wanted, value, option->size);
    return option->set(sock, &wanted);
}

int exs_setsockopt(int sockno, int level, int option, const void *value, socklen_t value_len)
{
    struct sock *sock = xs_sock_enter(__func__, sockno);

    if (sock == NULL)
        return -1;
    const struct option *found = find_option(sock, level, option);
    int result = found != NULL ? change_option(sock, found, value, value_len) : -1;

    xs_sock_put_locked(sock);
    return result;
}
