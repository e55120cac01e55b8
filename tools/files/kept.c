/* SPDX-License-Identifier: BSD-2-Clause */
/* kept.c - a list of unfinished files, the oldest first; see kept.h. */
#include "kept.h"

#include <stdlib.h>
#include <string.h>

#include "hosts.h"

/* Owned by its store's list. */
struct kept {
    STAILQ_ENTRY(kept) link;
    struct incoming file;
    XXH3_state_t *hash;
    struct sockaddr_storage peer; /* address of the client that sent it */
    int seconds;                  /* since kept_add() */
};

static void remove_kept(struct store *store, struct kept *kept)
{
    STAILQ_REMOVE(&store->kept, kept, kept, link);
    store->kept_count--;
    free(kept);
}

static void drop_kept(struct store *store, struct kept *kept)
{
    store_discard(&kept->file);
    XXH3_freeState(kept->hash);
    remove_kept(store, kept);
}

/* Returns the shortest file, of several the oldest. The list must not be empty. */
static struct kept *find_shortest(const struct store *store)
{
    struct kept *shortest = STAILQ_FIRST(&store->kept), *kept;

    STAILQ_FOREACH (kept, &store->kept, link)
        if (kept->file.written < shortest->file.written)
            shortest = kept;
    return shortest;
}

bool kept_takes(const struct store *store, uint64_t written)
{
    if (store->limits.keep == 0 || written == 0)
        return false;
    return store->kept_count < KEPT_MAX || written >= find_shortest(store)->file.written;
}

bool kept_add(const struct incoming *file, XXH3_state_t *hash, const struct sockaddr_storage *peer)
{
    struct store *store = file->store;
    struct kept *kept = kept_takes(store, file->written) ? malloc(sizeof(*kept)) : NULL;

    if (kept == NULL)
        return false;
    if (store->kept_count == KEPT_MAX)
        drop_kept(store, find_shortest(store));
    *kept = (struct kept){.file = *file, .hash = hash, .peer = *peer};
    STAILQ_INSERT_TAIL(&store->kept, kept, link);
    store->kept_count++;
    return true;
}

uint64_t kept_bytes(const struct store *store)
{
    const struct kept *kept;
    uint64_t bytes = 0;

    STAILQ_FOREACH (kept, &store->kept, link)
        bytes += kept->file.written;
    return bytes;
}

static bool is_of(const struct kept *kept, const char *name, const struct transfer_header *header)
{
    const struct transfer_header *other = &kept->file.header;

    return other->name_length == header->name_length &&
           memcmp(kept->file.name, name, header->name_length) == 0 && other->size == header->size &&
           other->seconds == header->seconds && other->nanoseconds == header->nanoseconds;
}

bool kept_find(struct store *store, const char *name, const struct transfer_header *header,
               const struct sockaddr_storage *peer, struct incoming *file, XXH3_state_t **hash)
{
    struct kept *kept;

    STAILQ_FOREACH (kept, &store->kept, link) {
        if (!is_of(kept, name, header) || !hosts_same(&kept->peer, peer))
            continue;
        *file = kept->file;
        file->header = *header; /* its permissions may have changed */
        *hash = kept->hash;
        remove_kept(store, kept);
        return true;
    }
    return false;
}

bool kept_drop(struct store *store)
{
    struct kept *kept = STAILQ_FIRST(&store->kept);

    if (kept == NULL)
        return false;
    drop_kept(store, kept);
    return true;
}

void kept_second(struct store *store)
{
    struct kept *kept;

    STAILQ_FOREACH (kept, &store->kept, link)
        kept->seconds++;
    while ((kept = STAILQ_FIRST(&store->kept)) != NULL && kept->seconds > store->limits.keep)
        kept_drop(store);
}
