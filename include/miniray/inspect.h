/* miniray/inspect.h — looking at a node and its processes while they run: what `miniray status` and its kin show.
 *
 * Whoever looks joins the node, is given no work, and disturbs nobody: processes answer between two messages, and one
 * that does not answer within a second is reported as silent. Everything comes as values (miniray/value.h) whose
 * fields docs/seeing.md lists; times are ages in µs, sizes are bytes, ids are short texts such as t4:17 that can be
 * asked about.
 *
 *     mr_inspect *inspect;
 *     mr_value answer;
 *     char *json;
 *     if (mr_inspect_open(NULL, &inspect) != MR_OK || mr_inspect_ask(inspect, "tasks", NULL, 100, &answer) != MR_OK) …
 *     mr_inspect_json(mr_value_arg(&answer), &json);
 */
#pragma once
#include "miniray/runtime.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct mr_inspect mr_inspect; /* opaque; one thread at a time */

/* The nodes of this user on this machine: {"nodes": [{"address", "pid", "kind"}], "runs": [{"folder", "address",
 * "stale", "age_us", "logs": [{"name", "stream", "path", "bytes"}]}]}. Runs are those that have a folder, the newest
 * first; one that is over, or of a lasting node, has no address; one is stale whose node was killed and left its
 * socket. A worker's log is of one stream, "stdout" or "stderr"; the node's own is of none (nil). */
MR_API MR_MUST mr_status mr_inspect_nodes(mr_value *out);

/* ---- Being looked at: what this process does, in words of its own, such as the stack of another language. Writes at
 * most `size` bytes of text and says how many. It is called when somebody asks why a body does not end, on a thread
 * that is there for this alone and holds nothing of the library's; whatever it waits for, nobody else does. */
typedef size_t mr_describe_fn(void *user, char *out, size_t size);
MR_API void mr_on_describe(mr_describe_fn *fn, void *user); /* before mr_init; in programs and workers */

/* ---- Looking. The address is a node's socket; NULL or "auto": the lasting node of this user. MR_NOT_FOUND: nothing
 * runs there. MR_DENIED: it is another user's. */
MR_API MR_MUST mr_status mr_inspect_open(const char *address, mr_inspect **out);
/* The same for a program, or a body in a worker: at the node that it has joined already. The context is borrowed: close
 * before mr_shutdown. */
MR_API MR_MUST mr_status mr_inspect_within(mr_context *mr, mr_inspect **out);
MR_API void mr_inspect_close(mr_inspect *inspect); /* NULL is a no-op */

/* `what` is "status", "tasks", "actors", "objects", "workers", "groups", "memory", "timeline", "why" with an id (else
 * NULL); or one of two that ask nobody but the node and are cheap: "resources", {"resources": [{"name", "total",
 * "free"}]} in thousandths, and "nodes", {"nodes": [{"id", "address", "host", "pid", "alive", "age_us", "version",
 * "folder", "arena_bytes", "resources"}]}. At most `limit` rows; totals count all. MR_INVALID: no such question or
 * id. MR_NOT_FOUND: nothing has that id. MR_CLOSED: the node went away. */
MR_API MR_MUST mr_status mr_inspect_ask(mr_inspect *inspect, const char *what, const char *id, size_t limit,
                                        mr_value *out);

typedef struct mr_trace {
    char *json; /* free() it */
    size_t size;
    size_t calls, workers; /* that are in it: calls that ran, and where */
} mr_trace;

/* What the workers ran lately, and who called, as a trace that https://ui.perfetto.dev and chrome://tracing show (Trace
 * Event Format), at most `limit` records of each. */
MR_API MR_MUST mr_status mr_inspect_trace(mr_inspect *inspect, size_t limit, mr_trace *out);

/* Any value as JSON; free() it. Bytes become text; what JSON has nothing for, its kind. MR_INVALID, MR_NOMEM,
 * MR_TOO_LARGE. */
MR_API MR_MUST mr_status mr_inspect_json(mr_arg value, char **out);

#ifdef __cplusplus
}
#endif
