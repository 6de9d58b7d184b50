/* ps_data_client.h — data source of a worker of the parameter scenario: a member of the consumer group
 * (cluster/group_consumer.h) that claims batches for the steps of its ranks, before they begin. */
#pragma once
#include "sim/ps/ps_cluster.h"
#include "sim/sim_process.h"

typedef struct ps_data_client ps_data_client;

ps_data_client *ps_data_client_create(ps_process *process, sim_process *sim_process); /* borrowed for its life */
void ps_data_client_destroy(ps_data_client *client);
void ps_data_client_begin(ps_data_client *client, uint64_t incarnation);

void ps_data_client_take(ps_data_client *client, const control_message *message);
int64_t ps_data_client_next_us(const ps_data_client *client);
void ps_data_client_tick(ps_data_client *client, int64_t now_us);

/* The batch of this step; false: none yet, and the client requests one. */
bool ps_data_client_piece(ps_data_client *client, uint32_t rank, uint64_t step, const batch_claims_past *past,
                          batch_claims_piece *out);
/* The rank needs no batch; reports finished steps, if the consumer group has a claim of such a step. */
void ps_data_client_pass(ps_data_client *client, uint32_t rank, const batch_claims_past *past);
void ps_data_client_leave(ps_data_client *client, uint32_t rank); /* this worker no longer holds the rank */
