/* data_client.c — see data_client.h. */
#include "kv/client/data_client.h"

#include <stdlib.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/mutation.h"
#include "cluster/incarnation.h"
#include "kv/client/skipped_steps.h"
#include "kv/control/control_wire.h"
#include "ps/low_watermark.h"

struct data_client {
    data_client_options options;
    group_consumer *consumer;
    incarnation_acquire *acquire; /* for an incarnation after a removal, or a term that left; NULL: none was needed */
    uint64_t incarnation;         /* 0: the process holds no rank, or acquires another incarnation */
    uint64_t highest;             /* incarnation in whose name the client has spoken; 0: none */
    bool rests;                   /* the client does not join the group before a batch is asked for */
    bool leaves; /* the batches of `left` and later steps are to be handed back; cleared when none is claimed */
    uint64_t left;
    /* of the last data_client_resume: the map's birth and empty_since, and `begun` */
    uint64_t birth, empty_since, begun;
    bool rounds, ready;
    low_watermark watermark;
    skipped_steps skipped;
    bool told;         /* `skipped.since` is set */
    uint32_t window;   /* steps to claim ahead */
    bool fed, starves; /* the client had a batch; later a step had none */
    int64_t now_us, mark_us;
};

/* ---- Group consumer. */

static void send_message(void *context, const char *address, const control_message *message) {
    data_client *client = context;
    client->options.send(client->options.context, address, message);
}

static void enter(data_client *client, uint64_t incarnation);

static void on_enrolled(void *context, uint64_t incarnation) { enter(context, incarnation); }

static void acquire_incarnation(data_client *client) {
    client->incarnation = 0;
    if (client->acquire == NULL)
        client->acquire = incarnation_acquire_create(client->options.store, client->options.rng, client->options.rank,
                                                     client->now_us, on_enrolled, client);
    incarnation_acquire_again(client->acquire, client->highest, client->now_us);
}

/* A leave that was sent in an earlier term may be in flight, and name steps that this term keeps, because it does not
 * know them. The group leader ignores it once the client has a higher incarnation. */
static void enter(data_client *client, uint64_t incarnation) {
    if (client->leaves && incarnation <= client->highest && !MUTATED("old-leave")) {
        acquire_incarnation(client);
        return;
    }
    client->incarnation = incarnation;
    if (incarnation > client->highest) client->highest = incarnation;
    group_consumer_begin(client->consumer, incarnation, client->now_us);
}

/* Sets the first step whose pushes are all of this process; the state of earlier steps is unknown. */
static void learn_since(data_client *client, const consumer_group *group) {
    if (client->told || !client->ready) return;
    bool fresh = batch_claims_granted(&group->claims, client->options.rank) == 0;
    client->skipped.since = fresh ? 0 : client->begun;
    client->told = true;
}

/* Waits until pending claims are granted: then the batches to hand back are known. */
static void say_leave(data_client *client) {
    const consumer_group *group = group_consumer_group(client->consumer);
    uint32_t rank = client->options.rank;
    /* the state of earlier steps is unknown */
    uint64_t step = client->left > client->skipped.since ? client->left : client->skipped.since;
    const consumer_group_wish *open = group_consumer_wish_of(client->consumer, rank);
    if (open != NULL && open->count != 0) return;
    client->leaves = batch_claims_any(&group->claims, rank, step, UINT64_MAX);
    client->rests = !client->leaves;
    if (!client->leaves) return;
    consumer_group_wish wish = {.rank = rank,
                                .step = step,
                                .birth = group->birth,
                                .leaves = true,
                                .granted = batch_claims_granted(&group->claims, rank)};
    (void)group_consumer_wish(client->consumer, &wish);
}

/* A client may know a group from before the tables began empty, with batches of other steps, although the generation
 * begins from a checkpoint: it has missed the generations between. */
static bool is_of_tables(const data_client *client, const consumer_group *group) {
    return client->empty_since == 0 || group->birth == client->empty_since;
}

static bool is_in(const data_client *client) {
    const consumer_group *group = group_consumer_group(client->consumer);
    const consumer_group_member *self = consumer_group_find(group, client->options.rank);
    return client->ready && client->incarnation != 0 && self != NULL && self->incarnation == client->incarnation &&
           is_of_tables(client, group);
}

static void on_group(void *context, const consumer_group *group) {
    data_client *client = context;
    /* the client was silent for too long, or rested */
    if (client->incarnation != 0 && group_consumer_is_out(client->consumer)) acquire_incarnation(client);
    if (is_in(client)) learn_since(client, group);
    if (client->leaves && is_in(client)) say_leave(client);
}

data_client *data_client_create(const data_client_options *options) {
    data_client *client = xcalloc(1, sizeof *client);
    client->options = *options;
    client->window = DATA_CLIENT_STEPS_LEAST;
    client->consumer = group_consumer_create(&(group_consumer_options){.id = options->rank,
                                                                       .role = CONSUMER_GROUP_WORKER,
                                                                       .address = options->address,
                                                                       .leader = options->scheduler,
                                                                       .send = send_message,
                                                                       .on_group = on_group,
                                                                       .context = client});
    return client;
}

void data_client_destroy(data_client *client) {
    if (client == NULL) return;
    group_consumer_destroy(client->consumer);
    if (client->acquire != NULL) incarnation_acquire_destroy(client->acquire);
    dataset_spec_fini(&client->options.spec);
    free(client);
}

/* ---- The rank. */

void data_client_begin(data_client *client, uint64_t incarnation, int64_t now_us) {
    if (client == NULL || incarnation <= client->incarnation) return;
    client->now_us = now_us;
    client->mark_us = now_us;
    enter(client, incarnation);
}

void data_client_end(data_client *client) {
    if (client == NULL) return;
    client->incarnation = 0;
    client->ready = client->told = false;
    client->skipped = (skipped_steps){0};
    group_consumer_withdraw(client->consumer, client->options.rank);
}

void data_client_resume(data_client *client, const cluster_map *map, uint64_t step, uint64_t begun) {
    if (client == NULL) return;
    group_consumer_withdraw(client->consumer, client->options.rank);
    low_watermark_restart(&client->watermark);
    skipped_steps_rewind(&client->skipped, step);
    client->birth = map->birth;
    client->empty_since = map->origin != 0 && MUTATED("old-group") ? 0 : map->empty_since;
    client->rounds = cluster_map_has_rounds(map);
    client->begun = begun;
    client->ready = true;
    if (is_in(client)) learn_since(client, group_consumer_group(client->consumer));
    /* the message may be in flight, and no step has begun meanwhile */
    if (client->leaves && is_in(client)) say_leave(client);
}

void data_client_miss(data_client *client, uint64_t from, uint64_t to) {
    if (client != NULL) skipped_steps_add(&client->skipped, from, to);
}

/* ---- Ended steps. */

static bool asks(const data_client *client) { return client->ready && client->incarnation != 0 && !client->rests; }

static void ask_mark(data_client *client) {
    client->mark_us = client->now_us + DATA_CLIENT_MARK_US;
    if (!is_in(client)) return;
    uint64_t question = low_watermark_ask(&client->watermark, client->options.acknowledged(client->options.context));
    control_message message = {.kind = CONTROL_MARK, .stamp = {.view = client->birth, .id = question}};
    client->options.send(client->options.context, client->options.scheduler, &message);
}

static batch_claims_past past_of(const data_client *client) {
    uint64_t said = batch_claims_over(&group_consumer_group(client->consumer)->claims, client->options.rank);
    if (client->watermark.over <= said || !client->told) return (batch_claims_past){0};
    return skipped_steps_past(&client->skipped, said, client->watermark.over);
}

/* Reports missed steps at once; other ended steps are reported with the next claim. */
static void hand_back(data_client *client) {
    const consumer_group *group = group_consumer_group(client->consumer);
    uint64_t said = batch_claims_over(&group->claims, client->options.rank);
    if (!is_in(client) || group_consumer_wish_of(client->consumer, client->options.rank) != NULL) return;
    if (!client->told || !skipped_steps_any(&client->skipped, said, client->watermark.over)) return;
    consumer_group_wish wish = {.rank = client->options.rank, .past = past_of(client), .birth = group->birth};
    if (batch_claims_any(&group->claims, wish.rank, said, wish.past.over))
        (void)group_consumer_wish(client->consumer, &wish);
}

/* ---- Interface to the host. */

bool data_client_take(data_client *client, const control_message *message) {
    if (message->kind == CONTROL_MARKED) {
        reader reader = reader_of(message->value.data, message->value.size);
        uint64_t version = reader_u64(&reader); /* 0 of a malformed value: nothing is over */
        low_watermark_hear(&client->watermark, message->stamp.id, message->stamp.view, message->stamp.incarnation,
                           client->rounds ? version : UINT64_MAX);
        hand_back(client);
        return true;
    }
    return group_consumer_take(client->consumer, message);
}

int64_t data_client_next_us(const data_client *client) {
    int64_t next_us = client->acquire == NULL ? CLOCK_NEVER_US : incarnation_acquire_next_us(client->acquire);
    return asks(client)
               ? clock_earlier_us(next_us, clock_earlier_us(group_consumer_next_us(client->consumer), client->mark_us))
               : next_us;
}

void data_client_tick(data_client *client, int64_t now_us) {
    client->now_us = now_us;
    if (client->acquire != NULL) incarnation_acquire_tick(client->acquire, now_us);
    if (!asks(client)) return;
    if (now_us >= client->mark_us) ask_mark(client);
    if (now_us >= group_consumer_next_us(client->consumer)) group_consumer_tick(client->consumer, now_us);
}

/* ---- Batches. */

/* First step at or behind this one without a batch, at most `most` steps ahead. */
static uint64_t first_free(const batch_claims *claims, uint32_t rank, uint64_t step, uint64_t most) {
    const batch_claim *claim;
    uint64_t next = step;
    while (next - step < most && (claim = batch_claims_find(claims, rank, next)) != NULL)
        next = claim->step + claim->count;
    return next;
}

/* Half of this worker's share of the rest of the epoch, in steps. */
static uint64_t share(const consumer_group *group, uint64_t batch) {
    uint64_t items = 0;
    size_t workers = consumer_group_group(group, CONSUMER_GROUP_WORKER);
    for (size_t i = 0; i < group->part_count; i++) items += group->parts[i].size - group->parts[i].position;
    return items / batch / (2 * (workers == 0 ? 1 : workers));
}

static void claim_more(data_client *client, uint64_t step, uint64_t batch) {
    const consumer_group *group = group_consumer_group(client->consumer);
    uint32_t rank = client->options.rank;
    uint64_t next = first_free(&group->claims, rank, step, client->window);
    const consumer_group_wish *open = group_consumer_wish_of(client->consumer, rank);
    if (next - step > client->window / 2 || (open != NULL && open->count != 0 && open->step == next)) return;
    uint64_t count = share(group, batch);
    if (count > client->window) count = client->window;
    if (count < DATA_CLIENT_STEPS_LEAST) count = DATA_CLIENT_STEPS_LEAST;
    consumer_group_wish wish = {.rank = rank,
                                .count = (uint32_t)count,
                                .step = next,
                                .batch = batch,
                                .past = past_of(client),
                                .birth = group->birth};
    if (group_consumer_wish(client->consumer, &wish)) group_consumer_tick(client->consumer, client->now_us);
}

static mr_status check(const data_client *client, const batch_claims_piece *piece) {
    const dataset_spec *spec = &client->options.spec;
    if (piece->part < spec->count && piece->from < piece->to && piece->to <= spec->sizes[piece->part]) return MR_OK;
    return error_set(MR_CORRUPT, "malformed batch of shard %u from the scheduler", piece->part);
}

static mr_status refuse(const data_client *client) {
    const consumer_group *group = group_consumer_group(client->consumer);
    if (!is_in(client) || client->leaves)
        return error_set(MR_BUSY, "the scheduler has not admitted rank %u to the dataset yet", client->options.rank);
    if (consumer_group_is_full(group))
        return error_set(MR_BUSY, "rank %u waits for a batch until the scheduler has a newer checkpoint",
                         client->options.rank);
    return error_set(MR_BUSY, "the scheduler has not given rank %u its batch yet", client->options.rank);
}

static void grow(data_client *client) {
    if (client->starves && client->window < DATA_CLIENT_STEPS_MOST) client->window *= 2;
    client->starves = false;
    client->fed = true;
}

mr_status data_client_piece(data_client *client, uint64_t step, uint64_t batch, int64_t now_us,
                            batch_claims_piece *out) {
    const batch_claims *claims = &group_consumer_group(client->consumer)->claims;
    client->now_us = now_us;
    client->rests = false;
    if (!is_in(client) || client->leaves) return refuse(client);
    if (step < batch_claims_over(claims, client->options.rank))
        return error_set(MR_STALE, "the batch of step %llu is forgotten: that step was not to be repeated",
                         (unsigned long long)step);
    claim_more(client, step, batch);
    const batch_claim *claim = batch_claims_find(claims, client->options.rank, step);
    if (claim == NULL) {
        client->starves = client->fed;
        return refuse(client);
    }
    batch_claims_piece piece = batch_claims_piece_of(claim, step);
    MR_TRY(check(client, &piece));
    grow(client);
    *out = piece;
    return MR_OK;
}

void data_client_leave(data_client *client, uint64_t step, int64_t now_us) {
    if (client->rests) return;
    client->now_us = now_us;
    if (!client->leaves || step < client->left) client->left = step;
    client->leaves = true;
    if (is_in(client)) say_leave(client);
    if (client->leaves) group_consumer_tick(client->consumer, now_us);
}

mr_status data_client_left(const data_client *client) {
    return client->leaves ? error_set(MR_BUSY, "rank %u waits to return its data", client->options.rank) : MR_OK;
}
