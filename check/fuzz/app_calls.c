/* SPDX-License-Identifier: BSD-2-Clause */
/* app_calls.c - see app.h. The program's calls except transfers: valid and invalid ones, as the input says. */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include "check/fuzz/app.h"
#include "core/api/core.h"
#include "core/sock/sock.h"

#define NEWER 228 /* first bytes from here on: calls that the first corpus did not contain */
#define CROWD 252

/* A number that is no socket's. */
static struct app_socket nobody = {.number = -1};

static struct app_socket *some_socket(struct input *input)
{
    uint8_t choice = input_u8(input);

    nobody.number = choice & 1 ? -1 : 1 << 22;
    for (int i = 0; choice < 240 && i < APP_SOCKETS; i++) {
        struct app_socket *socket = &app.sockets[(choice + i) % APP_SOCKETS];

        if (socket->number >= 0)
            return socket;
    }
    return &nobody;
}

exs_qhandle_t app_some_queue(struct input *input)
{
    uint8_t choice = input_u8(input);
    exs_qhandle_t queue = app.queues[(choice & 7) < 5 ? 0 : choice & 3];

    if (choice >= 250)
        return (exs_qhandle_t)(uintptr_t)choice;
    return queue != NULL ? queue : app.queues[0];
}

/* ---- Addresses -------------------------------------------------------------------------------------- */

struct somewhere {
    struct sockaddr_storage storage;
    socklen_t length;
};

static struct somewhere some_address(struct input *input, int family)
{
    struct somewhere to = {.length = sizeof(struct sockaddr_in)};
    struct sockaddr_in *in = (struct sockaddr_in *)&to.storage;
    struct sockaddr_in6 *in6 = (struct sockaddr_in6 *)&to.storage;
    uint8_t choice = input_u8(input);

    if (family == PF_INET6) {
        *in6 = (struct sockaddr_in6){
            .sin6_family = AF_INET6, .sin6_addr = in6addr_loopback, .sin6_port = htons(7471)};
        to.length = sizeof(*in6);
    } else {
        *in = (struct sockaddr_in){
            .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK), .sin_port = htons(7471)};
    }
    if (choice & 1)
        in->sin_port = 0;
    if (choice >= 250)
        to.length = choice - 250;
    if (choice == 249)
        to.storage.ss_family = AF_UNIX;
    return to;
}

/* ---- Calls ------------------------------------------------------------------------------------------ */

static void call_socket(struct input *input)
{
    uint8_t choice = input_u8(input);
    int family = choice & 4 ? PF_INET6 : PF_INET, type = choice & 1 ? SOCK_SEQPACKET : SOCK_STREAM;
    int flags = (choice & 16 ? SOCK_NONBLOCK : 0) | (choice & 32 ? SOCK_CLOEXEC : 0);
    int number = exs_socket(choice >= 252 ? choice : family, choice == 251 ? SOCK_RAW : type | flags,
                            choice & 8 && type == SOCK_STREAM ? IPPROTO_TCP : 0);

    if (number >= 0 && app_socket_add(number, family, type) == NULL)
        exs_close(number, 0, NULL, NULL);
}

static void call_bind(struct input *input)
{
    struct app_socket *socket = some_socket(input);
    struct somewhere to = some_address(input, socket->family);

    exs_bind(socket->number, to.length == 1 ? NULL : (struct sockaddr *)&to.storage, to.length);
}

static void call_accept(struct input *input)
{
    struct app_socket *socket = some_socket(input);
    exs_qhandle_t queue = app_some_queue(input);
    uint8_t choice = input_u8(input);
    struct asked *asked = app_ask(EXS_EVT_ACCEPT, socket, queue);

    if (asked == NULL)
        return;
    if (choice & 1)
        asked->element.exs_addr = (struct sockaddr *)&asked->address;
    asked->element.exs_addrlen = choice & 2 ? sizeof(asked->address) : choice >> 2;
    asked->element.exs_ahandle = asked;
    asked->multishot = choice >= 240 && choice < 252;
    asked->limited = socket->limits_recvs && !asked->multishot;
    app_answer(asked, exs_accept(socket->number, &asked->element, choice == 255 ? 0 : 1,
                                 asked->multishot ? EXS_MULTISHOT : choice == 254, queue));
}

/* Several accepts in one call. */
static void call_accept_many(struct input *input)
{
    struct app_socket *socket = some_socket(input);
    exs_qhandle_t queue = app_some_queue(input);
    uint8_t count = 1 + input_u8(input) % 4;
    static exs_acceptaddr_t elements[4];
    struct asked *asked[4];

    if (app.many_accepted)
        return;
    app.many_accepted = true;
    for (int i = 0; i < count; i++) {
        asked[i] = app_ask(EXS_EVT_ACCEPT, socket, queue);
        if (asked[i] == NULL)
            return;
        asked[i]->many = &elements[i];
        elements[i] = (exs_acceptaddr_t){.exs_ahandle = asked[i]};
    }
    int result = exs_accept(socket->number, elements, count, 0, queue);

    for (int i = 0; i < count; i++)
        app_answer(asked[i], result);
}

/* Accepts on more queues than may watch a listener directly. */
static void call_accept_crowd(struct input *input)
{
    struct app_socket *socket = some_socket(input);

    for (int i = APP_FEW_QUEUES; i < APP_QUEUES; i++) {
        if (app.queues[i] == NULL && (app.queues[i] = exs_qcreate(0)) == EXS_QHANDLE_INVALID)
            app.queues[i] = NULL;
        struct asked *asked = app.queues[i] != NULL ? app_ask(EXS_EVT_ACCEPT, socket, app.queues[i]) : NULL;

        if (asked == NULL)
            return;
        asked->element.exs_ahandle = asked;
        asked->limited = socket->limits_recvs;
        app_answer(asked, exs_accept(socket->number, &asked->element, 1, 0, app.queues[i]));
    }
}

static void call_connect(struct input *input)
{
    struct app_socket *socket = some_socket(input);
    struct somewhere to = some_address(input, socket->family);
    exs_qhandle_t queue = app_some_queue(input);
    uint8_t choice = input_u8(input);
    struct timeval timeout = {.tv_sec = choice >> 2, .tv_usec = choice == 255 ? 1000000 : 0};
    struct asked *asked = app_ask(EXS_EVT_CONNECT, socket, queue);

    if (asked != NULL)
        app_answer(asked, exs_connect(socket->number, (struct sockaddr *)&to.storage, to.length, choice == 254,
                                      choice & 1 ? &timeout : NULL, queue, asked));
}

static void call_shutdown(struct input *input)
{
    struct app_socket *socket = some_socket(input);
    exs_qhandle_t queue = app_some_queue(input);
    uint8_t choice = input_u8(input);
    struct asked *asked = app_ask(EXS_EVT_SHUTDOWN, socket, queue);
    int how = choice % 3;

    if (asked == NULL)
        return;
    app_answer(asked, exs_shutdown(socket->number, choice == 255 ? 17 : how, choice == 254, queue, asked));
    if (asked->waits && how != SHUT_WR && asked->peer != NULL)
        asked->peer->in.compared = false; /* data from now on may be discarded */
}

/* Without an owning queue the library's thread would drive the close, and runs would not be reproducible. */
static bool has_owner(int number)
{
    struct sock *sock = xs_sock_get_locked(number);
    bool has = sock != NULL && sock->owner != NULL;

    if (sock != NULL)
        xs_sock_put_locked(sock);
    return has;
}

static void call_close(struct input *input)
{
    struct app_socket *socket = some_socket(input);
    exs_qhandle_t queue = app_some_queue(input);
    uint8_t choice = input_u8(input);

    if (choice < 16 && has_owner(socket->number))
        queue = NULL;
    struct asked *asked = app_ask(EXS_EVT_CLOSE, socket, queue);

    if (asked == NULL)
        return;
    asked->silent = queue == NULL;
    app_answer(asked, exs_close(socket->number, choice == 254, queue, asked));
    if (asked->waits)
        socket->number = -1;
}

/* Invalid values have no effect. */
static void call_attributes(exs_qhandle_t queue, uint8_t choice)
{
    exs_qstatus_t before, after;
    exs_qattr_t values = {.exs_depth = (choice & 0x3f) - 1, .exs_wait = choice & 7, .exs_wait_us = choice >> 3};
    bool known = exs_qstatus(queue, &before) == 0;
    int result = exs_qmodify(queue, choice >> 6, &values);

    if (!known) {
        require(result == -1, "exs_qmodify changes no queue");
        return;
    }
    require(exs_qstatus(queue, &after) == 0, "exs_qstatus: %s", strerror(errno));
    require(after.exs_events == before.exs_events && after.exs_pending == before.exs_pending &&
                after.exs_sockets == before.exs_sockets,
            "exs_qmodify changes what is there");
    if (result == -1)
        require(memcmp(&before.exs_attr, &after.exs_attr, sizeof(before.exs_attr)) == 0, "it was refused");
}

static void call_queue(struct input *input)
{
    uint8_t choice = input_u8(input);
    exs_qhandle_t *queue = &app.queues[1 + choice % (APP_FEW_QUEUES - 1)];

    if (choice & 0x80) {
        exs_qdelete((exs_qhandle_t)(uintptr_t)choice);
        call_attributes((exs_qhandle_t)(uintptr_t)choice, choice);
    } else if (*queue == NULL) {
        *queue = exs_qcreate(choice & 0x40 ? -1 : choice & 0x3c);
        if (*queue == EXS_QHANDLE_INVALID)
            *queue = NULL;
    } else {
        call_attributes(*queue, choice << 1);
        while (app_dequeue(*queue, 32) > 0)
            ;
        if (exs_qdelete(*queue) == 0)
            *queue = NULL;
    }
}

static void call_memory(struct input *input)
{
    static const size_t sizes[] = {1 << 20, 65536, 8192, 1};
    uint8_t choice = input_u8(input);
    struct region *region = &app.regions[choice % APP_REGIONS];

    if (region->handle == EXS_MHANDLE_INVALID) {
        free(region->memory);
        *region =
            (struct region){.size = sizes[(choice >> 2) & 3], .flags = choice & 0x40 ? choice >> 4 & 3 : 0};
        region->flags <<= 1;
        region->memory = malloc(region->size);
        require(region->memory != NULL, "no memory");
        region->handle = exs_mregister(region->memory, choice == 255 ? 0 : region->size, region->flags);
    } else if (exs_mderegister(region->handle, choice == 255) == 0) {
        require(choice != 255, "unknown flags are taken");
        region->handle = EXS_MHANDLE_INVALID;
    }
}

static socklen_t size_of_option(int option)
{
    if (option == SO_LINGER)
        return sizeof(struct linger);
    return option == SO_RCVTIMEO || option == SO_SNDTIMEO ? sizeof(struct timeval) : sizeof(int);
}

/* Queries any option, with a buffer of any length. */
static void get_option(const struct app_socket *socket, uint8_t choice)
{
    unsigned char value[8], was[sizeof(value)];
    socklen_t room = choice & 7, length = room;
    int option = choice >> 2;
    socklen_t size = size_of_option(option), most = room < size ? room : size;

    memset(value, choice, sizeof(value));
    memcpy(was, value, sizeof(value));
    int result = exs_getsockopt(socket->number, SOL_SOCKET, option, value, &length);

    if (result == -1)
        most = 0;
    require(length == (result == 0 ? most : room), "exs_getsockopt tells another length");
    require(memcmp(value + most, was + most, sizeof(value) - most) == 0, "exs_getsockopt writes elsewhere");
}

static void call_names(struct input *input)
{
    struct app_socket *socket = some_socket(input);
    uint8_t choice = input_u8(input);
    struct sockaddr_storage address;
    socklen_t length = choice & 0x80 ? 3 : sizeof(address);
    char name[32];

    exs_getsockname(socket->number, (struct sockaddr *)&address, &length);
    length = sizeof(address);
    exs_getpeername(socket->number, (struct sockaddr *)&address, choice == 255 ? NULL : &length);
    exs_getdevice(socket->number, name, choice & 0x40 ? 4 : sizeof(name));
    get_option(socket, choice);
    exs_fcntl(socket->number, choice & 1 ? F_GETFL : F_SETFL, O_NONBLOCK);
    exs_fcntl(socket->number, choice & 2 ? F_GETFD : F_DUPFD, 0);
    require(exs_init(EXS_VERSION) == 0 && exs_fini() == 0, "exs_init is not counted");
    require(exs_fini() == -1 && errno == EBUSY, "exs_fini takes away a queue");
}

void app_call(struct input *input)
{
    uint8_t what = input_u8(input);

    switch (what < NEWER ? what % 20 : what < CROWD ? what % 4 + 100 : 104) {
    case 104:
        call_accept_crowd(input);
        break;
    case 100:
    case 101:
        app_call_cancel(input, some_socket(input));
        break;
    case 102:
        app_call_recvfile(input, some_socket(input));
        break;
    case 103:
        app_call_limit(input, some_socket(input));
        break;
    case 0:
        call_socket(input);
        break;
    case 1:
        call_bind(input);
        break;
    case 2:
        exs_listen(some_socket(input)->number, (int8_t)input_u8(input));
        break;
    case 3:
        call_accept(input);
        break;
    case 4:
        call_accept_many(input);
        break;
    case 5:
        call_connect(input);
        break;
    case 6:
        call_shutdown(input);
        break;
    case 7:
        call_close(input);
        break;
    case 8:
        call_queue(input);
        break;
    case 9:
        call_memory(input);
        break;
    case 10:
        call_names(input);
        break;
    default:
        app_call_transfer(input, some_socket(input), what % 20 - 11);
        break;
    }
}
