/* overload_scenario.c — servers that live and are silent for seconds, as on an overloaded machine: no slot is left with
 * one replica because of that, and the workload ends with the right bits.
 *
 * The network has no faults, and no process dies. Servers stop for up to SILENT_MAX_US, several at the same time, and
 * then continue; their links stay. An observer asks the scheduler for the cluster map, and reports a slot that had two
 * replicas and has one. There are two or three replicas of each slot, and as many servers or more: a server that could
 * be filled is no reason to remove one that is only silent (ps/silence.h). */
#include "sim/kv/overload_scenario.h"

#include <stdlib.h>

#include "base/alloc.h"
#include "kv/control/control_wire.h"
#include "ps/silence.h"
#include "sim/kv/kv_deployment.h"
#include "sim/ps/ps_scenario.h"

#define LOAD_US       INT64_C(15000000)
#define SETTLE_US     INT64_C(60000000)
#define LOOK_US       INT64_C(5000)
#define SILENT_MAX_US (SILENCE_HOLD_US - INT64_C(500000)) /* so that nobody is given up for the length of its silence */
#define REST_US       INT64_C(300000)                     /* least time between two silences of a server */

typedef struct observer {
    kv_deployment_site *site;
    van *van;
    cluster_map map; /* as the scheduler shows it */
    int64_t next_us;
    uint64_t asked;
} observer;

/* ---- The observer. */

static void compare(const observer *observer, const cluster_map *now) {
    const cluster_map *before = &observer->map;
    for (uint32_t i = 0; i < before->slot_count && i < now->slot_count; i++)
        if (before->slots[i].count > 1 && now->slots[i].count == 1)
            sim_violation(observer->site->deployment->sim,
                          "slot %u has one replica in cluster map %d, and all servers are alive", i,
                          (int)(now->number & 0xffffff));
}

static void take(void *context, link_id link, span bytes, shared_bytes *shared) {
    observer *observer = context;
    control_message message;
    cluster_map map = {0};
    if (control_message_decode(bytes, &message) != MR_OK || message.kind != CONTROL_MAP_VIEW) return;
    if (message.value.size == 0 || cluster_map_follow(&map, message.value) != MR_OK) return;
    if (map.number != observer->map.number) sim_count(observer->site->deployment->sim, "cluster maps", 1);
    compare(observer, &map);
    cluster_map_fini(&observer->map);
    observer->map = map;
}

static int64_t host_next_us(void *context) { return ((observer *)context)->next_us; }

static void host_tick(void *context, int64_t now_us) {
    observer *observer = context;
    observer->next_us = now_us + LOOK_US;
    van_send_value(observer->van, KV_DEPLOYMENT_SCHEDULER, CONTROL_LOOK, (stamp){.id = ++observer->asked}, (span){0});
}

static const van_host host = {.take = take, .next_us = host_next_us, .tick = host_tick};

static void *start(sim_node *node, const env *env, void *argument) {
    observer *observer = xcalloc(1, sizeof *observer);
    van_options options = {.listen = sim_node_name(node), .scheduler = KV_DEPLOYMENT_SCHEDULER, .env = env};
    observer->site = argument;
    if (van_open(&options, &host, observer, &observer->van) == MR_OK)
        sim_node_serve(node, &messenger_events, van_messenger(observer->van));
    else
        sim_violation(observer->site->deployment->sim, "the observer cannot begin");
    return observer;
}

static void stop(void *state) {
    observer *observer = state;
    van_close(observer->van);
    cluster_map_fini(&observer->map);
    free(observer);
}

static int64_t next_us(void *state) { return van_due_us(((observer *)state)->van); }
static void tick(void *state, int64_t now_us) { van_turn(((observer *)state)->van); }

static const sim_program observer_program = {"observer", start, stop, next_us, tick};

/* ---- The run. */

static void draw(kv_deployment *deployment, rng *rng) {
    static const consistency_kind kinds[] = {CONSISTENCY_ASP, CONSISTENCY_SSP, CONSISTENCY_BSP};
    kv_scheduler_options *options = &deployment->scheduler;
    options->consistency.kind = kinds[rng_below(rng, 3)];
    if (options->consistency.kind == CONSISTENCY_SSP) options->consistency.bound = (uint32_t)rng_below(rng, 3);
    options->copies = (uint8_t)rng_between(rng, 2, 3);
    deployment->servers = (uint32_t)rng_between(rng, options->copies, KV_DEPLOYMENT_SERVERS_MAX);
    options->server_count = deployment->servers;
    options->table_slots = 1 + (uint32_t)rng_below(rng, 6);
    deployment->workers = 1 + (uint32_t)rng_below(rng, 3);
    deployment->steps = 5 + rng_below(rng, 20);
    deployment->step_us = 2 * LOAD_US / (int64_t)deployment->steps;
    deployment->further = &observer_program;
    for (int i = 0; i < KV_WORKLOAD_PARTS; i++)
        deployment->workload.rounds[i] = options->consistency.kind == CONSISTENCY_BSP;
}

/* Stops a server that is not silent, now or a moment ago. Most silences are long enough to be noticed. `until_us`: ends
 * of the last silences. */
static void silence_one(kv_deployment *deployment, int64_t until_us[KV_DEPLOYMENT_SERVERS_MAX], rng *rng) {
    uint64_t at = rng_below(rng, deployment->servers);
    sim_node *node = deployment->server_sites[at].node;
    int64_t now_us = sim_now_us(deployment->sim), for_us = rng_between(rng, 0, SILENT_MAX_US);
    if (now_us < until_us[at] + REST_US) return;
    until_us[at] = now_us + for_us;
    sim_count(deployment->sim, "silences", 1);
    sim_note(deployment->sim, node, "is silent for %d ms", (int)(for_us / 1000));
    sim_node_spend(node, for_us);
}

static bool is_done(void *context) { return kv_deployment_is_done(context); }

static void run(const scenario_options *options, scenario_result *result) {
    kv_deployment *deployment = xcalloc(1, sizeof *deployment);
    int64_t until_us[KV_DEPLOYMENT_SERVERS_MAX] = {0};
    bool settled = false, goes_on = true;
    deployment->sim = sim_create(options);
    sim_describe(deployment->sim, ps_describe);
    rng *rng = sim_rng(deployment->sim);
    draw(deployment, rng);
    kv_deployment_build(deployment);
    goes_on = sim_run(deployment->sim, 2000000); /* all have begun */
    int64_t gap_us = rng_between(rng, 100000, 1000000);
    for (int64_t at_us = 2000000; goes_on && at_us < LOAD_US; at_us += rng_between(rng, 1, 2 * gap_us)) {
        goes_on = sim_run(deployment->sim, at_us);
        silence_one(deployment, until_us, rng);
    }
    if (goes_on && sim_run_until(deployment->sim, LOAD_US + SETTLE_US, is_done, deployment, &settled) && !settled) {
        char why[SCENARIO_TEXT_MAX / 2];
        uint32_t rank = kv_deployment_why(deployment, why, sizeof why);
        sim_violation(deployment->sim, "%d s after the load the lesson is not over for rank %u: %s",
                      (int)(SETTLE_US / 1000000), rank, why);
    }
    sim_finish(deployment->sim, result);
    free(deployment);
}

static const scenario_mutation mutations[] = {
    {"spares-nobody", "every silent server is taken out of the cluster map at once", 50},
    {"no-hold", "a silent server is taken out although its slots are left with one replica", 50},
    {0},
};

const scenario overload_scenario = {
    "overload", "servers that live and are silent for seconds: no slot is left with one replica", mutations, run};
