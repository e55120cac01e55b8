/* SPDX-License-Identifier: BSD-2-Clause */
/* client.h - a client's connection to an exs-serve, with blocking calls and error messages. exs-put and exs-get have
 * one connection at a time. */
#ifndef FILES_CLIENT_H
#define FILES_CLIENT_H

#include <exs.h>
#include <netdb.h>
#include <sys/socket.h>

#include "transfer.h"

/* Owned by main. */
struct client {
    int sock;                            /* -1: no connection */
    int patience;                        /* timeout in seconds without data from the server; 0: no limit */
    const struct addrinfo *addresses;    /* argument of the last client_reach(), or NULL */
    double heard;                        /* time of the last data or of the connect, s of the monotonic clock */
    char device[32];                     /* the connection's device */
    char error[TRANSFER_TEXT_MAX + 128]; /* after a failure: the reason, one line */
};

/* Functions that return int return 0, or -1 and set `error`. */
int client_open(struct client *client, const struct sockaddr *address, socklen_t length);
/* Connects to the first address that answers; on failure the error is that of the last address. The list must live as
 * long as `client`. */
int client_reach(struct client *client, const struct addrinfo *addresses);
/* The caller calls this before each request. Connects again if there is no connection, or if it was idle for long
 * enough that the server may have closed it. */
int client_renew(struct client *client);
int client_close(struct client *client);
/* Closes the connection and ignores errors: a failure has been reported already. */
void client_hang_up(struct client *client);

/* Extends the timeout, because the server must read this many bytes from its disk before it answers; 0: restores the
 * usual timeout. */
int client_bear(struct client *client, uint64_t bytes);
/* Receives exactly `length` bytes. region: as for exs_recv(), or NULL. */
int client_receive(struct client *client, void *buffer, size_t length, exs_mhandle_t region);
/* Like client_receive(), and sets *count to the number of bytes received, also on failure. */
int client_receive_counted(struct client *client, void *buffer, size_t length, exs_mhandle_t region,
                           size_t *count);
/* Receives a reply, checked by transfer_get_reply(), and its text as a string. */
int client_reply(struct client *client, struct transfer_reply *reply, char text[TRANSFER_TEXT_MAX + 1]);

/* These functions set `error` and return -1. what: the step that failed. client_failed() adds errno's text. */
int client_failed(struct client *client, const char *what);
int client_failed_text(struct client *client, const char *what, const char *text);
/* The server does not follow the protocol. */
int client_not_understood(struct client *client);

#endif
