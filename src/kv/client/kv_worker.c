/* kv_worker.c — see kv_worker.h. Tested by tests/ps_process_test.c. */
#include "kv/client/kv_worker.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/binary_search.h"
#include "base/error.h"
#include "base/invariants.h"
#include "kv/client/kv_worker_internal.h"
#include "net/shm/memory_headroom.h"
#include "ps/quiesce_client.h"

#define KV_WORKER_SHOWN (UINT64_C(1) << 34) /* if the size of the machine's memory is unknown */

static messenger *messenger_of(const kv_worker *worker) { return van_messenger(kv_worker_van(worker)); }

/* ---- Sending. */

/* Sends a batch. An empty one is the end of a step, or an empty contribution to a round. */
static bool send_batch(kv_worker *worker, slot_queue *queue, push_batch *batch) {
    payload_seal(&batch->payload);
    shared_bytes *bytes = batch->payload.bytes;
    span payload = payload_written(&batch->payload);
    rank_prefer(worker->rank, queue->slot, batch->priority);
    shared_bytes_piece tail = {0};
    if (batch->zero_copy != NULL) tail = (shared_bytes_piece){batch->zero_copy->bytes, &batch->zero_copy->shared};
    if (rank_push_pieces(worker->rank, queue->slot, batch->name, payload, bytes, tail) != MR_OK) return false;
    slot_queue_sent(queue, batch);
    return true;
}

static void send_query(kv_worker *worker, slot_queue *queue, query_batch *batch) {
    rank_prefer(worker->rank, queue->slot, batch->priority);
    span payload = payload_written(&batch->payload);
    rank_pull(worker->rank, queue->slot, batch->step, payload, batch->payload.bytes,
              queue->holds ? RANK_PULL_ACKNOWLEDGED : RANK_PULL_BEHIND);
    slot_queue_asked(queue, batch);
}

/* Whether the batch may be sent. The slot with the round state must receive the end of a step after the slots without
 * rounds; the rank ensures that for its own messages (rank.h). */
static bool may_go(const kv_worker *worker, const slot_queue *queue, const push_batch *batch) {
    const cluster_map *map = kv_worker_stage(worker);
    if (!map->mixed || queue->slot != cluster_map_round_state(map)) return true;
    for (uint32_t i = 0; i < worker->slot_count; i++)
        if (!worker->queues[i].holds && slot_queue_owes(&worker->queues[i], seq_tick(batch->name))) return false;
    return true;
}

/* Sends what the rank's window allows; the rest follows after acknowledgements. */
static void send_queue(kv_worker *worker, slot_queue *queue) {
    push_batch *batch;
    query_batch *query_batch;
    list_remove(&queue->link);
    while ((batch = slot_queue_next(queue)) != NULL && may_go(worker, queue, batch) && send_batch(worker, queue, batch))
        continue;
    if ((query_batch = slot_queue_next_query(queue)) != NULL) send_query(worker, queue, query_batch);
}

void kv_worker_fail_all(kv_worker *worker, mr_status status) {
    for (uint32_t i = 0; i < worker->slot_count; i++) slot_queue_fail(&worker->queues[i], &worker->tickets, status);
    kv_worker_judge_pulls(worker);
}

size_t kv_worker_under_way(const kv_worker *worker) {
    size_t count = 0;
    for (uint32_t i = 0; i < worker->slot_count; i++) count += slot_queue_count(&worker->queues[i]);
    return count;
}

/* Whether all slots with rounds have acknowledged: then the rank's round is over. */
bool kv_worker_rounds_rest(const kv_worker *worker) {
    for (uint32_t i = 0; i < worker->slot_count; i++)
        if (worker->queues[i].holds && slot_queue_count(&worker->queues[i]) != 0) return false;
    return true;
}

static void close_queues(kv_worker *worker) {
    for (uint32_t i = 0; i < worker->slot_count; i++) slot_queue_fini(&worker->queues[i]);
    free(worker->queues);
    worker->queues = NULL;
    worker->slot_count = 0;
}

/* Creates the queues. Pushes that a slot had applied when the term began are not sent again. In rounds they are:
 * whether the round counted them is unknown. */
void kv_worker_open_queues(kv_worker *worker, uint32_t slot_count) {
    close_queues(worker);
    worker->generation++;
    worker->slot_count = slot_count;
    worker->queues = xcalloc(slot_count, sizeof *worker->queues);
    for (uint32_t i = 0; i < slot_count; i++) {
        bool rounds = cluster_map_in_rounds(kv_worker_stage(worker), i);
        slot_queue_init(&worker->queues[i], i, rounds);
        if (!rounds) worker->queues[i].there = rank_clock(worker->rank, i);
    }
}

/* ---- The state of the rank. */

/* The state is saved beside the scheduler's socket, unless the program has set a folder. */
void kv_worker_recall(kv_worker *worker) {
    const char *scheduler = kv_process_scheduler(worker->process);
    uint32_t rank = kv_worker_rank(worker);
    if (worker->reads) return;
    if (!worker->kept_elsewhere && strncmp(scheduler, "unix:", 5) == 0) {
        char *path = xasprintf("%s.rank-%u", scheduler + 5, rank);
        feedback_file_keep(worker->encoder.file, path);
        free(path);
        worker->kept_elsewhere = true;
    }
    feedback_file_begin(worker->encoder.file, rank, rank_map(worker->rank)->generation, kv_worker_step(worker));
}

const push_encoder *kv_worker_encoder(const kv_worker *worker) { return &worker->encoder; }

mr_status kv_worker_keep(kv_worker *worker, const char *folder) {
    if (feedback_file_look_at(worker->encoder.file).bytes != 0 || kv_worker_is_open(worker))
        return error_set(MR_BUSY, "mr_ps_set_state_dir must be called before the rank's first step");
    char *path = folder == NULL ? NULL : xasprintf("%s/rank-%u", folder, kv_worker_rank(worker));
    feedback_file_keep(worker->encoder.file, path);
    free(path);
    worker->kept_elsewhere = true;
    if (kv_worker_is_ready(worker)) kv_worker_recall(worker);
    return MR_OK;
}

/* ---- Events of the rank. */

/* Whether the round counted without this rank. SLOT_MESSAGE_GONE: the round ended long ago, with unknown members;
 * without this rank if its message was delivered only once. */
static bool is_missed(const kv_worker *worker, slot_message_status status) {
    bool once = worker->ended_map == kv_worker_stage(worker)->number &&
                worker->ended_breaks == kv_process_breaks(worker->process);
    return status == SLOT_MESSAGE_MISSED || (status == SLOT_MESSAGE_GONE && once);
}

static void on_pushed(void *context, uint32_t slot, uint64_t name, slot_message_status status) {
    kv_worker *worker = context;
    slot_queue *queue = &worker->queues[slot];
    if (queue->holds && !kv_worker_stage(worker)->mixed && is_missed(worker, status))
        data_client_miss(worker->client, name - 1, name);
    if (slot_queue_acknowledge(queue, &worker->tickets, name, status == SLOT_MESSAGE_OK))
        kv_worker_wakes(worker, queue);
    if (kv_worker_stage(worker)->mixed)
        kv_worker_wakes(worker, &worker->queues[cluster_map_round_state(kv_worker_stage(worker))]);
}

static void on_pulled(void *context, uint32_t slot, uint64_t version, uint64_t lsn, span values) {
    kv_worker *worker = context;
    slot_queue *queue = &worker->queues[slot];
    uint64_t forgotten = queue->forgotten;
    reader_pull *pull = queue->asked == NULL ? NULL : queue->asked->pull;
    if (slot_queue_answer(queue, &worker->tickets, version, values)) kv_worker_wakes(worker, queue);
    if (pull != NULL) kv_worker_judge_pull(worker, pull);
    worker->encoder.traffic.forgotten += queue->forgotten - forgotten;
}

static void send_bytes(void *context, const char *address, span bytes) {
    kv_worker *worker = context;
    van_send(kv_worker_van(worker), address, bytes);
}

static void send_pieces(void *context, const char *address, const shared_bytes_piece *pieces, size_t count) {
    kv_worker *worker = context;
    van_send_pieces(kv_worker_van(worker), address, pieces, count);
}

/* ---- Imports and exports. */

const char *kv_worker_head(const kv_worker *worker, uint32_t slot) {
    const cluster_map *map = rank_map(worker->rank);
    const cluster_map_slot *chain = &map->slots[slot];
    const cluster_map_server *head = chain->count == 0 ? NULL : cluster_map_find(map, chain->chain[0].server);
    return head == NULL ? NULL : head->address;
}

static const shm_import *see(void *context, uint64_t process) { return van_map_view(kv_worker_van(context), process); }

static const shm_import *see_own(void *context, uint64_t process) { return context; }

/* Copies values in this process's memory into the payload, for a server that has not imported that memory. */
static shared_bytes *carry(void *context, uint32_t slot, span payload, bool *afar) {
    kv_worker *worker = context;
    if (!worker->lends || !remote_values_speaks(payload)) return NULL;
    van *van = kv_worker_van(worker);
    const char *address = kv_worker_head(worker, slot);
    shared_bytes *own = NULL;
    if (address == NULL) return NULL; /* the message is not sent */
    *afar = van_is_seen(van, address);
    if (*afar) return NULL;
    shm_import import = shm_export_import(van_export(van));
    const remote_values_map_view map_view = {see_own, &import};
    return remote_values_fetch(&map_view, payload, &own) == MR_OK ? own : NULL;
}

/* ---- Events of the rank agent. */

static void on_begin(void *context, uint32_t number, uint64_t term) {
    kv_worker *worker = context;
    if (!worker->reads && number != kv_worker_rank(worker)) return;
    rank_options options = {.rank = number,
                            .address = van_address(kv_worker_van(worker)),
                            .controller = kv_process_scheduler(worker->process),
                            .spread = RANK_HOT,
                            .send = send_bytes,
                            .send_pieces = send_pieces,
                            .carry = carry,
                            .on_ready = kv_worker_on_ready,
                            .on_over = kv_worker_on_over,
                            .on_pushed = on_pushed,
                            .on_pulled = on_pulled,
                            .on_round = kv_worker_on_round,
                            .on_gone = kv_worker_on_gone,
                            .on_ordered = kv_worker_on_ordered,
                            .context = worker};
    kv_session_move(&worker->session, KV_SESSION_SYNCING);
    worker->rank = rank_create(&options);
    rank_begin(worker->rank, term, van_now_us(kv_worker_van(worker)));
    data_client_begin(worker->client, worker->incarnation, van_now_us(kv_worker_van(worker)));
}

static void on_end(void *context, uint32_t number) {
    kv_worker *worker = context;
    if (!worker->reads && number != kv_worker_rank(worker)) return;
    const cluster_map *map = rank_agent_map(worker->agent);
    const cluster_map_rank *now = number < cluster_map_clients(map) ? &map->ranks[number] : NULL;
    bool replaced = now != NULL && now->since != 0 && now->incarnation != worker->incarnation;
    kv_worker_interrupt(worker, map, replaced ? KV_SESSION_REPLACED : KV_SESSION_WAITING);
    data_client_end(worker->client);
    rank_destroy(worker->rank);
    worker->rank = NULL;
}

/* Whether the rank has ended its step; for a checkpoint. */
static bool stands(void *context, uint32_t number, uint64_t *step) {
    const kv_worker *worker = context;
    *step = worker->session.step + kv_worker_is_open(worker); /* counted from 1 */
    if (worker->away) *step = QUIESCE_CLIENT_LEFT;
    return kv_worker_is_ready(worker) && !kv_worker_is_open(worker) && kv_worker_under_way(worker) == 0;
}

/* ---- Host of the kv_process. */

static void on_replaced(void *context, uint64_t incarnation) {
    kv_process_acquire_again(((kv_worker *)context)->process, incarnation);
}

static void on_full(void *context, uint64_t readers) {
    kv_worker *worker = context;
    worker->crowded = true;
    worker->most_readers = readers;
}

static void on_rejected(void *context, span text) {
    kv_worker *worker = context;
    free(worker->rejected);
    worker->rejected = xasprintf("%.*s", (int)text.size, (const char *)text.data);
}

static void on_here(void *context, uint64_t incarnation) {
    kv_worker *worker = context;
    uint32_t number = kv_process_number(worker->process);
    rank_agent_options options = {.worker = worker->reads ? CLUSTER_MAP_READER + number : number,
                                  .address = van_address(kv_worker_van(worker)),
                                  .controller = kv_process_scheduler(worker->process),
                                  .send = send_bytes,
                                  .on_begin = on_begin,
                                  .on_end = on_end,
                                  .on_replaced = on_replaced,
                                  .stands = worker->reads ? NULL : stands,
                                  .context = worker};
    worker->incarnation = incarnation;
    if (worker->agent == NULL) {
        kv_session_move(&worker->session, KV_SESSION_WAITING);
        worker->agent = rank_agent_create(&options);
    }
    rank_agent_begin(worker->agent, incarnation, van_now_us(kv_worker_van(worker)));
}

/* Whether the rank agent handles the message: messages of the controller, and those of processes with another cluster
 * map. */
static bool concerns_holder(const kv_worker *worker, span batch) {
    reader reader = reader_of(batch.data, batch.size);
    slot_message_head head;
    uint32_t count;
    if (slot_message_peek(&reader, &head, &count) != MR_OK) return false;
    const cluster_map *map = rank_agent_map(worker->agent);
    return head.who == SLOT_MESSAGE_CONTROLLER || head.number != map->number || head.generation != map->generation;
}

static void take(void *context, span batch, shared_bytes *bytes) {
    kv_worker *worker = context;
    if (worker->agent == NULL) return;
    if (concerns_holder(worker, batch)) rank_agent_take(worker->agent, batch);
    if (worker->rank != NULL) rank_take_bytes(worker->rank, batch, bytes);
    rank_agent_say(worker->agent);
    kv_worker_go_on(worker);
    CHECK_INVARIANTS(worker->slot_count, kv_worker_check(worker));
}

static void take_message(void *context, const control_message *message) {
    kv_worker *worker = context;
    if (message->kind == CONTROL_STOPPED)
        deployment_end_take(&worker->end, messenger_of(worker), kv_process_scheduler(worker->process), message);
    else if (worker->client != NULL)
        (void)data_client_take(worker->client, message);
}

static int64_t next_us(void *context) {
    kv_worker *worker = context;
    int64_t next_us = deployment_end_next_us(&worker->end);
    if (worker->agent == NULL) return next_us;
    next_us = clock_earlier_us(next_us, rank_agent_next_us(worker->agent));
    if (worker->rank != NULL) next_us = clock_earlier_us(next_us, rank_next_us(worker->rank));
    return worker->client == NULL ? next_us : clock_earlier_us(next_us, data_client_next_us(worker->client));
}

static void tick(void *context, int64_t now_us) {
    kv_worker *worker = context;
    deployment_end_tick(&worker->end, messenger_of(worker), kv_worker_map(worker), now_us);
    if (worker->agent == NULL) return;
    if (now_us >= rank_agent_next_us(worker->agent)) rank_agent_tick(worker->agent, now_us);
    if (worker->rank != NULL && now_us >= rank_next_us(worker->rank)) rank_tick(worker->rank, now_us);
    if (worker->client != NULL && now_us >= data_client_next_us(worker->client))
        data_client_tick(worker->client, now_us);
    kv_worker_go_on(worker);
    CHECK_INVARIANTS(worker->slot_count, kv_worker_check(worker));
}

static void describe(void *context, process_state *state) {
    kv_worker *worker = context;
    const cluster_map *map = kv_worker_map(worker);
    state->map = map->number;
    state->generation = map->generation;
    state->first = worker->session.first;
    state->step = kv_worker_step(worker);
    state->ready = kv_worker_is_ready(worker);
}

static const char *server_address(void *context, uint32_t server, uint64_t incarnation) {
    const kv_worker *worker = context;
    const cluster_map_server *there =
        worker->agent == NULL ? NULL : cluster_map_find(rank_agent_map(worker->agent), server);
    return there != NULL && there->incarnation == incarnation ? there->address : NULL;
}

void kv_worker_ship(kv_worker *worker) {
    while (!list_empty(&worker->eager)) send_queue(worker, container_of(worker->eager.next, slot_queue, link));
    rank_flush(worker->rank);
}

static void flush(void *context) {
    kv_worker *worker = context;
    if (!worker->dirty || worker->rank == NULL) return;
    worker->dirty = false;
    kv_worker_ship(worker);
    CHECK_INVARIANTS(worker->slot_count, kv_worker_check(worker));
}

/* ---- Interface to the program. */

mr_status kv_worker_open(const kv_process_options *options, kv_worker **out) {
    static const kv_process_host host = {.on_here = on_here,
                                         .on_full = on_full,
                                         .on_rejected = on_rejected,
                                         .take = take,
                                         .take_message = take_message,
                                         .flush = flush,
                                         .next_us = next_us,
                                         .tick = tick,
                                         .describe = describe,
                                         .server_address = server_address};
    kv_worker *worker = xcalloc(1, sizeof *worker);
    kv_process_options own = *options;
    uint64_t left = memory_headroom_bytes();
    worker->reads = options->role == CONTROL_READER;
    own.role = worker->reads ? CONTROL_READER : CONTROL_WORKER;
    own.shown = left == MEMORY_HEADROOM_UNKNOWN ? KV_WORKER_SHOWN : left;
    worker->map_view = (remote_values_map_view){see, worker};
    list_init(&worker->pulls);
    list_init(&worker->eager);
    tickets_init(&worker->tickets);
    push_encoder_init(&worker->encoder);
    key_list_cache_init(&worker->cache, KV_WORKER_LISTS);
    mr_status status = kv_process_open(&own, &host, worker, &worker->process);
    if (status == MR_OK)
        *out = worker;
    else
        kv_worker_close(worker);
    return status;
}

void kv_worker_close(kv_worker *worker) {
    if (worker == NULL) return;
    kv_worker_fail_all(worker, MR_CLOSED);
    if (worker->rank != NULL) rank_destroy(worker->rank);
    if (worker->agent != NULL) rank_agent_destroy(worker->agent);
    close_queues(worker);
    kv_process_close(worker->process);
    data_client_destroy(worker->client);
    tickets_fini(&worker->tickets);
    splitter_fini(&worker->splitter);
    push_encoder_fini(&worker->encoder);
    key_list_cache_fini(&worker->cache);
    free(worker->offsets);
    free(worker->drops);
    free(worker->rates);
    free(worker->rejected);
    free(worker);
}

van *kv_worker_van(const kv_worker *worker) { return kv_process_van(worker->process); }
control_client *kv_worker_control(const kv_worker *worker) { return kv_process_control(worker->process); }
const char *kv_worker_scheduler(const kv_worker *worker) { return kv_process_scheduler(worker->process); }
void kv_worker_stir(kv_worker *worker) { worker->dirty = true; }

barrier_clients_where kv_worker_where(const kv_worker *worker) {
    return (barrier_clients_where){
        .early = !worker->session.begun, .open = kv_worker_is_open(worker), .step = kv_worker_step(worker)};
}

metadata_store kv_worker_metadata(const kv_worker *worker) { return kv_process_metadata(worker->process); }
catalog_client *kv_worker_catalog(const kv_worker *worker) { return kv_process_catalog(worker->process); }
bool kv_worker_reads(const kv_worker *worker) { return worker->reads; }

uint32_t kv_worker_rank(const kv_worker *worker) {
    uint32_t number = kv_process_number(worker->process);
    if (!worker->reads || number == KV_PROCESS_ANY) return number;
    return cluster_map_client(kv_worker_map(worker), CLUSTER_MAP_READER + number);
}

const cluster_map *kv_worker_map(const kv_worker *worker) {
    static const cluster_map none = {0};
    return worker->agent == NULL ? &none : rank_agent_map(worker->agent);
}

void kv_worker_join(kv_worker *worker) { worker->session.joins = true; }

void kv_worker_begin(kv_worker *worker) {
    kv_session *session = &worker->session;
    session->begun = true;
    session->lost = false; /* the new step's number shows the loss to the program */
    if (kv_worker_is_ready(worker)) kv_worker_note_told(worker, kv_worker_stage(worker)->generation);
    if (kv_worker_is_open(worker)) return;
    if (session->order == KV_SESSION_ORDER_LEFT && session->step >= session->order_round)
        kv_session_set_order(session, KV_SESSION_ORDER_NONE);
    session->wanted = true;
    if (worker->agent != NULL) kv_worker_go_on(worker);
    CHECK_INVARIANTS(worker->slot_count, kv_worker_check(worker));
}

mr_status kv_worker_check_end(const kv_worker *worker) {
    return deployment_end_check(&worker->end, messenger_of(worker), kv_worker_map(worker));
}

mr_status kv_worker_say_no_rank(const kv_worker *worker, uint32_t rank) {
    uint32_t ranks = kv_worker_map(worker)->rank_count;
    if (ranks == 0)
        return error_set(MR_NOT_FOUND, "no rank %u is known: no cluster map has come from the scheduler at %s", rank,
                         kv_worker_scheduler(worker));
    return error_set(MR_NOT_FOUND, "no rank %u: the ranks are 0 to %u", rank, ranks - 1);
}

/* As kv_worker_ready, of a reader that is not ready. */
static mr_status reader_ready(const kv_worker *worker) {
    const char *scheduler = kv_process_scheduler(worker->process);
    const cluster_map *map = kv_worker_map(worker);
    uint32_t number = kv_process_number(worker->process);
    if (worker->session.state == KV_SESSION_REPLACED)
        return error_set(MR_EXISTS, "another process is reader %u now; connect again", number);
    if (worker->rejected != NULL) return error_set(MR_DENIED, "%s", worker->rejected);
    if (worker->crowded && number == KV_PROCESS_ANY)
        return error_set(MR_BUSY,
                         "%llu reader%s connected to %s, as many as its option readers allows (miniray ps scheduler "
                         "--readers %llu); close one, or start it with more",
                         (unsigned long long)worker->most_readers, worker->most_readers == 1 ? " is" : "s are",
                         scheduler, (unsigned long long)worker->most_readers);
    if (!kv_process_heard(worker->process)) return kv_process_say_unheard(worker->process);
    if (map->number == 0) return error_set(MR_BUSY, "the scheduler at %s waits for servers", scheduler);
    if (worker->rank == NULL) return error_set(MR_BUSY, "reader %u is not in the cluster map yet", number);
    return error_set(MR_BUSY, "the servers of some slots do not answer reader %u", number);
}

mr_status kv_worker_ready(const kv_worker *worker) {
    const char *scheduler = kv_process_scheduler(worker->process);
    const cluster_map *map = kv_worker_map(worker);
    uint32_t rank = kv_worker_rank(worker);
    if (kv_worker_is_ready(worker)) return MR_OK;
    if (worker->reads) return reader_ready(worker);
    if (worker->session.state == KV_SESSION_REPLACED)
        return error_set(MR_EXISTS, "another process holds rank %u now", rank);
    if (worker->crowded && rank == KV_PROCESS_ANY)
        return error_set(MR_BUSY, "every rank at %s is held by another process", scheduler);
    if (!kv_process_heard(worker->process)) return kv_process_say_unheard(worker->process);
    if (map->number == 0) return error_set(MR_BUSY, "the scheduler at %s waits for servers", scheduler);
    if (rank >= map->rank_count) return kv_worker_say_no_rank(worker, rank);
    if (worker->rank == NULL) return error_set(MR_BUSY, "rank %u is not assigned to this process yet", rank);
    return error_set(MR_BUSY, "the servers of some slots do not answer rank %u", rank);
}

mr_status kv_worker_opened(const kv_worker *worker) {
    if (kv_worker_is_open(worker)) return MR_OK;
    MR_TRY(kv_worker_ready(worker));
    unsigned long long step = kv_worker_step(worker);
    if (worker->session.order == KV_SESSION_ORDER_JOINING)
        return error_set(MR_BUSY, "rank %u is not in round %llu, and has asked to join", kv_worker_rank(worker), step);
    if (rank_agent_rests(worker->agent, worker->session.step) && !cluster_map_has_rounds(kv_worker_stage(worker)))
        return error_set(MR_BUSY, "step %llu waits for a checkpoint, for which all ranks stop", step);
    uint32_t slot;
    if (rank_refused(worker->rank, &slot))
        return error_set(MR_BUSY,
                         "step %llu cannot begin: the server of slot %u is out of memory" KV_WORKER_MORE_MEMORY, step,
                         slot);
    return error_set(MR_BUSY, "step %llu cannot begin: other ranks have not ended theirs, or servers do not answer",
                     step);
}

uint64_t kv_worker_fresh_step(const kv_worker *worker) {
    uint64_t newest = worker->session.step;
    for (uint32_t i = 0; i < worker->slot_count; i++) {
        uint64_t clock = worker->queues[i].holds ? 0 : rank_clock(worker->rank, i);
        uint64_t pushed = seq_is_left(clock) ? seq_ended(clock) : seq_step(clock);
        if (pushed > newest) newest = pushed;
    }
    return newest;
}

mr_status kv_worker_admit(kv_worker *worker, bool pushes) {
    if (kv_worker_is_open(worker)) return MR_OK;
    if (worker->session.begun && !worker->session.lost)
        return error_set(MR_STALE, "no step is open: call mr_ps_begin first");
    if (worker->session.begun) return kv_worker_say_lost(worker);
    MR_TRY(kv_worker_ready(worker));
    if (cluster_map_has_rounds(kv_worker_stage(worker)) && !kv_worker_stage(worker)->mixed && !worker->reads)
        return error_set(MR_STALE, "no step is open: call mr_ps_begin first, since bsp tables are used in steps");
    if (worker->session.lost) return kv_worker_say_lost(worker);
    if (!pushes) return MR_OK;
    if (!worker->session.wanted) kv_worker_skip_to(worker, kv_worker_fresh_step(worker));
    worker->session.wanted = true;
    kv_worker_go_on(worker);
    return kv_worker_opened(worker);
}

/* Whether the open step must be ended: it is a round, for which other ranks wait, or a slot may have pushes of it. */
static bool must_end(const kv_worker *worker) {
    bool pushed = kv_worker_in_round(worker);
    for (uint32_t i = 0; i < worker->slot_count && !pushed; i++) {
        const slot_queue *queue = &worker->queues[i];
        uint64_t newest = queue->last > queue->there ? queue->last : queue->there;
        pushed = !queue->holds && seq_step(newest) > worker->session.step;
    }
    return pushed;
}

mr_status kv_worker_leave(kv_worker *worker) {
    kv_session *session = &worker->session;
    MR_TRY(kv_worker_ready(worker));
    bool half = session->order == KV_SESSION_ORDER_LEFT && session->step < session->order_round;
    if (session->order == KV_SESSION_ORDER_LEAVING || half)
        return MR_OK; /* already requested by an earlier call that timed out */
    if (kv_worker_is_open(worker) && must_end(worker))
        return error_set(MR_DENIED, "step %llu is open: call mr_ps_end before the rank leaves",
                         (unsigned long long)session->step);
    kv_session_close_step(session);
    session->wanted = false;
    if (!cluster_map_has_rounds(kv_worker_stage(worker))) return MR_OK;
    kv_session_set_order(session, KV_SESSION_ORDER_LEAVING);
    rank_order(worker->rank, REPLICA_LOG_LEAVE);
    worker->dirty = true;
    CHECK_INVARIANTS(worker->slot_count, kv_worker_check(worker));
    return MR_OK;
}

/* Pushes the seq of a rank that has left to every slot without rounds that does not have it. */
mr_status kv_worker_quit(kv_worker *worker) {
    MR_TRY(kv_worker_ready(worker));
    uint64_t name = seq_left(kv_worker_fresh_step(worker));
    for (uint32_t i = 0; i < worker->slot_count && !kv_worker_is_open(worker); i++) {
        slot_queue *queue = &worker->queues[i];
        uint64_t newest = queue->last > queue->there ? queue->last : queue->there;
        if (queue->holds || seq_is_left(newest)) continue;
        worker->away = true;
        slot_queue_close(queue, name);
        kv_worker_wakes(worker, queue);
    }
    CHECK_INVARIANTS(worker->slot_count, kv_worker_check(worker));
    return kv_worker_settled(worker);
}

mr_status kv_worker_left(const kv_worker *worker, uint64_t *round) {
    *round = 0;
    if (kv_worker_is_ready(worker) && !cluster_map_has_rounds(kv_worker_stage(worker))) return MR_OK;
    switch (worker->session.order) {
    case KV_SESSION_ORDER_LEFT: *round = worker->session.order_round; return MR_OK;
    case KV_SESSION_ORDER_KEPT:
        return error_set(MR_DENIED, "rank %u is the last one in the rounds", kv_worker_rank(worker));
    case KV_SESSION_ORDER_LOST:
        return error_set(MR_STALE,
                         "rank %u has not left the rounds: all replicas of a slot were lost first. The tables continue "
                         "from the newest checkpoint, or are empty if there is none; leave again",
                         kv_worker_rank(worker));
    default: return error_set(MR_BUSY, "rank %u has asked to leave, without an answer yet", kv_worker_rank(worker));
    }
}

uint64_t kv_worker_step(const kv_worker *worker) { return worker->session.step; }

/* Tells a slot about dropped tables. A drop has no seq: a replayed step may omit it. */
static void say_drops(const kv_worker *worker, slot_queue *queue) {
    for (uint32_t i = 0; i < worker->drop_count; i++) {
        payload_room room;
        push_batch *batch = slot_queue_gather(queue, 0);
        payload_head head = {.table = worker->drops[i], .op = PAYLOAD_DROP};
        if (payload_add(&batch->payload, head, 0, &room) != MR_OK) return; /* the servers keep the rows */
    }
}

/* ---- Learning rates of a round. */

/* Whether the slot gets values of this worker in rounds; a contribution to the round state is empty. */
static bool takes_values(const kv_worker *worker, uint32_t slot) {
    return worker->queues[slot].holds && slot != cluster_map_round_state(kv_worker_stage(worker));
}

void kv_worker_note_rate(kv_worker *worker, uint32_t table, float rate) {
    kv_worker_rate *rates = worker->rates;
    size_t at = binary_search_first(&table, rates, worker->rate_count, sizeof *rates, binary_search_u32);
    if (at == worker->rate_count || rates[at].table != table) {
        xgrow(&worker->rates, &worker->rate_room, worker->rate_count + 1, sizeof *rates);
        rates = worker->rates;
        memmove(rates + at + 1, rates + at, (worker->rate_count++ - at) * sizeof *rates);
    }
    rates[at] = (kv_worker_rate){table, rate};
}

/* Adds them to the contribution of each slot with values. A repetition after MR_NOMEM adds some twice, which changes
 * nothing. */
static mr_status say_rates(kv_worker *worker) {
    for (uint32_t i = 0; i < worker->slot_count && worker->rate_count != 0; i++) {
        if (!takes_values(worker, i)) continue;
        push_batch *batch = slot_queue_gather(&worker->queues[i], 0);
        for (size_t k = 0; k < worker->rate_count; k++)
            MR_TRY(payload_add_rate(&batch->payload, worker->rates[k].table, worker->rates[k].rate));
    }
    return MR_OK;
}

/* ---- Steps that leave the rank out. */

mr_status kv_worker_skip(kv_worker *worker) {
    if (!kv_worker_is_open(worker)) return error_set(MR_STALE, "no step is open: call mr_ps_begin first");
    if (kv_worker_in_round(worker)) worker->skips = true;
    return MR_OK;
}

mr_status kv_worker_pass(kv_worker *worker) {
    bool skips = kv_worker_in_round(worker);
    worker->skips = skips;
    MR_TRY(kv_worker_end(worker));
    worker->skipped -= skips;
    return MR_OK;
}

bool kv_worker_skips(const kv_worker *worker) { return worker->skips; }
uint64_t kv_worker_skipped(const kv_worker *worker) { return worker->skipped; }

/* Replaces the contributions with values: all of them, or none without memory. */
static mr_status leave_out(kv_worker *worker) {
    payload_writer *rests;
    mr_status status = MR_OK;
    MR_TRY(alloc_try(worker->slot_count * sizeof *rests, &rests));
    memset(rests, 0, worker->slot_count * sizeof *rests);
    for (uint32_t i = 0; i < worker->slot_count && status == MR_OK; i++)
        if (takes_values(worker, i)) status = slot_queue_write_rest(&worker->queues[i], &rests[i]);
    for (uint32_t i = 0; i < worker->slot_count; i++) {
        if (status == MR_OK && takes_values(worker, i))
            slot_queue_replace(&worker->queues[i], &rests[i]);
        else
            payload_fini(&rests[i]);
    }
    free(rests);
    return status;
}

/* Sends the end of the step to every slot; in rounds with the step's contribution. Rounds that this worker has not
 * joined get an empty contribution later. */
mr_status kv_worker_end(kv_worker *worker) {
    if (!kv_worker_is_open(worker)) return error_set(MR_STALE, "no step is open: call mr_ps_begin first");
    uint64_t step = worker->session.step + 1;
    MR_TRY(worker->skips ? leave_out(worker) : say_rates(worker));
    if (worker->skips) feedback_undo_revert(&worker->encoder.undo, worker->encoder.file);
    worker->skipped += worker->skips;
    kv_worker_forget_step(worker);
    feedback_file_end(worker->encoder.file, step); /* before the end is sent to any slot */
    for (uint32_t i = 0; i < worker->slot_count; i++) {
        slot_queue *queue = &worker->queues[i];
        uint64_t name = queue->holds ? step : seq_tick(step);
        if (queue->holds && !kv_worker_in_round(worker)) continue;
        if (!queue->holds && name <= queue->there) {
            slot_queue_skip(queue, name);
            continue;
        }
        if (i != cluster_map_round_state(kv_worker_stage(worker))) say_drops(worker, queue);
        slot_queue_close(queue, name);
        kv_worker_wakes(worker, queue);
    }
    bool later =
        worker->session.joins && !kv_worker_in_round(worker) && cluster_map_has_rounds(kv_worker_stage(worker));
    if (!later) worker->drop_count = 0;
    worker->ended_map = kv_worker_stage(worker)->number;
    worker->ended_breaks = kv_process_breaks(worker->process);
    kv_session_end_step(&worker->session);
    kv_worker_go_on(worker);
    CHECK_INVARIANTS(worker->slot_count, kv_worker_check(worker));
    return MR_OK;
}

/* ---- Dropped tables. */

bool kv_worker_eager(const kv_worker *worker) { return worker->dirty; }

void kv_worker_drop(kv_worker *worker, uint32_t table) {
    feedback_file_drop(worker->encoder.file, table);
    worker->drops = xrealloc(worker->drops, (worker->drop_count + 1) * sizeof *worker->drops);
    worker->drops[worker->drop_count++] = table;
    bool unstepped = kv_worker_is_ready(worker) && !worker->session.begun && !worker->session.lost;
    if (unstepped && kv_worker_admit(worker, true) == MR_OK && kv_worker_end(worker) == MR_OK) return;
    error_clear(); /* the next step that ends informs the slots */
}
