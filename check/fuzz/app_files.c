/* SPDX-License-Identifier: BSD-2-Clause */
/* app_files.c - see app.h. The files that the program sends and receives. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include "check/fuzz/app.h"

#define FILE_BYTES 100000
#define OFFSET 37 /* bytes at the start of a received file that must not change */

/* ---- Sending ---------------------------------------------------------------------------------------- */

static int file(void)
{
    static int fd = -1;
    static uint8_t bytes[FILE_BYTES];

    if (fd >= 0)
        return fd;
    for (size_t i = 0; i < sizeof(bytes); i++)
        bytes[i] = (uint8_t)(i * 7 + i / 256);
    fd = memfd_create("fuzz", MFD_CLOEXEC);
    require(fd >= 0 && write(fd, bytes, sizeof(bytes)) == (ssize_t)sizeof(bytes), "no file: %s",
            strerror(errno));
    return fd;
}

static exs_xferfile_t some_element(struct input *input, struct asked *asked, size_t *length)
{
    static char nowhere[] = "/nowhere";
    uint8_t choice = input_u8(input), size = input_u8(input);
    exs_xferfile_t element = {.exs_xfv_type = EXS_FDVEC};

    *length = app_some_length(size % 11);
    if (choice & 1) {
        element.exs_xfv.exs_fdv = (exs_fdvec_t){.exs_fildes = choice == 253 ? -1 : file(),
                                                .exs_offset = size * 100,
                                                .exs_length = *length,
                                                .exs_flags = choice >= 240 ? EXS_SHUT_WR : 0};
        if (*length == 0)
            *length = FILE_BYTES - (size_t)size * 100;
    } else if (choice == 254) {
        element.exs_xfv_type = EXS_PATHVEC;
        element.exs_xfv.exs_pathv = (exs_pathvec_t){.exs_path = nowhere};
    } else {
        element.exs_xfv_type = choice == 252 ? 99 : EXS_IOVEC;
        element.exs_xfv.exs_iov = (exs_iovec_t){
            .exs_base = asked->own, .exs_length = *length, .exs_flags = choice >= 240 ? EXS_SHUT_WR : 0};
    }
    asked->length += *length;
    return element;
}

static void file_arrives(struct asked *asked, const exs_xferfile_t *element, size_t length)
{
    static uint8_t bytes[FILE_BYTES];

    if (element->exs_xfv_type == EXS_IOVEC) {
        app_will_arrive(asked, element->exs_xfv.exs_iov.exs_base, length);
        return;
    }
    require(pread(file(), bytes, length, element->exs_xfv.exs_fdv.exs_offset) == (ssize_t)length, "no file");
    app_will_arrive(asked, bytes, length);
}

void app_call_sendfile(struct input *input, struct app_socket *socket)
{
    exs_qhandle_t queue = app_some_queue(input);
    uint8_t choice = input_u8(input);
    int count = 1 + choice % 3, flags = choice >= 224 ? EXS_UNSIGNALED : choice == 221 ? MSG_NOSIGNAL : 0;
    struct asked *asked = app_ask(EXS_EVT_SENDFILE, socket, queue);
    exs_xferfile_t elements[3];
    size_t sizes[3];

    if (asked == NULL)
        return;
    asked->own = asked->buffer = malloc(20000);
    require(asked->own != NULL, "no memory");
    memset(asked->own, app.fill += 3, 20000);
    for (int i = 0; i < count; i++)
        elements[i] = some_element(input, asked, &sizes[i]);
    asked->unsignaled = flags == EXS_UNSIGNALED;
    app_answer(asked, exs_sendfile(socket->number, elements, count, flags, queue, asked));
    if (!asked->waits)
        return;
    asked->limited = socket->limits_sends;
    for (int i = 0; i < count; i++)
        file_arrives(asked, &elements[i], sizes[i]);
    app_one_message(asked);
}

/* ---- Receiving -------------------------------------------------------------------------------------- */

/* Makes a part: in a new file behind some bytes, or in memory; the last part may have no length limit. */
static exs_xferfile_t some_part(struct input *input, struct asked *asked, bool is_last)
{
    struct part *part = &asked->parts[asked->part_count++];
    uint8_t choice = input_u8(input);
    exs_xferfile_t element = {.exs_xfv_type = EXS_IOVEC};

    *part = (struct part){.fd = -1, .length = app_some_length(choice >> 2)};
    if (!(choice & 1)) {
        part->memory = malloc(part->length + 1);
        require(part->memory != NULL, "no memory");
        element.exs_xfv.exs_iov = (exs_iovec_t){.exs_base = part->memory, .exs_length = part->length};
        asked->length += part->length;
        return element;
    }
    part->fd = memfd_create("came", MFD_CLOEXEC);
    require(part->fd >= 0 && pwrite(part->fd, "kept", 4, 0) == 4, "no file: %s", strerror(errno));
    element.exs_xfv_type = EXS_FDVEC;
    if (is_last && choice & 2 && asked->socket->type == SOCK_STREAM)
        part->length = 0;
    element.exs_xfv.exs_fdv = (exs_fdvec_t){
        .exs_fildes = choice == 253 ? -1 : part->fd, .exs_offset = OFFSET, .exs_length = part->length};
    asked->length += part->length > 0 ? part->length : EXS_FILE_MAX;
    return element;
}

void app_call_recvfile(struct input *input, struct app_socket *socket)
{
    exs_qhandle_t queue = app_some_queue(input);
    uint8_t choice = input_u8(input);
    int count = 1 + choice % 3, flags = choice == 255 ? MSG_WAITALL : choice & 0x40 ? EXS_BIGFILE : 0;
    struct asked *asked = app_ask(EXS_EVT_RECVFILE, socket, queue);
    exs_xferfile_t elements[3];

    if (asked == NULL)
        return;
    for (int i = 0; i < count; i++)
        elements[i] = some_part(input, asked, i == count - 1);
    asked->waitall = socket->type == SOCK_STREAM;
    asked->vector = elements;
    asked->registered = true; /* the buffer is created only at the end */
    app_answer(asked, exs_recvfile(socket->number, elements, choice == 254 ? 0 : count, flags, queue, asked));
    memset(elements, 0xff, sizeof(elements));
    app_received(asked, queue);
}

/* Copies what was received into a part, at most `length` bytes. Returns their number. */
static size_t take_part(const struct part *part, uint8_t *to, size_t length)
{
    char kept[OFFSET];

    if (part->fd == -1) {
        length = length < part->length ? length : part->length;
        require(length == 0 || !mock_in_use(part->memory, part->length), "memory of a file's is in use");
        memcpy(to, part->memory, length);
        return length;
    }
    if (part->length > 0 && length > part->length)
        length = part->length;
    require(pread(part->fd, to, length, OFFSET) == (ssize_t)length, "a file is shorter than what came");
    require(length == 0 || lseek(part->fd, 0, SEEK_END) == (off_t)(OFFSET + length),
            "a file is longer than what came");
    require(pread(part->fd, kept, sizeof(kept), 0) >= 4 && memcmp(kept, "kept", 4) == 0,
            "a file is changed where nothing came");
    return length;
}

void app_file_came(struct asked *asked, size_t length)
{
    size_t done = 0;

    require(length <= asked->length, "more bytes than the files hold");
    asked->buffer = asked->own = malloc(length + 1);
    require(asked->own != NULL, "no memory");
    for (int i = 0; i < asked->part_count; i++)
        done += take_part(&asked->parts[i], asked->own + done, length - done);
    require(done == length, "%zu bytes are nowhere", length - done);
}
