/* kv_request.h — push or pull of a worker, split into the payloads of the slots that it concerns.
 *
 *   keys, values ──► splitter: places by slot ──► sections, straight into the batch of each slot (slot_queue.h)
 *   keys         ──► splitter: places by slot ──► sections of the query, and destinations of their answers (scatter.h)
 *   a stretch of an array ──► block by block to the slots of the blocks
 *
 * Values are copied once, from the caller's memory into the payload, or from the answer to the caller's memory; large
 * stretches of an array are not copied at all (zero_copy.h). The copy converts between the dtype of the caller's memory
 * and that of the wire (docs/decisions/040-precision.md):
 *
 *   gradients, pulls   a precision of bf16 or fp16: that; else the dtype of the caller's memory
 *   assigned values    the dtype of the caller's memory
 *
 * No value of the caller is smaller than on the wire, and sections are cut by the bytes of the caller's values.
 * A section with more than one key has at most KV_REQUEST_SECTION bytes of values. A large request becomes several
 * pushes; their order depends on the request alone, so a replayed request is split in the same way.
 *
 * Ownership  keys and lengths are borrowed for the call, values until the ticket is over. Threads: the kv_worker's. */
#pragma once
#include "kv/client/kv_worker.h"
#include "kv/client/table_info.h"
#include "kv/client/ticket.h"
#include "miniray/ps.h"

enum { KV_REQUEST_SECTION = 1 << 20 };
enum { KV_REQUEST_SEEN = 16 << 10 };     /* blocks from this size in bytes are read remotely (remote_values.h) */
enum { KV_REQUEST_BORROWED = 64 << 10 }; /* blocks from this size in bytes are sent without a copy (zero_copy.h) */
enum { KV_REQUEST_STREAMED = 4 << 20 };  /* bytes of a whole pull that exceed the caches of a CPU */
enum { KV_REQUEST_SHIP = 256 << 10 };    /* bytes of an array that are sent before the next ones are split */
enum { KV_REQUEST_RANGE = 8 << 20 };     /* bytes of the rows of a range in one answer */
/* Limit of the bytes that a BSP step pushes to a slot, and additional room for schemas. */
enum { KV_REQUEST_STEP_MAX = 1000 << 20, KV_REQUEST_STEP_REST = 1 << 20, KV_REQUEST_VECTOR_MAX = 15 << 20 };

struct mr_ps_version {   /* versions of the slots that the caller's memory shows */
    uint64_t generation; /* of the kv_worker; the versions are valid in it only */
    uint64_t changed;    /* parts that the last pull wrote */
    uint32_t table, slots;
    uint64_t versions[]; /* by slot; 0: none */
};

enum { KV_REQUEST_PUSHES = 1, KV_REQUEST_PULLS = 2 }; /* kinds of a ticket */

typedef struct kv_request {
    table_info *table; /* borrowed for the call */
    mr_dtype dtype;    /* of the caller's values */
    const uint64_t *keys;
    const uint32_t *lengths; /* NULL: rows */
    size_t count;            /* keys, or items of an array */
    uint32_t array;
    uint64_t first, last; /* `first`: item of the array; both: keys of a range */
    uint64_t *found;      /* of a range: destination of the existing keys */
    size_t *found_count;  /* destination of their number */
    mr_ps_version *mark;  /* of a pull: the version of the content of `to`; NULL: unknown */
    const void *values;
    void *to;
    mr_ps_vectors **vectors; /* destination of a pull of vectors of unknown lengths; NULL: another request */
    uint8_t priority;
    /* Both: the pull shows the push. In BSP it shows the version that this step makes, which exists after the step's
     * end. */
    bool pushes, pulls;
    bool set;            /* assigns the pushed values */
    bool skip_nonfinite; /* a push with a value that is not finite is left out */
    bool rated;          /* the push has a learning rate of its own, `rate` */
    float rate;
    bool kept;            /* the caller will ask for the result */
    ticket_done_fn *done; /* NULL: no callback */
    void *context;
} kv_request;

/* The dtype of the request's pushed or pulled values on the wire. */
mr_dtype kv_request_pushed(const kv_request *request);
mr_dtype kv_request_pulled(const kv_request *request);
static inline size_t kv_request_item(const kv_request *request) { return mr_dtype_size(request->dtype); }
static inline size_t kv_request_row(const kv_request *request) { /* bytes of a row of a sparse table */
    return kv_request_item(request) * request->table->table.schema.dim;
}

/* Every request needs an open step, else MR_STALE. MR_INVALID: keys that do not ascend, invalid lengths or values; the
 * error names them. MR_NOT_FOUND: the table was dropped. MR_BUSY: too many requests, or too many pushes in the step.
 * MR_TOO_LARGE: in BSP, too many bytes pushed to a slot in the step. MR_NOMEM. */
MR_MUST mr_status kv_request_keys(kv_worker *worker, const kv_request *request, uint64_t *ticket);
MR_MUST mr_status kv_request_array(kv_worker *worker, const kv_request *request, uint64_t *ticket);
/* Pulls the rows of a range in the order of their keys, at most `count` of them. MR_TOO_LARGE: the range has more rows.
 * Each answer of a slot shows the table at one moment; a slot with more than KV_REQUEST_RANGE bytes needs several. */
MR_MUST mr_status kv_request_range(kv_worker *worker, const kv_request *request, uint64_t *ticket);
