/* SPDX-License-Identifier: BSD-2-Clause */
/* Processes that do as they are told, and measure themselves. See scale.h. */
#include "scale.h"

#include <sys/resource.h>
#include <sys/wait.h>

void give_up(const char *what)
{
    fprintf(stderr, "scale: %s: %s\n", what, strerror(errno));
    exit(2);
}

struct measure measure_now(void)
{
    return (struct measure){.cpu_s = seconds_of_cpu(),
                            .resident_kib = resident_kib(),
                            .descriptors = count_fds(),
                            .threads = count_threads()};
}

static void all(ssize_t result, size_t size)
{
    if (result != (ssize_t)size)
        give_up("a process ended early");
}

void order_give(const struct process *process, struct order what)
{
    all(write(process->fd, &what, sizeof what), sizeof what);
}

struct measure order_done(const struct process *process)
{
    struct measure measure;

    all(read(process->fd, &measure, sizeof measure), sizeof measure);
    return measure;
}

struct measure order(const struct process *process, struct order what)
{
    order_give(process, what);
    return order_done(process);
}

void process_end(struct process *process)
{
    int status;

    order_give(process, (struct order){.wish = END});
    if (waitpid(process->pid, &status, 0) != process->pid || status != 0)
        give_up("a process did not end well");
    close(process->fd);
}
