/* inspect.c — see inspect.h. Tested by tests/inspect_test.c. */
#include "runtime/inspect/inspect.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/text_file.h"

enum { MEMORY_OBJECTS = 10 };

/* ---- Queries. */

static mr_status open_parts(inspect_answer *answer) {
    for (uint32_t i = 0; i < answer->values->count; i++) {
        value_pack_entry entry = value_pack_value(answer->values, i);
        MR_TRY(value_pack_entry_open(&entry, &answer->docs[i], &answer->roots[i]));
        answer->count++;
    }
    return MR_OK;
}

mr_status inspect_look(mr_inspect *inspect, const inspect_query_question *question, inspect_answer *out) {
    value_pack *values;
    MR_TRY(inspect->ask(inspect->mr, question, inspect->until_us, &values));
    *out = (inspect_answer){.values = values};
    if (values->count == 0 || values->count > INSPECT_PARTS_MAX) {
        mr_status malformed = error_set(MR_CORRUPT, "malformed answer of the node to a query: %u values (1 to %d)",
                                        values->count, INSPECT_PARTS_MAX);
        value_pack_unref(values);
        return malformed;
    }
    out->docs = xcalloc(values->count, sizeof *out->docs);
    out->roots = xcalloc(values->count, sizeof *out->roots);
    mr_status status = open_parts(out);
    if (status != MR_OK) inspect_answer_fini(out);
    return status;
}

void inspect_answer_fini(inspect_answer *answer) {
    for (size_t i = 0; i < answer->count; i++) value_close(&answer->docs[i]);
    free(answer->docs);
    free(answer->roots);
    value_pack_unref(answer->values);
    *answer = (inspect_answer){0};
}

/* ---- Fields of answers. */

static const mr_value nil;

const mr_value *inspect_part(const inspect_answer *answer) { return answer->count < 2 ? &nil : &answer->roots[1]; }

mr_value inspect_field(const mr_value *map, const char *key) {
    mr_value value;
    if (mr_value_field(map, key, &value) == MR_OK) return value;
    error_clear();
    return (mr_value){0};
}

int64_t inspect_int(const mr_value *map, const char *key) {
    mr_value value = inspect_field(map, key);
    int64_t number = 0;
    if (mr_value_kind(&value) != MR_KIND_INT || mr_value_int(&value, &number) != MR_OK) return 0;
    return number;
}

span inspect_text(const mr_value *map, const char *key) {
    mr_value value = inspect_field(map, key);
    mr_span text;
    if (mr_value_kind(&value) != MR_KIND_STR || mr_value_str(&value, &text) != MR_OK) return span_of("", 0);
    return span_of(text.data, text.size);
}

bool inspect_is(const mr_value *map, const char *key, const char *text) {
    span found = inspect_text(map, key);
    return found.size == strlen(text) && memcmp(found.data, text, found.size) == 0;
}

/* ---- Values that own their memory. */

typedef struct owned {
    value_doc doc;
    value_pack *values;
} owned;

static void owned_release(value_doc *doc) {
    owned *owned = container_of(doc, struct owned, doc);
    value_close(doc);
    value_pack_unref(owned->values);
    free(owned);
}

mr_status inspect_value(const mr_arg *arg, mr_value *out) {
    value_pack *values;
    MR_TRY(value_pack_create(&(value_pack_item){.arg = arg}, 1, &values));
    value_pack_entry entry = value_pack_value(values, 0);
    owned *owned = XNEW(struct owned, .values = values);
    mr_status status = value_pack_entry_open(&entry, &owned->doc, out);
    if (status == MR_OK)
        owned->doc.release = owned_release;
    else
        owned_release(&owned->doc);
    return status;
}

/* ---- Combining answers. */

/* A value of an answer as part of a report; borrowed from the answer. */
static mr_arg keep(report *report, mr_value value) {
    mr_value *kept = report_alloc(report, sizeof *kept);
    *kept = value;
    return mr_value_arg(kept);
}

typedef struct gathered { /* sums and rows of all processes' reports */
    report_list rows, silent;
    int64_t total, bytes;
} gathered;

static void gather(gathered *all, report *report, const inspect_answer *answer) {
    *all = (gathered){0};
    for (size_t i = 1; i < answer->count; i++) {
        const mr_value *part = &answer->roots[i];
        if (inspect_text(part, "silent").size > 0) {
            report_add(report, &all->silent, mr_value_arg(part));
            continue;
        }
        all->total += inspect_int(part, "total");
        all->bytes += inspect_int(part, "bytes");
        mr_value rows = inspect_field(part, "rows"), row;
        for (mr_iter iter = mr_value_iter(&rows); mr_iter_next(&iter, &row);)
            report_add(report, &all->rows, keep(report, row));
    }
}

static int larger_first(const void *a, const void *b) {
    int64_t left = inspect_int(((const mr_arg *)a)->value, "bytes");
    int64_t right = inspect_int(((const mr_arg *)b)->value, "bytes");
    return left < right ? 1 : left > right ? -1 : 0;
}

/* Keeps the first `limit` rows, or with by_size the largest. */
static void choose(gathered *all, bool by_size, size_t limit) {
    if (by_size && all->rows.count > 0) qsort(all->rows.items, all->rows.count, sizeof(mr_arg), larger_first);
    if (all->rows.count > limit) all->rows.count = limit;
}

/* The part of an answer that process `id` reported; nil: not queried. */
static const mr_value *part_of(const inspect_answer *answer, span id) {
    for (size_t i = 1; i < answer->count; i++) {
        char text[16];
        int size = snprintf(text, sizeof text, "p%u", (unsigned)inspect_int(&answer->roots[i], "process"));
        if ((size_t)size == id.size && memcmp(text, id.data, id.size) == 0) return &answer->roots[i];
    }
    return &nil;
}

/* Resident memory of a process of this machine; 0: not known. */
static int64_t resident_bytes(int64_t pid) {
    char path[64], text[128];
    long long pages;
    snprintf(path, sizeof path, "/proc/%lld/statm", (long long)pid);
    bool known = text_file_read(path, text, sizeof text) && sscanf(text, "%*d %lld", &pages) == 1;
    return known ? pages * 4096 : 0;
}

/* The node's row of a process, with the process's own report; `counted` names the total of that report. */
static mr_arg worker_row(report *report, const mr_value *row, const inspect_answer *answer, const char *counted) {
    static const char *const kept[] = {"id", "pid", "role", "state", "for", "needs", "actor", "class", "running"};
    enum { KEPT = sizeof kept / sizeof *kept };
    const mr_value *part = part_of(answer, inspect_text(row, "id"));
    span silent = inspect_text(part, "silent");
    report_pair pairs[] = {[KEPT] = {"waiting", keep(report, inspect_field(part, "waiting"))},
                           {"queued", mr_int(inspect_int(part, "queued"))},
                           {counted, mr_int(inspect_int(part, "total"))},
                           {"bytes", mr_int(inspect_int(part, "bytes"))},
                           {"silent", silent.size > 0 ? report_copy(report, silent) : mr_nil()},
                           {"resident_bytes", mr_int(resident_bytes(inspect_int(row, "pid")))}};
    for (size_t i = 0; i < KEPT; i++) pairs[i] = (report_pair){kept[i], keep(report, inspect_field(row, kept[i]))};
    return report_map(report, pairs, sizeof pairs / sizeof *pairs);
}

static mr_arg worker_rows(report *report, const inspect_answer *answer, const char *counted, size_t limit,
                          int64_t *total) {
    report_list rows = {.limit = limit};
    mr_value processes = inspect_field(&answer->roots[0], "processes"), row;
    for (mr_iter iter = mr_value_iter(&processes); mr_iter_next(&iter, &row);)
        if (report_wants(&rows)) report_add(report, &rows, worker_row(report, &row, answer, counted));
    *total = (int64_t)rows.total;
    return report_list_arg(&rows);
}

/* ---- Queries with one request each: the answer's map, built from the reports. */

typedef mr_arg build_fn(report *report, const inspect_answer *answer, const char *name, size_t limit);

static mr_arg rows_of(report *report, const inspect_answer *answer, const char *name, size_t limit) {
    gathered all;
    gather(&all, report, answer);
    choose(&all, strcmp(name, "objects") == 0, limit);
    return REPORT_MAP(report, {name, report_list_arg(&all.rows)}, {"total", mr_int(all.total)},
                      {"bytes", mr_int(all.bytes)}, {"silent", report_list_arg(&all.silent)});
}

static mr_arg worker_list(report *report, const inspect_answer *answer, const char *name, size_t limit) {
    int64_t total;
    mr_arg rows = worker_rows(report, answer, "pending", limit, &total);
    return REPORT_MAP(report, {name, rows}, {"total", mr_int(total)});
}

/* Rows of the node's own report. */
static mr_arg node_list(report *report, const inspect_answer *answer, const char *name, size_t limit) {
    report_list rows = {.limit = limit};
    mr_value all = inspect_field(&answer->roots[0], name), row;
    bool actors = strcmp(name, "actors") == 0; /* the node may leave out some actors */
    for (mr_iter iter = mr_value_iter(&all); mr_iter_next(&iter, &row);)
        if (report_wants(&rows)) report_add(report, &rows, keep(report, row));
    int64_t total = actors ? inspect_int(&answer->roots[0], "actors_total") : (int64_t)rows.total;
    return REPORT_MAP(report, {name, report_list_arg(&rows)}, {"total", mr_int(total)});
}

static mr_arg timeline(report *report, const inspect_answer *answer, const char *name, size_t limit) {
    const mr_value *node = &answer->roots[0];
    return REPORT_MAP(report, {"rings", keep(report, inspect_field(node, "rings"))},
                      {"now_us", mr_int(inspect_int(node, "now_us"))},
                      {"wall_us", mr_int(inspect_int(node, "wall_us"))});
}

/* Queries `resources` and `nodes`, which the node answers alone, and so quickly. */
static mr_arg machine(report *report, const inspect_answer *answer, const char *name, size_t limit) {
    static const char *const kept[] = {"id",      "address", "host",        "pid",          "age_us",
                                       "version", "folder",  "arena_bytes", "memory_bytes", "store_bytes"};
    enum { KEPT = sizeof kept / sizeof *kept };
    mr_value facts = inspect_field(&answer->roots[0], "facts");
    report_pair pairs[KEPT + 2] = {{"resources", keep(report, inspect_field(&answer->roots[0], "resources"))},
                                   {"alive", mr_bool(true)}};
    for (size_t i = 0; i < KEPT; i++)
        pairs[i + 2] = (report_pair){kept[i], keep(report, inspect_field(&facts, kept[i]))};
    if (strcmp(name, "resources") == 0) return report_map(report, pairs, 1);
    report_list nodes = {0};
    report_add(report, &nodes, report_map(report, pairs, sizeof pairs / sizeof *pairs));
    return REPORT_MAP(report, {"nodes", report_list_arg(&nodes)});
}

static const struct question {
    const char *name;
    inspect_query_what what;
    bool rows; /* rows of processes, or of events, are queried: up to the limit */
    build_fn *build;
} questions[] = {
    {"tasks", INSPECT_QUERY_TASKS, true, rows_of},        {"objects", INSPECT_QUERY_OBJECTS, true, rows_of},
    {"actors", INSPECT_QUERY_NODE, false, node_list},     {"groups", INSPECT_QUERY_NODE, false, node_list},
    {"workers", INSPECT_QUERY_TASKS, false, worker_list}, {"timeline", INSPECT_QUERY_EVENTS, true, timeline},
    {"resources", INSPECT_QUERY_MACHINE, false, machine}, {"nodes", INSPECT_QUERY_MACHINE, false, machine},
};

static mr_status ask(mr_inspect *inspect, const struct question *question, size_t limit, mr_value *out) {
    inspect_answer answer;
    report report;
    inspect_query_question look = {.what = question->what, .limit = question->rows ? (uint32_t)limit : 0};
    MR_TRY(inspect_look(inspect, &look, &answer));
    report_init(&report);
    mr_arg map = question->build(&report, &answer, question->name, limit);
    mr_status status = inspect_value(&map, out);
    report_fini(&report);
    inspect_answer_fini(&answer);
    return status;
}

/* Queries `status` and `memory`: the node's facts, and sums of the processes' reports. */
static mr_status overview(mr_inspect *inspect, size_t limit, bool memory, mr_value *out) {
    inspect_answer tasks, objects;
    gathered all, held;
    report report;
    int64_t total;
    MR_TRY(inspect_look(inspect, &(inspect_query_question){.what = INSPECT_QUERY_TASKS}, &tasks));
    mr_status status = inspect_look(
        inspect, &(inspect_query_question){.what = INSPECT_QUERY_OBJECTS, .limit = memory ? MEMORY_OBJECTS : 0},
        &objects);
    if (status != MR_OK) {
        inspect_answer_fini(&tasks);
        return status;
    }
    report_init(&report);
    gather(&all, &report, &tasks);
    gather(&held, &report, &objects);
    choose(&held, true, MEMORY_OBJECTS);
    const mr_value *node = &objects.roots[0];
    mr_value facts = inspect_field(node, "facts"), resources = inspect_field(node, "resources"),
             workers = inspect_field(node, "workers"), store = inspect_field(node, "store");
    mr_arg processes = worker_rows(&report, &objects, "objects", limit, &total);
    mr_arg map =
        REPORT_MAP(&report, {"node", mr_value_arg(&facts)}, {"resources", mr_value_arg(&resources)},
                   {"workers", mr_value_arg(&workers)}, {"store", mr_value_arg(&store)}, {"processes", processes},
                   {"processes_total", mr_int(total)}, {"actors", mr_int(inspect_int(node, "actors_total"))},
                   {"pending", mr_int(all.total)}, {"objects", mr_int(held.total)}, {"bytes", mr_int(held.bytes)},
                   {"largest", report_list_arg(&held.rows)}, {"silent", report_list_arg(&held.silent)});
    status = inspect_value(&map, out);
    report_fini(&report);
    inspect_answer_fini(&tasks);
    inspect_answer_fini(&objects);
    return status;
}

mr_status mr_inspect_ask(mr_inspect *inspect, const char *what, const char *id, size_t limit, mr_value *out) {
    if (inspect == NULL || what == NULL)
        return error_set(MR_INVALID, "mr_inspect_ask: `%s` is NULL", inspect == NULL ? "inspect" : "what");
    if (out == NULL) return error_set(MR_INVALID, "mr_inspect_ask: `out` is NULL");
    if (limit > INSPECT_QUERY_ROWS_MAX) limit = INSPECT_QUERY_ROWS_MAX;
    if (strcmp(what, "status") == 0) return overview(inspect, limit, false, out);
    if (strcmp(what, "memory") == 0) return overview(inspect, limit, true, out);
    for (size_t i = 0; i < sizeof questions / sizeof *questions; i++)
        if (strcmp(what, questions[i].name) == 0) return ask(inspect, &questions[i], limit, out);
    if (strcmp(what, "why") != 0) return error_set(MR_INVALID, "mr_inspect_ask: unknown query '%s'", what);
    report_id parsed;
    if (id == NULL || !report_id_parse(id, &parsed))
        return error_set(MR_INVALID, "'%s' is not an id such as t4:17, c4:17, o4:17, a4:2 or p4", id == NULL ? "" : id);
    return inspect_why(inspect, &parsed, out);
}
