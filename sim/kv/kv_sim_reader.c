/* kv_sim_reader.c — see kv_sim_reader.h.
 *
 *   has a place ──► opens the tables, when they exist ──► pulls one ──► compares ──► pause ──► pulls the next …
 *
 * Like a worker, the reader never blocks, and checks again after each event. */
#include "sim/kv/kv_sim_reader.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "kv/client/kv_request.h"
#include "kv/client/kv_worker.h"
#include "kv/control/catalog_client.h"

#define PAUSE_US INT64_C(60000)

typedef enum phase { BEGINS, OPENS, PAUSES, ASKS, LOOKS } phase;

typedef struct kv_sim_reader {
    kv_deployment_site *site;
    kv_worker *worker;
    phase phase;
    int64_t until_us; /* end of its pause */
    catalog_query *ask;
    size_t opened; /* tables */
    table_info tables[KV_WORKLOAD_PARTS];
    uint64_t keys[KV_WORKLOAD_KEYS], ticket;
    uint32_t lengths[KV_WORKLOAD_KEYS];
    kv_workload_part part;   /* the table that is pulled */
    kv_deployment_acked now; /* as of the begin of the pull */
    float shown[KV_WORKLOAD_ITEMS];
    kv_workload_weights *expected; /* by step, owned */
    bool last[KV_WORKLOAD_PARTS];  /* the last pull showed the weights after the last step */
} kv_sim_reader;

static int64_t now_of(const kv_sim_reader *reader) { return van_now_us(kv_worker_van(reader->worker)); }
static sim *sim_of(const kv_sim_reader *reader) { return reader->site->deployment->sim; }
static rng *dice(const kv_sim_reader *reader) { return van_env(kv_worker_van(reader->worker))->rng; }

/* ---- Tables. */

static phase pause_for(kv_sim_reader *reader, int64_t most_us, phase then) {
    reader->until_us = now_of(reader) + rng_between(dice(reader), 0, most_us);
    return then;
}

static void ask(kv_sim_reader *reader) {
    kv_workload_table tables[KV_WORKLOAD_PARTS];
    kv_workload_tables(tables);
    reader->ask = catalog_client_open(kv_worker_catalog(reader->worker), tables[reader->opened].name);
}

/* A table that does not exist yet is asked for again. */
static phase open_next(kv_sim_reader *reader) {
    mr_status status = catalog_query_status(reader->ask);
    if (status == MR_BUSY) return OPENS;
    if (status == MR_OK)
        status = table_info_init(&reader->tables[reader->opened], catalog_query_table(reader->ask),
                                 kv_worker_map(reader->worker));
    if (status == MR_OK)
        reader->opened++;
    else if (status != MR_NOT_FOUND)
        sim_violation(sim_of(reader), "the reader cannot open a table: %d", (int)status);
    catalog_query_end(reader->ask);
    reader->ask = NULL;
    if (reader->opened < KV_WORKLOAD_PARTS) ask(reader);
    return reader->opened < KV_WORKLOAD_PARTS ? OPENS : PAUSES;
}

/* ---- A pull. */

static phase pull(kv_sim_reader *reader) {
    table_info *table = &reader->tables[reader->part];
    kv_request request = {
        .table = table, .dtype = table->table.schema.dtype, .kept = true, .pulls = true, .to = reader->shown};
    bool array = reader->part == KV_WORKLOAD_ARRAY;
    request.count = array ? KV_WORKLOAD_ITEMS : KV_WORKLOAD_KEYS;
    if (!array) request.keys = reader->keys;
    if (reader->part == KV_WORKLOAD_VECTORS) request.lengths = reader->lengths;
    if (kv_worker_admit(reader->worker, false) != MR_OK) return ASKS; /* also after a loss, once */
    reader->now = reader->site->deployment->acked;
    mr_status status = (array ? kv_request_array : kv_request_keys)(reader->worker, &request, &reader->ticket);
    return status == MR_OK ? LOOKS : ASKS;
}

/* The steps whose weights these are; -1: none. */
static int64_t step_of(const kv_sim_reader *reader, uint64_t least) {
    for (uint64_t step = least; step <= reader->site->deployment->steps; step++)
        if (memcmp(reader->shown, reader->expected[step][reader->part], sizeof reader->shown) == 0)
            return (int64_t)step;
    return -1;
}

/* Before the pull, a rank may have known steps of another generation, which are void. */
static void compare_rounds(kv_sim_reader *reader) {
    const kv_deployment *deployment = reader->site->deployment;
    bool same = reader->now.generation == kv_worker_map(reader->worker)->generation;
    if (step_of(reader, 0) < 0)
        sim_violation(sim_of(reader), "the reader sees no step in table %d", (int)reader->part);
    else if (same && step_of(reader, reader->now.steps) < 0)
        sim_violation(sim_of(reader), "the reader sees step %d in table %d after step %d", (int)step_of(reader, 0),
                      (int)reader->part, (int)reader->now.steps);
    reader->last[reader->part] = step_of(reader, deployment->steps) >= 0;
    sim_count(sim_of(reader), "steps read", 1);
}

static void compare_others(kv_sim_reader *reader) {
    const kv_deployment *deployment = reader->site->deployment;
    const float *right = &reader->expected[deployment->steps][reader->part][0][0];
    for (size_t i = 0; i < KV_WORKLOAD_ITEMS; i++)
        if (reader->shown[i] < 0 || reader->shown[i] > right[i])
            sim_violation(sim_of(reader), "the reader sees %a in table %d where %a is right, at %zu",
                          (double)reader->shown[i], (int)reader->part, (double)right[i], i);
    reader->last[reader->part] = true;
}

static phase take_answer(kv_sim_reader *reader) {
    mr_status status = kv_worker_done(reader->worker, reader->ticket);
    if (status == MR_BUSY) return LOOKS;
    if (status == MR_STALE) return ASKS; /* another generation has begun */
    if (status != MR_OK)
        sim_violation(sim_of(reader), "the reader's pull ends with %d", (int)status);
    else if (reader->site->deployment->workload.rounds[reader->part])
        compare_rounds(reader);
    else
        compare_others(reader);
    reader->part = (kv_workload_part)((reader->part + 1) % KV_WORKLOAD_PARTS);
    return pause_for(reader, rng_chance(dice(reader), 0.5) ? 0 : PAUSE_US, PAUSES);
}

/* ---- The state machine. */

static phase next_of(kv_sim_reader *reader) {
    switch (reader->phase) {
    case BEGINS:
        if (kv_worker_ready(reader->worker) != MR_OK) return BEGINS;
        ask(reader);
        return OPENS;
    case OPENS: return open_next(reader);
    case PAUSES: return now_of(reader) < reader->until_us ? PAUSES : ASKS;
    case ASKS: return pull(reader);
    case LOOKS: return take_answer(reader);
    }
    return BEGINS;
}

static void go_on(kv_sim_reader *reader) {
    phase before;
    do {
        before = reader->phase;
        reader->phase = next_of(reader);
    } while (reader->phase != before);
}

bool kv_sim_reader_is_done(const kv_deployment_site *site) {
    const kv_sim_reader *reader = sim_node_up(site->node) ? sim_node_state(site->node) : NULL;
    bool done = reader != NULL;
    for (int i = 0; done && i < KV_WORKLOAD_PARTS; i++) done = reader->last[i];
    return done;
}

void kv_sim_reader_why(const kv_deployment_site *site, char *text, size_t size) {
    static const char *const phases[] = {"begins", "opens tables", "pauses", "asks", "waits for an answer"};
    const kv_sim_reader *reader = sim_node_state(site->node);
    if (reader == NULL) {
        snprintf(text, size, "the reader is down");
        return;
    }
    mr_status status = kv_worker_ready(reader->worker);
    if (status == MR_OK && reader->phase == LOOKS) status = kv_worker_late(reader->worker, reader->ticket, "its pull");
    snprintf(text, size, "the reader %s of table %d; %s", phases[reader->phase], (int)reader->part,
             status == MR_OK ? "nothing is under way" : mr_last_error());
}

/* ---- The simulated process. */

static void *start(sim_node *node, const env *env, void *argument) {
    kv_sim_reader *reader = xcalloc(1, sizeof *reader);
    reader->site = argument;
    const kv_deployment *deployment = reader->site->deployment;
    kv_process_options options = {.scheduler = KV_DEPLOYMENT_SCHEDULER,
                                  .listen = sim_node_name(node),
                                  .role = CONTROL_READER,
                                  .number = KV_PROCESS_ANY,
                                  .env = env};
    kv_workload_keys(reader->keys, reader->lengths);
    reader->expected = xcalloc(deployment->steps + 1, sizeof *reader->expected);
    for (uint64_t step = 0; step <= deployment->steps; step++)
        kv_workload_reference(&deployment->workload, step, reader->expected[step]);
    if (kv_worker_open(&options, &reader->worker) != MR_OK)
        sim_violation(sim_of(reader), "the reader cannot begin");
    else
        sim_node_serve(node, &messenger_events, van_messenger(kv_worker_van(reader->worker)));
    return reader;
}

static void stop(void *state) {
    kv_sim_reader *reader = state;
    catalog_query_end(reader->ask);
    kv_worker_close(reader->worker);
    for (size_t i = 0; i < reader->opened; i++) table_info_fini(&reader->tables[i]);
    free(reader->expected);
    free(reader);
}

static int64_t next_us(void *state) {
    kv_sim_reader *reader = state;
    if (reader->worker == NULL) return CLOCK_NEVER_US;
    int64_t due_us = van_due_us(kv_worker_van(reader->worker));
    return reader->phase == PAUSES && reader->until_us < due_us ? reader->until_us : due_us;
}

/* The second van_turn sends the requests of go_on. */
static void tick(void *state, int64_t now_us) {
    kv_sim_reader *reader = state;
    van *van = kv_worker_van(reader->worker);
    van_turn(van);
    go_on(reader);
    van_turn(van);
}

const sim_program kv_sim_reader_program = {"reader", start, stop, next_us, tick};
