/* SPDX-License-Identifier: BSD-2-Clause */
/* serve_client.c - what clients send, valid or not, before it is delivered. See serve.h. */
#include <netinet/in.h>
#include <string.h>

#include "serve.h"

static void say(struct client *client, const void *bytes, size_t length)
{
    if (length > SAID_MAX - client->length)
        length = SAID_MAX - client->length;
    memcpy(client->said + client->length, bytes, length);
    client->length += length;
}

void say_raw(struct client *client, struct input *input)
{
    const uint8_t *bytes;
    size_t length = input_bytes(input, &bytes, input_u8(input));

    say(client, bytes, length);
}

/* Asks for a file or a folder's list. Of the file it claims to have a part: the data that it sent last. */
static void say_wish(struct client *client, const char *name, unsigned size)
{
    struct transfer_header header = {.version = TRANSFER_WANTS, .name_length = strlen(name)};
    unsigned char bytes[TRANSFER_HEADER];
    XXH3_state_t *state = XXH3_createState();

    header.size = size & 0x0400 ? size & 0x3ff : client->data_length;
    header.name_length += (size & 0x0800) != 0;
    XXH3_128bits_reset(state);
    XXH3_128bits_update(state, client->data, client->data_length);
    transfer_digest(state, header.digest);
    XXH3_freeState(state);
    transfer_put_header(bytes, &header);
    say(client, bytes, sizeof(bytes));
    say(client, name, strlen(name));
    say(client, "/", (size & 0x0800) != 0);
}

void say_header(struct client *client, struct input *input)
{
    static const char *const names[] = {
        "file",     "folder", "link",    "..",     ".exs-0.part", "a/b",     "..\0",   "caf\xc3\xa9 \xff",
        "folder/x", "link/x", "a/b/c/d", "a/../b", "a//b",        "/beside", "file/x", "a/.exs-0.part"};
    const char *name = names[input_below(input, 16)];
    unsigned size = input_u16(input);
    const struct transfer_header header = {.name_length = strlen(name),
                                           .size = size & 0xfff,
                                           .asks = (size & 0x8000) != 0,
                                           .mode = size >> 3 & 07777,
                                           .seconds = (int32_t)(size << 16)};
    unsigned char bytes[TRANSFER_HEADER];

    if ((size & 0x7000) == 0x7000) {
        say_wish(client, name, size);
        return;
    }
    transfer_put_header(bytes, &header);
    say(client, bytes, sizeof(bytes));
    say(client, name, header.name_length);
    client->data_length = 0;
}

/* The offset at which it continues a file. */
static void say_offset(struct client *client, unsigned offset)
{
    unsigned char bytes[TRANSFER_OFFSET];

    transfer_put_offset(bytes, offset);
    say(client, bytes, sizeof(bytes));
}

void say_data(struct client *client, struct input *input)
{
    uint32_t word = input_u16(input);
    size_t length = word & 0xfff, there = word & 0x4000 ? word >> 12 & 3 : 0;
    unsigned char seed = input_u8(input);

    if (word & 0x8000) { /* it asked before, and continues after the part that the server has */
        memset(client->data, seed, there);
        client->data_length = there;
        say_offset(client, (unsigned)there);
    }
    if (length > FILE_MAX - client->data_length)
        length = FILE_MAX - client->data_length;
    memset(client->data + client->data_length, seed, length);
    say(client, client->data + client->data_length, length);
    client->data_length += length;
}

void say_digest(struct client *client)
{
    unsigned char digest[TRANSFER_DIGEST];
    XXH3_state_t *state = XXH3_createState();

    XXH3_128bits_reset(state);
    XXH3_128bits_update(state, client->data, client->data_length);
    transfer_digest(state, digest);
    XXH3_freeState(state);
    say(client, digest, sizeof(digest));
}

void connect_client(int sock, unsigned host)
{
    struct sockaddr_storage peer = {0};
    struct client *client = &world.client[sock - 1];

    if (client->open)
        return;
    memset(client, 0, sizeof(*client));
    if (host < 4) {
        struct sockaddr_in *v4 = (struct sockaddr_in *)&peer;

        v4->sin_family = AF_INET;
        v4->sin_addr.s_addr = htonl(0x7f000001 + host / 2);
    } else {
        struct sockaddr_in6 *v6 = (struct sockaddr_in6 *)&peer;

        v6->sin6_family = AF_INET6;
        v6->sin6_addr.s6_addr[15] = (uint8_t)host;
    }
    int before = world.inlets.count;

    inlet_open(&world.inlets, sock, &peer);
    client->open = world.inlets.count > before;
}

/* All clients that are not connected connect from one address. */
void connect_crowd(void)
{
    for (int sock = 1; sock <= CLIENTS; sock++)
        connect_client(sock, 0);
}
