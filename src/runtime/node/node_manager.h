/* node_manager.h — decisions of a node: its members, their workers, and the locations of actors.
 *
 * Pure over `rpc` (net/rpc/rpc.h) and a launcher: inputs are time, messages and ends of processes, outputs are answers
 * and decisions. node.c drives the core in a loop with the broker, the transport and the children; the simulator drives
 * it, too.
 *
 *   node_manager.c       life, members, requests by method
 *   node_job.c           jobs: each has workers of its own, and ends with its driver
 *   node_lease.c         carries out the scheduler's decisions: leases, starts of workers and their failures
 *   node_gpu.c           GPUs visible to a worker
 *   node_placement.c     placement groups
 *   node_actor_create.c  requests about actors, and the operations of their table (node_actor.h)
 *   node_actor_args.c    arguments of actors that may be created again
 *   node_state.c         states of actors that survive their processes
 *   node_inspect.c       queries about the node and its processes
 *   node_evict.c         workers that the memory monitor may end
 *   node_events.c        latest calls of workers, in rings of shared memory
 *   node_internal.h      state that these files share */
#pragma once
#include "net/rpc/rpc.h"
#include "net/shm/broker.h"
#include "runtime/common/resources.h"
#include "runtime/node/launcher.h"
#include "runtime/node/node_output.h"
#include "runtime/node/oom_policy.h"
#include "store/object_header.h"
#include "store/store_server.h"

typedef struct node_core node_core;

enum { NODE_MANAGER_OWN_PROGRAM = 1 }; /* job number of a private node's driver */

typedef struct node_facts { /* facts known only to the machine's loop */
    int pid;
    uint32_t number; /* number of the node: the upper half of the numbers of all its processes */
    char host[64];
    const char *address, *folder; /* borrowed */
    int64_t age_us;
    uint64_t memory_bytes; /* memory of the machine, or its container, beside the arena; 0: not known */
    broker_stats arena;
    store_server_stats store;
} node_facts;

typedef struct node_memory_ops { /* ranges of the arena; called with the launcher's self */
    void *(*lend)(void *launcher_self, size_t bytes, uint64_t *offset); /* contents undefined; NULL: no memory */
    void (*take_back)(void *launcher_self, uint64_t offset, size_t bytes);
} node_memory_ops;

typedef struct node_manager_options {
    void (*describe)(void *launcher_self, node_facts *out); /* NULL: no facts */
    const node_memory_ops *memory;                          /* NULL: no shared memory, no events */
    uint64_t arena_bytes;
    uint32_t events_kept;   /* of each process; 0: no event rings */
    resources total;        /* of this machine */
    const char *gpus_shown; /* as for gpus_init; borrowed during node_manager_create */
    uint32_t workers;       /* workers of each job, started before the first request */
    /* A standalone node: drivers join and leave, and each sends its launch spec when it joins. Otherwise a private node
     * of one job, whose workers start before the driver joins. */
    bool lasting;
} node_manager_options;

/* `env` is borrowed for the core's life; its transport may be filled in later (rpc_create). */
node_core *node_manager_create(const env *env, const node_manager_options *options, launcher launcher);
void node_manager_destroy(node_core *core); /* the transport must deliver no event to the core's rpc afterwards */

rpc *node_manager_calls(node_core *core);            /* borrowed; the context for rpc_events */
int64_t node_manager_next_us(const node_core *core); /* time of the next tick; CLOCK_NEVER_US: not before an event */
void node_manager_tick(node_core *core, int64_t now_us);

/* A part of the node that is not pure (the store server): gets the requests of joined processes for methods unknown to
 * the core, and is notified when a process leaves. Borrowed for the core's life. */
typedef struct node_extension_ops {
    /* answers, or fails: then the request is refused */
    mr_status (*request)(void *self, uint64_t process, const rpc_call_request *request);
    void (*room)(void *self); /* a link has room again */
    void (*gone)(void *self, uint64_t process);
    mr_status (*keep)(void *self, const object_ref *ref); /* holds an object of the store; MR_OBJECT_LOST: it is gone */
    void (*let_go)(void *self, const object_ref *ref);    /* releases an object held by `keep` */
} node_extension_ops;
void node_manager_extension(node_core *core, const node_extension_ops *ops,
                            void *self); /* call before the first process can join */

void node_manager_start(node_core *core); /* call when the transport is open: requests the first workers */
void node_manager_stop(node_core *core);  /* nothing new is started; links and children may end now */

/* Name of the body that wrote the worker's output before this position of that stream; false: not known. */
bool node_manager_speaker(const node_core *core, int pid, std_stream std_stream, uint64_t place, char *out,
                          size_t size);
/* A process started by the launcher has printed this line. */
void node_manager_printed(node_core *core, uint32_t program, const node_output_source *source, span line);

/* A worker whose start the launcher deferred has started, or failed to start. */
void node_manager_child_started(node_core *core, uint32_t program, int pid);
void node_manager_start_failed(node_core *core, uint32_t program, const char *why);

bool node_manager_is_starting(const node_core *core, int pid); /* the process has not joined yet */
/* Reason why the node has killed a process, for the text of its death; "": not killed, or no reason. *status is the
 * status of its death: MR_PEER_DIED, or what node_manager_evict has decided. */
const char *node_manager_sentence(const node_core *core, int pid, mr_status *status);
/* Writes why the actor in a process that has died does not return, for the same text: "; it is not restarted: …". "":
 * it does, or there is none. */
void node_manager_write_fate(node_core *core, int pid, char *out, size_t size);

/* ---- For the memory monitor. */

/* Whether something runs that may be ended: tasks, or only actors. */
bool node_manager_has_work(const node_core *core, bool *tasks_run);
/* All workers that may be ended, without their `bytes`; *out is owned. False: one is being ended, and is not gone. */
bool node_manager_workers(node_core *core, oom_worker **out, size_t *count);
/* What a process of this node is: the name of the task or the class of the actor that it runs; "": not known. */
void node_manager_name(node_core *core, int pid, char *out, size_t size);
/* Ends a worker. Its tasks are retried, and the retry does not count; or the one that runs fails. */
void node_manager_evict(node_core *core, uint64_t process, bool retry, const char *why);

/* A process started by the launcher has ended; `how` is a text such as "exited with status 3". */
void node_manager_child_ended(node_core *core, int pid, const char *how);
