/* inspect_query.h — queries about the state of processes, and their answers.
 *
 *   observer ─ NODE_LOOK ──► node ── CLIENT_LOOK ──► every process that the query is about
 *      ▲                      │  ▲                        │
 *      └── one pack ──────────┘  └── a value pack each ───┘   (a process that does not answer in time is "silent")
 *
 * An observer is a process that joined only to send queries: it gets no workers and no requests. The node's answer is a
 * value pack: first the node's own state, then one value for each queried process, all of them maps:
 *
 *   of the node      see node_inspect.c
 *   of a process     "process" int, "pid" int, "role" str, "waiting" list of ids that its threads wait for in mr_get
 *                    and mr_wait, "queued" int (calls that its worker has not begun), "rows" list, "total" int,
 *                    "bytes" int (of objects), "does" str (describe.h) if requested and the process has a description
 *   of a silent one  "process" int, "pid" int, "role" str, "silent" str: why
 *
 * A row is a map: of a task or call "id", "kind", "name", "state", "age_us", "waits_for" (ids of futures), and where
 * known "worker", "needs", "retries", "actor", "actor_state"; of an object "id", "state", "bytes", "holds" and
 * "failure". Pure over the core worker's RPCs. */
#pragma once
#include "net/rpc/rpc.h"
#include "runtime/refs/value_pack.h"

enum { INSPECT_QUERY_ROWS_MAX = 100 * 1000, INSPECT_QUERY_FIELDS_SIZE = 1 + 4 + 4 + 8 };

typedef enum inspect_query_what {
    INSPECT_QUERY_NODE,    /* the node's state alone */
    INSPECT_QUERY_MACHINE, /* the node's facts and resources only */
    INSPECT_QUERY_TASKS,   /* tasks and calls without a result */
    INSPECT_QUERY_OBJECTS, /* futures and values that are held, the largest first */
    INSPECT_QUERY_EVENTS,  /* latest calls; the node reads them from shared memory */
    INSPECT_QUERY_DOES,    /* description of one process (describe.h) */
    INSPECT_QUERY_COUNT
} inspect_query_what;

typedef struct inspect_query_question {
    inspect_query_what what;
    uint32_t process; /* report on this process only (report.h); 0: all */
    uint32_t limit;   /* limit of rows of each process, at most INSPECT_QUERY_ROWS_MAX */
    uint64_t serial;  /* report on the task, call or object with this number only; 0: all */
} inspect_query_question;

void inspect_query_encode(const inspect_query_question *question, uint8_t out[INSPECT_QUERY_FIELDS_SIZE]);
MR_MUST mr_status inspect_query_decode(span fields, inspect_query_question *out); /* MR_INVALID */

/* Answers CLIENT_LOOK, in the queried process: at once or, if the host has a description (core_worker_host), with
 * inspect_query_tell. */
struct core_worker;
void inspect_query_answer(struct core_worker *worker, const rpc_call_request *request);
void inspect_query_tell(struct core_worker *worker, rpc_call_token token, span does);
