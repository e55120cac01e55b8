/* SPDX-License-Identifier: BSD-2-Clause */
/* Harvesting by the plain verbs calls. See harvest.h. */
#include <errno.h>
#include <poll.h>
#include "harvest.h"

/* The kernel takes back what was made of a device that goes, the last first. So when it has come to the
 * channel, whose descriptor says so from then on, the queue pairs and the regions are no more; a call may fail
 * while they still work. */
static bool has_ended(const struct ibv_comp_channel *channel)
{
    struct pollfd poller = {.fd = channel->fd};

    return poll(&poller, 1, 0) > 0 && (poller.revents & (POLLERR | POLLHUP)) != 0;
}

/* The number of completions, with those of earlier calls. */
static int poll_more(struct harvest *harvest, int count)
{
    int more = ibv_poll_cq(harvest->unfinished, HARVEST_MAX - count, harvest->wc + count);

    count += more > 0 ? more : 0;
    harvest->left = count == HARVEST_MAX;
    return count;
}

/* Armed, then looked at once more, and only then done with: this order makes a wake-up impossible to lose. */
static int arm_and_poll(struct harvest *harvest, int count)
{
    if (ibv_req_notify_cq(harvest->unfinished, 0) != 0) {
        harvest->gone = has_ended(harvest->unfinished->channel);
        harvest->stuck = !harvest->gone;
        return count;
    }
    count = poll_more(harvest, count);
    if (!harvest->left)
        harvest->unfinished = NULL;
    return count;
}

/* Of one that had more than a harvest has room for others may be on their way, and would make an event each time. */
static int poll_and_arm(struct harvest *harvest)
{
    int count = poll_more(harvest, 0);

    return harvest->left ? count : arm_and_poll(harvest, count);
}

int rdma_harvest(rdma_get_event *get_event, struct ibv_comp_channel *channel, struct harvest *harvest)
{
    harvest->fetched = harvest->left = harvest->stuck = harvest->gone = false;
    if (harvest->unfinished == NULL) {
        if (get_event(channel, &harvest->unfinished, &harvest->cq_context) < 0) {
            harvest->unfinished = NULL;
            harvest->gone = errno == EIO; /* as has_ended, which older kernels don't tell of */
            return -1;
        }
        harvest->fetched = true;
        return arm_and_poll(harvest, 0);
    }
    harvest->cq_context = harvest->unfinished->cq_context;
    return poll_and_arm(harvest);
}
