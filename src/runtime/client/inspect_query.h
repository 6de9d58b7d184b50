/* inspect_query.h — queries about the state of processes, and their answers.
 *
 *   watcher ── NODE_LOOK ──► node ── CLIENT_LOOK ──► every process that the question is about
 *      ▲                      │  ▲                        │
 *      └── one bundle ────────┘  └── a bundle each ───────┘   (a process that does not answer in time is "silent")
 *
 * A watcher is a process that joined to look: it gets no workers and is asked for nothing. The node's answer is a
 * bundle: first what the node itself knows, then one value for each process that it asked, all of them maps:
 *
 *   of the node      see node_inspect.c
 *   of a process     "process" int, "pid" int, "role" str, "waiting" list of ids that its threads wait for in mr_get
 *                    and mr_wait, "queued" int (calls that its worker has not begun), "rows" list, "total" int,
 *                    "bytes" int (of objects), "does" str (describe.h) if that was asked for and it has a word for it
 *   of a silent one  "process" int, "pid" int, "role" str, "silent" str: why
 *
 * A row is a map: of a task or call "id", "kind", "name", "state", "age_us", "waits_for" (ids of futures), and what is
 * known of "worker", "needs", "retries", "actor", "actor_state"; of an object "id", "state", "bytes", "holds" and
 * "failure". Pure over the client's calls. */
#pragma once
#include "net/rpc/rpc.h"
#include "runtime/refs/value_pack.h"

enum { INSPECT_QUERY_ROWS_MAX = 100 * 1000, INSPECT_QUERY_FIELDS_SIZE = 1 + 4 + 4 + 8 };

typedef enum inspect_query_what {
    INSPECT_QUERY_NODE,    /* the node alone */
    INSPECT_QUERY_MACHINE, /* of what the node knows only the facts and resources */
    INSPECT_QUERY_TASKS,   /* tasks and calls without a result */
    INSPECT_QUERY_OBJECTS, /* futures and values that are held, the largest first */
    INSPECT_QUERY_EVENTS,  /* what they ran lately; of the node alone, which reads it from shared memory */
    INSPECT_QUERY_DOES,    /* what one process says that it does (describe.h) */
    INSPECT_QUERY_COUNT
} inspect_query_what;

typedef struct inspect_query_question {
    inspect_query_what what;
    uint32_t process; /* only this one (report.h); 0: all */
    uint32_t limit;   /* rows of each process, at most INSPECT_QUERY_ROWS_MAX */
    uint64_t serial;  /* only the task, call or object with this number; 0: all */
} inspect_query_question;

void inspect_query_encode(const inspect_query_question *question, uint8_t out[INSPECT_QUERY_FIELDS_SIZE]);
MR_MUST mr_status inspect_query_decode(span fields, inspect_query_question *out); /* MR_INVALID */

/* In a process: answers CLIENT_LOOK, at once or, where the host describes it (core_worker_host), with
 * inspect_query_tell. */
struct core_worker;
void inspect_query_answer(struct core_worker *worker, const rpc_call_request *request);
void inspect_query_tell(struct core_worker *worker, rpc_call_token token, span does);
