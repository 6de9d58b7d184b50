/* repartition.h — change of the number of slots of a deployment, at the start of its scheduler.
 *
 *   folder      decisions (`keeper`): the cluster map, M slots     newest checkpoint: M slots
 *     1         the slots of the newest checkpoint are made again, N in place of M (kv/checkpoint/snapshot_merge.h)
 *     2         the manifest is replaced in one step               newest checkpoint: N slots, the same number
 *     3         the cluster map becomes empty                      the next one has N slots and begins with them
 *
 * No server has a slot before 3 is done: the controller begins after it. A scheduler that ends before 2 leaves the old
 * checkpoint; one that ends between 2 and 3 leaves a checkpoint of the same content, and the next scheduler makes its
 * slots again, in the number that it is to have, unless that is N already.
 *
 * The values of servers are not read. So a deployment changes its number of slots only after a stop on purpose
 * (kv_scheduler_stop), which is in `keeper` with the number of the last cluster map: it continues from its newest
 * checkpoint in any case.
 *
 * Cost  The scheduler holds the snapshots of all slots in memory. Pure except for the disk and the decisions. */
#pragma once
#include "cluster/metadata_db.h"
#include "kv/control/table_catalog.h"
#include "net/disk.h"

typedef struct repartition_options {
    const char *folder; /* its name, for messages */
    disk disk;
    metadata_db *db;
    const table_catalog *catalog;
    const cluster_map *map; /* the last decided; number 0: none */
    bool rounds, mixed;     /* of the deployment */
    bool stopped;           /* the deployment was stopped on purpose, with this cluster map */
    uint32_t chosen;        /* slots of a table; 0: as many as the folder has, or `usual` in a new one */
    uint32_t usual;
} repartition_options;

/* Sets the number of slots of a table, and changes the folder if it has another one. MR_INVALID: the number cannot be
 * changed, and the error names the reason and the remedy. MR_CORRUPT: damaged or unsuitable checkpoints. */
MR_MUST mr_status repartition_folder(const repartition_options *options, uint32_t *slots);
