/* SPDX-License-Identifier: BSD-2-Clause */
/* picks.c - a growing list of files, and the search of folders; see picks.h. */
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

/* Takes ownership of path. name: a part of path, or a string that the caller owns. */
static int add_pick(struct picks *picks, char *path, const char *name, const char *problem)
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

    return copy == NULL ? -1 : add_pick(picks, copy, copy + picks_base(copy), NULL);
}

int picks_add_end(struct picks *picks, char *path, size_t name_at, const char *problem)
{
    return add_pick(picks, path, path + name_at, problem);
}

int picks_add_stdin(struct picks *picks, const char *name)
{
    char *copy = strdup(PICKS_STDIN);

    return copy == NULL ? -1 : add_pick(picks, copy, name, NULL);
}

/* ---- Folders ------------------------------------------------------------------------------------------- */

static int add_found(struct picks *picks, char *path, size_t name_at);

/* Adds a folder that cannot be read, as a problem. Its name is empty if it is . or .. or /. Returns 1, or -1 if memory
 * allocation failed. */
static int add_unreadable(struct picks *picks, const char *folder, size_t name_at)
{
    char *copy = strdup(folder);
    size_t length = strlen(folder);

    if (copy == NULL)
        return -1;
    return add_pick(picks, copy, copy + (name_at < length ? name_at : length), "cannot read this folder") == -1
               ? -1
               : 1;
}

/* Adds the contents of a folder, sorted by name. path: empty for the root, so that "/NAME" can be appended. Returns 0;
 * 1 if the folder cannot be read; or -1 if memory allocation failed. */
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

/* Takes ownership of path. */
static int add_kind(struct picks *picks, char *path, const char *name, enum transfer_kind kind)
{
    int result = add_pick(picks, path, name, NULL);

    if (result == 0)
        picks->list[picks->count - 1].kind = kind;
    return result;
}

static int add_link(struct picks *picks, char *path, const char *name)
{
    if ((picks->takes & PICKS_LINKS) != 0)
        return add_kind(picks, path, name, TRANSFER_LINK);
    return add_pick(
        picks, path, name,
        "it is a symbolic link in a folder: name it by itself to send its file, or send links (-A)");
}

/* Adds what was found in a folder. A folder is added after its contents, because storing these would change its time. A
 * folder whose name cannot be sent is not read. Takes ownership of path. */
static int add_found(struct picks *picks, char *path, size_t name_at)
{
    const char *name = path + name_at,
               *problem = transfer_check_path(name, strlen(name), (picks->takes & PICKS_HIDDEN) != 0);
    struct stat status;

    if (problem != NULL || lstat(path, &status) == -1)
        return add_pick(picks, path, name, problem);
    if (S_ISLNK(status.st_mode))
        return add_link(picks, path, name);
    if (!S_ISDIR(status.st_mode)) /* devices and FIFOs are not opened, because that can have side effects */
        return add_pick(picks, path, name, S_ISREG(status.st_mode) ? NULL : "it is not a regular file");
    int result = add_folder(picks, path, name_at);

    if (result == 0 && (picks->takes & PICKS_FOLDERS) != 0)
        return add_kind(picks, path, name, TRANSFER_FOLDER);
    free(path);
    return result == -1 ? -1 : 0;
}

/* Returns the offset at which the stored names begin: at the folder's name, or after it for . and .. and /. */
static size_t name_of_tree(const char *path)
{
    size_t base = picks_base(path);
    const char *name = path + base;

    return name[0] != '\0' && strcmp(name, ".") != 0 && strcmp(name, "..") != 0 ? base : strlen(path) + 1;
}

/* Adds a folder of the command line, unless it is . or .. or /. */
static int add_top(struct picks *picks, const char *plain)
{
    size_t name_at = name_of_tree(plain);
    char *copy = name_at < strlen(plain) ? strdup(plain) : NULL;

    if (name_at >= strlen(plain))
        return 0;
    return copy == NULL ? -1 : add_kind(picks, copy, copy + name_at, TRANSFER_FOLDER);
}

int picks_add_tree(struct picks *picks, const char *path)
{
    size_t length = strlen(path), first = picks->count;
    struct stat status;

    if ((picks->takes & PICKS_LINKS) != 0 && lstat(path, &status) == 0 && S_ISLNK(status.st_mode)) {
        char *copy = strdup(path);

        return copy == NULL ? -1 : add_kind(picks, copy, copy + picks_base(copy), TRANSFER_LINK);
    }
    if (stat(path, &status) == -1 || !S_ISDIR(status.st_mode))
        return picks_add(picks, path);
    while (length > 0 && path[length - 1] == '/')
        length--;
    char *plain = strndup(path, length);
    int result = plain == NULL ? -1 : add_folder(picks, plain, name_of_tree(plain));

    if (result == 0 && (picks->takes & PICKS_FOLDERS) != 0)
        result = add_top(picks, plain);
    for (; first < picks->count; first++)
        if (strlen(picks->list[first].path) > length)
            picks->list[first].named = length + 1;
    free(plain);
    return result == -1 ? -1 : 0;
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
        return false; /* out of memory: the caller's next allocation fails, too, and reports it */
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
