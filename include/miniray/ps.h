/* miniray/ps.h — the key-value parameter server: tables that servers hold and workers push to and pull from.
 *
 *     mr_ps_connect(NULL, rank, timeout_us, &ps);               // NULL: DMLC_PS_ROOT_URI and DMLC_PS_ROOT_PORT
 *     mr_ps_table_create(ps, "words", &MR_OPTIONS(mr_ps_table_options, .dim = 16, .optimizer = "adagrad"), timeout_us,
 *                        &words);
 *     while (mr_ps_begin(ps, timeout_us, &step) == MR_OK && step < STEPS) {
 *         mr_ps_pull(words, keys, count, rows, NULL, NULL, NULL);                  // waits
 *         ...                                                                      // compute gradients
 *         mr_ps_push(words, keys, count, gradients, NULL, NULL, &ticket);          // borrowed until it is done
 *         mr_ps_end(ps);                                                           // ends the step
 *     }
 *     mr_ps_flush(ps, timeout_us);                              // waits until everything is acknowledged
 *     mr_ps_table_free(words);
 *     mr_ps_close(ps);
 *
 * Processes    One scheduler, servers and workers. Workers are programs that call mr_ps_connect; each holds one rank.
 *              `miniray ps` and miniray/admin.h run schedulers and servers; miniray/deployment.h runs them as actors.
 * Tables       A table has a name and is visible to all workers. The servers apply a push to a key's values with the
 *              table's optimizer: exactly once, whatever fails, and on all replicas before the push is acknowledged.
 * Steps        A worker works in steps. When its process dies and another one takes its rank, mr_ps_begin returns the
 *              step to repeat; a repeated step must push the same values in the same order.
 *                BSP   all ranks do a step together: a pull shows the state before the step; the pushes of a step are
 *                      summed in the order of ranks and make one update. Deaths do not change the bits.
 *                SSP   a rank is ahead of the slowest one by at most `staleness` steps.
 *                ASP   ranks do not wait for each other.
 *              Without rounds (ASP, SSP) a worker may work without steps. Each of its pushes then counts once, and none
 *              is repeated after a crash. After its first mr_ps_begin, a worker must open a step for every request.
 * Readers      A reader (mr_ps_connect with MR_PS_READER) pulls and holds no rank: no rank waits for it, and it has no
 *              steps. Each of its pulls from a table of BSP shows one step of all ranks: the newest that had ended in
 *              every slot when the pull was made, or a later one; other pulls show what the slots have. A pull is
 *              repeated, without a call, while rounds end faster than it is answered.
 * MR_STALE     All replicas of a slot were lost: all tables continue from the newest checkpoint, or are empty if there
 *              is none, and pushes acknowledged after that checkpoint are lost. mr_last_error names the checkpoint.
 *              With steps, the open step is void, and mr_ps_begin returns the step to continue with. Without steps, the
 *              first request of each connected worker after the loss returns MR_STALE, once. If no worker was
 *              connected at the time of the loss, the first request of the next worker returns it. In BSP, MR_STALE
 *              also means that the round closed without this worker's push.
 * Threads      All functions of a connection may be called from any thread. A waiting thread reads the sockets itself;
 *              otherwise a thread of the library does, so that the worker sends heartbeats while it computes. */
#pragma once
#include <stddef.h>
#include <stdint.h>

#include "miniray/value.h"

#ifdef __cplusplus
extern "C" {
#endif

#define MR_PS_ANY_RANK   (-1)     /* the lowest rank that no process holds */
#define MR_PS_READER     (-2)     /* no rank: the connection only pulls */
#define MR_PS_TIMEOUT_US 60000000 /* of requests without a ticket */

enum { MR_PS_ADDRESS_MAX = 64 }; /* bytes of an address, with the NUL */

typedef struct mr_ps mr_ps; /* opaque: a worker's connection */
typedef struct mr_ps_ticket {
    uint64_t v;
} mr_ps_ticket;

typedef enum mr_ps_consistency { MR_PS_ASP, MR_PS_SSP, MR_PS_BSP } mr_ps_consistency;

typedef struct mr_ps_info {
    uint32_t rank; /* of a reader: UINT32_MAX */
    uint32_t ranks, slots, servers, replicas;
    mr_ps_consistency consistency; /* default of tables */
    uint32_t staleness;            /* SSP */
    int mixed_consistency;         /* 1: tables with rounds and tables without may be mixed */
    uint32_t backup_workers;       /* BSP: ranks that a round need not wait for */
    int64_t deadline_us;           /* BSP: how long a round waits for late ranks; 0: without a limit */
} mr_ps_info;

/* Waits until servers have registered and this process holds the rank. `scheduler` is "tcp:HOST:PORT" or "unix:PATH"
 * (NULL: DMLC_PS_ROOT_URI and DMLC_PS_ROOT_PORT). An earlier process of the rank is replaced: its calls return
 * MR_EXISTS. MR_TIMEOUT: the error says what is missing (no scheduler, no servers, …). MR_NOT_FOUND: no such rank.
 * MR_INVALID: not an address.
 *
 * `rank` MR_PS_READER: a reader, which needs a place of mr_ps_scheduler_options.readers. The place of a process that
 * has ended is free within seconds. MR_TIMEOUT also: all places are taken. MR_DENIED: the deployment has no readers. A
 * reader opens and lists tables, pulls, sends and handles messages and reports metrics. Other calls return MR_DENIED:
 * mr_ps_begin, _end, _skip, _leave, _barrier, _set_state_dir and _dataset_*, pushes, and the creation and drop of
 * tables. */
MR_API MR_MUST mr_status mr_ps_connect(const char *scheduler, int rank, int64_t timeout_us, mr_ps **out);
/* Does not wait: pushes that are not acknowledged may be lost. No other call may be in progress. */
MR_API void mr_ps_close(mr_ps *ps);
MR_API void mr_ps_info_get(mr_ps *ps, mr_ps_info *out);

/* Begins a step and returns its number, counted from 0. In BSP it waits until all ranks have ended the step before;
 * in a mixed deployment only workers that have opened a table of BSP wait. If a step is open, it returns that step's
 * number. MR_TIMEOUT: the error says why. MR_EXISTS: another process holds this rank. */
MR_API MR_MUST mr_status mr_ps_begin(mr_ps *ps, int64_t timeout_us, uint64_t *step);

/* Waits for a request. MR_TIMEOUT: it is still in progress and its memory stays borrowed. MR_NOMEM: likewise, and a
 * server has no memory for it. MR_NOT_FOUND: no such ticket, or it was waited for before. */
MR_API MR_MUST mr_status mr_ps_wait(mr_ps *ps, mr_ps_ticket ticket, int64_t timeout_us);

/* The errors of waits. MR_TIMEOUT: the text names the request and the cause, as far as this process knows it; after
 * more than a second also the ranks that the request waits for, and the command that shows more. MR_PEER_DIED: the
 * deployment has ended; the text says how. Pending requests are abandoned then: their memory is free, and whether a
 * push was applied is not known. For programs that wait in slices of at most a second: mr_ps_explain completes the
 * error text of the slice that timed out last in this thread, as after a wait of `waited_us`; that takes at most 0.1
 * s. */
MR_API void mr_ps_explain(mr_ps *ps, int64_t waited_us);

MR_API MR_MUST mr_status mr_ps_end(mr_ps *ps); /* ends the step; does not wait. MR_STALE: no step is open */
/* Waits until everything is acknowledged, ends of steps included. MR_TIMEOUT. */
MR_API MR_MUST mr_status mr_ps_flush(mr_ps *ps, int64_t timeout_us);

/* Leaves: no other rank waits for this one any more, neither rounds of BSP nor pulls of SSP, so that it may end before
 * the others. Waits until that is decided, and is left out of rounds that still include the rank. An open step must be
 * ended before (MR_DENIED), unless it has no pushes and is no round: then it begins again. Earlier pushes stay; claimed
 * data is handed back (mr_ps_dataset_leave). A later mr_ps_begin, of this process or another one of the rank, returns:
 * in BSP with the next round, otherwise with the step of the slowest rank. MR_DENIED: also if it is the last rank in
 * the rounds. MR_STALE: all replicas of a slot were lost before the decision, and the rank has not left. */
MR_API MR_MUST mr_status mr_ps_leave(mr_ps *ps, int64_t timeout_us);

/* ---- Data.
 *
 * The items of the training data lie in shards: files, ranges of rows. A deployment has one dataset. The workers know
 * where it is stored; the scheduler assigns numbers: the items of each step. Each item is used once in an epoch, then
 * the next epoch begins. A worker that joins receives some of the items that others have not begun; the rest of a
 * worker that leaves goes to others. A repeated step has the same batch, in any process, also after a return to a
 * checkpoint, unless its rank has left the dataset since, and no server had a push of the step then. The batch of a
 * step that its round closed without (MR_STALE) goes to others as soon as no checkpoint can bring the step back; if the
 * process is gone by then, the batch counts as used: no item is used twice in an epoch. When tables become empty again,
 * the dataset begins again, too. */

typedef struct mr_ps_data_batch { /* items from … to - 1 of a shard, in an epoch; all are counted from 0 */
    uint64_t epoch, from, to;
    uint32_t shard;
} mr_ps_data_batch;

/* Defines the dataset: `count` shards with sizes[i] items each, at least 1. All workers give the same sizes, before
 * their first batch; the first definition is final. MR_EXISTS: the dataset has other sizes, which the error names.
 * MR_INVALID: no shards, or a shard without items. MR_TOO_LARGE: more than 2,048 shards. MR_TIMEOUT: the scheduler does
 * not answer. */
MR_API MR_MUST mr_status mr_ps_dataset_define(mr_ps *ps, const uint64_t *sizes, uint32_t count, int64_t timeout_us);

/* The batch of the open step: `batch` items (at most 2^32), or fewer at the end of a shard or where items were handed
 * back. Every call in a step, and every repetition of the step, gives the same batch. Batches are claimed some steps
 * ahead, so that this call normally does not wait; `batch` applies to later claims. Epochs follow each other without
 * end: stop by out->epoch.
 * MR_STALE: no step is open, or its batch is forgotten and the step can only be ended without one. MR_DENIED: this
 * worker has not defined the dataset. MR_TIMEOUT: the error says why. */
MR_API MR_MUST mr_status mr_ps_dataset_next(mr_ps *ps, uint64_t batch, int64_t timeout_us, mr_ps_data_batch *out);

/* Hands back the batches of steps that this worker has not begun, and its shards, until its next mr_ps_dataset_next:
 * for a worker that ends while others continue. mr_ps_leave does the same. Without this call the items wait for the
 * next process of the rank. MR_DENIED: a step is open. MR_TIMEOUT: the scheduler has not decided it yet. */
MR_API MR_MUST mr_status mr_ps_dataset_leave(mr_ps *ps, int64_t timeout_us);

/* ---- Tables. */

typedef enum mr_ps_kind {
    MR_PS_SPARSE,  /* 64-bit key → row of `dim` values, created by the first push to the key */
    MR_PS_VECTORS, /* 64-bit key → array, as long as the longest push to the key; missing values are 0 */
    MR_PS_DENSE    /* arrays of fixed shapes, by name */
} mr_ps_kind;

enum {
    MR_PS_NAME_MAX = 64,
    MR_PS_TEXT_MAX = 96,
    MR_PS_ARRAYS_MAX = 1000000
}; /* bytes with the NUL; arrays of a table */

typedef struct mr_ps_array {
    const char *name;
    int dims; /* 0: one item */
    int64_t shape[MR_TENSOR_DIMS_MAX];
} mr_ps_array;

/* The hyperparameters of optimizers, as X(NAME, LEAST, BELOW, DEFAULT, TEXT): a value is at least LEAST and below
 * BELOW, and TEXT says what it is for. An optimizer may have another default: rmsprop has beta2 0.99, lamb epsilon
 * 1e-6. mr_ps_table_options and mr_ps_update have a field of each name. This list is for code that treats all of them
 * alike, such as a binding for another language. */
#define MR_PS_HYPERPARAMETERS_FIRST(X)                                                                        \
    X(momentum, 0.0f, 1.0f, 0.9f, "part of the last update that the next one keeps; 0: none")                 \
    X(beta1, 0.0f, 1.0f, 0.9f, "part of the mean of the gradients that a step keeps")                         \
    X(beta2, 0.0f, 1.0f, 0.999f, "part of the mean of the squared gradients that a step keeps")               \
    X(epsilon, 7.8886091e-31f, 1e9f, 1e-8f, "added to the root that divides a gradient; at least 2^-100")     \
    X(decay, 0.0f, 1e9f, 0.0f, "weight decay; L2, except in adamw and lamb, where it is decoupled")           \
    X(beta, 7.8886091e-31f, 1e9f, 1.0f, "added to the root in a weight's own learning rate; at least 2^-100") \
    X(l1, 0.0f, 1e9f, 0.0f, "L1 regularization: weights below it are 0")                                      \
    X(l2, 0.0f, 1e9f, 0.0f, "L2 regularization")
/* Those of later releases. A table of an earlier release has 0 for each of them: 0 must do what that release did. */
#define MR_PS_HYPERPARAMETERS_LATER(X)
#define MR_PS_HYPERPARAMETERS(X) MR_PS_HYPERPARAMETERS_FIRST(X) MR_PS_HYPERPARAMETERS_LATER(X)

/* A negative hyperparameter means 0. A hyperparameter that the optimizer does not have (momentum of "sgd") is
 * MR_INVALID. */
typedef struct mr_ps_table_options {
    size_t size;
    mr_ps_kind kind;           /* [MR_PS_SPARSE] */
    mr_dtype dtype;            /* MR_F32, MR_F16 and MR_BF16 (stored as fp32), MR_I64 (counters) [MR_F32] */
    const mr_ps_array *arrays; /* dense: required */
    uint32_t array_count;
    uint32_t dim;                 /* sparse: values of a row, at most 65,536 [1] */
    uint32_t block;               /* dense: items of a block, the unit of distribution [262144] */
    int ordered;                  /* 1: keys are distributed over the slots in their order [0: by hash] */
    uint64_t first_key, last_key; /* of an ordered table, both included [all keys] */
    const char *optimizer;        /* "add", "sgd", "momentum", "nesterov", "adagrad", "rmsprop", "adam", "adamw",
                                   * "lamb", "ftrl", or "own:NAME" (mr_ps_optimizer) ["add"] */
    const char *schedule;         /* of the rate: "constant", "step:EVERY:FACTOR", "cosine:STEPS[:END]",
                                   * "polynomial:STEPS:POWER[:END]", each also with "+warmup:STEPS" ["constant"]. It
                                   * depends on the number of the step that pushes, not on the age of the table */
    const char *initializer;      /* "zeros", "constant:A", "uniform:FROM:TO", "normal:MEAN:DEVIATION" ["zeros"] */
    const char *compression;      /* of pushes, see below ["none"] */
    const char *consistency;      /* "bsp", "ssp:STEPS", "asp" [the deployment's]; mixed_consistency */
    float rate;                   /* [0.01; adam, adamw, lamb: 0.001; add has none: 1] */
    float momentum, beta1, beta2, epsilon, decay, beta, l1, l2; /* of the optimizer [those of its paper] */
    float clip_norm;   /* BSP: the sum or mean of a step over the whole table is scaled to at most this L2 norm; a sum
                        * that is not finite is left out [no clipping] */
    uint64_t seed;     /* of the initializer and of randk [0] */
    int average;       /* 1: BSP uses the mean over the ranks (mr_ps_skip); other tables: MR_INVALID [0: the sum] */
    int refuse_nan;    /* 1: a push that contains a NaN or an infinity is MR_INVALID [0] */
    uint64_t rows_max; /* sparse: rows of a slot; beyond it the rows that were pushed to longest ago are evicted (with
                        * age_max by steps, else by the order of pushes) [no limit] */
    uint64_t age_max;  /* sparse: rows without a push for so many steps are evicted [no limit] */
    uint32_t admit;    /* sparse: pushes that a key needs before it gets a row; earlier pushes are counted only [1] */
    const char *precision; /* of float32: "fp32", "bf16", "fp16"; see below ["fp32"; other tables: their dtype] */
} mr_ps_table_options;

typedef struct mr_ps_table mr_ps_table; /* opaque: handle of a table, of one connection */

/* Creates the table, or opens it if it exists with the same options. MR_EXISTS: it exists with other options; the error
 * names one. MR_INVALID: the error names the option. MR_TOO_LARGE: too many tables. MR_TIMEOUT: the scheduler does not
 * answer. MR_NOT_FOUND: a server does not have the optimizer "own:NAME" or the library of the compression. */
MR_API MR_MUST mr_status mr_ps_table_create(mr_ps *ps, const char *name, const mr_ps_table_options *options,
                                            int64_t timeout_us, mr_ps_table **out);
MR_API MR_MUST mr_status mr_ps_table_open(mr_ps *ps, const char *name, int64_t timeout_us,
                                          mr_ps_table **out); /* MR_NOT_FOUND */
/* Drops the table for all workers; its name is free after. Servers free its memory when this worker ends its next step.
 * Later requests by handles of this connection return MR_NOT_FOUND; by handles of others, pulls do, and pushes have no
 * effect. */
MR_API MR_MUST mr_status mr_ps_table_drop(mr_ps_table *table, int64_t timeout_us);
MR_API void mr_ps_table_free(mr_ps_table *table); /* frees the handle; requests in progress continue */

/* The options with all defaults filled in. out->size must be set (MR_INIT). Pointers are borrowed from the handle. */
MR_API void mr_ps_table_options_get(const mr_ps_table *table, mr_ps_table_options *out);
MR_API const char *mr_ps_table_name(const mr_ps_table *table); /* borrowed from the handle */

typedef struct mr_ps_table_list {
    size_t count;
    const char **names; /* in the order of creation */
} mr_ps_table_list;
MR_API MR_MUST mr_status mr_ps_tables(mr_ps *ps, int64_t timeout_us, mr_ps_table_list **out);
MR_API void mr_ps_table_list_free(mr_ps_table_list *list);

/* ---- Precision (mr_ps_table_options.precision).
 *
 * The values on the wire, in both directions: pulled values and pushed gradients are rounded to the precision, to the
 * nearest number, ties to even. Servers keep weights and the optimizer's state in fp32. With fp16, a number beyond
 * 65,504 becomes an infinity. Pushes with `set` are not rounded. With a compression that loses something, pushes use
 * that instead, and pulls have the precision. A float16 or bfloat16 table has the precision of its dtype.
 *
 * The caller's memory has the table's dtype, or that of the request (mr_ps_request_options.dtype): float32, float16 or
 * bfloat16, for any table but those of int64. So a model in bfloat16 can push to and pull from a float32 table. Values
 * are converted once, where fewer bytes move, and are the same wherever that is. */

/* ---- Compression of pushes (mr_ps_table_options.compression).
 *
 *   fp16, bf16         half of the bytes
 *   int8               a quarter; 256 values share a scale
 *   sign               one bit for each value; 1,024 values share a scale
 *   topk[:SHARE]       this share of the values, the largest ones [0.01]
 *   randk[:SHARE]      this share of the values, drawn by (seed, rank, step) [0.01]
 *   lz4, zstd          lossless; alone, or after one of the others: "int8+zstd"
 *
 * The loss of the first six is added to the worker's next push to the same key or item (error feedback), so values
 * arrive late rather than never. They are for floats that are summed: counters (MR_I64) accept only lz4 and zstd.
 * Pushes with `set` are not compressed and clear the feedback of their keys and items. int8, sign and topk send
 * finite values only: others are MR_INVALID.
 *
 * lz4 and zstd are libraries of the machine (liblz4.so.1, libzstd.so.1). mr_ps_table_create with a library that this
 * machine does not have is MR_INVALID, and MR_NOT_FOUND with one that a server does not have. A server without the
 * library of a table does not join: mr_ps_run_server returns MR_NOT_FOUND. A worker that only opens the table sends
 * uncompressed.
 *
 * Feedback takes memory: the size of the arrays of a table; for keys at most 256 MB for each table, then the keys
 * that were pushed to longest ago lose theirs. Feedback is state of the rank, which a repeated step needs to send
 * the same bytes. It is stored in a file beside the scheduler's socket (unix:), for the last two steps at least.
 * Without a file (tcp:, another machine, tables that returned to a checkpoint) feedback begins at zero; stderr and
 * mr_ps_push_stats report it. */

/* Sets the folder for the state of this rank, on this machine; it must outlive the process. NULL: none. MR_BUSY: a step
 * was begun before. MR_INVALID: not a folder. */
MR_API MR_MUST mr_status mr_ps_set_state_dir(mr_ps *ps, const char *folder);

typedef struct mr_ps_push_stats { /* of this connection */
    uint64_t push_bytes;          /* of pushes without compression, in the dtype of the caller's memory */
    uint64_t push_bytes_sent;
    uint64_t pushes, encoded;    /* sections of pushes, and those that were compressed */
    uint64_t pull_bytes;         /* of pull requests with all their keys */
    uint64_t pull_bytes_sent;    /* less: a list of keys that is pulled again is sent as an id */
    uint64_t pulls_repeated;     /* pulls sent again with all keys, as the server did not have the list */
    uint64_t feedback_bytes;     /* memory of feedback, now */
    uint64_t feedback_forgotten; /* keys whose feedback was dropped for lack of room */
    uint64_t feedback_lost;      /* steps that began without the feedback that they should have had */
} mr_ps_push_stats;
MR_API void mr_ps_push_stats_get(mr_ps *ps, mr_ps_push_stats *out);

/* ---- Requests.
 *
 * Keys are ascending and distinct. The values of one key follow those of the key before, in the table's dtype or
 * options->dtype. In a sparse table every key has `dim` values, and `lengths` may be NULL; for vectors, `lengths` gives
 * the number of values of each key.
 *
 * With a ticket or a `done` function a request is asynchronous: its values are borrowed until mr_ps_wait or `done`;
 * keys and lengths are borrowed for the call. Without both it waits, at most options->timeout_us. After MR_TIMEOUT
 * and MR_NOMEM the caller's memory is no longer used: a push was copied and continues, a pull is dropped. (But
 * memory of mr_ps_buffer_alloc must stay unchanged until mr_ps_flush.) Small requests are combined while others are
 * in progress. Requests of one worker for one key are executed in order: a pull shows earlier pushes; outside BSP it
 * may show later pushes, too. In BSP pushes are sent by mr_ps_end.
 *
 * MR_STALE: no step is open. MR_INVALID: keys that do not ascend, wrong lengths, values or items; the error says
 * which. MR_NOT_FOUND: the table was dropped. MR_BUSY: a million requests are not waited for, or 16 million pushes
 * in one step. MR_TOO_LARGE: more than 1,048,576 keys, a vector of more than 15 MB, or in BSP more than 1,000 MB for
 * one slot in a step. */

typedef void mr_ps_done_fn(void *context, mr_status status); /* must not wait for anything */

typedef struct mr_ps_version mr_ps_version; /* opaque */

typedef struct mr_ps_request_options {
    size_t size;
    mr_ps_version *version; /* of a conditional pull, see below; borrowed like the values [none] */
    mr_ps_done_fn *done;    /* called once, by a waiting thread or one of the library [none] */
    void *context;
    int64_t timeout_us; /* of a request without ticket and done [MR_PS_TIMEOUT_US] */
    int set;            /* 1: a push assigns, without the optimizer; in BSP the last rank's counts [0] */
    uint8_t priority;   /* waiting requests with a higher priority are sent first [0] */
    mr_dtype dtype;     /* of the caller's values: MR_F32, MR_F16 or MR_BF16 [that of the table] */
    int skip_nonfinite; /* 1: a push with a value that is not finite is left out, see mr_ps_skip [0] */
    float rate; /* of a push through an optimizer: its learning rate, see below [that of the table's schedule] */
} mr_ps_request_options;

/* A learning rate of a push replaces that of the table's schedule for this push. A negative one means 0, like a
 * hyperparameter. In BSP a step makes one update: of a rank the last rate counts that it gave for the table in the
 * step; of several ranks that of the lowest one that gave any and is not left out (mr_ps_skip), for all keys. A server
 * warns once about ranks that give different ones. A repeated step must give the same. MR_INVALID: the rate is not
 * finite; a pull, or a push with `set`; a table of int64, or one whose optimizer ("add") has no rate. */

MR_API MR_MUST mr_status mr_ps_push(mr_ps_table *table, const uint64_t *keys, size_t count, const void *values,
                                    const uint32_t *lengths, const mr_ps_request_options *options,
                                    mr_ps_ticket *ticket);
/* Missing values of a vector are 0; a row without a push has its initial values. */
MR_API MR_MUST mr_status mr_ps_pull(mr_ps_table *table, const uint64_t *keys, size_t count, void *values,
                                    const uint32_t *lengths, const mr_ps_request_options *options,
                                    mr_ps_ticket *ticket);
/* Pulls vectors whose lengths the caller does not know. *out, which is borrowed like values, is set when the request
 * ends with MR_OK; mr_ps_vectors_free frees it. MR_INVALID: the table has rows. */
typedef struct mr_ps_vectors {
    size_t count;            /* keys of the request */
    size_t value_count;      /* sum of the lengths */
    const uint32_t *lengths; /* values of each key; 0: nothing was pushed to it */
    const void *values;      /* one vector after another, in the order of the keys */
} mr_ps_vectors;

MR_API MR_MUST mr_status mr_ps_pull_vectors(mr_ps_table *table, const uint64_t *keys, size_t count, mr_ps_vectors **out,
                                            const mr_ps_request_options *options, mr_ps_ticket *ticket);
MR_API void mr_ps_vectors_free(mr_ps_vectors *vectors);

/* The pulled values include the push; in BSP they are the result of the step, available after mr_ps_end. */
MR_API MR_MUST mr_status mr_ps_push_pull(mr_ps_table *table, const uint64_t *keys, size_t count, const void *pushed,
                                         void *pulled, const uint32_t *lengths, const mr_ps_request_options *options,
                                         mr_ps_ticket *ticket);

/* Pulls, from an ordered sparse table, the keys from `first` to `last` that have rows, ascending, and their rows;
 * *count is their number. Keys, values and count are borrowed like values. MR_TOO_LARGE: more than `room` keys. */
MR_API MR_MUST mr_status mr_ps_pull_range(mr_ps_table *table, uint64_t first, uint64_t last, uint64_t *keys,
                                          void *values, size_t room, size_t *count,
                                          const mr_ps_request_options *options, mr_ps_ticket *ticket);

/* Pushes, to an ordered sparse table, the keys first … first + count - 1; only the first key is sent. (Consecutive keys
 * of other requests are sent like this, too.) MR_TOO_LARGE: more than 1,048,576 keys. */
MR_API MR_MUST mr_status mr_ps_push_range(mr_ps_table *table, uint64_t first, size_t count, const void *values,
                                          const mr_ps_request_options *options, mr_ps_ticket *ticket);

/* Pushes and pulls such keys; the pulled values include the push, as with mr_ps_push_pull. */
MR_API MR_MUST mr_status mr_ps_push_pull_range(mr_ps_table *table, uint64_t first, size_t count, const void *pushed,
                                               void *pulled, const mr_ps_request_options *options,
                                               mr_ps_ticket *ticket);

/* A pull with a version is conditional: slots in which the table has not changed since the last pull with this
 * version send nothing, and `values` keeps its content there. A version belongs to one list of keys, or range of an
 * array, and to one piece of memory. MR_INVALID: it was created for another table. mr_ps_version_changed: the number
 * of parts that the last pull wrote; 0: nothing changed. */
MR_API MR_MUST mr_status mr_ps_version_create(const mr_ps_table *table, mr_ps_version **out);
MR_API uint64_t mr_ps_version_changed(const mr_ps_version *version);
MR_API void mr_ps_version_free(mr_ps_version *version);

/* Push or pull, in a dense table, `count` items of an array from item `first` on, in row-major order. `array` is the
 * index in mr_ps_table_options.arrays. */
MR_API MR_MUST mr_status mr_ps_push_array(mr_ps_table *table, uint32_t array, const void *values, uint64_t first,
                                          size_t count, const mr_ps_request_options *options, mr_ps_ticket *ticket);
MR_API MR_MUST mr_status mr_ps_pull_array(mr_ps_table *table, uint32_t array, void *values, uint64_t first,
                                          size_t count, const mr_ps_request_options *options, mr_ps_ticket *ticket);

/* Pushes and pulls such items, as mr_ps_push_pull. */
MR_API MR_MUST mr_status mr_ps_push_pull_array(mr_ps_table *table, uint32_t array, const void *pushed, void *pulled,
                                               uint64_t first, size_t count, const mr_ps_request_options *options,
                                               mr_ps_ticket *ticket);

/* ---- Steps without a part of this rank.
 *
 * A gradient that is not finite must not reach the weights. With options->skip_nonfinite a push looks at all its values
 * before anything is sent, as they would be sent: a number beyond 65,504 is not finite in fp16. If one is not finite,
 *
 *   BSP       all pushes of this rank in the step are left out, to all tables of BSP, those before and after it too.
 *             `average` divides by the ranks that are not left out; if all are, the step changes nothing. (A rank that
 *             ends a step without a push is not left out: it counts as a gradient of 0.)
 *   SSP, ASP  that push is left out. Others of the step may have been applied already.
 *
 * A push that is left out is done: its status is MR_OK. Error feedback is as before the step, where all pushes of the
 * step had the option. */

/* Leaves this rank out of the open step in BSP, as such a push; for a program that looks at its gradients itself. Does
 * nothing to tables without rounds. MR_STALE: no step is open. */
MR_API MR_MUST mr_status mr_ps_skip(mr_ps *ps);
/* Number of steps of BSP, and of pushes outside BSP, that this connection has left out. */
MR_API uint64_t mr_ps_skipped(mr_ps *ps);

/* ---- Barriers and metrics.
 *
 * Groups are sums of roles, with ps-lite's numbers. */

enum { MR_PS_SCHEDULER = 1, MR_PS_SERVERS = 2, MR_PS_WORKERS = 4, MR_PS_ALL = 7 };
enum { MR_PS_READERS = 8 };      /* a role, and part of no group */
enum { MR_PS_METRICS_MAX = 16 }; /* of a process */

/* Waits until the whole group has reached the barrier of this name: with MR_PS_WORKERS all ranks have called this
 * function; with MR_PS_SERVERS all requested servers have registered and every slot has all its replicas (servers do
 * not call it, and ranks that call it for servers alone do not wait for each other). A rank whose process was
 * restarted passes the barriers that its earlier process passed: those before its first mr_ps_begin in their order,
 * and those inside a step when it repeats that step. Therefore call it before the first step, while a step is open,
 * or after all steps. After the barrier a pull shows everything that was acknowledged (mr_ps_flush) to any rank
 * before it.
 *
 * MR_TIMEOUT: the error says which ranks are missing; a second call continues to wait. MR_STALE: all replicas of a
 * slot were lost during the wait, and mr_ps_begin returns the step to continue with. MR_INVALID: not a name or a
 * group. MR_TOO_LARGE: ranks wait at 64 other barriers. */
MR_API MR_MUST mr_status mr_ps_barrier(mr_ps *ps, const char *name, int group, int64_t timeout_us);

/* Reports a number to the scheduler, which mr_ps_processes_get and `miniray ps status` show: its newest value and its
 * rate of change. Does not wait. MR_INVALID: not a key. MR_TOO_LARGE: more than MR_PS_METRICS_MAX keys. */
MR_API MR_MUST mr_status mr_ps_metric_set(mr_ps *ps, const char *key, double value);

/* ---- Messages: a head (a number) and a body (bytes), from any worker to any process, and a response.
 *
 *     mr_ps_handle(ps, APP, on_request, NULL);                                    // handles requests to this process
 *     mr_ps_peer peer = {MR_PS_WORKERS, 3};
 *     mr_ps_send(ps, peer, APP, head, body, size, NULL, NULL, &ticket);
 *     mr_ps_responses_wait(ps, ticket, timeout_us, &responses);
 *
 * Apps have numbers, so that several share a process. A message goes directly to its process, whose address the
 * scheduler knows. While both processes live, a message is handled exactly once. If the receiver dies, the message
 * ends with MR_PEER_DIED: it may have been handled, and no other process receives it. A worker that repeats a step
 * sends its messages again. After a message a pull of the receiver shows everything that was acknowledged to the
 * sender before. */

enum { MR_PS_BODY_MAX = 64 * 1024 };
#define MR_PS_EVERY UINT32_MAX

typedef struct mr_ps_peer {
    int role; /* one of MR_PS_SCHEDULER, MR_PS_SERVERS, MR_PS_WORKERS, MR_PS_READERS; with MR_PS_EVERY a sum of the
                      * first three */
    uint32_t number; /* of the server, the rank or the reader; MR_PS_EVERY: all that are connected */
} mr_ps_peer;

typedef struct mr_ps_message mr_ps_message; /* opaque: a received request */

/* Handles a request, which it owns until mr_ps_respond: now, or later. It is called by a waiting thread or one of the
 * library (in servers and the scheduler: the thread that serves) and must not wait for anything. */
typedef void mr_ps_handler_fn(void *context, mr_ps_message *message);

typedef struct mr_ps_request { /* the content of a message; the body is borrowed until mr_ps_respond */
    mr_ps_peer from;
    int app, head;
    const void *body;
    size_t size;
} mr_ps_request;

typedef struct mr_ps_response {
    mr_ps_peer from;
    mr_status status; /* MR_OK; MR_PEER_DIED; MR_NOT_FOUND: the receiver has no such app. Other errors: see the body */
    int head;
    const void *body;
    size_t size;
} mr_ps_response;

typedef struct mr_ps_responses {
    size_t count; /* number of receivers: 0 if none of that role is connected */
    const mr_ps_response *list;
} mr_ps_responses;

/* Apps are numbers from 0. Handler NULL: removes it. MR_INVALID. MR_TOO_LARGE: more than 1,024 apps. */
MR_API MR_MUST mr_status mr_ps_handle(mr_ps *ps, int app, mr_ps_handler_fn *handler, void *context);
MR_API void mr_ps_message_get(const mr_ps_message *message, mr_ps_request *out);
/* As mr_ps_metric_set, for the process that received the message: servers and the scheduler report so. Before
 * mr_ps_respond, from threads that may respond. MR_CLOSED: the connection was closed. */
MR_API MR_MUST mr_status mr_ps_message_metric_set(const mr_ps_message *message, const char *key, double value);
/* Responds once; from any thread, in servers and the scheduler only inside the handler. Frees the message, whatever it
 * returns. MR_TOO_LARGE: more than MR_PS_BODY_MAX bytes; the sender receives that status. MR_CLOSED: the connection was
 * closed, and the response is lost. */
MR_API MR_MUST mr_status mr_ps_respond(mr_ps_message *message, int head, const void *body, size_t size);

/* The body is copied. `done` is called once, when all have responded: with MR_OK, or the first other status. Without
 * `done` and `ticket` the responses are dropped. MR_INVALID: not a peer. MR_NOT_FOUND: no such rank. MR_TOO_LARGE.
 * MR_BUSY: 4,096 messages are in progress or not waited for. */
MR_API MR_MUST mr_status mr_ps_send(mr_ps *ps, mr_ps_peer to, int app, int head, const void *body, size_t size,
                                    mr_ps_done_fn *done, void *context, mr_ps_ticket *ticket);
/* MR_TIMEOUT: the error names the peers that have not responded; call again. MR_NOT_FOUND: no such ticket, or its
 * responses were given out before. */
MR_API MR_MUST mr_status mr_ps_responses_wait(mr_ps *ps, mr_ps_ticket ticket, int64_t timeout_us,
                                              mr_ps_responses **out);
MR_API void mr_ps_responses_free(mr_ps_responses *responses);

/* ---- Buffers that servers of this machine read in place.
 *
 * A push to an array from such a buffer is not sent: a server of the same machine and user, at a unix address, reads
 * the buffer while it adds (except in BSP). The buffer is borrowed until the request is done, like any memory. Pulls
 * of arrays need no buffer: they are copied from the server's memory to any memory. For servers that cannot read it,
 * a buffer is ordinary memory. */

/* Zeroed and page-aligned; freed with the connection. MR_INVALID: 0 bytes. MR_NOMEM. */
MR_API MR_MUST mr_status mr_ps_buffer_alloc(mr_ps *ps, size_t size, void **out);
MR_API mr_status mr_ps_buffer_free(mr_ps *ps, void *buffer); /* MR_INVALID: not from mr_ps_buffer_alloc */
/* Keeps the buffer when the connection is closed: the caller then unmaps it (munmap). Do not free it before.
 * MR_INVALID: not from mr_ps_buffer_alloc. */
MR_API mr_status mr_ps_buffer_detach(mr_ps *ps, void *buffer);

#ifdef __cplusplus
}
#endif
