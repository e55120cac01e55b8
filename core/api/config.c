/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * config.c - the configuration of exs_init_config: its size, and whether a later one agrees with it. settings.c (base)
 * checks the values.
 *
 * exs_size says which version of the struct the program was compiled with. Later versions only add fields at the end,
 * and 0 is each field's default. So a shorter struct is complete, and a longer one is if all that follows is 0.
 */
#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include "config.h"
#include "core/base/log.h"
#include "core/base/settings.h"

/* bytes: the struct of 3.0.0, the first one; an exs_size outside of these is not that of a struct */
#define CONFIG_MIN (offsetof(exs_config_t, exs_ring_bytes) + sizeof(uint64_t))
#define CONFIG_MAX 4096

struct field {
    const char *name;
    size_t offset;
};

static const struct field texts[] = {
    {"exs_device", offsetof(exs_config_t, exs_device)},
    {"exs_link", offsetof(exs_config_t, exs_link)},
    {"exs_tcp_congestion", offsetof(exs_config_t, exs_tcp_congestion)},
    {"exs_roce", offsetof(exs_config_t, exs_roce)},
};

static const struct field numbers[] = {
    {"exs_spin_us", offsetof(exs_config_t, exs_spin_us)},
    {"exs_map", offsetof(exs_config_t, exs_map)},
    {"exs_immediate", offsetof(exs_config_t, exs_immediate)},
    {"exs_debug", offsetof(exs_config_t, exs_debug)},
    {"exs_check", offsetof(exs_config_t, exs_check)},
    {"exs_rcvbuf", offsetof(exs_config_t, exs_rcvbuf)},
    {"exs_sndbuf", offsetof(exs_config_t, exs_sndbuf)},
    {"exs_half_open", offsetof(exs_config_t, exs_half_open)},
};

#define TEXTS (sizeof(texts) / sizeof(texts[0]))
#define NUMBERS (sizeof(numbers) / sizeof(numbers[0]))

/* The configuration in use. Its strings are in kept_texts, cut to what settings.c stores. */
static exs_config_t kept;
static char kept_texts[TEXTS][SETTING_MAX];

static const char *text_of(const exs_config_t *config, const struct field *field)
{
    const char *text;

    memcpy(&text, (const char *)config + field->offset, sizeof(text));
    return text != NULL ? text : "";
}

static int number_of(const exs_config_t *config, const struct field *field)
{
    int number;

    memcpy(&number, (const char *)config + field->offset, sizeof(number));
    return number;
}

int xs_config_read(const exs_config_t *given, exs_config_t *config)
{
    const unsigned char *bytes = (const unsigned char *)given;

    *config = (exs_config_t)EXS_CONFIG_INIT;
    if (given == NULL)
        return 0;
    size_t size = given->exs_size;

    if (size < CONFIG_MIN || size > CONFIG_MAX)
        return xs_invalid("exs_size is %zu: initialize the configuration with EXS_CONFIG_INIT", size);
    for (size_t i = sizeof(*config); i < size; i++)
        if (bytes[i] != 0)
            return xs_invalid(
                "byte %zu of the configuration is not 0, and belongs to a field that libexs %s does "
                "not have",
                i, exs_version_string());
    memcpy(config, given, size < sizeof(*config) ? size : sizeof(*config));
    return 0;
}

static int refuse_text(const char *name, const char *wanted, const char *used)
{
    return xs_refuse(EALREADY, "%s is %s, but the library is in use with %s", name, wanted,
                     *used != 0 ? used : "the default");
}

static int refuse_number(const char *name, int wanted, int used)
{
    char text[2][16];

    snprintf(text[0], sizeof(text[0]), "%d", wanted);
    snprintf(text[1], sizeof(text[1]), "%d", used);
    return refuse_text(name, text[0], used != 0 ? text[1] : "");
}

int xs_config_compare(const exs_config_t *config)
{
    for (size_t i = 0; i < TEXTS; i++) {
        const char *wanted = text_of(config, &texts[i]);

        if (*wanted != 0 && strncmp(wanted, kept_texts[i], SETTING_MAX - 1) != 0)
            return refuse_text(texts[i].name, wanted, kept_texts[i]);
    }
    for (size_t i = 0; i < NUMBERS; i++) {
        int wanted = number_of(config, &numbers[i]), used = number_of(&kept, &numbers[i]);

        if (wanted != 0 && wanted != used)
            return refuse_number(numbers[i].name, wanted, used);
    }
    if (config->exs_ring_bytes != 0 && config->exs_ring_bytes != kept.exs_ring_bytes)
        return xs_refuse(EALREADY, "exs_ring_bytes is not the number of bytes that the library is in use with");
    if (config->exs_log != NULL &&
        (config->exs_log != kept.exs_log || config->exs_log_context != kept.exs_log_context))
        return xs_refuse(EALREADY, "exs_log: the library is in use with another log");
    return 0;
}

void xs_config_keep(const exs_config_t *config)
{
    kept = *config;
    for (size_t i = 0; i < TEXTS; i++)
        snprintf(kept_texts[i], SETTING_MAX, "%s", text_of(config, &texts[i]));
}
