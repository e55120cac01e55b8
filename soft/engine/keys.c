/* SPDX-License-Identifier: BSD-2-Clause */
/* keys.c - the hash table of keys, with open addressing. The keys are random, so they need no hash function. See
 * keys.h. */
#include "keys.h"
#include <stdlib.h>
#include "mr.h"

#define FIRST_ROOM 64

/* Returns the position of the key, or the free one where it belongs; there always is one. */
static uint32_t place_of(const struct soft_keys *keys, uint32_t key)
{
    uint32_t place = key & (keys->room - 1);

    while (keys->places[place] != NULL && keys->places[place]->key != key)
        place = (place + 1) & (keys->room - 1);
    return place;
}

struct soft_mr *soft_key_find(const struct soft_keys *keys, uint32_t key)
{
    return keys->count > 0 ? keys->places[place_of(keys, key)] : NULL;
}

static bool grow_keys(struct soft_keys *keys)
{
    struct soft_keys larger = *keys;

    larger.room = keys->room == 0 ? FIRST_ROOM : keys->room * 2;
    larger.places = calloc(larger.room, sizeof *larger.places);
    if (larger.places == NULL)
        return false;
    for (uint32_t i = 0; i < keys->room; i++)
        if (keys->places[i] != NULL)
            larger.places[place_of(&larger, keys->places[i]->key)] = keys->places[i];
    free(keys->places);
    *keys = larger;
    return true;
}

/* Not 0, which many programs use for "no key". */
static uint32_t new_key(struct soft_keys *keys)
{
    uint32_t key;

    do {
        key = soft_shuffle(&keys->shuffle, keys->given++);
    } while (key == 0 || keys->places[place_of(keys, key)] != NULL);
    return key;
}

bool soft_key_enter(struct soft_keys *keys, struct soft_mr *mr)
{
    if (keys->count >= SOFT_MAX_MR || (keys->count >= keys->room / 2 && !grow_keys(keys)))
        return false;
    mr->key = mr->ibv.lkey = mr->ibv.rkey = new_key(keys);
    keys->places[place_of(keys, mr->key)] = mr;
    keys->count++;
    return true;
}

/* Entries behind it, up to the next free one, may have to move, because a lookup stops at a free entry. */
void soft_key_leave(struct soft_keys *keys, const struct soft_mr *mr)
{
    uint32_t place = place_of(keys, mr->key);
    struct soft_mr *moved;

    keys->places[place] = NULL;
    keys->count--;
    for (;;) {
        place = (place + 1) & (keys->room - 1);
        if ((moved = keys->places[place]) == NULL)
            return;
        keys->places[place] = NULL;
        keys->places[place_of(keys, moved->key)] = moved;
    }
}

void soft_keys_free(struct soft_keys *keys)
{
    free(keys->places);
}
