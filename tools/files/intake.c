/* SPDX-License-Identifier: BSD-2-Clause */
/* intake.c - the server's parser of the protocol, a state machine; see intake.h. */
#include "intake.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "folders.h"
#include "kept.h"
#include "tools/common/clock.h"

static void expect_bytes(struct intake *intake, enum intake_state state, size_t bytes)
{
    intake->state = state;
    intake->have = 0;
    intake->want = bytes;
}

int intake_open(struct intake *intake, struct store *store, const struct sockaddr_storage *peer)
{
    intake->store = store;
    intake->peer = peer;
    intake->file.fd = -1;
    intake->reply_length = 0;
    intake->giving = NULL;
    intake->name[0] = '\0';
    intake->hash = XXH3_createState();
    expect_bytes(intake, INTAKE_HEADER, TRANSFER_HEAD);
    if (intake->hash != NULL)
        return 0;
    errno = ENOMEM;
    return -1;
}

bool intake_keeps(const struct intake *intake)
{
    bool has_data =
        intake->state == INTAKE_OFFSET || intake->state == INTAKE_DATA || intake->state == INTAKE_DIGEST;

    return has_data && intake->header.asks && kept_takes(intake->store, intake->file.written);
}

/* Keeps an unfinished file for the client's next attempt, or removes it. */
static void keep_or_discard(struct intake *intake)
{
    if (intake_keeps(intake) && kept_add(&intake->file, intake->hash, intake->peer)) {
        intake->file.fd = -1;
        intake->hash = NULL;
    }
    store_discard(&intake->file);
}

void intake_close(struct intake *intake)
{
    keep_or_discard(intake);
    giving_close(intake->giving);
    XXH3_freeState(intake->hash);
}

const char *intake_text(const struct intake *intake)
{
    return (const char *)intake->reply + TRANSFER_REPLY;
}

bool intake_idle(const struct intake *intake)
{
    return intake->state == INTAKE_REFUSED || (intake->state == INTAKE_HEADER && intake->have == 0);
}

static void make_reply(struct intake *intake, enum transfer_status status, const char *text)
{
    char *out = (char *)intake->reply + TRANSFER_REPLY;

    snprintf(out, TRANSFER_TEXT_MAX, "%s", text);
    intake->result.status = status;
    intake->result.text_length = strlen(out);
    transfer_put_reply(intake->reply, &intake->result);
    intake->reply_length = TRANSFER_REPLY + intake->result.text_length;
}

/* Bytes that arrive later are consumed and ignored, so that the client can finish sending and read the reason. */
static void refuse_file(struct intake *intake, enum transfer_status status, const char *text)
{
    store_discard(&intake->file);
    intake->state = INTAKE_REFUSED;
    make_reply(intake, status, text);
}

static const char *why_not(void)
{
    switch (errno) {
    case ESTALE:
        return "its temporary file is gone: has another exs-serve this directory, on another host?";
    case ENODEV:
        return "what has its name here is no file";
    case FOLDERS_ENOUGH:
        return "no more folders may be made (exs-serve -n)";
    default:
        return strerror(errno);
    }
}

/* errno is EDQUOT for a limit of the server and for a quota of the file system; store_refuses() distinguishes them. */
static void refuse_store(struct intake *intake)
{
    char room[TRANSFER_TEXT_MAX];
    const char *full = NULL;

    if (errno == EDQUOT)
        full = store_refuses(intake->store, intake->header.size, intake->file.written, room);

    refuse_file(intake, full != NULL ? TRANSFER_REFUSED : TRANSFER_FAILED, full != NULL ? full : why_not());
}

void intake_refuse(struct intake *intake, const char *why)
{
    keep_or_discard(intake);
    memset(&intake->result, 0, sizeof(intake->result));
    refuse_file(intake, TRANSFER_REFUSED, why);
}

static void details_done(struct intake *intake)
{
    struct transfer_header *header = &intake->header;
    const char *wrong = header->version == TRANSFER_PLAIN ? NULL : transfer_get_details(intake->fixed, header);

    if (wrong != NULL)
        refuse_file(intake, TRANSFER_MALFORMED, wrong);
    else
        expect_bytes(intake, INTAKE_NAME, header->name_length);
}

static void header_done(struct intake *intake)
{
    const char *wrong = transfer_get_head(intake->fixed, &intake->header);

    memset(&intake->result, 0, sizeof(intake->result));
    intake->started = clock_seconds();
    if (wrong != NULL)
        refuse_file(intake, TRANSFER_MALFORMED, wrong);
    else if (intake->header.version == TRANSFER_PLAIN)
        details_done(intake);
    else
        expect_bytes(intake, INTAKE_DETAILS, TRANSFER_DETAILS);
}

static void data_done(struct intake *intake)
{
    expect_bytes(intake, INTAKE_DIGEST, TRANSFER_DIGEST);
}

static void go_on(struct intake *intake, uint64_t offset)
{
    intake->received = intake->from = offset;
    intake->state = INTAKE_DATA;
    if (intake->header.size == offset)
        data_done(intake);
}

static void offer_offset(struct intake *intake)
{
    unsigned char *out = intake->reply + TRANSFER_REPLY;

    expect_bytes(intake, INTAKE_OFFSET, TRANSFER_OFFSET);
    intake->result.status = TRANSFER_GO;
    intake->result.text_length = TRANSFER_OFFSET;
    transfer_digest(intake->hash, intake->result.digest);
    transfer_put_reply(intake->reply, &intake->result);
    transfer_put_offset(out, intake->file.written);
    intake->reply_length = TRANSFER_REPLY + TRANSFER_OFFSET;
}

/* Handles a name with TRANSFER_ASKS: offers to resume a kept file, or starts a new one. */
static void ask_done(struct intake *intake)
{
    struct transfer_header *header = &intake->header;
    const char *name = (const char *)intake->fixed, *full;
    char room[TRANSFER_TEXT_MAX];
    XXH3_state_t *hash;

    bool found = kept_find(intake->store, name, header, intake->peer, &intake->file, &hash);
    if (found) {
        XXH3_freeState(intake->hash);
        intake->hash = hash;
    }
    full = store_refuses(intake->store, header->size, found ? intake->file.written : 0, room);
    if (full != NULL) {
        refuse_file(intake, TRANSFER_REFUSED, full);
    } else if (!found && store_begin(intake->store, &intake->file, name, header) == -1) {
        refuse_store(intake);
    } else {
        if (!found)
            XXH3_128bits_reset(intake->hash);
        offer_offset(intake);
    }
}

static void offset_done(struct intake *intake)
{
    uint64_t offset = transfer_get_offset(intake->fixed);

    memset(&intake->result, 0, sizeof(intake->result));
    if (offset != 0 && offset != intake->file.written) {
        refuse_file(intake, TRANSFER_MALFORMED, "there is no such place to go on: use exs-put");
        return;
    }
    if (offset == 0) {
        XXH3_128bits_reset(intake->hash);
        if (store_rewind(&intake->file) == -1) {
            refuse_store(intake);
            return;
        }
    }
    go_on(intake, offset);
}

static void want_done(struct intake *intake)
{
    const char *why;
    bool failed;

    expect_bytes(intake, INTAKE_HEADER, TRANSFER_HEAD);
    intake->giving = giving_open(intake->store, (const char *)intake->fixed, &intake->header, &why, &failed);
    if (intake->giving == NULL)
        refuse_file(intake, failed ? TRANSFER_FAILED : TRANSFER_REFUSED, why);
}

struct giving *intake_take_giving(struct intake *intake)
{
    struct giving *giving = intake->giving;

    intake->giving = NULL;
    intake->name[0] = '\0';
    return giving;
}

/* Starts a link or a folder, which is created after all of it has arrived. */
static void begin_special(struct intake *intake)
{
    snprintf(intake->file.name, sizeof(intake->file.name), "%s", intake->name);
    intake->target[0] = '\0';
    intake->from = 0;
    if (intake->header.kind == TRANSFER_LINK)
        expect_bytes(intake, INTAKE_TARGET, (size_t)intake->header.size);
    else
        expect_bytes(intake, INTAKE_DIGEST, TRANSFER_DIGEST);
}

/* The target must be a string without a 0 in it. */
static void target_done(struct intake *intake)
{
    size_t length = (size_t)intake->header.size;

    memcpy(intake->target, intake->fixed, length);
    intake->target[length] = '\0';
    expect_bytes(intake, INTAKE_DIGEST, TRANSFER_DIGEST);
}

static bool is_special(const struct transfer_header *header)
{
    return header->kind == TRANSFER_LINK || header->kind == TRANSFER_FOLDER;
}

static const char *check_name(const struct intake *intake)
{
    const struct transfer_header *header = &intake->header;
    bool hidden = intake->store->limits.archive;
    const char *name = intake->name, *wrong;

    if (header->version == TRANSFER_PLAIN)
        return transfer_bad_name(name, header->name_length);
    wrong = transfer_check_path(name, header->name_length, true);
    if (wrong == NULL && !hidden && transfer_bad_path(name, header->name_length) != NULL)
        return "a name must not begin with a dot (exs-serve -A takes it)";
    if (wrong == NULL && !hidden && header->kind == TRANSFER_LINK)
        return "it is a symbolic link (exs-serve -A takes it)";
    return wrong;
}

static void name_done(struct intake *intake)
{
    const char *name = (const char *)intake->fixed, *wrong;
    size_t length = intake->header.name_length;
    char room[TRANSFER_TEXT_MAX];

    memcpy(intake->name, name, length);
    intake->name[length] = '\0';
    if (transfer_is_wish(&intake->header)) {
        want_done(intake);
        return;
    }
    wrong = check_name(intake);
    if (wrong == NULL && !intake->header.asks)
        wrong = store_refuses(intake->store, intake->header.size, 0, room);
    if (wrong != NULL) {
        refuse_file(intake, TRANSFER_REFUSED, wrong);
    } else if (intake->header.asks) {
        ask_done(intake);
    } else if (is_special(&intake->header)) {
        begin_special(intake);
    } else if (store_begin(intake->store, &intake->file, name, &intake->header) == -1) {
        refuse_store(intake);
    } else {
        XXH3_128bits_reset(intake->hash);
        go_on(intake, 0);
    }
}

static int commit_file(struct intake *intake)
{
    if (is_special(&intake->header))
        return store_special(intake->store, intake->file.name, &intake->header, intake->target);
    return store_commit(&intake->file);
}

static void digest_done(struct intake *intake)
{
    if (is_special(&intake->header))
        transfer_hash(intake->target, strlen(intake->target), intake->result.digest);
    else
        transfer_digest(intake->hash, intake->result.digest);
    if (memcmp(intake->result.digest, intake->fixed, TRANSFER_DIGEST) != 0) {
        refuse_file(intake, TRANSFER_DIFFERS, "the digests differ: send the file again");
    } else if (commit_file(intake) == -1) {
        refuse_file(intake, TRANSFER_FAILED, why_not());
    } else {
        expect_bytes(intake, INTAKE_HEADER, TRANSFER_HEAD);
        intake->name[0] = '\0';
        make_reply(intake, TRANSFER_STORED, "stored");
    }
}

static size_t feed_fixed(struct intake *intake, const unsigned char *data, size_t length)
{
    size_t missing = intake->want - intake->have;
    size_t take = length < missing ? length : missing;

    memcpy(intake->fixed + intake->have, data, take);
    intake->have += take;
    if (intake->have < intake->want)
        return take;
    if (intake->state == INTAKE_HEADER)
        header_done(intake);
    else if (intake->state == INTAKE_DETAILS)
        details_done(intake);
    else if (intake->state == INTAKE_NAME)
        name_done(intake);
    else if (intake->state == INTAKE_TARGET)
        target_done(intake);
    else if (intake->state == INTAKE_OFFSET)
        offset_done(intake);
    else
        digest_done(intake);
    return take;
}

/* The client writes the data by RDMA and could still change them after their arrival. Therefore a copy is hashed and
 * stored. */
static size_t feed_data(struct intake *intake, const unsigned char *data, size_t length)
{
    uint64_t missing = intake->header.size - intake->received;
    size_t take = length < missing ? length : (size_t)missing;
    unsigned char *copy = intake->store->copy;

    if (take > STORE_COPY)
        take = STORE_COPY;
    memcpy(copy, data, take);
    XXH3_128bits_update(intake->hash, copy, take);
    if (store_write(&intake->file, copy, take, intake->received) == -1) {
        refuse_store(intake);
        return take;
    }
    intake->received += take;
    if (intake->received == intake->header.size)
        data_done(intake);
    return take;
}

size_t intake_feed(struct intake *intake, const unsigned char *data, size_t length)
{
    size_t taken = 0;

    while (taken < length && intake->reply_length == 0 && intake->giving == NULL) {
        if (intake->state == INTAKE_REFUSED)
            return length;
        if (intake->state == INTAKE_DATA)
            taken += feed_data(intake, data + taken, length - taken);
        else
            taken += feed_fixed(intake, data + taken, length - taken);
    }
    return taken;
}
