/* SPDX-License-Identifier: BSD-2-Clause */
/* devices.c - the list of devices: the software device first, then rdma-core's; opening and closing them. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "soft/engine/wire.h"
#include "preload.h"
#include "tree.h"

static bool is_our_device(const struct ibv_device *device)
{
    return device == soft_the_device();
}

/* rdma-core's list. Without kernel support rdma-core returns NULL with ENOSYS, which counts as an empty list. */
static struct ibv_device **their_list(int *count)
{
    struct ibv_device **(*theirs)(int *) =
        (struct ibv_device * *(*)(int *)) preload_find("ibv_get_device_list");
    struct ibv_device **list = theirs == NULL ? NULL : theirs(count);

    if (list == NULL)
        *count = 0;
    return list;
}

static void free_theirs(struct ibv_device **theirs)
{
    if (theirs != NULL)
        real(ibv_free_device_list)(theirs);
}

/* The list is one block from malloc(), like rdma-core's: some programs (qperf) pass it to free(). */
EXPORT struct ibv_device **ibv_get_device_list(int *count)
{
    int others = 0;
    struct ibv_device **theirs = their_list(&others);
    size_t end = (size_t)others + 1;
    struct ibv_device **list = calloc(end + 2, sizeof(list[0]));

    if (list == NULL) {
        free_theirs(theirs);
        errno = ENOMEM;
        return NULL;
    }
    list[0] = soft_the_device();
    for (int i = 0; i < others; i++)
        list[i + 1] = theirs[i];
    list[end + 1] =
        (struct ibv_device *)theirs; /* behind the NULL that ends the list: ibv_free_device_list() */
    if (count != NULL)
        *count = others + 1;
    return list;
}

EXPORT void ibv_free_device_list(struct ibv_device **devices)
{
    struct ibv_device **end = devices;

    while (*end != NULL)
        end++;
    free_theirs((struct ibv_device **)end[1]);
    free(devices);
}

EXPORT const char *ibv_get_device_name(struct ibv_device *device)
{
    return device->name;
}

EXPORT int ibv_get_device_index(struct ibv_device *device)
{
    return is_our_device(device) ? -1 : real(ibv_get_device_index)(device);
}

EXPORT __be64 ibv_get_device_guid(struct ibv_device *device)
{
    return is_our_device(device) ? soft_host_guid() : real(ibv_get_device_guid)(device);
}

EXPORT struct ibv_context *ibv_open_device(struct ibv_device *device)
{
    return is_our_device(device) ? soft_open_device() : real(ibv_open_device)(device);
}

EXPORT int ibv_close_device(struct ibv_context *context)
{
    return dispatch(context, soft_close_device, ibv_close_device, context);
}

/* The software device's contexts have no descriptor by which another process could import them, so only rdma-core's can
 * be imported. */
EXPORT struct ibv_context *ibv_import_device(int fd)
{
    struct ibv_context *(*theirs)(int) = (struct ibv_context * (*)(int)) preload_find("ibv_import_device");
    struct ibv_context *context = theirs == NULL ? NULL : theirs(fd);

    if (context == NULL)
        errno = EOPNOTSUPP;
    return context;
}

/* Like rdma-core's ibv_read_sysfs_file(): stores the text without its newline, with a 0, and cut to fit into `size`
 * bytes. Returns the number of bytes before the 0; or -1 and errno. */
static int read_ours(const char *folder, const char *file, char *buffer, size_t size)
{
    struct tree_place place;
    char text[TREE_TEXT];
    size_t length;

    if (!tree_find(&place, folder, file) || place.kind != TREE_FILE) {
        errno = ENOENT;
        return -1;
    }
    length = tree_read(&place, text);
    if (length > 0 && text[length - 1] == '\n')
        length--;
    if (length >= size)
        length = size > 0 ? size - 1 : 0;
    if (size > 0)
        *(char *)mempcpy(buffer, text, length) = '\0';
    return (int)length;
}

EXPORT int ibv_read_sysfs_file(const char *folder, const char *file, char *buffer, size_t size)
{
    const char *ours = soft_the_device()->ibdev_path;
    int (*theirs)(const char *, const char *, char *, size_t);

    if (strncmp(folder, ours, strlen(ours)) == 0)
        return read_ours(folder, file, buffer, size);
    theirs = (int (*)(const char *, const char *, char *, size_t))preload_real("ibv_read_sysfs_file");
    return theirs(folder, file, buffer, size);
}
