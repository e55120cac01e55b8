/* SPDX-License-Identifier: BSD-2-Clause */
/* client.h - a connection to an exs-serve: blocking calls, and why one of them went wrong. exs-put and exs-get
 * have one at a time. */
#ifndef FILES_CLIENT_H
#define FILES_CLIENT_H

#include <exs.h>
#include <netdb.h>
#include <sys/socket.h>

#include "transfer.h"

/* Owned by main. */
struct client {
    int sock;                            /* -1: no conversation is under way */
    int patience;                        /* seconds that the server may be silent; 0: for ever */
    const struct addrinfo *addresses;    /* of client_reach, which was called before; or NULL */
    double heard;                        /* when the server last said something, or was reached; s */
    char device[32];                     /* what carries the connection */
    char error[TRANSFER_TEXT_MAX + 128]; /* after a failure: why, one line */
};

/* Those that return int return 0, or -1 with error filled in. */
int client_open(struct client *client, const struct sockaddr *address, socklen_t length);
/* To the first address that answers. An error is the last one's. They stay until the last conversation. */
int client_reach(struct client *client, const struct addrinfo *addresses);
/* Before something is asked for or sent: a server does not keep who has said nothing for long, so where the last
 * was a while ago, or the conversation is over, it is another one. */
int client_renew(struct client *client);
int client_close(struct client *client);
/* What went wrong was said, or is over. */
void client_hang_up(struct client *client);

/* The server may be silent for longer from now on, since it reads so many bytes before it answers; or, with 0,
 * not any more. */
int client_bear(struct client *client, uint64_t bytes);
/* region: as for exs_recv, or NULL. */
int client_receive(struct client *client, void *buffer, size_t length, exs_mhandle_t region);
/* A reply with its text, which is no string; checked by transfer_get_reply. */
int client_reply(struct client *client, struct transfer_reply *reply, char text[TRANSFER_TEXT_MAX + 1]);

/* These return -1. what: which step; with errno. */
int client_failed(struct client *client, const char *what);
int client_failed_text(struct client *client, const char *what, const char *text);
/* What answers is something else. */
int client_not_understood(struct client *client);

#endif
