/* SPDX-License-Identifier: BSD-2-Clause */
/* client.c - connecting, receiving, and error messages with advice. See client.h. */
#include "client.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/time.h>

#include "tools/common/clock.h"
#include "tools/common/options.h"

#define QUIET 0.5 /* s: less than the smallest timeout of a server (exs-serve -t), which is 1 s */

enum { READ = 16 << 20 }; /* minimum bytes that a server reads in a second */

int client_failed(struct client *client, const char *what)
{
    return client_failed_text(client, what, strerror(errno));
}

int client_failed_text(struct client *client, const char *what, const char *text)
{
    snprintf(client->error, sizeof(client->error), "%s: %s", what, text);
    return -1;
}

/* Returns advice for the user about this errno, or an empty string. */
static const char *connect_advice(int error)
{
    switch (error) {
    case ECONNREFUSED:
        return " (is exs-serve running there, with room for one more?)";
    case EPROTO:
        return " (something else than exs-serve listens there)";
    case ENODEV:
        return " (no device that may be used leads there: EXS_DEVICE=auto uses any)";
    case EINVAL:
        return " (an address of one network alone wants its interface, as in fe80::1%eth0)";
    case EHOSTUNREACH:
    case ENETUNREACH:
    case ETIMEDOUT:
        return " (is the address right, and its host up?)";
    default:
        return "";
    }
}

static int failed_to_connect(struct client *client, const struct sockaddr *address, socklen_t length)
{
    struct sockaddr_storage there = {0};
    char text[OPTIONS_ADDRESS_MAX];
    int error = errno;

    memcpy(&there, address, length);
    snprintf(client->error, sizeof(client->error), "%s: cannot connect: %s%s",
             options_address_text(&there, text), strerror(error), connect_advice(error));
    return -1;
}

void client_hang_up(struct client *client)
{
    exs_blocking_close(client->sock);
    client->sock = -1;
}

int client_bear(struct client *client, uint64_t bytes)
{
    const struct timeval limit = {.tv_sec = client->patience + (time_t)(bytes / READ)};

    if (client->patience == 0)
        return 0;
    if (exs_setsockopt(client->sock, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit)) == -1 ||
        exs_setsockopt(client->sock, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof(limit)) == -1)
        return client_failed(client, "exs_setsockopt");
    return 0;
}

static int begin_connection(struct client *client, const struct sockaddr *address, socklen_t length)
{
    if (exs_blocking_connect(client->sock, address, length) == -1)
        return failed_to_connect(client, address, length);
    if (exs_getdevice(client->sock, client->device, sizeof(client->device)) == -1)
        return client_failed(client, "exs_getdevice");
    client->heard = clock_seconds();
    return client_bear(client, 0);
}

int client_open(struct client *client, const struct sockaddr *address, socklen_t length)
{
    client->sock = exs_socket(address->sa_family, SOCK_STREAM, 0);
    if (client->sock == -1)
        return client_failed(client, "exs_socket");
    if (begin_connection(client, address, length) == 0)
        return 0;
    client_hang_up(client);
    return -1;
}

int client_reach(struct client *client, const struct addrinfo *addresses)
{
    client->addresses = addresses;
    for (const struct addrinfo *each = addresses; each != NULL; each = each->ai_next)
        if (client_open(client, each->ai_addr, each->ai_addrlen) == 0)
            return 0;
    return -1;
}

int client_renew(struct client *client)
{
    if (client->addresses == NULL || (client->sock != -1 && clock_seconds() - client->heard < QUIET))
        return 0;
    if (client->sock != -1)
        client_hang_up(client);
    return client_reach(client, client->addresses);
}

int client_close(struct client *client)
{
    int sock = client->sock;

    client->sock = -1;
    return exs_blocking_close(sock) == 0 ? 0 : client_failed(client, "exs_blocking_close");
}

/* A receive that times out after some bytes returns these bytes, and the loop continues. With a timeout the region is
 * not passed: the server writes directly into a registered buffer, so a receive that timed out could not end before the
 * server answers. */
int client_receive_counted(struct client *client, void *buffer, size_t length, exs_mhandle_t region,
                           size_t *count)
{
    char *next = buffer;

    *count = 0;

    while (length > 0) {
        ssize_t got =
            exs_blocking_recv(client->sock, next, length, MSG_WAITALL, client->patience == 0 ? region : NULL);

        if (got == -1)
            return client_failed(client, "no answer from the server");
        if (got == 0)
            return client_failed_text(client, "no answer from the server", "it closed the connection");
        next += got;
        *count += (size_t)got;
        length -= (size_t)got;
    }
    client->heard = clock_seconds();
    return 0;
}

int client_receive(struct client *client, void *buffer, size_t length, exs_mhandle_t region)
{
    size_t count;

    return client_receive_counted(client, buffer, length, region, &count);
}

int client_not_understood(struct client *client)
{
    return client_failed_text(client, "not understood", "is this an exs-serve?");
}

/* A server that echoes its input returns the client's header, which looks like a refusal, because the versions 2 and 3
 * equal TRANSFER_REFUSED and TRANSFER_FAILED. Unlike a refusal it has no valid text. */
static bool lacks_reason(const struct transfer_reply *reply, const char *text)
{
    bool is_refusal = reply->status == TRANSFER_MALFORMED || reply->status == TRANSFER_REFUSED ||
                      reply->status == TRANSFER_FAILED;

    return is_refusal && (reply->text_length == 0 || strlen(text) < reply->text_length);
}

int client_reply(struct client *client, struct transfer_reply *reply, char text[TRANSFER_TEXT_MAX + 1])
{
    unsigned char bytes[TRANSFER_REPLY];

    if (client_receive(client, bytes, sizeof(bytes), NULL) == -1)
        return -1;
    if (!transfer_get_reply(bytes, reply))
        return client_not_understood(client);
    if (client_receive(client, text, reply->text_length, NULL) == -1)
        return -1;
    text[reply->text_length] = '\0';
    return lacks_reason(reply, text) ? client_not_understood(client) : 0;
}
