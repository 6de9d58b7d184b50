/* kv_worker_data.c — dataset and batches of a worker process (data_client.h); see kv_worker.h. */
#include "base/error.h"
#include "kv/client/kv_worker_internal.h"

/* Steps of this rank that all slots have. A round is acknowledged when it is over; after a round that ended without the
 * rank some slots may still have to acknowledge. */
static uint64_t acknowledged(void *context) {
    const kv_worker *worker = context;
    uint64_t lowest = UINT64_MAX, late = !kv_worker_rounds_rest(worker) || worker->session.jumped;
    if (!kv_worker_is_ready(worker)) return 0;
    for (uint32_t i = 0; i < worker->slot_count; i++) {
        bool rounds = worker->queues[i].holds;
        uint64_t here = seq_ended(rank_clock(worker->rank, i));
        if (rounds) here = worker->session.round > late ? worker->session.round - late : 0;
        if (here < lowest) lowest = here;
    }
    return lowest;
}

static void send_message(void *context, const char *address, const control_message *message) {
    van_send_message(kv_worker_van(context), address, message);
}

void kv_worker_cut(kv_worker *worker, dataset_spec *spec) {
    if (worker->client != NULL) {
        dataset_spec_fini(spec);
        return;
    }
    van *van = kv_worker_van(worker);
    worker->client = data_client_create(&(data_client_options){.rank = kv_worker_rank(worker),
                                                               .address = van_address(van),
                                                               .scheduler = kv_process_scheduler(worker->process),
                                                               .store = kv_worker_metadata(worker),
                                                               .rng = van_env(van)->rng,
                                                               .spec = *spec,
                                                               .send = send_message,
                                                               .acknowledged = acknowledged,
                                                               .context = worker});
    *spec = (struct dataset_spec){0};
    if (worker->rank != NULL) data_client_begin(worker->client, worker->incarnation, van_now_us(van));
    if (kv_worker_is_ready(worker))
        data_client_resume(worker->client, kv_worker_stage(worker), worker->session.first,
                           worker->session.begun_before);
}

mr_status kv_worker_piece(kv_worker *worker, uint64_t batch, batch_claims_piece *out) {
    if (worker->client == NULL)
        return error_set(MR_DENIED, "no dataset is defined: define it first (mr_ps_dataset_define)");
    if (!kv_worker_is_open(worker)) return error_set(MR_STALE, "no step is open: call mr_ps_begin first");
    return data_client_piece(worker->client, worker->session.step, batch, van_now_us(kv_worker_van(worker)), out);
}

void kv_worker_hand_back(kv_worker *worker) {
    if (worker->client != NULL && kv_worker_is_ready(worker))
        data_client_leave(worker->client, worker->session.step, van_now_us(kv_worker_van(worker)));
}

mr_status kv_worker_handed_back(const kv_worker *worker) {
    return worker->client == NULL ? MR_OK : data_client_left(worker->client);
}
