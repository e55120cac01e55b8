/* SPDX-License-Identifier: BSD-2-Clause */
/* The links, a row each. See faults.h. */
#include "faults.h"

const struct link_row link_rows[] = {
    {.name = "shm", .device = "soft", .link = "shm", .host = "localhost"},
    {.name = "udp", .device = "soft", .link = "udp", .host = "localhost", .packets = true},
    {.name = "rxe", .device = "rdma", .link = "auto", .host = "exs-guest"},
};
const int link_count = COUNT(link_rows);
