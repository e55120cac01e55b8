/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * cm_stranger.c - untrusted peers of the connection manager: they send valid and invalid messages and parts of them,
 * and disconnect at any byte. At the end they reset their connections, and each has another address, so that no port
 * stays in use.
 */
#include <sys/socket.h>
#include <unistd.h>
#include "check/fuzz/cm_world.h"

static struct stranger *place_for(struct cm_world *world)
{
    for (int i = 0; i < CM_STRANGERS; i++)
        if (world->strangers[i].fd == -1)
            return &world->strangers[i];
    return NULL;
}

static struct stranger *choose(struct cm_world *world)
{
    struct stranger *stranger = &world->strangers[input_below(&world->input, CM_STRANGERS)];

    for (int i = 0; i < CM_STRANGERS && stranger->fd == -1; i++)
        stranger = &world->strangers[i];
    return stranger->fd == -1 ? NULL : stranger;
}

static void reset(int fd)
{
    const struct linger now = {.l_onoff = 1};

    setsockopt(fd, SOL_SOCKET, SO_LINGER, &now, sizeof now);
    close(fd);
}

/* ---- Connecting ---- */

/* A new address in 127.0.0.0/8 each time. */
static struct sockaddr_in next_address(void)
{
    static uint32_t number;

    number = (number + 1) % 0x7ffff0;
    return (struct sockaddr_in){.sin_family = AF_INET, .sin_addr.s_addr = htonl(0x7f800002u + number)};
}

static int dial(const struct cm_world *world)
{
    struct sockaddr_in own = next_address();
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

    if (fd == -1)
        return -1;
    if (bind(fd, (struct sockaddr *)&own, sizeof own) == 0 &&
        (connect(fd, (const struct sockaddr *)&world->address, sizeof world->address) == 0 ||
         errno == EINPROGRESS))
        return fd;
    close(fd);
    return -1;
}

void stranger_dials(struct cm_world *world)
{
    struct stranger *stranger = place_for(world);

    if (stranger && world->listener)
        *stranger = (struct stranger){.fd = dial(world)};
}

/* More connections than may be half open; all are reset again, but the listener may still have them. */
void stranger_floods(struct cm_world *world)
{
    static int fds[CM_HALF_OPEN_MAX + 8];

    if (!world->listener)
        return;
    for (size_t i = 0; i < sizeof fds / sizeof *fds; i++) {
        fds[i] = dial(world);
        if (i % 16 == 15)
            user_hears(world, 1);
    }
    user_expect_bounds(world);
    for (size_t i = 0; i < sizeof fds / sizeof *fds; i++)
        if (fds[i] != -1)
            reset(fds[i]);
}

void stranger_listens(struct cm_world *world)
{
    socklen_t length = sizeof world->stranger_address;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

    world->stranger_address = next_address();
    expect(fd != -1 && bind(fd, (struct sockaddr *)&world->stranger_address, length) == 0 &&
               listen(fd, 8) == 0 && getsockname(fd, (struct sockaddr *)&world->stranger_address, &length) == 0,
           "a stranger's listener: %s", strerror(errno));
    world->listening = fd;
}

void stranger_accepts(struct cm_world *world)
{
    struct stranger *stranger = place_for(world);

    if (stranger)
        *stranger =
            (struct stranger){.fd = accept4(world->listening, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK)};
}

/* ---- Sending ---- */

static void begin(struct cm_world *world, struct stranger *stranger)
{
    struct input *input = &world->input;
    uint8_t how = input_u8(input);

    stranger->said = said((enum said_type)(how % 8));
    stranger->at = 0;
    if (how & 8) { /* private data of any claimed length */
        static const uint8_t places[8] = {24, 24, 24, 24, 10, 24, 8, 10};
        said_put(&stranger->said, places[stranger->said.bytes[5] & 7], 1, input_u8(input));
        memset(stranger->said.bytes + 28, 0x77, 32);
    }
    for (unsigned lies = how >> 4 & 3; lies > 0; lies--) {
        uint8_t at = input_u8(input);
        stranger->said.bytes[at] = input_u8(input);
    }
    if (how & 64)
        stranger->said.size = input_u8(input);
    if (how & 128) { /* any bytes */
        const uint8_t *bytes;
        stranger->said.size = input_bytes(input, &bytes, input_u8(input));
        if (stranger->said.size > 0)
            memcpy(stranger->said.bytes, bytes, stranger->said.size);
    }
}

void stranger_speaks(struct cm_world *world, bool more)
{
    struct stranger *stranger = choose(world);
    uint8_t part = input_u8(&world->input);

    if (!stranger)
        return;
    if (!more)
        begin(world, stranger);
    size_t length = stranger->said.size - stranger->at;
    if (part < 0xc0 && part > 0 && part < length)
        length = part;
    /* Not send(), which cm_system.c wraps for the library. */
    ssize_t sent = sendto(stranger->fd, stranger->said.bytes + stranger->at, length, MSG_NOSIGNAL, NULL, 0);
    stranger->at += sent > 0 ? (size_t)sent : 0;
}

/* ---- Disconnecting ---- */

void stranger_leaves(struct cm_world *world)
{
    struct stranger *stranger = choose(world);
    uint8_t bytes[64];

    if (!stranger)
        return;
    switch (input_below(&world->input, 4)) {
    case 0: /* reads a part */
        while (read(stranger->fd, bytes, sizeof bytes) == sizeof bytes)
            ;
        break;
    case 1:
        shutdown(stranger->fd, SHUT_WR);
        break;
    case 2:
        reset(stranger->fd);
        stranger->fd = -1;
        break;
    default:
        shutdown(stranger->fd, SHUT_RDWR);
    }
}

void strangers_go(struct cm_world *world)
{
    for (int i = 0; i < CM_STRANGERS; i++)
        if (world->strangers[i].fd != -1)
            reset(world->strangers[i].fd);
    close(world->listening);
}
