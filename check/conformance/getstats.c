/* SPDX-License-Identifier: BSD-2-Clause */
/* getstats.c - tests of exs_getstats and exs_getdevices. */
#include "bodies.h"

static void uninitialized(struct trial *trial)
{
    exs_stats_t stats;

    outcome(trial, exs_getstats(0, NULL, &stats));
}

static void forked(struct trial *trial)
{
    exs_stats_t stats;

    ok_fresh(trial);
    in_child(trial);
    trial->queue = NULL;
    outcome(trial, exs_getstats(trial->fd, NULL, &stats));
}

static void bad_fd(struct trial *trial)
{
    exs_stats_t stats;

    ok_fresh(trial);
    outcome(trial, exs_getstats(BAD_FD, NULL, &stats));
}

static void foreign(struct trial *trial)
{
    exs_stats_t stats;

    ok_fresh(trial);
    outcome(trial, exs_getstats(foreign_fd(trial), NULL, &stats));
}

static void queue_invalid(struct trial *trial)
{
    exs_stats_t stats;

    ok_fresh(trial);
    outcome(trial, exs_getstats(-1, INVALID_QHANDLE, &stats));
}

static void both(struct trial *trial)
{
    exs_stats_t stats;

    ok_fresh(trial);
    outcome(trial, exs_getstats(trial->fd, ok_qcreate(trial), &stats));
}

static void nowhere(struct trial *trial)
{
    ok_connected(trial);
    outcome(trial, exs_getstats(trial->fd, NULL, NULL));
}

static void nowhere_queue(struct trial *trial)
{
    ok_fresh(trial);
    outcome(trial, exs_getstats(-1, ok_qcreate(trial), NULL));
}

static void of_a_socket(struct trial *trial)
{
    exs_stats_t stats;

    ok_connected(trial);
    peer_tell(trial, PEER_RECEIVE, 100);
    ok_send(trial, trial->buffer, 100);
    peer_hear(trial);
    outcome(trial, exs_getstats(trial->fd, NULL, &stats));
    require(trial, stats.exs_sends == 1 && stats.exs_sent == 100, "it was one send of 100 bytes");
}

static void of_a_queue(struct trial *trial)
{
    exs_stats_t stats;

    ok_connected(trial);
    peer_tell(trial, PEER_SEND, 100);
    ok_receive(trial, trial->buffer, 100);
    peer_hear(trial);
    outcome(trial, exs_getstats(-1, trial->queue, &stats));
    require(trial, stats.exs_received == 100 && stats.exs_events >= 2, "100 bytes have come, and two events");
}

static const char *const needs[] = {"exs_init", "exs_socket", "exs_connect", "exs_send", "exs_recv", NULL};
static const struct row rows[] = {
    {1, EPERM, "exs_getstats(fd, NULL, &stats) [no exs_init]", BOTH, OURS, uninitialized, NULL},
    {2, ECHILD, "exs_getstats(fd, NULL, &stats) [in a forked child]", BOTH, OURS, forked, NULL},
    {3, EBADF, "exs_getstats(BAD_FD, NULL, &stats)", BOTH, OURS, bad_fd, NULL},
    {4, EBADF, "exs_getstats(FD_OF_A_FILE, NULL, &stats)", BOTH, OURS, foreign, NULL},
    {5, EINVAL, "exs_getstats(-1, INVALID_QHANDLE, &stats)", BOTH, OURS, queue_invalid, NULL},
    {6, EINVAL, "exs_getstats(fd, qh, &stats)", BOTH, OURS, both, "Which of the two?"},
    {7, EFAULT, "exs_getstats(CONNECTED_FD, NULL, NULL)", BOTH, OURS, nowhere, NULL},
    {8, EFAULT, "exs_getstats(-1, qh, NULL)", BOTH, OURS, nowhere_queue, NULL},
    {9, 0, "exs_getstats(CONNECTED_FD, NULL, &stats)", BOTH, OURS, of_a_socket, NULL},
    {10, 0, "exs_getstats(-1, qh, &stats)", NONBLOCKING, OURS, of_a_queue, NULL},
};
const struct group group_getstats = {"exs_getstats", NULL, needs, ROWS(rows)};

/* ---- exs_getdevices -------------------------------------------------------------------------- */

static void devices_uninitialized(struct trial *trial)
{
    outcome(trial, exs_getdevices(NULL, 0));
}

static void devices_forked(struct trial *trial)
{
    ok_fresh(trial);
    in_child(trial);
    trial->queue = NULL;
    outcome(trial, exs_getdevices(NULL, 0));
}

static void negative(struct trial *trial)
{
    exs_device_t device;

    ok_fresh(trial);
    outcome(trial, exs_getdevices(&device, -1));
}

static void devices_nowhere(struct trial *trial)
{
    ok_fresh(trial);
    outcome(trial, exs_getdevices(NULL, 1));
}

static void how_many(struct trial *trial)
{
    ok_fresh(trial);
    int count = exs_getdevices(NULL, 0);

    outcome(trial, count);
    require(trial, count > 0, "there is none");
}

static void the_first(struct trial *trial)
{
    exs_device_t device = {.exs_name = ""};

    ok_fresh(trial);
    outcome(trial, exs_getdevices(&device, 1));
    require(trial, device.exs_name[0] != 0 && device.exs_kind[0] != 0, "it has no name");
}

static const char *const devices_needs[] = {"exs_init", NULL};
static const struct row devices_rows[] = {
    {1, EPERM, "exs_getdevices(NULL, 0) [no exs_init]", BOTH, OURS, devices_uninitialized, NULL},
    {2, ECHILD, "exs_getdevices(NULL, 0) [in a forked child]", BOTH, OURS, devices_forked, NULL},
    {3, EINVAL, "exs_getdevices(devices, -1)", BOTH, OURS, negative, NULL},
    {4, EFAULT, "exs_getdevices(NULL, 1)", BOTH, OURS, devices_nowhere, NULL},
    {5, 0, "exs_getdevices(NULL, 0)", BOTH, OURS, how_many, "It returns how many there are."},
    {6, 0, "exs_getdevices(devices, 1)", BOTH, OURS, the_first, NULL},
};
const struct group group_getdevices = {"exs_getdevices", NULL, devices_needs, ROWS(devices_rows)};
