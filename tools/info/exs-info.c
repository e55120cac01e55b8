/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * exs-info [OPTION...] [ADDRESS...] - prints the RDMA devices that EXS finds on this host, and the device that a
 * connection to each address would use.
 *
 * This file has main(): it parses options and collects the devices. choice.c chooses a device, limits.c reads the
 * system's limits, say.c prints.
 */
#include <errno.h>
#include <getopt.h>
#include <netdb.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "say.h"
#include "tools/common/options.h"
#include "tools/common/resolve.h"
#include "tools/common/standard.h"
#include "tools/common/terminal.h"

#define LETTERS "jh"

static _Noreturn void print_help(void)
{
    printf("usage: exs-info [OPTION...] [ADDRESS...]\n"
           "  -j, --json     say it as one object of JSON\n"
           "  -h, --help     this\n"
           "      --version  which release this is\n"
           "ADDRESS is a host's name or number: which device would a connection go by, and why?\n");
    exit(standard_flush("exs-info", "cannot print the help"));
}

static bool read_options(int argc, char **argv)
{
    static const struct option longs[] = {
        {"json", no_argument, NULL, 'j'}, {"help", no_argument, NULL, 'h'}, {NULL, 0, NULL, 0}};
    bool json = false;
    int option;

    options_version("exs-info", argc, argv);
    opterr = 0;
    while ((option = getopt_long(argc, argv, ":" LETTERS, longs, NULL)) != -1) {
        if (option == 'h')
            print_help();
        if (option != 'j')
            options_unknown("exs-info", argv, LETTERS, option);
        json = true;
    }
    return json;
}

static _Noreturn void exit_failing(const char *what)
{
    fprintf(stderr, "exs-info: %s: %s\n", what, strerror(errno));
    exit(1);
}

/* Returns all devices. The caller frees the array. */
static exs_device_t *get_devices(int *count)
{
    exs_device_t *devices = NULL, *more;
    int room = 0;

    while ((*count = exs_getdevices(devices, room)) > room) {
        room = *count;
        more = realloc(devices, (size_t)room * sizeof(*devices));
        if (more == NULL)
            exit_failing("cannot list devices");
        devices = more;
    }
    if (*count == -1)
        exit_failing("cannot list devices");
    return devices;
}

static struct choice choose_device(const exs_device_t *devices, int count, const char *name)
{
    struct choice choice = {0};
    char why[RESOLVE_TEXT_MAX];
    struct addrinfo *addresses = resolve(name, "1", false, why);

    if (addresses == NULL) {
        snprintf(choice.why, sizeof(choice.why), "there is no such host");
        return choice;
    }
    choice = choice_make(devices, count, addresses->ai_addr, addresses->ai_addrlen);
    freeaddrinfo(addresses);
    return choice;
}

int main(int argc, char **argv)
{
    struct info info = {.setting = getenv("EXS_DEVICE"), .limits = limits_read()};
    bool json, all = true;
    exs_device_t *devices;

    standard_open();
    json = read_options(argc, argv);
    if (exs_init(EXS_VERSION) == -1)
        exit_failing("cannot start (EXS_DEBUG=1 says why)");
    if (info.setting == NULL || info.setting[0] == '\0')
        info.setting = "auto";
    info.devices = devices = get_devices(&info.count);
    info.names = argv + optind;
    info.asked = argc - optind;
    struct choice *choices = calloc((size_t)info.asked + 1, sizeof(*choices));

    if (choices == NULL)
        exit_failing("cannot ask");
    for (int i = 0; i < info.asked; i++) {
        choices[i] = choose_device(devices, info.count, info.names[i]);
        all = all && choices[i].device != NULL;
        terminal_filter(info.names[i]);
    }
    info.choices = choices;
    (json ? say_json : say_text)(&info);
    free(choices);
    free(devices);
    if (standard_flush("exs-info", "cannot say so") != 0)
        return 1;
    return all ? 0 : 1;
}
