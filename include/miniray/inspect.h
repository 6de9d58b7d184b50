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
 *     mr_inspect_json(mr_pass(&answer), &json);
 */
#pragma once
#include "miniray/value.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct mr_inspect mr_inspect; /* opaque; one thread at a time */

/* The nodes of this user on this machine: {"nodes": [{"address", "pid", "kind"}], "runs": [{"folder", "address",
 * "stale", "age_us", "logs": [{"name", "path", "bytes"}]}]}. Runs are those that have a folder, the newest first; one
 * that is over, or of a lasting node, has no address; one is stale whose node was killed and left its socket. */
MR_API MR_MUST mr_status mr_inspect_nodes(mr_value *out);

/* The address is a node's socket; NULL or "auto": the lasting node of this user. MR_NOT_FOUND: nothing runs there.
 * MR_DENIED: it is another user's. */
MR_API MR_MUST mr_status mr_inspect_open(const char *address, mr_inspect **out);
MR_API void mr_inspect_close(mr_inspect *inspect); /* NULL is a no-op */

/* `what` is "status", "tasks", "actors", "objects", "workers", "memory", "timeline", or "why" with an id (else NULL).
 * At most `limit` rows; totals count all. MR_INVALID: no such question or id. MR_NOT_FOUND: nothing has that id.
 * MR_CLOSED: the node went away. */
MR_API MR_MUST mr_status mr_inspect_ask(mr_inspect *inspect, const char *what, const char *id, size_t limit,
                                        mr_value *out);

/* Any value as JSON; free() it. Bytes become text; what JSON has nothing for, its kind. MR_INVALID, MR_NOMEM,
 * MR_TOO_LARGE. */
MR_API MR_MUST mr_status mr_inspect_json(mr_arg value, char **out);

#ifdef __cplusplus
}
#endif
