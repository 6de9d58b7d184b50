/* ps_data_client.c — see ps_data_client.h. */
#include "sim/ps/ps_data_client.h"

#include <stdlib.h>

#include "base/alloc.h"
#include "base/mutation.h"
#include "cluster/group_consumer.h"
#include "cluster/incarnation.h"

enum { STEPS_MAX = 4, BATCH_MAX = 3 };

struct ps_data_client {
    ps_process *process;
    sim_process *sim_process;
    group_consumer *consumer;
    incarnation_acquire *acquire; /* takes another incarnation after the member was removed; NULL: none running */
    uint64_t incarnation;         /* 0: none */
};

static void send_message(void *context, const char *address, const control_message *message) {
    sim_process_send(((ps_data_client *)context)->sim_process, address, message);
}

static void on_enrolled(void *context, uint64_t incarnation) { ps_data_client_begin(context, incarnation); }

static void on_group(void *context, const consumer_group *group) {
    ps_data_client *client = context;
    ps_data_checker_knows(&client->process->cluster->checker, group);
    if (client->incarnation == 0 || !group_consumer_is_out(client->consumer)) return;
    client->incarnation = 0;
    if (client->acquire != NULL) incarnation_acquire_destroy(client->acquire);
    client->acquire =
        incarnation_acquire_create(sim_process_metadata(client->sim_process), client->sim_process->env->rng,
                                   client->process->id, sim_process_now_us(client->sim_process), on_enrolled, client);
}

ps_data_client *ps_data_client_create(ps_process *process, sim_process *sim_process) {
    ps_data_client *client = xcalloc(1, sizeof *client);
    client->process = process;
    client->sim_process = sim_process;
    group_consumer_options options = {.id = process->id,
                                      .role = CONSUMER_GROUP_WORKER,
                                      .address = sim_node_name(process->node),
                                      .leader = "marshal",
                                      .send = send_message,
                                      .on_group = on_group,
                                      .context = client};
    client->consumer = group_consumer_create(&options);
    return client;
}

void ps_data_client_destroy(ps_data_client *client) {
    group_consumer_destroy(client->consumer);
    if (client->acquire != NULL) incarnation_acquire_destroy(client->acquire);
    free(client);
}

void ps_data_client_begin(ps_data_client *client, uint64_t incarnation) {
    client->incarnation = incarnation;
    group_consumer_begin(client->consumer, incarnation, sim_process_now_us(client->sim_process));
}

void ps_data_client_take(ps_data_client *client, const control_message *message) {
    (void)group_consumer_take(client->consumer, message);
}

int64_t ps_data_client_next_us(const ps_data_client *client) {
    int64_t next_us = group_consumer_next_us(client->consumer),
            other_us = client->acquire == NULL ? next_us : incarnation_acquire_next_us(client->acquire);
    return next_us < other_us ? next_us : other_us;
}

void ps_data_client_tick(ps_data_client *client, int64_t now_us) {
    if (client->acquire != NULL) incarnation_acquire_tick(client->acquire, now_us);
    if (now_us >= group_consumer_next_us(client->consumer)) group_consumer_tick(client->consumer, now_us);
}

static void say(ps_data_client *client, const consumer_group_wish *wish) {
    ps_data_checker_says(&client->process->cluster->checker, wish->rank, &wish->past);
    if (group_consumer_wish(client->consumer, wish))
        group_consumer_tick(client->consumer, sim_process_now_us(client->sim_process));
}

/* Claims batches for a few steps at once, unless a claim is pending. *guess: their batches, if no other claim comes
 * first. */
static bool ask(ps_data_client *client, uint32_t rank, uint64_t step, const batch_claims_past *past,
                batch_claims_piece *guess) {
    const consumer_group *group = group_consumer_group(client->consumer);
    const consumer_group_member *self = consumer_group_find(group, client->process->id);
    const consumer_group_wish *open = group_consumer_wish_of(client->consumer, rank);
    if (self == NULL || self->incarnation != client->incarnation || (open != NULL && open->step == step)) return false;
    consumer_group_wish wish = {.rank = rank, .step = step, .past = *past};
    wish.count = 1 + (uint32_t)rng_below(client->sim_process->env->rng, STEPS_MAX);
    wish.batch = 1 + rng_below(client->sim_process->env->rng, BATCH_MAX);
    say(client, &wish);
    size_t part = consumer_group_source(group, client->process->id, client->incarnation);
    uint64_t from = part == group->part_count ? 0 : group->parts[part].position;
    *guess = (batch_claims_piece){(uint32_t)part, group->epoch, from, from + wish.batch};
    return true;
}

bool ps_data_client_piece(ps_data_client *client, uint32_t rank, uint64_t step, const batch_claims_past *past,
                          batch_claims_piece *out) {
    const batch_claim *claim = batch_claims_find(&group_consumer_group(client->consumer)->claims, rank, step);
    if (claim != NULL) *out = batch_claims_piece_of(claim, step);
    return claim != NULL || (ask(client, rank, step, past, out) && MUTATED("claims-late"));
}

void ps_data_client_pass(ps_data_client *client, uint32_t rank, const batch_claims_past *past) {
    const batch_claims *claims = &group_consumer_group(client->consumer)->claims;
    bool holds = false;
    for (uint64_t step = batch_claims_over(claims, rank); step < past->over; step++)
        holds = holds || batch_claims_find(claims, rank, step) != NULL;
    if (holds) say(client, &(consumer_group_wish){.rank = rank, .past = *past});
}

void ps_data_client_leave(ps_data_client *client, uint32_t rank) { group_consumer_withdraw(client->consumer, rank); }
