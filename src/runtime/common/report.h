/* report.h — report of a process's state: a growing tree of mr_arg, and the ids that users see.
 *
 * Added rows, lists and texts are copied and live until report_fini, so a report is built piece by piece and then
 * encoded as one value (value_pack_create).
 *
 * An id is a letter and numbers, short enough to be copied by hand: p4 is a process (a driver or a worker), o4:17 the
 * object in place 17 of process 4 (object.h), t4:17 the task and c4:17 the actor call whose result that object is, a4:2
 * the second actor that process 4 created. The second object in a place is o4:17.2, and so on: no id is used twice, and
 * a node uses no process number twice. */
#pragma once
#include "base/bytes.h"
#include "base/list.h"
#include "miniray/value.h"

typedef struct report {
    list chunks; /* owned */
    size_t left; /* bytes left in the newest chunk */
} report;

void report_init(report *report);
void report_fini(report *report);

void *report_alloc(report *report, size_t size); /* aligned to 16, not zeroed */
mr_arg report_text(report *report, const char *format, ...) __attribute__((format(printf, 2, 3)));
mr_arg report_copy(report *report, span text);
typedef struct report_pair {
    const char *key;
    mr_arg value;
} report_pair;
mr_arg report_map(report *report, const report_pair *pairs, size_t count);
#define REPORT_MAP(report, ...) /* REPORT_MAP(report, {key, value}, …) */ \
    report_map(report, (report_pair[]){__VA_ARGS__}, sizeof((report_pair[]){__VA_ARGS__}) / sizeof(report_pair))

typedef struct report_list { /* zeroed: empty; only the first `limit` items are kept, all are counted */
    mr_arg *items;
    size_t count, capacity, limit, total;
} report_list;

bool report_wants(report_list *list); /* counts one more item; true: add the item */
void report_add(report *report, report_list *list, mr_arg item);
mr_arg report_list_arg(const report_list *list);

/* ---- Ids. */

typedef struct report_id {
    char letter; /* p, t, c, o or a */
    uint32_t process;
    uint64_t serial; /* as in mr_ref and mr_actor; 0 for a process */
} report_id;

#define REPORT_PROCESS(process) ((uint32_t)(process)) /* the upper half is the node's number, equal for all processes */

enum { REPORT_ID_MAX = 48 };
void report_id_write(const report_id *id, char out[REPORT_ID_MAX]);
mr_arg report_id_arg(report *report, char letter, uint64_t process, uint64_t serial);
bool report_id_parse(const char *text, report_id *out);
