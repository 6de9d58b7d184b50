/* metrics.h — registry of named counters, gauges and histograms.
 *
 *     MR_TRY(metrics_counter(metrics, "net_frames_sent_total", "frames given to the system", &sent));
 *     counter_add(sent, 1);                                   // one relaxed atomic addition
 *
 * A module requests its instruments once and keeps the pointers, which are valid as long as the registry. A second
 * request for a name returns the same instrument. A registry belongs to a node, not to the process: two nodes in one
 * process count separately.
 *
 * Names     a-z, 0-9 and _, beginning with a letter, the unit last (send_wait_us, arena_used_bytes). A counter's ends
 *           in _total; nothing ends in _bucket, _sum or _count, which Prometheus derives.
 * Threads   Counting and snapshots: any thread, at any time. Requesting instruments: one thread at a time. */
#pragma once
#include <stdatomic.h>
#include <stdint.h>

#include "base/bytes.h"
#include "base/histogram.h"
#include "miniray/status.h"

enum { METRICS_MAX = 4096, METRICS_NAME_MAX = 63, METRICS_HELP_MAX = 200 };

typedef struct counter { /* only grows */
    _Atomic uint64_t value;
} counter;

static inline void counter_add(counter *counter, uint64_t by) {
    atomic_fetch_add_explicit(&counter->value, by, memory_order_relaxed);
}
static inline uint64_t counter_value(const counter *counter) {
    return atomic_load_explicit(&counter->value, memory_order_relaxed);
}

typedef struct gauge { /* goes up and down */
    _Atomic int64_t value;
} gauge;

static inline void gauge_set(gauge *gauge, int64_t value) {
    atomic_store_explicit(&gauge->value, value, memory_order_relaxed);
}
static inline void gauge_add(gauge *gauge, int64_t by) {
    atomic_fetch_add_explicit(&gauge->value, by, memory_order_relaxed);
}
static inline int64_t gauge_value(const gauge *gauge) {
    return atomic_load_explicit(&gauge->value, memory_order_relaxed);
}

typedef struct metrics metrics;

MR_MUST mr_status metrics_create(metrics **out);
void metrics_destroy(metrics *metrics); /* and every instrument; NULL is ignored */

/* The instrument is borrowed for the registry's life. `help` is one line, copied. MR_INVALID: invalid name or help;
 * MR_EXISTS: the name belongs to another kind; MR_TOO_LARGE: the registry has METRICS_MAX instruments; MR_NOMEM. */
MR_MUST mr_status metrics_counter(metrics *metrics, const char *name, const char *help, counter **out);
MR_MUST mr_status metrics_gauge(metrics *metrics, const char *name, const char *help, gauge **out);
MR_MUST mr_status metrics_histogram(metrics *metrics, const char *name, const char *help, histogram **out);

/* Append a snapshot, in the order of registration. MR_TOO_LARGE, MR_NOMEM: the buffer holds an incomplete text.
 * Prometheus names begin with miniray_; a histogram has a bucket for each power of two up to its largest record.
 * JSON is {"name":{"kind":"counter","help":"…","value":3},…}; a histogram has count, sum, min, p50, p90, p99, p999,
 * max instead of a value. */
MR_MUST mr_status metrics_prometheus(const metrics *metrics, buffer *out);
MR_MUST mr_status metrics_json(const metrics *metrics, buffer *out);
