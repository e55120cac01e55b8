/* SPDX-License-Identifier: BSD-2-Clause */
/* Only the exchange of data: each side creates a queue pair and memory that the other side may write, sends their
 * identifiers to the other side over TCP, and prints what it has sent and received. The other programs do this before
 * they use the queue pairs.
 *
 * Build: see README.md. Run: data_passing here (side A), data_passing HERE there (side B). */
#include "connect.h"

#include <errno.h>

static int run(struct resources *r)
{
    r->cq = ibv_create_cq(r->context, 1, NULL, NULL, 0);
    if (!r->cq)
        return failed("ibv_create_cq", errno);
    if (resources_memory(r, 256, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE) == -1 ||
        resources_qp(r, IBV_QPT_RC, 1, 1) == -1)
        return -1;

    struct port_data local = resources_data(r);
    passing_print(">>> Local:", &local);
    if (passing_exchange(r->sock, &local, &r->remote) == -1)
        return -1;
    passing_print(">>> rcvd:", &r->remote);
    return passing_sync(r->sock, 0, NULL);
}

int main(int argc, char **argv)
{
    return program_main(argc, argv, run);
}
