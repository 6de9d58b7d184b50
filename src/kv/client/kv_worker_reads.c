/* kv_worker_reads.c — pulls of a reader from slots with rounds; see kv_worker.h and reader_pull.h.
 * Tested by tests/ps_reader_test.c. */
#include <stdlib.h>

#include "base/alloc.h"
#include "kv/client/kv_worker_internal.h"

mr_status kv_worker_read(kv_worker *worker, ticket *ticket, reader_pull **out) {
    reader_pull *pull;
    MR_TRY(alloc_try(sizeof *pull, &pull));
    reader_pull_init(pull, ticket);
    tickets_part(ticket);
    list_push_back(&worker->pulls, &pull->link);
    *out = pull;
    return MR_OK;
}

static void finish(kv_worker *worker, reader_pull *pull, mr_status status) {
    bool is_ok = status == MR_OK && pull->ticket->status == MR_OK;
    for (uint32_t i = 0; i < worker->slot_count && !is_ok; i++)
        slot_queue_release(&worker->queues[i], &worker->tickets, pull);
    slot_queue_forget(pull, is_ok && !reader_pull_fails(pull));
    list_remove(&pull->link);
    tickets_end(&worker->tickets, pull->ticket, status);
    free(pull);
}

static void repeat(kv_worker *worker, reader_pull *pull) {
    uint64_t version = reader_pull_repeat(pull);
    while (!list_empty(&pull->batches)) {
        query_batch *batch = container_of(pull->batches.next, query_batch, link);
        slot_queue *queue = &worker->queues[batch->slot];
        slot_queue_repeat(queue, batch, version);
        kv_worker_wakes(worker, queue);
    }
}

void kv_worker_judge_pull(kv_worker *worker, reader_pull *pull) {
    bool fails = reader_pull_fails(pull);
    if (fails && !pull->cut)
        for (uint32_t i = 0; i < worker->slot_count; i++) slot_queue_drop(&worker->queues[i], &worker->tickets, pull);
    pull->cut = fails;
    if (pull->ticket->parts != 1) return;
    bool again = fails && !pull->abandoned && pull->ticket->status == MR_OK;
    mr_status status = again ? slot_queue_renew(pull) : MR_OK;
    if (again && status == MR_OK)
        repeat(worker, pull);
    else
        finish(worker, pull, status);
}

void kv_worker_judge_pulls(kv_worker *worker) {
    list_for_each (item, &worker->pulls) kv_worker_judge_pull(worker, container_of(item, reader_pull, link));
}

static reader_pull *find(const kv_worker *worker, const ticket *ticket) {
    list_for_each (item, &worker->pulls) {
        reader_pull *pull = container_of(item, reader_pull, link);
        if (pull->ticket == ticket) return pull;
    }
    return NULL;
}

const reader_pull *kv_worker_pull(const kv_worker *worker, const ticket *ticket) { return find(worker, ticket); }

void kv_worker_abandon_pull(kv_worker *worker, const ticket *ticket) {
    reader_pull *pull = find(worker, ticket);
    if (pull == NULL || pull->abandoned) return;
    slot_queue_abandon_kept(pull);
    pull->abandoned = true;
}
