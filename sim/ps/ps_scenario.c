/* ps_scenario.c — a metadata store, a controller, servers and workers that train: the parameter protocol with faults.
 *
 * Each seed draws a cluster: 1 to 8 servers; 1 to 16 ranks; as many workers, or some more or fewer, of which some leave
 * for good; chains of 1 to 3 replicas; a consistency, or tables with rounds beside others; bounds that are the same for
 * all pulls or not. In half of the seeds servers are taken out of the chains as soon as they are silent, also if they
 * are alive. In some seeds slots are pinned to other servers, and must move while training continues. Faults of all
 * kinds occur for a while; they heal, and all ranks must end their steps, and every slot must have its replicas, equal
 * and on the right servers.
 *
 * The scenario `pieces` is the same with pieces of a few bytes (transfer.h): every state, cut, snapshot, log entry and
 * push needs many of them.
 *
 * A server is not killed while it has the last living replica of a slot, in the newest cluster map or in one that may
 * yet be decided: no protocol can repair that loss. One kind of loss remains: a server dies, and before the controller
 * notices, it gives up the other replica on a false suspicion. ps_checker.h has the checks of each step. Checked at the
 * end:
 *
 *   progress       every rank has done all its steps within SETTLE_US, or the controller names a lost slot
 *   true losses    no server has a replica of a slot that is reported lost
 *   filling        every slot has its number of replicas, on the servers of its target
 *   same bytes     all replicas of a slot are at the same lsn
 *   saving         ps_save_phases.h */
#include "sim/ps/ps_scenario.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/assert.h"
#include "ps/silence.h"
#include "sim/cluster/sim_metadata.h"
#include "sim/faults.h"
#include "sim/ps/ps_operations.h"
#include "sim/ps/ps_save_phases.h"

enum {
    CHECKPOINTS_STREAM = 10,
    DATA_STREAM = 11,
    LOSS_STREAM = 12,
    ROT_STREAM = 13,
    BATCH_STREAM = 14,
    NORMS_STREAM = 15,
    MIXED_STREAM = 16,
    PAUSE_STREAM = 17,
    AWAY_STREAM = 18,
    LEAVE_STREAM = 20,
    PIECES_STREAM = 21,
    HOLD_STREAM = 24,
    FED_STEPS_MAX = 20,
    MIXED_SLOTS_MAX = (PS_SLOTS_MAX - 1) / 2
};

#define SETTLE_US      INT64_C(20000000)
#define PAUSE_LEAST_US INT64_C(300000)

/* Workers may die for good: other workers get their ranks. */
static bool may_die(void *context, sim_node *node) {
    const ps_cluster *cluster = context;
    for (uint32_t i = 0; i < cluster->worker_count; i++)
        if (cluster->workers[i].node == node) return true;
    return false;
}

/* ---- The end. */

static bool all_done(void *context) {
    const ps_cluster *cluster = context;
    for (uint32_t i = 0; i < cluster->rank_count; i++)
        if (!ps_cluster_rank_done(cluster, i)) return false;
    return true;
}

static bool slot_settled(const ps_cluster *cluster, const cluster_map *map, uint32_t index) {
    const cluster_map_slot *slot = &map->slots[index];
    size_t wanted = map_planner_copies(cluster->copies, slot->more);
    if (wanted > cluster->server_count) wanted = cluster->server_count;
    if (slot->count != wanted) return false;
    for (size_t i = 0; i < slot->count; i++) {
        if (!ps_lives(cluster, &slot->chain[i])) return false;
        const replica *replica = slot_server_replica(ps_server_of(&cluster->servers[slot->chain[i].server]), index);
        if (replica == NULL) return false;
        replica_look look = replica_look_at(replica);
        if (look.epoch != slot->epoch || look.applied != cluster->ps_checker.histories[index].count ||
            look.logged != look.applied)
            return false;
    }
    return true;
}

static bool all_settled(void *context) {
    const ps_cluster *cluster = context;
    const controller *controller = ps_controller_of(&cluster->controller);
    if (!all_done(context) || controller == NULL) return false;
    const cluster_map *map = controller_map(controller);
    for (uint32_t i = 0; i < cluster->slot_count; i++)
        if (!slot_settled(cluster, map, i)) return false;
    for (size_t i = 0; i < cluster->pin_count; i++)
        if (map->slots[cluster->pins[i].slot].chain[0].server != cluster->pins[i].servers[0]) return false;
    return true;
}

/* The first slot that the controller reports as lost; slot_count: none. */
static uint32_t find_lost(const ps_cluster *cluster) {
    controller *controller = ps_controller_of(&cluster->controller);
    uint32_t slot = 0;
    if (controller == NULL || controller_map(controller)->number == 0) return cluster->slot_count;
    while (slot < cluster->slot_count && !controller_lost(controller, slot)) slot++;
    return slot;
}

static bool check_loss(ps_cluster *cluster, uint32_t slot) {
    const cluster_map_slot *chain = &controller_map(ps_controller_of(&cluster->controller))->slots[slot];
    for (size_t i = 0; i < chain->count; i++)
        if (ps_lives(cluster, &chain->chain[i]))
            sim_violation(cluster->sim, "slot %u is said to be lost, and s%u has it", slot, chain->chain[i].server);
    sim_count(cluster->sim, "losses", 1);
    return false;
}

/* A file on the checkpoint store's disk is damaged, and the store reports it: without another checkpoint no generation
 * may begin. */
static bool is_rotten(const ps_cluster *cluster) {
    const checkpoint_store *store = cluster->ps_checker.rots ? ps_checkpoints_of(&cluster->checkpoints) : NULL;
    if (store == NULL || checkpoint_store_check(store) == MR_OK) return false;
    sim_count(cluster->sim, "checkpoints rotten", 1);
    return true;
}

/* A lost slot must be truly lost, whether ranks wait for it or were done before. */
static bool check_unsettled(ps_cluster *cluster) {
    uint32_t lost = find_lost(cluster);
    if (is_rotten(cluster)) return false;
    if (lost < cluster->slot_count) return check_loss(cluster, lost);
    for (uint32_t i = 0; i < cluster->rank_count; i++)
        if (!ps_cluster_rank_done(cluster, i))
            sim_violation(cluster->sim, "rank %u is not done %d s after the faults", i, (int)(SETTLE_US / 1000000));
    if (all_done(cluster)) sim_violation(cluster->sim, "the copies are not where they belong");
    return false;
}

static bool settle(ps_cluster *cluster) {
    bool settled = false;
    int64_t until_us = sim_now_us(cluster->sim) + SETTLE_US;
    if (!sim_run_until(cluster->sim, until_us, all_done, cluster, &settled)) return false;
    if (!settled) return check_unsettled(cluster);
    settled = false;
    if (!sim_run_until(cluster->sim, until_us, all_settled, cluster, &settled)) return false;
    return settled || check_unsettled(cluster);
}

/* ---- The run. */

/* Members of rounds: some or all ranks at first; some ranks join and leave; some rounds close without backup or late
 * ranks. */
static void draw_rounds(ps_cluster *cluster, rng *rng) {
    cluster->slot_count++;
    cluster->rounds.first_count =
        rng_chance(rng, 0.5) ? cluster->rank_count : 1 + (uint32_t)rng_below(rng, cluster->rank_count);
    if (rng_chance(rng, 0.25)) cluster->rounds.backup = 1 + (uint32_t)rng_below(rng, 3);
    if (rng_chance(rng, 0.2)) cluster->rounds.deadline_us = 100000 + (uint32_t)rng_below(rng, 400000);
    if (rng_chance(rng, 0.5)) cluster->order_chance = 0.3;
    if (rng_chance(rng, 0.4)) cluster->drop_rounds = 1 + (uint32_t)rng_below(rng, 6);
}

/* Some seeds have slots with rounds beside others. A bound of the others counts all ranks, so then all ranks are in all
 * rounds. */
static void draw_mixed(ps_cluster *cluster, rng *rng) {
    uint32_t slots = cluster->value_slots < MIXED_SLOTS_MAX ? cluster->value_slots : MIXED_SLOTS_MAX;
    bool rounds = cluster->consistency.kind == CONSISTENCY_BSP;
    cluster->mixed = true;
    cluster->varied = rng_chance(rng, 0.4);
    if (rng_chance(rng, 0.4)) cluster->idle = (uint32_t)rng_next(rng);
    cluster->value_slots = cluster->slot_count = 2 * slots;
    if (rounds)
        cluster->slot_count++;
    else
        draw_rounds(cluster, rng);
    if (!ps_bounds_rounds(cluster)) return;
    cluster->rounds = (cluster_map_rounds){.first_count = cluster->rank_count};
    cluster->order_chance = 0;
    cluster->drop_rounds = 0;
}

/* Some servers hold one message of a rank at a time, or a few; some links one entry. */
static void draw_credit(ps_cluster *cluster, rng *rng) {
    static const uint64_t bytes[] = {1, PS_BYTES, 2 * PS_BYTES, 5 * PS_BYTES};
    if (rng_chance(rng, 0.5)) cluster->rank_bytes = bytes[rng_below(rng, 4)];
    if (rng_chance(rng, 0.5)) cluster->link_bytes = bytes[rng_below(rng, 4)];
    if (rng_chance(rng, 0.3)) cluster->pulls_max = 1 + (uint32_t)rng_below(rng, 2);
}

/* Some seeds keep checkpoints, and sometimes lose all processes. The cluster that starts afterwards may have other
 * sizes. */
static void draw_checkpoints(ps_cluster *cluster, rng *rng) {
    cluster->keeps = true;
    cluster->mark_rounds = 1 + (uint32_t)rng_below(rng, rng_chance(rng, 0.3) ? 40 : 8);
    cluster->kill_rounds = (uint32_t)rng_below(rng, 3);
    cluster->back_rounds = rng_chance(rng, 0.4) ? 1 + (uint32_t)rng_below(rng, 4) : 0;
    cluster->reckless = rng_chance(rng, 0.4);
    if (rng_chance(rng, 0.5)) cluster->server_sites = 1 + (uint32_t)rng_below(rng, PS_SERVERS_MAX);
    if (rng_chance(rng, 0.3)) cluster->rank_sites = 1 + (uint32_t)rng_below(rng, 8);
    struct rng own = sim_fork_rng(cluster->sim, AWAY_STREAM); /* ranks that leave and return: time for both */
    if (cluster->rank_count < 2 || !rng_chance(&own, 0.3)) return;
    cluster->rank_sites = 1 + (uint32_t)rng_below(&own, cluster->rank_count - 1);
    cluster->kill_rounds = 2 + (uint32_t)rng_below(&own, 2);
    cluster->mark_rounds = 20;
}

/* Some seeds take data from a consumer group with a few shards. Each step takes longer, so there are fewer steps. Ranks
 * that return continue with their claims. */
static void draw_data(ps_cluster *cluster, rng *rng) {
    cluster->fed = true;
    cluster->leader.part_count = 1 + rng_below(rng, PS_PARTS_MAX);
    for (size_t i = 0; i < cluster->leader.part_count; i++) cluster->sizes[i] = 1 + rng_below(rng, 12);
    if (cluster->steps > FED_STEPS_MAX) cluster->steps = FED_STEPS_MAX;
    cluster->pace_us = PS_FAULTS_US / cluster->steps;
}

static void draw(ps_cluster *cluster, rng *rng) {
    static const consistency_kind kinds[] = {CONSISTENCY_ASP, CONSISTENCY_SSP, CONSISTENCY_BSP};
    bool dense = rng_chance(rng, 0.6); /* one slot under constant load */
    cluster->server_count = 1 + (uint32_t)rng_below(rng, rng_chance(rng, 0.1) ? PS_SERVERS_MAX : 5);
    cluster->rank_count = 1 + (uint32_t)rng_below(rng, rng_chance(rng, 0.1) ? PS_RANKS_MAX : 4);
    cluster->worker_count = cluster->rank_count;
    if (rng_chance(rng, 0.5)) cluster->worker_count = 1 + (uint32_t)rng_below(rng, cluster->rank_count + 2);
    cluster->slot_count = dense ? 1 : 1 + (uint32_t)rng_below(rng, 4);
    cluster->copies = 1 + (uint8_t)rng_below(rng, 3);
    if (dense && cluster->server_count < 3) cluster->server_count = 3;
    if (dense && cluster->copies == 1) cluster->copies = 2;
    cluster->consistency = (consistency){kinds[rng_below(rng, 3)], (uint32_t)rng_below(rng, 3)};
    cluster->steps = 4 + (uint32_t)rng_below(rng, dense ? 60 : 8);
    cluster->pin_rounds = (uint32_t)rng_below(rng, dense ? 40 : 8);
    cluster->pace_us = PS_FAULTS_US / cluster->steps;
    cluster->value_slots = cluster->slot_count;
    cluster->spreads = rng_chance(rng, 0.5);
    cluster->fresh_chance = rng_chance(rng, 0.5) ? 0.5 : 0;
    draw_credit(cluster, rng);
    if (rng_chance(rng, 0.3)) cluster->balance_us = rng_between(rng, 200000, 1000000);
    if (cluster->consistency.kind == CONSISTENCY_BSP) draw_rounds(cluster, rng);
    cluster->server_sites = cluster->server_count;
    cluster->rank_sites = cluster->rank_count;
    struct rng own = sim_fork_rng(cluster->sim, MIXED_STREAM); /* a stream of its own: other seeds stay unchanged */
    if (rng_chance(&own, 0.3))
        draw_mixed(cluster, &own);
    else
        cluster->varied = !ps_has_rounds(cluster) && rng_chance(&own, 0.3);
    own = sim_fork_rng(cluster->sim, CHECKPOINTS_STREAM);
    if (rng_chance(&own, 0.35)) draw_checkpoints(cluster, &own);
    own = sim_fork_rng(cluster->sim, BATCH_STREAM);
    bool named = cluster->mixed || !ps_has_rounds(cluster);
    cluster->items = named && rng_chance(&own, 0.4) ? PS_ITEMS_MAX : 1;
    own = sim_fork_rng(cluster->sim, NORMS_STREAM);
    cluster->machine.measures = ps_has_rounds(cluster) && rng_chance(&own, 0.3);
    own = sim_fork_rng(cluster->sim, DATA_STREAM);
    bool whole =
        !cluster->mixed || (ps_bounds_rounds(cluster) && cluster->idle == 0); /* a missed step may be in other slots */
    if (cluster->drop_rounds == 0 && whole && rng_chance(&own, 0.25))
        draw_data(cluster, &own); /* without drops: a dropped rank skips its data */
    own = sim_fork_rng(cluster->sim, ROT_STREAM);
    cluster->rots = cluster->keeps && rng_chance(&own, 0.3);
    own = sim_fork_rng(cluster->sim, PAUSE_STREAM);
    if (cluster->keeps && !ps_has_rounds(cluster) && rng_chance(&own, 0.5))
        cluster->pause_us = rng_between(&own, PAUSE_LEAST_US, CHECKPOINTER_PATIENCE_US);
    own = sim_fork_rng(cluster->sim, HOLD_STREAM); /* real processes hold longer than the faults last */
    cluster->hold_us = rng_chance(&own, 0.5) ? 1 : SILENCE_HOLD_US;
    own = sim_fork_rng(cluster->sim, LEAVE_STREAM);
    if (!ps_has_rounds(cluster) && !cluster->fed && rng_chance(&own, 0.4)) {
        cluster->leave_chance = rng_chance(&own, 0.7) ? 0.2 : 0;
        cluster->quits = (uint32_t)rng_next(&own);
    }
    own = sim_fork_rng(cluster->sim, LOSS_STREAM);
    if (cluster->keeps && !cluster->fed && rng_chance(&own, 0.3))
        cluster->lose_rounds = 1 + (uint32_t)rng_below(&own, 2);
}

static void add(ps_cluster *cluster, ps_process *process, const char *name, uint32_t id, const sim_program *program) {
    char text[SIM_NAME_MAX];
    bool one = program == &ps_controller_program || program == &ps_checkpoints_program;
    snprintf(text, sizeof text, one ? "%s" : "%s%u", name, id);
    *process = (ps_process){.cluster = cluster, .id = id};
    process->node = sim_node_add(cluster->sim, text, program, process);
}

static void on_group(void *context, const sim_node *node, const consumer_group *group) {
    ps_data_checker_knows(&((ps_cluster *)context)->checker, group);
}

static void draw_pieces(ps_cluster *cluster) {
    static const size_t sizes[] = {4, 8, 20};
    struct rng own = sim_fork_rng(cluster->sim, PIECES_STREAM);
    cluster->piece = sizes[rng_below(&own, 3)];
}

static void build(ps_cluster *cluster) {
    cluster->book.sim = cluster->checker.sim = cluster->sim;
    cluster->checker.checker = &cluster->ps_checker;
    cluster->leader =
        (leader_site){.sizes = cluster->sizes, .book = &cluster->book, .on_decided = on_group, .context = cluster};
    draw(cluster, sim_rng(cluster->sim));
    ps_operations_plan(cluster);
    uint32_t round_slots = ps_has_rounds(cluster) ? cluster->value_slots / (cluster->mixed ? 2 : 1) : 0;
    ps_checker_init(&cluster->ps_checker, cluster->sim, cluster->value_slots, round_slots, cluster->rank_count,
                    cluster->items, cluster->rounds);
    cluster->ps_checker.machine = cluster->machine;
    cluster->ps_checker.idle = cluster->idle;
    if (cluster->mixed) sim_count(cluster->sim, "mixed deployments", 1);
    cluster->metadata = sim_node_add(cluster->sim, "keeper", &sim_metadata_program, NULL);
    add(cluster, &cluster->controller, "director", 0, &ps_controller_program);
    if (cluster->keeps) add(cluster, &cluster->checkpoints, "depot", 0, &ps_checkpoints_program);
    for (uint32_t i = 0; i < cluster->server_count || i < cluster->server_sites; i++)
        add(cluster, &cluster->servers[i], "s", i, &ps_server_program);
    for (uint32_t i = 0; i < cluster->worker_count; i++) add(cluster, &cluster->workers[i], "w", i, &ps_worker_program);
    if (cluster->fed) (void)sim_node_add(cluster->sim, "marshal", &sim_group_leader_program, &cluster->leader);
    for (size_t i = 0; i < sim_node_count(cluster->sim); i++) sim_node_start(sim_node_at(cluster->sim, i));
    sim_note(cluster->sim, NULL,
             "%u servers, %u workers, %u ranks, %u slots, %u copies, consistency %d(%u)%s, %u steps",
             cluster->server_count, cluster->worker_count, cluster->rank_count, cluster->slot_count, cluster->copies,
             (int)cluster->consistency.kind, cluster->consistency.bound, cluster->mixed ? " and others" : "",
             cluster->steps);
}

void ps_describe(span head, char *text, size_t size) {
    reader reader = reader_of(head.data, head.size);
    slot_message_head from;
    slot_message message;
    uint32_t count;
    if (slot_message_read_head(&reader, &from, &count) != MR_OK) {
        snprintf(text, size, "a letter");
        return;
    }
    int used = snprintf(text, size, "chart %d:", (int)(from.number & 0xffffff));
    for (uint32_t i = 0; i < count && slot_message_read(&reader, &message) == MR_OK && (size_t)used + 80 < size; i++)
        used += snprintf(text + used, size - (size_t)used, " %s[%u e%d r%d lsn %d c %d %" PRIx64 "<%" PRIx64 " %d]",
                         slot_message_kind_name(message.kind), message.slot, (int)(message.epoch & 0xffffff),
                         (int)message.rank, (int)message.lsn, (int)message.commit, message.name, message.prev,
                         message.status);
}

static void run_with(const scenario_options *options, bool pieces, scenario_result *result) {
    ps_cluster cluster = {.sim = sim_create(options)};
    sim_describe(cluster.sim, ps_describe);
    if (pieces) draw_pieces(&cluster);
    build(&cluster);
    bool good = ps_save_phases_first(&cluster);
    fault_limits limits = {.allowed = FAULT_ALL,
                           .from_us = sim_now_us(cluster.sim),
                           .until_us = sim_now_us(cluster.sim) + PS_FAULTS_US,
                           .down_max = 2 + cluster.worker_count / 2,
                           .dead_max = cluster.worker_count / 2,
                           .may_crash = ps_may_crash,
                           .may_die = may_die,
                           .context = &cluster};
    faults *faults = faults_create(cluster.sim, &limits);
    good = good && sim_run(cluster.sim, limits.until_us + FAULTS_HEAL_US);
    if (good && settle(&cluster)) ps_save_phases_last(&cluster);
    ps_checker_end(&cluster.ps_checker);
    if (!sim_failed(cluster.sim)) history_recorder_check(&cluster.book);
    faults_destroy(faults);
    ps_coverage_report(&cluster.coverage, cluster.sim);
    sim_finish(cluster.sim, result);
    ps_checker_fini(&cluster.ps_checker);
    history_recorder_book_fini(&cluster.book);
    cluster_map_fini(&cluster.newest);
    for (size_t i = 0; i < PS_PROPOSALS_MAX; i++) cluster_map_fini(&cluster.proposals[i]);
}

static void run(const scenario_options *options, scenario_result *result) { run_with(options, false, result); }
static void run_pieces(const scenario_options *options, scenario_result *result) { run_with(options, true, result); }

static const scenario_mutation mutations[] = {
    {"no-epoch", "servers act on messages of other chain epochs", 300},
    {"no-since", "a server that was removed from a chain rejoins with its old replica", 100},
    {"no-longest-log", "a new head does not ask the other replicas for longer logs", 100},
    {"no-level", "the tail commits its whole log", 2000},
    {"early-ack", "the head acknowledges pushes that only its own log has", 100},
    {"log-ack", "the head acknowledges a seq in the log before it is committed", 100},
    {"apply-early", "members apply entries before they are committed", 100},
    {"no-clock", "a replica does not compare a seq with its vector clock", 100},
    {"no-prev", "the head accepts a seq without the one before it", 300},
    {"no-gate", "a joiner reports that it is full before it has the last entries", 300},
    {"gate-timer", "a gate is lifted by a timer", 100},
    {"joiner-wipes", "a joiner accepts every state, also older ones", 4000},
    {"state-no-names", "a joiner receives values without their vector clocks", 100},
    {"any-order", "a round adds contributions in order of arrival", 500},
    {"any-version", "a BSP pull is answered with any version that is not older", 300},
    {"no-kept", "the kept version is the current one", 300},
    {"stays-counted", "SSP pulls wait for ranks that have left", 100},
    {"no-bound", "SSP pulls ignore the staleness bound", 100},
    {"ledger-first", "a rank ends a round before slots without rounds have its pushes of that step", 1000},
    {"mark-early", "slots without rounds are cut before those that have rounds", 1000},
    {"no-known", "a pull is answered without a rank's own pushes", 1600},
    {"fresh-local", "a linearizable pull is answered from the head's state alone", 600},
    {"any-query", "a waiting pull gets the answer to another pull's query", 300},
    {"pull-ahead", "a pull does not name the rank's pushes before it", 300},
    {"own-members", "a head closes a round with the members of the round before", 100},
    {"no-freeze", "the round state voids a rank without freezing its slots first", 2700},
    {"freeze-soft", "a freeze is kept in memory only", 2700},
    {"first-enough", "each head closes a round with the first contributions that suffice", 1000},
    {"say-counted", "the server acknowledges a dropped contribution as counted", 100},
    {"no-credit", "ranks and servers ignore credit", 100},
    {"no-cut", "a rank that repeats a step sends batches across the vector clock", 1000},
    {"no-priority", "ranks ignore priorities", 300},
    {"no-room", "servers ignore the limit of bytes between members of a chain", 300},
    {"leaks", "dropped contributions keep their credit", 300},
    {"waits-count", "contributions that wait for the round state use the credit of their rank", 1000},
    {"no-spare", "an empty slot accepts no entry beyond its limit", 100},
    {"no-stint", "a server accepts messages from every process that had a rank", 2500},
    {"early-clock", "a process takes a rank over while the log has entries of the process before", 1600},
    {"norms-order", "norms are combined in order of arrival", 1000},
    {"norms-early", "a round closes with norms that are not committed", 300},
    {"norms-stale", "a slot uses the norms of the round before", 300},
    {"norms-set", "norms over different sets of ranks are combined", 2700},
    {"norms-some", "norms are combined before all slots have reported theirs", 300},
    {"no-keep", "the hash ring alone decides the members of a chain", 100},
    {"cut-late", "a checkpoint has the state at sending instead of the state at its cut", 300},
    {"shard-no-names", "a checkpoint has values without vector clocks", 300},
    {"forgets-away", "a restore forgets the vector clocks of ranks without a process", 4000},
    {"keeps-orders", "a generation continues the order numbers of the one before", 4000},
    {"shard-no-sync", "slot snapshots are written without fsync", 1000},
    {"manifest-first", "a checkpoint is complete with its first slot snapshot", 300},
    {"one-place", "slot snapshots overwrite those of the last complete checkpoint", 1000},
    {"mixes-generations", "the checkpoint store continues with slot snapshots of another generation", 2000},
    {"no-seal", "the checkpoint store completes checkpoints while a generation is being decided", 1000},
    {"rounds-only", "a checkpoint waits for a round that no rank ends", 100},
    {"cut-open", "a checkpoint waits for slots that have not ended the round of others", 300},
    {"cut-ahead", "a slot that has ended one round more than others is cut as it is", 300},
    {"mixes-versions", "the checkpoint store completes checkpoints with slots of different versions", 3000},
    {"any-clock", "slots of an exact checkpoint are cut at different steps", 2000},
    {"endless-pause", "a paused worker waits without a timeout", 4000},
    {"claims-late", "a step begins before its batch is claimed", 300},
    {"claims-anew", "a step can be claimed twice", 1500},
    {"claims-over", "a claim does not advance its shard", 300},
    {"no-return", "an unused batch is not returned", 2000},
    {"returns-spent", "a rank agent returns used batches, too", 2000},
    {"accept-two-decisions", "the metadata store accepts every compare-and-swap as if the version matched", 300},
    {"no-sum", "the checkpoint store ignores checksums of slot snapshots", 3000},
    {"seal-forgets", "the checkpoint store does not report the number at which it was sealed", 1000},
    {"no-above", "a process that registered after the metadata store lost its disk does not register again", 3000},
    {0},
};

const scenario ps_scenario = {"ps", "servers, ranks and chains: pushes applied exactly once, versions equal bit by bit",
                              mutations, run};

static const scenario_mutation piece_mutations[] = {
    {"pieces-holes", "a receiver appends a piece although the one before it is missing", 300, 12},
    {"pieces-mixed", "a receiver continues a message with pieces of another one", 1000},
    {"marks-once", "a slot without rounds is not cut again for another version of the rounds", 600, 27000},
    {"room-held", "cuts that heads have given up hold the room of the checkpoint store", 100, 55000},
    {"one-store", "a receiver takes the processes of the checkpoint store for one", 3000},
    {0},
};

const scenario pieces_scenario = {"pieces", "as ps, with messages that travel in pieces of a few bytes",
                                  piece_mutations, run_pieces};
