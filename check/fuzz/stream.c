/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * stream.c - fuzzes what a peer of the TCP link sends: valid frames, headers with any numbers, and any bytes, all of it
 * in parts. The queue pair sends, too, and the link holds packets back or does not; the peer reads or does not; and the
 * memory region is registered and deregistered at any time.
 *
 * For every input: nothing outside the memory region is written, and when the connection fails, the queue pair goes to
 * the error state.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
#include "check/fuzz/input.h"
#include "check/support/endpoints.h"
#include "check/support/streamed.h"
#include "core/base/bytes.h"
#include "soft/verbs/verbs.h"

enum { ROUNDS = 60, REACH = TCP_MTU + 5000 };

static struct stream_world {
    struct input input;
    struct streamed device;
    int far;
} * world;

static uint8_t frame[STREAMED_FRAME];
static uint8_t filling[TCP_MTU];

static void look(void)
{
    bool broken;

    streamed_run(&world->device);
    soft_lock(world->device.service.context);
    broken = world->device.peer->failed && world->device.peer->ended;
    soft_unlock(world->device.service.context);
    expect(!broken || streamed_state(&world->device) == IBV_QPS_ERR, "the queue pair outlives its connection");
    while (streamed_poll(&world->device) != -1)
        ;
}

/* Sends the bytes in one part or in two. */
static void say(const uint8_t *bytes, size_t length, size_t cut)
{
    size_t first = cut < length ? cut : length;

    (void)!send(world->far, bytes, first, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (first == length)
        return;
    look();
    (void)!send(world->far, bytes + first, length - first, MSG_NOSIGNAL | MSG_DONTWAIT);
}

/* Sends a frame, which may be valid. */
static void say_frame(uint8_t how)
{
    static const uint8_t opcodes[] = {SEND_ONLY,   WRITE_ONLY,         SEND_FIRST,  SEND_LAST,
                                      WRITE_FIRST, READ_RESPONSE_ONLY, ACKNOWLEDGE, READ_REQUEST};
    struct input *input = &world->input;
    const struct soft_qp *qp = soft_qp_of(world->device.qp);
    uint8_t more = input_u8(input);
    struct roce roce = {.opcode = how & 128 ? input_u8(input) : opcodes[how >> 4 & 7],
                        .ackreq = true,
                        .psn = roce_psn((uint32_t)qp->resp.expected),
                        .va = (uintptr_t)world->device.memory + input_u16(input) % REACH,
                        .payload = filling,
                        .payload_length = more & 1 ? input_u16(input) : input_u8(input)};
    size_t length;

    if (more & 2)
        roce.payload_length = sizeof filling;
    if (more & 4)
        roce.psn = roce_psn((uint32_t)qp->req.una + input_u8(input));
    if (more & 8)
        roce.dma_length = input_u16(input);
    if (more & 16)
        roce.va += STREAMED_MEMORY - REACH;
    length = streamed_frame(&world->device, frame, &roce, more & 32 ? UINT32_C(0x80000000) | roce.psn : 0);
    say(frame, length, more & 64 ? input_u16(input) : length);
}

/* Sends a header with any numbers, and zeros after it. */
static void say_header(uint8_t how)
{
    put32(frame, (uint32_t)(how >> 4 & 3) << 24 | (uint32_t)input_number(&world->input, 3));
    put32(frame + 4, how & 64 ? (uint32_t)input_number(&world->input, 4) : 0);
    memset(frame + TCP_FRAME_HEADER, 0, 256);
    say(frame, TCP_FRAME_HEADER + input_u8(&world->input), input_u8(&world->input));
}

static void say_bytes(uint8_t how)
{
    const uint8_t *bytes;
    size_t length = input_bytes(&world->input, &bytes, how >> 2);

    say(bytes, length, length / 2);
}

static void act(uint8_t how)
{
    static const enum ibv_wr_opcode opcodes[] = {IBV_WR_SEND, IBV_WR_RDMA_WRITE, IBV_WR_RDMA_READ};
    struct streamed *device = &world->device;
    uint32_t length = how & 128 ? 300000 : 64;

    switch (how >> 2 & 7) {
    case 0:
        atomic_store(&soft_poll_state(device->service.context)->polls_again, how & 128);
        break;
    case 1:
        if (device->mr != NULL)
            streamed_receive(device, input_u8(&world->input), length);
        break;
    case 2:
        while (recv(world->far, frame, sizeof frame, MSG_DONTWAIT) > 0)
            ;
        break;
    case 3:
        if (device->mr != NULL && soft_dereg_mr(device->mr) == 0)
            device->mr = NULL;
        break;
    case 4:
        if (device->mr == NULL)
            device->mr = soft_reg_mr(device->pd, device->memory, STREAMED_MEMORY, ACCESS_ALL);
        break;
    case 5:
        shutdown(world->far, SHUT_WR);
        break;
    default:
        if (device->mr != NULL)
            streamed_post(device, opcodes[(how >> 5) % 3], 1 << 20, length);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct stream_world one = {.input = {data, size}};
    int fds[2];

    world = &one;
    expect(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds) == 0, "no socket: %s", strerror(errno));
    one.far = fds[1];
    streamed_open(&one.device, fds[0]);
    for (int round = 0; round < ROUNDS && input_left(&one.input) > 0; round++) {
        uint8_t how = input_u8(&one.input);

        if (one.device.mr == NULL && (how & 3) == 0)
            how |= 3;
        switch (how & 3) {
        case 0:
            say_frame(how);
            break;
        case 1:
            say_header(how);
            break;
        case 2:
            say_bytes(how);
            break;
        default:
            act(how);
        }
        if ((how & 12) != 12)
            look();
    }
    look();
    streamed_close(&one.device);
    close(one.far);
    return 0;
}
