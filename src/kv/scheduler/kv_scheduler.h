/* kv_scheduler.h — scheduler process: metadata store, controller and checkpoint store on one van (van.h).
 *
 *  others ── questions ──► metadata service ─┐
 *   controller ──► local ────────────┴──► keeper ──► folder/keeper           what was decided
 *   others ── batches ──┬─► controller                                       who is here, where slots lie
 *                       └─► checkpoint store ────► folder/manifest, folder/shard-*  checkpoints (checkpoint_thread.h)
 *   others ── SEAT, LOOK, SURVEY ──► the desk (control_wire.h)
 *   others ── HERE, COME, WHO, NOTE ──► the control server (control_server.h)        how all stand, barriers, messages
 *
 * A scheduler has its folder for itself (folder/scheduler.lock). A folder of release 0.1.0 is taken over when the
 * scheduler starts (cluster/sqlite_import.h).
 *
 * Everything that matters is on disk before anybody is told: a scheduler that dies and is started again with the same
 * folder and address goes on. While it is away training does; only who dies then is not replaced before it is back.
 *
 * Threads  that of its van's loop; the checkpoint store has one of its own, so that nobody waits for its disk. */
#pragma once
#include "kv/control/control_server.h"
#include "kv/van.h"
#include "ps/cluster_map.h"

#define KV_SCHEDULER_SETTLE_US \
    INT64_C(1500000) /* after it came back: who is here is heard before a number is given away */

#define KV_SCHEDULER_TROUBLE_US INT64_C(30000000) /* so often the log says that checkpoints cannot be made */
#define KV_SCHEDULER_WATCH_US   INT64_C(200000)   /* and so often it looks what is awaited (stall.h) */
#define KV_SCHEDULER_PAUSE_US   INT64_C(10000000) /* that ranks stand still at most, for a checkpoint that is exact */

/* Which load is no chance, and when a copy for reading helps: it answers pulls, and every push waits for it, too. */
#define KV_SCHEDULER_BALANCE_US INT64_C(5000000)
#define KV_SCHEDULER_LEAST      100 /* requests for a server in an interval, on average (load_tracker.h) */
#define KV_SCHEDULER_READS      0.75

typedef struct kv_scheduler kv_scheduler;

typedef struct kv_scheduler_options {
    const char *listen; /* its address, the same each time it is started */
    const char *folder; /* what it knows; made where it is missing */
    bool beyond_this_machine;
    consistency consistency; /* of tables that name none */
    bool mixed;              /* tables with rounds beside others: see cluster_map.h */
    uint32_t backup;         /* of rounds: see cluster_map_rounds */
    int64_t deadline_us;     /* likewise; 0: none */
    uint8_t copies;
    uint32_t rank_count, table_slots, server_count; /* it begins when so many servers are here */
    int64_t checkpoint_us;                          /* how often; 0: never */
    bool exact_checkpoints;                         /* outside BSP: ranks stand still meanwhile (ps/checkpointer.h) */
    int64_t balance_us; /* how often slots may move to where load is small (ps/load_tracker.h); 0: never */
    const env *env;     /* as of van_options; its disk is the folder */
} kv_scheduler_options;

/* MR_INVALID and its text: which option cannot be. Else the statuses of van_open and metadata_db_open: MR_CORRUPT: what
 * is in the folder is damaged. MR_BUSY: another scheduler has it. Those of sqlite_import: the folder is of release
 * 0.1.0 and cannot be taken over. */
MR_MUST mr_status kv_scheduler_open(const kv_scheduler_options *options, kv_scheduler **out);
/* It ends on purpose, and with it everything: that tables then continue from a checkpoint is no loss to tell of. */
void kv_scheduler_stop(kv_scheduler *scheduler);
void kv_scheduler_close(kv_scheduler *scheduler);

control_server *kv_scheduler_control_server(const kv_scheduler *scheduler);
van *kv_scheduler_van(const kv_scheduler *scheduler);
