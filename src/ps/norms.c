/* norms.c — see norms.h. */
#include "ps/norms.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"

void norms_clear(norms *norms) {
    for (uint32_t i = 0; i < norms->slot_count; i++) bale_unref(norms->reports[i].bale);
    free(norms->reports);
    *norms = (struct norms){0};
}

static void begin(norms *norms, uint64_t round, uint32_t phase) {
    MR_ASSERT(phase < VALUES_PHASES_MAX);
    for (uint32_t i = 0; i < norms->slot_count; i++) {
        norms_report *report = &norms->reports[i], fresh = {0};
        bool had = report->there && bale_bytes(report->bale).size != 0;
        memcpy(fresh.spoke, report->spoke, sizeof fresh.spoke);
        if (norms->open) fresh.spoke[norms->phase] = had;
        fresh.speaks = fresh.spoke[phase] && (phase == 0 || had);
        bale_unref(report->bale);
        *report = fresh;
    }
    norms->open = true;
    norms->round = round;
    norms->phase = phase;
    norms->count = 0;
}

bool norms_take(norms *norms, uint32_t slot_count, uint64_t round, uint32_t phase, uint32_t slot, const crowd *set,
                span part) {
    if (norms->reports == NULL) {
        norms->reports = xcalloc(slot_count, sizeof *norms->reports);
        norms->slot_count = slot_count;
    }
    MR_ASSERT(slot < norms->slot_count && norms->slot_count == slot_count);
    bool later = !norms->open || round > norms->round || (round == norms->round && phase > norms->phase);
    if (later) begin(norms, round, phase);
    if (round != norms->round || phase != norms->phase) return false;
    norms_report *report = &norms->reports[slot];
    if (!report->there) report->order = norms->count++;
    MR_ASSERT(norms->count <= norms->slot_count && part.size <= VALUES_NORMS_MAX);
    bale_unref(report->bale);
    report->there = true;
    report->set = *set;
    report->bale = bale_copy(part);
    return later;
}

bool norms_ask(norms *norms, uint32_t slot, bool all) {
    if (!norms->open || slot >= norms->slot_count) return false;
    norms_report *report = &norms->reports[slot];
    if (report->there || (report->speaks && !all)) return false;
    report->asked = true;
    return true;
}

bool norms_are_whole(const norms *norms, const crowd *set) {
    bool any = false;
    for (uint32_t i = 0; i < norms->slot_count; i++) {
        const norms_report *report = &norms->reports[i];
        if (!report->there || (set != NULL && !crowd_same(&report->set, set))) return false;
        any = any || bale_bytes(report->bale).size != 0;
    }
    return norms->open && any;
}

span norms_part(const norms *norms, uint32_t slot) {
    MR_ASSERT(slot < norms->slot_count);
    const norms_report *report = &norms->reports[slot];
    return report->there ? bale_bytes(report->bale) : (span){0};
}
