/* SPDX-License-Identifier: BSD-2-Clause */
/* fetch.c - requests and receives files and lists. The server writes data by RDMA and could still change the receive
 * buffer after their arrival. Therefore each piece is copied, and the copy is hashed and stored. See fetch.h. */
#include "fetch.h"

#include <errno.h>
#include <exs.h>
#include <string.h>
#include <unistd.h>

#include "progress.h"
#include "tools/common/clock.h"
#include "tools/common/terminal.h"

enum {
    COPY = 128 << 10,        /* bytes: fits a CPU's private cache */
    FIRST_PIECES = 64 << 10, /* bytes of the first pieces: on a slow path there is soon a part to resume */
};

/* A file that is being received; a local variable of the function that gets it. */
struct fetching {
    struct fetch *fetch;
    struct landing *landing;
    struct transfer_header header;
    uint64_t at; /* bytes received so far, including those of an earlier attempt */
    XXH3_state_t *hash;
    struct progress progress;
    unsigned char *copy; /* COPY bytes; a pointer, so that they are not cleared for each file */
};

/* ---- Requests ("wishes") ------------------------------------------------------------------------------- */

/* Encodes a request. Returns its length in bytes. */
static size_t put_wish(const struct fetch *fetch, unsigned char out[TRANSFER_HEADER + TRANSFER_PATH_MAX],
                       const char *path, uint64_t there, const unsigned char *digest)
{
    struct transfer_header header = {.version = fetch->detailed ? TRANSFER_WANTS_LINKS : TRANSFER_WANTS,
                                     .name_length = strlen(path),
                                     .size = there};

    memcpy(header.digest, digest, TRANSFER_DIGEST);
    transfer_put_header(out, &header);
    memcpy(out + TRANSFER_HEADER, path, header.name_length);
    return TRANSFER_HEADER + header.name_length;
}

static int send_wishes(struct fetch *fetch, const unsigned char *bytes, size_t length)
{
    /* If the server has closed the connection, the reply that follows may contain the reason. */
    if (exs_blocking_send(fetch->client.sock, bytes, length, 0, NULL) == -1 && errno != EPIPE &&
        errno != ECONNRESET)
        return client_failed(&fetch->client, "cannot ask");
    return 0;
}

static int send_wish(struct fetch *fetch, const char *path, uint64_t there, const unsigned char *digest)
{
    unsigned char bytes[TRANSFER_HEADER + TRANSFER_PATH_MAX];

    return send_wishes(fetch, bytes, put_wish(fetch, bytes, path, there, digest));
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
    if (reply.status == TRANSFER_MALFORMED && fetch->detailed)
        return client_failed_text(client, "the server does not give it",
                                  "it is of an older release, which has neither -A nor -c");
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

/* Receives and checks the reply: the file's header, and the offset from which the server sends. */
static int take_answer(struct fetching *f)
{
    struct client *client = &f->fetch->client;
    char text[TRANSFER_TEXT_MAX + 1];
    const char *wrong;
    uint64_t from;

    if (receive_answer(f->fetch, TRANSFER_COMES, text) == -1 || client_bear(client, 0) == -1)
        return -1;
    wrong = transfer_get_coming((const unsigned char *)text, &f->header, &from);
    if (wrong != NULL || f->header.kind == TRANSFER_FOLDER)
        return client_failed_text(client, "not understood", wrong != NULL ? wrong : "this is a folder");
    if (from != 0 && from != f->at)
        return client_failed_text(client, "not understood", "there is no such place to go on");
    if (f->header.size > f->fetch->limit)
        return client_failed_text(client, "it is too long", "exs-get -s says how long a file may be");
    if (from == 0)
        XXH3_128bits_reset(f->hash);
    f->at = f->fetch->resumed = from;
    return 0;
}

static int ask_length(struct fetching *f, const char *path)
{
    struct client *client = &f->fetch->client;
    unsigned char digest[TRANSFER_DIGEST];

    progress_start(&f->progress, path, f->landing->there, f->fetch->quiet);
    int result = hash_there(f);

    progress_end(&f->progress);
    if (result == -1)
        return -1;
    transfer_digest(f->hash, digest);
    if (client_renew(client) == -1 || client_bear(client, f->at) == -1 ||
        send_wish(f->fetch, path, f->at, digest) == -1)
        return -1;
    return 0;
}

static int begin_landing(struct fetching *f)
{
    struct client *client = &f->fetch->client;

    if (landing_begin(f->landing, f->at) == 0)
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

/* Stores the bytes that arrived before the connection failed, and preserves the error of that failure. */
static void take_rest(struct fetching *f, const unsigned char *piece, size_t length)
{
    char error[sizeof(f->fetch->client.error)];

    memcpy(error, f->fetch->client.error, sizeof(error));
    take_piece(f, piece, length);
    memcpy(f->fetch->client.error, error, sizeof(error));
}

static int receive_data(struct fetching *f)
{
    struct client *client = &f->fetch->client;
    unsigned char *memory = f->fetch->block->memory;

    while (f->at < f->header.size) {
        uint64_t left = f->header.size - f->at;
        size_t most = f->at - f->fetch->resumed < BLOCK_SLOT ? FIRST_PIECES : BLOCK_SLOT, count;
        size_t length = left < most ? (size_t)left : most;

        if (client_receive_counted(client, memory, length, f->fetch->block->region, &count) == -1) {
            take_rest(f, memory, count);
            return -1;
        }
        if (take_piece(f, memory, length) == -1)
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

/* Receives a link: its data are only the target. A stored link is never followed, see special.h. */
static int receive_link(struct fetching *f)
{
    char target[TRANSFER_PATH_MAX + 1];
    struct client *client = &f->fetch->client;
    unsigned char digest[TRANSFER_DIGEST];
    size_t length = (size_t)f->header.size;

    if ((f->fetch->takes & PICKS_LINKS) == 0)
        return client_failed_text(client, "it is a symbolic link", "-A or --links gets links");
    if (client_receive(client, target, length, NULL) == -1 ||
        client_receive(client, digest, sizeof(digest), NULL) == -1)
        return -1;
    target[length] = '\0';
    transfer_hash(target, strlen(target), f->fetch->digest);
    if (memcmp(digest, f->fetch->digest, TRANSFER_DIGEST) != 0)
        return client_failed_text(client, "came, but damaged", "the digests differ: get it again");
    f->fetch->size = length;
    return landing_link(f->landing, &f->header, target) == 0 ? 0 : client_failed(client, "cannot write");
}

/* Receives a file that was requested. */
static int receive_file(struct fetching *f, const char *path)
{
    int result;

    if (take_answer(f) == -1)
        return -1;
    if (f->header.kind == TRANSFER_LINK)
        return receive_link(f);
    if (begin_landing(f) == -1)
        return -1;
    progress_start(&f->progress, path, f->header.size, f->fetch->quiet);
    progress_skip(&f->progress, f->at);
    result = receive_data(f) == 0 && receive_digest(f) == 0 ? 0 : -1;
    progress_end(&f->progress);
    f->fetch->size = f->header.size;
    return result;
}

static int get_file(struct fetch *fetch, const char *path, struct landing *landing, bool is_asked)
{
    unsigned char copy[COPY];
    struct fetching f = {.fetch = fetch, .landing = landing, .copy = copy, .hash = XXH3_createState()};
    double began = clock_seconds();

    if (f.hash == NULL)
        return client_failed(&fetch->client, "cannot ask");
    XXH3_128bits_reset(f.hash);
    int result = !is_asked && ask_length(&f, path) == -1 ? -1 : receive_file(&f, path);

    XXH3_freeState(f.hash);
    if (result == -1) {
        client_hang_up(&fetch->client);
        return -1;
    }
    fetch->seconds = clock_seconds() - began;
    if (f.header.kind == TRANSFER_LINK)
        return 0;
    return landing_commit(landing, &f.header) == 0 ? 0 : client_failed(&fetch->client, "cannot write");
}

int fetch_file(struct fetch *fetch, const char *path, struct landing *landing)
{
    return get_file(fetch, path, landing, false);
}

int fetch_ask(struct fetch *fetch, const char *const *paths, int count)
{
    static const unsigned char nothing[TRANSFER_DIGEST];
    unsigned char bytes[FETCH_ASK_MAX * (TRANSFER_HEADER + TRANSFER_PATH_MAX)];
    size_t length = 0;

    for (int i = 0; i < count; i++)
        length += put_wish(fetch, bytes + length, paths[i], 0, nothing);
    if (send_wishes(fetch, bytes, length) == 0)
        return 0;
    client_hang_up(&fetch->client);
    return -1;
}

int fetch_asked(struct fetch *fetch, const char *path, struct landing *landing)
{
    return get_file(fetch, path, landing, true);
}

/* ---- Lists --------------------------------------------------------------------------------------------- */

/* Counts an entry against the limits. path: of the folder. FETCH_LISTED_MAX entries with long paths would need
 * gigabytes, so their bytes are limited, too. */
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

/* Returns 0; 1 after the last entry; or -1. */
static int receive_entry(struct fetch *fetch, struct transfer_entry *entry, char name[TRANSFER_NAME_MAX + 1])
{
    struct client *client = &fetch->client;
    unsigned char bytes[TRANSFER_ENTRY + TRANSFER_DETAILS];
    size_t length = fetch->detailed ? sizeof(bytes) : TRANSFER_ENTRY;

    if (client_receive(client, bytes, length, NULL) == -1)
        return -1;
    if (!transfer_get_entry(bytes, entry) || (entry->kind == TRANSFER_LINK && !fetch->detailed))
        return client_failed_text(client, "not understood", "this is no list");
    entry->details.size = entry->size;
    if (fetch->detailed && transfer_read_details(bytes + TRANSFER_ENTRY, &entry->details) != NULL)
        return client_failed_text(client, "not understood", "this is no list");
    fetch->folder = entry->details;
    if (entry->kind == TRANSFER_NO_MORE)
        return 1;
    if (client_receive(client, name, entry->name_length, NULL) == -1)
        return -1;
    name[entry->name_length] = '\0';
    if (entry->name_length > 0 && transfer_check_name(name, entry->name_length, fetch->detailed) != NULL)
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

    if (send_wish(fetch, path, fetch->takes != 0 ? TRANSFER_ALL : 0, nothing) == -1 ||
        receive_answer(fetch, TRANSFER_LISTS, text) == -1)
        return -1;
    while ((result = receive_entry(fetch, &entry, name)) == 0) {
        is_itself = is_itself || entry.name_length == 0;
        if (is_itself && (entry.kind == TRANSFER_FOLDER || count > 0))
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
