/* kv_process.h — common part of server and worker processes: a van (van.h), a process number, an incarnation.
 *
 *        (SEAT, but for a rank that it knows)     incarnation from the metadata store
 *   opened ────────────────────────────► numbered ────────────────────────► here: the host begins
 *
 * The scheduler is asked again and again; while it is away registration waits, and nothing else fails. Packets of slot
 * messages go to the host, whatever its role.
 *
 * Threads     that of its van's loop. */
#pragma once
#include "cluster/metadata_store.h"
#include "kv/control/control_client.h"
#include "kv/control/control_wire.h"
#include "kv/van.h"

#define KV_PROCESS_ASK_US INT64_C(200000)
#define KV_PROCESS_ANY    UINT32_MAX /* the scheduler assigns a number */
/* Delay and interval of a server's log line that there is no scheduler, or no number for it. A worker reports that in
 * the error of its timeout. */
#define KV_PROCESS_ALONE_US INT64_C(3000000)
#define KV_PROCESS_AGAIN_US INT64_C(30000000)

typedef struct kv_process kv_process;

typedef struct kv_process_options {
    const char *scheduler; /* its address */
    const char *listen;    /* NULL: a free port of the loopback interface, or a socket beside the scheduler's */
    uint8_t role;          /* CONTROL_SERVER, CONTROL_WORKER */
    uint32_t number;       /* KV_PROCESS_ANY */
    bool beyond_this_machine;
    uint64_t shown; /* as of van_options */
    const env *env; /* likewise */
} kv_process_options;

typedef struct kv_process_host {
    /* kv_process_number is known; again after incarnation_acquire_again */
    void (*on_here)(void *context, uint64_t incarnation);
    void (*on_full)(void *context); /* no number is free yet: the process asks again; may be NULL */
    void (*take)(void *context, span batch, shared_bytes *bytes); /* as of van_host */
    void (*flush)(void *context);                                 /* as of van_host; may be NULL */
    int64_t (*next_us)(void *context);
    void (*tick)(void *context, int64_t now_us);
    void (*describe)(void *context, process_state *state); /* as of control_client_host */
    uint64_t (*count)(void *context, table_stats *stats);  /* as of control_client_host; may be NULL */
    void (*alone)(void *context);                          /* the link to the scheduler broke; may be NULL */
    void (*take_message)(void *context, const control_message *message); /* of no other module; may be NULL */
} kv_process_host;

/* The host and its context are borrowed for its life. The statuses are those of van_open. */
MR_MUST mr_status kv_process_open(const kv_process_options *options, const kv_process_host *host, void *context,
                                  kv_process **out);
void kv_process_close(kv_process *process);

/* An earlier process of this number had `known` (ps/rank_agent.h, on_replaced): takes another incarnation. */
void kv_process_acquire_again(kv_process *process, uint64_t known);

control_client *kv_process_control(const kv_process *process);
van *kv_process_van(const kv_process *process);
uint32_t kv_process_number(const kv_process *process); /* KV_PROCESS_ANY: not known yet */
uint64_t kv_process_breaks(const kv_process *process); /* counts links that broke */
bool kv_process_heard(const kv_process *process);      /* the scheduler has answered something */
metadata_store kv_process_metadata(const kv_process *process);
const char *kv_process_scheduler(const kv_process *process);
const char *kv_process_checkpoints(const kv_process *process); /* its address */
