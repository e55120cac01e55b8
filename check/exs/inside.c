/* SPDX-License-Identifier: BSD-2-Clause */
/* inside.c - see inside.h. */
#include "inside.h"

#include "core/queue/nic.h"
#include "core/sock/sock.h"
#include "soft/service/home.h"

struct conn *conn_of(int socket)
{
    struct sock *sock = xs_sock_get(socket);

    ck_assert_ptr_nonnull(sock);
    struct conn *conn = sock->conn;

    xs_sock_put(sock);
    ck_assert_ptr_nonnull(conn);
    return conn;
}

struct service_member *service_of(int socket)
{
    return &home_of(conn_of(socket)->nic->context)->service;
}

void cut_requests(const struct pair *pair, uint32_t bytes)
{
    conn_of(pair->client)->nic->max_request = bytes;
    conn_of(pair->server)->nic->max_request = bytes;
}
