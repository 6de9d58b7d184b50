/* dataset_api.c — mr_ps_dataset_define, mr_ps_dataset_next and mr_ps_dataset_leave (miniray/ps.h). */
#include "base/error.h"
#include "kv/client/ps_connection.h"

static mr_status is_cut(kv_worker *worker, void *ask) { return cas_update_status(ask); }

mr_status mr_ps_dataset_define(mr_ps *ps, const uint64_t *sizes, uint32_t count, int64_t timeout_us) {
    dataset_spec spec = {0};
    MR_TRY(ps_connection_check_rank(ps, "define the dataset"));
    MR_TRY(dataset_spec_init(&spec, sizes, count));
    ps_connection_lock(ps);
    kv_worker *worker = ps_connection_worker(ps);
    cas_update *ask = dataset_spec_decide(kv_worker_metadata(worker), &spec);
    mr_status status =
        ps_connection_await(ps, "the definition of the dataset", PS_CONNECTION_SCHEDULER, is_cut, ask, timeout_us);
    cas_update_end(ask);
    if (status == MR_OK) kv_worker_cut(worker, &spec);
    ps_connection_unlock(ps);
    dataset_spec_fini(&spec);
    return status;
}

typedef struct want {
    uint64_t batch;
    batch_claims_piece piece;
} want;

static mr_status has_piece(kv_worker *worker, void *argument) {
    want *want = argument;
    return kv_worker_piece(worker, want->batch, &want->piece);
}

mr_status mr_ps_dataset_next(mr_ps *ps, uint64_t batch, int64_t timeout_us, mr_ps_data_batch *out) {
    want want = {.batch = batch};
    MR_TRY(ps_connection_check_rank(ps, "claim data"));
    if (batch == 0 || batch > BATCH_CLAIMS_BATCH_MAX)
        return error_set(MR_INVALID, "a batch of %llu items: expected 1 to %llu", (unsigned long long)batch,
                         (unsigned long long)BATCH_CLAIMS_BATCH_MAX);
    ps_connection_lock(ps);
    mr_status status = ps_connection_await(ps, "the next batch", PS_CONNECTION_SCHEDULER, has_piece, &want, timeout_us);
    ps_connection_unlock(ps);
    if (status == MR_OK)
        *out = (mr_ps_data_batch){
            .shard = want.piece.part, .epoch = want.piece.epoch, .from = want.piece.from, .to = want.piece.to};
    return status;
}

static mr_status is_back(kv_worker *worker, void *argument) { return kv_worker_handed_back(worker); }

mr_status mr_ps_dataset_leave(mr_ps *ps, int64_t timeout_us) {
    MR_TRY(ps_connection_check_rank(ps, "leave the dataset"));
    ps_connection_lock(ps);
    kv_worker *worker = ps_connection_worker(ps);
    mr_status status = MR_OK;
    if (kv_worker_where(worker).open)
        status = error_set(MR_DENIED, "a step is open: call mr_ps_end before the data is returned");
    else
        kv_worker_hand_back(worker);
    if (status == MR_OK)
        status = ps_connection_await(ps, "leaving the dataset", PS_CONNECTION_SCHEDULER, is_back, NULL, timeout_us);
    ps_connection_unlock(ps);
    return status;
}
