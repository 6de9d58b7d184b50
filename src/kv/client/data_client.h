/* data_client.h — data client of a worker: a member of the consumer group (cluster/consumer_group.h) that claims
 * batches for the steps of its rank in advance.
 *
 * A data client joins the group while the process holds its rank, and claims batches for some steps ahead: a step
 * normally finds its batch here. The number of steps grows when a step had to wait, and shrinks towards the end of an
 * epoch, so that no rank is left with the rest of it.
 *
 *            data_client_piece: some steps are claimed         data_client_leave: not begun, and claimed
 *   joined ────────────────────────────────────► step → batch ────────────────────────────────────────► handed back
 *      ▲                                            │                                                        │
 *      └────────────────────────────────────────────┴────────────────── data_client_piece ◄────── rests ◄───────┘
 *
 * The scheduler reports the low watermark: the steps below it are never replayed (ps/low_watermark.h). Batches of those
 * steps that the rank missed (skipped_steps.h) go to other ranks. A living data client that was removed from the
 * consumer group joins it again with another incarnation.
 *
 * Threads     the one that runs the host's event loop. */
#pragma once
#include "base/rng.h"
#include "cluster/group_consumer.h"
#include "cluster/metadata_store.h"
#include "kv/control/dataset_spec.h"
#include "ps/cluster_map.h"

#define DATA_CLIENT_MARK_US INT64_C(300000) /* interval between its queries for the low watermark */
/* limits of the number of steps whose batches are claimed by one request */
enum { DATA_CLIENT_STEPS_LEAST = 4, DATA_CLIENT_STEPS_MOST = 1 << 14 };

typedef struct data_client_options {
    uint32_t rank;
    const char *address, *scheduler; /* borrowed until data_client_destroy */
    metadata_store store;
    rng *rng;
    dataset_spec spec; /* moved */
    void (*send)(void *context, const char *address, const control_message *message);
    uint64_t (*acknowledged)(void *context); /* steps of the rank that all slots have acknowledged */
    void *context;
} data_client_options;

typedef struct data_client data_client;

data_client *data_client_create(const data_client_options *options);
void data_client_destroy(data_client *client); /* cancels the client's requests to the metadata store; NULL: no-op */

/* ---- Events of the rank. A NULL client: no-op. */

void data_client_begin(data_client *client, uint64_t incarnation, int64_t now_us); /* this process holds the rank */
void data_client_end(data_client *client); /* this process no longer holds the rank */
/* The rank continues with `step`, in the map's generation. An earlier process of the rank may have begun steps before
 * `begun`. */
void data_client_resume(data_client *client, const cluster_map *map, uint64_t step, uint64_t begun);
void data_client_miss(data_client *client, uint64_t from, uint64_t to); /* steps from … to - 1 ended without the rank */

/* false: the message is not for a data client */
bool data_client_take(data_client *client, const control_message *message);
int64_t data_client_next_us(const data_client *client);
void data_client_tick(data_client *client, int64_t now_us);

/* ---- Interface to the program. */

/* Batch of the step; a batch that is not claimed yet gets `batch` items. MR_BUSY: not claimed yet; the error names the
 * cause. MR_STALE: the claim is deleted, because the step is below the low watermark. MR_CORRUPT. */
mr_status data_client_piece(data_client *client, uint64_t step, uint64_t batch, int64_t now_us,
                            batch_claims_piece *out);

/* Hands back the batches of `step` and all later steps, none of which has begun. The client then rests. */
void data_client_leave(data_client *client, uint64_t step, int64_t now_us);
mr_status data_client_left(const data_client *client); /* MR_BUSY: not decided yet */
