/* SPDX-License-Identifier: BSD-2-Clause */
/* shipping.c - uses two parcels alternately: while the server stores one, the next one is filled and sent. See
 * shipping.h. */
#include "shipping.h"

#include <stdlib.h>

#include "parcel.h"
#include "progress.h"

/* Owned by shipping_send(). */
struct shipping {
    struct outlet *outlet;
    struct picks *picks;
    struct account *account;
    struct parcel *parcels; /* two */
    unsigned turn;          /* its lowest bit: the parcel that is filled; the other one was sent or is empty */
    size_t next;            /* index of the pick to read next */
    struct progress progress; /* of all files; a large file has its own bar */
    bool is_over;             /* the server is unreachable */
};

static void settle_pick(struct shipping *s, struct pick *pick, int result)
{
    const struct outlet *outlet = s->outlet;
    const struct account_file file = {.path = pick->path,
                                      .size = outlet->size,
                                      .resumed = outlet->resumed,
                                      .seconds = outlet->seconds,
                                      .digest = outlet->digest};

    pick->is_settled = true;
    if (result == 0) {
        account_done(s->account, &file);
        progress_count(&s->progress, pick->name, s->account->done, s->picks->count, s->account->bytes);
        return;
    }
    progress_end(&s->progress);
    account_failed(s->account, pick->path, outlet->client.error);
}

void shipping_leave_out(struct account *account, const struct picks *picks)
{
    for (size_t i = 0; i < picks->count; i++)
        if (!picks->list[i].is_settled)
            account_left_out(account, picks->list[i].path);
}

static struct parcel *filling_parcel(struct shipping *s)
{
    return &s->parcels[s->turn % 2];
}

static struct parcel *sent_parcel(struct shipping *s)
{
    return &s->parcels[(s->turn + 1) % 2];
}

static void empty_parcel(struct parcel *parcel)
{
    parcel->length = 0;
    parcel->count = parcel->answered = 0;
}

/* `pick`, the first file without a reply, has failed: closes the connection; the files after it are sent again on a new
 * one. */
static void start_over(struct shipping *s, struct pick *pick)
{
    settle_pick(s, pick, -1);
    s->next = (size_t)(pick - s->picks->list) + 1;
    client_hang_up(&s->outlet->client);
    empty_parcel(&s->parcels[0]);
    empty_parcel(&s->parcels[1]);
}

static bool has_connection(struct shipping *s, struct pick *pick)
{
    struct client *client = &s->outlet->client;
    bool is_idle = sent_parcel(s)->count == 0;

    if (client->sock == -1 ? client_reach(client, client->addresses) == 0
                           : !is_idle || client_renew(client) == 0)
        return true;
    settle_pick(s, pick, -1);
    shipping_leave_out(s->account, s->picks);
    s->is_over = true;
    return false;
}

/* Receives all replies to the parcel that was sent. Returns false if a file has failed. */
static bool finish_sent(struct shipping *s)
{
    struct parcel *parcel = sent_parcel(s);

    while (parcel->answered < parcel->count) {
        struct pick *pick = parcel->items[parcel->answered].pick;

        if (parcel_receive(parcel, s->outlet) == -1) {
            start_over(s, pick);
            return false;
        }
        settle_pick(s, pick, 0);
    }
    empty_parcel(parcel);
    return true;
}

/* Sends the filled parcel, then receives the replies to the previous one. */
static bool send_filled(struct shipping *s)
{
    struct parcel *parcel = filling_parcel(s);

    if (parcel->count == 0)
        return finish_sent(s);
    if (!has_connection(s, parcel->items[0].pick))
        return false;
    if (parcel_send(parcel, s->outlet) == -1) {
        start_over(s, sent_parcel(s)->count > 0 ? sent_parcel(s)->items[sent_parcel(s)->answered].pick
                                                : parcel->items[0].pick);
        return false;
    }
    if (!finish_sent(s))
        return false;
    s->turn++;
    return true;
}

static void send_large(struct shipping *s, struct pick *pick)
{
    if (!send_filled(s) || !finish_sent(s) || !has_connection(s, pick))
        return;
    settle_pick(s, pick, outlet_file(s->outlet, pick->path, pick->named, pick->name));
    s->next++;
}

/* Reports a failure after the results of all earlier files, so that results are printed in order. */
static void fail_in_order(struct shipping *s, struct pick *pick)
{
    if (!send_filled(s) || !finish_sent(s))
        return;
    settle_pick(s, pick, -1);
    s->next++;
}

static void take_next(struct shipping *s)
{
    struct pick *pick = &s->picks->list[s->next];

    if (pick->is_settled) {
        s->next++;
        return;
    }
    switch (parcel_add(filling_parcel(s), s->outlet, pick)) {
    case PARCEL_TAKEN:
        s->next++;
        break;
    case PARCEL_FULL:
        send_filled(s);
        break;
    case PARCEL_LARGE:
        send_large(s, pick);
        break;
    case PARCEL_FAILED:
        fail_in_order(s, pick);
        break;
    }
}

static bool has_work(const struct shipping *s)
{
    return s->next < s->picks->count || s->parcels[0].count + s->parcels[1].count > 0;
}

int shipping_send(struct outlet *outlet, struct picks *picks, struct account *account)
{
    struct shipping s = {.outlet = outlet, .picks = picks, .account = account};

    s.parcels = calloc(2, sizeof(*s.parcels));
    if (s.parcels == NULL)
        return -1;
    progress_start(&s.progress, "", 0, outlet->quiet || picks->count < 2 || account->form != ACCOUNT_SHORT);
    while (!s.is_over && has_work(&s)) {
        if (s.next < picks->count)
            take_next(&s);
        else
            send_filled(&s);
    }
    progress_end(&s.progress);
    free(s.parcels);
    return 0;
}
