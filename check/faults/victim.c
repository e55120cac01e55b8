/* SPDX-License-Identifier: BSD-2-Clause */
/* victim.c - the process that the fault strikes, a new one for each point. If it lives, it must end without a
 * failure. */
#include "faults.h"

void fall_victim(int fd, void *arg)
{
    static struct end end;
    static struct point point;
    const struct victim_task *task = arg;

    point = *task->point;
    init_library();
    end_open(&end, task->cell, true, fd);
    end.point = &point;
    if (point.listens) {
        must(end.listener = exs_socket(PF_INET, SOCK_STREAM, 0));
        must(exs_setsockopt(end.listener, SOL_SOCKET, SO_REUSEADDR, &(int){1}, sizeof(int)));
        must(exs_bind(end.listener, SA(&point.address), point.address.length));
        must(exs_listen(end.listener, 4));
        point.address.length = sizeof point.address.storage;
        must(exs_getsockname(end.listener, SA(&point.address), &point.address.length));
        tell(fd, &point.address, sizeof point.address);
    }
    bool met = meet(&end), good = met && task->cell->moment->run(&end);
    ck_assert_msg(good || may_fail(&end), "the victim failed with %s", strerrorname_np(end.error));
    atomic_store(&end.over, true);
    trigger_wait(&end);
    part(&end);
    trigger_end(&end);
    if (end.listener >= 0)
        ck_assert_int_eq(end_close_socket(&end, &end.listener), 0);
    end_close(&end);
}
