/* controller.c — see controller.h. */
#include "ps/controller.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/binary_search.h"
#include "base/invariants.h"
#include "base/mutation.h"
#include "cluster/detector.h"
#include "ps/rank_assignment.h"
#include "ps/replica_log.h"
#include "ps/silence.h"

typedef struct known {
    uint32_t id;
    uint64_t incarnation;
    bool spoke;        /* a message of this process arrived; otherwise it is only known from a cluster map */
    bool given_up;     /* silence alone has taken this server out of the chains */
    int64_t silent_us; /* time since which it is only silent; 0: it is not */
    int64_t heard_us;  /* time of the last message */
    char address[SLOT_MESSAGE_ADDRESS_MAX];
} known;

typedef struct process_group { /* all servers, or all workers */
    uint64_t watch;            /* offset of their ids in the detector */
    size_t most;
    known *list; /* sorted by id, owned */
    size_t count;
} process_group;

struct controller {
    controller_options options;
    batcher *batcher;
    detector *detector;
    process_group servers, workers;
    hash_ring *ring; /* ring of the servers in `alive`, owned; NULL: must be rebuilt */
    uint64_t *alive; /* ids of the servers that were alive and not draining when the ring was built, sorted, owned */
    size_t alive_count;
    map_planner_gate *gates; /* by slot, owned; NULL before the first cluster map */
    const slot_placement_pin *pins;
    size_t pin_count;
    const uint32_t *leaving;
    size_t leaving_count;
    uint64_t *drops; /* by rank, owned: the number of an unanswered order to drop the rank; 0: none */
    load_tracker tracker;
    checkpointer checkpointer;
    bool resumes;      /* the deployment was stopped on purpose, and no server of that time has sent a message since */
    bool restoring;    /* the end of this generation was requested */
    uint64_t reported; /* generation whose loss a process has reported to its program; 0: none */
    uint64_t generation; /* generation of the known cluster map */
    cluster_map proposed;
    bool asking, looked; /* asking: an answer of the metadata store is pending; looked: the cluster map was read once */
    uint64_t expected;
    int64_t now_us, next_tick_us, next_poll_us;
    int64_t spare_us; /* no other server is given up before this time */
};

/* ---- Known processes. */

static size_t seek(const process_group *group, uint32_t id) {
    return binary_search_first(&id, group->list, group->count, sizeof *group->list, binary_search_u32);
}

static known *find(const process_group *group, uint32_t id) { /* NULL: not known */
    return binary_search_find(&id, group->list, group->count, sizeof *group->list, binary_search_u32);
}

/* Makes the next tick due now. */
static void hasten(controller *controller) { controller->next_tick_us = controller->now_us; }

static void heard(controller *controller, process_group *group, uint32_t id, uint64_t incarnation,
                  const char *address) {
    MR_ASSERT(id < SLOT_MESSAGE_RANK && strlen(address) < SLOT_MESSAGE_ADDRESS_MAX);
    size_t at = seek(group, id);
    if (find(group, id) == NULL) {
        if (group->count == group->most) return;
        group->list = xrealloc(group->list, (group->count + 1) * sizeof *group->list);
        memmove(&group->list[at + 1], &group->list[at], (group->count - at) * sizeof *group->list);
        group->count++;
        group->list[at] = (known){.id = id};
        detector_watch(controller->detector, group->watch + id, controller->now_us);
    }
    known *known = &group->list[at];
    if (incarnation < known->incarnation) {
        batcher_add(controller->batcher, address,
                    &(slot_message){.kind = SLOT_MESSAGE_REPLACED, .name = known->incarnation});
        return;
    }
    if (incarnation == known->incarnation) /* the same process was only slow */
        detector_forgive(controller->detector, group->watch + id, controller->now_us);
    if (incarnation > known->incarnation) hasten(controller); /* the new process waits for a role */
    known->spoke = known->spoke && incarnation == known->incarnation;
    known->incarnation = incarnation;
    strcpy(known->address, address);
    detector_heard(controller->detector, group->watch + id, controller->now_us);
    known->given_up = false;
    known->heard_us = controller->now_us;
}

static void spoke(process_group *group, uint32_t id, uint64_t incarnation) {
    known *known = find(group, id);
    if (known != NULL && known->incarnation == incarnation) known->spoke = true;
}

/* A process known only from the cluster map is treated as if a message of it had just arrived. */
static void read_of(controller *controller, process_group *group, uint32_t id, uint64_t incarnation,
                    const char *address) {
    const known *known = find(group, id);
    if (known == NULL || known->incarnation < incarnation) heard(controller, group, id, incarnation, address);
}

static bool has_replicas(const cluster_map *map, const known *known) {
    for (uint32_t i = 0; i < map->slot_count; i++)
        if (cluster_map_place(&map->slots[i], known->id, known->incarnation) >= 0) return true;
    return false;
}

/* A server with replicas that was found silent, and whose link did not break. */
static bool is_only_silent(const controller *controller, const known *known) {
    uint64_t id = controller->servers.watch + known->id;
    return detector_suspects(controller->detector, id) && !detector_hinted(controller->detector, id) &&
           has_replicas(batcher_map(controller->batcher), known);
}

static bool leaves(const controller *controller, uint32_t id) {
    return binary_search_find(&id, controller->leaving, controller->leaving_count, sizeof *controller->leaving,
                              binary_search_u32) != NULL;
}

/* Gives up one server that is only silent, if none was given up recently. */
static void give_up_one(controller *controller) {
    process_group *group = &controller->servers;
    silence_server *servers = xcalloc(group->count + 1, sizeof *servers);
    for (size_t i = 0; i < group->count; i++) {
        const known *known = &group->list[i];
        servers[i] = (silence_server){.id = known->id,
                                      .incarnation = known->incarnation,
                                      .sure = !detector_doubts(controller->detector, group->watch + known->id),
                                      .silent = is_only_silent(controller, known),
                                      .given_up = known->given_up,
                                      .silent_us = known->silent_us};
    }
    size_t chosen = silence_choose(batcher_map(controller->batcher), servers, group->count, controller->options.hold_us,
                                   controller->now_us);
    for (size_t i = 0; i < group->count; i++) group->list[i].silent_us = servers[i].silent_us;
    if (chosen < group->count && controller->now_us >= controller->spare_us) {
        group->list[chosen].given_up = true;
        controller->spare_us = controller->now_us + SILENCE_SPARE_US;
    }
    free(servers);
}

/* A server that is known from a cluster map and has not spoken to this controller may be dead. A packet to a dead one
 * breaks its link. */
static void probe(controller *controller) {
    for (size_t i = 0; i < controller->servers.count; i++) {
        const known *known = &controller->servers.list[i];
        if (!known->spoke && known->address[0] != '\0') batcher_add(controller->batcher, known->address, NULL);
    }
}

static bool is_alive(const controller *controller, const process_group *group, const known *known) {
    bool spared = group == &controller->servers && !known->given_up && is_only_silent(controller, known) &&
                  !MUTATED("spares-nobody");
    return !detector_suspects(controller->detector, group->watch + known->id) || spared;
}

/* Rebuilds the ring when the set of live servers changed. */
static void update_ring(controller *controller, const cluster_map_process *servers) {
    size_t known = controller->servers.count, count = 0;
    uint64_t *alive = xcalloc(known + 1, sizeof *alive);
    for (size_t i = 0; i < known; i++)
        if (servers[i].alive && !servers[i].leaves) alive[count++] = servers[i].id;
    bool same = controller->ring != NULL && count == controller->alive_count &&
                memcmp(alive, controller->alive, count * sizeof *alive) == 0;
    free(same ? alive : controller->alive);
    if (same) return;
    controller->alive = alive;
    controller->alive_count = count;
    hash_ring_server *members = xcalloc(count + 1, sizeof *members);
    for (size_t i = 0; i < count; i++) members[i] = (hash_ring_server){alive[i], 1};
    hash_ring_destroy(controller->ring);
    mr_status status = hash_ring_create(members, count, &controller->ring);
    MR_ASSERT(status == MR_OK);
    free(members);
}

/* `spoke`: only processes whose own messages have arrived count as alive. */
static void list_processes(const controller *controller, const process_group *group, bool spoke,
                           cluster_map_process *out) {
    for (size_t i = 0; i < group->count; i++) {
        const known *known = &group->list[i];
        out[i] = (cluster_map_process){.id = known->id,
                                       .incarnation = known->incarnation,
                                       .address = known->address,
                                       .alive = is_alive(controller, group, known) && (known->spoke || !spoke),
                                       .leaves = group == &controller->servers && leaves(controller, known->id),
                                       .doubted = detector_doubts(controller->detector, group->watch + known->id)};
    }
}

static map_planner_facts facts_of(controller *controller, cluster_map_process *servers, bool spoke) {
    list_processes(controller, &controller->servers, spoke, servers);
    update_ring(controller, servers);
    return (map_planner_facts){.servers = servers,
                               .server_count = controller->servers.count,
                               .staying = controller->alive,
                               .staying_count = controller->alive_count,
                               .gates = controller->gates,
                               .ring = controller->ring,
                               .pins = controller->pins,
                               .pin_count = controller->pin_count};
}

/* The caller frees the list. */
static cluster_map_process *list_workers(const controller *controller) {
    cluster_map_process *workers = xcalloc(controller->workers.count + 1, sizeof *workers);
    list_processes(controller, &controller->workers, false, workers);
    return workers;
}

/* Assigns ranks in the cluster map that is about to be proposed. */
static bool assign_ranks(controller *controller, cluster_map *map) {
    cluster_map_process *workers = list_workers(controller);
    size_t count = controller->workers.count;
    bool changed = controller->options.own_ranks ? rank_assignment_own(map, workers, count)
                                                 : rank_assignment_next(map, workers, count);
    free(workers);
    return changed;
}

/* Whether a server with the head of a slot sends nothing, as while it copies a large slot. */
static bool is_head_silent(const controller *controller, const cluster_map *map) {
    for (uint32_t i = 0; i < map->slot_count; i++) {
        const known *head = map->slots[i].count == 0 ? NULL : find(&controller->servers, map->slots[i].chain[0].server);
        if (head != NULL && controller->now_us - head->heard_us >= CONTROLLER_SUSPECT_US) return true;
    }
    return false;
}

/* `news`: order only if a phase of the checkpointer can end now. */
static void order_marks(controller *controller, bool news) {
    const cluster_map *map = batcher_map(controller->batcher);
    bool pauses = controller->options.pause_us != 0 || controller_marks(controller);
    cluster_map_process *workers = pauses ? list_workers(controller) : NULL;
    quiesce_workers all = {workers, workers == NULL ? 0 : controller->workers.count};
    if (controller_marks(controller) && is_head_silent(controller, map)) checkpointer_excuse(&controller->checkpointer);
    if (!news || checkpointer_moves(&controller->checkpointer, map, all))
        checkpointer_order(&controller->checkpointer, map, controller->batcher, all, controller->now_us);
    free(workers);
}

/* ---- Decided cluster maps. */

/* Notifies the processes that begin a role in this cluster map now, not with the next heartbeat. */
static void tell_those_it_begins_with(controller *controller, const cluster_map *map, bool anew) {
    for (uint32_t i = 0; anew && i < map->server_count; i++)
        batcher_add(controller->batcher, map->servers[i].address, NULL);
    for (uint32_t i = 0; i < cluster_map_clients(map); i++) {
        if (map->ranks[i].since != map->number) continue;
        const known *known = find(&controller->workers, map->ranks[i].worker);
        if (known != NULL && known->address[0] != '\0') batcher_add(controller->batcher, known->address, NULL);
    }
}

static void on_map(void *context, const cluster_map *map) {
    controller *controller = context;
    if (controller->gates == NULL) controller->gates = xcalloc(map->slot_count + 1, sizeof *controller->gates);
    for (uint32_t i = 0; i < map->server_count; i++) {
        const cluster_map_server *server = &map->servers[i];
        read_of(controller, &controller->servers, server->id, server->incarnation, server->address);
    }
    for (uint32_t i = 0; i < cluster_map_clients(map); i++) {
        const cluster_map_rank *rank = &map->ranks[i];
        if (rank->since != 0) read_of(controller, &controller->workers, rank->worker, rank->incarnation, "");
    }
    if (controller->generation == 0) controller->resumes = map->number == controller->options.stopped;
    if (map->generation != controller->generation) {
        if (controller->generation != 0) controller->resumes = false;
        controller->restoring = false;
        checkpointer_restart(&controller->checkpointer);
    }
    tell_those_it_begins_with(controller, map, map->generation != controller->generation);
    controller->generation = map->generation;
    if (controller->options.on_decided != NULL) controller->options.on_decided(controller->options.context, map);
}

static void adopt(controller *controller, const metadata_store_answer *answer) {
    controller->expected = answer->version;
    controller->next_poll_us = controller->now_us + CONTROLLER_POLL_US;
    if (answer->value.size != 0) batcher_adopt(controller->batcher, answer->value);
}

static void on_read(void *argument, const metadata_store_answer *answer) {
    controller *controller = argument;
    MR_ASSERT(controller->asking);
    controller->asking = false;
    if (answer->status != MR_OK) return;
    controller->looked = true;
    adopt(controller, answer);
    hasten(controller);
}

static void look(controller *controller) {
    MR_ASSERT(!controller->asking);
    controller->asking = true;
    uint64_t known = batcher_map(controller->batcher)->number;
    if (controller->checkpointer.known > known) known = controller->checkpointer.known;
    controller->options.store.ops->get(controller->options.store.self, CLUSTER_MAP_KEY, known, on_read, controller);
}

static void on_swapped(void *argument, const metadata_store_answer *answer) {
    controller *controller = argument;
    MR_ASSERT(controller->asking);
    controller->asking = false;
    if (answer->status == MR_STALE) {
        adopt(controller, answer);
    } else if (answer->status != MR_OK) {
        controller->looked = false; /* the proposal may have been decided: read again */
    } else {
        size_t size;
        uint8_t *bytes = cluster_map_write(&controller->proposed, 0, &size);
        adopt(controller, &(metadata_store_answer){MR_OK, answer->version, span_of(bytes, size)});
        free(bytes);
        hasten(controller);
    }
}

static void propose(controller *controller) {
    MR_ASSERT(!controller->asking && controller->proposed.number == controller->expected + 1);
    size_t size;
    uint8_t *bytes = cluster_map_write(&controller->proposed, 0, &size);
    controller->asking = true;
    if (controller->options.on_propose != NULL)
        controller->options.on_propose(controller->options.context, &controller->proposed);
    controller->options.store.ops->compare_and_swap(controller->options.store.self, CLUSTER_MAP_KEY,
                                                    controller->expected, span_of(bytes, size), 0, on_swapped,
                                                    controller);
    free(bytes);
}

/* ---- Proposals. */

/* A rank may have pushed in the generation of this cluster map, or no program has learned of an earlier loss. */
static bool loses(const controller *controller, const cluster_map *before) {
    return (!controller->resumes && before->first_term != 0) || (before->lost && !before->reported);
}

/* The cluster map in which the tables of the next generation began empty. All checkpoints are of the tables of the
 * generation before: tables begin empty only if there is none. Without a generation before, or after the metadata store
 * has lost its disk, there is no consumer group either. */
static uint64_t empty_since(const controller *controller) {
    const cluster_map *before = batcher_map(controller->batcher);
    bool continues =
        controller->checkpointer.origin != 0 && before->number != 0 && metadata_store_count(controller->expected) != 0;
    return continues ? before->empty_since : controller->expected + 1;
}

/* Proposes the first cluster map of a generation. Only servers whose own messages have arrived count as alive: a slot
 * assigned to an absent server would wait for it for ever. */
static void begin(controller *controller) {
    cluster_map_process servers[CLUSTER_MAP_SERVERS_MAX];
    map_planner_facts facts = facts_of(controller, servers, true);
    size_t alive = 0;
    for (size_t i = 0; i < facts.server_count; i++) alive += servers[i].alive;
    if (alive < controller->options.first_servers || alive == 0) return;
    if (controller->options.checkpoints != NULL &&
        !checkpointer_seal(&controller->checkpointer, controller->batcher, controller->options.checkpoints,
                           controller->expected))
        return;
    cluster_map_fini(&controller->proposed);
    controller->proposed =
        (cluster_map){.consistency = controller->options.consistency,
                      .mixed = controller->options.mixed,
                      .copies = controller->options.copies,
                      .rounds = controller->options.rounds,
                      .origin = controller->checkpointer.origin,
                      .empty_since = empty_since(controller),
                      .lost = loses(controller, batcher_map(controller->batcher)),
                      .rank_count = controller->options.rank_count,
                      .reader_count = controller->options.reader_count,
                      .slot_count = controller->options.slot_count,
                      .slots = xcalloc(controller->options.slot_count + 1, sizeof(cluster_map_slot))};
    map_planner_first(&facts, controller->expected + 1, rng_next(controller->options.rng), &controller->proposed);
    (void)assign_ranks(controller, &controller->proposed);
    propose(controller);
}

static void order(controller *controller, const map_planner_join *join) {
    const cluster_map_server *tail = cluster_map_find(batcher_map(controller->batcher), join->tail);
    if (tail == NULL) return;
    batcher_add(controller->batcher, tail->address,
                &(slot_message){.kind = SLOT_MESSAGE_JOIN,
                                .slot = join->slot,
                                .epoch = join->epoch,
                                .name = join->server,
                                .prev = join->incarnation});
}

/* Repeats the orders to drop ranks until the round state has answered. */
static void order_drops(controller *controller, const cluster_map *map) {
    uint32_t round_state = cluster_map_round_state(map);
    MR_ASSERT(round_state == NO_ROUND_STATE || round_state < map->slot_count);
    if (round_state == NO_ROUND_STATE || controller->drops == NULL || map->slots[round_state].count == 0) return;
    const cluster_map_server *head = cluster_map_find(map, map->slots[round_state].chain[0].server);
    for (uint32_t i = 0; head != NULL && i < map->rank_count && i < controller->options.rank_count; i++)
        if (controller->drops[i] != 0)
            batcher_add(controller->batcher, head->address,
                        &(slot_message){.kind = SLOT_MESSAGE_ORDER,
                                        .entry = REPLICA_LOG_DROP,
                                        .slot = round_state,
                                        .rank = i,
                                        .epoch = map->slots[round_state].epoch,
                                        .name = controller->drops[i]});
}

/* Lets the load tracker propose moves once every slot is where it should be. */
static bool balance(controller *controller, const cluster_map *map, map_planner_facts *facts, map_planner_join *joins,
                    size_t *count) {
    map_planner_wish wishes[LOAD_TRACKER_WISHES_MAX];
    facts->wishes = wishes;
    facts->wish_count = load_tracker_wishes(&controller->tracker, map, facts, controller->now_us, wishes);
    return facts->wish_count != 0 && map_planner_next(map, facts, &controller->proposed, joins, count);
}

static bool is_over(const controller *controller, const cluster_map *map, const map_planner_facts *facts) {
    bool lost = controller->restoring;
    for (uint32_t i = 0; !lost && controller->options.restores && i < map->slot_count; i++)
        lost = map_planner_is_lost(map, facts, i);
    return lost;
}

static void go_on(controller *controller, const cluster_map *map) {
    cluster_map_process servers[CLUSTER_MAP_SERVERS_MAX];
    map_planner_facts facts = facts_of(controller, servers, false);
    if (is_over(controller, map, &facts)) {
        begin(controller);
        return;
    }
    map_planner_join *joins = xcalloc(map->slot_count + 1, sizeof *joins);
    size_t count;
    bool changed = map_planner_next(map, &facts, &controller->proposed, joins, &count);
    if (!changed && count == 0 && controller->options.balance.decide_us != 0)
        changed = balance(controller, map, &facts, joins, &count);
    bool reported = map->lost && !map->reported && controller->reported == map->generation;
    if (reported) controller->proposed.reported = true;
    if (assign_ranks(controller, &controller->proposed) || changed || reported)
        propose(controller);
    else
        for (size_t i = 0; i < count; i++) order(controller, &joins[i]);
    free(joins);
}

/* ---- Messages. */

/* Cluster maps come from the metadata store. After it has lost its disk, the other processes know the newest one. */
static bool admits_map(void *context, const slot_message_head *from) {
    const controller *controller = context;
    return controller->looked && metadata_store_count(controller->expected) == 0;
}

static void on_head(void *context, const slot_message_head *from) {
    controller *controller = context;
    uint32_t worker = from->who & ~(uint32_t)SLOT_MESSAGE_WORKER;
    if (from->number > batcher_map(controller->batcher)->number) controller->next_poll_us = controller->now_us;
    if (from->incarnation == 0) return;
    if (from->who < SLOT_MESSAGE_RANK) {
        heard(controller, &controller->servers, from->who, from->incarnation, from->address);
        spoke(&controller->servers, from->who, from->incarnation);
        const cluster_map_server *listed = cluster_map_find(batcher_map(controller->batcher), from->who);
        if (listed != NULL && listed->incarnation == from->incarnation) controller->resumes = false;
    } else if (worker < SLOT_MESSAGE_RANK)
        heard(controller, &controller->workers, worker, from->incarnation, from->address);
}

static void take_gate(controller *controller, const slot_message_head *from, const slot_message *message) {
    const cluster_map *map = batcher_map(controller->batcher);
    if (message->slot >= map->slot_count) return;
    const cluster_map_slot *slot = &map->slots[message->slot];
    if (message->epoch != slot->epoch || slot->count == 0 || slot->chain[slot->count - 1].server != from->who) return;
    MR_ASSERT(controller->gates != NULL);
    controller->gates[message->slot] = (map_planner_gate){.epoch = message->epoch,
                                                          .server = (uint32_t)message->name,
                                                          .incarnation = message->prev,
                                                          .ready = message->status == SLOT_MESSAGE_OK};
}

/* Only a process that holds a rank can report: a reader tells its program of the loss as well, but another program
 * has trained. */
static void take_report(controller *controller, const slot_message_head *from, const slot_message *message) {
    const cluster_map *map = batcher_map(controller->batcher);
    bool holds = false;
    for (uint32_t i = 0; !holds && map->ranks != NULL && i < map->rank_count; i++)
        holds = map->ranks[i].since != 0 && from->who == (SLOT_MESSAGE_WORKER | map->ranks[i].worker) &&
                from->incarnation == map->ranks[i].incarnation;
    if (!holds || message->name != map->generation || map->reported) return;
    controller->reported = message->name;
    hasten(controller);
}

/* If the checkpoint from which this generation begins is damaged, some replicas wait for it in vain; with the
 * policy `restores` another generation begins. The process of the checkpoint store logs the damage
 * (checkpoint_store_check). */
static void take_damage(controller *controller, const slot_message *message) {
    bool gone = message->status == SLOT_MESSAGE_OK && message->name < batcher_map(controller->batcher)->origin;
    if (gone && controller->options.restores) controller->restoring = true;
}

static void on_part(void *context, const slot_message_head *from, const slot_message *message, shared_bytes *bytes) {
    controller *controller = context;
    if (message->kind == SLOT_MESSAGE_WHOLE && from->who == SLOT_MESSAGE_CHECKPOINTS && message->payload.size != 0)
        take_damage(controller, message);
    if (message->kind == SLOT_MESSAGE_GATE) take_gate(controller, from, message);
    if (message->kind == SLOT_MESSAGE_REPORTED) take_report(controller, from, message);
    if (message->kind == SLOT_MESSAGE_SEALED) hasten(controller);
    if (message->kind == SLOT_MESSAGE_LOAD)
        load_tracker_take(&controller->tracker, batcher_map(controller->batcher), message);
    if (checkpointer_take(&controller->checkpointer, batcher_map(controller->batcher), message) &&
        controller->options.on_checkpoint != NULL)
        controller->options.on_checkpoint(controller->options.context, controller->checkpointer.newest);
    if (message->kind == SLOT_MESSAGE_PAUSED || message->kind == SLOT_MESSAGE_ORDERED ||
        message->kind == SLOT_MESSAGE_WHOLE)
        order_marks(controller, true);
    if (message->kind == SLOT_MESSAGE_ORDERED && message->entry == REPLICA_LOG_DROP && controller->drops != NULL &&
        message->rank < controller->options.rank_count)
        if (controller->drops[message->rank] == message->name) controller->drops[message->rank] = 0;
}

/* ---- Creation and death. */

controller *controller_create(const controller_options *options, int64_t now_us) {
    MR_ASSERT(options->send != NULL && options->store.ops != NULL && options->rng != NULL);
    MR_ASSERT(options->slot_count <= CLUSTER_MAP_SLOTS_MAX && options->rank_count <= CLUSTER_MAP_RANKS_MAX);
    MR_ASSERT(options->reader_count <= CLUSTER_MAP_RANKS_MAX - options->rank_count);
    MR_ASSERT(options->copies <= CLUSTER_MAP_COPIES_MAX && options->pause_us >= 0 && options->hold_us > 0);
    controller *controller =
        XNEW(struct controller, .options = *options, .now_us = now_us, .servers.most = CLUSTER_MAP_SERVERS_MAX,
             .workers = {.watch = SLOT_MESSAGE_WORKER, .most = CLUSTER_MAP_RANKS_MAX},
             .checkpointer = {.exact = options->pause_us != 0, .pause_us = options->pause_us},
             .tracker.terms = options->balance);
    detector_options detector = {.interval_us = CONTROLLER_TICK_US, .suspect_us = CONTROLLER_SUSPECT_US};
    controller->detector = detector_create(&detector, now_us);
    batcher_host host = {.send = options->send,
                         .send_context = options->context,
                         .on_map = on_map,
                         .on_part = on_part,
                         .on_head = on_head,
                         .admits_map = admits_map,
                         .context = controller};
    controller->batcher = batcher_create(&host, SLOT_MESSAGE_CONTROLLER, options->address);
    return controller;
}

void controller_destroy(controller *controller) {
    detector_destroy(controller->detector);
    batcher_destroy(controller->batcher);
    cluster_map_fini(&controller->proposed);
    hash_ring_destroy(controller->ring);
    free(controller->alive);
    free(controller->servers.list);
    free(controller->workers.list);
    free(controller->gates);
    free(controller->drops);
    load_tracker_fini(&controller->tracker);
    checkpointer_fini(&controller->checkpointer);
    free(controller);
}

static void check_process_group(const controller *controller, const process_group *group) {
    MR_ASSERT(group->count <= group->most); /* 1 */
    for (size_t i = 0; i < group->count; i++) {
        const known *known = &group->list[i];
        MR_ASSERT(i == 0 || known[-1].id < known->id);                               /* 1 */
        MR_ASSERT(detector_watches(controller->detector, group->watch + known->id)); /* 1 */
    }
}

void controller_check(const controller *controller) {
    const cluster_map *map = batcher_map(controller->batcher);
    check_process_group(controller, &controller->servers);
    check_process_group(controller, &controller->workers);
    MR_ASSERT(map->number == 0 || controller->gates != NULL); /* 2 */
    for (uint32_t i = 0; controller->gates != NULL && i < map->slot_count; i++)
        MR_ASSERT(controller->gates[i].epoch <= map->slots[i].epoch); /* 2 */
    /* 3 */
    MR_ASSERT(controller->alive_count <= controller->servers.count);
    /* 3 */
    for (size_t i = 1; i < controller->alive_count; i++) MR_ASSERT(controller->alive[i - 1] < controller->alive[i]);
    /* 4 */
    cluster_map_check(map);
    /* 4 */
    checkpointer_check(&controller->checkpointer);
}

void controller_take(controller *controller, span bytes, int64_t now_us) {
    controller->now_us = now_us;
    batcher_take(controller->batcher, bytes);
    CHECK_INVARIANTS(
        controller->servers.count + controller->workers.count + batcher_map(controller->batcher)->slot_count,
        controller_check(controller));
}

int64_t controller_next_us(const controller *controller) { return controller->next_tick_us; }

/* The metadata store has lost its decisions and begun another generation of versions (cluster/metadata_store.h).
 * Cluster maps after the known one cannot be determined: only the last checkpoint is certain. */
static bool is_forgotten(const controller *controller, const cluster_map *map) {
    return controller->options.checkpoints != NULL && controller->options.restores &&
           controller->expected > map->number && metadata_store_count(controller->expected) == 0;
}

void controller_tick(controller *controller, int64_t now_us) {
    controller->now_us = now_us;
    controller->next_tick_us = now_us + CONTROLLER_TICK_US;
    (void)detector_tick(controller->detector, now_us);
    give_up_one(controller);
    probe(controller);
    load_tracker_tick(&controller->tracker, now_us);
    const cluster_map *map = batcher_map(controller->batcher);
    /* the metadata store does not know yet that it lost its disk */
    bool behind = controller->checkpointer.known > controller->expected;
    if (!controller->asking && (!controller->looked || behind || now_us >= controller->next_poll_us))
        look(controller);
    else if (!controller->asking && (map->number == 0 || is_forgotten(controller, map)))
        begin(controller);
    else if (!controller->asking && map->number == controller->expected)
        go_on(controller, map);
    order_drops(controller, map);
    order_marks(controller, false);
    batcher_flush(controller->batcher);
    CHECK_INVARIANTS(
        controller->servers.count + controller->workers.count + batcher_map(controller->batcher)->slot_count,
        controller_check(controller));
}

static void hint(controller *controller, const process_group *group, const char *address) {
    for (size_t i = 0; i < group->count; i++)
        if (strcmp(group->list[i].address, address) == 0)
            detector_hint(controller->detector, group->watch + group->list[i].id, controller->now_us);
}

void controller_broken(controller *controller, const char *address, bool silent, int64_t now_us) {
    controller->now_us = now_us;
    if (silent) return; /* the detector has noticed the silence */
    hint(controller, &controller->servers, address);
    hint(controller, &controller->workers, address);
}

void controller_pin(controller *controller, const slot_placement_pin *pins, size_t count) {
    controller->pins = pins;
    controller->pin_count = count;
}

void controller_retire(controller *controller, const uint32_t *servers, size_t count) {
    for (size_t i = 1; i < count; i++) MR_ASSERT(servers[i - 1] < servers[i]); /* sorted */
    controller->leaving = servers;
    controller->leaving_count = count;
}

const cluster_map *controller_map(const controller *controller) { return batcher_map(controller->batcher); }

/* The order's number is above all orders of that term and below all of the next one. */
void controller_drop(controller *controller, uint32_t rank, uint64_t term) {
    MR_ASSERT(rank < controller->options.rank_count && term != 0);
    if (controller->drops == NULL)
        controller->drops = xcalloc(controller->options.rank_count, sizeof *controller->drops);
    controller->drops[rank] = term << 16 | UINT16_MAX;
}

void controller_checkpoint(controller *controller) { checkpointer_want(&controller->checkpointer); }
bool controller_marks(const controller *controller) { return controller->checkpointer.wanted != 0; }

uint64_t controller_saved(const controller *controller, uint64_t *making) {
    *making = controller->checkpointer.making;
    return controller->checkpointer.saved;
}

bool controller_bound(const controller *controller, uint64_t *number) {
    return checkpointer_bound(&controller->checkpointer, number) || controller->options.checkpoints == NULL;
}
void controller_restore(controller *controller) { controller->restoring = true; }

bool controller_lost(controller *controller, uint32_t slot) {
    MR_ASSERT(slot < batcher_map(controller->batcher)->slot_count);
    cluster_map_process servers[CLUSTER_MAP_SERVERS_MAX];
    map_planner_facts facts = facts_of(controller, servers, false);
    return map_planner_is_lost(batcher_map(controller->batcher), &facts, slot);
}
