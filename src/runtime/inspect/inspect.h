/* inspect.h — observer: a process that joined a node to query it (inspect_query.h), and combines the answers.
 *
 *   inspect.c        queries, and the answers to all of them but these:
 *   inspect_why.c    chain of causes of a wait
 *   inspect_nodes.c  list of nodes
 *   inspect_trace.c  timeline for Perfetto; inspect_flows.c  arrows from calls to bodies
 *   inspect_json.c   values as JSON
 *
 * The connection is that of the process (runtime/process/inspect_api.c). */
#pragma once
#include "miniray/admin.h"
#include "runtime/client/inspect_query.h"
#include "runtime/common/report.h"
#include "runtime/refs/value_pack.h"

enum { INSPECT_PARTS_MAX = 4097 };

/* Asks the node and waits for its answer: until `until_us`, or with 0 as long as for a command. MR_TIMEOUT: none. */
typedef mr_status inspect_ask_fn(mr_context *mr, const inspect_query_question *question, int64_t until_us,
                                 value_pack **out);

struct mr_inspect {
    mr_context *mr;
    bool borrowed; /* `mr` belongs to the caller (mr_inspect_within) */
    inspect_ask_fn *ask;
    int64_t until_us; /* end of all waits for answers; 0: each has a limit of its own */
};

typedef struct inspect_answer { /* answers of the node and the processes; owned: inspect_answer_fini */
    value_pack *values;
    value_doc *docs; /* one per part, as the roots */
    mr_value *roots; /* the node's first */
    size_t count;
} inspect_answer;

MR_MUST mr_status inspect_look(mr_inspect *inspect, const inspect_query_question *question, inspect_answer *out);
void inspect_answer_fini(inspect_answer *answer);

/* Fields of a map, with defaults for missing fields and fields of another kind. */
int64_t inspect_int(const mr_value *map, const char *key);
span inspect_text(const mr_value *map, const char *key); /* default: empty; borrowed like the map */
bool inspect_is(const mr_value *map, const char *key, const char *text);
mr_value inspect_field(const mr_value *map, const char *key); /* nil */

/* The part of the only queried process; nil: the node does not know that process. */
const mr_value *inspect_part(const inspect_answer *answer);

/* Packs the tree into a value that owns its memory. */
MR_MUST mr_status inspect_value(const mr_arg *arg, mr_value *out);

/* inspect_why.c */
MR_MUST mr_status inspect_why(mr_inspect *inspect, const report_id *id, mr_value *out);
/* The last step of that chain, the cause of the wait, on a line: "p3 (worker, process 4711): it runs f for p2, for
 * 2 s". "": the thing waits for nothing. Steps for which there is no answer before until_us are named as such. */
void inspect_why_line(mr_inspect *inspect, const report_id *id, char *out, size_t size);
