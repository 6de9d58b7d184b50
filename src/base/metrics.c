/* metrics.c — see metrics.h.
 *
 * The registry is a linked list that only grows: an entry is complete before the pointer to it is published, so a
 * snapshot reads the list without a lock. Instruments are allocated separately and aligned, so that two never share a
 * cache line. */
#include "base/metrics.h"

#include <inttypes.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/json.h"

typedef enum kind { KIND_COUNTER, KIND_GAUGE, KIND_HISTOGRAM } kind;

static const char *const kind_names[] = {"counter", "gauge", "histogram"};
static const size_t kind_sizes[] = {sizeof(counter), sizeof(gauge), sizeof(histogram)};

typedef struct entry {
    struct entry *_Atomic next;
    kind kind;
    char name[METRICS_NAME_MAX + 1];
    char help[METRICS_HELP_MAX + 1];
    void *instrument; /* owned: a counter, gauge or histogram */
} entry;

struct metrics {
    entry *_Atomic first;  /* owned, as all entries after it */
    entry *_Atomic *place; /* pointer where the next entry is linked */
    size_t count;
};

static entry *next_of(entry *const _Atomic *place) { return atomic_load_explicit(place, memory_order_acquire); }

mr_status metrics_create(metrics **out) {
    MR_TRY(alloc_try(sizeof(metrics), out));
    (*out)->place = &(*out)->first;
    return MR_OK;
}

void metrics_destroy(metrics *metrics) {
    if (metrics == NULL) return;
    for (entry *entry = next_of(&metrics->first), *next; entry != NULL; entry = next) {
        next = next_of(&entry->next);
        free(entry->instrument);
        free(entry);
    }
    free(metrics);
}

/* ---- Registration. */

static bool ends_in(const char *name, const char *end) {
    size_t length = strlen(name), end_length = strlen(end);
    return length > end_length && strcmp(name + length - end_length, end) == 0;
}

static const char *fault_of_name(const char *name, kind kind) {
    size_t length = strnlen(name, METRICS_NAME_MAX + 1);
    if (length == 0) return "is empty";
    if (length > METRICS_NAME_MAX) return "is too long";
    if (strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789_") != length || name[0] == '_' ||
        (name[0] >= '0' && name[0] <= '9'))
        return "may contain only a-z, 0-9 and _, and begins with a letter";
    if (ends_in(name, "_bucket") || ends_in(name, "_sum") || ends_in(name, "_count"))
        return "ends in _bucket, _sum or _count, which histograms use";
    if (kind == KIND_COUNTER && !ends_in(name, "_total")) return "belongs to a counter and must end in _total";
    if (kind != KIND_COUNTER && ends_in(name, "_total")) return "ends in _total, which only counters may";
    return NULL;
}

static mr_status check(const char *name, kind kind, const char *help) {
    const char *fault = fault_of_name(name, kind);
    if (fault != NULL) return error_set(MR_INVALID, "metric name '%.80s' %s", name, fault);
    size_t length = strnlen(help, METRICS_HELP_MAX + 1);
    if (length == 0 || length > METRICS_HELP_MAX || strchr(help, '\n') != NULL)
        return error_set(MR_INVALID, "metric '%s' needs one line of help of 1 to %d bytes", name, METRICS_HELP_MAX);
    return MR_OK;
}

static entry *find(const metrics *metrics, const char *name) {
    entry *entry = next_of(&metrics->first);
    while (entry != NULL && strcmp(entry->name, name) != 0) entry = next_of(&entry->next);
    return entry;
}

static mr_status create_entry(const char *name, kind kind, const char *help, entry **out) {
    entry *entry;
    MR_TRY(alloc_try(sizeof *entry, &entry));
    mr_status status = alloc_try_lines(kind_sizes[kind], &entry->instrument);
    if (status != MR_OK) {
        free(entry);
        return status;
    }
    entry->kind = kind;
    memcpy(entry->name, name, strlen(name));
    memcpy(entry->help, help, strlen(help));
    *out = entry;
    return MR_OK;
}

static mr_status instrument_of(metrics *metrics, const char *name, kind kind, const char *help, void **out) {
    MR_TRY(check(name, kind, help));
    entry *entry = find(metrics, name);
    if (entry != NULL && entry->kind != kind)
        return error_set(MR_EXISTS, "metric '%s' exists already as a %s", name, kind_names[entry->kind]);
    if (entry == NULL) {
        if (metrics->count == METRICS_MAX)
            return error_set(MR_TOO_LARGE, "cannot add metric '%s': the limit is %d", name, METRICS_MAX);
        MR_TRY(create_entry(name, kind, help, &entry));
        atomic_store_explicit(metrics->place, entry, memory_order_release);
        metrics->place = &entry->next;
        metrics->count++;
    }
    *out = entry->instrument;
    return MR_OK;
}

/* metrics_counter, metrics_gauge and metrics_histogram. */
#define METRICS_INSTRUMENT(type, kind)                                                           \
    mr_status metrics_##type(metrics *metrics, const char *name, const char *help, type **out) { \
        void *instrument;                                                                        \
        MR_TRY(instrument_of(metrics, name, kind, help, &instrument));                           \
        *out = instrument;                                                                       \
        return MR_OK;                                                                            \
    }

METRICS_INSTRUMENT(counter, KIND_COUNTER)
METRICS_INSTRUMENT(gauge, KIND_GAUGE)
METRICS_INSTRUMENT(histogram, KIND_HISTOGRAM)
#undef METRICS_INSTRUMENT

/* ---- Prometheus text format. */

#define PREFIX "miniray_"

/* All lines are computed from one read of the buckets, so they agree with each other while values are recorded. */
static mr_status prometheus_histogram(const char *name, const histogram *histogram, buffer *out) {
    uint64_t counts[HISTOGRAM_OCTAVES], seen = 0;
    uint64_t sum = histogram_sum(histogram);
    histogram_octaves(histogram, counts);
    int last = HISTOGRAM_OCTAVES - 1;
    while (last > 0 && counts[last] == 0) last--;
    for (int bits = 0; bits <= last; bits++) {
        uint64_t most = bits == 64 ? UINT64_MAX : (UINT64_C(1) << bits) - 1;
        seen += counts[bits];
        MR_TRY(buffer_print(out, PREFIX "%s_bucket{le=\"%" PRIu64 "\"} %" PRIu64 "\n", name, most, seen));
    }
    MR_TRY(buffer_print(out, PREFIX "%s_bucket{le=\"+Inf\"} %" PRIu64 "\n", name, seen));
    MR_TRY(buffer_print(out, PREFIX "%s_sum %" PRIu64 "\n", name, sum));
    return buffer_print(out, PREFIX "%s_count %" PRIu64 "\n", name, seen);
}

static mr_status prometheus_help(const entry *entry, buffer *out) {
    MR_TRY(buffer_print(out, "# HELP " PREFIX "%s ", entry->name));
    for (const char *at = entry->help; *at != '\0'; at++) {
        if (*at == '\\') MR_TRY(buffer_append(out, "\\", 1));
        MR_TRY(buffer_append(out, at, 1));
    }
    return buffer_print(out, "\n# TYPE " PREFIX "%s %s\n", entry->name, kind_names[entry->kind]);
}

static mr_status prometheus_entry(const entry *entry, buffer *out) {
    MR_TRY(prometheus_help(entry, out));
    switch (entry->kind) {
    case KIND_COUNTER:
        return buffer_print(out, PREFIX "%s %" PRIu64 "\n", entry->name, counter_value(entry->instrument));
    case KIND_GAUGE: return buffer_print(out, PREFIX "%s %" PRId64 "\n", entry->name, gauge_value(entry->instrument));
    case KIND_HISTOGRAM: break;
    }
    return prometheus_histogram(entry->name, entry->instrument, out);
}

mr_status metrics_prometheus(const metrics *metrics, buffer *out) {
    for (const entry *entry = next_of(&metrics->first); entry != NULL; entry = next_of(&entry->next))
        MR_TRY(prometheus_entry(entry, out));
    return MR_OK;
}

/* ---- JSON. */

static void json_histogram(json *json, const histogram *histogram) {
    static const struct {
        const char *name;
        double share;
    } quantiles[] = {{"min", 0}, {"p50", 0.5}, {"p90", 0.9}, {"p99", 0.99}, {"p999", 0.999}, {"max", 1}};
    json_key(json, "count");
    json_uint(json, histogram_count(histogram));
    json_key(json, "sum");
    json_uint(json, histogram_sum(histogram));
    for (size_t i = 0; i < sizeof quantiles / sizeof *quantiles; i++) {
        json_key(json, quantiles[i].name);
        json_uint(json, histogram_quantile(histogram, quantiles[i].share));
    }
}

static void json_entry(json *json, const entry *entry) {
    json_key(json, entry->name);
    json_object_begin(json);
    json_key(json, "kind");
    json_string(json, kind_names[entry->kind]);
    json_key(json, "help");
    json_string(json, entry->help);
    if (entry->kind == KIND_HISTOGRAM) {
        json_histogram(json, entry->instrument);
    } else {
        json_key(json, "value");
        if (entry->kind == KIND_COUNTER)
            json_uint(json, counter_value(entry->instrument));
        else
            json_int(json, gauge_value(entry->instrument));
    }
    json_object_end(json);
}

mr_status metrics_json(const metrics *metrics, buffer *out) {
    json json = json_of(out);
    json_object_begin(&json);
    for (const entry *entry = next_of(&metrics->first); entry != NULL; entry = next_of(&entry->next))
        json_entry(&json, entry);
    json_object_end(&json);
    return json_done(&json);
}
