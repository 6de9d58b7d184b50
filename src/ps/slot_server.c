/* slot_server.c — see slot_server.h. */
#include "ps/slot_server.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/clock.h"
#include "base/invariants.h"
#include "base/mutation.h"
#include "cluster/metadata_store.h"

typedef struct voice { /* address of a rank's process, from the first packet of its newest term */
    uint64_t term;     /* 0: no packet yet */
    char address[SLOT_MESSAGE_ADDRESS_MAX];
} voice;

typedef struct work { /* requests for a slot since the last load report */
    uint32_t requests, pulls;
} work;

struct slot_server {
    slot_server_options options;
    replica_host host;
    credit credit;
    batcher *batcher;
    int64_t next_beat_us, next_tick_us;
    uint64_t generation;
    uint32_t slot_count, rank_count, client_count; /* client_count: ranks and readers */
    replica **replicas;                            /* by slot, owned */
    voice *voices;                                 /* by rank, then the readers, owned */
    work *work;                                    /* by slot, owned */
    unsigned beats;
    slot_server_work done;
};

/* ---- Messages of replicas. */

static void to_server(void *context, uint32_t id, const slot_message *message) {
    slot_server *server = context;
    const cluster_map_server *peer = cluster_map_find(batcher_map(server->batcher), id);
    if (peer != NULL) batcher_add(server->batcher, peer->address, message);
}

/* Whether `term` is the rank's term in the newest cluster map known here. */
static bool is_term(const slot_server *server, uint32_t rank, uint64_t term) {
    MR_ASSERT(rank < server->client_count);
    return term != 0 && (term == batcher_map(server->batcher)->ranks[rank].since || MUTATED("no-stint"));
}

/* Answers go to the rank's newest term that this replica has seen. An entry applied here may have been pushed by a
 * newer term to another head; an earlier term that is known here must not receive the answer. */
static void to_rank(void *context, uint32_t rank, const slot_message *message) {
    slot_server *server = context;
    server->done.bytes_out += message->payload.size;
    if (rank < server->client_count && is_term(server, rank, server->voices[rank].term))
        batcher_add(server->batcher, server->voices[rank].address, message);
}

static void to_head(void *context, uint32_t slot, const slot_message *message) {
    slot_server *server = context;
    const cluster_map *map = batcher_map(server->batcher);
    MR_ASSERT(slot < map->slot_count);
    const cluster_map_slot *chain = &map->slots[slot];
    const cluster_map_server *head = chain->count == 0 ? NULL : cluster_map_find(map, chain->chain[0].server);
    if (head == NULL) return;
    struct slot_message copy = *message;
    copy.slot = slot;
    copy.epoch = chain->epoch;
    batcher_add(server->batcher, head->address, &copy);
}

static void to_controller(void *context, const slot_message *message) {
    slot_server *server = context;
    batcher_add(server->batcher, server->options.controller, message);
}

static void to_checkpoints(void *context, const slot_message *message) {
    slot_server *server = context;
    batcher_add(server->batcher, server->options.checkpoints, message);
}

/* ---- Received messages. */

/* Creates the replica when it is first needed: most slots have none here. */
static replica *replica_of(slot_server *server, uint32_t slot) {
    MR_ASSERT(slot < server->slot_count);
    if (server->replicas[slot] == NULL) {
        server->replicas[slot] = replica_create(&server->host, slot);
        replica_enter(server->replicas[slot], batcher_map(server->batcher));
    }
    return server->replicas[slot];
}

static void drop_replicas(slot_server *server) {
    for (uint32_t i = 0; i < server->slot_count; i++)
        if (server->replicas[i] != NULL) replica_destroy(server->replicas[i]);
    free(server->replicas);
    free(server->voices);
    free(server->work);
    credit_fini(&server->credit);
}

/* Drops all state of the former generation. */
static void begin_generation(slot_server *server, const cluster_map *map) {
    drop_replicas(server);
    server->generation = map->generation;
    server->slot_count = map->slot_count;
    server->rank_count = map->rank_count;
    server->client_count = cluster_map_clients(map);
    uint64_t rank_bytes = server->options.rank_bytes;
    if (server->options.ranks_bytes != 0) rank_bytes = 1 + server->options.ranks_bytes / (map->rank_count + 1);
    credit_init(&server->credit, map->rank_count, rank_bytes, server->options.link_bytes);
    server->replicas = xcalloc(map->slot_count + 1, sizeof(replica *));
    server->voices = xcalloc(server->client_count + 1, sizeof *server->voices);
    server->work = xcalloc(map->slot_count + 1, sizeof *server->work);
}

/* Checks replicas that entered an epoch or were ticked; replica_take checks its own. */
static void check_replicas(const slot_server *server) {
    for (uint32_t i = 0; i < server->slot_count; i++)
        if (server->replicas[i] != NULL) CHECK_INVARIANTS(server->rank_count, replica_check(server->replicas[i]));
}

static void on_map(void *context, const cluster_map *map) {
    slot_server *server = context;
    if (server->replicas == NULL || server->generation != map->generation) begin_generation(server, map);
    for (uint32_t i = 0; i < server->slot_count; i++)
        if (server->replicas[i] != NULL)
            replica_enter(server->replicas[i], map);
        else if (cluster_map_place(&map->slots[i], server->options.id, server->host.incarnation) >= 0)
            (void)replica_of(server, i);
    check_replicas(server);
}

static void on_head(void *context, const slot_message_head *from) {
    slot_server *server = context;
    uint32_t rank = from->who & ~(uint32_t)SLOT_MESSAGE_RANK;
    if ((from->who & SLOT_MESSAGE_RANK) == 0 || rank >= server->client_count) return;
    if (server->voices[rank].term == from->incarnation || !is_term(server, rank, from->incarnation)) return;
    server->voices[rank].term = from->incarnation;
    strcpy(server->voices[rank].address, from->address); /* constant during a term */
}

static bool is_known(const slot_server *server, uint32_t id, uint64_t incarnation) {
    const cluster_map_server *peer = cluster_map_find(batcher_map(server->batcher), id);
    return peer != NULL && peer->incarnation == incarnation;
}

/* Whether the sender's incarnation or term is the current one. Messages of others are ignored. */
static bool is_present(const slot_server *server, const slot_message_head *from) {
    uint32_t rank = from->who & ~(uint32_t)SLOT_MESSAGE_RANK;
    if ((from->who & SLOT_MESSAGE_RANK) != 0)
        return rank < server->client_count && is_term(server, rank, from->incarnation);
    return from->who >= SLOT_MESSAGE_RANK || is_known(server, from->who, from->incarnation);
}

/* Refuses a push while memory is full, even an applied one; the rank then asks about the push without its payload,
 * and that question is answered. */
static bool refuses(slot_server *server, const slot_message *message) {
    if (server->options.is_full == NULL || !server->options.is_full(server->options.context)) return false;
    to_rank(server, message->rank,
            &(struct slot_message){.kind = SLOT_MESSAGE_PUSHED,
                                   .status = SLOT_MESSAGE_LATER,
                                   .slot = message->slot,
                                   .rank = message->rank,
                                   .epoch = message->epoch,
                                   .name = message->name,
                                   .commit = credit_grant(&server->credit),
                                   .lsn = SLOT_MESSAGE_FULL});
    return true;
}

/* A server that is in the cluster map was accepted, so REPLACED means that another process took its place. */
static void take_replaced(slot_server *server, const slot_message_head *from, const slot_message *message) {
    const slot_server_options *options = &server->options;
    const cluster_map_server *self = cluster_map_find(batcher_map(server->batcher), options->id);
    bool is_heard = self != NULL && self->incarnation == server->host.incarnation;
    bool later = metadata_store_generation(message->name) > metadata_store_generation(server->host.incarnation);
    if (from->who != SLOT_MESSAGE_CONTROLLER || message->name <= server->host.incarnation) return;
    if (later && !is_heard && options->on_replaced != NULL) options->on_replaced(options->context, message->name);
    if ((!later || is_heard) && options->on_deposed != NULL) options->on_deposed(options->context);
}

static void count_push(slot_server *server, const slot_message *message) {
    MR_ASSERT(message->slot < server->slot_count);
    server->done.pushes += (message->entry & SLOT_MESSAGE_PUSH_ASK) == 0;
    server->done.bytes_in += message->payload.size;
    server->work[message->slot].requests++;
}

static void count_pull(slot_server *server, const slot_message *message) {
    server->done.pulls++;
    server->work[message->slot].requests++;
    server->work[message->slot].pulls++;
}

/* Whether a sender of this role may send this message. */
static bool may_say(const slot_server *server, const slot_message_head *from, const slot_message *message) {
    bool reads = (from->who & SLOT_MESSAGE_RANK) != 0 && message->rank >= server->rank_count;
    switch (message->kind) {
    case SLOT_MESSAGE_PUSH: return !reads && from->who == (SLOT_MESSAGE_RANK | message->rank);
    case SLOT_MESSAGE_PULL:
    case SLOT_MESSAGE_HELLO: return from->who == (SLOT_MESSAGE_RANK | message->rank);
    case SLOT_MESSAGE_ORDER:
        if (from->who == SLOT_MESSAGE_CONTROLLER) return true;
        return !reads && message->entry != REPLICA_LOG_DROP && message->entry != REPLICA_LOG_MARK &&
               from->who == (SLOT_MESSAGE_RANK | message->rank);
    case SLOT_MESSAGE_SAVED:
    case SLOT_MESSAGE_SHARD: return from->who == SLOT_MESSAGE_CHECKPOINTS;
    /* Between the servers of a chain, and between them and the round state's. */
    case SLOT_MESSAGE_ENTRY:
    case SLOT_MESSAGE_LEVEL:
    case SLOT_MESSAGE_ENTER:
    case SLOT_MESSAGE_LOG:
    case SLOT_MESSAGE_ENTERED:
    case SLOT_MESSAGE_STATE:
    case SLOT_MESSAGE_FREEZE:
    case SLOT_MESSAGE_FROZEN:
    case SLOT_MESSAGE_TERMS:
    case SLOT_MESSAGE_MEASURE:
    case SLOT_MESSAGE_MEASURED:
    case SLOT_MESSAGE_NORMS: return from->who < SLOT_MESSAGE_RANK;
    /* Before the cluster map with this joiner arrives, messages of its previous incarnation would be accepted, and a
     * LEVEL of that process would count as the joiner's. */
    case SLOT_MESSAGE_JOIN:
        return from->who == SLOT_MESSAGE_CONTROLLER && is_known(server, (uint32_t)message->name, message->prev);
    default: return true;
    }
}

static void on_part(void *context, const slot_message_head *from, const slot_message *message, shared_bytes *bytes) {
    slot_server *server = context;
    if (message->kind == SLOT_MESSAGE_REPLACED) {
        take_replaced(server, from, message);
        return;
    }
    if (message->slot >= server->slot_count || !is_present(server, from) || !may_say(server, from, message)) return;
    size_t most = message->kind == SLOT_MESSAGE_PUSH ? SLOT_SERVER_PUSH_MAX : SLOT_SERVER_QUERY_MAX;
    if ((from->who & SLOT_MESSAGE_RANK) != 0 && message->payload.size > most) return;
    if (message->kind == SLOT_MESSAGE_PUSH && message->payload.size != 0 && refuses(server, message)) return;
    if (message->kind == SLOT_MESSAGE_PUSH) count_push(server, message);
    if (message->kind == SLOT_MESSAGE_PULL) count_pull(server, message);
    replica_take(replica_of(server, message->slot), from->who, message, bytes);
}

/* ---- Creation and death. */

slot_server *slot_server_create(const slot_server_options *options) {
    MR_ASSERT(options->values != NULL && options->send != NULL && options->id < SLOT_MESSAGE_RANK);
    MR_ASSERT(strlen(options->controller) < SLOT_MESSAGE_ADDRESS_MAX);
    slot_server *server = XNEW(slot_server, .options = *options);
    server->next_beat_us = server->next_tick_us = CLOCK_NEVER_US;
    server->host = (replica_host){.values = options->values,
                                  .values_context = options->values_context,
                                  .server = options->id,
                                  .credit = &server->credit,
                                  .to_server = to_server,
                                  .to_rank = to_rank,
                                  .to_controller = to_controller,
                                  .to_head = to_head,
                                  .to_checkpoints = options->checkpoints == NULL ? NULL : to_checkpoints,
                                  .on_loaded = options->on_loaded,
                                  .on_applied = options->on_applied,
                                  .watcher = options->context,
                                  .context = server};
    batcher_host host = {.send = options->send,
                         .send_context = options->context,
                         .send_pieces = options->send_pieces,
                         .on_map = on_map,
                         .on_part = on_part,
                         .on_head = on_head,
                         .context = server,
                         .controller = options->controller,
                         .cache = options->cache,
                         .takes_pieces = true,
                         .piece = options->piece};
    server->batcher = batcher_create(&host, options->id, options->address);
    return server;
}

void slot_server_destroy(slot_server *server) {
    drop_replicas(server);
    batcher_destroy(server->batcher);
    free(server);
}

void slot_server_begin(slot_server *server, uint64_t incarnation, int64_t now_us) {
    MR_ASSERT(incarnation != 0);
    server->host.incarnation = incarnation;
    batcher_set_incarnation(server->batcher, incarnation);
    server->next_beat_us = server->next_tick_us = now_us;
}

void slot_server_take_bytes(slot_server *server, span bytes, shared_bytes *shared) {
    if (server->host.incarnation != 0) batcher_take_bytes(server->batcher, bytes, shared);
    CHECK_INVARIANTS(server->slot_count * (server->rank_count + 8), slot_server_check(server));
}

int64_t slot_server_next_us(const slot_server *server) {
    return server->next_beat_us < server->next_tick_us ? server->next_beat_us : server->next_tick_us;
}

/* Reports the load of the slots whose head is here. */
static void tell_load(slot_server *server) {
    const cluster_map *map = batcher_map(server->batcher);
    for (uint32_t i = 0; i < server->slot_count; i++) {
        slot_message message = {.kind = SLOT_MESSAGE_LOAD,
                                .slot = i,
                                .epoch = map->slots[i].epoch,
                                .lsn = server->work[i].requests,
                                .name = server->work[i].pulls};
        if (message.lsn != 0 && cluster_map_place(&map->slots[i], server->options.id, server->host.incarnation) == 0)
            batcher_add(server->batcher, server->options.controller, &message);
        server->work[i] = (work){0};
    }
}

void slot_server_tick(slot_server *server, int64_t now_us) {
    if (now_us >= server->next_beat_us) {
        server->next_beat_us = now_us + SLOT_SERVER_BEAT_US;
        batcher_add(server->batcher, server->options.controller, NULL);
        if (++server->beats % SLOT_SERVER_LOAD_BEATS == 0) tell_load(server);
    }
    if (now_us >= server->next_tick_us) {
        server->next_tick_us = now_us + SLOT_SERVER_TICK_US;
        for (uint32_t i = 0; i < server->slot_count; i++)
            if (server->replicas[i] != NULL) replica_tick(server->replicas[i], now_us);
    }
    check_replicas(server);
    batcher_flush(server->batcher);
    CHECK_INVARIANTS(server->slot_count * (server->rank_count + 8), slot_server_check(server));
}

const slot_server_work *slot_server_work_done(const slot_server *server) { return &server->done; }

uint64_t slot_server_disputes(const slot_server *server) {
    uint64_t count = 0;
    for (uint32_t i = 0; i < server->slot_count; i++)
        if (server->replicas[i] != NULL) count += replica_look_at(server->replicas[i]).dispute.count;
    return count;
}

uint64_t slot_server_incarnation(const slot_server *server) { return server->host.incarnation; }
const credit *slot_server_credit(const slot_server *server) { return &server->credit; }
const cluster_map *slot_server_map(const slot_server *server) { return batcher_map(server->batcher); }
const replica *slot_server_replica(const slot_server *server, uint32_t slot) {
    return slot < server->slot_count ? server->replicas[slot] : NULL;
}

static void check_credit(const slot_server *server) {
    uint64_t linked = 0;
    for (uint32_t i = 0; i < server->slot_count; i++)
        if (server->replicas[i] != NULL) linked += replica_look_at(server->replicas[i]).linked;
    MR_ASSERT(linked == server->credit.linked); /* 3 */
    for (uint32_t rank = 0; rank < server->rank_count; rank++) {
        uint64_t held = 0;
        for (uint32_t i = 0; i < server->slot_count; i++)
            if (server->replicas[i] != NULL) held += replica_held(server->replicas[i], rank);
        MR_ASSERT(held == server->credit.held[rank]); /* 3 */
    }
}

void slot_server_check(const slot_server *server) {
    const cluster_map *map = batcher_map(server->batcher);
    if (map->number == 0) return;                                                              /* no cluster map yet */
    MR_ASSERT(server->replicas != NULL && server->generation == map->generation);              /* 1 */
    MR_ASSERT(server->slot_count == map->slot_count && server->rank_count == map->rank_count); /* 1 */
    MR_ASSERT(server->credit.rank_count == map->rank_count);                                   /* 1 */
    MR_ASSERT(server->client_count == cluster_map_clients(map));                               /* 1 */
    for (uint32_t i = 0; i < server->slot_count; i++) {
        const replica *replica = server->replicas[i];
        MR_ASSERT(replica != NULL ||
                  cluster_map_place(&map->slots[i], server->options.id, server->host.incarnation) < 0); /* 2 */
        if (replica == NULL) continue;
        MR_ASSERT(replica_slot(replica) == i && replica_look_at(replica).epoch == map->slots[i].epoch); /* 2 */
    }
    check_credit(server);
    for (uint32_t i = 0; i < server->client_count; i++)
        MR_ASSERT(server->voices[i].term == 0 || server->voices[i].address[0] != '\0'); /* 4 */
}
