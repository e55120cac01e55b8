/* SPDX-License-Identifier: BSD-2-Clause */
/* wishes.c - lists folders one after the other, each sorted by name. See wishes.h. */
#include "wishes.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/common/terminal.h"

/* The entries of a folder. Owned by the function that lists it. */
struct listing {
    struct listed {
        struct transfer_entry entry;
        char *name;
    } * list;
    size_t count, room;
};

static int keep_entry(void *context, const struct transfer_entry *entry, const char *name)
{
    struct listing *listing = context;

    if (listing->count == listing->room) {
        size_t room = listing->room == 0 ? 64 : 2 * listing->room;
        struct listed *list = reallocarray(listing->list, room, sizeof(*list));

        if (list == NULL)
            return -1;
        listing->list = list;
        listing->room = room;
    }
    char *copy = strdup(name);

    if (copy == NULL)
        return -1;
    listing->list[listing->count++] = (struct listed){.entry = *entry, .name = copy};
    return 0;
}

static int compare_names(const void *a, const void *b)
{
    const struct listed *one = a, *other = b;

    return strcmp(one->name, other->name);
}

static void free_listing(struct listing *listing)
{
    for (size_t i = 0; i < listing->count; i++)
        free(listing->list[i].name);
    free(listing->list);
}

static int ask_listing(struct fetch *fetch, const char *name, struct listing *listing)
{
    char path[TRANSFER_PATH_MAX + 1];

    if (snprintf(path, sizeof(path), "%s/", name) >= (int)sizeof(path))
        return client_failed_text(&fetch->client, "cannot be asked for", "its name is too long");
    if (fetch_list(fetch, path, keep_entry, listing) == -1)
        return -1;
    if (listing->count > 0)
        qsort(listing->list, listing->count, sizeof(*listing->list), compare_names);
    return 0;
}

/* ---- Names --------------------------------------------------------------------------------------------- */

void wishes_plain(char *name)
{
    size_t front = strspn(name, "/"), length = strlen(name + front);

    memmove(name, name + front, length + 1);
    while (length > 0 && name[length - 1] == '/')
        name[--length] = '\0';
}

int wishes_add(struct picks *picks, const char *name)
{
    char *copy = strdup(name);

    return copy == NULL
               ? -1
               : picks_add_end(picks, copy, picks_base(name),
                               transfer_check_path(name, strlen(name), (picks->takes & PICKS_HIDDEN) != 0));
}

/* ---- Trees --------------------------------------------------------------------------------------------- */

static int no_memory(struct fetch *fetch)
{
    return client_failed(&fetch->client, "cannot keep a list");
}

static int add_folder(struct picks *picks, struct fetch *fetch, const char *name, size_t name_at,
                      const struct listing *listing);

/* Adds the contents of a folder. If the server refuses to list it, adds it as a problem and continues with the others.
 * Takes ownership of path. */
static int add_inner(struct picks *picks, struct fetch *fetch, char *path, size_t name_at)
{
    struct listing listing = {0};
    int result;

    if (client_renew(&fetch->client) == -1)
        result = -1;
    else if (ask_listing(fetch, path, &listing) == 0)
        result = add_folder(picks, fetch, path, name_at, &listing);
    else {
        free_listing(&listing);
        return picks_add_end(picks, path, name_at, "the server does not list this folder") == 0
                   ? 0
                   : no_memory(fetch);
    }
    free_listing(&listing);
    free(path);
    return result;
}

static void keep_details(struct pick *pick, const struct transfer_entry *entry)
{
    const struct transfer_header *details = &entry->details;

    pick->kind = entry->kind;
    pick->details.known = true;
    pick->details.size = entry->size;
    pick->details.seconds = details->seconds;
    pick->details.nanoseconds = details->nanoseconds;
    pick->details.mode = details->mode;
}

static int add_entry(struct picks *picks, struct fetch *fetch, char *path, size_t name_at,
                     const struct transfer_entry *entry, const char *problem)
{
    if (picks_add_end(picks, path, name_at, problem) == -1)
        return no_memory(fetch);
    if (fetch->detailed)
        keep_details(&picks->list[picks->count - 1], entry);
    return 0;
}

/* Adds a folder after its contents, because storing these would change its time. */
static int add_inner_folder(struct picks *picks, struct fetch *fetch, char *path, size_t name_at,
                            const struct listed *listed)
{
    char *copy = (picks->takes & PICKS_FOLDERS) == 0 ? NULL : strdup(path);

    if ((picks->takes & PICKS_FOLDERS) != 0 && copy == NULL) {
        free(path);
        return no_memory(fetch);
    }
    size_t before = picks->count;
    int result = add_inner(picks, fetch, path, name_at);
    bool is_known = result == 0 && (picks->count == before || picks->list[picks->count - 1].problem == NULL ||
                                    strcmp(picks->list[picks->count - 1].path, copy != NULL ? copy : "") != 0);

    if (copy != NULL && is_known)
        return add_entry(picks, fetch, copy, name_at, &listed->entry, NULL);
    free(copy);
    return result;
}

static bool is_wanted(const struct picks *picks, const struct listed *listed)
{
    return (listed->name[0] != '.' || (picks->takes & PICKS_HIDDEN) != 0) &&
           (listed->entry.kind != TRANSFER_LINK || (picks->takes & PICKS_LINKS) != 0);
}

/* Adds an entry of a list. A path that is too long or too deep is added as a problem, and is not requested. */
static int add_listed(struct picks *picks, struct fetch *fetch, const char *folder, const struct listed *listed,
                      size_t name_at)
{
    const char *slash = folder[0] == '\0' || listed->name[0] == '\0' ? "" : "/", *problem;
    char *path;

    if (!is_wanted(picks, listed))
        return 0;
    if (asprintf(&path, "%s%s%s", folder, slash, listed->name) == -1)
        return no_memory(fetch);
    problem = transfer_check_path(path, strlen(path), (picks->takes & PICKS_HIDDEN) != 0);
    if (problem != NULL || listed->entry.kind != TRANSFER_FOLDER)
        return add_entry(picks, fetch, path, name_at, &listed->entry, problem);
    return add_inner_folder(picks, fetch, path, name_at, listed);
}

static int add_folder(struct picks *picks, struct fetch *fetch, const char *name, size_t name_at,
                      const struct listing *listing)
{
    int result = 0;

    for (size_t i = 0; i < listing->count && result == 0; i++)
        result = add_listed(picks, fetch, name, &listing->list[i], name_at);
    return result;
}

/* Adds a folder of the command line. */
static int add_itself(struct picks *picks, struct fetch *fetch, const char *name,
                      const struct transfer_entry *folder)
{
    char *copy = strdup(name);

    return copy == NULL ? no_memory(fetch) : add_entry(picks, fetch, copy, picks_base(name), folder, NULL);
}

int wishes_add_tree(struct picks *picks, struct fetch *fetch, const char *name)
{
    struct listing listing = {0};
    int result = ask_listing(fetch, name, &listing);

    const struct transfer_entry folder = {.kind = TRANSFER_FOLDER, .details = fetch->folder};

    if (result == 0)
        result = add_folder(picks, fetch, name, picks_base(name), &listing);
    if (result == 0 && (picks->takes & PICKS_FOLDERS) != 0 && name[0] != '\0' &&
        folder.details.kind == TRANSFER_FOLDER)
        result = add_itself(picks, fetch, name, &folder);
    free_listing(&listing);
    return result;
}

/* ---- Lists ---------------------------------------------------------------------------------------------- */

static void print_line(FILE *out, const char *name, const struct listed *listed)
{
    const char *shown = listed->name[0] == '\0' ? name + picks_base(name) : terminal_filter(listed->name);

    if (listed->entry.kind == TRANSFER_FOLDER)
        fprintf(out, "%15s %s/\n", "-", shown);
    else
        fprintf(out, "%15llu %s%s\n", (unsigned long long)listed->entry.size, shown,
                listed->entry.kind == TRANSFER_LINK ? "@" : "");
}

/* Prints the path with the folder's name, so that it can be passed to exs-get. */
static void print_json(FILE *out, const char *name, const struct listed *listed)
{
    char path[TRANSFER_PATH_MAX + TRANSFER_NAME_MAX + 2];
    const char *slash = name[0] == '\0' || listed->name[0] == '\0' ? "" : "/";

    snprintf(path, sizeof(path), "%s%s%s", name, slash, listed->name);
    fprintf(out, listed->entry.kind == TRANSFER_FOLDER ? "{\"folder\":"
                 : listed->entry.kind == TRANSFER_LINK ? "{\"link\":"
                                                       : "{\"file\":");
    terminal_json(out, path);
    if (listed->entry.kind == TRANSFER_FILE)
        fprintf(out, ",\"bytes\":%llu", (unsigned long long)listed->entry.size);
    fprintf(out, "}\n");
}

int wishes_list(FILE *out, struct fetch *fetch, const char *name, bool json)
{
    struct listing listing = {0};
    int result = ask_listing(fetch, name, &listing);

    for (size_t i = 0; i < listing.count && result == 0; i++)
        (json ? print_json : print_line)(out, name, &listing.list[i]);
    free_listing(&listing);
    return result;
}
