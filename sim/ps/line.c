/* line.c — see line.h. */
#include "sim/ps/line.h"

void ps_line_reset(ps_line *line) { *line = (ps_line){.flushes = line->flushes}; }

void ps_line_push(ps_line *line, uint32_t slot, uint64_t name) {
    if (line->slots[slot].asked == line->slots[slot].went) line->slots[slot].since = line->flushes;
    line->slots[slot].asked = name;
}

void ps_line_pushed(ps_line *line, uint32_t slot, uint64_t name) {
    if (name > line->slots[slot].went) line->slots[slot].went = name;
}

void ps_line_prefer(ps_line *line, uint32_t slot, uint8_t priority) {
    if (priority == line->slots[slot].priority) return;
    line->slots[slot].priority = priority;
    line->slots[slot].since = line->flushes;
}

void ps_line_flushed(ps_line *line) { line->flushes++; }

static bool is_sure(const ps_line *line, uint32_t slot) { return line->slots[slot].since < line->flushes; }

static bool same_head(const chart *chart, uint32_t a, uint32_t b) {
    const chart_slot *one = &chart->slots[a], *other = &chart->slots[b];
    return one->count != 0 && other->count != 0 && one->chain[0].server == other->chain[0].server &&
           one->chain[0].incarnation == other->chain[0].incarnation;
}

/* The ledger is the last, whatever its priority. */
static void check(const ps_line *line, sim *sim, const chart *chart, uint32_t slot) {
    uint64_t patience = (uint64_t)RANK_PATIENCE * chart->slot_count;
    if (!is_sure(line, slot) || line->slots[slot].passed >= patience) return;
    for (uint32_t i = 0; i < chart->slot_count; i++) {
        bool waits = i != chart_ledger(chart) && line->slots[i].went < line->slots[i].asked;
        if (!waits || !is_sure(line, i) || !same_head(chart, slot, i)) continue;
        sim_count(sim, "turns", 1);
        if (line->slots[i].priority > line->slots[slot].priority)
            sim_violation(sim, "a push to slot %u, of priority %d, goes before one to slot %u, of priority %d", slot,
                          line->slots[slot].priority, i, line->slots[i].priority);
    }
}

void ps_line_sent(ps_line *line, sim *sim, const chart *chart, span batch) {
    reader reader = reader_of(batch.data, batch.size);
    part_head head;
    part part;
    uint32_t count;
    if (chart->number != line->chart)
        for (uint32_t i = 0; i < PS_SLOTS_MAX; i++) line->slots[i].since = line->flushes;
    line->chart = chart->number;
    if (part_read_head(&reader, &head, &count) != MR_OK) return;
    for (uint32_t i = 0; i < count && part_read(&reader, &part) == MR_OK; i++) {
        if (part.kind != PART_PUSH || (part.entry & PART_PUSH_ASK) != 0) continue;
        check(line, sim, chart, part.slot);
        for (uint32_t k = 0; k < chart->slot_count; k++) line->slots[k].passed++;
        line->slots[part.slot].passed = 0;
        if (part.name > line->slots[part.slot].went) line->slots[part.slot].went = part.name;
    }
}
