/* SPDX-License-Identifier: BSD-2-Clause */
/* Receiving a file: what came may still be changed by the server, who writes it by RDMA; what is hashed and
 * stored is a copy. See fetch.h. */
#include "fetch.h"

#include <errno.h>
#include <exs.h>
#include <string.h>
#include <unistd.h>

#include "progress.h"
#include "tools/common/clock.h"
#include "tools/common/terminal.h"

enum { COPY = 128 << 10 }; /* bytes: stays in a processor's own cache */

/* A file on its way; lives in fetch_file. */
struct fetching {
    struct fetch *fetch;
    struct landing *landing;
    struct transfer_header header;
    uint64_t at; /* bytes that are there */
    XXH3_state_t *hash;
    struct progress progress;
    unsigned char copy[COPY];
};

/* ---- Wishes -------------------------------------------------------------------------------------------- */

static int wish(struct fetch *fetch, const char *path, uint64_t there, const unsigned char *digest)
{
    unsigned char bytes[TRANSFER_HEADER + TRANSFER_PATH_MAX];
    struct transfer_header header = {.version = TRANSFER_WANTS, .name_length = strlen(path), .size = there};

    memcpy(header.digest, digest, TRANSFER_DIGEST);
    transfer_put_header(bytes, &header);
    memcpy(bytes + TRANSFER_HEADER, path, header.name_length);
    /* A server that went away may have said why. */
    if (exs_blocking_send(fetch->client.sock, bytes, TRANSFER_HEADER + header.name_length, 0, NULL) == -1 &&
        errno != EPIPE && errno != ECONNRESET)
        return client_failed(&fetch->client, "cannot ask");
    return 0;
}

static int receive_answer(struct fetch *fetch, enum transfer_status want, char text[TRANSFER_TEXT_MAX + 1])
{
    static const unsigned char nothing[TRANSFER_DIGEST];
    struct client *client = &fetch->client;
    struct transfer_reply reply;

    if (client_reply(client, &reply, text) == -1)
        return -1;
    if (memcmp(reply.digest, nothing, TRANSFER_DIGEST) != 0)
        return client_not_understood(client);
    if (reply.status == want)
        return 0;
    if (reply.status == TRANSFER_MALFORMED || reply.status == TRANSFER_REFUSED ||
        reply.status == TRANSFER_FAILED)
        return client_failed_text(client, "the server does not give it", terminal_filter(text));
    return client_failed_text(client, "not understood", "the server answered something else");
}

/* ---- Files --------------------------------------------------------------------------------------------- */

static int hash_there(struct fetching *f)
{
    for (f->at = 0; f->at < f->landing->there;) {
        uint64_t left = f->landing->there - f->at;
        ssize_t got = pread(f->landing->fd, f->copy, left < COPY ? (size_t)left : COPY, (off_t)f->at);

        if (got == -1 && errno == EINTR)
            continue;
        if (got <= 0)
            return client_failed_text(&f->fetch->client, "cannot read what is there",
                                      got == 0 ? "it became shorter while it was read" : strerror(errno));
        XXH3_128bits_update(f->hash, f->copy, (size_t)got);
        f->at += (uint64_t)got;
        progress_update(&f->progress, f->at);
    }
    return 0;
}

/* How long it is, and where it begins. */
static int ask(struct fetching *f, const char *path)
{
    struct client *client = &f->fetch->client;
    unsigned char digest[TRANSFER_DIGEST];
    char text[TRANSFER_TEXT_MAX + 1];
    const char *wrong;
    uint64_t from;

    progress_start(&f->progress, path, f->landing->there, f->fetch->quiet);
    int result = hash_there(f);

    progress_end(&f->progress);
    if (result == -1)
        return -1;
    transfer_digest(f->hash, digest);
    if (client_renew(client) == -1 || client_bear(client, f->at) == -1 ||
        wish(f->fetch, path, f->at, digest) == -1 || receive_answer(f->fetch, TRANSFER_COMES, text) == -1 ||
        client_bear(client, 0) == -1)
        return -1;
    wrong = transfer_get_coming((const unsigned char *)text, &f->header, &from);
    if (wrong != NULL)
        return client_failed_text(client, "not understood", wrong);
    if (from != 0 && from != f->at)
        return client_failed_text(client, "not understood", "there is no such place to go on");
    if (f->header.size > f->fetch->limit)
        return client_failed_text(client, "it is too long", "exs-get -s says how long a file may be");
    if (from == 0)
        XXH3_128bits_reset(f->hash);
    f->at = f->fetch->resumed = from;
    if (landing_begin(f->landing, from) == 0)
        return 0;
    if (errno == EBUSY)
        return client_failed_text(client, "cannot write", "another exs-get gets it right now");
    return client_failed(client, "cannot write");
}

static int take_piece(struct fetching *f, const unsigned char *piece, size_t length)
{
    for (size_t done = 0; done < length;) {
        size_t take = length - done < COPY ? length - done : COPY;

        memcpy(f->copy, piece + done, take);
        XXH3_128bits_update(f->hash, f->copy, take);
        if (landing_write(f->landing, f->copy, take, f->at) == -1)
            return client_failed(&f->fetch->client, "cannot write");
        f->at += take;
        done += take;
    }
    return 0;
}

static int receive_data(struct fetching *f)
{
    struct client *client = &f->fetch->client;
    unsigned char *memory = f->fetch->block->memory;

    while (f->at < f->header.size) {
        uint64_t left = f->header.size - f->at;
        size_t length = left < BLOCK_SLOT ? (size_t)left : BLOCK_SLOT;

        if (client_receive(client, memory, length, f->fetch->block->region) == -1 ||
            take_piece(f, memory, length) == -1)
            return -1;
        progress_update(&f->progress, f->at);
    }
    return 0;
}

static int receive_digest(struct fetching *f)
{
    unsigned char digest[TRANSFER_DIGEST];
    struct client *client = &f->fetch->client;

    if (client_receive(client, digest, sizeof(digest), NULL) == -1)
        return -1;
    transfer_digest(f->hash, f->fetch->digest);
    if (memcmp(digest, f->fetch->digest, TRANSFER_DIGEST) == 0)
        return 0;
    landing_discard(f->landing);
    return client_failed_text(client, "came, but damaged", "the digests differ: get it again");
}

static int receive_file(struct fetching *f, const char *path)
{
    int result;

    if (ask(f, path) == -1)
        return -1;
    progress_start(&f->progress, path, f->header.size, f->fetch->quiet);
    progress_skip(&f->progress, f->at);
    result = receive_data(f) == 0 && receive_digest(f) == 0 ? 0 : -1;
    progress_end(&f->progress);
    f->fetch->size = f->header.size;
    return result;
}

int fetch_file(struct fetch *fetch, const char *path, struct landing *landing)
{
    struct fetching f = {.fetch = fetch, .landing = landing, .hash = XXH3_createState()};
    double began = clock_seconds();

    if (f.hash == NULL)
        return client_failed(&fetch->client, "cannot ask");
    XXH3_128bits_reset(f.hash);
    int result = receive_file(&f, path);

    XXH3_freeState(f.hash);
    if (result == -1) {
        client_hang_up(&fetch->client);
        return -1;
    }
    fetch->seconds = clock_seconds() - began;
    return landing_commit(landing, &f.header) == 0 ? 0 : client_failed(&fetch->client, "cannot write");
}

/* ---- Lists --------------------------------------------------------------------------------------------- */

/* path: of the folder. A million of the longest would take a gigabyte. */
static int count_entry(struct fetch *fetch, const char *path, const struct transfer_entry *entry)
{
    fetch->listed_bytes += strlen(path) + entry->name_length;
    if (++fetch->listed > FETCH_LISTED_MAX)
        return client_failed_text(&fetch->client, "not understood",
                                  "the server lists more than a million files");
    if (fetch->listed_bytes > FETCH_LISTED_BYTES)
        return client_failed_text(&fetch->client, "not understood",
                                  "the server lists more than 128 MiB of names");
    return 0;
}

/* 1: there are no more. */
static int receive_entry(struct fetch *fetch, struct transfer_entry *entry, char name[TRANSFER_NAME_MAX + 1])
{
    struct client *client = &fetch->client;
    unsigned char bytes[TRANSFER_ENTRY];

    if (client_receive(client, bytes, sizeof(bytes), NULL) == -1)
        return -1;
    if (!transfer_get_entry(bytes, entry))
        return client_failed_text(client, "not understood", "this is no list");
    if (entry->kind == TRANSFER_NO_MORE)
        return 1;
    if (client_receive(client, name, entry->name_length, NULL) == -1)
        return -1;
    name[entry->name_length] = '\0';
    if (entry->name_length > 0 && transfer_bad_name(name, entry->name_length) != NULL)
        return client_failed_text(client, "not understood", "the server lists a name that no file may have");
    return 0;
}

static int receive_list(struct fetch *fetch, const char *path,
                        int (*found)(void *context, const struct transfer_entry *entry, const char *name),
                        void *context)
{
    static const unsigned char nothing[TRANSFER_DIGEST];
    char text[TRANSFER_TEXT_MAX + 1], name[TRANSFER_NAME_MAX + 1];
    struct transfer_entry entry;
    bool is_itself = false;
    uint64_t count = 0;
    int result;

    if (wish(fetch, path, 0, nothing) == -1 || receive_answer(fetch, TRANSFER_LISTS, text) == -1)
        return -1;
    while ((result = receive_entry(fetch, &entry, name)) == 0) {
        is_itself = is_itself || entry.name_length == 0;
        if (is_itself && (entry.kind != TRANSFER_FILE || count > 0))
            return client_failed_text(&fetch->client, "not understood", "this is no list");
        if (count_entry(fetch, path, &entry) == -1)
            return -1;
        if (found(context, &entry, name) == -1)
            return client_failed(&fetch->client, "cannot keep a list");
        count++;
    }
    return result == 1 ? 0 : -1;
}

int fetch_list(struct fetch *fetch, const char *path,
               int (*found)(void *context, const struct transfer_entry *entry, const char *name), void *context)
{
    if (receive_list(fetch, path, found, context) == 0)
        return 0;
    client_hang_up(&fetch->client);
    return -1;
}
