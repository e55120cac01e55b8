/* SPDX-License-Identifier: BSD-2-Clause */
/* The bytes of the transfer protocol: fixed widths, big-endian, nothing taken on trust. */
#include "transfer.h"

#include <stdio.h>
#include <string.h>
#include "tools/common/bytes.h"

#define MAGIC UINT32_C(0x45585346) /* "EXSF" */
#define PROTOCOL 1

void transfer_put_header(unsigned char out[TRANSFER_HEADER], const struct transfer_header *header)
{
    bytes_put(out, 4, MAGIC);
    bytes_put(out + 4, 2, PROTOCOL);
    bytes_put(out + 6, 2, header->name_length);
    bytes_put(out + 8, 8, header->size);
}

const char *transfer_get_header(const unsigned char in[TRANSFER_HEADER], struct transfer_header *header)
{
    if (bytes_get(in, 4) != MAGIC)
        return "this is no file transfer: use exs-put";
    if (bytes_get(in + 4, 2) != PROTOCOL)
        return "another version of the protocol: use the exs-put of this release";
    header->name_length = bytes_get(in + 6, 2);
    header->size = bytes_get(in + 8, 8);
    if (header->name_length == 0 || header->name_length > TRANSFER_NAME_MAX)
        return "a name must have 1 to 255 bytes";
    if (header->size > INT64_MAX)
        return "a file cannot be that long";
    return NULL;
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
    return bytes_get(in, 4) == MAGIC && status <= TRANSFER_DIFFERS && reply->text_length <= TRANSFER_TEXT_MAX;
}

const char *transfer_bad_name(const char *name, size_t length)
{
    if (length == 0 || length > TRANSFER_NAME_MAX)
        return "a name must have 1 to 255 bytes";
    if (name[0] == '.')
        return "a name must not begin with a dot";
    for (size_t i = 0; i < length; i++) {
        unsigned char c = (unsigned char)name[i];

        if (c == '/')
            return "a name must not contain a slash";
        if (c < 0x20 || c == 0x7f)
            return "a name must not contain control characters";
    }
    return NULL;
}

void transfer_digest(XXH3_state_t *state, unsigned char out[TRANSFER_DIGEST])
{
    XXH128_canonical_t canonical;

    XXH128_canonicalFromHash(&canonical, XXH3_128bits_digest(state));
    memcpy(out, canonical.digest, TRANSFER_DIGEST);
}

void transfer_digest_text(const unsigned char digest[TRANSFER_DIGEST], char out[2 * TRANSFER_DIGEST + 1])
{
    for (int i = 0; i < TRANSFER_DIGEST; i++)
        snprintf(out + 2 * i, 3, "%02x", digest[i]);
}
