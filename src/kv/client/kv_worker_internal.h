/* kv_worker_internal.h — internals of the worker process, shared by kv_worker*.c; see kv_worker.h. */
#pragma once
#include "kv/client/data_client.h"
#include "kv/client/deployment_end.h"
#include "kv/client/kv_session.h"
#include "kv/client/kv_worker.h"
#include "kv/client/push_encoder.h"
#include "kv/client/slot_queue.h"
#include "kv/client/splitter.h"
#include "ps/rank.h"
#include "ps/rank_agent.h"

#define KV_WORKER_MORE_MEMORY "; start more servers, or give it more (--memory)"
/* entries of `pulled`, a power of two; bytes of cached key lists */
enum { KV_WORKER_NAMES = 1024, KV_WORKER_LISTS = 64 << 20 };

typedef struct kv_worker_rate { /* a learning rate of the open step */
    uint32_t table;
    float rate;
} kv_worker_rate;

struct kv_worker {
    kv_process *process;
    uint64_t incarnation;
    rank_agent *agent; /* NULL: not registered yet */
    rank *rank;        /* NULL: the process holds no rank */
    kv_session session;
    bool crowded;          /* every rank, or every reader's place, has a process; valid while this process registers */
    uint64_t most_readers; /* while it is crowded: the readers that there may be */
    char *rejected;        /* why the scheduler does not admit this reader; owned; NULL: it does */
    bool dirty;            /* something must be sent before the loop waits */
    bool away;             /* the rank has left slots without rounds (consistency.h) */
    bool returns;          /* it asks the slots where the others are, to begin a step there */
    uint64_t generation;   /* generations that this kv_worker has seen */
    uint32_t slot_count;
    slot_queue *queues; /* by slot, owned */
    bool reads;         /* a reader: holds no rank (cluster_map.h) */
    list pulls;         /* a reader's pulls from slots with rounds (reader_pull.h) */
    list eager;         /* slot queues that may have something to send */
    tickets tickets;
    splitter splitter;
    uint64_t *offsets; /* owned scratch: offsets of the values of vectors */
    size_t offset_room;
    push_encoder encoder;
    key_list_cache cache;             /* key lists that were pulled more than once */
    uint64_t pulled[KV_WORKER_NAMES]; /* hashes (lower halves) of pulled key lists */
    bool kept_elsewhere;              /* the program has set the folder of the rank's state */
    remote_values_map_view map_view;  /* reads exports of the servers of this machine */
    bool lends;                       /* some push referred to this process's memory */
    deployment_end end;
    data_client *client; /* owned; NULL: the program uses no dataset */
    /* at the end of the last step; while unchanged, its messages were delivered at most once */
    uint64_t ended_map, ended_breaks;
    bool skips; /* the rank is left out of the round of the open step */
    /* learning rates that were given with pushes of the round, by table; owned. They are sent at the end of the step to
     * every slot, so that all slots use those of the same rank, whichever keys it pushed */
    kv_worker_rate *rates;
    size_t rate_count, rate_room;
    uint64_t skipped; /* as of kv_worker_skipped */
    uint32_t *drops;  /* owned: ids of dropped tables, to be sent to the slots */
    uint32_t drop_count;
};

static inline const cluster_map *kv_worker_stage(const kv_worker *worker) { return rank_map(worker->rank); }
static inline bool kv_worker_is_ready(const kv_worker *worker) { return kv_session_is_ready(&worker->session); }
static inline bool kv_worker_is_open(const kv_worker *worker) { return kv_session_is_open(&worker->session); }
static inline bool kv_worker_in_round(const kv_worker *worker) { return worker->session.state == KV_SESSION_ROUND; }
size_t kv_worker_under_way(const kv_worker *worker); /* unacknowledged messages */
bool kv_worker_rounds_rest(const kv_worker *worker); /* no unacknowledged message is of a round */

/* Address of the head of the slot's chain; NULL: none. */
const char *kv_worker_head(const kv_worker *worker, uint32_t slot);

/* Returns MR_STALE; the error names the loss and the checkpoint with which the tables continue. Marks the loss as
 * reported. */
mr_status kv_worker_say_lost(kv_worker *worker);
/* The program has learned whether this generation began with a loss. */
void kv_worker_note_told(kv_worker *worker, uint64_t generation);

/* ---- Steps and rounds (kv_worker_steps.c). */

/* The term ends, or another generation begins: every pending request ends with MR_STALE. */
void kv_worker_interrupt(kv_worker *worker, const cluster_map *map, kv_session_state to);
/* First step behind every step in which a slot without rounds has a push of this rank. */
uint64_t kv_worker_fresh_step(const kv_worker *worker);
void kv_worker_skip_to(kv_worker *worker, uint64_t step); /* steps before this one ended without the rank */
void kv_worker_forget_step(kv_worker *worker);            /* forgets what is noted of the pushes of the open step */
/* Begins the wanted step as soon as possible, and asks for the owed rounds one after the other. */
void kv_worker_go_on(kv_worker *worker);
void kv_worker_on_ready(void *context); /* these are the rank_host callbacks of rank.h */
void kv_worker_on_over(void *context);
void kv_worker_on_round(void *context, const round_state_terms *terms);
void kv_worker_on_gone(void *context, uint32_t slot, uint64_t version);
void kv_worker_on_ordered(void *context, replica_log_kind kind, bool done, uint64_t round);

/* ---- Pulls of a reader in rounds (kv_worker_reads.c). */

/* Begins a pull with this ticket. MR_NOMEM. */
MR_MUST mr_status kv_worker_read(kv_worker *worker, ticket *ticket, reader_pull **out);
/* Ends the pull, or repeats it, if all its questions have been answered. */
void kv_worker_judge_pull(kv_worker *worker, reader_pull *pull);
void kv_worker_judge_pulls(kv_worker *worker);                                    /* the same for all */
void kv_worker_abandon_pull(kv_worker *worker, const ticket *ticket);             /* does not repeat it any more */
const reader_pull *kv_worker_pull(const kv_worker *worker, const ticket *ticket); /* NULL: not a pull of a reader */

/* ---- Functions of kv_worker.c that kv_worker_steps.c needs. */

void kv_worker_fail_all(kv_worker *worker, mr_status status); /* ends every pending request */
void kv_worker_open_queues(kv_worker *worker, uint32_t slot_count);
void kv_worker_recall(kv_worker *worker); /* reads the rank's error feedback from its file */

/* Tells the links where a zero-copy buffer was copied to (zero_copy.h). */
void kv_worker_moved(void *context, const shared_bytes *bytes, span from, span to);

/* Sends what can be sent now, and makes the loop run before it waits. So the first parts of a large request are sent
 * while the rest is split, and while they are still in the caches. */
void kv_worker_ship(kv_worker *worker);

/* Makes the loop send this slot queue before it waits, if the queue has something to send. */
static inline void kv_worker_wakes(kv_worker *worker, slot_queue *queue) {
    if (!list_empty(&queue->link) || (slot_queue_next(queue) == NULL && slot_queue_next_query(queue) == NULL)) return;
    list_push_back(&worker->eager, &queue->link);
    worker->dirty = true;
}
