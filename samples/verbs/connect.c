/* SPDX-License-Identifier: BSD-2-Clause */
/* connect.c - the steps of connecting, in the order that is the same for all types of queue pairs. */
#include "connect.h"

#include <stdio.h>
#include <string.h>

int qp_modify(struct resources *r, struct ibv_qp_attr *attr, int mask, const char *to)
{
    int rc = ibv_modify_qp(r->qp, attr, mask);

    if (rc == 0)
        return 0;
    fprintf(stderr, "failed to modify QP state to %s: %s\n", to, strerror(rc));
    return -1;
}

int connect_qp(struct resources *r)
{
    struct port_data local = resources_data(r);

    passing_print("Local", &local);
    if (passing_exchange(r->sock, &local, &r->remote) == -1)
        return -1;
    passing_print("Remote", &r->remote);
    if (qp_to_rtr(r) == -1)
        return -1;
    printf("QP state was changed to RTR\n");
    if (r->sends) {
        if (qp_to_rts(r) == -1)
            return -1;
        printf("QP state was changed to RTS\n");
    }
    /* Waits for the other side, so that neither side sends before the other can receive. */
    return passing_sync(r->sock, 0, NULL);
}
