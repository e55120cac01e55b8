/* SPDX-License-Identifier: BSD-2-Clause */
/* settings.c - reads the environment variables. See settings.h. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "settings.h"
#include "text.h"

/* the default of EXS_SPIN: about what a wake-up costs on a virtual machine */
#define SPIN_US 50

static struct settings current;
static pthread_once_t once = PTHREAD_ONCE_INIT;

/* Copy a value. One that is too long ends in "...", which shows that it is cut; it equals no known word
 * then. */
static void copy_value(char kept[SETTING_MAX], const char *value)
{
    static const char cut[] = "...";
    size_t length = value != NULL ? strlen(value) : 0, most = SETTING_MAX - 1;

    if (length > most) {
        most -= strlen(cut);
        while (most > 0 && text_continues(value[most])) /* don't cut within a UTF-8 character */
            most--;
    }
    snprintf(kept, SETTING_MAX, "%.*s%s", (int)most, length > 0 ? value : "", length > most ? cut : "");
}

/* A variable that is on unless it is 0; `otherwise` if it is not set or empty. */
static bool is_set(const char *name, bool otherwise)
{
    const char *value = secure_getenv(name);

    return value != NULL && *value != 0 ? strcmp(value, "0") != 0 : otherwise;
}

static bool is_set_to(const char *name, const char *wanted)
{
    const char *value = secure_getenv(name);

    return value != NULL && strcmp(value, wanted) == 0;
}

/* Like is_set(), for a variable that must be 0, 1, unset, empty or `word`: the first other value is recorded,
 * and exs_init() refuses it. */
static bool is_switched(const char *name, bool otherwise, const char *word)
{
    const char *value = secure_getenv(name);

    if (value != NULL && *value != 0 && !is_set_to(name, "0") && !is_set_to(name, "1") &&
        (word == NULL || !is_set_to(name, word)) && current.odd == NULL) {
        current.odd = name;
        copy_value(current.odd_value, value);
    }
    return is_set(name, otherwise);
}

/* EXS_LINK: how the software device carries packets. */
static void read_link(const char *link)
{
    copy_value(current.link, link);
    current.link_known = *current.link == 0 || strcmp(current.link, "auto") == 0 ||
                         strcmp(current.link, "shm") == 0 || strcmp(current.link, "tcp") == 0 ||
                         strcmp(current.link, "udp") == 0;
    current.tcp = strcmp(current.link, "udp") != 0;
    current.shm = current.tcp && strcmp(current.link, "tcp") != 0;
}

/* EXS_ROCE: does the software device use RoCE's UDP port, where RDMA adapters can reach it? */
static void read_roce(const char *roce)
{
    copy_value(current.roce, roce);
    current.roce_only = strcmp(current.roce, "only") == 0;
    current.roce_needed = current.roce_only || strcmp(current.roce, "on") == 0;
    current.roce_wanted = current.roce_needed || strcmp(current.roce, "auto") == 0;
    current.roce_known = current.roce_wanted || *current.roce == 0 || strcmp(current.roce, "off") == 0;
}

/* EXS_SPIN: digits only. */
static void read_spin(const char *spin)
{
    size_t length = spin != NULL ? strlen(spin) : 0;
    unsigned long us = length > 0 ? strtoul(spin, NULL, 10) : SPIN_US;

    copy_value(current.spin, spin);
    current.spin_known =
        length < sizeof(current.spin) && strspn(current.spin, "0123456789") == length && us <= SPIN_US_MAX;
    current.spin_us = current.spin_known ? (unsigned)us : 0;
}

static void read_all(void)
{
    const char *device = secure_getenv("EXS_DEVICE");

    copy_value(current.device, device != NULL && strcmp(device, "auto") != 0 ? device : NULL);
    read_link(secure_getenv("EXS_LINK"));
    copy_value(current.congestion, secure_getenv("EXS_TCP_CONGESTION"));
    read_roce(secure_getenv("EXS_ROCE"));
    read_spin(secure_getenv("EXS_SPIN"));
    current.odd = NULL;
    current.map_always = is_switched("EXS_MAP", false, NULL);
    current.map_never = !is_set("EXS_MAP", true);
    current.immediate = is_switched("EXS_IMMEDIATE", true, NULL);
    current.debug = is_set("EXS_DEBUG", false);
    current.trace = is_set_to("EXS_DEBUG", "2");
    current.check = is_switched("EXS_CHECK", false, "abort");
    current.check_aborts = is_set_to("EXS_CHECK", "abort");
}

void settings_read(void)
{
    pthread_once(&once, read_all);
    read_all();
}

const struct settings *settings(void)
{
    pthread_once(&once, read_all);
    return &current;
}
