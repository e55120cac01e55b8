/* SPDX-License-Identifier: BSD-2-Clause */
/* ledger.c - checks that each work request completes at most once, and exactly once if it must complete. */
#include "check/fuzz/engine.h"

struct work_entry *ledger_add(struct ledger *ledger, uint64_t *id)
{
    if (ledger->count == WORKS)
        return NULL;
    *id = ledger->count++;
    ledger->entries[*id] = (struct work_entry){.end = 0};
    return &ledger->entries[*id];
}

void ledger_forget(struct ledger *ledger, uint64_t from)
{
    ledger->count = (unsigned)from;
}

void ledger_waive(struct ledger *ledger, unsigned end)
{
    for (unsigned i = 0; i < ledger->count; i++)
        if (ledger->entries[i].end == end && !ledger->entries[i].shared)
            ledger->entries[i].owed = false;
}

static void complete(struct world *world, unsigned end, bool receive, const struct ibv_wc *wc)
{
    expect(wc->wr_id < world->ledger.count, "completion of %llu, which was never posted",
           (unsigned long long)wc->wr_id);
    struct work_entry *entry = &world->ledger.entries[wc->wr_id];
    expect(entry->end == end && entry->receive == receive, "work request %llu completes on another queue",
           (unsigned long long)wc->wr_id);
    expect(!entry->done, "work request %llu completes twice", (unsigned long long)wc->wr_id);
    entry->done = true;
    expect((unsigned)wc->status <= IBV_WC_GENERAL_ERR, "work request %llu: status %d",
           (unsigned long long)wc->wr_id, wc->status);
    if (receive && wc->status == IBV_WC_SUCCESS && wc->opcode == IBV_WC_RECV)
        expect(wc->byte_len <= entry->length, "receive %llu of %u bytes has got %u",
               (unsigned long long)wc->wr_id, entry->length, wc->byte_len);
}

void ledger_poll(struct world *world, unsigned number, int most)
{
    struct end *end = world_end(world, number);
    struct ibv_wc wc[4];
    int polled;

    for (int receive = 0; end->qp && receive < 2; receive++)
        for (int left = most; left > 0 && (polled = ibv_poll_cq(receive ? end->recv_cq : end->send_cq,
                                                                left < 4 ? left : 4, wc)) > 0;
             left -= polled)
            for (int i = 0; i < polled; i++)
                complete(world, number, receive, &wc[i]);
}

void ledger_expect_settled(struct world *world, unsigned end)
{
    for (unsigned i = 0; i < world->ledger.count; i++) {
        const struct work_entry *entry = &world->ledger.entries[i];
        expect(entry->end != end || entry->done || !entry->owed || world->overflowed,
               "work request %u of end %u does not complete", i, end);
    }
}
