/* look.h — queries about the state of processes, and their answers.
 *
 *   watcher ── NODE_LOOK ──► node ── CLIENT_LOOK ──► every process that the question is about
 *      ▲                      │  ▲                        │
 *      └── one bundle ────────┘  └── a bundle each ───────┘   (a process that does not answer in time is "silent")
 *
 * A watcher is a process that joined to look: it gets no workers and is asked for nothing. The node's answer is a
 * bundle: first what the node itself knows, then one value for each process that it asked, all of them maps:
 *
 *   of the node      see node_look.c
 *   of a process     "process" int, "pid" int, "role" str, "waiting" list of ids that its threads wait for in mr_get
 *                    and mr_wait, "queued" int (calls that its worker has not begun), "rows" list, "total" int,
 *                    "bytes" int (of objects), "does" str (describe.h) if that was asked for and it has a word for it
 *   of a silent one  "process" int, "pid" int, "role" str, "silent" str: why
 *
 * A row is a map: of a task or call "id", "kind", "name", "state", "age_us", "waits_for" (ids of futures), and what is
 * known of "worker", "needs", "retries", "actor", "actor_state"; of an object "id", "state", "bytes", "holds" and
 * "failure". Pure over the client's calls. */
#pragma once
#include "net/call.h"
#include "runtime/refs/bundle.h"

enum { LOOK_ROWS_MAX = 100 * 1000, LOOK_FIELDS_SIZE = 1 + 4 + 4 + 8 };

typedef enum look_what {
    LOOK_NODE,    /* the node alone */
    LOOK_MACHINE, /* of what the node knows only the facts and resources */
    LOOK_TASKS,   /* tasks and calls without a result */
    LOOK_OBJECTS, /* futures and values that are held, the largest first */
    LOOK_EVENTS,  /* what they ran lately; of the node alone, which reads it from shared memory */
    LOOK_DOES,    /* what one process says that it does (describe.h) */
    LOOK_COUNT
} look_what;

typedef struct look_question {
    look_what what;
    uint32_t process; /* only this one (report.h); 0: all */
    uint32_t limit;   /* rows of each process, at most LOOK_ROWS_MAX */
    uint64_t serial;  /* only the task, call or object with this number; 0: all */
} look_question;

void look_encode(const look_question *question, uint8_t out[LOOK_FIELDS_SIZE]);
MR_MUST mr_status look_decode(span fields, look_question *out); /* MR_INVALID */

/* In a process: answers CLIENT_LOOK, at once or, where the host describes it (client_host), with look_tell. */
struct client;
void look_answer(struct client *client, const call_request *request);
void look_tell(struct client *client, call_token token, span does);
