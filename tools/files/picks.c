/* SPDX-License-Identifier: BSD-2-Clause */
/* A list that grows, and what is in folders; see picks.h. */
#include "picks.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "transfer.h"

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

/* Takes path over. name: a part of it, or somebody else's. */
static int add(struct picks *picks, char *path, const char *name, const char *problem)
{
    struct pick *pick = new_pick(picks);

    if (pick == NULL) {
        free(path);
        return -1;
    }
    *pick = (struct pick){.path = path, .name = name, .problem = problem};
    picks->count++;
    return 0;
}

size_t picks_base(const char *path)
{
    const char *slash = strrchr(path, '/');

    return slash == NULL ? 0 : (size_t)(slash + 1 - path);
}

int picks_add(struct picks *picks, const char *path)
{
    char *copy = strdup(path);

    return copy == NULL ? -1 : add(picks, copy, copy + picks_base(copy), NULL);
}

int picks_add_end(struct picks *picks, char *path, size_t name_at, const char *problem)
{
    return add(picks, path, path + name_at, problem);
}

int picks_add_stdin(struct picks *picks, const char *name)
{
    char *copy = strdup(PICKS_STDIN);

    return copy == NULL ? -1 : add(picks, copy, name, NULL);
}

/* ---- Folders ------------------------------------------------------------------------------------------- */

static int add_found(struct picks *picks, char *path, size_t name_at);

/* Of a folder without a name of its own none is left. */
static int add_unreadable(struct picks *picks, const char *folder, size_t name_at)
{
    char *copy = strdup(folder);
    size_t length = strlen(folder);

    return copy == NULL
               ? -1
               : add(picks, copy, copy + (name_at < length ? name_at : length), "cannot read this folder");
}

/* What is in a folder, in the order of names. The root's path is empty here, so that others can follow it. */
static int add_folder(struct picks *picks, const char *path, size_t name_at)
{
    const char *folder = path[0] != '\0' ? path : "/";
    struct dirent **entries;
    int count = scandir(folder, &entries, NULL, alphasort), result = 0;

    if (count == -1)
        return errno == ENOMEM ? -1 : add_unreadable(picks, folder, name_at);
    for (int i = 0; i < count; i++) {
        const char *name = entries[i]->d_name;
        char *inner = NULL;

        if (result == 0 && strcmp(name, ".") != 0 && strcmp(name, "..") != 0)
            result = asprintf(&inner, "%s/%s", path, name) == -1 ? -1 : add_found(picks, inner, name_at);
        free(entries[i]);
    }
    free(entries);
    return result;
}

/* Takes path over. Where it can't be sent for its name there is no need to look into it. */
static int add_found(struct picks *picks, char *path, size_t name_at)
{
    const char *name = path + name_at, *problem = transfer_bad_path(name, strlen(name));
    struct stat status;

    if (problem != NULL || lstat(path, &status) == -1)
        return add(picks, path, name, problem);
    if (S_ISLNK(status.st_mode))
        return add(picks, path, name, "it is a symbolic link in a folder: name it by itself to send its file");
    if (!S_ISDIR(status.st_mode)) /* only to open a device or a FIFO can do something to it */
        return add(picks, path, name, S_ISREG(status.st_mode) ? NULL : "it is not a regular file");
    int result = add_folder(picks, path, name_at);

    free(path);
    return result;
}

/* Of . and .. and / the own names say nothing. */
static size_t name_of_tree(const char *path)
{
    size_t base = picks_base(path);
    const char *name = path + base;

    return name[0] != '\0' && strcmp(name, ".") != 0 && strcmp(name, "..") != 0 ? base : strlen(path) + 1;
}

int picks_add_tree(struct picks *picks, const char *path)
{
    size_t length = strlen(path), first = picks->count;
    struct stat status;

    if (stat(path, &status) == -1 || !S_ISDIR(status.st_mode))
        return picks_add(picks, path);
    while (length > 0 && path[length - 1] == '/')
        length--;
    char *plain = strndup(path, length);
    int result = plain == NULL ? -1 : add_folder(picks, plain, name_of_tree(plain));

    for (; first < picks->count; first++)
        picks->list[first].named = length + 1;
    free(plain);
    return result;
}

/* ---- Names --------------------------------------------------------------------------------------------- */

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
