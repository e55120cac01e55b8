/* SPDX-License-Identifier: BSD-2-Clause */
/* A list that grows; see picks.h. */
#include "picks.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static struct pick *new_pick(struct picks *picks)
{
    if (picks->count == picks->room) {
        size_t room = picks->room == 0 ? 64 : 2 * picks->room;
        struct pick *list = reallocarray(picks->list, room, sizeof(*list));

        if (list == NULL)
            return NULL;
        picks->list = list;
        picks->room = room;
    }
    return &picks->list[picks->count];
}

int picks_add(struct picks *picks, const char *path)
{
    struct pick *pick = new_pick(picks);
    char *copy = pick == NULL ? NULL : strdup(path);

    if (copy == NULL)
        return -1;
    const char *slash = strrchr(copy, '/');

    *pick = (struct pick){.path = copy, .name = slash == NULL ? copy : slash + 1};
    picks->count++;
    return 0;
}

static int compare_names(const void *a, const void *b)
{
    const struct pick *const *one = a, *const *other = b;

    return strcmp((*one)->name, (*other)->name);
}

bool picks_collide(const struct picks *picks, const struct pick **a, const struct pick **b)
{
    const struct pick **sorted = calloc(picks->count + 1, sizeof(const struct pick *));
    bool found = false;

    if (sorted == NULL)
        return false; /* what is sent next fails, too, and says so */
    for (size_t i = 0; i < picks->count; i++)
        sorted[i] = &picks->list[i];
    qsort(sorted, picks->count, sizeof(const struct pick *), compare_names);
    for (size_t i = 1; i < picks->count && !found; i++) {
        *a = sorted[i - 1];
        *b = sorted[i];
        found = strcmp((*a)->name, (*b)->name) == 0;
    }
    free(sorted);
    return found;
}

void picks_free(struct picks *picks)
{
    for (size_t i = 0; i < picks->count; i++)
        free(picks->list[i].path);
    free(picks->list);
    *picks = (struct picks){0};
}
