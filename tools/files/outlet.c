/* SPDX-License-Identifier: BSD-2-Clause */
/* Sending one file: each piece is hashed, then sent from the page cache, where the hashing has just put it. */
#include "outlet.h"

#include <errno.h>
#include <exs.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "picks.h"
#include "progress.h"
#include "spool.h"
#include "tools/common/clock.h"
#include "tools/common/options.h"
#include "tools/common/terminal.h"

enum {
    PIECE = 8 << 20,      /* bytes of one exs_sendfile: few calls, and still a bar that moves */
    RESUME_MIN = 1 << 20, /* bytes of a file that is worth a round trip more */
    CHUNK = 64 << 10,     /* bytes read at a time for the digest: stays in the nearest cache */
};

/* A file on its way; lives in outlet_file. */
struct sending {
    struct outlet *outlet;
    const char *name;
    int fd;
    uint64_t size, sent;
    XXH3_state_t *hash;
    unsigned char front[TRANSFER_HEADER + TRANSFER_PATH_MAX]; /* what goes before the next data: ... */
    size_t front_length;                                      /* ... bytes */
    struct progress progress;
};

static int failed(struct outlet *outlet, const char *what)
{
    snprintf(outlet->error, sizeof(outlet->error), "%s: %s", what, strerror(errno));
    return -1;
}

static int failed_text(struct outlet *outlet, const char *what, const char *text)
{
    snprintf(outlet->error, sizeof(outlet->error), "%s: %s", what, text);
    return -1;
}

/* What to do about it, where that can be told. */
static const char *connect_advice(int error)
{
    switch (error) {
    case ECONNREFUSED:
        return " (is exs-serve running there?)";
    case EPROTO:
        return " (something else than exs-serve listens there)";
    case ENODEV:
        return " (no device that may be used leads there: EXS_DEVICE=auto uses any)";
    case EHOSTUNREACH:
    case ENETUNREACH:
    case ETIMEDOUT:
        return " (is the address right, and its host up?)";
    default:
        return "";
    }
}

static int failed_to_connect(struct outlet *outlet, const struct sockaddr *address, socklen_t length)
{
    struct sockaddr_storage there = {0};
    char text[OPTIONS_ADDRESS_MAX];
    int error = errno;

    memcpy(&there, address, length);
    snprintf(outlet->error, sizeof(outlet->error), "%s: cannot connect: %s%s",
             options_address_text(&there, text), strerror(error), connect_advice(error));
    return -1;
}

/* What went wrong was said, or is over. */
static void hang_up(struct outlet *outlet)
{
    exs_blocking_close(outlet->sock);
    outlet->sock = -1;
}

static int begin(struct outlet *outlet, const struct sockaddr *address, socklen_t length)
{
    if (exs_blocking_connect(outlet->sock, address, length) == -1)
        return failed_to_connect(outlet, address, length);
    if (exs_getdevice(outlet->sock, outlet->device, sizeof(outlet->device)) == -1)
        return failed(outlet, "exs_getdevice");
    return 0;
}

int outlet_open(struct outlet *outlet, const struct sockaddr *address, socklen_t length)
{
    outlet->sock = exs_socket(address->sa_family, SOCK_STREAM, 0);
    if (outlet->sock == -1)
        return failed(outlet, "exs_socket");
    if (begin(outlet, address, length) == 0)
        return 0;
    hang_up(outlet);
    return -1;
}

int outlet_close(struct outlet *outlet)
{
    int sock = outlet->sock;

    outlet->sock = -1;
    return exs_blocking_close(sock) == 0 ? 0 : failed(outlet, "exs_blocking_close");
}

/* By reading, not by mapping: a file that gets shorter meanwhile is an error then, not a signal. */
static int hash_piece(struct sending *s, uint64_t length)
{
    char chunk[CHUNK];

    for (uint64_t done = 0; done < length;) {
        size_t want = length - done < CHUNK ? (size_t)(length - done) : CHUNK;
        ssize_t got = pread(s->fd, chunk, want, (off_t)(s->sent + done));

        if (got == -1 && errno == EINTR)
            continue;
        if (got == -1)
            return failed(s->outlet, "cannot read");
        if (got == 0)
            return failed_text(s->outlet, "cannot send", "the file became shorter meanwhile");
        XXH3_128bits_update(s->hash, chunk, (size_t)got);
        done += (uint64_t)got;
    }
    return 0;
}

static int receive_all(struct outlet *outlet, void *buffer, size_t length)
{
    ssize_t got = length == 0 ? 0 : exs_blocking_recv(outlet->sock, buffer, length, MSG_WAITALL, NULL);

    if (got == -1)
        return failed(outlet, "no answer from the server");
    if ((size_t)got < length)
        return failed_text(outlet, "no answer from the server", "it closed the connection");
    return 0;
}

/* go: the server's offset is wanted, which becomes that; NULL: the end is. */
static int receive_reply(struct outlet *outlet, unsigned char go[TRANSFER_OFFSET])
{
    unsigned char bytes[TRANSFER_REPLY];
    char text[TRANSFER_TEXT_MAX + 1];
    struct transfer_reply reply;

    if (receive_all(outlet, bytes, sizeof(bytes)) == -1)
        return -1;
    if (!transfer_get_reply(bytes, &reply))
        return failed_text(outlet, "not understood", "is this an exs-serve?");
    if (receive_all(outlet, text, reply.text_length) == -1)
        return -1;
    text[reply.text_length] = '\0';
    if (reply.status != TRANSFER_STORED && reply.status != TRANSFER_GO)
        return failed_text(outlet, "the server did not take it", terminal_filter(text));
    if ((reply.status == TRANSFER_GO) != (go != NULL))
        return failed_text(outlet, "not understood", "the server answered something else");
    if (go != NULL) {
        memcpy(go, text, TRANSFER_OFFSET);
        memcpy(outlet->digest, reply.digest, TRANSFER_DIGEST);
        return 0;
    }
    if (memcmp(reply.digest, outlet->digest, TRANSFER_DIGEST) != 0)
        return failed_text(outlet, "stored, but damaged", "the digests differ: send it again");
    return 0;
}

static int send_vector(struct outlet *outlet, exs_xferfile_t *vector, int count)
{
    if (exs_blocking_sendfile(outlet->sock, vector, count, 0) == 0)
        return 0;
    int error = errno;
    failed(outlet, "cannot send");
    /* A server that went away may have said why. */
    if (error == ECONNRESET || error == EPIPE)
        receive_reply(outlet, NULL);
    return -1;
}

/* What there is must be what the file begins with, else it is sent from its beginning. */
static int skip(struct sending *s, uint64_t there)
{
    unsigned char digest[TRANSFER_DIGEST];

    while (s->sent < there) {
        uint64_t length = there - s->sent < PIECE ? there - s->sent : PIECE;

        if (hash_piece(s, length) == -1)
            return -1;
        s->sent += length;
    }
    transfer_digest(s->hash, digest);
    if (memcmp(digest, s->outlet->digest, TRANSFER_DIGEST) != 0) {
        XXH3_128bits_reset(s->hash);
        s->sent = 0;
    }
    return 0;
}

/* Asks the server how much it has. */
static int resume(struct sending *s)
{
    exs_xferfile_t vector = {.exs_xfv_type = EXS_IOVEC,
                             .exs_xfv.exs_iov = {.exs_base = s->front, .exs_length = s->front_length}};
    unsigned char go[TRANSFER_OFFSET];

    if (send_vector(s->outlet, &vector, 1) == -1 || receive_reply(s->outlet, go) == -1)
        return -1;
    uint64_t there = transfer_get_offset(go);

    if (there > s->size)
        return failed_text(s->outlet, "not understood", "the server has more than there is");
    if (skip(s, there) == -1)
        return -1;
    s->outlet->resumed = s->sent;
    transfer_put_offset(s->front, s->sent);
    s->front_length = TRANSFER_OFFSET;
    return 0;
}

/* The header or an offset goes before the first piece and the digest behind the last, each in the same call. */
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
            (exs_fdvec_t){.exs_fildes = s->fd, .exs_offset = (off_t)s->sent, .exs_length = length};
    }
    if (s->sent + length == s->size) {
        transfer_digest(s->hash, s->outlet->digest);
        vector[count].exs_xfv_type = EXS_IOVEC;
        vector[count++].exs_xfv.exs_iov =
            (exs_iovec_t){.exs_base = s->outlet->digest, .exs_length = TRANSFER_DIGEST};
    }
    s->front_length = 0;
    return send_vector(s->outlet, vector, count);
}

static int send_pieces(struct sending *s)
{
    s->outlet->resumed = 0;
    if (s->size >= RESUME_MIN && resume(s) == -1)
        return -1;
    do {
        uint64_t length = s->size - s->sent < PIECE ? s->size - s->sent : PIECE;

        if (hash_piece(s, length) == -1 || send_piece(s, length) == -1)
            return -1;
        s->sent += length;
        progress_update(&s->progress, s->sent);
    } while (s->sent < s->size);
    return receive_reply(s->outlet, NULL);
}

/* O_NONBLOCK: a FIFO is refused, not waited for. */
static int open_file(struct sending *s, const char *path)
{
    bool is_stdin = strcmp(path, PICKS_STDIN) == 0;

    s->fd = is_stdin ? spool_open() : open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (s->fd == -1)
        return failed(s->outlet, is_stdin ? "cannot keep standard input where TMPDIR says" : "cannot open");
    return 0;
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

static int prepare(struct sending *s, const char *path)
{
    const char *wrong = transfer_bad_path(s->name, strlen(s->name));
    struct stat status;

    if (wrong != NULL)
        return failed_text(s->outlet, "cannot be sent", wrong);
    if (open_file(s, path) == -1)
        return -1;
    if (fstat(s->fd, &status) == -1)
        return failed(s->outlet, "cannot open");
    if (S_ISDIR(status.st_mode))
        return failed_text(s->outlet, "cannot be sent", "it is a folder: exs-put -r sends what is in it");
    if (!S_ISREG(status.st_mode))
        return failed_text(s->outlet, "cannot be sent", "it is not a regular file");
    s->size = (uint64_t)status.st_size;
    put_header(s, &status);
    s->hash = XXH3_createState();
    if (s->hash == NULL)
        return failed(s->outlet, "cannot be sent");
    XXH3_128bits_reset(s->hash);
    return 0;
}

int outlet_file(struct outlet *outlet, const char *path, const char *name)
{
    struct sending s = {.outlet = outlet, .name = name, .fd = -1};
    int result = prepare(&s, path);

    if (result == 0) {
        progress_start(&s.progress, s.name, s.size, outlet->quiet);
        result = send_pieces(&s);
        progress_end(&s.progress);
        if (result == -1)
            hang_up(outlet);
        outlet->seconds = clock_seconds() - s.progress.started;
        outlet->size = s.size;
    }
    XXH3_freeState(s.hash);
    if (s.fd != -1)
        close(s.fd);
    return result;
}
