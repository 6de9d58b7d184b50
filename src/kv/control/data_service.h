/* data_service.h — data service of the scheduler: hosts the leader of the workers' consumer group
 * (cluster/group_leader.h).
 *
 * A worker that wants data joins the group; once the dataset is specified (kv/control/dataset_spec.h) the consumer
 * group has its shards, their holders, and the batch of each step of each rank. The group is kept in the metadata
 * store, from which a restarted scheduler continues. Workers also ask which checkpoints may lack their steps
 * (ps/low_watermark.h).
 *
 * When the tables begin empty, the data begins at its first item. A scheduler may end before it restarts the data; the
 * next one learns from the cluster map since when the tables are not those of the group (cluster_map.empty_since).
 *
 * Threads     the one that runs the van's event loop. */
#pragma once
#include "cluster/group_leader.h"
#include "cluster/metadata_db.h"
#include "kv/control/control_wire.h"
#include "kv/van.h"
#include "ps/controller.h"

typedef struct data_service data_service;

typedef struct data_service_options { /* all borrowed until data_service_destroy */
    van *van;
    const metadata_db *db; /* has the dataset specification, if there is one */
    metadata_store store;  /* of the same metadata_db */
    const controller *controller;
    /* oldest kept checkpoint; 0: none. *version: of its slots with rounds */
    uint64_t (*oldest)(const void *context, uint64_t *version);
    const void *context;
} data_service_options;

data_service *data_service_create(const data_service_options *options);
void data_service_destroy(data_service *service); /* cancels the service's requests to the metadata store */

/* False: the message is not for this module. */
bool data_service_take(data_service *service, link_id link, const control_message *message);
int64_t data_service_next_us(const data_service *service);
void data_service_tick(data_service *service, int64_t now_us);
