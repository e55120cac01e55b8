/* SPDX-License-Identifier: BSD-2-Clause */
/* say.c - prints text in columns, or one JSON object. See say.h. */
#include "say.h"

#include <inttypes.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>

#define ADDRESS_MAX (INET6_ADDRSTRLEN + 1 + IF_NAMESIZE)

static const char *address_text(const struct sockaddr_storage *address, char text[ADDRESS_MAX])
{
    socklen_t length =
        address->ss_family == AF_INET6 ? sizeof(struct sockaddr_in6) : sizeof(struct sockaddr_in);

    if (getnameinfo((const struct sockaddr *)address, length, text, ADDRESS_MAX, NULL, 0, NI_NUMERICHOST) != 0)
        snprintf(text, ADDRESS_MAX, "?");
    return text;
}

static int addresses_of(const exs_device_t *device)
{
    return device->exs_address_count < EXS_DEVICE_ADDRESSES ? device->exs_address_count : EXS_DEVICE_ADDRESSES;
}

/* ---- Text ------------------------------------------------------------------------------------------------ */

/* Writes a number of bytes with a unit (a power of 1024) if it is a multiple of that. */
static const char *bytes_text(uint64_t bytes, char text[32])
{
    static const char *const units[] = {"bytes", "KiB", "MiB", "GiB", "TiB"};
    int unit = 0;

    if (bytes == UINT64_MAX)
        return "any size";
    while (unit < 4 && bytes >= 1024 && bytes % 1024 == 0) {
        bytes /= 1024;
        unit++;
    }
    snprintf(text, 32, "%" PRIu64 " %s", bytes, units[unit]);
    return text;
}

static void device_text(const exs_device_t *device)
{
    char text[ADDRESS_MAX], message[32], region[32];

    printf("%s: %s", device->exs_name, device->exs_kind);
    if (device->exs_address_count == 0) {
        printf(", and no address of this host leads to it: is its link up?\n");
        return;
    }
    printf(", packets by %s\n  addresses  ", device->exs_links);
    for (int i = 0; i < addresses_of(device); i++)
        printf("%s%s", i > 0 ? ", " : "", address_text(&device->exs_addresses[i], text));
    if (device->exs_address_count > EXS_DEVICE_ADDRESSES)
        printf(", and %d more", device->exs_address_count - EXS_DEVICE_ADDRESSES);
    printf("\n  limits     packets of %d bytes, requests of %s, regions of %s, %d requests under way, %d "
           "connections\n",
           device->exs_mtu, bytes_text(device->exs_max_message, message),
           bytes_text(device->exs_max_region, region), device->exs_max_requests, device->exs_max_connections);
}

static void limits_text(const struct limits *limits)
{
    char text[32];

    if (limits->memlock == LIMITS_NONE)
        printf("memlock: no limit\n");
    else
        printf("memlock: %s, enough for %" PRIu64 " connections without buffers of their own%s\n",
               bytes_text(limits->memlock, text), limits->memlock / LIMITS_CONNECTION,
               limits->memlock < LIMITS_CONNECTION ? ": raise it with ulimit -l" : "");
    if (limits->descriptors == LIMITS_NONE)
        printf("descriptors: no limit\n");
    else
        printf("descriptors: %" PRIu64 "\n", limits->descriptors);
    if (limits->last_port > 0)
        printf("ports: %d to %d for who asks for none\n", limits->first_port, limits->last_port);
}

static void choice_text(const char *name, const struct choice *choice)
{
    char text[ADDRESS_MAX];

    printf("%s: ", name);
    if (choice->device != NULL)
        printf("by %s, from %s: ", choice->device->exs_name, address_text(&choice->from, text));
    else if (choice->from.ss_family != 0)
        printf("by none, from %s: ", address_text(&choice->from, text));
    printf("%s\n", choice->why);
}

void say_text(const struct info *info)
{
    printf("EXS %s, EXS_DEVICE=%s\n", exs_version_string(), info->setting);
    for (int i = 0; i < info->count; i++)
        device_text(&info->devices[i]);
    limits_text(&info->limits);
    for (int i = 0; i < info->asked; i++)
        choice_text(info->names[i], &info->choices[i]);
}

/* ---- JSON ------------------------------------------------------------------------------------------------ */

/* Prints a JSON string. Characters that a string cannot contain are written as escaped numbers; other bytes of UTF-8
 * are unchanged. */
static void string_json(const char *text)
{
    putchar('"');
    for (; *text != '\0'; text++) {
        if (*text == '"' || *text == '\\' || (unsigned char)*text < ' ')
            printf("\\u%04x", (unsigned)(unsigned char)*text);
        else
            putchar(*text);
    }
    putchar('"');
}

static void member_json(const char *name, const char *value)
{
    printf("\"%s\": ", name);
    if (value != NULL)
        string_json(value);
    else
        printf("null");
}

static void limit_json(const char *name, uint64_t value)
{
    if (value == LIMITS_NONE)
        printf(", \"%s\": null", name);
    else
        printf(", \"%s\": %" PRIu64, name, value);
}

static void device_json(const exs_device_t *device)
{
    char text[ADDRESS_MAX];

    printf("{");
    member_json("name", device->exs_name);
    printf(", ");
    member_json("kind", device->exs_kind);
    printf(", ");
    member_json("links", device->exs_links);
    printf(", \"addresses\": [");
    for (int i = 0; i < addresses_of(device); i++) {
        printf("%s", i > 0 ? ", " : "");
        string_json(address_text(&device->exs_addresses[i], text));
    }
    printf("], \"address_count\": %d, \"mtu\": %d, \"max_connections\": %d, \"max_requests\": %d, "
           "\"max_message\": %" PRIu64 ", \"max_region\": %" PRIu64 "}",
           device->exs_address_count, device->exs_mtu, device->exs_max_connections, device->exs_max_requests,
           device->exs_max_message, device->exs_max_region);
}

static void choice_json(const char *name, const struct choice *choice)
{
    char text[ADDRESS_MAX];

    printf("{");
    member_json("address", name);
    printf(", ");
    member_json("device", choice->device != NULL ? choice->device->exs_name : NULL);
    printf(", ");
    member_json("from", choice->from.ss_family != 0 ? address_text(&choice->from, text) : NULL);
    printf(", ");
    member_json("why", choice->why);
    printf("}");
}

void say_json(const struct info *info)
{
    printf("{");
    member_json("version", exs_version_string());
    printf(", ");
    member_json("setting", info->setting);
    printf(", \"devices\": [");
    for (int i = 0; i < info->count; i++) {
        printf("%s", i > 0 ? ", " : "");
        device_json(&info->devices[i]);
    }
    printf("]");
    limit_json("memlock", info->limits.memlock);
    limit_json("descriptors", info->limits.descriptors);
    printf(", \"first_port\": %d, \"last_port\": %d, \"choices\": [", info->limits.first_port,
           info->limits.last_port);
    for (int i = 0; i < info->asked; i++) {
        printf("%s", i > 0 ? ", " : "");
        choice_json(info->names[i], &info->choices[i]);
    }
    printf("]}\n");
}
