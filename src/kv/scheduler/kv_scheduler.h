/* kv_scheduler.h — scheduler process: metadata store, controller and checkpoint store on one van (van.h).
 *
 *  others ── questions ──► metadata service ─┐
 *   controller ──► local ────────────┴──► metadata_db ──► folder/keeper      decisions
 *   others ── packets ──┬─► controller                                       processes, placement of slots
 *                       └─► checkpoint store ────► folder/manifest, folder/shard-*  checkpoints (checkpoint_thread.h)
 *   others ── REGISTER, LOOK, SURVEY ──► the scheduler itself (control_wire.h)
 *   others ── HERE, COME, WHO, NOTE ──► the control server (control_server.h)   process states, barriers, app messages
 *
 * A scheduler locks its folder (folder/scheduler.lock). A folder of release 0.1.0 is taken over when the scheduler
 * starts (cluster/sqlite_import.h).
 *
 * Every decision is on disk before any process is informed: a scheduler that is restarted with the same folder and
 * address continues. Training continues without a scheduler; a process that dies is replaced when the scheduler is
 * back.
 *
 * Threads  the one that runs the van's event loop; the checkpoint store has a separate one, so that its disk does not
 *          block the scheduler. */
#pragma once
#include "kv/control/control_server.h"
#include "kv/van.h"
#include "ps/cluster_map.h"

#define KV_SCHEDULER_SETTLE_US \
    INT64_C(1500000) /* after a restart: time for live processes to report before a number is assigned */

#define KV_SCHEDULER_TWICE_US INT64_C(1000000) /* a signal to a process group and one to the process count as one */

#define KV_SCHEDULER_TROUBLE_US INT64_C(30000000) /* interval of the log line that checkpoints fail */
#define KV_SCHEDULER_WATCH_US   INT64_C(200000)   /* interval of the stall diagnosis (stall.h) */
#define KV_SCHEDULER_PAUSE_US   INT64_C(10000000) /* longest quiesce of the ranks for an exact checkpoint */

/* Thresholds for moving slots, and for adding a read replica: it answers pulls, but each push waits for it. */
#define KV_SCHEDULER_BALANCE_US INT64_C(5000000)
#define KV_SCHEDULER_LEAST      100 /* requests per server and interval, on average (load_tracker.h) */
#define KV_SCHEDULER_READS      0.75
#define KV_SCHEDULER_SLOTS      16 /* of a new folder */

typedef struct kv_scheduler kv_scheduler;

typedef struct kv_scheduler_options {
    const char *listen;      /* address, the same at each start */
    const char *folder;      /* folder of its state; created if missing */
    consistency consistency; /* default of tables */
    bool mixed;              /* tables with and without rounds (cluster_map.h) */
    uint32_t backup;         /* of rounds: see cluster_map_rounds */
    int64_t deadline_us;     /* likewise, of rounds; 0: none */
    uint8_t copies;
    /* table_slots 0: those of the folder; KV_SCHEDULER_SLOTS in a new one. Another number than the folder's changes it
     * (repartition.h) */
    uint32_t reader_count;                          /* readers that may be connected at the same time */
    uint32_t rank_count, table_slots, server_count; /* server_count: servers with which a generation begins */
    int64_t checkpoint_us;                          /* interval of checkpoints; 0: none */
    bool exact_checkpoints; /* outside BSP: ranks quiesce for a checkpoint (ps/checkpointer.h) */
    int64_t balance_us; /* interval at which slots may move to servers with less load (ps/load_tracker.h); 0: never */
    int64_t final_us;   /* progress that the last checkpoint must make (final_checkpoint.h); 0: none is made */
    const env *env;     /* as of van_options; its disk is the folder */
} kv_scheduler_options;

/* MR_INVALID: an option is invalid; the error names it. MR_CORRUPT: the folder's content is malformed. MR_BUSY: another
 * scheduler has the folder. Other statuses as of van_open, metadata_db_open, and sqlite_import: the folder is of
 * release 0.1.0 and cannot be converted. */
MR_MUST mr_status kv_scheduler_open(const kv_scheduler_options *options, kv_scheduler **out);
/* Makes a last checkpoint, then stops the loop: at once if there is nothing to save (final_checkpoint.h). A second call
 * stops the loop at once. */
void kv_scheduler_leave(kv_scheduler *scheduler);
/* Announces an intended end of the whole deployment, to the next start and to all processes that are connected: the
 * tables continue from a checkpoint then, and no loss is reported. `how` is for errors: "was stopped by SIGTERM". */
void kv_scheduler_stop(kv_scheduler *scheduler, const char *how);
void kv_scheduler_close(kv_scheduler *scheduler);

control_server *kv_scheduler_control_server(const kv_scheduler *scheduler);
van *kv_scheduler_van(const kv_scheduler *scheduler);
