/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * outlet.c - sends one file. Each piece is hashed, then sent from the page cache, into which the hashing has just read
 * it.
 *
 * An exs_sendfile() completes when the server has received all of it. Therefore up to PIECES_OUT calls are outstanding,
 * so that data are in flight during the round trip of a completion and while the next piece is hashed. A file of one
 * piece is sent by a blocking call.
 */
#include "outlet.h"

#include <errno.h>
#include <exs.h>
#include <string.h>
#include <unistd.h>

#include "progress.h"
#include "source.h"
#include "tools/common/clock.h"
#include "tools/common/terminal.h"

enum {
    PIECE = 2 << 20,      /* bytes of one exs_sendfile(): few calls, but frequent updates of the bar */
    PIECES_OUT = 4,       /* maximum outstanding calls of exs_sendfile() */
    RESUME_MIN = 1 << 20, /* bytes: only for longer files it pays to ask what the server has (a round trip) */
    CHUNK = 64 << 10,     /* bytes per read for the digest: fits the first-level cache */
};

/* A file that is being sent; a local variable of outlet_file(). */
struct sending {
    struct outlet *outlet;
    const char *name;
    struct source source;
    uint64_t size, sent;
    XXH3_state_t *hash;
    unsigned char front[TRANSFER_HEADER + TRANSFER_PATH_MAX]; /* header or offset, sent before the next data */
    size_t front_length;                                      /* bytes of `front` */
    unsigned started, done;    /* calls of exs_sendfile() that were started; that have completed */
    uint64_t ends[PIECES_OUT]; /* of the outstanding calls: offset in the file after the last byte */
    struct progress progress;
};

/* Reads the file instead of mapping it, because a file that becomes shorter is then an error and not a signal. */
static int hash_piece(struct sending *s, uint64_t length)
{
    char chunk[CHUNK];

    for (uint64_t done = 0; done < length;) {
        size_t want = length - done < CHUNK ? (size_t)(length - done) : CHUNK;
        ssize_t got = pread(s->source.fd, chunk, want, (off_t)(s->sent + done));

        if (got == -1 && errno == EINTR)
            continue;
        if (got == -1)
            return client_failed(&s->outlet->client, "cannot read");
        if (got == 0)
            return client_failed_text(&s->outlet->client, "cannot send", SOURCE_SHORTER);
        XXH3_128bits_update(s->hash, chunk, (size_t)got);
        done += (uint64_t)got;
    }
    return 0;
}

/* Receives a reply. If go is not NULL, expects TRANSFER_GO and sets it to the server's offset; else expects the final
 * reply. */
static int receive_reply(struct outlet *outlet, unsigned char go[TRANSFER_OFFSET])
{
    struct client *client = &outlet->client;
    char text[TRANSFER_TEXT_MAX + 1];
    struct transfer_reply reply;

    if (client_reply(client, &reply, text) == -1)
        return -1;
    if (reply.status != TRANSFER_STORED && reply.status != TRANSFER_GO)
        return client_failed_text(client, "the server did not take it", terminal_filter(text));
    if ((reply.status == TRANSFER_GO) != (go != NULL))
        return client_failed_text(client, "not understood", "the server answered something else");
    if (go != NULL) {
        memcpy(go, text, TRANSFER_OFFSET);
        memcpy(outlet->digest, reply.digest, TRANSFER_DIGEST);
        return 0;
    }
    if (memcmp(reply.digest, outlet->digest, TRANSFER_DIGEST) != 0)
        return client_failed_text(client, "stored, but damaged", "the digests differ: send it again");
    return 0;
}

int outlet_receive_reply(struct outlet *outlet)
{
    return receive_reply(outlet, NULL);
}

static int send_failed(struct outlet *outlet, int error)
{
    errno = error;
    client_failed(&outlet->client, "cannot send");
    /* If the server has closed the connection, its last reply may contain the reason. */
    if (error == ECONNRESET || error == EPIPE)
        receive_reply(outlet, NULL);
    return -1;
}

/* exs_sendfile() fails with EIO if the file became shorter than the vector says. */
static int send_of_file_failed(struct sending *s, int error)
{
    if (error == EIO && source_is_shorter(&s->source))
        return client_failed_text(&s->outlet->client, "cannot send", SOURCE_SHORTER);
    return send_failed(s->outlet, error);
}

static int send_vector(struct sending *s, exs_xferfile_t *vector, int count)
{
    if (exs_blocking_sendfile(s->outlet->client.sock, vector, count, 0) == 0)
        return 0;
    return send_of_file_failed(s, errno);
}

/* ---- Outstanding calls --------------------------------------------------------------------------------- */

/* Waits for the event of the oldest call. */
static int finish_piece(struct sending *s)
{
    exs_event_t event;

    if (exs_qdequeue(s->outlet->queue, &event, 1, NULL) != 1)
        return client_failed(&s->outlet->client, "exs_qdequeue");
    unsigned piece = s->done++;

    if (event.exs_evt_errno != 0)
        return send_of_file_failed(s, event.exs_evt_errno);
    progress_update(&s->progress, s->ends[piece % PIECES_OUT]);
    return 0;
}

static int finish_pieces(struct sending *s, unsigned still_out)
{
    while (s->started - s->done > still_out)
        if (finish_piece(s) == -1)
            return -1;
    return 0;
}

static int start_vector(struct sending *s, exs_xferfile_t *vector, int count, uint64_t end)
{
    struct outlet *outlet = s->outlet;

    if (outlet->queue == NULL) {
        exs_qhandle_t queue = exs_qcreate(PIECES_OUT);

        if (queue == EXS_QHANDLE_INVALID)
            return client_failed(&outlet->client, "exs_qcreate");
        outlet->queue = queue;
    }
    if (finish_pieces(s, PIECES_OUT - 1) == -1)
        return -1;
    if (exs_sendfile(outlet->client.sock, vector, count, 0, outlet->queue, NULL) == 0) {
        s->ends[s->started++ % PIECES_OUT] = end;
        return 0;
    }
    int error = errno;

    /* The event of an earlier call has the error. */
    return error == ECANCELED && finish_pieces(s, 0) == -1 ? -1 : send_of_file_failed(s, error);
}

/* Called after the connection was closed: all calls have completed. Removes their events from the queue. */
static void drop_events(struct sending *s)
{
    exs_event_t event;

    while (s->started != s->done && exs_qdequeue(s->outlet->queue, &event, 1, NULL) == 1)
        s->done++;
}

/* ---- A file -------------------------------------------------------------------------------------------- */

/* Hashes the first `there` bytes and compares them with the server's digest. If they differ, the file is sent from
 * offset 0. */
static int skip_present(struct sending *s, uint64_t there)
{
    unsigned char digest[TRANSFER_DIGEST];

    while (s->sent < there) {
        uint64_t length = there - s->sent < PIECE ? there - s->sent : PIECE;

        if (hash_piece(s, length) == -1)
            return -1;
        s->sent += length;
        progress_update(&s->progress, s->sent);
    }
    transfer_digest(s->hash, digest);
    if (memcmp(digest, s->outlet->digest, TRANSFER_DIGEST) != 0) {
        XXH3_128bits_reset(s->hash);
        s->sent = 0;
    }
    return 0;
}

/* Asks the server how many bytes it has from an earlier attempt. */
static int ask_offset(struct sending *s)
{
    exs_xferfile_t vector = {.exs_xfv_type = EXS_IOVEC,
                             .exs_xfv.exs_iov = {.exs_base = s->front, .exs_length = s->front_length}};
    unsigned char go[TRANSFER_OFFSET];

    if (send_vector(s, &vector, 1) == -1 || receive_reply(s->outlet, go) == -1)
        return -1;
    uint64_t there = transfer_get_offset(go);

    if (there > s->size)
        return client_failed_text(&s->outlet->client, "not understood", "the server has more than there is");
    if (skip_present(s, there) == -1)
        return -1;
    s->outlet->resumed = s->sent;
    progress_skip(&s->progress, s->sent);
    transfer_put_offset(s->front, s->sent);
    s->front_length = TRANSFER_OFFSET;
    return 0;
}

/* Sends a piece. The call also sends the header or offset before the first piece, and the digest after the last. */
static int send_piece(struct sending *s, uint64_t length)
{
    exs_xferfile_t vector[3];
    int count = 0;

    if (s->front_length > 0) {
        vector[count].exs_xfv_type = EXS_IOVEC;
        vector[count++].exs_xfv.exs_iov = (exs_iovec_t){.exs_base = s->front, .exs_length = s->front_length};
    }
    if (length > 0) {
        vector[count].exs_xfv_type = EXS_FDVEC;
        vector[count++].exs_xfv.exs_fdv =
            (exs_fdvec_t){.exs_fildes = s->source.fd, .exs_offset = (off_t)s->sent, .exs_length = length};
    }
    if (s->sent + length == s->size) {
        transfer_digest(s->hash, s->outlet->digest);
        vector[count].exs_xfv_type = EXS_IOVEC;
        vector[count++].exs_xfv.exs_iov =
            (exs_iovec_t){.exs_base = s->outlet->digest, .exs_length = TRANSFER_DIGEST};
    }
    s->front_length = 0;
    if (length == s->size)
        return send_vector(s, vector, count);
    return start_vector(s, vector, count, s->sent + length);
}

/* Whether the server has replied before all was sent. It does so only to refuse the file, so the rest need not be
 * sent. */
static bool is_refused(struct outlet *outlet)
{
    unsigned char byte;

    if (exs_blocking_recv(outlet->client.sock, &byte, 1, MSG_PEEK | MSG_DONTWAIT, NULL) == -1)
        return false; /* no reply yet; or the connection has failed, which the next piece will report */
    if (receive_reply(outlet, NULL) == 0)
        client_failed_text(&outlet->client, "not understood", "the server answered too early");
    return true;
}

static int send_pieces(struct sending *s)
{
    s->outlet->resumed = 0;
    if (s->size >= RESUME_MIN && ask_offset(s) == -1)
        return -1;
    do {
        uint64_t length = s->size - s->sent < PIECE ? s->size - s->sent : PIECE;

        if (hash_piece(s, length) == -1 || send_piece(s, length) == -1)
            return -1;
        s->sent += length;
        if (s->sent < s->size && is_refused(s->outlet))
            return -1;
    } while (s->sent < s->size);
    return finish_pieces(s, 0) == -1 ? -1 : receive_reply(s->outlet, NULL);
}

static void put_header(struct sending *s, const struct stat *status)
{
    const struct transfer_header header = {.name_length = strlen(s->name),
                                           .size = s->size,
                                           .asks = s->size >= RESUME_MIN,
                                           .mode = status->st_mode & 0777,
                                           .seconds = status->st_mtim.tv_sec,
                                           .nanoseconds = (uint32_t)status->st_mtim.tv_nsec};

    transfer_put_header(s->front, &header);
    memcpy(s->front + TRANSFER_HEADER, s->name, header.name_length);
    s->front_length = TRANSFER_HEADER + header.name_length;
}

static int prepare_file(struct sending *s, const char *path, size_t named)
{
    const char *wrong = transfer_check_path(s->name, strlen(s->name), s->outlet->hidden);
    struct client *client = &s->outlet->client;

    if (wrong != NULL)
        return client_failed_text(client, "cannot be sent", wrong);
    if (source_open(&s->source, path, named, client) == -1)
        return -1;
    s->size = s->source.size;
    put_header(s, &s->source.status);
    s->hash = XXH3_createState();
    if (s->hash == NULL)
        return client_failed(client, "cannot be sent");
    XXH3_128bits_reset(s->hash);
    return client_renew(client);
}

/* If the file was changed during the transfer, the stored file may be a mixture of both versions. */
static int check_unchanged(struct sending *s)
{
    if (!source_has_changed(&s->source, s->outlet->may_grow))
        return 0;
    return client_failed_text(&s->outlet->client, "stored, but mixed",
                              "it changed while it was sent: send it again, or -G sends a file that grows");
}

int outlet_file(struct outlet *outlet, const char *path, size_t named, const char *name)
{
    struct sending s = {.outlet = outlet, .name = name, .source.fd = -1};
    int result = prepare_file(&s, path, named);

    if (result == 0) {
        progress_start(&s.progress, s.name, s.size, outlet->quiet);
        result = send_pieces(&s) == 0 ? check_unchanged(&s) : -1;
        progress_end(&s.progress);
        if (result == -1) {
            client_hang_up(&outlet->client);
            drop_events(&s);
        }
        outlet->seconds = clock_seconds() - s.progress.started;
        outlet->size = s.size;
    }
    XXH3_freeState(s.hash);
    source_close(&s.source);
    return result;
}

void outlet_end(struct outlet *outlet)
{
    if (outlet->queue != NULL)
        exs_qdelete(outlet->queue);
    outlet->queue = NULL;
}
