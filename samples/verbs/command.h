/* SPDX-License-Identifier: BSD-2-Clause */
/* command.h - the command line of all programs in this directory. */
#ifndef VERBS_COMMAND_H
#define VERBS_COMMAND_H

struct command {
    const char *device; /* NULL: the first device */
    int ib_port;        /* of the device, from 1 */
    const char *tcp_port;
    int gid_index;      /* -1: choose one */
    const char *server; /* NULL: this is the daemon */
};

/* Parses PROGRAM [-d DEVICE] [-i PORT] [-p TCP_PORT] [-g GID_INDEX] [SERVER]. Returns 0, or -1 after printing an
 * error. */
int command_read(struct command *command, int argc, char **argv);

#endif
