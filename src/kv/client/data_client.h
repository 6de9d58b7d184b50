/* data_client.h — data client of a worker: a member of the consumer group (cluster/consumer_group.h) that claims
 * batches for the steps of its rank in advance.
 *
 * It attends from when it plays its rank, and asks for some steps ahead: a step normally finds its piece here. How many
 * grows when a step had to wait, and shrinks towards the end of an epoch, so that nobody is left with the rest of it.
 *
 *            data_client_piece: some steps are claimed         data_client_leave: not begun, and claimed
 *   attends ────────────────────────────────────► step → piece ────────────────────────────────────────► handed back
 *      ▲                                            │                                                        │
 *  └────────────────────────────────────────────┴────────────────────── data_client_piece ◄────── rests ◄───────┘
 *
 * Which steps are over, and may be forgotten, it learns from the scheduler (ps/low_watermark.h); what it has missed of
 * those (skipped_steps.h) goes to others. Taken out of the consumer group though it lives, it comes back with another
 * incarnation.
 *
 * Threads     that of its host's loop. */
#pragma once
#include "base/rng.h"
#include "cluster/group_consumer.h"
#include "cluster/metadata_store.h"
#include "kv/control/dataset_spec.h"
#include "ps/cluster_map.h"

#define DATA_CLIENT_MARK_US INT64_C(300000)                             /* so often it asks what is over */
enum { DATA_CLIENT_STEPS_LEAST = 4, DATA_CLIENT_STEPS_MOST = 1 << 14 }; /* that it claims at once */

typedef struct data_client_options {
    uint32_t rank;
    const char *address, *scheduler; /* borrowed for its life */
    metadata_store store;
    rng *rng;
    dataset_spec spec; /* moved */
    void (*send)(void *context, const char *address, const control_message *message);
    uint64_t (*acknowledged)(void *context); /* steps of the rank that all slots have */
    void *context;
} data_client_options;

typedef struct data_client data_client;

data_client *data_client_create(const data_client_options *options);
void data_client_destroy(data_client *client); /* the metadata store owes it no answer any more; NULL: no-op */

/* ---- What happens to its rank. NULL: no-op. */

void data_client_begin(data_client *client, uint64_t incarnation, int64_t now_us); /* this process plays it */
void data_client_end(data_client *client);                                         /* no more */
/* It goes on with this step, in this generation; steps before `begun` an earlier process of the rank may have begun. */
void data_client_resume(data_client *client, const cluster_map *map, uint64_t step, uint64_t begun);
void data_client_miss(data_client *client, uint64_t from, uint64_t to); /* steps from … to - 1 were over without it */

bool data_client_take(data_client *client, const control_message *message); /* false: not for it */
int64_t data_client_next_us(const data_client *client);
void data_client_tick(data_client *client, int64_t now_us);

/* ---- For its program. */

/* The piece of the step, with `batch` items if it is not claimed yet. MR_BUSY: not yet, and the error says why.
 * MR_STALE: it is forgotten, since nobody was to play the step again. MR_CORRUPT. */
mr_status data_client_piece(data_client *client, uint64_t step, uint64_t batch, int64_t now_us,
                            batch_claims_piece *out);

/* Hands back what steps from this one on have: none of them was begun. It then rests. */
void data_client_leave(data_client *client, uint64_t step, int64_t now_us);
mr_status data_client_left(const data_client *client); /* MR_BUSY: that is not decided yet */
