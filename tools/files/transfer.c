/* SPDX-License-Identifier: BSD-2-Clause */
/* transfer.c - encodes and decodes the transfer protocol, and checks all that is decoded; see transfer.h. */
#include "transfer.h"

#include <stdio.h>
#include <string.h>
#include "tools/common/bytes.h"

#define MAGIC UINT32_C(0x45585346)       /* "EXSF" */
#define YEAR_10000 INT64_C(253402300800) /* seconds since 1970 */

void transfer_put_details(unsigned char out[TRANSFER_DETAILS], const struct transfer_header *header)
{
    uint64_t kind = header->kind == TRANSFER_LINK     ? TRANSFER_IS_LINK
                    : header->kind == TRANSFER_FOLDER ? TRANSFER_IS_FOLDER
                                                      : 0;

    bytes_put(out, 2, header->mode);
    bytes_put(out + 2, 2, kind | (header->asks ? TRANSFER_ASKS : 0));
    bytes_put(out + 4, 4, header->nanoseconds);
    bytes_put(out + 8, 8, (uint64_t)header->seconds);
}

void transfer_put_header(unsigned char out[TRANSFER_HEADER], const struct transfer_header *header)
{
    bytes_put(out, 4, MAGIC);
    bytes_put(out + 4, 2, transfer_is_wish(header) ? header->version : TRANSFER_DETAILED);
    bytes_put(out + 6, 2, header->name_length);
    bytes_put(out + 8, 8, header->size);
    if (transfer_is_wish(header))
        memcpy(out + TRANSFER_HEAD, header->digest, TRANSFER_DIGEST);
    else
        transfer_put_details(out + TRANSFER_HEAD, header);
}

const char *transfer_get_head(const unsigned char in[TRANSFER_HEAD], struct transfer_header *header)
{
    if (bytes_get(in, 4) != MAGIC)
        return "this is no file transfer: use exs-put";
    *header = (struct transfer_header){.version = (enum transfer_version)bytes_get(in + 4, 2),
                                       .name_length = bytes_get(in + 6, 2),
                                       .size = bytes_get(in + 8, 8)};
    if (header->version < TRANSFER_PLAIN || header->version > TRANSFER_WANTS_LINKS)
        return "another version of the protocol: use the exs-put of this release";
    if (header->version == TRANSFER_PLAIN && header->name_length > TRANSFER_NAME_MAX)
        return "a name must have 1 to 255 bytes";
    if (header->name_length == 0 || header->name_length > TRANSFER_PATH_MAX)
        return "a name with its folders must have 1 to 4095 bytes";
    if (header->size > INT64_MAX)
        return "a file cannot be that long";
    return NULL;
}

static const char *check_kind(const struct transfer_header *header, uint64_t flags)
{
    switch (flags) {
    case 0:
    case TRANSFER_ASKS:
        return NULL;
    case TRANSFER_IS_LINK:
        return header->size > 0 && header->size <= TRANSFER_PATH_MAX
                   ? NULL
                   : "the target of a link must have 1 to 4095 bytes";
    case TRANSFER_IS_FOLDER:
        return header->size == 0 ? NULL : "a folder has no bytes of its own";
    default:
        return "a flag that this release does not know: use the exs-put of this release";
    }
}

const char *transfer_read_details(const unsigned char in[TRANSFER_DETAILS], struct transfer_header *header)
{
    uint64_t mode = bytes_get(in, 2), flags = bytes_get(in + 2, 2);

    header->mode = mode & 0777; /* set-user-ID and similar bits are ignored */
    header->asks = (flags & TRANSFER_ASKS) != 0;
    header->kind = (flags & TRANSFER_IS_LINK) != 0     ? TRANSFER_LINK
                   : (flags & TRANSFER_IS_FOLDER) != 0 ? TRANSFER_FOLDER
                                                       : TRANSFER_FILE;
    header->nanoseconds = (uint32_t)bytes_get(in + 4, 4);
    header->seconds = (int64_t)bytes_get(in + 8, 8);
    if (mode > 07777)
        return "a mode has no more than permissions";
    if (header->nanoseconds >= 1000000000 || header->seconds >= YEAR_10000 || header->seconds <= -YEAR_10000)
        return "there is no such time";
    return check_kind(header, flags);
}

const char *transfer_get_details(const unsigned char in[TRANSFER_DETAILS], struct transfer_header *header)
{
    if (!transfer_is_wish(header))
        return transfer_read_details(in, header);
    memcpy(header->digest, in, TRANSFER_DIGEST);
    return NULL;
}

void transfer_put_coming(unsigned char out[TRANSFER_COMING], const struct transfer_header *header,
                         uint64_t from)
{
    bytes_put(out, 8, header->size);
    bytes_put(out + 8, 8, from);
    transfer_put_details(out + 16, header);
}

const char *transfer_get_coming(const unsigned char in[TRANSFER_COMING], struct transfer_header *header,
                                uint64_t *from)
{
    *header = (struct transfer_header){.version = TRANSFER_DETAILED, .size = bytes_get(in, 8)};
    *from = bytes_get(in + 8, 8);
    if (header->size > INT64_MAX || *from > header->size)
        return "a file cannot be that long";
    return transfer_read_details(in + 16, header);
}

void transfer_put_entry(unsigned char out[TRANSFER_ENTRY], const struct transfer_entry *entry)
{
    out[0] = (unsigned char)entry->kind;
    bytes_put(out + 1, 2, entry->name_length);
    bytes_put(out + 3, 8, entry->size);
}

bool transfer_get_entry(const unsigned char in[TRANSFER_ENTRY], struct transfer_entry *entry)
{
    *entry = (struct transfer_entry){
        .kind = (enum transfer_kind)in[0], .name_length = bytes_get(in + 1, 2), .size = bytes_get(in + 3, 8)};
    return entry->kind <= TRANSFER_LINK && entry->name_length <= TRANSFER_NAME_MAX && entry->size <= INT64_MAX;
}

void transfer_put_reply(unsigned char out[TRANSFER_REPLY], const struct transfer_reply *reply)
{
    bytes_put(out, 4, MAGIC);
    bytes_put(out + 4, 2, reply->status);
    bytes_put(out + 6, 2, reply->text_length);
    memcpy(out + 8, reply->digest, TRANSFER_DIGEST);
}

bool transfer_get_reply(const unsigned char in[TRANSFER_REPLY], struct transfer_reply *reply)
{
    uint64_t status = bytes_get(in + 4, 2);

    reply->status = (enum transfer_status)status;
    reply->text_length = bytes_get(in + 6, 2);
    memcpy(reply->digest, in + 8, TRANSFER_DIGEST);
    if (status == TRANSFER_GO && reply->text_length != TRANSFER_OFFSET)
        return false;
    if (status == TRANSFER_COMES && reply->text_length != TRANSFER_COMING)
        return false;
    return bytes_get(in, 4) == MAGIC && status <= TRANSFER_LISTS && reply->text_length <= TRANSFER_TEXT_MAX;
}

void transfer_put_offset(unsigned char out[TRANSFER_OFFSET], uint64_t offset)
{
    bytes_put(out, TRANSFER_OFFSET, offset);
}

uint64_t transfer_get_offset(const unsigned char in[TRANSFER_OFFSET])
{
    return bytes_get(in, TRANSFER_OFFSET);
}

static bool ends_with(const char *name, size_t length, const char *end)
{
    size_t bytes = strlen(end);

    return length >= bytes && memcmp(name + length - bytes, end, bytes) == 0;
}

/* Whether this is the name of an unfinished file of exs-get or exs-serve, which a complete file must not have. */
static bool is_temporary(const char *name, size_t length)
{
    return ends_with(name, length, ".exs-part") ||
           (length > 5 && memcmp(name, ".exs-", 5) == 0 && ends_with(name, length, ".part"));
}

static const char *check_dot(const char *name, size_t length, bool hidden)
{
    if (name[0] != '.')
        return NULL;
    if (!hidden || length == 1 || (length == 2 && name[1] == '.'))
        return "a name must not begin with a dot";
    return is_temporary(name, length) ? "this is the name of an unfinished file" : NULL;
}

const char *transfer_check_name(const char *name, size_t length, bool hidden)
{
    const char *wrong;

    if (length == 0 || length > TRANSFER_NAME_MAX)
        return "a name must have 1 to 255 bytes";
    wrong = check_dot(name, length, hidden);
    if (wrong != NULL)
        return wrong;
    for (size_t i = 0; i < length; i++) {
        unsigned char c = (unsigned char)name[i];

        if (c == '/')
            return "a name must not contain a slash";
        if (c < 0x20 || c == 0x7f)
            return "a name must not contain control characters";
    }
    return NULL;
}

const char *transfer_check_path(const char *path, size_t length, bool hidden)
{
    const char *end = path + length, *slash;

    if (length == 0 || length > TRANSFER_PATH_MAX)
        return "a name with its folders must have 1 to 4095 bytes";
    for (int folders = 0; (slash = memchr(path, '/', (size_t)(end - path))) != NULL; path = slash + 1) {
        const char *wrong = transfer_check_name(path, (size_t)(slash - path), hidden);

        if (wrong != NULL)
            return wrong;
        if (++folders > TRANSFER_FOLDERS_MAX)
            return "a name must not have more than 256 folders";
    }
    return transfer_check_name(path, (size_t)(end - path), hidden);
}

void transfer_hash(const void *bytes, size_t length, unsigned char out[TRANSFER_DIGEST])
{
    XXH128_canonical_t canonical;

    XXH128_canonicalFromHash(&canonical, XXH3_128bits(bytes, length));
    memcpy(out, canonical.digest, TRANSFER_DIGEST);
}

void transfer_digest(XXH3_state_t *state, unsigned char out[TRANSFER_DIGEST])
{
    XXH128_canonical_t canonical;

    XXH128_canonicalFromHash(&canonical, XXH3_128bits_digest(state));
    memcpy(out, canonical.digest, TRANSFER_DIGEST);
}

void transfer_digest_text(const unsigned char digest[TRANSFER_DIGEST], char out[2 * TRANSFER_DIGEST + 1])
{
    for (size_t i = 0; i < TRANSFER_DIGEST; i++)
        snprintf(out + 2 * i, 3, "%02x", digest[i]);
}
