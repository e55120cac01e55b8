/* SPDX-License-Identifier: BSD-2-Clause */
/* doorbell.c - levels and signals on eventfds and timerfds. See doorbell.h. */
#include <errno.h>
#include <sys/eventfd.h>
#include <sys/timerfd.h>
#include "doorbell.h"
#include "fds.h"

/* An expired timer is readable at once, and stays so until it is set again. */
static bool set_time(int fd, uint64_t at)
{
    struct itimerspec when = {.it_value = ns_timespec(at != NEVER_NS ? at : 0)};

    return timerfd_settime(fd, TFD_TIMER_ABSTIME, &when, NULL) == 0;
}

static bool tell(const struct doorbell *bell, bool up)
{
    if (bell->fd < 0)
        return true;
    return bell->kind == DOORBELL_TIMED ? set_time(bell->fd, up ? 1 : bell->at) : fds_flag(bell->fd, up);
}

int doorbell_make(struct doorbell *bell)
{
    if (bell->kind == DOORBELL_TIMED)
        bell->fd = fds_own_private(timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK));
    else if (bell->kind == DOORBELL_SHOWN)
        bell->fd = fds_own(eventfd(0, EFD_CLOEXEC));
    else
        bell->fd = fds_own_private(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    if (bell->fd < 0)
        return -1;
    if ((bell->up || bell->at != NEVER_NS) && !tell(bell, bell->up)) {
        doorbell_close(bell);
        return -1;
    }
    return 0;
}

void doorbell_close(struct doorbell *bell)
{
    int saved = errno;

    if (bell->fd >= 0)
        fds_close(bell->fd);
    bell->fd = -1;
    errno = saved;
}

void doorbell_set(struct doorbell *bell, bool up)
{
    if (bell->up != up && tell(bell, up))
        bell->up = up;
}

void doorbell_time(struct doorbell *bell, uint64_t at)
{
    bool idle = at == NEVER_NS && bell->at == NEVER_NS;

    bell->at = at;
    if (!bell->up && !idle)
        tell(bell, false);
}

void doorbell_again(struct doorbell *bell)
{
    if (tell(bell, true))
        bell->up = true;
}

void doorbell_ring(const struct doorbell *bell)
{
    if (bell->fd >= 0)
        (void)fds_flag(bell->fd, true);
}

void doorbell_hear(const struct doorbell *bell)
{
    if (bell->fd >= 0)
        (void)fds_flag(bell->fd, false);
}
