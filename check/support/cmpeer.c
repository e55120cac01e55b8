/* SPDX-License-Identifier: BSD-2-Clause */
/* cmpeer.c - see cmpeer.h. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <unistd.h>
#include <sys/socket.h>
#include "cmpeer.h"
#include "endpoints.h"

#define WAIT_MS 30000 /* longer than any event takes that does occur */
#define RESOLVE_MS 1000

/* ---- Messages ---- */

static const size_t sizes[] = {[SAID_REQ] = 84, [SAID_REP] = 224,      [SAID_RTU] = 8,        [SAID_REJ] = 160,
                               [SAID_DREQ] = 8, [SAID_SIDR_REQ] = 196, [SAID_SIDR_REP] = 156, [SAID_MRA] = 8};

void said_put(struct said *said, size_t at, unsigned width, uint32_t value)
{
    for (unsigned i = 0; i < width; i++)
        said->bytes[at + i] = (uint8_t)(value >> 8 * (width - 1 - i));
}

struct said said(enum said_type type)
{
    struct said said = {.bytes = {0xe8, 'E', 'X', 'S', 1, (uint8_t)type}, .size = sizes[type]};

    said_put(&said, 6, 2, (uint32_t)said.size);
    if (type == SAID_REQ || type == SAID_REP) {
        said_put(&said, 8, 4, 0x1234);
        said_put(&said, 12, 4, 0x777);
        said_put(&said, 16, 2, 4791);
        said_put(&said, 18, 4, 0x05101006); /* path MTU, resources, depth, retries */
        said_put(&said, 22, 1, 7);          /* RNR retries */
    } else if (type == SAID_REJ) {
        said_put(&said, 8, 2, 28);
    } else if (type == SAID_SIDR_REP) {
        said_put(&said, 12, 4, 0x1234);
        said_put(&said, 16, 4, 0x01234567);
    }
    return said;
}

const struct damage said_damage[] = {
    {"queue pair 0", 8, 4, 0},
    {"queue pair 1, the management's", 8, 4, 1},
    {"multicast's queue pair", 8, 4, 0xffffff},
    {"a queue pair of 25 bits", 8, 4, 0x1000000},
    {"a queue pair of 32 bits", 8, 4, 0xffffffff},
    {"a PSN of 25 bits", 12, 4, 0x1000000},
    {"a PSN of 32 bits", 12, 4, 0xffffffff},
    {"no UDP port", 16, 2, 0},
    {"path MTU 0", 18, 1, 0},
    {"path MTU 8192", 18, 1, 6},
    {"path MTU 255", 18, 1, 255},
    {"8 retries", 21, 1, 8},
    {"255 retries", 21, 1, 255},
    {"8 retries for a receiver that isn't ready", 22, 1, 8},
    {"private data of 255 bytes", 24, 1, 255},
    {"a size of 0", 6, 2, 0},
    {"the size of a header", 6, 2, 8},
    {"a size of 83", 6, 2, 83},
    {"a size of 85", 6, 2, 85},
    {"a size of 223", 6, 2, 223},
    {"a size of 225", 6, 2, 225},
    {"a size of 65535", 6, 2, 65535},
    {"type 0", 5, 1, 0},
    {"type 6", 5, 1, 6},
    {"type 255", 5, 1, 255},
};
const int said_damages = sizeof said_damage / sizeof said_damage[0];

struct said said_damaged(enum said_type type, const struct damage *damage)
{
    struct said message = said(type);

    said_put(&message, damage->at, damage->width, damage->value);
    return message;
}

/* ---- The device's side ---- */

static void open_channel(struct cmside *side)
{
    *side = (struct cmside){.channel = soft_create_event_channel(), .listening = -1};
    ck_assert_ptr_nonnull(side->channel);
    ck_assert_int_ne(fcntl(side->channel->fd, F_SETFL, fcntl(side->channel->fd, F_GETFL) | O_NONBLOCK), -1);
}

/* Takes the next event, if there is one now. */
static bool next(struct cmside *side, struct told *told)
{
    struct rdma_cm_event *event;

    if (soft_get_cm_event(side->channel, &event) == -1) {
        ck_assert_int_eq(errno, EAGAIN);
        return false;
    }
    *told = (struct told){.type = event->event, .status = event->status, .conn = event->param.conn};
    if (told->conn.private_data_len > 0)
        memcpy(told->private_data, told->conn.private_data, told->conn.private_data_len);
    if (told->type == RDMA_CM_EVENT_CONNECT_REQUEST)
        side->id = event->id;
    ck_assert_int_eq(soft_ack_cm_event(event), 0);
    return true;
}

/* Waits until the device's channel or the peer's socket is readable. */
static void rest(const struct cmside *side, int fd)
{
    struct pollfd wait[] = {{.fd = side->channel->fd, .events = POLLIN}, {.fd = fd, .events = POLLIN}};

    expect(poll(wait, 2, WAIT_MS) > 0, "nothing happens");
}

struct told cmside_expect(struct cmside *side, enum rdma_cm_event_type type)
{
    struct told told;

    while (!next(side, &told))
        rest(side, -1);
    expect(told.type == type, "%s (status %d), not %s", rdma_event_str(told.type), told.status,
           rdma_event_str(type));
    return told;
}

void cmside_quiet(struct cmside *side)
{
    struct told told;
    bool any = next(side, &told);

    expect(!any, "%s (status %d)", rdma_event_str(told.type), told.status);
}

void cmside_listen(struct cmside *side)
{
    open_channel(side);
    side->address = (struct sockaddr_in){.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    ck_assert_int_eq(soft_create_id(side->channel, &side->listener, NULL, RDMA_PS_TCP), 0);
    ck_assert_int_eq(soft_bind_addr(side->listener, (struct sockaddr *)&side->address), 0);
    ck_assert_int_eq(soft_listen(side->listener, 1024), 0);
    side->address = side->listener->route.addr.src_sin;
}

static void make_qp(struct cmside *side)
{
    struct ibv_qp_init_attr attr = {.cap = {CMSIDE_DEPTH, CMSIDE_DEPTH, 1, 1, 0}, .qp_type = IBV_QPT_RC};

    side->pd = soft_alloc_pd(side->id->verbs);
    ck_assert_ptr_nonnull(side->pd);
    ck_assert_int_eq(soft_create_id_qp(side->id, side->pd, &attr), 0);
}

int cmside_accept(struct cmside *side)
{
    struct rdma_conn_param parameters = {.retry_count = 7, .rnr_retry_count = 7};

    make_qp(side);
    return soft_accept(side->id, &parameters);
}

static void stranger_listens(struct cmside *side)
{
    socklen_t length = sizeof side->address;

    side->address = (struct sockaddr_in){.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    side->listening = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    ck_assert_int_ne(side->listening, -1);
    ck_assert_int_eq(bind(side->listening, (struct sockaddr *)&side->address, length), 0);
    ck_assert_int_eq(listen(side->listening, 8), 0);
    ck_assert_int_eq(getsockname(side->listening, (struct sockaddr *)&side->address, &length), 0);
}

int cmside_connect(struct cmside *side, struct said *req)
{
    struct rdma_conn_param parameters = {.retry_count = 7, .rnr_retry_count = 7};
    int fd;

    open_channel(side);
    stranger_listens(side);
    ck_assert_int_eq(soft_create_id(side->channel, &side->id, NULL, RDMA_PS_TCP), 0);
    ck_assert_int_eq(soft_resolve_addr(side->id, NULL, (struct sockaddr *)&side->address, RESOLVE_MS), 0);
    cmside_expect(side, RDMA_CM_EVENT_ADDR_RESOLVED);
    ck_assert_int_eq(soft_resolve_route(side->id, RESOLVE_MS), 0);
    cmside_expect(side, RDMA_CM_EVENT_ROUTE_RESOLVED);
    make_qp(side);
    ck_assert_int_eq(soft_connect(side->id, &parameters), 0);
    fd = accept(side->listening, NULL, NULL);
    ck_assert_int_ne(fd, -1);
    *req = stranger_hears(side, fd, SAID_REQ);
    return fd;
}

void cmside_close(struct cmside *side)
{
    cmside_quiet(side);
    if (side->id != NULL) {
        soft_destroy_id_qp(side->id);
        if (side->pd != NULL)
            ck_assert_int_eq(soft_dealloc_pd(side->pd), 0);
        soft_destroy_id(side->id);
    }
    if (side->listener != NULL)
        soft_destroy_id(side->listener);
    if (side->listening != -1)
        close(side->listening);
    soft_destroy_event_channel(side->channel);
}

/* ---- The untrusted peer ---- */

int stranger_dial(const struct cmside *side)
{
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    ck_assert_int_ne(fd, -1);
    ck_assert_int_eq(connect(fd, (const struct sockaddr *)&side->address, sizeof side->address), 0);
    return fd;
}

void stranger_says_bytes(int fd, const void *bytes, size_t length)
{
    ck_assert_int_eq(send(fd, bytes, length, MSG_NOSIGNAL), (ssize_t)length);
}

void stranger_says(int fd, const struct said *said)
{
    stranger_says_bytes(fd, said->bytes, said->size);
}

struct said stranger_hears(struct cmside *side, int fd, enum said_type type)
{
    struct said heard = {.size = 0};

    while (heard.size < sizes[type]) {
        ssize_t got = recv(fd, heard.bytes + heard.size, sizes[type] - heard.size, MSG_DONTWAIT);

        if (got == -1) {
            ck_assert_int_eq(errno, EAGAIN);
            cmside_quiet(side);
            rest(side, fd);
            continue;
        }
        expect(got > 0, "hung up on the stranger");
        heard.size += (size_t)got;
    }
    expect(heard.bytes[5] == type, "message %u, not %u", heard.bytes[5], type);
    return heard;
}

bool stranger_is_there(int fd)
{
    char byte;

    return recv(fd, &byte, 1, MSG_DONTWAIT | MSG_PEEK) == -1 && errno == EAGAIN;
}

void stranger_is_dropped(struct cmside *side, int fd)
{
    while (stranger_is_there(fd)) {
        cmside_quiet(side);
        rest(side, fd);
    }
    cmside_quiet(side);
    close(fd);
}
