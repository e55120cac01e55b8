/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * serve.h - exs-serve's conversations with several clients, who say what a client would, or anything.
 *
 * The parts: serve.c does the steps, serve_client.c is what clients say, serve_folder.c looks at what the
 * server has on its disk, keeps, and gives.
 */
#ifndef CHECK_FUZZ_SERVE_H
#define CHECK_FUZZ_SERVE_H

#include <check.h>
#include <stdio.h>
#include <sys/stat.h>

#include "check/fuzz/input.h"
#include "tools/files/inlet.h"

enum {
    CLIENTS = 24,
    STEPS = 400,
    SAID_MAX = 8192,
    PATIENCE = 4,
    MOST = 8, /* fewer than clients, so that all connections are taken in some inputs */
    OF_ONE = 2,
    FILE_MAX = 3000,
    TOTAL_MAX = 6000,
    FILES_MAX = 12
};

/* A client, by its socket's number less 1. */
struct client {
    bool open;
    unsigned char said[SAID_MAX]; /* and not yet delivered */
    size_t length;
    unsigned char data[FILE_MAX]; /* of the file that it composes */
    size_t data_length;
};

extern struct world {
    char top[64]; /* a folder that has ours in it, and a file beside it */
    struct inlets inlets;
    struct client client[CLIENTS];
    FILE *quiet, *loud;
    unsigned char digest[FILES_MAX][TRANSFER_DIGEST]; /* of files that a reply has said are stored */
    unsigned digests;
    bool failed; /* a call has: it may have been that of a reply */
    bool again;  /* inlets_read is asked for */
    struct stat beside;
} world;

/* serve_client.c */
void say_raw(struct client *client, struct input *input);
void say_header(struct client *client, struct input *input); /* or a wish */
void say_data(struct client *client, struct input *input);
void say_digest(struct client *client);
void connect_client(int sock, unsigned host);
void connect_crowd(void);

/* serve_folder.c */
void open_folder(void); /* and one above it, with a file beside */
void close_folder(void);
void see_replies(void); /* since the last time, */
void see_given(void);
void expect_within_limits(void); /* and then there is nothing in it any more */
void expect_untouched(void);     /* what is beside */

#endif
