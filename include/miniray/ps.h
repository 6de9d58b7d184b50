/* miniray/ps.h — the key-value parameter server: tables by key, kept by servers, changed and read by workers.
 *
 *     mr_ps_connect(NULL, rank, timeout_us, &ps);               // NULL: where DMLC_PS_ROOT_URI and _PORT say
 *     mr_ps_table_create(ps, "words", &(mr_ps_table_options){.dim = 16, .optimizer = "adagrad", .rate = 0.1f},
 *                        timeout_us, &words);
 *     while (mr_ps_begin(ps, timeout_us, &step) == MR_OK && step < STEPS) {
 *         mr_ps_pull(words, keys, count, rows, NULL, NULL, NULL);                  // waits: rows are there
 *         ...                                                                      // compute gradients
 *         mr_ps_push(words, keys, count, gradients, NULL, NULL, &ticket);          // borrowed until it is done
 *         mr_ps_end(ps);                                                           // my step is over
 *     }
 *     mr_ps_flush(ps, timeout_us);                             // everything is in
 *     mr_ps_table_free(words);
 *     mr_ps_close(ps);
 *
 * Processes    One scheduler (mr_ps_run_scheduler), servers (mr_ps_run_server) and workers: programs that call
 *              mr_ps_connect. `miniray ps` starts the first two from a shell. Each worker plays one rank.
 * Tables       have a name, and are there for all workers. What is pushed to a key changes its values by the table's
 *              optimizer, on the servers: exactly once whatever fails, and on all copies when it is acknowledged.
 * Steps        A worker works in steps. One that dies and is started again, as the same rank, is told by mr_ps_begin
 *              which step to play again; a step that is played again has to push the same things in the same order.
 *                BSP   all ranks do a step together: a pull shows the version of the step, which has all steps before;
 *                      what the ranks push in a step is added up in their order, and makes one update. The bits do not
 *                      depend on who dies.
 *                SSP   a rank is ahead of the slowest by at most `staleness` steps.
 *                ASP   nobody waits.
 *              A worker need not use steps where there are no rounds (ASP, SSP). Each of its pushes then counts once,
 *              and none is taken for a repetition of what another process of the rank has pushed; nothing is pushed
 *              again after a crash. A worker that has begun a step begins one for everything that it pushes and pulls.
 * MR_STALE     All copies of a slot were lost: all tables continue from the newest checkpoint, or are empty if there is
 *              none, and pushes acknowledged after that checkpoint are lost. mr_last_error names the checkpoint. With
 *              steps, the open step is void, and mr_ps_begin returns the step to continue with. Without steps, the
 *              first request of each connected worker after the loss returns MR_STALE, once. If no worker was
 *              connected at the time of the loss, the first request of the next worker returns it. In BSP, MR_STALE
 *              also means that the round closed without this worker's push.
 * Threads      All functions of a connection from any thread. Whoever waits reads the sockets itself; while nobody does
 *              a thread of the library does, so that the worker is heard of while it computes. */
#pragma once
#include <stddef.h>
#include <stdint.h>

#include "miniray/value.h"

#ifdef __cplusplus
extern "C" {
#endif

#define MR_PS_ANY_RANK   (-1)     /* the lowest that nobody plays, as the scheduler sees it */
#define MR_PS_TIMEOUT_US 60000000 /* of requests that are waited for without a ticket */

typedef struct mr_ps mr_ps; /* opaque: a worker's connection */
typedef struct mr_ps_ticket {
    uint64_t v;
} mr_ps_ticket;

typedef enum mr_ps_consistency { MR_PS_ASP, MR_PS_SSP, MR_PS_BSP } mr_ps_consistency;

typedef struct mr_ps_info {
    uint32_t rank, ranks, slots, servers, replicas;
    mr_ps_consistency consistency; /* of tables that name none */
    uint32_t staleness;            /* of SSP */
    int mixed_consistency;         /* 1: tables may have rounds or not; else all have, or none */
    uint32_t backup_workers;       /* of BSP: how many ranks a round need not wait for */
    int64_t deadline_us;           /* of BSP: how long it waits for the others; 0: as long as it takes */
} mr_ps_info;

/* Waits until servers are there and the rank is given to this process. `scheduler` is "tcp:HOST:PORT" or "unix:PATH"
 * (NULL: DMLC_PS_ROOT_URI and DMLC_PS_ROOT_PORT). An earlier process of that rank is followed: it is told MR_EXISTS.
 * MR_TIMEOUT: the error says what is missing (no scheduler, no servers …). MR_NOT_FOUND: there is no such rank.
 * MR_INVALID: not an address. timeout_us < 0 is MR_INVALID: nothing here waits for ever. */
MR_API MR_MUST mr_status mr_ps_connect(const char *scheduler, int rank, int64_t timeout_us, mr_ps **out);
/* At once: what is not acknowledged may be lost. No other call may be under way. NULL: no-op. */
MR_API void mr_ps_close(mr_ps *ps);
MR_API void mr_ps_info_get(mr_ps *ps, mr_ps_info *out);

/* Begins a step, when it may be begun, and says which: counted from 0. In BSP that is when all have ended the one
 * before; in a mixed deployment that holds for workers that have opened a table of BSP. No-op if one is open.
 * MR_TIMEOUT, and the error says why. MR_EXISTS: another process plays this rank now. */
MR_API MR_MUST mr_status mr_ps_begin(mr_ps *ps, int64_t timeout_us, uint64_t *step);

/* MR_TIMEOUT: it is under way, and what it borrows is borrowed; MR_NOMEM: likewise, and a server has no memory for it.
 * MR_NOT_FOUND: no such ticket, or it was waited for. */
MR_API MR_MUST mr_status mr_ps_wait(mr_ps *ps, mr_ps_ticket ticket, int64_t timeout_us);

MR_API MR_MUST mr_status mr_ps_end(mr_ps *ps); /* of the step; waits for nothing. MR_STALE: none is open */
/* Waits until everything is acknowledged, ends of steps included. MR_TIMEOUT. */
MR_API MR_MUST mr_status mr_ps_flush(mr_ps *ps, int64_t timeout_us);

/* Leaves the rounds of BSP: later rounds do without this rank. Waits until that is decided, and adds nothing to the
 * rounds that still have it. No step may be open (MR_DENIED). What the rank has pushed stays; what it has claimed of
 * the data is handed back (mr_ps_dataset_leave). A later mr_ps_begin, of this process or another of the rank, joins
 * again, with the first round that it is let into. MR_DENIED: it is the last one. MR_INVALID: not in BSP, or mixed;
 * in ASP nobody waits for a rank that ends, in SSP all others do. MR_STALE: servers with all copies of a slot died
 * before the scheduler had decided, and the rank has not left. */
MR_API MR_MUST mr_status mr_ps_leave(mr_ps *ps, int64_t timeout_us);

/* ---- Data.
 *
 * The items that workers learn from lie in parts: files, shards of a set, ranges of rows. A deployment has one such set
 * of data; where it lies is the workers' own affair, the scheduler hands out numbers: which items each step is done
 * with. All of them are done once in an epoch, then the next one begins. A worker that comes gets some of what others
 * have not begun; one that goes leaves the rest to others; a step that is played again, by this process or another, is
 * done with the same piece, also if everything went back to a checkpoint. A piece of a step that was over without its
 * rank (MR_STALE: it was late, or not in the round) is handed to others, once no checkpoint can bring the step back;
 * unless that process is gone by then, when it counts as done: no item is used twice in an epoch. If the tables begin
 * from nothing again the data does as well. */

typedef struct mr_ps_data_batch { /* items from … to - 1 of a part, in an epoch; all are counted from 0 */
    uint64_t epoch, from, to;
    uint32_t shard;
} mr_ps_data_batch;

/* The data has so many parts, with so many items each (1 or more). All workers say the same, before their first piece:
 * the first decides, for good. MR_EXISTS: it is cut otherwise, and the error says how. MR_INVALID: no parts, or one
 * without items. MR_TOO_LARGE: more than 2048 parts. MR_TIMEOUT: the scheduler does not answer. */
MR_API MR_MUST mr_status mr_ps_dataset_define(mr_ps *ps, const uint64_t *sizes, uint32_t count, int64_t timeout_us);

/* The piece of the open step: `batch` items (at most 2^32), or fewer at the end of a part or where some were handed
 * back. The same for each call, and for whoever plays the step. It is claimed before it is used, some steps ahead, so
 * that normally nothing is waited for; `batch` holds for what is claimed from now on. Stop on `epoch`: there is always
 * a next one. MR_STALE: no step is open; or its piece is forgotten, and it can only be ended without. MR_DENIED: this
 * worker has not said how the data is cut. MR_TIMEOUT, and the error says why. */
MR_API MR_MUST mr_status mr_ps_dataset_next(mr_ps *ps, uint64_t batch, int64_t timeout_us, mr_ps_data_batch *out);

/* Hands back what is claimed for steps that this worker has not begun, and which parts it holds, until it asks for a
 * piece again: for a worker that ends while others go on. mr_ps_leave does it, too. A process that ends without leaves
 * them to whoever plays its rank next. MR_DENIED: a step is open. MR_TIMEOUT: it is not decided yet. */
MR_API MR_MUST mr_status mr_ps_dataset_leave(mr_ps *ps, int64_t timeout_us);

/* ---- Tables. */

typedef enum mr_ps_kind {
    MR_PS_SPARSE,  /* 64-bit key → row of `dim` values, made when it is pushed to first */
    MR_PS_VECTORS, /* 64-bit key → array, as long as the longest that was pushed to it; what is not there is 0 */
    MR_PS_DENSE    /* arrays of fixed shapes, by name */
} mr_ps_kind;

enum { MR_PS_NAME_MAX = 64, MR_PS_TEXT_MAX = 96, MR_PS_ARRAYS_MAX = 1024 }; /* bytes with the NUL; of a table */

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

/* Zero means the default, which is in brackets. Of a number whose default is not 0 a negative one means 0. A setting
 * that the optimizer has not (momentum of "sgd") is MR_INVALID. */
typedef struct mr_ps_table_options {
    mr_ps_kind kind;
    mr_dtype dtype;            /* MR_F32, MR_F16 and MR_BF16 (kept as fp32), MR_I64 (counters) [MR_F32] */
    uint32_t dim;              /* of a sparse table: values of a row, at most 65,536 [1] */
    const mr_ps_array *arrays; /* of a dense table */
    uint32_t array_count;
    uint32_t block;               /* of a dense table: so many items lie together [262144] */
    int ordered;                  /* 1: keys lie in their order over the slots; 0: by their hash */
    uint64_t first_key, last_key; /* of an ordered table, both included [all keys] */
    const char *optimizer;        /* "add", "sgd", "momentum", "nesterov", "adagrad", "rmsprop", "adam", "adamw",
                                   * "lamb", "ftrl", or "own:NAME" (mr_ps_optimizer) ["add"] */
    const char *schedule;         /* of the rate: "constant", "step:EVERY:FACTOR", "cosine:STEPS[:END]",
                                   * "polynomial:STEPS:POWER[:END]", each with "+warmup:STEPS" or not ["constant"].
                                   * It goes by the number of the step that pushes, whenever the table was made */
    const char *initializer;      /* "zeros", "constant:A", "uniform:FROM:TO", "normal:MEAN:DEVIATION" ["zeros"] */
    const char *compression;      /* of pushes, see below ["none"] */
    const char *consistency;      /* "bsp", "ssp:STEPS", "asp" [the deployment's]; bsp beside the others: `mixed` */
    float rate;                   /* [0.01; adam, adamw, lamb: 0.001; add has none, which is 1] */
    float momentum, beta1, beta2, epsilon, decay, beta, l1, l2; /* of the optimizer [what papers begin with] */
    uint64_t seed;                                              /* of what is drawn */
    float clip_norm;   /* of BSP: what a step adds to the whole table, its sum or mean, is scaled so that its L2 norm is
                        * at most this; if it is not finite, all of it is left out [0: as it is] */
    int average;       /* 1: of BSP, the mean over the ranks is what counts, not the sum */
    int refuse_nan;    /* 1: a push with a NaN or an infinity in it is MR_INVALID */
    uint32_t admit;    /* of a sparse table: a key gets its row when it is pushed to so often; pushes before that are
                        * counted, and change nothing [1] */
    uint64_t rows_max; /* of a sparse table, in each slot: beyond it those go that were pushed to longest ago (with
                        * age_max as steps have it, else as pushes came) [no bound] */
    uint64_t age_max;  /* of a sparse table: rows that were not pushed to for so many steps go [no bound] */
} mr_ps_table_options;

typedef struct mr_ps_table mr_ps_table; /* opaque: a handle of this connection's */

/* A table of that name: made, or opened if it is there with the same options. MR_EXISTS: it is there with others, and
 * the error says which. MR_INVALID: which option cannot be. MR_TOO_LARGE: there are too many tables. MR_TIMEOUT: the
 * scheduler does not answer. MR_NOT_FOUND: a server does not have the optimizer "own:NAME". */
MR_API MR_MUST mr_status mr_ps_table_create(mr_ps *ps, const char *name, const mr_ps_table_options *options,
                                            int64_t timeout_us, mr_ps_table **out);
MR_API MR_MUST mr_status mr_ps_table_open(mr_ps *ps, const char *name, int64_t timeout_us,
                                          mr_ps_table **out); /* MR_NOT_FOUND */
/* For everybody; its name is free then. Servers forget what is in it when this worker ends its next step. From now on
 * requests by handles of this connection are MR_NOT_FOUND; of others, pulls are, and pushes change nothing. */
MR_API MR_MUST mr_status mr_ps_table_drop(mr_ps_table *table, int64_t timeout_us);
MR_API void mr_ps_table_free(mr_ps_table *table); /* the handle; what is under way goes on. NULL: no-op */

/* With every default said. What it points at is borrowed until the handle is freed. */
MR_API void mr_ps_table_options_get(const mr_ps_table *table, mr_ps_table_options *out);
MR_API const char *mr_ps_table_name(const mr_ps_table *table); /* borrowed likewise */

typedef struct mr_ps_table_list {
    size_t count;
    const char **names; /* in the order in which they were made */
} mr_ps_table_list;
MR_API MR_MUST mr_status mr_ps_tables(mr_ps *ps, int64_t timeout_us, mr_ps_table_list **out);
MR_API void mr_ps_table_list_free(mr_ps_table_list *listing); /* NULL: no-op */

/* ---- Codecs: pushes as fewer bytes.
 *
 *   fp16, bf16         half of the bytes
 *   int8               a quarter: 256 values have a scale
 *   sign               a bit for each value: 1024 values have a scale
 *   topk[:PART]        that part of the values of a section, the largest [0.01]
 *   randk[:PART]       the same, drawn by (seed, rank, step)
 *   lz4, zstd          nothing is lost; alone, or behind one of the others, as in "int8+zstd"
 *
 * What the first six lose of a push is added to the worker's next push to the same key or item (feedback): so values
 * arrive late rather than never. They are for floats that are added up. Counters (MR_I64) have none of them: MR_INVALID
 * when the table is made. Pushes with `set` go without them, and what is still to come of the keys and items that they
 * set is forgotten. int8, sign and topk send finite values only: others are MR_INVALID.
 *
 * lz4 and zstd are libraries of the machine (liblz4.so.1, libzstd.so.1): a table that names one which this machine does
 * not have is MR_INVALID when it is made; who only opens it sends as it is. Servers need it.
 *
 * Feedback takes memory: as much as the arrays of a table; of keys at most 256 MB for a table, then those that were
 * pushed to longest ago are forgotten. It is the state of the rank: a step that is played again needs it to send the
 * same. So it is kept in a file, beside the scheduler's socket (unix:), at least for the last two steps. Where there is
 * none (tcp:, another machine, tables that went back to a checkpoint) feedback begins at zero; stderr and the counts
 * below say so. */

/* Where the state of this rank is kept: a folder of this machine that outlives the process; NULL: nowhere. Before the
 * first step is begun, else MR_BUSY. MR_INVALID: it is none. */
MR_API MR_MUST mr_status mr_ps_set_state_dir(mr_ps *ps, const char *folder);

typedef struct mr_ps_push_stats { /* of this connection */
    uint64_t push_bytes;          /* that pushes would have had without codecs */
    uint64_t push_bytes_sent;     /* that they had */
    uint64_t pushes, encoded;     /* sections of pushes; those that went through a codec */
    uint64_t pull_bytes;          /* that what pulls ask would have had with all its keys */
    uint64_t pull_bytes_sent;     /* that it had: a list of keys that is pulled again is named, not sent */
    uint64_t pulls_repeated;      /* since a server had forgotten such a list, or is another one */
    uint64_t feedback_bytes;      /* memory of feedback, now */
    uint64_t feedback_forgotten;  /* keys whose feedback was forgotten, for want of room */
    uint64_t feedback_lost;       /* how often a step began without the feedback that it should have had */
} mr_ps_push_stats;
MR_API void mr_ps_push_stats_get(mr_ps *ps, mr_ps_push_stats *out);

/* ---- Requests.
 *
 * Keys ascend and are different; the values of each follow those of the one before, in the table's dtype. Of a sparse
 * table all have `dim` values, and `lengths` may be NULL; of vectors `lengths` says how many each has.
 *
 * Asynchronous: values are borrowed until the ticket is done (mr_ps_wait) or `done` was called; keys and lengths for
 * the call. Without either it is waited for, at most MR_PS_TIMEOUT_US. After MR_TIMEOUT and MR_NOMEM nothing of the
 * caller's is needed any more: what was pushed is copied and still goes, what was to be pulled goes nowhere. (But
 * memory of mr_ps_buffer_alloc that was pushed has to stay as it is until mr_ps_flush.) Small requests that come
 * while others are under way go together. What one worker asks of one key is done in its order; a pull shows what was
 * pushed before it, and outside BSP it may show what was pushed after it. In BSP what is pushed goes with mr_ps_end.
 *
 * MR_STALE: no step is open. MR_INVALID: keys that do not ascend, or lengths, values or items that cannot be; the error
 * says which. MR_NOT_FOUND: the table was dropped. MR_BUSY: a million requests were not waited for, or 16 million
 * pushes of one step. MR_TOO_LARGE: more than 1,048,576 keys, a vector of more than 15 MB, or, of BSP, more than 15 MB
 * for one slot in a step. */

typedef void mr_ps_done_fn(void *context, mr_status status); /* must not wait for anything */

typedef struct mr_ps_version mr_ps_version; /* opaque */

typedef struct mr_ps_request_options { /* NULL or zeros: as usual */
    uint8_t priority;                  /* what is larger goes first where something waits */
    int set;                           /* 1: a push assigns, past the optimizer; of BSP the last rank's counts */
    mr_ps_version *version;            /* of a pull: what `values` has, see below; borrowed like it. May be NULL */
    mr_ps_done_fn *done;               /* called once, by a thread that waits or the library's own; may be NULL */
    void *context;
    int64_t timeout_us; /* of one that is waited for [MR_PS_TIMEOUT_US] */
} mr_ps_request_options;

MR_API MR_MUST mr_status mr_ps_push(mr_ps_table *table, const uint64_t *keys, size_t count, const void *values,
                                    const uint32_t *lengths, const mr_ps_request_options *options,
                                    mr_ps_ticket *ticket);
/* What a vector does not have is 0; a row that was never pushed to is as it would begin. */
MR_API MR_MUST mr_status mr_ps_pull(mr_ps_table *table, const uint64_t *keys, size_t count, void *values,
                                    const uint32_t *lengths, const mr_ps_request_options *options,
                                    mr_ps_ticket *ticket);
/* What is pulled has what is pushed in it; of BSP it is what the step makes of it, so it is there after mr_ps_end. */
MR_API MR_MUST mr_status mr_ps_push_pull(mr_ps_table *table, const uint64_t *keys, size_t count, const void *pushed,
                                         void *pulled, const uint32_t *lengths, const mr_ps_request_options *options,
                                         mr_ps_ticket *ticket);

/* Of an ordered sparse table: the keys from `first` to `last` that have rows, ascending, and their rows; *count says
 * how many. MR_TOO_LARGE: more than there is `room` for. Keys, values and count are borrowed like values. */
MR_API MR_MUST mr_status mr_ps_pull_range(mr_ps_table *table, uint64_t first, uint64_t last, uint64_t *keys,
                                          void *values, size_t room, size_t *count,
                                          const mr_ps_request_options *options, mr_ps_ticket *ticket);

/* Of an ordered sparse table: values for the rows of the keys first … first + count - 1, every one of them, of which
 * only the first is sent. (Keys of any request that are one after the other are sent so.) MR_TOO_LARGE: more than
 * 1,048,576. */
MR_API MR_MUST mr_status mr_ps_push_range(mr_ps_table *table, uint64_t first, size_t count, const void *values,
                                          const mr_ps_request_options *options, mr_ps_ticket *ticket);

/* Both, of such keys: what is pulled has what is pushed in it, as with mr_ps_push_pull. */
MR_API MR_MUST mr_status mr_ps_push_pull_range(mr_ps_table *table, uint64_t first, size_t count, const void *pushed,
                                               void *pulled, const mr_ps_request_options *options,
                                               mr_ps_ticket *ticket);

/* A pull with a mark is conditional: of slots in which nothing of the table has changed since the last pull with this
 * mark nothing is sent, and `values` keeps what it has. So a mark belongs to one list of keys, or stretch of an array,
 * and to one piece of memory. (That it is one of the same table is checked: MR_INVALID.) How many parts were written by
 * its last pull says mr_ps_version_changed: 0, all is the same.
 */
MR_API MR_MUST mr_status mr_ps_version_create(const mr_ps_table *table, mr_ps_version **out);
MR_API uint64_t mr_ps_version_changed(const mr_ps_version *mark);
MR_API void mr_ps_version_free(mr_ps_version *mark); /* NULL: no-op */

/* Of a dense table: `count` items from `first` on of the array of that number, in row-major order. */
MR_API MR_MUST mr_status mr_ps_push_array(mr_ps_table *table, uint32_t array, const void *values, uint64_t first,
                                          size_t count, const mr_ps_request_options *options, mr_ps_ticket *ticket);
MR_API MR_MUST mr_status mr_ps_pull_array(mr_ps_table *table, uint32_t array, void *values, uint64_t first,
                                          size_t count, const mr_ps_request_options *options, mr_ps_ticket *ticket);

/* Both, as with mr_ps_push_pull. */
MR_API MR_MUST mr_status mr_ps_push_pull_array(mr_ps_table *table, uint32_t array, const void *pushed, void *pulled,
                                               uint64_t first, size_t count, const mr_ps_request_options *options,
                                               mr_ps_ticket *ticket);

/* ---- Meeting: barriers and reports.
 *
 * Groups are sums of roles, with the numbers that ps-lite gives them. */

enum { MR_PS_SCHEDULER = 1, MR_PS_SERVERS = 2, MR_PS_WORKERS = 4, MR_PS_ALL = 7 };
enum { MR_PS_METRICS_MAX = 16 }; /* numbers that a process reports */

/* Waits until all of the group are at the barrier of this name: with MR_PS_WORKERS all ranks have called this, with
 * MR_PS_SERVERS as many servers as were asked for are here and every slot has all its copies (servers come by being
 * there; ranks that call it for servers alone do not wait for each other). A rank that is started again passes what
 * its earlier process has passed: barriers before its first mr_ps_begin in their order, and those within a step when it
 * plays that step again. So call it before the first step, or while a step is open, or when all are over. Whoever goes
 * on sees with a pull what was acknowledged (mr_ps_flush) to anybody before the barrier.
 *
 * MR_TIMEOUT: the error says who is missing; a second call goes on waiting. MR_STALE: all copies of a slot were lost
 * during the wait, and mr_ps_begin returns the step to continue with. MR_INVALID: not a name or a group. MR_TOO_LARGE:
 * ranks wait at 64 others. */
MR_API MR_MUST mr_status mr_ps_barrier(mr_ps *ps, const char *name, int group, int64_t timeout_us);

/* Tells the scheduler a number, which mr_ps_processes_get and `miniray ps status` show: the newest by its key, and
 * how it changes. Waits for nothing. MR_INVALID: not a key; MR_TOO_LARGE: more than MR_PS_METRICS_MAX keys. */
MR_API MR_MUST mr_status mr_ps_metric_set(mr_ps *ps, const char *key, double value);

/* ---- Messages: a head, which is a number, and a body of bytes, from any worker to any process; and a response.
 *
 *     mr_ps_handle(ps, APP, on_request, NULL);                                    // of requests to this process
 *     mr_ps_send(ps, (mr_ps_peer){MR_PS_WORKERS, 3}, APP, head, body, size, NULL, &ticket);
 *     mr_ps_responses_wait(ps, ticket, timeout_us, &responses);
 *
 * Apps have numbers, so several share a process. A message goes straight to its process, whose address the scheduler
 * knows. While both live it is handled exactly once. If the receiver dies it ends with MR_PEER_DIED: perhaps it was
 * handled; no other process gets it. A worker that dies and plays its step again sends it again. Whoever is told
 * something sees with a pull what was acknowledged to its sender before. */

enum { MR_PS_BODY_MAX = 64 * 1024 };
#define MR_PS_EVERY UINT32_MAX

typedef struct mr_ps_peer {
    int role;        /* one of MR_PS_SCHEDULER, MR_PS_SERVERS, MR_PS_WORKERS; with MR_PS_EVERY a sum of them */
    uint32_t number; /* of the server, or the rank; MR_PS_EVERY: all that are here */
} mr_ps_peer;

typedef struct mr_ps_message mr_ps_message; /* opaque: a request that has come */

/* Handles a request, which is the handler's until mr_ps_respond: now, or later. It is called by a thread that waits or
 * the library's own (of servers and the scheduler: by the thread that serves) and must not wait for anything. */
typedef void mr_ps_handler_fn(void *context, mr_ps_message *message);

typedef struct mr_ps_request { /* what is in a message; the body is borrowed until it is answered */
    mr_ps_peer from;
    int app, head;
    const void *body;
    size_t size;
} mr_ps_request;

typedef struct mr_ps_response {
    mr_ps_peer from;
    mr_status status; /* MR_OK; MR_PEER_DIED; MR_NOT_FOUND: nobody there handles the app. Else the body says why */
    int head;
    const void *body;
    size_t size;
} mr_ps_response;

typedef struct mr_ps_responses {
    size_t count; /* as many as it went to: 0 if nobody of that role is here */
    const mr_ps_response *list;
} mr_ps_responses;

/* Apps are numbers from 0. Handler NULL: nobody handles it any more. MR_INVALID; MR_TOO_LARGE: more than 1,024 apps. */
MR_API MR_MUST mr_status mr_ps_handle(mr_ps *ps, int app, mr_ps_handler_fn *handler, void *context);
MR_API void mr_ps_message_get(const mr_ps_message *message, mr_ps_request *out);
/* As mr_ps_metric_set, for the process that the message came to: so servers and the scheduler report. Before the
 * answer, from threads that may answer. MR_CLOSED: the connection was closed. */
MR_API MR_MUST mr_status mr_ps_message_metric_set(const mr_ps_message *message, const char *key, double value);
/* Once; from any thread, of a server's or the scheduler's from the handler alone. The message is freed, whatever this
 * says. MR_TOO_LARGE: more than MR_PS_BODY_MAX bytes, and it is answered with that status. MR_CLOSED: the connection
 * was closed, and nobody gets it. */
MR_API MR_MUST mr_status mr_ps_respond(mr_ps_message *message, int head, const void *body, size_t size);

/* The body is copied. `done` is called once, when all have answered: with MR_OK, or the first status that is not. With
 * neither `done` nor `ticket` nobody hears of the responses. MR_INVALID: not a node; MR_NOT_FOUND: there is no such
 * rank; MR_TOO_LARGE; MR_BUSY: 4,096 are under way, or were not asked after. */
MR_API MR_MUST mr_status mr_ps_send(mr_ps *ps, mr_ps_peer to, int app, int head, const void *body, size_t size,
                                    mr_ps_done_fn *done, void *context, mr_ps_ticket *ticket);
/* MR_TIMEOUT: the error says who has not answered, and it may be asked for again. MR_NOT_FOUND: no such ticket, or its
 * responses were given out. */
MR_API MR_MUST mr_status mr_ps_responses_wait(mr_ps *ps, mr_ps_ticket ticket, int64_t timeout_us,
                                              mr_ps_responses **out);
MR_API void mr_ps_responses_free(mr_ps_responses *responses); /* NULL: no-op */

/* ---- Memory that servers of this machine see.
 *
 * What is pushed to arrays from such memory is not sent: a server of the same machine and user, at a unix address,
 * reads it where it lies, while it adds (but in BSP). As with any memory, it is borrowed until the request is done; who
 * changes it before that has pushed anything. Pulls of arrays need nothing of the kind: they are copied from the
 * server's memory to any. Where servers cannot see it, it is memory like any other. */

/* Zeroed, and aligned to a page; of the connection, and gone with it. MR_INVALID: of nothing. MR_NOMEM. */
MR_API MR_MUST mr_status mr_ps_buffer_alloc(mr_ps *ps, size_t size, void **out);
/* NULL: no-op. MR_INVALID: it is not what mr_ps_buffer_alloc gave. */
MR_API mr_status mr_ps_buffer_free(mr_ps *ps, void *memory);
/* It stays when the connection is closed: from then on it is the caller's, to be unmapped (munmap), and it is not to be
 * freed before. The same. */
MR_API mr_status mr_ps_buffer_detach(mr_ps *ps, void *memory);

/* ---- The other roles.
 *
 * Both serve until SIGTERM or SIGINT comes, in the thread that calls, and then leave: MR_OK. A server's slots move to
 * other servers first, if there are any (it takes a minute at most; a second signal ends it at once). Other threads of
 * the process, if it has any, have to block these signals. */

typedef void mr_ps_listening_fn(void *context, const char *address);

/* Optimizers of a server program's own: a table with .optimizer = "own:NAME" has the one called NAME. All servers have
 * to have it (mr_ps_table_create asks them), and it has to be a function of what it is given, the same bits at every
 * copy: it runs at each of them, when a push is applied there, once whatever fails. A table made with it is replicated,
 * saved and moved like any other. (A handler of messages is another thing: it runs in the process that is asked, and
 * what it keeps dies with that.) */

typedef struct mr_ps_update { /* of a row, or a stretch of a block */
    size_t count;
    const float *from, *gradient;
    float *to;           /* `from`, or memory that does not overlap it */
    float *const *state; /* as many arrays as the optimizer has, of `count` values, at first zeros: read and written */
    float rate, scale;   /* of now, as the schedule has it; gradients are to be multiplied by the other */
    float momentum, beta1, beta2, epsilon, decay, beta, l1, l2; /* the table's */
} mr_ps_update;

typedef void mr_ps_update_fn(void *context, const mr_ps_update *update);

typedef struct mr_ps_optimizer {
    const char *name;
    uint32_t states; /* arrays of state, at most 4 */
    mr_ps_update_fn *update;
    void *context;
} mr_ps_optimizer;

typedef struct mr_ps_app { /* of messages to this process */
    int app;
    mr_ps_handler_fn *handler;
    void *context;
} mr_ps_app;

typedef struct mr_ps_scheduler_options { /* zero means the default where there is one */
    const char *listen;                  /* its address, the same each time (NULL: as DMLC_PS_ROOT_URI and _PORT say) */
    const char *checkpoint_dir;          /* what it knows, and checkpoints; made where it is missing */
    uint32_t num_workers, num_servers;   /* how many there are to be (0: DMLC_NUM_WORKER, DMLC_NUM_SERVER) */
    uint32_t slots;                      /* that every table is spread over; default 1 */
    uint32_t replicas;                   /* of each slot; default 1 */
    mr_ps_consistency consistency;       /* of tables that name none */
    uint32_t staleness;                  /* of SSP */
    int mixed_consistency;               /* 1: tables of BSP beside others, in slots of their own: twice the slots */
    int64_t checkpoint_us;               /* how often; 0: never */
    int allow_remote;                    /* 1: allows tcp addresses that other machines reach; nothing is encrypted */
    mr_ps_listening_fn *on_listening;    /* called once; may be NULL */
    void *context;
    const mr_ps_app *apps; /* that it handles */
    uint32_t app_count;
    /* 1: where no table has rounds a checkpoint has every slot after the same step of each rank, so that nothing is
     * repeated after it: mr_ps_begin waits for a moment while slots are cut, at most 10 s. A rank whose process dies
     * within a step holds checkpoints up until it is played again. 0: nobody waits, and slots are cut at different
     * steps. Of BSP checkpoints are exact anyway; not with `mixed`. */
    int consistent_checkpoints;
    /* So often it looks whether some servers carry more requests than others: then slots move, and one that is too much
     * for any server, and of which more is pulled than pushed, gets a copy for reading. 0: every 5 s; below: never. */
    int64_t balance_us;
    /* Of BSP (or `mixed`): a round closes when all ranks but `backup` have ended it (fewer than `workers`; 0: when all
     * have), and without those that are late `deadline_us` after the first has (at most UINT32_MAX; it is looked at
     * every 60 ms; 0: none). All slots close with the same ranks; whoever was left out is in the next round again. Its
     * pushes are MR_STALE, as its pulls and mr_ps_end if the others have closed another round since; mr_ps_begin says
     * with which step it goes on: that of the others. Bits then depend on who was in time. A scheduler that is started
     * again with others has them from the moment when the tables go back to a checkpoint. */
    uint32_t backup_workers;
    int64_t deadline_us;
} mr_ps_scheduler_options;

typedef struct mr_ps_server_options { /* zero means the default */
    const char *scheduler;            /* NULL: as DMLC_PS_ROOT_URI and _PORT say */
    const char *listen;               /* default: a free port of this machine, or a socket beside the scheduler's */
    uint32_t number; /* 1 + its number, for one that is started again in its place; 0: one is given to it */
    int allow_remote;
    uint64_t memory_bytes; /* that it may have: then pushes wait; default: half of what the machine has left */
    mr_ps_listening_fn *on_listening;
    void *context;
    const mr_ps_app *apps; /* that it handles */
    uint32_t app_count;
    const mr_ps_optimizer *optimizers; /* of its own */
    uint32_t optimizer_count;
} mr_ps_server_options;

/* MR_INVALID: which option cannot be; MR_EXISTS: somebody listens there; MR_BUSY: another scheduler has the folder;
 * MR_CORRUPT: what is in it is damaged. */
MR_API MR_MUST mr_status mr_ps_run_scheduler(const mr_ps_scheduler_options *options);
/* MR_EXISTS, besides: another process has its number now. One whose number belongs to a process that is here waits. */
MR_API MR_MUST mr_status mr_ps_run_server(const mr_ps_server_options *options);

/* ---- Looking at it. */

enum { MR_PS_REPLICAS_MAX = 4, MR_PS_ADDRESS_MAX = 64 };

typedef struct mr_ps_replica { /* of a slot, by the process that has it */
    uint32_t server;
    uint64_t incarnation;
} mr_ps_replica;

typedef struct mr_ps_slot {
    uint64_t epoch; /* grows when its copies change */
    uint32_t count;
    mr_ps_replica replicas[MR_PS_REPLICAS_MAX]; /* the first takes pushes */
    uint32_t read_replicas; /* it is hot: so many copies, besides those of all slots, are for pulls */
    int pinned_server;      /* the server that leads it since load was balanced; -1: the one that the ring says */
} mr_ps_slot;

typedef struct mr_ps_server {
    uint32_t number;
    uint64_t incarnation;
    char address[MR_PS_ADDRESS_MAX];
} mr_ps_server;

typedef struct mr_ps_rank { /* of a rank */
    uint32_t worker;
    uint64_t incarnation; /* 0: nobody has played it yet */
} mr_ps_rank;

typedef struct mr_ps_cluster_map { /* where everything is, as it was decided last */
    uint64_t number;               /* of the chart; 0: none yet, the scheduler waits for servers */
    uint64_t generation;           /* another one each time everything goes back to a checkpoint */
    uint64_t restored_from;        /* the checkpoint that the generation began from; 0: none */
    uint64_t checkpoint;           /* the newest that is whole; 0: none */
    mr_ps_info info;               /* without a rank */
    mr_ps_slot *slots;             /* info.slots of them, twice if mixed; in BSP one more: who is in a round */
    uint32_t slot_count;
    mr_ps_server *servers; /* info.servers */
    mr_ps_rank *ranks;     /* info.ranks */
} mr_ps_cluster_map;

/* Asks the scheduler (NULL: as DMLC_PS_ROOT_URI and _PORT say). MR_TIMEOUT: it does not answer. */
MR_API MR_MUST mr_status mr_ps_cluster_map_get(const char *scheduler, int64_t timeout_us, mr_ps_cluster_map **out);
MR_API void mr_ps_cluster_map_free(mr_ps_cluster_map *chart); /* NULL: no-op */

/* A checkpoint now, whether or not they are made from time to time: when this is over, one that was begun after the
 * call is whole and on the disk of the scheduler (NULL: as DMLC_PS_ROOT_URI and _PORT say); every push that was
 * acknowledged before the call is in it. *out is its number (mr_ps_cluster_map.checkpoint). Any process may ask. In
 * BSP it is cut when a step ends: a rank in the middle of one would wait for itself. MR_TIMEOUT: the scheduler does
 * not answer, or what it lacks; the checkpoint may be made all the same. */
MR_API MR_MUST mr_status mr_ps_checkpoint(const char *scheduler, int64_t timeout_us, uint64_t *out);

typedef struct mr_ps_metric { /* a number that a process reports */
    char key[MR_PS_NAME_MAX];
    double value, rate; /* the newest; how much it changed per second, lately */
    uint64_t count;     /* how often it was reported */
} mr_ps_metric;

typedef struct mr_ps_process {
    int role;        /* MR_PS_SCHEDULER, MR_PS_SERVERS, MR_PS_WORKERS */
    uint32_t number; /* of the server, or the rank */
    uint64_t incarnation;
    char address[MR_PS_ADDRESS_MAX];
    int here;          /* 0: it was silent for some seconds, or its link broke */
    int64_t silent_us; /* since it was heard */
    /* Of a worker. */
    uint64_t step;       /* that it plays, or will play next */
    double steps_second; /* lately */
    /* Of a server: since it began, and lately. */
    uint64_t pushes, pulls;       /* requests: many small ones may have gone as one */
    uint64_t bytes_in, bytes_out; /* of what was pushed, and answered */
    double pushes_second, pulls_second, bytes_in_second, bytes_out_second;
    uint64_t memory, memory_max; /* bytes that it has, and may have */
    uint64_t conflicts;          /* of BSP: contributions that were repeated with other bytes than before */
    uint32_t metric_count;
    mr_ps_metric metrics[MR_PS_METRICS_MAX];
} mr_ps_process;

typedef struct mr_ps_processes { /* how all processes stand that the scheduler has heard of */
    uint32_t count;
    mr_ps_process *processes; /* by role, then number */
} mr_ps_processes;

/* As mr_ps_cluster_map_get. */
MR_API MR_MUST mr_status mr_ps_processes_get(const char *scheduler, int64_t timeout_us, mr_ps_processes **out);
MR_API void mr_ps_processes_free(mr_ps_processes *board); /* NULL: no-op */

typedef struct mr_ps_table_state { /* a table, and what servers have of it */
    char name[MR_PS_NAME_MAX];
    mr_ps_kind kind;
    mr_dtype dtype;
    uint32_t dim;    /* of a sparse table: values of a row */
    uint32_t arrays; /* of a dense one */
    char optimizer[MR_PS_TEXT_MAX], compression[MR_PS_TEXT_MAX], consistency[MR_PS_TEXT_MAX]; /* as it was made */
    uint64_t rows;      /* keys that have a row or a vector; of a dense table the items of its arrays */
    uint64_t bytes;     /* memory of one copy of each slot, the state of the optimizer included */
    uint64_t nonfinite; /* rows, vectors and stretches that were not finite, since its servers began */
} mr_ps_table_state;

enum { MR_PS_PATH_MAX = 1024, MR_PS_SENTENCE_MAX = 512 }; /* bytes with the NUL; longer ones are cut */

typedef struct mr_ps_data_reader { /* a worker that wants data */
    uint32_t rank, shards;         /* that it holds and that are not handed out to the end */
    uint64_t items;                /* of those: not handed out yet */
} mr_ps_data_reader;

typedef struct mr_ps_dataset_state {
    uint32_t shards, shards_done;   /* of them handed out to the end, in this epoch; parts 0: nobody wants data */
    uint64_t epoch;                 /* that is handed out now */
    uint64_t items, items_given;    /* all, and those that were handed out in this epoch */
    uint64_t items_back;            /* handed back, of this epoch or of earlier ones: they go first */
    uint32_t workers, reader_count; /* that want data; of so many (512 at most) it is said what they hold: */
    mr_ps_data_reader *readers;     /* by rank */
} mr_ps_dataset_state;

typedef struct mr_ps_overview {  /* tables, data and checkpoints, and what is awaited */
    char folder[MR_PS_PATH_MAX]; /* where the scheduler has its checkpoints */
    uint64_t checkpoint;         /* the newest that is whole; 0: none */
    int64_t checkpoint_us;       /* when it was written, since 1970 */
    int64_t every_us;            /* how often one is made; 0: when somebody asks for it */
    int making;                  /* one is under way */
    int checkpoint_failed;       /* 1: what was tried last could not be written or read */
    char checkpoint_error
        [MR_PS_SENTENCE_MAX];        /* why the last one failed that did; "": none has, since the scheduler began */
    int64_t checkpoint_error_us;     /* when, since 1970 */
    char stall[MR_PS_SENTENCE_MAX];  /* what is missing so that nothing goes on, and what follows when it is there:
                                       * servers before the first slot, those that are gone with all copies of some, a
                                       * checkpoint that can be read; "": nothing */
    int64_t stall_us;                /* since when, since 1970 */
    char stall_hint[MR_PS_PATH_MAX]; /* commands that would help, one in each line */
    uint32_t counted, servers;       /* servers of which rows and bytes are known, and servers */
    uint32_t table_count;
    mr_ps_table_state *tables; /* in the order in which they were made */
    mr_ps_dataset_state data;
} mr_ps_overview;

/* As mr_ps_cluster_map_get. What servers have is a second old. */
MR_API MR_MUST mr_status mr_ps_overview_get(const char *scheduler, int64_t timeout_us, mr_ps_overview **out);
MR_API void mr_ps_overview_free(mr_ps_overview *overview); /* NULL: no-op */

/* ---- Checkpoints, as they lie in the folder of a scheduler, which may run or not. Nothing is changed there. */

enum { MR_PS_DAMAGE_MAX = 160 };

typedef struct mr_ps_checkpoint_table {
    char name[MR_PS_NAME_MAX];
    mr_ps_kind kind;
    mr_dtype dtype;
    uint32_t dim;   /* of a sparse table */
    uint64_t rows;  /* of all slots: rows, vectors, or items of arrays in blocks that were pushed to */
    uint64_t bytes; /* of values, without the state of the optimizer */
} mr_ps_checkpoint_table;

typedef struct mr_ps_checkpoint_info {
    uint64_t number;                /* 0: its manifest is damaged, and nothing else is known */
    uint64_t generation;            /* in which it was made */
    int64_t step;                   /* of the rounds, with which ranks go on; -1: there are none */
    int64_t written_us;             /* since 1970: when the newest of its files was written */
    uint64_t bytes;                 /* of its files; slots that had not changed share them with others */
    uint32_t slots;                 /* that it has */
    char damage[MR_PS_DAMAGE_MAX];  /* "": it is whole; else which file is not as it should be */
    mr_ps_checkpoint_table *tables; /* as far as they could be read */
    uint32_t table_count;
} mr_ps_checkpoint_info;

typedef struct mr_ps_checkpoints {
    uint32_t count;
    mr_ps_checkpoint_info *list; /* newest first, then what is damaged beyond that */
} mr_ps_checkpoints;

/* All files are read and their checksums compared. MR_NOT_FOUND: no such folder, or no checkpoint in it. MR_INVALID. */
MR_API MR_MUST mr_status mr_ps_checkpoints_get(const char *folder, mr_ps_checkpoints **out);
MR_API void mr_ps_checkpoints_free(mr_ps_checkpoints *checkpoints); /* NULL: no-op */

/* One safetensors file of the tables of a checkpoint (0: the newest that can be read), whatever slots they lay in:
 * TABLE/keys and TABLE/values [rows, dim] by ascending key of a sparse table, the same and TABLE/lengths of vectors,
 * TABLE/ARRAY in its shape of a dense one; fp32, or int64 of counters. `path` is the file, or a folder in
 * which it will be checkpoint-NUMBER.safetensors. All of it is in memory for a while. MR_NOT_FOUND: it is not kept;
 * MR_CORRUPT: what is damaged; MR_NOMEM, MR_IO; nothing is at `path` then that was not there before. */
MR_API MR_MUST mr_status mr_ps_checkpoint_export(const char *folder, uint64_t number, const char *path);

#ifdef __cplusplus
}
#endif
