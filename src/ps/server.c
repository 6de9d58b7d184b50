/* server.c — see server.h. */
#include "ps/server.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/clock.h"
#include "base/invariants.h"
#include "base/mutation.h"
#include "cluster/coordinator.h"

typedef struct voice { /* who spoke for a rank last, when it was the one to listen to */
    uint64_t stint;    /* 0: nobody yet */
    char address[PART_ADDRESS_MAX];
} voice;

typedef struct work { /* for a slot, since it last said so */
    uint32_t requests, pulls;
} work;

struct server {
    server_options options;
    char director[PART_ADDRESS_MAX], depot[PART_ADDRESS_MAX];
    replica_host host;
    credit credit;
    post *post;
    int64_t next_beat_us, next_tick_us;
    uint64_t generation;
    uint32_t slot_count, rank_count;
    replica **replicas; /* by slot, owned */
    voice *voices;      /* by rank, owned */
    work *work;         /* by slot, owned */
    unsigned beats;
    server_work done;
};

/* ---- What replicas say. */

static void to_server(void *context, uint32_t id, const part *part) {
    server *server = context;
    const chart_server *peer = chart_find(post_chart(server->post), id);
    if (peer != NULL) post_add(server->post, peer->address, part);
}

/* Is this the stint that counts? */
static bool is_stint(const server *server, uint32_t rank, uint64_t stint) {
    MR_ASSERT(rank < server->rank_count);
    return stint != 0 && (stint == post_chart(server->post)->players[rank].since || MUTATED("no-stint"));
}

/* To the stint that counts, once it has been heard. What is applied here may have been pushed by a stint that spoke to
 * another head: the one before it, that this server has heard, would take it for its own. */
static void to_rank(void *context, uint32_t rank, const part *part) {
    server *server = context;
    server->done.bytes_out += part->payload.size;
    if (rank < server->rank_count && is_stint(server, rank, server->voices[rank].stint))
        post_add(server->post, server->voices[rank].address, part);
}

static void to_head(void *context, uint32_t slot, const part *part) {
    server *server = context;
    const chart *chart = post_chart(server->post);
    MR_ASSERT(slot < chart->slot_count);
    const chart_slot *chain = &chart->slots[slot];
    const chart_server *head = chain->count == 0 ? NULL : chart_find(chart, chain->chain[0].server);
    if (head == NULL) return;
    struct part copy = *part;
    copy.slot = slot;
    copy.epoch = chain->epoch;
    post_add(server->post, head->address, &copy);
}

static void to_director(void *context, const part *part) {
    server *server = context;
    post_add(server->post, server->director, part);
}

static void to_depot(void *context, const part *part) {
    server *server = context;
    post_add(server->post, server->depot, part);
}

/* ---- What comes. */

/* Made when it is first needed: most slots are never of this server's concern. */
static replica *replica_of(server *server, uint32_t slot) {
    MR_ASSERT(slot < server->slot_count);
    if (server->replicas[slot] == NULL) {
        server->replicas[slot] = replica_create(&server->host, slot);
        replica_enter(server->replicas[slot], post_chart(server->post));
    }
    return server->replicas[slot];
}

static void drop_replicas(server *server) {
    for (uint32_t i = 0; i < server->slot_count; i++)
        if (server->replicas[i] != NULL) replica_destroy(server->replicas[i]);
    free(server->replicas);
    free(server->voices);
    free(server->work);
    credit_fini(&server->credit);
}

/* Nothing of another generation is of any use in this one. */
static void begin_generation(server *server, const chart *chart) {
    drop_replicas(server);
    server->generation = chart->generation;
    server->slot_count = chart->slot_count;
    server->rank_count = chart->rank_count;
    uint64_t rank_bytes = server->options.rank_bytes;
    if (server->options.ranks_bytes != 0) rank_bytes = 1 + server->options.ranks_bytes / (chart->rank_count + 1);
    credit_init(&server->credit, chart->rank_count, rank_bytes, server->options.link_bytes);
    server->replicas = xcalloc(chart->slot_count + 1, sizeof(replica *));
    server->voices = xcalloc(chart->rank_count + 1, sizeof *server->voices);
    server->work = xcalloc(chart->slot_count + 1, sizeof *server->work);
}

/* What entered an epoch or was ticked; replica_take checks by itself. */
static void check_replicas(const server *server) {
    for (uint32_t i = 0; i < server->slot_count; i++)
        if (server->replicas[i] != NULL) CHECK_INVARIANTS(server->rank_count, replica_check(server->replicas[i]));
}

static void on_chart(void *context, const chart *chart) {
    server *server = context;
    if (server->replicas == NULL || server->generation != chart->generation) begin_generation(server, chart);
    for (uint32_t i = 0; i < server->slot_count; i++)
        if (server->replicas[i] != NULL)
            replica_enter(server->replicas[i], chart);
        else if (chart_place(&chart->slots[i], server->options.id, server->host.incarnation) >= 0)
            (void)replica_of(server, i);
    check_replicas(server);
}

static void on_head(void *context, const part_head *from) {
    server *server = context;
    uint32_t rank = from->who & ~(uint32_t)PART_RANK;
    if ((from->who & PART_RANK) == 0 || rank >= server->rank_count) return;
    if (server->voices[rank].stint == from->incarnation || !is_stint(server, rank, from->incarnation)) return;
    server->voices[rank].stint = from->incarnation;
    strcpy(server->voices[rank].address, from->address); /* which a stint keeps */
}

static bool is_known(const server *server, uint32_t id, uint64_t incarnation) {
    const chart_server *peer = chart_find(post_chart(server->post), id);
    return peer != NULL && peer->incarnation == incarnation;
}

/* What another process of a server or another stint of a rank said is nobody's word. */
static bool is_present(const server *server, const part_head *from) {
    uint32_t rank = from->who & ~(uint32_t)PART_RANK;
    if ((from->who & PART_RANK) != 0) return rank < server->rank_count && is_stint(server, rank, from->incarnation);
    return from->who >= PART_RANK || is_known(server, from->who, from->incarnation);
}

/* What has been applied already is refused too, and found there when the rank asks for it without its payload. */
static bool refuses(server *server, const part *part) {
    if (server->options.is_full == NULL || !server->options.is_full(server->options.context)) return false;
    to_rank(server, part->rank,
            &(struct part){.kind = PART_PUSHED,
                           .status = PART_LATER,
                           .slot = part->slot,
                           .rank = part->rank,
                           .epoch = part->epoch,
                           .name = part->name,
                           .commit = credit_grant(&server->credit),
                           .lsn = PART_FULL});
    return true;
}

/* One that is in the chart was heard: it is another process that replaces it. */
static void take_replaced(server *server, const part_head *from, const part *part) {
    const server_options *options = &server->options;
    const chart_server *self = chart_find(post_chart(server->post), options->id);
    bool is_heard = self != NULL && self->incarnation == server->host.incarnation;
    bool later = coordinator_generation(part->name) > coordinator_generation(server->host.incarnation);
    if (from->who != PART_DIRECTOR || part->name <= server->host.incarnation) return;
    if (later && !is_heard && options->on_replaced != NULL) options->on_replaced(options->context, part->name);
    if ((!later || is_heard) && options->on_deposed != NULL) options->on_deposed(options->context);
}

static void count_push(server *server, const part *part) {
    MR_ASSERT(part->slot < server->slot_count);
    server->done.pushes += (part->entry & PART_PUSH_ASK) == 0;
    server->done.bytes_in += part->payload.size;
    server->work[part->slot].requests++;
}

static void count_pull(server *server, const part *part) {
    server->done.pulls++;
    server->work[part->slot].requests++;
    server->work[part->slot].pulls++;
}

/* Is it the sender's to say this? */
static bool may_say(const server *server, const part_head *from, const part *part) {
    switch (part->kind) {
    case PART_PUSH:
    case PART_PULL:
    case PART_HELLO: return from->who == (PART_RANK | part->rank);
    case PART_ORDER:
        if (from->who == PART_DIRECTOR) return true;
        return part->entry != TAPE_DROP && part->entry != TAPE_MARK && from->who == (PART_RANK | part->rank);
    case PART_SAVED:
    case PART_SHARD: return from->who == PART_DEPOT;
    /* Until the chart with this joiner is here the process before it is heard, and its level would be the joiner's. */
    case PART_JOIN: return is_known(server, (uint32_t)part->name, part->prev);
    default: return true;
    }
}

static void on_part(void *context, const part_head *from, const part *part, bale *bale) {
    server *server = context;
    if (part->kind == PART_REPLACED) {
        take_replaced(server, from, part);
        return;
    }
    if (part->slot >= server->slot_count || !is_present(server, from) || !may_say(server, from, part)) return;
    if ((from->who & PART_RANK) != 0 && part->payload.size > SERVER_PUSH_MAX) return;
    if (part->kind == PART_PUSH && part->payload.size != 0 && refuses(server, part)) return;
    if (part->kind == PART_PUSH) count_push(server, part);
    if (part->kind == PART_PULL) count_pull(server, part);
    replica_take(replica_of(server, part->slot), from->who, part, bale);
}

/* ---- Life. */

server *server_create(const server_options *options) {
    MR_ASSERT(options->values != NULL && options->send != NULL && options->id < PART_RANK);
    MR_ASSERT(strlen(options->director) < PART_ADDRESS_MAX);
    server *server = xcalloc(1, sizeof *server);
    server->options = *options;
    strncpy(server->director, options->director, sizeof server->director - 1);
    if (options->depot != NULL) strncpy(server->depot, options->depot, sizeof server->depot - 1);
    server->host = (replica_host){.values = options->values,
                                  .values_context = options->values_context,
                                  .server = options->id,
                                  .credit = &server->credit,
                                  .to_server = to_server,
                                  .to_rank = to_rank,
                                  .to_director = to_director,
                                  .to_head = to_head,
                                  .to_depot = options->depot == NULL ? NULL : to_depot,
                                  .on_loaded = options->on_loaded,
                                  .on_applied = options->on_applied,
                                  .watcher = options->context,
                                  .context = server};
    post_host host = {.send = options->send,
                      .send_context = options->context,
                      .send_pieces = options->send_pieces,
                      .on_chart = on_chart,
                      .on_part = on_part,
                      .on_head = on_head,
                      .context = server,
                      .atlas = options->atlas};
    server->post = post_create(&host, options->id, options->address);
    server->next_beat_us = server->next_tick_us = CLOCK_NEVER_US;
    return server;
}

void server_destroy(server *server) {
    drop_replicas(server);
    post_destroy(server->post);
    free(server);
}

void server_begin(server *server, uint64_t incarnation, int64_t now_us) {
    MR_ASSERT(incarnation != 0);
    server->host.incarnation = incarnation;
    post_set_incarnation(server->post, incarnation);
    server->next_beat_us = server->next_tick_us = now_us;
}

void server_take_bale(server *server, span bytes, bale *bale) {
    if (server->host.incarnation != 0) post_take_bale(server->post, bytes, bale);
    CHECK_INVARIANTS(server->slot_count * (server->rank_count + 8), server_check(server));
}

int64_t server_next_us(const server *server) {
    return server->next_beat_us < server->next_tick_us ? server->next_beat_us : server->next_tick_us;
}

/* Of the slots that it leads. */
static void tell_load(server *server) {
    const chart *chart = post_chart(server->post);
    for (uint32_t i = 0; i < server->slot_count; i++) {
        part part = {.kind = PART_LOAD,
                     .slot = i,
                     .epoch = chart->slots[i].epoch,
                     .lsn = server->work[i].requests,
                     .name = server->work[i].pulls};
        if (part.lsn != 0 && chart_place(&chart->slots[i], server->options.id, server->host.incarnation) == 0)
            post_add(server->post, server->director, &part);
        server->work[i] = (work){0};
    }
}

void server_tick(server *server, int64_t now_us) {
    if (now_us >= server->next_beat_us) {
        server->next_beat_us = now_us + SERVER_BEAT_US;
        post_add(server->post, server->director, NULL);
        if (++server->beats % SERVER_LOAD_BEATS == 0) tell_load(server);
    }
    if (now_us >= server->next_tick_us) {
        server->next_tick_us = now_us + SERVER_TICK_US;
        for (uint32_t i = 0; i < server->slot_count; i++)
            if (server->replicas[i] != NULL) replica_tick(server->replicas[i], now_us);
    }
    check_replicas(server);
    post_flush(server->post);
    CHECK_INVARIANTS(server->slot_count * (server->rank_count + 8), server_check(server));
}

const server_work *server_work_done(const server *server) { return &server->done; }

uint64_t server_disputes(const server *server) {
    uint64_t count = 0;
    for (uint32_t i = 0; i < server->slot_count; i++)
        if (server->replicas[i] != NULL) count += replica_look_at(server->replicas[i]).dispute.count;
    return count;
}

uint64_t server_incarnation(const server *server) { return server->host.incarnation; }
const credit *server_credit(const server *server) { return &server->credit; }
const chart *server_chart(const server *server) { return post_chart(server->post); }
const replica *server_replica(const server *server, uint32_t slot) {
    return slot < server->slot_count ? server->replicas[slot] : NULL;
}

static void check_credit(const server *server) {
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

void server_check(const server *server) {
    const chart *chart = post_chart(server->post);
    if (chart->number == 0) return;                                                 /* no cluster map has come yet */
    MR_ASSERT(server->replicas != NULL && server->generation == chart->generation); /* 1 */
    MR_ASSERT(server->slot_count == chart->slot_count && server->rank_count == chart->rank_count); /* 1 */
    MR_ASSERT(server->credit.rank_count == chart->rank_count);                                     /* 1 */
    for (uint32_t i = 0; i < server->slot_count; i++) {
        const replica *replica = server->replicas[i];
        MR_ASSERT(replica != NULL ||
                  chart_place(&chart->slots[i], server->options.id, server->host.incarnation) < 0); /* 2 */
        if (replica == NULL) continue;
        MR_ASSERT(replica_slot(replica) == i && replica_look_at(replica).epoch == chart->slots[i].epoch); /* 2 */
    }
    check_credit(server);
    for (uint32_t i = 0; i < server->rank_count; i++)
        MR_ASSERT(server->voices[i].stint == 0 || server->voices[i].address[0] != '\0'); /* 4 */
}
