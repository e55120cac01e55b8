/* SPDX-License-Identifier: BSD-2-Clause */
/* command.c - parses the command line: device, port, peer. */
#include "command.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static int usage(const char *program)
{
    fprintf(
        stderr,
        "usage: %s [-d DEVICE] [-i PORT] [-p TCP_PORT] [-g GID_INDEX] [SERVER]\n"
        "Start it without SERVER (the daemon), then again with the daemon's host name as SERVER (the client).\n"
        "  -d DEVICE     RDMA device (the first there is; ibv_devices lists them)\n"
        "  -i PORT       port of the device (1)\n"
        "  -p TCP_PORT   where daemon and client meet (19875; 0: the daemon picks one and says which)\n"
        "  -g GID_INDEX  of the port's GIDs, this one (ibv_devinfo -v lists them)\n",
        program);
    return -1;
}

/* Returns a decimal number from 0 to high, or -1 if the text is not one. */
static int number(const char *text, long high)
{
    char *end;

    errno = 0;
    long value = strtol(text, &end, 10);
    return errno != 0 || end == text || *end != '\0' || value < 0 || value > high ? -1 : (int)value;
}

int command_read(struct command *command, int argc, char **argv)
{
    int option;

    *command = (struct command){.ib_port = 1, .tcp_port = "19875", .gid_index = -1};
    while ((option = getopt(argc, argv, "d:i:p:g:")) != -1) {
        if (option == 'd')
            command->device = optarg;
        else if (option == 'i' && (command->ib_port = number(optarg, 255)) > 0)
            continue;
        else if (option == 'p' && number(optarg, 65535) != -1)
            command->tcp_port = optarg;
        else if (option == 'g' && (command->gid_index = number(optarg, 65535)) != -1)
            continue;
        else
            return usage(argv[0]);
    }
    if (argc - optind > 1)
        return usage(argv[0]);
    command->server = argv[optind];
    return 0;
}
