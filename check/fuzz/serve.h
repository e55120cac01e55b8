/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * serve.h - the conversations of exs-serve with several clients, which send what a client would, or anything.
 *
 * serve.c makes the steps, serve_client.c is what clients send, and serve_folder.c checks what the server stores and
 * gives.
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
    MOST = 8, /* fewer than CLIENTS: some inputs use all connections */
    OF_ONE = 2,
    FILE_MAX = 3000,
    TOTAL_MAX = 6000,
    FILES_MAX = 12
};

/* A client; its socket is its index plus 1. */
struct client {
    bool open;
    unsigned char said[SAID_MAX]; /* sent, but not delivered yet */
    size_t length;
    unsigned char data[FILE_MAX]; /* of the file that it sends */
    size_t data_length;
};

extern struct world {
    char top[64]; /* has the server's folder, and a file beside it */
    struct inlets inlets;
    struct client client[CLIENTS];
    FILE *quiet, *loud;
    unsigned char digest[FILES_MAX][TRANSFER_DIGEST]; /* of files that a reply has reported as stored */
    unsigned digests;
    bool failed; /* a call has failed: perhaps the one that would have sent a reply */
    bool again;  /* the server has asked for a call of inlets_read */
    struct stat beside;
} world;

/* serve_client.c */
void say_raw(struct client *client, struct input *input);
void say_header(struct client *client, struct input *input); /* or a request for a file or list */
void say_data(struct client *client, struct input *input);
void say_digest(struct client *client);
void connect_client(int sock, unsigned host);
void connect_crowd(void);

/* serve_folder.c */
void open_folder(void); /* creates it in a new folder, beside a file */
void close_folder(void);
void see_replies(void); /* those since the last call */
void see_given(void);
void expect_within_limits(void); /* checks the folder, and empties it */
void expect_untouched(void);     /* checks what is outside the folder */

#endif
