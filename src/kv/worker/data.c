/* data.c — mr_ps_dataset_define, mr_ps_dataset_next and mr_ps_dataset_leave (miniray/ps.h). */
#include "base/error.h"
#include "kv/worker/connection.h"

static mr_status is_cut(customer *customer, void *ask) { return ballot_status(ask); }

mr_status mr_ps_dataset_define(mr_ps *ps, const uint64_t *sizes, uint32_t count, int64_t timeout_us) {
    corpus corpus = {0};
    MR_TRY(corpus_init(&corpus, sizes, count));
    connection_lock(ps);
    customer *customer = connection_customer(ps);
    ballot *ask = corpus_decide(customer_coordinator(customer), &corpus);
    mr_status status = connection_await(ps, is_cut, ask, timeout_us);
    ballot_end(ask);
    if (status == MR_OK) customer_cut(customer, &corpus);
    connection_unlock(ps);
    corpus_fini(&corpus);
    return status;
}

typedef struct want {
    uint64_t batch;
    claims_piece piece;
} want;

static mr_status has_piece(customer *customer, void *argument) {
    want *want = argument;
    return customer_piece(customer, want->batch, &want->piece);
}

mr_status mr_ps_dataset_next(mr_ps *ps, uint64_t batch, int64_t timeout_us, mr_ps_data_batch *out) {
    want want = {.batch = batch};
    if (batch == 0 || batch > CLAIMS_BATCH_MAX)
        return error_set(MR_INVALID, "a batch of %llu items: expected 1 to %llu", (unsigned long long)batch,
                         (unsigned long long)CLAIMS_BATCH_MAX);
    connection_lock(ps);
    mr_status status = connection_await(ps, has_piece, &want, timeout_us);
    connection_unlock(ps);
    if (status == MR_OK)
        *out = (mr_ps_data_batch){
            .shard = want.piece.part, .epoch = want.piece.epoch, .from = want.piece.from, .to = want.piece.to};
    return status;
}

static mr_status is_back(customer *customer, void *argument) { return customer_handed_back(customer); }

mr_status mr_ps_dataset_leave(mr_ps *ps, int64_t timeout_us) {
    connection_lock(ps);
    customer *customer = connection_customer(ps);
    mr_status status = MR_OK;
    if (customer_where(customer).open)
        status = error_set(MR_DENIED, "a step is open: end it before the data is returned (mr_ps_end)");
    else
        customer_hand_back(customer);
    if (status == MR_OK) status = connection_await(ps, is_back, NULL, timeout_us);
    connection_unlock(ps);
    return status;
}
