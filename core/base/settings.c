/* SPDX-License-Identifier: BSD-2-Clause */
/* settings.c - reads the environment variables and the configuration. See settings.h. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <exs.h>
#include "settings.h"
#include "text.h"

/* the default of EXS_SPIN: about what a wake-up costs on a virtual machine */
#define SPIN_US 50
#define NUMBER_MAX 12 /* bytes of an int as text */

static struct settings current;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static const struct {
    const char *variable, *field;
} names[SETTINGS] = {
    [SET_DEVICE] = {"EXS_DEVICE", "exs_device"},
    [SET_LINK] = {"EXS_LINK", "exs_link"},
    [SET_CONGESTION] = {"EXS_TCP_CONGESTION", "exs_tcp_congestion"},
    [SET_ROCE] = {"EXS_ROCE", "exs_roce"},
    [SET_SPIN] = {"EXS_SPIN", "exs_spin_us"},
    [SET_MAP] = {"EXS_MAP", "exs_map"},
    [SET_IMMEDIATE] = {"EXS_IMMEDIATE", "exs_immediate"},
    [SET_DEBUG] = {"EXS_DEBUG", "exs_debug"},
    [SET_CHECK] = {"EXS_CHECK", "exs_check"},
};

/* Copy a value. One that is too long ends in "...", which shows that it is cut; it equals no known word
 * then. */
static void copy_value(char kept[SETTING_MAX], const char *value)
{
    static const char cut[] = "...";
    size_t length = strlen(value), most = SETTING_MAX - 1;

    if (length > most) {
        most -= strlen(cut);
        while (most > 0 && text_continues(value[most])) /* don't cut within a UTF-8 character */
            most--;
    }
    snprintf(kept, SETTING_MAX, "%.*s%s", (int)most, value, length > most ? cut : "");
}

/* The value of a setting: the variable's, or else the field's; "" if neither is set. */
static const char *find_value(enum setting setting, const char *configured)
{
    const char *value = secure_getenv(names[setting].variable);
    bool has_field = configured != NULL && *configured != 0;

    if (value != NULL && *value == 0)
        value = NULL;
    current.name[setting] = value == NULL && has_field ? names[setting].field : names[setting].variable;
    return value != NULL ? value : has_field ? configured : "";
}

/* A number of the configuration, in the words of the variable: 0 is the default, and the variable's 0 is
 * EXS_CONFIG_OFF. */
static const char *find_number(enum setting setting, int configured, char text[NUMBER_MAX])
{
    *text = 0;
    if (configured != 0)
        snprintf(text, NUMBER_MAX, "%d", configured != EXS_CONFIG_OFF ? configured : 0);
    return find_value(setting, text);
}

/* Record the first value that is not valid; exs_init() refuses it. */
static void refuse_value(const char *name, const char *value, const char *why)
{
    char shown[SETTING_MAX];

    if (*current.odd != 0)
        return;
    copy_value(shown, value);
    snprintf(current.odd, sizeof(current.odd), "%s=%s %s", name, shown, why);
}

static bool is_word(const char *value, const char *const *words)
{
    for (; *words != NULL; words++)
        if (strcmp(value, *words) == 0)
            return true;
    return false;
}

/* EXS_DEVICE */
static void read_device(const char *device)
{
    copy_value(current.device, strcmp(device, "auto") != 0 ? device : "");
}

/* EXS_LINK: how the software device carries packets. */
static void read_link(const char *link)
{
    static const char *const words[] = {"", "auto", "shm", "tcp", "udp", NULL};

    if (!is_word(link, words))
        refuse_value(current.name[SET_LINK], link, "is not a link: set it to auto, shm, tcp or udp");
    current.tcp = strcmp(link, "udp") != 0;
    current.shm = current.tcp && strcmp(link, "tcp") != 0;
}

/* EXS_ROCE: does the software device use RoCE's UDP port, where RDMA adapters can reach it? */
static void read_roce(const char *roce)
{
    static const char *const words[] = {"", "off", "on", "auto", "only", NULL};

    if (!is_word(roce, words))
        refuse_value(current.name[SET_ROCE], roce, "is not known: set it to off, on, auto or only");
    copy_value(current.roce, roce);
    current.roce_only = strcmp(roce, "only") == 0;
    current.roce_needed = current.roce_only || strcmp(roce, "on") == 0;
    current.roce_wanted = current.roce_needed || strcmp(roce, "auto") == 0;
}

/* EXS_SPIN: digits only. */
static void read_spin(const char *spin)
{
    size_t length = strlen(spin);
    unsigned long us = length > 0 ? strtoul(spin, NULL, 10) : SPIN_US;

    if (length >= SETTING_MAX || strspn(spin, "0123456789") != length || us > SPIN_US_MAX)
        refuse_value(current.name[SET_SPIN], spin,
                     "is not a number of microseconds: set it to a number from 0 to 1000000");
    current.spin_us = (unsigned)us;
}

/* EXS_DEBUG: the variable may have any value, a field must be valid. */
static void read_debug(const char *debug)
{
    static const char *const words[] = {"", "0", "1", "2", NULL};

    if (current.name[SET_DEBUG] == names[SET_DEBUG].field && !is_word(debug, words))
        refuse_value(current.name[SET_DEBUG], debug, "is not known: set it to 0, 1 or 2");
    current.debug = *debug != 0 && strcmp(debug, "0") != 0;
    current.trace = strcmp(debug, "2") == 0;
}

/* EXS_CHECK */
static void read_check(const char *check)
{
    static const char *const words[] = {"", "0", "1", "abort", NULL};

    if (!is_word(check, words))
        refuse_value(current.name[SET_CHECK], check, "is not known: set it to 0, 1 or abort");
    current.check = *check != 0 && strcmp(check, "0") != 0;
    current.check_aborts = strcmp(check, "abort") == 0;
}

/* A setting that is 0 or 1, or else `otherwise`. */
static bool is_on(enum setting setting, const char *value, bool otherwise)
{
    static const char *const words[] = {"", "0", "1", NULL};

    if (!is_word(value, words))
        refuse_value(current.name[setting], value, "is not known: set it to 0 or 1");
    return *value != 0 ? strcmp(value, "0") != 0 : otherwise;
}

/* A limit, which has no variable. */
static int read_limit(const char *field, int limit)
{
    char text[NUMBER_MAX];

    snprintf(text, sizeof(text), "%d", limit);
    if (limit < 0)
        refuse_value(field, text, "is less than 0: set it to 0, for the default, or more");
    return limit;
}

static void read_all(const exs_config_t *config)
{
    char number[NUMBER_MAX];

    *current.odd = 0;
    read_device(find_value(SET_DEVICE, config->exs_device));
    read_link(find_value(SET_LINK, config->exs_link));
    copy_value(current.congestion, find_value(SET_CONGESTION, config->exs_tcp_congestion));
    read_roce(find_value(SET_ROCE, config->exs_roce));
    read_spin(find_number(SET_SPIN, config->exs_spin_us, number));
    const char *map = find_number(SET_MAP, config->exs_map, number);

    current.map_always = is_on(SET_MAP, map, false);
    current.map_never = !is_on(SET_MAP, map, true);
    current.immediate = is_on(SET_IMMEDIATE, find_number(SET_IMMEDIATE, config->exs_immediate, number), true);
    read_debug(find_number(SET_DEBUG, config->exs_debug, number));
    read_check(config->exs_check == EXS_CHECK_ABORT ? find_value(SET_CHECK, "abort")
                                                    : find_number(SET_CHECK, config->exs_check, number));
    current.receive_buffer = read_limit("exs_rcvbuf", config->exs_rcvbuf);
    current.send_buffer = read_limit("exs_sndbuf", config->exs_sndbuf);
    current.half_open_max = read_limit("exs_half_open", config->exs_half_open);
    current.rings_max = config->exs_ring_bytes;
}

static void read_environment(void)
{
    static const exs_config_t defaults = EXS_CONFIG_INIT;

    read_all(&defaults);
}

void settings_read(const exs_config_t *config)
{
    pthread_once(&once, read_environment);
    if (config != NULL)
        read_all(config);
    else
        read_environment();
}

const struct settings *settings(void)
{
    pthread_once(&once, read_environment);
    return &current;
}
