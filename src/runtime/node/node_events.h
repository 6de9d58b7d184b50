/* node_events.h — the node's table of event rings: see node_events.c. For the files of the node's core only. */
#pragma once
#include "base/list.h"
#include "net/rpc/rpc.h"
#include "runtime/common/report.h"

struct node_core;
struct node_member;

typedef struct node_events {
    list living, gone; /* of node_ring */
    uint32_t gone_count;
    size_t granted; /* bytes of all rings */
} node_events;

void node_events_init(node_events *events);
void node_events_fini(struct node_core *core);

mr_status node_events_lend(struct node_core *core, struct node_member *member, rpc_call_token token); /* NODE_EVENTS */
void node_events_gone(struct node_core *core, uint64_t process, const cause *why);

/* When the newest call that a process runs now began; 0: none, or not known. Writes its name (NULL: does not). */
int64_t node_events_now(struct node_core *core, uint64_t process, char *name, size_t size);

mr_arg node_events_running(struct node_core *core, report *report, uint64_t process); /* list of maps; nil: not known */
/* all rings, as described in inspect_query.h */
mr_arg node_events_rows(struct node_core *core, report *report, uint32_t limit);
