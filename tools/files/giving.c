/* SPDX-License-Identifier: BSD-2-Clause */
/* giving.c - opens the requested file or folder, and builds the vectors. Each piece of a file is hashed, then sent from
 * the page cache, into which the hashing has just read it. See giving.h. */
#include "giving.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "folders.h"
#include "tools/common/clock.h"

enum { CHUNK = 64 << 10 }; /* bytes per read for the digest: fits the first-level cache */

#define NO_FILE "there is no such file"

/* ---- Opening ------------------------------------------------------------------------------------------- */

static void put_front(struct giving *giving, enum transfer_status status, size_t text_length)
{
    const struct transfer_reply reply = {.status = status, .text_length = text_length};

    transfer_put_reply(giving->front, &reply);
    giving->front_length = TRANSFER_REPLY + text_length;
}

/* Builds the reply that precedes the data. Called when `from` is known: after the bytes that the client has were
 * compared. */
static void begin_data(struct giving *giving, uint64_t from)
{
    put_front(giving, TRANSFER_COMES, TRANSFER_COMING);
    transfer_put_coming(giving->front + TRANSFER_REPLY, &giving->header, from);
    giving->from = giving->sent = from;
    giving->there = giving->read = 0;
}

static void put_details(struct transfer_header *header, const struct stat *status)
{
    header->kind = S_ISLNK(status->st_mode)   ? TRANSFER_LINK
                   : S_ISDIR(status->st_mode) ? TRANSFER_FOLDER
                                              : TRANSFER_FILE;
    header->size = S_ISDIR(status->st_mode) ? 0 : (uint64_t)status->st_size;
    header->mode = status->st_mode & 0777;
    header->seconds = status->st_mtim.tv_sec;
    header->nanoseconds = (uint32_t)status->st_mtim.tv_nsec;
}

static bool is_link(int in, const char *last)
{
    struct stat status;

    return fstatat(in, last, &status, AT_SYMLINK_NOFOLLOW) == 0 && S_ISLNK(status.st_mode);
}

/* Reads the target of a link, which is all of its data. */
static int begin_link(struct giving *giving, int in, const char *last)
{
    struct stat status;
    ssize_t length = readlinkat(in, last, giving->target, sizeof(giving->target));

    if (length == -1 || fstatat(in, last, &status, AT_SYMLINK_NOFOLLOW) == -1)
        return -1;
    if (!S_ISLNK(status.st_mode) || length > TRANSFER_PATH_MAX) {
        errno = ENOENT;
        return -1;
    }
    giving->is_link = true;
    put_details(&giving->header, &status);
    giving->size = giving->header.size = (uint64_t)length;
    transfer_hash(giving->target, (size_t)length, giving->digest);
    begin_data(giving, 0);
    return 0;
}

static int begin_file(struct giving *giving, int in, const char *last)
{
    struct stat status;

    if (giving->archive && is_link(in, last))
        return begin_link(giving, in, last);
    giving->fd = folders_open_file(in, last, &status);
    giving->hash = giving->fd == -1 ? NULL : XXH3_createState();
    if (giving->hash == NULL)
        return -1;
    XXH3_128bits_reset(giving->hash);
    giving->size = (uint64_t)status.st_size;
    put_details(&giving->header, &status);
    giving->piece = GIVING_PIECE;
    if (giving->there == 0 || giving->there > giving->size)
        begin_data(giving, 0);
    return 0;
}

/* Appends an entry, with details only if the client uses version 4. */
static void put_entry(struct giving *giving, size_t *length, const struct transfer_entry *entry,
                      const struct transfer_header *details, const char *name)
{
    unsigned char *out = giving->lists[giving->turn % GIVING_FLYING] + *length;
    size_t fixed = TRANSFER_ENTRY;

    transfer_put_entry(out, entry);
    if (giving->knows_links) {
        transfer_put_details(out + fixed, details);
        fixed += TRANSFER_DETAILS;
    }
    memcpy(out + fixed, name, entry->name_length);
    *length += fixed + entry->name_length;
}

/* Starts a list. If the name is a file, its list is one entry for this file. */
static int begin_list(struct giving *giving, int in, const char *last)
{
    struct stat status;

    giving->lists = malloc(GIVING_FLYING * sizeof(*giving->lists));
    if (giving->lists == NULL)
        return -1;
    put_front(giving, TRANSFER_LISTS, 0);
    if (fstatat(in, last, &status, AT_SYMLINK_NOFOLLOW) == -1)
        return -1;
    if (S_ISREG(status.st_mode) || (giving->archive && S_ISLNK(status.st_mode))) {
        put_details(&giving->header, &status);
        giving->size = (uint64_t)status.st_size;
        return 0;
    }
    if (!S_ISDIR(status.st_mode)) {
        errno = ENOENT;
        return -1;
    }
    put_details(&giving->header, &status);
    int fd = openat(in, last, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

    giving->folder = fd == -1 ? NULL : fdopendir(fd);
    if (giving->folder == NULL && fd != -1)
        close(fd);
    return giving->folder == NULL ? -1 : 0;
}

/* The caller has removed the slash at the end of a folder's name. */
static int begin_giving(struct giving *giving, struct store *store, bool is_list)
{
    const char *last;
    int in = recent_open(&store->recent, store->directory, giving->name, &last, NULL);

    if (in == -1)
        return -1;
    if (last[0] == '\0')
        last = "."; /* the served directory */
    return is_list ? begin_list(giving, in, last) : begin_file(giving, in, last);
}

static const char *why_not(int error, bool *failed)
{
    *failed = false;
    switch (error) {
    case ENOENT:
    case ENOTDIR:
    case ELOOP: /* symbolic links are not followed */
        return NO_FILE;
    case EISDIR:
        return "it is a folder: exs-get -r gets what is in it";
    case EACCES:
    case EPERM:
        return "the server may not read it";
    default:
        *failed = true;
        return strerror(error);
    }
}

/* Refuses a request with TRANSFER_ALL if the server does not send links and hidden names: the client must not mistake
 * an incomplete list for a complete one. Returns NULL, or the reason. */
static const char *check_wish(const struct store *store, const struct transfer_header *header, bool is_list)
{
    if (!store->limits.gives)
        return "this server gives no files (exs-serve -g)";
    if (header->version == TRANSFER_WANTS_LINKS && is_list && header->size != 0 && !store->limits.archive)
        return "this server gives neither links nor hidden files (exs-serve -A): leave -A out";
    return NULL;
}

static const char *check_name(const char *name, size_t length, bool is_list, bool hidden)
{
    if (is_list && length == 0)
        return NULL;
    return transfer_check_path(name, length, hidden);
}

struct giving *giving_open(struct store *store, const char *name, const struct transfer_header *header,
                           const char **why, bool *failed)
{
    size_t length = header->name_length;
    bool is_list = length > 0 && name[length - 1] == '/';
    struct giving *giving;

    length -= is_list;
    *failed = false;
    *why = check_wish(store, header, is_list);
    if (*why == NULL)
        *why = check_name(name, length, is_list, store->limits.archive);
    if (*why != NULL)
        return NULL;
    giving = calloc(1, sizeof(*giving));
    if (giving == NULL) {
        *why = why_not(errno, failed);
        return NULL;
    }
    giving->fd = -1;
    giving->knows_links = header->version == TRANSFER_WANTS_LINKS;
    giving->archive = giving->knows_links && store->limits.archive && (!is_list || header->size != 0);
    giving->started = clock_seconds();
    memcpy(giving->name, name, length);
    giving->header = *header;
    giving->there = is_list ? 0 : header->size;
    if (begin_giving(giving, store, is_list) == 0)
        return giving;
    *why = why_not(errno, failed);
    giving_close(giving);
    return NULL;
}

bool giving_is_shorter(const struct giving *giving)
{
    struct stat now;

    return giving->fd != -1 && fstat(giving->fd, &now) == 0 && (uint64_t)now.st_size < giving->size;
}

void giving_close(struct giving *giving)
{
    if (giving == NULL)
        return;
    if (giving->fd != -1)
        close(giving->fd);
    if (giving->folder != NULL)
        closedir(giving->folder);
    XXH3_freeState(giving->hash);
    free(giving->lists);
    free(giving);
}

/* ---- Files --------------------------------------------------------------------------------------------- */

/* Reads the file instead of mapping it, because a file that becomes shorter is then an error and not a signal. */
static int hash_piece(struct giving *giving, uint64_t offset, size_t length)
{
    char chunk[CHUNK];

    for (size_t done = 0; done < length;) {
        size_t want = length - done < CHUNK ? length - done : CHUNK;
        ssize_t got = pread(giving->fd, chunk, want, (off_t)(offset + done));

        if (got == -1 && errno == EINTR)
            continue;
        if (got <= 0) {
            errno = got == 0 ? EIO : errno;
            return -1;
        }
        XXH3_128bits_update(giving->hash, chunk, (size_t)got);
        done += (size_t)got;
    }
    return 0;
}

bool giving_reads(const struct giving *giving)
{
    return giving->there > 0;
}

int giving_read(struct giving *giving)
{
    uint64_t left = giving->there - giving->read;
    size_t length = left < GIVING_PIECE ? (size_t)left : GIVING_PIECE;

    if (hash_piece(giving, giving->read, length) == -1)
        return -1;
    giving->read += length;
    if (giving->read < giving->there)
        return 0;
    transfer_digest(giving->hash, giving->digest);
    if (memcmp(giving->digest, giving->header.digest, TRANSFER_DIGEST) == 0) {
        begin_data(giving, giving->there);
    } else {
        XXH3_128bits_reset(giving->hash);
        begin_data(giving, 0);
    }
    return 0;
}

static exs_xferfile_t memory_vector(void *bytes, size_t length)
{
    return (exs_xferfile_t){.exs_xfv_type = EXS_IOVEC,
                            .exs_xfv.exs_iov = {.exs_base = bytes, .exs_length = length}};
}

static int next_of_link(struct giving *giving, exs_xferfile_t *vector)
{
    giving->sent = giving->size;
    giving->over = true;
    vector[0] = memory_vector(giving->target, (size_t)giving->size);
    vector[1] = memory_vector(giving->digest, TRANSFER_DIGEST);
    return 2;
}

static int next_of_file(struct giving *giving, exs_xferfile_t *vector)
{
    uint64_t left = giving->size - giving->sent;
    size_t length = left < giving->piece ? (size_t)left : giving->piece;
    int count = 0;

    if (hash_piece(giving, giving->sent, length) == -1)
        return -1;
    if (length > 0) {
        vector[count].exs_xfv_type = EXS_FDVEC;
        vector[count++].exs_xfv.exs_fdv =
            (exs_fdvec_t){.exs_fildes = giving->fd, .exs_offset = (off_t)giving->sent, .exs_length = length};
    }
    giving->sent += length;
    giving->over = giving->sent == giving->size;
    if (giving->over) {
        transfer_digest(giving->hash, giving->digest);
        vector[count++] = memory_vector(giving->digest, TRANSFER_DIGEST);
    }
    return count;
}

/* ---- Lists --------------------------------------------------------------------------------------------- */

/* Sets the entry of a name. Returns false if a client could not request this name. */
static bool look_at(const struct giving *giving, const char *name, struct transfer_entry *entry,
                    struct transfer_header *details)
{
    struct stat status;

    if (transfer_check_name(name, strlen(name), giving->archive) != NULL ||
        fstatat(dirfd(giving->folder), name, &status, AT_SYMLINK_NOFOLLOW) == -1)
        return false;
    put_details(details, &status);
    *entry = (struct transfer_entry){.kind = details->kind, .name_length = strlen(name), .size = details->size};
    return S_ISDIR(status.st_mode) || S_ISREG(status.st_mode) || (giving->archive && S_ISLNK(status.st_mode));
}

/* Writes entries until the buffer is full. At the end of the folder writes the entry TRANSFER_NO_MORE. */
static int list_folder(struct giving *giving, size_t *length)
{
    const size_t longest = TRANSFER_ENTRY + TRANSFER_DETAILS + TRANSFER_NAME_MAX;
    struct transfer_header details = {0};
    struct transfer_entry entry;
    struct dirent *found = NULL;

    errno = 0;
    while (*length + 2 * longest <= GIVING_LIST && (found = readdir(giving->folder)) != NULL) {
        if (look_at(giving, found->d_name, &entry, &details))
            put_entry(giving, length, &entry, &details, found->d_name);
        errno = 0;
    }
    if (errno != 0)
        return -1;
    giving->over = found == NULL;
    return 0;
}

static int next_of_list(struct giving *giving, exs_xferfile_t *vector)
{
    const struct transfer_entry itself = {.kind = giving->header.kind, .size = giving->size}, none = {0};
    size_t length = 0;

    if (giving->folder == NULL) {
        put_entry(giving, &length, &itself, &giving->header, "");
        giving->over = true;
    } else if (list_folder(giving, &length) == -1) {
        return -1;
    }
    if (giving->over)
        put_entry(giving, &length, &none, &giving->header, "");
    vector[0] = memory_vector(giving->lists[giving->turn++ % GIVING_FLYING], length);
    return 1;
}

int giving_next(struct giving *giving, exs_xferfile_t vector[GIVING_PARTS])
{
    int front = giving->front_length > 0, count;

    if (giving->over || giving_reads(giving))
        return 0;
    if (front)
        vector[0] = memory_vector(giving->front, giving->front_length);
    giving->front_length = 0;
    if (giving->is_link)
        count = next_of_link(giving, vector + front);
    else if (giving->fd == -1)
        count = next_of_list(giving, vector + front);
    else
        count = next_of_file(giving, vector + front);
    return count == -1 ? -1 : front + count;
}
