/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * tree.c - the files and directories of the tree (tree.h), and the files' content.
 *
 * The format is the kernel's for a port of RoCE (drivers/infiniband/core/sysfs.c); the values are those of
 * ibv_query_device() and ibv_query_port(). The LID is 0, because a LID belongs to a context and not to the host.
 */
#include <dirent.h>
#include <endian.h>
#include <errno.h>
#include <net/if.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "soft/engine/wire.h"
#include "tree.h"

#define DEVICES "/dev/infiniband"
#define CLASS "/sys/class/infiniband"
#define DEVICE CLASS "/soft0"
#define NETWORKS DEVICE "/device/net"
#define PORT DEVICE "/ports/1"
/* The interfaces of the process's network namespace; /sys may show those of another one. */
#define INTERFACES "/proc/self/net/dev_snmp6/"
#define GUID_BYTES 8
#define NUMBER 10 /* the base of numbers in names */

/* ---- Content of files ---------------------------------------------------------------------------------- */

static void write_guid(char text[TREE_TEXT], unsigned place)
{
    uint64_t guid = be64toh(soft_host_guid());

    (void)place;
    snprintf(text, TREE_TEXT, "%04x:%04x:%04x:%04x\n", (unsigned)(guid >> 48), (unsigned)(guid >> 32 & 0xffff),
             (unsigned)(guid >> 16 & 0xffff), (unsigned)(guid & 0xffff));
}

/* In the format of an adapter's GID: eight groups, none shortened; an unused entry is 0. */
static void write_gid(char text[TREE_TEXT], unsigned place)
{
    struct soft_gid gids[SOFT_GIDS] = {0};
    const uint8_t *at = gids[place].gid.raw;
    size_t length = 0;

    soft_host_gids(gids);
    for (unsigned group = 0; group < 8; group++, at += 2)
        length += (size_t)snprintf(text + length, TREE_TEXT - length, "%02x%02x%c", at[0], at[1],
                                   group < 7 ? ':' : '\n');
}

static void write_interface(char text[TREE_TEXT], unsigned place)
{
    struct soft_gid gids[SOFT_GIDS] = {0};
    char name[IF_NAMESIZE] = "";

    soft_host_gids(gids);
    if_indextoname(gids[place].interface, name);
    snprintf(text, TREE_TEXT, "%s\n", name);
}

/* ---- Files and directories ----------------------------------------------------------------------------- */

static unsigned all_gids(void)
{
    return SOFT_GIDS;
}

static unsigned used_gids(void)
{
    struct soft_gid gids[SOFT_GIDS];

    return (unsigned)soft_host_gids(gids);
}

/* A directory has neither `text` nor `write`. An entry with `count` stands for the files "0" to count() - 1. */
static const struct entry {
    const char *path, *text, *other;
    void (*write)(char text[TREE_TEXT], unsigned place);
    unsigned (*count)(void);
} entries[] = {
    {.path = DEVICES},
    {.path = DEVICES "/soft0", .other = "/dev/null"},
    {.path = CLASS},
    {.path = DEVICE},
    {.path = DEVICE "/node_type", .text = "1: CA\n"},
    {.path = DEVICE "/node_guid", .write = write_guid},
    {.path = DEVICE "/sys_image_guid", .write = write_guid},
    {.path = DEVICE "/node_desc", .text = "EXS software device\n"},
    {.path = DEVICE "/fw_ver", .text = "soft\n"},
    {.path = DEVICE "/hw_rev", .text = "0\n"},
    {.path = DEVICE "/hca_type", .text = "EXS\n"},
    {.path = DEVICE "/device"},
    {.path = NETWORKS, .other = INTERFACES},
    {.path = DEVICE "/ports"},
    {.path = PORT},
    {.path = PORT "/state", .text = "4: ACTIVE\n"},
    {.path = PORT "/phys_state", .text = "5: LinkUp\n"},
    {.path = PORT "/link_layer", .text = "Ethernet\n"},
    {.path = PORT "/rate", .text = "100 Gb/sec (4X EDR)\n"},
    {.path = PORT "/lid", .text = "0x0\n"},
    {.path = PORT "/lid_mask_count", .text = "0\n"},
    {.path = PORT "/sm_lid", .text = "0x0\n"},
    {.path = PORT "/sm_sl", .text = "0\n"},
    {.path = PORT "/cap_mask", .text = "0x04010000\n"}, /* as ibv_query_port() reports it */
    {.path = PORT "/gids"},
    {.path = PORT "/gids/", .write = write_gid, .count = all_gids},
    {.path = PORT "/pkeys"},
    {.path = PORT "/pkeys/0", .text = "0xffff\n"},
    {.path = PORT "/gid_attrs"},
    {.path = PORT "/gid_attrs/types"},
    {.path = PORT "/gid_attrs/types/", .text = "RoCE v2\n", .count = used_gids},
    {.path = PORT "/gid_attrs/ndevs"},
    {.path = PORT "/gid_attrs/ndevs/", .write = write_interface, .count = used_gids},
};

#define ENTRIES (sizeof entries / sizeof entries[0])

/* Normalizes an absolute path: removes "//", "/." and "/..". False: it is too long. */
static bool normalize_path(char straight[TREE_PATH], const char *path)
{
    size_t length = 0;

    while (*path != '\0') {
        size_t slashes = strspn(path, "/"), name = strcspn(path + slashes, "/");

        path += slashes;
        if (name == 2 && path[0] == '.' && path[1] == '.') {
            while (length > 0 && straight[--length] != '/')
                ;
        } else if (name > 0 && !(name == 1 && path[0] == '.')) {
            if (length + 1 + name >= TREE_PATH)
                return false;
            straight[length++] = '/';
            memcpy(straight + length, path, name);
            length += name;
        }
        path += name;
    }
    if (length == 0)
        straight[length++] = '/';
    straight[length] = '\0';
    return true;
}

/* Whether the path is that of the entry; *number: of which of its numbered files. */
static bool is_of(const struct entry *entry, const char *path, unsigned *number)
{
    size_t length = strlen(entry->path);
    unsigned long read;
    char *end;

    *number = 0;
    if (entry->count == NULL)
        return strcmp(entry->path, path) == 0;
    if (strncmp(entry->path, path, length) != 0 || path[length] < '0' || path[length] > '9' ||
        (path[length] == '0' && path[length + 1] != '\0'))
        return false;
    read = strtoul(path + length, &end, NUMBER);
    *number = (unsigned)read;
    return *end == '\0' && read < entry->count();
}

static void set_place(struct tree_place *place, const struct entry *entry, unsigned number)
{
    place->kind = entry->other != NULL                          ? TREE_OTHER
                  : entry->text != NULL || entry->write != NULL ? TREE_FILE
                                                                : TREE_FOLDER;
    snprintf(place->other, sizeof place->other, "%s", entry->other == NULL ? "" : entry->other);
    place->text = entry->text;
    place->write = entry->write;
    place->place = number;
}

static bool has_prefix(const char *path, const char *beginning)
{
    return strncmp(path, beginning, strlen(beginning)) == 0;
}

/* Whether it is one of the device's network interfaces, which are all of the host's. */
static bool is_interface(struct tree_place *place)
{
    if (!has_prefix(place->path, NETWORKS "/"))
        return false;
    place->kind = TREE_OTHER;
    return snprintf(place->other, sizeof place->other, "/sys/class/net/%s",
                    place->path + strlen(NETWORKS "/")) < TREE_PATH;
}

bool tree_may_match(const char *pattern)
{
    return has_prefix(pattern, CLASS) || has_prefix(pattern, DEVICES);
}

/* Whether `path` leads out of the tree by "..". The system may not have the tree's directories, so it could not resolve
 * the path; the normalized one is used instead. */
static bool is_beyond(struct tree_place *place, const char *path)
{
    if (!tree_may_match(path) || tree_may_match(place->path))
        return false;
    place->kind = TREE_OTHER;
    memcpy(place->other, place->path, sizeof place->other);
    return true;
}

static bool find_straight(struct tree_place *place, const char *path)
{
    unsigned number;

    for (size_t i = 0; i < ENTRIES; i++) {
        if (!is_of(&entries[i], place->path, &number))
            continue;
        set_place(place, &entries[i], number);
        return true;
    }
    return is_interface(place) || is_beyond(place, path);
}

bool tree_find(struct tree_place *place, const char *folder, const char *path)
{
    char joined[TREE_PATH];
    int error = errno;
    bool found;

    if (path[0] != '/') {
        if (snprintf(joined, sizeof joined, "%s/%s", folder, path) >= TREE_PATH)
            return false;
        path = joined;
    }
    if (!has_prefix(path, "/sys/") && !has_prefix(path, "/dev/"))
        return false;
    found = normalize_path(place->path, path) && find_straight(place, path);
    errno = error;
    return found && (place->kind != TREE_FILE || path[strlen(path) - 1] != '/');
}

bool tree_is_shared(const struct tree_place *place)
{
    return strcmp(place->path, CLASS) == 0 || strcmp(place->path, DEVICES) == 0;
}

int tree_names(const struct tree_place *place, char names[TREE_NAMES][TREE_NAME])
{
    size_t length = strlen(place->path);
    int count = 0;

    for (size_t i = 0; i < ENTRIES; i++) {
        const char *path = entries[i].path;
        unsigned numbers = entries[i].count == NULL ? 1 : entries[i].count();

        if (!has_prefix(path, place->path) || path[length] != '/' || strchr(path + length + 1, '/') != NULL)
            continue;
        for (unsigned number = 0; number < numbers && count < TREE_NAMES; number++) {
            if (entries[i].count == NULL)
                snprintf(names[count++], TREE_NAME, "%s", path + length + 1);
            else
                snprintf(names[count++], TREE_NAME, "%u", number);
        }
    }
    return count;
}

unsigned char tree_type(const struct tree_place *place, const char *name)
{
    struct tree_place inside;

    if (!tree_find(&inside, place->path, name))
        return DT_UNKNOWN;
    if (inside.kind == TREE_OTHER)
        return inside.other[strlen(inside.other) - 1] == '/' ? DT_DIR : DT_UNKNOWN;
    return inside.kind == TREE_FOLDER ? DT_DIR : DT_REG;
}

size_t tree_read(const struct tree_place *place, char text[TREE_TEXT])
{
    text[0] = '\0';
    if (place->text != NULL)
        snprintf(text, TREE_TEXT, "%s", place->text);
    else if (place->write != NULL)
        place->write(text, place->place);
    return strlen(text);
}

uint64_t tree_number(const struct tree_place *place)
{
    uint64_t hash = UINT64_C(0xcbf29ce484222325); /* FNV-1a */

    for (const char *at = place->path; *at != '\0'; at++)
        hash = (hash ^ (uint8_t)*at) * UINT64_C(0x100000001b3);
    return hash | 1;
}
