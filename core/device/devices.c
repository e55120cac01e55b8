/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * devices.c - exs_getdevices: the available devices and their capabilities.
 *
 * Which addresses lead to a device is found out as a listener would: an id is bound to each address of this host. Its
 * context then has the device's limits. For a device without an address only the name is known.
 */
#include <errno.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <exs.h>
#include "core/base/entry.h"
#include "core/base/log.h"
#include "core/base/settings.h"
#include "registry.h"

#define RESOLVE_MS 1000 /* resolving a local address takes no time */

/* Where the call stores what it finds; on its stack. */
struct found {
    exs_device_t *devices;
    int most, count;
};

/* ---- Names ----------------------------------------------------------------------------------------------- */

static bool is_allowed(const struct device *device, const char *name)
{
    const char *wanted = settings()->device;

    return *wanted == 0 || strcmp(wanted, device->name) == 0 || strcmp(wanted, name) == 0;
}

static void add_entry(struct found *found, const struct device *device, const char *name)
{
    if (found->count < found->most) {
        exs_device_t *entry = &found->devices[found->count];

        *entry = (exs_device_t){0};
        snprintf(entry->exs_name, sizeof(entry->exs_name), "%s", name);
        snprintf(entry->exs_kind, sizeof(entry->exs_kind), "%s", device->name);
    }
    found->count++;
}

static int add_all(struct found *found, const struct device *device)
{
    int count = 0;
    struct ibv_device **list = device->get_device_list(&count);

    if (list == NULL)
        return -1;
    for (int i = 0; i < count; i++) {
        if (is_allowed(device, list[i]->name))
            add_entry(found, device, list[i]->name);
    }
    device->free_device_list(list);
    return 0;
}

static exs_device_t *find_entry(const struct found *found, const struct device *device, const char *name)
{
    for (int i = 0; i < found->count && i < found->most; i++) {
        exs_device_t *entry = &found->devices[i];

        if (strcmp(entry->exs_name, name) == 0 && strcmp(entry->exs_kind, device->name) == 0)
            return entry;
    }
    return NULL;
}

/* ---- What a device reports ------------------------------------------------------------------------- */

static const char *links_of(const struct device *device, const struct ibv_context *context,
                            const struct ibv_port_attr *port)
{
    if (device == &soft_device)
        return settings()->shm ? "shm,tcp,udp" : settings()->tcp ? "tcp,udp" : "udp";
    if (context->device->transport_type == IBV_TRANSPORT_IWARP)
        return "iWARP";
    return port->link_layer == IBV_LINK_LAYER_ETHERNET ? "RoCE" : "InfiniBand";
}

/* -1: the device reports nothing. */
static int describe_device(exs_device_t *entry, const struct device *device, const struct rdma_cm_id *id)
{
    struct ibv_device_attr attr;
    struct ibv_port_attr port;

    if (device->query_device(id->verbs, &attr) != 0 || device->query_port(id->verbs, id->port_num, &port) != 0)
        return -1;
    entry->exs_mtu = 128 << port.active_mtu;
    entry->exs_max_connections = attr.max_qp;
    entry->exs_max_requests = attr.max_qp_wr;
    entry->exs_max_message = port.max_msg_sz;
    entry->exs_max_region = attr.max_mr_size;
    snprintf(entry->exs_links, sizeof(entry->exs_links), "%s", links_of(device, id->verbs, &port));
    return 0;
}

static void add_address(exs_device_t *entry, const struct sockaddr *address, size_t size)
{
    if (entry->exs_address_count < EXS_DEVICE_ADDRESSES)
        memcpy(&entry->exs_addresses[entry->exs_address_count], address, size);
    entry->exs_address_count++;
}

/* Has the id a device? A bound id may have one already; otherwise resolve the address. */
static bool has_device(const struct device *device, struct rdma_cm_id *id, struct sockaddr *address)
{
    return id->verbs != NULL || (device->resolve_addr(id, NULL, address, RESOLVE_MS) == 0 && id->verbs != NULL);
}

/* Ask the device about one address. -1 and errno: no id. An address that does not belong to the device is no
 * error. */
static int ask_device(struct found *found, const struct device *device, struct rdma_event_channel *channel,
                      struct sockaddr *address)
{
    size_t size = address->sa_family == AF_INET ? sizeof(struct sockaddr_in) : sizeof(struct sockaddr_in6);
    struct rdma_cm_id *id;

    if (device->create_id(channel, &id, NULL, RDMA_PS_TCP) != 0)
        return -1;
    if (device->bind_addr(id, address) == 0 && has_device(device, id, address)) {
        exs_device_t *entry = find_entry(found, device, id->verbs->device->name);

        if (entry != NULL && (entry->exs_address_count > 0 || describe_device(entry, device, id) == 0))
            add_address(entry, address, size);
    }
    device->destroy_id(id);
    return 0;
}

static int ask_all(struct found *found, const struct device *device, const struct ifaddrs *interfaces)
{
    struct rdma_event_channel *channel = device->create_event_channel();
    int result = 0;

    if (channel == NULL)
        return -1;
    for (const struct ifaddrs *each = interfaces; each != NULL && result == 0; each = each->ifa_next) {
        bool is_up = (each->ifa_flags & IFF_UP) != 0 && each->ifa_addr != NULL;

        if (is_up && (each->ifa_addr->sa_family == AF_INET || each->ifa_addr->sa_family == AF_INET6))
            result = ask_device(found, device, channel, each->ifa_addr);
    }
    int saved = errno;

    device->destroy_event_channel(channel);
    errno = saved;
    return result;
}

static int get_devices(struct found *found)
{
    struct ifaddrs *interfaces;
    int result = 0;

    if (getifaddrs(&interfaces) == -1)
        return -1;
    for (int i = 0; i < xs_devices() && result == 0; i++) {
        result = add_all(found, xs_device(i));
        if (result == 0 && found->most > 0)
            result = ask_all(found, xs_device(i), interfaces);
    }
    int saved = errno;

    freeifaddrs(interfaces);
    errno = saved;
    return result;
}

int exs_getdevices(exs_device_t *devices, int most)
{
    struct found found = {.devices = devices, .most = most};

    if (xs_enter(__func__) < 0)
        return -1;
    if (most < 0)
        return xs_invalid("most is %d", most);
    if (devices == NULL && most > 0)
        return xs_nowhere("devices");
    return get_devices(&found) == 0 ? found.count : -1;
}
