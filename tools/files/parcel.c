/* SPDX-License-Identifier: BSD-2-Clause */
/* parcel.c - reads files into one buffer: header, name, data and digest of each. See parcel.h. */
#include "parcel.h"

#include <errno.h>
#include <exs.h>
#include <string.h>
#include <unistd.h>

#include "source.h"
#include "tools/common/clock.h"

/* ---- Reading ------------------------------------------------------------------------------------------- */

/* Returns the address for the data of the next file and sets *room to the available bytes, or returns NULL if the
 * parcel is full. */
static unsigned char *data_of(struct parcel *parcel, const struct pick *pick, size_t *room)
{
    size_t around = TRANSFER_HEADER + strlen(pick->name) + TRANSFER_DIGEST,
           left = PARCEL_BYTES - parcel->length;

    if (parcel->count == PARCEL_FILES || left < around)
        return NULL;
    *room = left - around;
    return parcel->bytes + parcel->length + TRANSFER_HEADER + strlen(pick->name);
}

/* Adds header, name and digest around the data, which the caller has read into the buffer. */
static enum parcel_result complete_parcel(struct parcel *parcel, struct pick *pick, const struct stat *status,
                                          size_t size)
{
    struct parcel_item *item = &parcel->items[parcel->count++];
    unsigned char *next = parcel->bytes + parcel->length;
    const struct transfer_header header = {.name_length = strlen(pick->name),
                                           .kind = pick->kind,
                                           .size = size,
                                           .mode = status->st_mode & 0777,
                                           .seconds = status->st_mtim.tv_sec,
                                           .nanoseconds = (uint32_t)status->st_mtim.tv_nsec};

    transfer_put_header(next, &header);
    memcpy(next + TRANSFER_HEADER, pick->name, header.name_length);
    next += TRANSFER_HEADER + header.name_length;
    transfer_hash(next, size, next + size);
    *item = (struct parcel_item){.pick = pick, .size = size, .started = clock_seconds()};
    memcpy(item->digest, next + size, TRANSFER_DIGEST);
    parcel->length += TRANSFER_HEADER + header.name_length + size + TRANSFER_DIGEST;
    return PARCEL_TAKEN;
}

static int read_all(const struct source *source, unsigned char *data, struct client *client)
{
    for (size_t done = 0; done < source->size;) {
        ssize_t got = pread(source->fd, data + done, (size_t)source->size - done, (off_t)done);

        if (got == -1 && errno == EINTR)
            continue;
        if (got == -1)
            return client_failed(client, "cannot read");
        if (got == 0)
            return client_failed_text(client, "cannot send", SOURCE_SHORTER);
        done += (size_t)got;
    }
    return 0;
}

/* A file that changes while it is read is left to outlet_file(), which reports the change. */
static enum parcel_result add_file(struct parcel *parcel, struct outlet *outlet, struct pick *pick)
{
    struct source source;
    enum parcel_result result = PARCEL_LARGE;
    size_t room = 0;
    unsigned char *data = data_of(parcel, pick, &room);

    if (data == NULL)
        return PARCEL_FULL;
    if (source_open(&source, pick->path, pick->named, &outlet->client) == -1)
        result = PARCEL_FAILED;
    else if (source.size <= PARCEL_FILE_MAX) {
        if (source.size > room)
            result = PARCEL_FULL;
        else if (read_all(&source, data, &outlet->client) == -1)
            result = PARCEL_FAILED;
        else if (!source_has_changed(&source, outlet->may_grow))
            result = complete_parcel(parcel, pick, &source.status, (size_t)source.size);
    }
    source_close(&source);
    return result;
}

static enum parcel_result add_link(struct parcel *parcel, struct outlet *outlet, struct pick *pick)
{
    char target[TRANSFER_PATH_MAX + 1];
    struct stat status;
    size_t room = 0;
    unsigned char *data = data_of(parcel, pick, &room);
    ssize_t length = data == NULL ? 0 : source_target(pick->path, pick->named, target, &status);

    if (length == -1) {
        client_failed_text(&outlet->client, "cannot be sent",
                           "it was removed or replaced since its folder was read");
        return PARCEL_FAILED;
    }
    if (data == NULL || (size_t)length > room)
        return PARCEL_FULL;
    memcpy(data, target, (size_t)length);
    return complete_parcel(parcel, pick, &status, (size_t)length);
}

static enum parcel_result add_folder(struct parcel *parcel, struct outlet *outlet, struct pick *pick)
{
    struct stat status;
    size_t room;

    if (data_of(parcel, pick, &room) == NULL)
        return PARCEL_FULL;
    if (lstat(pick->path, &status) == 0)
        return complete_parcel(parcel, pick, &status, 0);
    client_failed(&outlet->client, "cannot be sent");
    return PARCEL_FAILED;
}

enum parcel_result parcel_add(struct parcel *parcel, struct outlet *outlet, struct pick *pick)
{
    const char *wrong = transfer_check_path(pick->name, strlen(pick->name), outlet->hidden);

    if (wrong == NULL)
        wrong = pick->problem;
    if (wrong != NULL) {
        client_failed_text(&outlet->client, "cannot be sent", wrong);
        return PARCEL_FAILED;
    }
    if (strcmp(pick->path, PICKS_STDIN) == 0)
        return PARCEL_LARGE;
    if (pick->kind == TRANSFER_LINK)
        return add_link(parcel, outlet, pick);
    return pick->kind == TRANSFER_FOLDER ? add_folder(parcel, outlet, pick) : add_file(parcel, outlet, pick);
}

/* ---- Sending ------------------------------------------------------------------------------------------- */

int parcel_send(const struct parcel *parcel, struct outlet *outlet)
{
    struct client *client = &outlet->client;

    /* If the server has closed the connection, the next reply may contain the reason. */
    if (exs_blocking_send(client->sock, parcel->bytes, parcel->length, 0, NULL) >= 0 || errno == EPIPE ||
        errno == ECONNRESET)
        return 0;
    return client_failed(client, "cannot send");
}

int parcel_receive(struct parcel *parcel, struct outlet *outlet)
{
    const struct parcel_item *item = &parcel->items[parcel->answered];

    memcpy(outlet->digest, item->digest, TRANSFER_DIGEST);
    if (outlet_receive_reply(outlet) == -1)
        return -1;
    outlet->size = item->size;
    outlet->resumed = 0;
    outlet->seconds = clock_seconds() - item->started;
    parcel->answered++;
    return 0;
}
