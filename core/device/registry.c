/* SPDX-License-Identifier: BSD-2-Clause */
/* registry.c - the choice of devices by EXS_DEVICE. See registry.h. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include "core/base/log.h"
#include "core/base/settings.h"
#include "registry.h"

static const struct device *devices[DEVICES_MAX];
static int device_count;

/* Can the device be used here? Without a driver it has not even an event channel. */
static bool is_there(const struct device *device)
{
    struct rdma_event_channel *channel = device->create_event_channel();

    if (channel == NULL)
        return false;
    device->destroy_event_channel(channel);
    return true;
}

/* RDMA adapters first. */
static const struct device *const known[] = {&rdma_device, &soft_device};

/* Append the names of all devices of this kind to `names`. Returns whether the wanted one is among them. */
static bool has_named(const struct device *device, const char *wanted, char *names, size_t size)
{
    int count = 0;
    struct ibv_device **list = device->get_device_list(&count);
    bool found = false;

    for (int i = 0; list != NULL && i < count; i++) {
        size_t used = strlen(names);

        snprintf(names + used, size - used, "%s%s", used > 0 ? ", " : "", list[i]->name);
        found = found || strcmp(list[i]->name, wanted) == 0;
    }
    if (list != NULL)
        device->free_device_list(list);
    return found;
}

/* Does EXS_DEVICE name this kind of device: all kinds, this kind, or one device of it? If it names no kind, the
 * names of the existing devices are appended to `names`. */
static bool is_wanted(const char *wanted, const struct device *device, char *names, size_t size)
{
    if (*wanted == 0 || strcmp(wanted, device->name) == 0)
        return true;
    for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++) {
        if (strcmp(wanted, known[i]->name) == 0)
            return false;
    }
    return has_named(device, wanted, names, size);
}

/* EXS_DEVICE: auto (the default), rdma, soft, or the name of one device. */
int xs_choose_devices(void)
{
    const char *wanted = settings()->device;
    char names[256] = "";
    bool named = false;

    device_count = 0;
    for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++) {
        if (!is_wanted(wanted, known[i], names, sizeof(names)))
            continue;
        named = true;
        if (is_there(known[i]))
            devices[device_count++] = known[i];
        else if (known[i] == &soft_device)
            /* the software device always exists, so memory or descriptors are missing; a later call may
             * succeed */
            return -1;
        else
            xs_log("no %s device here: %s%s", known[i]->name, strerror(errno),
                   *wanted == 0 ? "; connections use soft0, the software device" : "");
    }
    if (device_count > 0)
        return 0;
    if (named)
        return xs_refuse(
            ENODEV, "%s=%s finds no device: load its driver (modprobe rdma_ucm), or set it to auto or soft",
            settings()->name[SET_DEVICE], wanted);
    return xs_refuse(ENODEV, "%s=%s is not a device: set it to auto, rdma, soft, or one of these names: %s",
                     settings()->name[SET_DEVICE], wanted, names);
}

bool xs_device_allowed(const struct ibv_context *context)
{
    const char *wanted = settings()->device;

    for (int i = 0; i < device_count; i++) {
        if (strcmp(wanted, devices[i]->name) == 0)
            return true;
    }
    return *wanted == 0 || strcmp(context->device->name, wanted) == 0;
}

int xs_devices(void)
{
    return device_count;
}

const struct device *xs_device(int index)
{
    return devices[index];
}

void xs_devices_forget(void)
{
    for (int i = 0; i < device_count; i++)
        if (devices[i]->forget != NULL)
            devices[i]->forget();
}

void xs_devices_end(void)
{
    for (int i = 0; i < device_count; i++)
        if (devices[i]->end != NULL)
            devices[i]->end();
}
