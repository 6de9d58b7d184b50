/* kv_process.h — common part of server and worker processes: a van (van.h), a process number, an incarnation.
 *
 *        (REGISTER, unless its rank is known)     incarnation from the metadata store
 *   opened ────────────────────────────► numbered ────────────────────────► here: the host begins
 *
 * Requests to the scheduler are repeated; while no scheduler answers registration waits, and nothing else fails. The
 * host gets the packets of slot messages, for either role.
 *
 * Readers are numbered apart from workers; in slot messages and cluster maps their numbers begin at CLUSTER_MAP_READER.
 *
 * Senders    Only the scheduler's process speaks for the controller, so that cluster maps come from it alone
 *            (ps/batcher.h), and for the checkpoint store, and sends control messages other than NOTE; one process
 *            speaks for each server, worker and rank (sender_table.h). A link over which another process does so, or
 *            that carries malformed bytes, is closed.
 *
 * Threads     the one that runs the van's event loop. */
#pragma once
#include "cluster/metadata_store.h"
#include "kv/control/catalog_client.h"
#include "kv/control/control_client.h"
#include "kv/control/control_wire.h"
#include "kv/van.h"

#define KV_PROCESS_ASK_US INT64_C(200000)
#define KV_PROCESS_ANY    UINT32_MAX /* the scheduler assigns a number */
/* Delay and interval of a server's log line that no scheduler answers, or that no number is free. A worker has that in
 * the error of its timeout. */
#define KV_PROCESS_ALONE_US INT64_C(3000000)
#define KV_PROCESS_AGAIN_US INT64_C(30000000)

typedef struct kv_process kv_process;

typedef struct kv_process_options {
    const char *scheduler; /* address */
    const char *listen;    /* NULL: a free port of the loopback interface, or a socket beside the scheduler's */
    uint8_t role;          /* CONTROL_SERVER, CONTROL_WORKER, CONTROL_READER */
    uint32_t number;       /* or KV_PROCESS_ANY, as every reader has */
    uint32_t compressors;  /* of a server: compressor_available */
    uint64_t shown;        /* as of van_options */
    const env *env;        /* as of van_options */
} kv_process_options;

typedef struct kv_process_host {
    /* Number and incarnation are known; called again after kv_process_acquire_again. */
    void (*on_here)(void *context, uint64_t incarnation);
    /* No number is free; the process keeps asking; may be NULL. `readers`: as many as there may be. */
    void (*on_full)(void *context, uint64_t readers);
    /* the scheduler does not admit this process; may be NULL. The text is borrowed */
    void (*on_rejected)(void *context, span text);
    void (*take)(void *context, span batch, shared_bytes *bytes); /* as of van_host */
    void (*flush)(void *context);                                 /* as of van_host; may be NULL */
    int64_t (*next_us)(void *context);
    void (*tick)(void *context, int64_t now_us);
    void (*describe)(void *context, process_state *state); /* as of control_client_host */
    uint64_t (*count)(void *context, table_stats *stats);  /* as of control_client_host; may be NULL */
    void (*alone)(void *context);                          /* the link to the scheduler broke; may be NULL */
    /* Of a worker: address of a server in the newest cluster map; NULL: it is not there. The worker takes packets of
     * servers only from the processes at these addresses, to which it has linked before. NULL: the first process that
     * speaks for a server is taken for it. */
    const char *(*server_address)(void *context, uint32_t server, uint64_t incarnation);
    /* a message for no other module; may be NULL */
    void (*take_message)(void *context, const control_message *message);
} kv_process_host;

/* Host and context are borrowed until kv_process_close. Statuses as of van_open. */
MR_MUST mr_status kv_process_open(const kv_process_options *options, const kv_process_host *host, void *context,
                                  kv_process **out);
void kv_process_close(kv_process *process);

/* An earlier process of this number had incarnation `known` (ps/rank_agent.h, on_replaced): acquires a newer one. */
void kv_process_acquire_again(kv_process *process, uint64_t known);

control_client *kv_process_control(const kv_process *process);
van *kv_process_van(const kv_process *process);
uint32_t kv_process_number(const kv_process *process); /* KV_PROCESS_ANY: unknown yet */
uint64_t kv_process_breaks(const kv_process *process); /* number of links that broke */
bool kv_process_heard(const kv_process *process);      /* whether the scheduler has answered */
/* MR_BUSY, with a text that names the scheduler and why there is no link to it. */
mr_status kv_process_say_unheard(const kv_process *process);
metadata_store kv_process_metadata(const kv_process *process);
catalog_client *kv_process_catalog(const kv_process *process);
const char *kv_process_scheduler(const kv_process *process);
const char *kv_process_checkpoints(const kv_process *process); /* address of the checkpoint store */
