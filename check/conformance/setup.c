/* SPDX-License-Identifier: BSD-2-Clause */
/* setup.c - correct calls that prepare a test, up to a connection. If one fails, the test fails. */
#include <netdb.h>
#include <stdio.h>
#include "trial.h"

/* ---- Addresses ----------------------------------------------------------------------------------------- */

static void resolve_name(struct trial *trial, const char *name, const char *port, struct address *address)
{
    struct addrinfo hints = {.ai_family = AF_INET, .ai_socktype = SOCK_STREAM}, *found;

    if (strcmp(name, "localhost") == 0)
        name = NULL; /* loopback, also without a hosts file */
    if (getaddrinfo(name, port, &hints, &found) != 0) {
        hints.ai_family = AF_INET6;
        if (getaddrinfo(name, port, &hints, &found) != 0)
            broken(trial, "getaddrinfo: give -a an address of this machine");
    }
    memcpy(&address->storage, found->ai_addr, found->ai_addrlen);
    address->length = found->ai_addrlen;
    freeaddrinfo(found);
}

void resolve(struct trial *trial, const char *port, struct address *address)
{
    resolve_name(trial, trial->options->address, port, address);
}

void resolve_peer(struct trial *trial, const char *port, struct address *address)
{
    const struct options *options = trial->options;

    resolve_name(trial, options->peer != NULL ? options->peer : options->address, port, address);
}

void local_address(struct trial *trial, int fd, struct address *address)
{
    address->length = sizeof(address->storage);
    if (exs_getsockname(fd, (struct sockaddr *)&address->storage, &address->length) < 0)
        broken(trial, "exs_getsockname");
}

uint16_t *port_of(struct address *address)
{
    return address->storage.ss_family == AF_INET ? &((struct sockaddr_in *)&address->storage)->sin_port
                                                 : &((struct sockaddr_in6 *)&address->storage)->sin6_port;
}

/* ---- One call each ------------------------------------------------------------------------------------- */

void ok_init(struct trial *trial)
{
    if (exs_init(EXS_VERSION) < 0)
        broken(trial, "exs_init");
}

exs_qhandle_t ok_qcreate(struct trial *trial)
{
    exs_qhandle_t queue = exs_qcreate(10);

    if (queue == EXS_QHANDLE_INVALID)
        broken(trial, "exs_qcreate");
    return queue;
}

void ok_queue(struct trial *trial)
{
    if (!(trial->flags & EXS_BLOCK))
        trial->queue = ok_qcreate(trial);
}

int ok_socket(struct trial *trial)
{
    struct address address;

    resolve(trial, "0", &address);
    int fd = exs_socket(address.storage.ss_family, trial->type, 0);

    if (fd < 0)
        broken(trial, "exs_socket");
    return fd;
}

void ok_bind(struct trial *trial, int fd, const char *port)
{
    struct address address;

    resolve(trial, port, &address);
    if (exs_bind(fd, (struct sockaddr *)&address.storage, address.length) < 0)
        broken(trial, "exs_bind");
}

void ok_listen(struct trial *trial, int fd)
{
    if (exs_listen(fd, 10) < 0)
        broken(trial, "exs_listen");
}

exs_mhandle_t ok_mregister(struct trial *trial, void *address, size_t size, int flags)
{
    exs_mhandle_t region = exs_mregister(address, size, flags);

    if (region == EXS_MHANDLE_INVALID)
        broken(trial, "exs_mregister");
    return region;
}

int ok_accept(struct trial *trial)
{
    exs_acceptaddr_t element = {.exs_socket = -1, .exs_ahandle = trial};

    if (done(trial, exs_accept(trial->fd, &element, 1, trial->flags, trial->queue), EXS_EVT_ACCEPT) < 0)
        broken(trial, "exs_accept");
    return element.exs_socket;
}

/* ---- Sequences of calls -------------------------------------------------------------------------------- */

void ok_fresh(struct trial *trial)
{
    ok_init(trial);
    ok_queue(trial);
    trial->fd = ok_socket(trial);
}

void ok_listening(struct trial *trial)
{
    peer_start(trial);
    ok_fresh(trial);
    ok_bind(trial, trial->fd, trial->options->port);
    ok_listen(trial, trial->fd);
    local_address(trial, trial->fd, &trial->server);
    trial->listening = true;
}

void ok_server(struct trial *trial)
{
    peer_start(trial);
    resolve_peer(trial, trial->options->port, &trial->server);
    trial->server = peer_do(trial, PEER_LISTEN, 0).address;
    ok_fresh(trial);
}

void ok_connected(struct trial *trial)
{
    ok_server(trial);
    peer_tell(trial, PEER_ACCEPT, 0);
    if (done(trial,
             exs_connect(trial->fd, (struct sockaddr *)&trial->server.storage, trial->server.length,
                         trial->flags, NULL, trial->queue, trial),
             EXS_EVT_CONNECT) < 0)
        broken(trial, "exs_connect");
    peer_hear(trial);
    trial->connected = true;
}

void ok_accepted(struct trial *trial)
{
    ok_listening(trial);
    trial->listening = false;
    peer_tell(trial, PEER_CONNECT, 0);
    trial->fd = ok_accept(trial);
    peer_hear(trial);
    trial->connected = true;
}
