/* SPDX-License-Identifier: BSD-2-Clause */
/* client.h - a client's connection to an exs-serve, with blocking calls and error messages. exs-put and exs-get have
 * one connection at a time. A conversation is all that is said on one connection. */
#ifndef FILES_CLIENT_H
#define FILES_CLIENT_H

#include <exs.h>
#include <netdb.h>
#include <sys/socket.h>

#include "transfer.h"

/* Owned by main. */
struct client {
    int sock;                            /* -1: no connection */
    int patience;                        /* seconds that the server may be silent; 0: no limit */
    const struct addrinfo *addresses;    /* of client_reach(), if it was called; or NULL */
    double heard;                        /* when data last came from the server, or it was connected; s */
    char device[32];                     /* the connection's device */
    char error[TRANSFER_TEXT_MAX + 128]; /* after a failure: the reason, one line */
};

/* Functions that return int return 0, or -1 and set `error`. */
int client_open(struct client *client, const struct sockaddr *address, socklen_t length);
/* Connects to the first address that answers; an error is that of the last one. The list must live as long as
 * `client`. */
int client_reach(struct client *client, const struct addrinfo *addresses);
/* To be called before each request: connects again if there is no connection, or if it was idle for so long that the
 * server may have closed it. */
int client_renew(struct client *client);
int client_close(struct client *client);
/* Closes the connection and ignores errors: a failure has been reported already. */
void client_hang_up(struct client *client);

/* Extends the time that the server may be silent, because it reads this many bytes before it answers; 0: the usual
 * time. */
int client_bear(struct client *client, uint64_t bytes);
/* Receives exactly `length` bytes. region: as for exs_recv(), or NULL. */
int client_receive(struct client *client, void *buffer, size_t length, exs_mhandle_t region);
/* The same, and counts the bytes that came, also before a failure. */
int client_receive_counted(struct client *client, void *buffer, size_t length, exs_mhandle_t region,
                           size_t *count);
/* Receives a reply, checked by transfer_get_reply(), and its text, with a 0 behind it. */
int client_reply(struct client *client, struct transfer_reply *reply, char text[TRANSFER_TEXT_MAX + 1]);

/* These set `error` and return -1. what: the step that failed. client_failed() adds errno's text. */
int client_failed(struct client *client, const char *what);
int client_failed_text(struct client *client, const char *what, const char *text);
/* The server speaks another protocol. */
int client_not_understood(struct client *client);

#endif
