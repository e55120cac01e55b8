/* SPDX-License-Identifier: BSD-2-Clause */
/* bind.c - exs_bind and exs_listen, on every device that has the address. */
#include <errno.h>
#include <string.h>
#include "core/base/address.h"
#include "core/base/log.h"
#include "core/device/registry.h"
#include "sock.h"

#define PORT_TRIES 16

/* Check an address argument against the socket's family. -1 and errno. */
int xs_check_address(const struct sock *sock, const struct sockaddr *address, socklen_t length)
{
    socklen_t need = sock->family == PF_INET ? sizeof(struct sockaddr_in) : sizeof(struct sockaddr_in6);

    if (address == NULL)
        return xs_invalid("the address is NULL");
    if (length < need || length > sizeof(struct sockaddr_storage))
        return xs_invalid("an address has %u bytes, not %u", (unsigned)need, (unsigned)length);
    if (address->sa_family != sock->family) {
        errno = EAFNOSUPPORT;
        return -1;
    }
    if (sock->options.ipv6_only && IN6_IS_ADDR_V4MAPPED(&((const struct sockaddr_in6 *)address)->sin6_addr))
        return xs_invalid("the address is an IPv4 address, and socket %d is for IPv6 only", sock->number);
    return 0;
}

/* A socket that has tried to connect is driven by a queue of the application; a listener must not be, because
 * the locks of two queues are only taken in the order listener, connection. */
static bool may_listen(struct sock *sock)
{
    struct queue *home = atomic_load(&sock->home);

    return home == NULL || home->handle == NULL;
}

static const char *bind_advice(int device, int error)
{
    if (error != EADDRNOTAVAIL)
        return "";
    return xs_device(device) == &soft_device
               ? ": give it an address of this host"
               : ": give it an address of its own interface (loopback is only on the software device)";
}

/* These errors do not mean that the device lacks the address. To continue without the device would create a
 * listener that misses connections on it. */
static bool is_shortage(int error)
{
    return error == EMFILE || error == ENFILE || error == ENOMEM || error == ENOBUFS;
}

/* Bind on every device that has the address, all on the port that the first device chose. Returns 0, or -1 and
 * errno; EADDRINUSE if the port is taken on any device. */
static int try_bind(struct sock *sock, union sock_address address)
{
    int bound = 0, error = EADDRNOTAVAIL;
    char text[ADDRESS_TEXT];

    for (int device = 0; device < xs_devices(); device++) {
        if (xs_sock_id(sock, device) == 0 && xs_device(device)->bind_addr(sock->id[device], &address.sa) == 0) {
            bound++;
            address.in.sin_port = ((struct sockaddr_in *)&sock->id[device]->route.addr.src_addr)->sin_port;
            continue;
        }
        error = errno == ENODEV ? EADDRNOTAVAIL : errno;
        xs_explain(error, "device %s can't be bound to %s: %s%s", xs_device(device)->name,
                   xs_address_text(&address.sa, text), strerror(error), bind_advice(device, error));
        xs_sock_drop_id(sock, device);
        if (error == EADDRINUSE || is_shortage(error)) {
            xs_sock_unbind(sock);
            bound = 0;
            break;
        }
    }
    errno = error;
    return bound > 0 ? 0 : -1;
}

/* A port that one device chose may be taken on another device; then try another port. */
static int bind_devices(struct sock *sock, const union sock_address *address)
{
    int tries = address->in.sin_port == 0 ? PORT_TRIES : 1;

    while (try_bind(sock, *address) < 0) {
        if (errno != EADDRINUSE || --tries == 0)
            return -1;
    }
    sock->bound = true;
    return 0;
}

int exs_bind(int sockno, const struct sockaddr *address, socklen_t address_len)
{
    union sock_address copy = {0};
    int result = -1;
    struct sock *sock = xs_sock_enter(__func__, sockno);

    if (sock == NULL)
        return -1;
    if (sock->state != SOCK_FRESH || !may_listen(sock)) {
        xs_invalid("socket %d was bound or used before", sockno);
    } else if (xs_check_address(sock, address, address_len) == 0 && xs_sock_home(sock, NULL) == 0) {
        memcpy(&copy, address, sock->family == PF_INET ? sizeof(copy.in) : sizeof(copy.in6));
        result = bind_devices(sock, &copy);
        if (result == 0)
            sock->state = SOCK_BOUND;
    }
    xs_sock_put_locked(sock);
    return result;
}

static int listen_devices(struct sock *sock, int backlog)
{
    int listening = 0, error = EINVAL;

    for (int device = 0; device < xs_devices(); device++) {
        if (sock->id[device] == NULL)
            continue;
        if (xs_device(device)->listen(sock->id[device], backlog) == 0)
            listening++;
        else
            error = xs_device_is_gone(errno) ? ENODEV : errno;
    }
    if (listening > 0)
        return 0;
    errno = error;
    return -1;
}

/* The port is the same on all devices. */
static in_port_t port_of(const struct sock *sock)
{
    for (int device = 0; device < xs_devices(); device++) {
        if (sock->id[device] != NULL)
            return ((struct sockaddr_in *)&sock->id[device]->route.addr.src_addr)->sin_port;
    }
    return 0;
}

int exs_listen(int sockno, int backlog)
{
    union sock_address any = {0};
    int result = -1;
    struct sock *sock = xs_sock_enter(__func__, sockno);

    if (sock == NULL)
        return -1;
    if (backlog < 0) {
        xs_invalid("backlog is %d", backlog);
        goto out;
    }
    if ((sock->state != SOCK_FRESH && sock->state != SOCK_BOUND) || !may_listen(sock)) {
        xs_invalid("socket %d listens or was connected before", sockno);
        goto out;
    }
    if (xs_sock_home(sock, NULL) < 0)
        goto out;
    if (sock->state == SOCK_FRESH) { /* like listen(2): any address, a port that the system chooses */
        any.sa.sa_family = (sa_family_t)sock->family;
        if (bind_devices(sock, &any) < 0)
            goto out;
        sock->state = SOCK_BOUND;
    }
    sock->backlog = backlog > 0 ? backlog : 1;
    /* Several threads may wait on this queue, and none of them limits its sleep by the listener's timeouts. */
    atomic_load(&sock->home)->time.keeps_time = true;
    result = listen_devices(sock, sock->backlog);
    if (result == 0) {
        sock->state = SOCK_LISTENING;
        atomic_store_explicit(&sock->listens_at, port_of(sock), memory_order_relaxed);
    }
out:
    xs_sock_put_locked(sock);
    return result;
}
