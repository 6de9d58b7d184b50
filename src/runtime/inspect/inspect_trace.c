/* inspect_trace.c — see inspect.h. The timeline in the Trace Event Format: complete events ("X") with their begin and
 * length in µs, one process of the trace for each worker and each driver, instants ("i") of deaths, and arrows ("s",
 * "f") from calls to their bodies (inspect_flows.h). Events that still run end now, or with their process. Calls that
 * share a record (short calls in close succession) are one event, with their number behind the name. Tested by
 * tests/inspect_inside_test.c. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "runtime/common/event_ring.h"
#include "runtime/inspect/inspect.h"
#include "runtime/inspect/inspect_flows.h"

enum { NAME_SIZE = 320, TRACKS_MAX = 1024 };

typedef struct trace { /* a timeline while it is written */
    FILE *file;
    size_t events, calls, workers;
    mr_status status;  /* of the first error */
    int64_t offset_us; /* wall clock minus monotonic clock */
    int64_t now_us;
    int64_t ends_us[TRACKS_MAX]; /* end of the last event on each further track of this ring */
    size_t tracks;
    inspect_slices slices; /* of all rings, for the arrows */
    report report;         /* of the event that is written */
} trace;

/* Events of a track must not overlap. Each lane but the last has this property; the last lane has all remaining calls
 * and becomes as many tracks as needed. */
static int64_t track_of(trace *trace, int64_t lane, int64_t begun_us, int64_t ended_us) {
    if (lane < EVENT_RING_LANES - 1) return lane;
    size_t at = 0;
    while (at < trace->tracks && trace->ends_us[at] > begun_us) at++;
    if (at == trace->tracks && at < TRACKS_MAX - 1) trace->tracks++;
    trace->ends_us[at] = ended_us;
    return lane + (int64_t)at;
}

/* ---- Events. */

static void put(trace *trace, mr_arg event) {
    char *text;
    if (trace->status == MR_OK) trace->status = mr_inspect_json(event, &text);
    report_fini(&trace->report);
    report_init(&trace->report);
    if (trace->status != MR_OK) return;
    fprintf(trace->file, "%s\n%s", trace->events++ == 0 ? "" : ",", text);
    free(text);
}

static int64_t item_int(const mr_value *list, size_t index) {
    mr_value item;
    int64_t number = 0;
    if (mr_value_item(list, index, &item) != MR_OK || mr_value_int(&item, &number) != MR_OK) return 0;
    return number;
}

static void item_text(const mr_value *list, size_t index, char *out, size_t size) {
    mr_value item;
    mr_span text = {0};
    if (mr_value_item(list, index, &item) != MR_OK || mr_value_str(&item, &text) != MR_OK) text.size = 0;
    snprintf(out, size, "%.*s", (int)text.size, text.size == 0 ? "" : (const char *)text.data);
}

/* Writes one record: [begun_us, ended_us, kind, name, process, call, count, lane, outcome]. */
static void put_event(trace *trace, int64_t process, int64_t pid, int64_t gone_us, const mr_value *row) {
    int64_t begun_us = item_int(row, 0), ended_us = item_int(row, 1), count = item_int(row, 6);
    bool over = ended_us != 0;
    char name[NAME_SIZE], shown[NAME_SIZE + 32], kind[32], caller[32];
    item_text(row, 3, name, sizeof name);
    item_text(row, 2, kind, sizeof kind);
    snprintf(caller, sizeof caller, "p%" PRId64, item_int(row, 4));
    int size = snprintf(shown, sizeof shown, "%s", name);
    if (count > 1) snprintf(shown + size, sizeof shown - (size_t)size, " ×%" PRId64, count);
    bool submits = strcmp(kind, "submit") == 0;
    if (submits) /* at least 1 µs, so that the slice is visible; an open record also gets 1 µs */
        ended_us = ended_us > begun_us ? ended_us : begun_us + 1;
    else if (!over)
        ended_us = gone_us != 0 ? gone_us : trace->now_us;
    int64_t track = track_of(trace, item_int(row, 7), begun_us, ended_us);
    const char *outcome = submits        ? "sent"
                          : over         ? mr_status_name((mr_status)item_int(row, 8))
                          : gone_us != 0 ? "its worker died"
                                         : "running";
    mr_arg details =
        REPORT_MAP(&trace->report, {submits ? "to" : "caller", mr_str(caller)}, {"call", mr_int(item_int(row, 5))},
                   {"calls", mr_int(count)}, {"outcome", mr_str(outcome)});
    put(trace, REPORT_MAP(&trace->report, {"ph", mr_str("X")}, {"name", mr_str(shown)}, {"cat", mr_str(kind)},
                          {"ts", mr_int(begun_us + trace->offset_us)},
                          {"dur", mr_int(ended_us > begun_us ? ended_us - begun_us : 0)}, {"pid", mr_int(pid)},
                          {"tid", mr_int(track)}, {"args", details}));
    if (!submits) trace->calls += (size_t)count;
    const inspect_slice slice = {process, item_int(row, 4), item_int(row, 5), begun_us, ended_us, pid, track, submits};
    if (trace->status == MR_OK && strcmp(kind, "wait") != 0) trace->status = inspect_slices_add(&trace->slices, &slice);
}

static void put_ring(trace *trace, const mr_value *ring) {
    trace->tracks = 0;
    int64_t pid = inspect_int(ring, "pid"), gone_us = inspect_int(ring, "gone_us");
    int64_t process = inspect_int(ring, "process");
    bool drives = inspect_is(ring, "role", "driver");
    if (!drives) trace->workers++;
    span class_name = inspect_text(ring, "class"), why = inspect_text(ring, "why");
    char title[NAME_SIZE];
    if (class_name.size == 0) class_name = span_of(drives ? "driver" : "worker", 6);
    snprintf(title, sizeof title, "p%" PRId64 " %.*s%s", process, (int)class_name.size, (const char *)class_name.data,
             gone_us != 0 ? " (gone)" : "");
    report *report = &trace->report;
    mr_arg named = REPORT_MAP(report, {"name", mr_str(title)});
    put(trace, REPORT_MAP(report, {"ph", mr_str("M")}, {"name", mr_str("process_name")}, {"pid", mr_int(pid)},
                          {"args", named}));
    mr_arg sorted = REPORT_MAP(report, {"sort_index", mr_int(process)});
    put(trace, REPORT_MAP(report, {"ph", mr_str("M")}, {"name", mr_str("process_sort_index")}, {"pid", mr_int(pid)},
                          {"args", sorted}));
    mr_value rows = inspect_field(ring, "events"), row;
    for (mr_iter iter = mr_value_iter(&rows); mr_iter_next(&iter, &row);) put_event(trace, process, pid, gone_us, &row);
    if (gone_us == 0) return;
    mr_arg died = REPORT_MAP(report, {"why", mr_text((const char *)why.data, why.size)});
    put(trace, REPORT_MAP(report, {"ph", mr_str("i")}, {"name", mr_str("died")}, {"s", mr_str("p")},
                          {"ts", mr_int(gone_us + trace->offset_us)}, {"pid", mr_int(pid)}, {"tid", mr_int(0)},
                          {"args", died}));
}

/* Writes one end of an arrow. The second end is bound to its enclosing slice ("bp"), as the first always is. */
static void put_end_of_arrow(trace *trace, bool first, int64_t id, const inspect_slice *slice, int64_t at_us) {
    const report_pair pairs[] = {{"ph", mr_str(first ? "s" : "f")},
                                 {"name", mr_str("call")},
                                 {"cat", mr_str("call")},
                                 {"id", mr_int(id)},
                                 {"ts", mr_int(at_us + trace->offset_us)},
                                 {"pid", mr_int(slice->pid)},
                                 {"tid", mr_int(slice->track)},
                                 {"bp", mr_str("e")}};
    put(trace, report_map(&trace->report, pairs, first ? 7 : 8));
}

static void put_arrows(trace *trace) {
    int64_t id = 0;
    inspect_slices_sort(&trace->slices);
    for (size_t i = 0; i < trace->slices.count; i++) {
        const inspect_slice *body = &trace->slices.all[i];
        const inspect_slice *from = body->submits ? NULL : inspect_source_of(&trace->slices, body);
        if (from == NULL) continue;
        int64_t sent_us = from->submits ? from->begun_us : body->begun_us;
        put_end_of_arrow(trace, true, ++id, from, sent_us);
        put_end_of_arrow(trace, false, id, body, body->begun_us > sent_us ? body->begun_us : sent_us);
    }
    inspect_slices_fini(&trace->slices);
}

static void put_rings(trace *trace, const mr_value *answer) {
    mr_value rings = inspect_field(answer, "rings"), ring;
    trace->now_us = inspect_int(answer, "now_us");
    trace->offset_us = inspect_int(answer, "wall_us") - trace->now_us;
    fputs("{\"format\":1,\"displayTimeUnit\":\"ms\",\"traceEvents\":[", trace->file);
    for (mr_iter iter = mr_value_iter(&rings); mr_iter_next(&iter, &ring);) put_ring(trace, &ring);
    put_arrows(trace);
    fputs("\n]}\n", trace->file);
}

mr_status mr_inspect_trace(mr_inspect *inspect, size_t limit, mr_trace *out) {
    mr_value answer;
    char *text = NULL;
    size_t size = 0;
    if (out == NULL) return error_set(MR_INVALID, "mr_inspect_trace: `out` is NULL");
    MR_TRY(mr_inspect_ask(inspect, "timeline", NULL, limit, &answer));
    trace trace = {.file = open_memstream(&text, &size)};
    report_init(&trace.report);
    if (trace.file != NULL) {
        put_rings(&trace, &answer);
        if (fclose(trace.file) != 0 && trace.status == MR_OK) trace.status = MR_NOMEM;
    }
    mr_value_release(&answer);
    if (trace.file == NULL || trace.status != MR_OK) {
        free(text);
        return trace.file != NULL && trace.status != MR_NOMEM
                   ? trace.status
                   : error_set(MR_NOMEM, "no memory for the timeline of %zu calls", trace.calls);
    }
    *out = (mr_trace){.json = text, .size = size, .calls = trace.calls, .workers = trace.workers};
    return MR_OK;
}
