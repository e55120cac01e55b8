/* SPDX-License-Identifier: BSD-2-Clause */
/* name.c - a socket's addresses, and the name of the device that carries it. */
#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include "core/base/log.h"
#include "core/conn/conn.h"
#include "core/device/registry.h"
#include "core/queue/nic.h"
#include "sock.h"

/* The id that has the socket's addresses, or NULL. */
static struct rdma_cm_id *known_id(const struct sock *sock)
{
    if (sock->device >= 0)
        return sock->id[sock->device];
    for (int device = 0; device < DEVICES_MAX; device++) {
        if (sock->id[device] != NULL)
            return sock->id[device];
    }
    return NULL;
}

/* The IPv4-mapped IPv6 address. */
static struct sockaddr_in6 map_address(const struct sockaddr_in *in)
{
    struct sockaddr_in6 in6 = {.sin6_family = AF_INET6, .sin6_port = in->sin_port};
    uint8_t *bytes = in6.sin6_addr.s6_addr;

    bytes[10] = bytes[11] = 0xff;
    memcpy(&bytes[12], &in->sin_addr, sizeof(in->sin_addr));
    return in6;
}

void xs_copy_address(int family, const struct sockaddr *from, struct sockaddr *to, socklen_t *length)
{
    socklen_t size = family == AF_INET6 ? sizeof(struct sockaddr_in6) : sizeof(struct sockaddr_in);
    struct sockaddr_in6 mapped;

    if (family == AF_INET6 && from->sa_family == AF_INET) {
        mapped = map_address((const struct sockaddr_in *)from);
        from = (const struct sockaddr *)&mapped;
    }
    if (to != NULL)
        memcpy(to, from, *length < size ? *length : size);
    *length = size;
}

bool xs_same_host(const struct sockaddr *a, const struct sockaddr *b)
{
    if (a->sa_family != b->sa_family)
        return false;
    if (a->sa_family == AF_INET6)
        return memcmp(&((const struct sockaddr_in6 *)a)->sin6_addr,
                      &((const struct sockaddr_in6 *)b)->sin6_addr, sizeof(struct in6_addr)) == 0;
    return ((const struct sockaddr_in *)a)->sin_addr.s_addr == ((const struct sockaddr_in *)b)->sin_addr.s_addr;
}

static int get_name(const char *call, int sockno, struct sockaddr *address, socklen_t *address_len, bool peer)
{
    union sock_address none = {0};
    int result = -1;
    struct sock *sock = xs_sock_enter(call, sockno);

    if (sock == NULL)
        return -1;
    struct rdma_cm_id *id = known_id(sock);

    none.sa.sa_family = (sa_family_t)sock->family;
    if (address == NULL || address_len == NULL) {
        xs_nowhere(address == NULL ? "address" : "address_len");
    } else if (!peer) {
        xs_copy_address(sock->family, id != NULL ? &id->route.addr.src_addr : &none.sa, address, address_len);
        result = 0;
    } else if (sock->state == SOCK_CONNECTED) {
        xs_copy_address(sock->family, &id->route.addr.dst_addr, address, address_len);
        result = 0;
    } else {
        errno = ENOTCONN;
    }
    xs_sock_put_locked(sock);
    return result;
}

int exs_getsockname(int sockno, struct sockaddr *address, socklen_t *address_len)
{
    return get_name(__func__, sockno, address, address_len, false);
}

int exs_getpeername(int sockno, struct sockaddr *address, socklen_t *address_len)
{
    return get_name(__func__, sockno, address, address_len, true);
}

/* The device of a connection; for a listener, all kinds of device that it listens on. NULL: neither. */
static const char *device_name(const struct sock *sock, char *list, size_t size)
{
    size_t used = 0;

    if (sock->state == SOCK_CONNECTED)
        return sock->conn->nic->context->device->name;
    if (sock->state != SOCK_LISTENING)
        return NULL;
    for (int device = 0; device < xs_devices(); device++) {
        if (sock->id[device] != NULL && used < size)
            used += (size_t)snprintf(list + used, size - used, "%s%s", used > 0 ? "," : "",
                                     xs_device(device)->name);
    }
    return list;
}

int exs_getdevice(int sockno, char *name, size_t size)
{
    char list[64] = "";
    int result = -1;
    struct sock *sock = xs_sock_enter(__func__, sockno);

    if (sock == NULL)
        return -1;
    const char *device = device_name(sock, list, sizeof(list));

    if (name == NULL) {
        xs_nowhere("name");
    } else if (size == 0) {
        xs_invalid("size is 0");
    } else if (device == NULL) {
        errno = ENOTCONN;
    } else if (strlen(device) >= size) {
        errno = ENAMETOOLONG;
    } else {
        memcpy(name, device, strlen(device) + 1);
        result = 0;
    }
    xs_sock_put_locked(sock);
    return result;
}
