/* miniray/admin.h — functions for operators: configuration, nodes, inspection, and the scheduler, the servers, the
 * status and the checkpoints of a parameter server. Programs that train need miniray/runtime.h, train.h and ps.h
 * instead. The commands `miniray start, stop, status, list, why, config, ps …` are built on this header. */
#pragma once
#include "miniray/ps.h"
#include "miniray/runtime.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Configuration: every option of this version, its value, the source of the value, and the allowed values.
 *
 * The value of an option is the program's setting ("name=value"), else the environment's (MINIRAY_NAME), else the
 * default. A variable of the environment that begins with MINIRAY_ and names no option is logged as a warning. */

typedef struct mr_config_option { /* borrowed for the duration of mr_config_fn */
    const char *name;             /* "arena_bytes" */
    const char *variable;         /* "MINIRAY_ARENA_BYTES" */
    const char *value;            /* "256M" */
    const char *source;           /* "default", "environment" or "program" */
    const char *initial;          /* default value */
    const char *allowed;          /* "bytes from 4M to 16384G, such as …" */
    const char *doc;              /* one line */
} mr_config_option;

typedef void mr_config_fn(void *argument, const mr_config_option *option);

/* Loads the options and calls fn for each, in their order. `settings` is NULL-terminated, or NULL. MR_INVALID: a
 * value is not allowed or an option does not exist; the error says which, and fn is not called. */
MR_API MR_MUST mr_status mr_config_each(const char *const *settings, mr_config_fn *fn, void *argument);

/* The same as one JSON object with a member for each option. Free the text with free(). */
MR_API MR_MUST mr_status mr_config_json(const char *const *settings, char **out);

/* ---- Nodes: a standalone node is a process that owns this machine's shared memory, workers and resources, and that
 * several programs join (mr_options.address). `miniray start` and `miniray stop` call these functions. */

typedef struct mr_node_options {
    size_t size;
    const char *address;   /* path of its socket [this user's own, the address "auto"] */
    double num_gpus;       /* with CUDA_VISIBLE_DEVICES: the first ones of that list [0] */
    const char *resources; /* "name=2,other=0.5" [none] */
    size_t store_bytes;    /* shared memory [the option arena_bytes, else mr_store_bytes_default] */
    int num_cpus;          /* tasks that run at once [mr_num_cpus_default] */
} mr_node_options;

typedef struct mr_node_info {
    int pid;
    char address[112]; /* path of its socket */
    char folder[112];  /* session directory, with the logs of node and workers; "": unknown */
} mr_node_info;

/* The memory that this process may use: the machine's, or that of the tightest memory cgroup around the process. */
typedef struct mr_memory {
    uint64_t total, available; /* bytes; 0: unknown */
} mr_memory;
MR_API void mr_memory_get(mr_memory *out);

/* The default size of a node's shared memory: 30 % of the memory that is available to this process (mr_memory_get),
 * or of its address space if that is limited to less; at least 64 MB. Pages are allocated when they are written
 * first, so an idle node uses little memory and starts fast, whatever the size. */
MR_API size_t mr_store_bytes_default(void);

/* The default number of workers of a node: the CPUs that this process may use, which are those of its affinity mask, at
 * most the CPU limit of the control groups around it, rounded up. */
MR_API int mr_num_cpus_default(void);

/* Writes the directory of this user's nodes, which has their sockets and session directories, and creates nothing: at
 * the first usable place of XDG_RUNTIME_DIR, TMPDIR, /tmp, /run/user/UID, /dev/shm and /var/tmp. MR_DENIED, MR_IO: none
 * is usable. */
MR_API MR_MUST mr_status mr_sessions_dir(char out[112]);

/* Starts the same executable again as a node and waits until it is ready; the node outlives this process. `out` may be
 * NULL here and below. MR_EXISTS: a node runs at that address. */
MR_API MR_MUST mr_status mr_node_start(const mr_node_options *options, mr_node_info *out);

/* Ends the node and everything that it has started, and waits until the node is gone; calls of programs that have
 * joined return MR_CLOSED. `address` NULL: "auto". MR_NOT_FOUND: no node runs there. */
MR_API MR_MUST mr_status mr_node_stop(const char *address, mr_node_info *out);

/* ---- Inspection of a node and its processes while they run: the data of `miniray status`, `list` and `why`.
 *
 * An inspecting process joins the node, receives no work and disturbs no other process. Processes answer between two
 * messages; one that does not answer within a second is reported as silent. Answers are values (miniray/value.h), whose
 * fields docs/observability.md lists. Times are ages in µs, sizes are bytes, ids are short texts such as t4:17.
 *
 *     mr_inspect *inspect;
 *     mr_value answer;
 *     char *json;
 *     if (mr_inspect_open(NULL, &inspect) != MR_OK || mr_inspect_ask(inspect, "tasks", NULL, 100, &answer) != MR_OK) …
 *     mr_inspect_json(mr_value_arg(&answer), &json);
 */

typedef struct mr_inspect mr_inspect; /* opaque; one thread at a time */

/* The nodes of this user on this machine: {"nodes": [{"address", "pid", "kind"}], "runs": [{"folder", "address",
 * "stale", "age_us", "logs": [{"name", "stream", "path", "bytes"}]}]}. Runs are those with a folder, the newest
 * first. A run that has ended, or of a standalone node, has no address. A stale run is one whose node was killed and
 * left its socket. The log of a worker belongs to one stream, "stdout" or "stderr"; the node's own to none (nil). */
MR_API MR_MUST mr_status mr_inspect_nodes(mr_value *out);

/* `address` is the path of a node's socket; NULL or "auto": the standalone node of this user. MR_NOT_FOUND: no node
 * runs there. MR_DENIED: the node belongs to another user. */
MR_API MR_MUST mr_status mr_inspect_open(const char *address, mr_inspect **out);
/* The same inside a program or a body, for the node that it has joined. The context is borrowed: close before
 * mr_shutdown. */
MR_API MR_MUST mr_status mr_inspect_within(mr_context *mr, mr_inspect **out);
MR_API void mr_inspect_close(mr_inspect *inspect);

/* `what` is "status", "tasks", "actors", "objects", "workers", "groups", "memory", "timeline", or "why" with an id
 * (else NULL). Two are cheap, because only the node answers them: "resources", {"resources": [{"name", "total",
 * "free"}]} in thousandths, and "nodes", {"nodes": [{"id", "address", "host", "pid", "alive", "age_us", "version",
 * "folder", "arena_bytes", "resources"}]}. Gives at most `limit` rows; totals count all. MR_INVALID: no such
 * question or id. MR_NOT_FOUND: no object has that id. MR_CLOSED: the node has ended. */
MR_API MR_MUST mr_status mr_inspect_ask(mr_inspect *inspect, const char *what, const char *id, size_t limit,
                                        mr_value *out);

typedef struct mr_trace {
    char *json; /* free it with free() */
    size_t size;
    size_t calls, workers; /* in the trace: calls that ran, and workers that ran them */
} mr_trace;

/* The recent calls of the workers, with their callers, in the Trace Event Format of https://ui.perfetto.dev and
 * chrome://tracing; at most `limit` records of each worker. */
MR_API MR_MUST mr_status mr_inspect_trace(mr_inspect *inspect, size_t limit, mr_trace *out);

/* Any value as JSON; free it with free(). Bytes become text; a kind that JSON does not have becomes its name.
 * MR_INVALID, MR_NOMEM, MR_TOO_LARGE. */
MR_API MR_MUST mr_status mr_inspect_json(mr_arg value, char **out);

/* ---- Scheduler and servers of a parameter server.
 *
 * Both functions serve in the calling thread until SIGTERM or SIGINT, then leave and return MR_OK. A server first moves
 * its slots to other servers, if there are any, within a minute, or waits for the scheduler's last checkpoint; a
 * scheduler first makes that checkpoint (final_checkpoint_us). A second signal ends it at once. Other threads of the
 * process must block these signals. */

typedef void mr_ps_listening_fn(void *context, const char *address);

/* An optimizer of a server program: tables with .optimizer = "own:NAME" use it. All servers must have it
 * (mr_ps_table_create asks them). It must be a pure function: it runs on every replica when a push is applied there,
 * once whatever fails, and must give the same bits everywhere. Its tables are replicated, saved and moved like any
 * other. */

typedef struct mr_ps_update { /* one update of a row, or of a range of a block */
    size_t count;
    const float *from, *gradient;
    float *to;           /* `from`, or memory that does not overlap it */
    float *const *state; /* the optimizer's state: arrays of `count` values, zero at first; read and written */
    float rate;          /* learning rate: of the push, or of this step from the schedule */
    float scale;         /* factor for the gradients */
    float momentum, beta1, beta2, epsilon, decay, beta, l1, l2; /* of the table's options */
} mr_ps_update;

typedef void mr_ps_update_fn(void *context, const mr_ps_update *update);

typedef struct mr_ps_optimizer {
    const char *name;
    uint32_t states; /* arrays of state, at most 4 */
    mr_ps_update_fn *update;
    void *context;
} mr_ps_optimizer;

typedef struct mr_ps_app { /* a handler of messages to this process; its state ends with the process */
    int app;
    mr_ps_handler_fn *handler;
    void *context;
} mr_ps_app;

typedef struct mr_ps_scheduler_options {
    size_t size;
    const char *listen;         /* address, the same at each start [DMLC_PS_ROOT_URI and DMLC_PS_ROOT_PORT] */
    const char *checkpoint_dir; /* required: for state and checkpoints; created if it is missing */
    uint32_t num_workers;       /* ranks [DMLC_NUM_WORKER] */
    uint32_t num_servers;       /* servers to wait for before the start [DMLC_NUM_SERVER] */
    /* Partitions of each table [those of checkpoint_dir; 16 in a new one]. Another number than that of checkpoint_dir
     * distributes the tables of the newest checkpoint anew, if the deployment was stopped by SIGTERM. */
    uint32_t slots;
    uint32_t replicas;                /* of each slot, at most MR_PS_REPLICAS_MAX [1] */
    mr_ps_consistency consistency;    /* default of tables [MR_PS_ASP] */
    uint32_t staleness;               /* SSP: steps [0] */
    int mixed_consistency;            /* 1: tables of BSP beside others, in slots of their own: twice the slots [0] */
    int allow_remote;                 /* reserved: 1 is rejected until links between machines are encrypted [0] */
    int64_t checkpoint_us;            /* interval of checkpoints [never] */
    mr_ps_listening_fn *on_listening; /* called once, with the address [none] */
    void *context;
    const mr_ps_app *apps; /* handlers of messages [none] */
    uint32_t app_count;
    /* 1: where no table has rounds, a checkpoint contains every slot after the same step of each rank, so that no push
     * is repeated after it. mr_ps_begin waits while slots are saved, at most 10 s; a rank whose process dies inside a
     * step delays checkpoints until the step is repeated. 0: no rank waits, and slots are saved at different steps. In
     * BSP checkpoints are always consistent. Not with mixed_consistency. [0] */
    int consistent_checkpoints;
    /* Interval of load balancing: if some servers serve more requests than others, slots move; a slot with too many
     * requests for one server, and more pulls than pushes, gets a replica for reading. [5 s]; negative: never */
    int64_t balance_us;
    /* BSP: a round closes when all ranks but `backup_workers` (fewer than num_workers) have ended it [when all have],
     * and without the late ones `deadline_us` after the first has (at most UINT32_MAX, checked every 60 ms) [no
     * deadline]. All slots close with the same ranks; a rank that was left out is in the next round again. Its pushes
     * return MR_STALE, as do its pulls and mr_ps_end if another round has closed since; mr_ps_begin returns the step of
     * the others. The bits then depend on which ranks were in time. A scheduler that is restarted with other values
     * uses them after the next return to a checkpoint. */
    int64_t deadline_us;
    uint32_t backup_workers;
    /* SIGTERM, SIGINT, and the drain of the last server: a checkpoint is made first if there are tables, with or
     * without checkpoint_us, so that the next start has all pushes. The stop waits until it is complete, or until no
     * slot was saved for this long, and at most 10 minutes; the log says what is missing. A second signal, a second or
     * more after the first, ends the wait. [30 s]; negative: a stop makes no checkpoint */
    int64_t final_checkpoint_us;
    /* Processes that may be connected as readers (MR_PS_READER) at the same time, at most 1,024. A scheduler that is
     * restarted with another number uses it after the next return to a checkpoint. [0] */
    uint32_t readers;
} mr_ps_scheduler_options;

typedef struct mr_ps_server_options {
    size_t size;
    const char *scheduler; /* address of the scheduler [DMLC_PS_ROOT_URI and DMLC_PS_ROOT_PORT] */
    const char *listen;    /* address [a free port of this machine, or a socket beside the scheduler's] */
    uint32_t number;       /* 1 + number of the server, to replace that server [the scheduler assigns a number] */
    int allow_remote;      /* reserved: 1 is rejected until links between machines are encrypted [0] */
    uint64_t memory_bytes; /* limit; pushes beyond it wait [half of the machine's available memory] */
    mr_ps_listening_fn *on_listening; /* called once, with the address [none] */
    void *context;
    const mr_ps_app *apps; /* handlers of messages [none] */
    uint32_t app_count;
    uint32_t optimizer_count;
    const mr_ps_optimizer *optimizers; /* for tables with "own:NAME" [none] */
} mr_ps_server_options;

/* The calling thread, and what it starts from then on, cannot gain privileges (no_new_privs), also after the return.
 * MR_INVALID: the error names the option. MR_EXISTS: another process listens there. MR_BUSY: another scheduler uses the
 * folder. MR_CORRUPT: the state in the folder is damaged. */
MR_API MR_MUST mr_status mr_ps_run_scheduler(const mr_ps_scheduler_options *options);
/* Errors as above; MR_EXISTS also: another process has taken this server's number. MR_NOT_FOUND: this process cannot
 * load the library of a table's compression. If `number` belongs to a live
 * server, this one waits until that server is gone. */
MR_API MR_MUST mr_status mr_ps_run_server(const mr_ps_server_options *options);

/* ---- Status of a parameter server. `scheduler` is its address (NULL: DMLC_PS_ROOT_URI and DMLC_PS_ROOT_PORT).
 * MR_TIMEOUT: the scheduler does not answer. */

enum { MR_PS_REPLICAS_MAX = 4 };

typedef struct mr_ps_replica { /* the process that has a replica of a slot */
    uint32_t server;
    uint64_t incarnation;
} mr_ps_replica;

typedef struct mr_ps_slot {
    uint64_t epoch; /* grows when its replicas change */
    uint32_t count;
    mr_ps_replica replicas[MR_PS_REPLICAS_MAX]; /* the first one receives pushes */
    uint32_t read_replicas;                     /* additional replicas of a hot slot, for pulls */
    int pinned_server; /* the server that leads it since load was balanced; -1: the one of the hash ring */
} mr_ps_slot;

typedef struct mr_ps_server {
    uint32_t number;
    uint64_t incarnation;
    char address[MR_PS_ADDRESS_MAX];
} mr_ps_server;

typedef struct mr_ps_rank {
    uint32_t worker;
    uint64_t incarnation; /* 0: no process has held the rank yet */
} mr_ps_rank;

typedef struct mr_ps_cluster_map { /* the scheduler's latest assignment of slots to servers */
    uint64_t number;               /* version of the map; 0: none yet, the scheduler waits for servers */
    uint64_t generation;           /* changes each time all tables return to a checkpoint */
    uint64_t restored_from;        /* the checkpoint that the generation began from; 0: none */
    uint64_t checkpoint;           /* the newest complete one; 0: none */
    mr_ps_info info;               /* without a rank */
    mr_ps_slot *slots;             /* info.slots, twice as many if mixed; in BSP one more, for the members of rounds */
    uint32_t slot_count;
    mr_ps_server *servers; /* info.servers */
    mr_ps_rank *ranks;     /* info.ranks */
} mr_ps_cluster_map;

MR_API MR_MUST mr_status mr_ps_cluster_map_get(const char *scheduler, int64_t timeout_us, mr_ps_cluster_map **out);
MR_API void mr_ps_cluster_map_free(mr_ps_cluster_map *map);

typedef struct mr_ps_metric { /* a number that a process reports */
    char key[MR_PS_NAME_MAX];
    double value, rate; /* the newest value; its recent change per second */
    uint64_t count;     /* reports */
} mr_ps_metric;

typedef struct mr_ps_process {
    int role;        /* MR_PS_SCHEDULER, MR_PS_SERVERS, MR_PS_WORKERS, MR_PS_READERS */
    uint32_t number; /* of the server, the rank, or the reader */
    uint64_t incarnation;
    char address[MR_PS_ADDRESS_MAX];
    int here;          /* 0: no message for some seconds, or its link broke */
    int64_t silent_us; /* since its last message */
    /* Of a worker. */
    uint64_t step; /* the current one, or the next one */
    double steps_second;
    /* Of a server: since it started, and the recent rates. */
    uint64_t pushes, pulls;       /* requests: several small ones may have been sent as one */
    uint64_t bytes_in, bytes_out; /* of pushes, and of answers */
    double pushes_second, pulls_second, bytes_in_second, bytes_out_second;
    uint64_t memory, memory_max; /* bytes used, and the limit */
    uint64_t conflicts;          /* BSP: contributions that were repeated with other bytes than before */
    uint32_t metric_count;
    mr_ps_metric metrics[MR_PS_METRICS_MAX];
} mr_ps_process;

typedef struct mr_ps_processes { /* all processes that the scheduler knows */
    uint32_t count;
    mr_ps_process *processes; /* by role, then number */
} mr_ps_processes;

MR_API MR_MUST mr_status mr_ps_processes_get(const char *scheduler, int64_t timeout_us, mr_ps_processes **out);
MR_API void mr_ps_processes_free(mr_ps_processes *processes);

typedef struct mr_ps_table_state {
    char name[MR_PS_NAME_MAX];
    mr_ps_kind kind;
    mr_dtype dtype;
    uint32_t dim;    /* sparse: values of a row */
    uint32_t arrays; /* dense */
    char optimizer[MR_PS_TEXT_MAX], compression[MR_PS_TEXT_MAX], consistency[MR_PS_TEXT_MAX]; /* as created */
    uint64_t rows;      /* keys with a row or a vector; dense: items of its arrays */
    uint64_t bytes;     /* memory of one replica of each slot, with the state of the optimizer */
    uint64_t nonfinite; /* rows, vectors and ranges that were not finite and left out, since servers began */
} mr_ps_table_state;

enum { MR_PS_PATH_MAX = 1024, MR_PS_SENTENCE_MAX = 512 }; /* bytes with the NUL; longer texts are cut */

typedef struct mr_ps_data_reader { /* a worker that reads the dataset */
    uint32_t rank, shards;         /* shards of this worker that are not assigned completely */
    uint64_t items;                /* items of these shards that are not assigned yet */
} mr_ps_data_reader;

typedef struct mr_ps_dataset_state {
    uint32_t shards, shards_done;   /* all, and those assigned completely in this epoch; shards 0: no dataset */
    uint64_t epoch;                 /* the current one */
    uint64_t items, items_given;    /* all, and those assigned in this epoch */
    uint64_t items_back;            /* handed back, of this epoch or earlier ones: they are assigned first */
    uint32_t workers, reader_count; /* workers that read the dataset; the first 512 of them: */
    mr_ps_data_reader *readers;     /* by rank */
} mr_ps_dataset_state;

typedef struct mr_ps_overview {                /* tables, dataset, checkpoints and stalls */
    char folder[MR_PS_PATH_MAX];               /* of the scheduler's checkpoints */
    uint64_t checkpoint;                       /* the newest complete one; 0: none */
    int64_t checkpoint_us;                     /* when it was written, since 1970 */
    int64_t every_us;                          /* interval of checkpoints; 0: on request only */
    int making;                                /* 1: a checkpoint is in progress */
    int checkpoint_failed;                     /* 1: the last attempt could not be written or read */
    char checkpoint_error[MR_PS_SENTENCE_MAX]; /* why the last failed one failed; "": none since the scheduler began */
    int64_t checkpoint_error_us;               /* when, since 1970 */
    /* Why nothing proceeds, and what happens after that is resolved: servers are missing before the first cluster map,
     * servers are gone with all replicas of some slots, or no checkpoint can be read. "": no stall */
    char stall[MR_PS_SENTENCE_MAX];
    int64_t stall_us;                /* since when, since 1970 */
    char stall_hint[MR_PS_PATH_MAX]; /* commands that may help, one in each line */
    uint32_t counted, servers;       /* servers whose rows and bytes are known, and all servers */
    uint32_t table_count;
    mr_ps_table_state *tables; /* in the order of creation */
    mr_ps_dataset_state data;
} mr_ps_overview;

/* The numbers from servers are up to a second old. */
MR_API MR_MUST mr_status mr_ps_overview_get(const char *scheduler, int64_t timeout_us, mr_ps_overview **out);
MR_API void mr_ps_overview_free(mr_ps_overview *overview);

/* ---- Supervision of a parameter server. */

typedef struct mr_ps_supervision mr_ps_supervision; /* opaque */

/* Of a process that starts the scheduler and the servers of a deployment itself, and with which all of them end
 * (`miniray ps local` does so): creates a private temporary directory for their socket and state. It is removed at
 * mr_ps_supervision_end, and also when this process is killed. Programs whose scheduler's socket is in the directory
 * notice the end of this process at once: their calls return MR_PEER_DIED, with the cause. Call it while the process
 * has one thread, since it forks. MR_IO: no temporary directory. */
MR_API MR_MUST mr_status mr_ps_supervise(mr_ps_supervision **out);
MR_API const char *mr_ps_supervision_dir(const mr_ps_supervision *supervision); /* at most 36 bytes; borrowed */
MR_API void mr_ps_supervision_end(mr_ps_supervision *supervision);              /* frees it; no-op if NULL */

/* ---- Checkpoints of a parameter server. */

/* Makes a checkpoint now, with or without an interval. After MR_OK a checkpoint that began after this call is
 * complete and on the scheduler's disk; it contains every push that was acknowledged before the call. *out is its
 * number (mr_ps_cluster_map.checkpoint). Any process may ask, at any time, also before the first step: in BSP it has
 * all steps that every rank has ended, and is made when a step ends, or within seconds when none does because ranks
 * wait, compute or have ended, between two steps or inside one. MR_TIMEOUT: the scheduler does not answer, or the error
 * says what is missing; the checkpoint may still be made. */
MR_API MR_MUST mr_status mr_ps_checkpoint(const char *scheduler, int64_t timeout_us, uint64_t *out);

/* The following read the folder of a scheduler, which may run or not, and change nothing there. */

enum { MR_PS_DAMAGE_MAX = 160 };

typedef struct mr_ps_checkpoint_table {
    char name[MR_PS_NAME_MAX];
    mr_ps_kind kind;
    mr_dtype dtype;
    uint32_t dim;   /* sparse */
    uint64_t rows;  /* of all slots: rows, vectors, or items of arrays in blocks that were pushed to */
    uint64_t bytes; /* of values, without the state of the optimizer */
} mr_ps_checkpoint_table;

typedef struct mr_ps_checkpoint_info {
    uint64_t number;                /* 0: its manifest is damaged, and nothing else is known */
    uint64_t generation;            /* in which it was made */
    int64_t step;                   /* of the rounds, with which ranks continue; -1: no rounds */
    int64_t written_us;             /* when the newest of its files was written, since 1970 */
    uint64_t bytes;                 /* of its files; unchanged slots share them with other checkpoints */
    uint32_t slots;                 /* that it contains */
    char damage[MR_PS_DAMAGE_MAX];  /* "": it is complete; else the file that is damaged */
    mr_ps_checkpoint_table *tables; /* those that could be read */
    uint32_t table_count;
} mr_ps_checkpoint_info;

typedef struct mr_ps_checkpoints {
    uint32_t count;
    mr_ps_checkpoint_info *list; /* newest first, then those with a damaged manifest */
} mr_ps_checkpoints;

/* Reads all files and checks their checksums. MR_NOT_FOUND: no such folder, or no checkpoint in it. MR_INVALID. */
MR_API MR_MUST mr_status mr_ps_checkpoints_get(const char *folder, mr_ps_checkpoints **out);
MR_API void mr_ps_checkpoints_free(mr_ps_checkpoints *checkpoints);

/* Writes the tables of a checkpoint (0: the newest that can be read) to one safetensors file: of a sparse table
 * TABLE/keys and TABLE/values [rows, dim] by ascending key; of vectors these and TABLE/lengths; of a dense table
 * TABLE/ARRAY in its shape; fp32, or int64 for counters. `path` is the file, or a folder for
 * checkpoint-NUMBER.safetensors. The whole content is in memory for a while. MR_NOT_FOUND: no such checkpoint.
 * MR_CORRUPT: the error names the damage. MR_NOMEM, MR_IO: `path` is as it was before. */
MR_API MR_MUST mr_status mr_ps_checkpoint_export(const char *folder, uint64_t number, const char *path);

#ifdef __cplusplus
}
#endif
