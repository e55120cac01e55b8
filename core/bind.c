/* SPDX-License-Identifier: BSD-2-Clause */
/* Binding and listening, on every device that has the address. */
#include <errno.h>
#include <string.h>
#include "core.h"
#include "library.h"
#include "sock.h"

/* Checks an address argument against a socket's family. -1 and errno. */
int xs_check_address(const struct sock *sock, const struct sockaddr *address, socklen_t length)
{
    socklen_t need = sock->family == PF_INET ? sizeof(struct sockaddr_in) : sizeof(struct sockaddr_in6);

    if (address == NULL || length < need || length > sizeof(struct sockaddr_storage)) {
        errno = EINVAL;
        return -1;
    }
    if (address->sa_family != sock->family) {
        errno = EAFNOSUPPORT;
        return -1;
    }
    return 0;
}

/* A socket that once tried to connect lives on a queue of the user's, where a listener must not: the locks of
 * two queues are only ever taken in the order listener, connection. */
static bool may_listen(struct sock *sock)
{
    struct queue *home = atomic_load(&sock->home);

    return home == NULL || home->handle == NULL;
}

/* Bind on every device that has the address; the port that the first one picks is asked of the others. */
static int bind_devices(struct sock *sock, union sock_address *address)
{
    int bound = 0, error = EADDRNOTAVAIL;

    for (int device = 0; device < xs_devices(); device++) {
        if (xs_sock_id(sock, device) < 0) {
            error = errno;
        } else if (xs_device(device)->bind_addr(sock->id[device], &address->sa) < 0) {
            error = errno;
            xs_sock_drop_id(sock, device);
        } else {
            if (bound++ == 0)
                address->in.sin_port = ((struct sockaddr_in *)&sock->id[device]->route.addr.src_addr)->sin_port;
        }
    }
    if (bound > 0)
        return 0;
    errno = error == ENODEV ? EADDRNOTAVAIL : error;
    return -1;
}

int exs_bind(int sockno, const struct sockaddr *address, socklen_t address_len)
{
    union sock_address copy = {0};
    int result = -1;

    if (xs_enter() < 0)
        return -1;
    struct sock *sock = xs_sock_get(sockno);

    if (sock == NULL)
        return -1;
    xs_sock_lock(sock);
    if (sock->state != SOCK_FRESH || !may_listen(sock)) {
        errno = EINVAL;
    } else if (xs_check_address(sock, address, address_len) == 0 && xs_sock_home(sock, NULL) == 0) {
        memcpy(&copy, address, sock->family == PF_INET ? sizeof(copy.in) : sizeof(copy.in6));
        result = bind_devices(sock, &copy);
        if (result == 0)
            sock->state = SOCK_BOUND;
    }
    xs_sock_unlock(sock);
    xs_sock_put(sock);
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
            error = errno;
    }
    if (listening > 0)
        return 0;
    errno = error;
    return -1;
}

int exs_listen(int sockno, int backlog)
{
    union sock_address any = {0};
    int result = -1;

    if (xs_enter() < 0)
        return -1;
    struct sock *sock = xs_sock_get(sockno);

    if (sock == NULL)
        return -1;
    xs_sock_lock(sock);
    if (backlog < 0 || (sock->state != SOCK_FRESH && sock->state != SOCK_BOUND) || !may_listen(sock)) {
        errno = EINVAL;
        goto out;
    }
    if (xs_sock_home(sock, NULL) < 0)
        goto out;
    if (sock->state == SOCK_FRESH) { /* as listen(2): any address, some port */
        any.sa.sa_family = (sa_family_t)sock->family;
        if (bind_devices(sock, &any) < 0)
            goto out;
        sock->state = SOCK_BOUND;
    }
    sock->backlog = backlog > 0 ? backlog : 1;
    result = listen_devices(sock, sock->backlog);
    if (result == 0)
        sock->state = SOCK_LISTENING;
out:
    xs_sock_unlock(sock);
    xs_sock_put(sock);
    return result;
}
