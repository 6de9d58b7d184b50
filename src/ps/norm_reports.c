/* norm_reports.c — see norm_reports.h. */
#include "ps/norm_reports.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"

void norm_reports_clear(norm_reports *reports) {
    for (uint32_t i = 0; i < reports->slot_count; i++) shared_bytes_unref(reports->reports[i].bytes);
    free(reports->reports);
    *reports = (struct norm_reports){0};
}

static void begin(norm_reports *reports, uint64_t round, uint32_t phase) {
    MR_ASSERT(phase < STATE_MACHINE_PHASES_MAX);
    for (uint32_t i = 0; i < reports->slot_count; i++) {
        norm_reports_report *report = &reports->reports[i], fresh = {0};
        bool had = report->there && shared_bytes_bytes(report->bytes).size != 0;
        memcpy(fresh.spoke, report->spoke, sizeof fresh.spoke);
        if (reports->open) fresh.spoke[reports->phase] = had;
        fresh.speaks = fresh.spoke[phase] && (phase == 0 || had);
        shared_bytes_unref(report->bytes);
        *report = fresh;
    }
    reports->open = true;
    reports->round = round;
    reports->phase = phase;
    reports->count = 0;
}

bool norm_reports_take(norm_reports *reports, uint32_t slot_count, uint64_t round, uint32_t phase, uint32_t slot,
                       const rank_set *set, span part) {
    if (reports->reports == NULL) {
        reports->reports = xcalloc(slot_count, sizeof *reports->reports);
        reports->slot_count = slot_count;
    }
    MR_ASSERT(slot < reports->slot_count && reports->slot_count == slot_count);
    bool later = !reports->open || round > reports->round || (round == reports->round && phase > reports->phase);
    if (later) begin(reports, round, phase);
    if (round != reports->round || phase != reports->phase) return false;
    norm_reports_report *report = &reports->reports[slot];
    if (!report->there) report->order = reports->count++;
    MR_ASSERT(reports->count <= reports->slot_count && part.size <= STATE_MACHINE_NORMS_MAX);
    shared_bytes_unref(report->bytes);
    report->there = true;
    report->set = *set;
    report->bytes = shared_bytes_copy(part);
    return later;
}

bool norm_reports_ask(norm_reports *reports, uint32_t slot, bool all) {
    if (!reports->open || slot >= reports->slot_count) return false;
    norm_reports_report *report = &reports->reports[slot];
    if (report->there || (report->speaks && !all)) return false;
    report->asked = true;
    return true;
}

bool norm_reports_are_whole(const norm_reports *reports, const rank_set *set) {
    bool any = false;
    for (uint32_t i = 0; i < reports->slot_count; i++) {
        const norm_reports_report *report = &reports->reports[i];
        if (!report->there || (set != NULL && !rank_set_same(&report->set, set))) return false;
        any = any || shared_bytes_bytes(report->bytes).size != 0;
    }
    return reports->open && any;
}

span norm_reports_part(const norm_reports *reports, uint32_t slot) {
    MR_ASSERT(slot < reports->slot_count);
    const norm_reports_report *report = &reports->reports[slot];
    return report->there ? shared_bytes_bytes(report->bytes) : (span){0};
}
