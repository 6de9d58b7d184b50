/* kv_sim_worker.c — see kv_deployment.h: a simulated worker.
 *
 *   its rank is ready ──► tables, data ──► step ──► pull, compute, push ──► step …    again if something is stale
 *                                            └─ last step over ──► compare, end unless the tables go back
 *
 * The code follows a user's program with one difference: it never blocks, and checks again after each event. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/mutation.h"
#include "kv/client/kv_request.h"
#include "kv/client/kv_worker.h"
#include "kv/control/cas_update.h"
#include "kv/control/catalog_client.h"
#include "sim/kv/kv_deployment.h"

typedef enum phase { BEGINS, ASKS, CUTS, OPENS, LOOKS, EATS, COMPUTES, PUSHES, LEAVES, COMPARES, ENDED } phase;

typedef struct kv_sim_worker {
    kv_deployment_site *site;
    kv_worker *worker;
    phase phase;
    uint64_t step;
    int64_t until_us; /* end of its computation */
    bool hurries;     /* the worker neither pulls nor waits in this step */
    catalog_query *ask;
    dataset_spec spec; /* until the kv_worker owns it */
    cas_update *cut;
    table_catalog_table wanted[KV_WORKLOAD_PARTS];
    size_t asked; /* number of tables it has; index of the table it requests */
    table_info tables[KV_WORKLOAD_PARTS];
    uint64_t keys[KV_WORKLOAD_KEYS], tickets[KV_WORKLOAD_PARTS];
    uint32_t lengths[KV_WORKLOAD_KEYS];
    kv_workload_weights shown, parts;
} kv_sim_worker;

static int64_t now_of(const kv_sim_worker *worker) { return van_now_us(kv_worker_van(worker->worker)); }
static sim *sim_of(const kv_sim_worker *worker) { return worker->site->deployment->sim; }

/* ---- Tables. */

static void ask(kv_sim_worker *worker) {
    table_catalog_table *wanted = &worker->wanted[worker->asked];
    consistency consistency;
    if (table_catalog_table_consistency(wanted, kv_worker_map(worker->worker), &consistency) != MR_OK)
        sim_violation(sim_of(worker), "table '%s' has no consistency", wanted->name);
    else
        consistency_write(consistency, wanted->consistency);
    worker->ask = catalog_client_obtain(kv_worker_catalog(worker->worker), wanted);
}

static void take_table(kv_sim_worker *worker) {
    table_info *table = &worker->tables[worker->asked];
    const table_catalog_table *found = catalog_query_table(worker->ask), *wanted = &worker->wanted[worker->asked];
    if (table_catalog_table_differs(found, wanted) != NULL)
        sim_violation(sim_of(worker), "table '%s' is another one", wanted->name);
    mr_status status = table_info_init(table, found, kv_worker_map(worker->worker));
    catalog_query_end(worker->ask);
    worker->ask = NULL;
    if (status != MR_OK) {
        sim_violation(sim_of(worker), "table '%s' cannot be opened", wanted->name);
        worker->phase = ENDED;
        return;
    }
    if (table_info_in_rounds(table)) kv_worker_join(worker->worker);
    if (++worker->asked < KV_WORKLOAD_PARTS) ask(worker);
}

/* ---- Data. */

static void cut(kv_sim_worker *worker) {
    const kv_data_checker *checker = &worker->site->deployment->checker;
    if (dataset_spec_init(&worker->spec, checker->sizes, checker->parts) != MR_OK)
        sim_violation(sim_of(worker), "the data cannot be cut");
    worker->cut = dataset_spec_decide(kv_worker_metadata(worker->worker), &worker->spec);
}

static phase take_cut(kv_sim_worker *worker) {
    mr_status status = cas_update_status(worker->cut);
    if (status == MR_BUSY) return CUTS;
    cas_update_end(worker->cut);
    worker->cut = NULL;
    if (status != MR_OK) sim_violation(sim_of(worker), "the data is not cut: %d", (int)status);
    kv_worker_cut(worker->worker, &worker->spec);
    return OPENS;
}

/* The batch size is a function of the step: a process that repeats the step requests the same size. */
static mr_status eat(kv_sim_worker *worker) {
    kv_data_checker *checker = &worker->site->deployment->checker;
    batch_claims_piece piece;
    if (checker->parts == 0 || worker->step >= worker->site->deployment->steps) return MR_OK;
    MR_TRY(kv_worker_piece(worker->worker, 1 + worker->step % 3, &piece));
    kv_data_checker_used(checker, kv_worker_map(worker->worker), worker->site->number, worker->step, &piece);
    return MR_OK;
}

/* Gives up its claimed batches between two steps, and returns later. */
static bool leaves(kv_sim_worker *worker) {
    rng *rng = van_env(kv_worker_van(worker->worker))->rng;
    if (worker->site->deployment->checker.parts == 0 || !rng_chance(rng, worker->site->deployment->leave_chance))
        return false;
    sim_count(sim_of(worker), "data left", 1);
    kv_worker_hand_back(worker->worker);
    kv_deployment *deployment = worker->site->deployment;
    const cluster_map *map = kv_worker_map(worker->worker);
    uint32_t rank = worker->site->number;
    kv_data_checker_left(&deployment->checker, map, rank, kv_worker_step(worker->worker),
                         kv_deployment_begun(deployment, map, rank));
    return true;
}

/* ---- A step. */

static kv_request request_of(kv_sim_worker *worker, kv_workload_part part) {
    const table_info *table = &worker->tables[part];
    kv_request request = {
        .table = &worker->tables[part], .dtype = table->table.schema.dtype, .kept = true, .count = KV_WORKLOAD_ITEMS};
    if (part == KV_WORKLOAD_ARRAY) return request;
    request.keys = worker->keys;
    request.count = KV_WORKLOAD_KEYS;
    if (part == KV_WORKLOAD_VECTORS) request.lengths = worker->lengths;
    return request;
}

static mr_status look(kv_sim_worker *worker) {
    for (int i = 0; i < KV_WORKLOAD_PARTS; i++) {
        kv_request request = request_of(worker, (kv_workload_part)i);
        request.to = worker->shown[i];
        request.pulls = true;
        MR_TRY((i == KV_WORKLOAD_ARRAY ? kv_request_array : kv_request_keys)(worker->worker, &request,
                                                                             &worker->tickets[i]));
    }
    return MR_OK;
}

static mr_status push(kv_sim_worker *worker) {
    bool other = MUTATED("other-values") && sim_node_process(worker->site->node) > 1;
    kv_workload_gradient(&worker->site->deployment->workload, worker->site->number, worker->step + other, worker->shown,
                         worker->parts);
    for (int i = 0; i < KV_WORKLOAD_PARTS; i++) {
        kv_request request = request_of(worker, (kv_workload_part)i);
        request.values = worker->parts[i];
        request.pushes = true;
        request.rate = kv_workload_rate(&worker->site->deployment->workload, (kv_workload_part)i, worker->site->number,
                                        worker->step);
        request.rated = request.rate != 0;
        request.kept = !worker->hurries;
        MR_TRY((i == KV_WORKLOAD_ARRAY ? kv_request_array : kv_request_keys)(worker->worker, &request,
                                                                             &worker->tickets[i]));
    }
    return kv_worker_end(worker->worker);
}

/* Checks all requests; a finished request is not checked again. */
static mr_status answered(kv_sim_worker *worker) {
    mr_status all = MR_OK;
    for (int i = 0; i < KV_WORKLOAD_PARTS; i++) {
        mr_status status = worker->tickets[i] == 0 ? MR_OK : kv_worker_done(worker->worker, worker->tickets[i]);
        if (status != MR_BUSY) worker->tickets[i] = 0;
        if (all == MR_OK || (all == MR_BUSY && status != MR_OK)) all = status;
    }
    return all;
}

/* All pushes of the step are acknowledged. */
static void note_acked(const kv_sim_worker *worker) {
    kv_deployment_acked *acked = &worker->site->deployment->acked;
    uint64_t generation = kv_worker_map(worker->worker)->generation, steps = worker->step + 1;
    if (acked->generation != generation || acked->steps < steps) *acked = (kv_deployment_acked){generation, steps};
}

static void tell(const kv_sim_worker *worker) {
    const cluster_map *map = kv_worker_map(worker->worker);
    sim_note(sim_of(worker), worker->site->node, "has learnt it");
    if (worker->site->number == 0 && map->origin != 0) sim_count(sim_of(worker), "from a checkpoint", 1);
}

/* Without rounds the order of pushes is unknown, and other ranks may not be done yet. */
static void compare(kv_sim_worker *worker) {
    kv_deployment *deployment = worker->site->deployment;
    kv_workload_weights expected;
    kv_workload_reference(&deployment->workload, deployment->steps, expected);
    const float *seen = &worker->shown[0][0][0], *right = &expected[0][0][0];
    bool same = memcmp(seen, right, sizeof expected) == 0, late = false;
    for (size_t i = 0; i < KV_WORKLOAD_PARTS * KV_WORKLOAD_ITEMS && !same; i++) {
        if (seen[i] == right[i]) continue;
        if (deployment->workload.rounds[i / KV_WORKLOAD_ITEMS] || seen[i] > right[i])
            sim_violation(sim_of(worker), "rank %u sees %a where %a is right, at %zu", worker->site->number,
                          (double)seen[i], (double)right[i], i);
        late = true;
    }
    if (same) memcpy(deployment->end, worker->shown, sizeof deployment->end);
    if (same) tell(worker);
    deployment->done[worker->site->number] = same;
    worker->phase = late ? COMPARES : ENDED;
}

/* ---- The state machine. */

static phase from(mr_status status, phase then, phase now) {
    if (status == MR_OK) return then;
    return status == MR_BUSY ? now : OPENS; /* any other failure restarts from opening */
}

static phase goes_on(kv_sim_worker *worker) {
    worker->step++;
    return leaves(worker) ? LEAVES : OPENS;
}

static phase next_of(kv_sim_worker *worker) {
    kv_worker *kv_worker = worker->worker;
    switch (worker->phase) {
    case BEGINS:
        if (kv_worker_ready(kv_worker) != MR_OK) return BEGINS;
        ask(worker);
        return ASKS;
    case ASKS: {
        mr_status status = catalog_query_status(worker->ask);
        if (status == MR_OK) take_table(worker);
        if (status != MR_OK && status != MR_BUSY) sim_violation(sim_of(worker), "no table: %d", (int)status);
        if (worker->phase == ENDED || worker->asked < KV_WORKLOAD_PARTS) return worker->phase;
        if (worker->site->deployment->checker.parts == 0) return OPENS;
        cut(worker);
        return CUTS;
    }
    case CUTS: return take_cut(worker);
    case OPENS:
        kv_worker_begin(kv_worker);
        if (kv_worker_opened(kv_worker) != MR_OK) return OPENS;
        if (!MUTATED("counts-alone")) worker->step = kv_worker_step(kv_worker);
        worker->hurries = worker->step + 1 < worker->site->deployment->steps &&
                          rng_chance(van_env(kv_worker_van(kv_worker))->rng, worker->site->deployment->hurry_chance);
        return worker->hurries ? EATS : from(look(worker), LOOKS, OPENS);
    case LOOKS: return from(answered(worker), EATS, LOOKS);
    case EATS: {
        mr_status status = eat(worker);
        worker->until_us =
            now_of(worker) + rng_between(van_env(kv_worker_van(kv_worker))->rng, 0, worker->site->deployment->step_us);
        return from(status, COMPUTES, EATS);
    }
    case COMPUTES:
        if (now_of(worker) < worker->until_us) return COMPUTES;
        if (worker->step >= worker->site->deployment->steps) return COMPARES;
        if (push(worker) != MR_OK) return OPENS;
        return worker->hurries ? goes_on(worker) : PUSHES;
    case PUSHES: {
        mr_status status = answered(worker);
        if (status == MR_OK) note_acked(worker);
        return from(status, status == MR_OK ? goes_on(worker) : OPENS, PUSHES);
    }
    case LEAVES: return kv_worker_handed_back(kv_worker) == MR_OK ? OPENS : LEAVES;
    case COMPARES: compare(worker); return worker->phase == ENDED ? ENDED : from(look(worker), LOOKS, OPENS);
    case ENDED:
        if (kv_worker == NULL || kv_worker_opened(kv_worker) == MR_OK) return ENDED;
        worker->site->deployment->done[worker->site->number] = false; /* the tables went back to a checkpoint */
        return OPENS;
    }
    return ENDED;
}

static void go_on(kv_sim_worker *worker) {
    phase before;
    do {
        before = worker->phase;
        worker->phase = next_of(worker);
    } while (worker->phase != before && worker->phase != ENDED);
}

void kv_deployment_worker_why(const kv_deployment_site *site, char *text, size_t size) {
    static const char *const phases[] = {"begins",   "asks",   "cuts",   "opens",    "looks", "eats",
                                         "computes", "pushes", "leaves", "compares", "ended"};
    const kv_sim_worker *worker = sim_node_state(site->node);
    if (worker == NULL || worker->worker == NULL) {
        snprintf(text, size, "it is down");
        return;
    }
    mr_status status = kv_worker_opened(worker->worker);
    for (int i = 0; status == MR_OK && i < KV_WORKLOAD_PARTS; i++)
        if (worker->tickets[i] != 0) status = kv_worker_late(worker->worker, worker->tickets[i], "a request");
    snprintf(text, size, "it %s step %d; %s", phases[worker->phase], (int)worker->step,
             status == MR_OK ? "nothing is under way" : mr_last_error());
}

mr_status kv_deployment_worker_end(const sim_node *node) {
    const kv_sim_worker *worker = sim_node_state(node);
    return kv_worker_check_end(worker->worker);
}

/* A deployment has not ended while one of its servers serves. A worker may take a moment to reach a new process. */
static void check_end(kv_sim_worker *worker) {
    const int64_t moment_us = 1000000;
    if (kv_worker_check_end(worker->worker) == MR_OK) return;
    sim_count(sim_of(worker), "ends noticed", 1);
    const cluster_map *map = kv_worker_map(worker->worker);
    const kv_deployment_site *serving = kv_deployment_serving(worker->site->deployment, map, moment_us);
    if (serving != NULL)
        sim_violation(sim_of(worker), "rank %u is told that the deployment has ended, and server %u serves: %s",
                      worker->site->number, serving->number, mr_last_error());
}

/* ---- The simulated process. */

static void *start(sim_node *node, const env *env, void *argument) {
    kv_sim_worker *worker = xcalloc(1, sizeof *worker);
    kv_workload_table tables[KV_WORKLOAD_PARTS];
    worker->site = argument;
    kv_process_options options = {.scheduler = KV_DEPLOYMENT_SCHEDULER,
                                  .listen = sim_node_name(node),
                                  .number = worker->site->number,
                                  .env = env};
    kv_workload_keys(worker->keys, worker->lengths);
    kv_workload_tables(tables);
    if (worker->site->deployment->scheduler.mixed) {
        tables[KV_WORKLOAD_VECTORS].options.consistency = "ssp:1";
        tables[KV_WORKLOAD_ARRAY].options.consistency = "asp";
    }
    mr_status status = kv_worker_open(&options, &worker->worker);
    for (int i = 0; status == MR_OK && i < KV_WORKLOAD_PARTS; i++)
        status = table_catalog_table_init(&worker->wanted[i], tables[i].name, &tables[i].options);
    if (status != MR_OK) sim_violation(sim_of(worker), "rank %u cannot begin", worker->site->number);
    if (worker->worker != NULL) sim_node_serve(node, &messenger_events, van_messenger(kv_worker_van(worker->worker)));
    return worker;
}

static void stop(void *state) {
    kv_sim_worker *worker = state;
    catalog_query_end(worker->ask);
    if (worker->cut != NULL) cas_update_end(worker->cut);
    dataset_spec_fini(&worker->spec);
    kv_worker_close(worker->worker);
    for (size_t i = 0; i < KV_WORKLOAD_PARTS; i++) {
        if (i < worker->asked) table_info_fini(&worker->tables[i]);
        table_catalog_table_fini(&worker->wanted[i]);
    }
    free(worker);
}

static int64_t next_us(void *state) {
    kv_sim_worker *worker = state;
    if (worker->worker == NULL) return CLOCK_NEVER_US;
    int64_t due_us = van_due_us(kv_worker_van(worker->worker));
    return worker->phase == COMPUTES && worker->until_us < due_us ? worker->until_us : due_us;
}

/* The second van_turn sends the requests of go_on. */
static void tick(void *state, int64_t now_us) {
    kv_sim_worker *worker = state;
    van *van = kv_worker_van(worker->worker);
    van_turn(van);
    go_on(worker);
    van_turn(van);
    check_end(worker);
}

const sim_program kv_deployment_worker_program = {"worker", start, stop, next_us, tick};
