/* replica_serve.c — see replica.h: what a head does for ranks, and what a committed entry does to the state. */
#include <stdlib.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "ps/replica_core.h"

/* ---- Rounds. */

void replica_drop_gifts(replica *replica) {
    for (uint32_t i = 0; replica->gifts != NULL && i < replica->rank_count; i++) {
        bale_unref(replica->gifts[i].bale);
        replica->gifts[i] = (replica_gift){0};
    }
    replica->gift_count = 0;
}

static void keep_version(replica *replica) { replica_write_values(replica, &replica->kept); }

static void end_round(replica *replica, uint64_t name) {
    replica->version = name;
    replica->closing = false;
    for (uint32_t i = 0; replica->gifts != NULL && i < replica->rank_count; i++)
        if (replica->gifts[i].there && replica_is_head(replica))
            replica_reply(replica, i, PART_PUSHED, PART_OK, &(part){.name = name});
    replica_drop_gifts(replica);
}

static int by_arrival(const void *a, const void *b) {
    const replica_gift *x = a, *y = b;
    return (x->order > y->order) - (x->order < y->order);
}

/* All contributions of the round are there: their sum, in the order of ranks, is one entry. */
static void close_round(replica *replica) {
    const values_ops *values = replica->host->values;
    span *payloads = xcalloc(replica->rank_count, sizeof *payloads);
    replica_gift *gifts = xcalloc(replica->rank_count, sizeof *gifts);
    for (uint32_t i = 0; i < replica->rank_count; i++) gifts[i] = replica->gifts[i];
    if (replica->mutations.any_order) qsort(gifts, replica->rank_count, sizeof *gifts, by_arrival);
    for (uint32_t i = 0; i < replica->rank_count; i++) payloads[i] = gifts[i].payload;
    size_t size = values->sum_size(payloads, replica->rank_count);
    uint8_t *sum = xmalloc(size + 1);
    values->sum(payloads, replica->rank_count, sum);
    bale *bale = bale_copy(span_of(sum, size));
    replica_log(replica, &(tape_entry){TAPE_ROUND, replica->version + 1, bale_bytes(bale), bale});
    bale_unref(bale);
    free(sum);
    free(gifts);
    free(payloads);
    replica->level = tape_last(&replica->tape);
    replica_advance(replica);
}

static void take_gift(replica *replica, const part *part, bale *bale) {
    if (part->name <= replica->version) {
        replica_reply(replica, part->rank, PART_PUSHED, PART_OK, part);
        return;
    }
    if (part->name != replica->version + 1 || replica->closing) return; /* it comes again */
    replica_gift *gift = &replica->gifts[part->rank];
    if (gift->there) return;
    *gift = (replica_gift){true, part->payload, bale_ref(bale), replica->gift_count};
    if (++replica->gift_count == replica->rank_count) close_round(replica);
}

/* ---- Entries. */

void replica_apply(replica *replica, const tape_entry *entry) {
    const values_ops *values = replica->host->values;
    if (entry->rank == TAPE_ROUND) {
        if (!replica->mutations.no_kept) keep_version(replica);
        values->apply(replica->values, entry->payload);
        if (replica->mutations.no_kept) keep_version(replica);
        end_round(replica, entry->name);
    } else if (entry->rank < replica->rank_count) {
        if (entry->payload.size != 0) values->apply(replica->values, entry->payload);
        replica->names[entry->rank] = entry->name;
        if (replica_is_head(replica))
            replica_reply(replica, entry->rank, PART_PUSHED, PART_OK, &(part){.name = entry->name});
    }
    if (replica->host->on_applied != NULL) replica->host->on_applied(replica->host->context, replica, entry);
}

void replica_take_push(replica *replica, const part *part, bale *bale) {
    uint32_t rank = part->rank;
    if (replica->consistency.kind == CONSISTENCY_BSP) {
        take_gift(replica, part, bale);
    } else if (part->name <= replica->names[rank] && !replica->mutations.no_clock) {
        replica_reply(replica, rank, PART_PUSHED, PART_OK, part);
    } else if (part->name <= replica->logged[rank] && !replica->mutations.no_clock) {
        if (replica->mutations.log_ack) replica_reply(replica, rank, PART_PUSHED, PART_OK, part);
    } else if (part->prev == replica->logged[rank] || replica->mutations.no_prev || replica->mutations.no_clock) {
        replica_log(replica, &(tape_entry){rank, part->name, part->payload, bale});
        replica->level = tape_last(&replica->tape);
        replica_advance(replica);
    } else {
        replica_reply(replica, rank, PART_PUSHED, PART_RESEND,
                      &(struct part){.name = part->name, .prev = replica->logged[rank]});
    }
}

/* ---- Reading. */

static consistency_verdict judge(const replica *replica, const part *part) {
    consistency_state state = {.names = replica->names,
                               .rank_count = replica->rank_count,
                               .lsn = replica->tape.applied,
                               .version = replica->version};
    consistency_pull pull = {.rank = part->rank, .step = part->name, .name = part->prev, .lsn = part->lsn};
    consistency consistency = replica->consistency;
    if (replica->mutations.no_bound && consistency.kind == CONSISTENCY_SSP) consistency.kind = CONSISTENCY_ASP;
    consistency_verdict verdict = consistency_judge(consistency, &state, &pull);
    if (replica->mutations.any_version && verdict == CONSISTENCY_KEPT) verdict = CONSISTENCY_NOW;
    return verdict;
}

static void show(replica *replica, const part *pull, uint64_t version, span values) {
    replica_reply(replica, pull->rank, PART_PULLED, PART_OK,
                  &(part){.lsn = replica->tape.applied, .name = version, .prev = pull->name, .payload = values});
}

void replica_take_pull(replica *replica, const part *part) {
    buffer values;
    switch (judge(replica, part)) {
    case CONSISTENCY_WAIT: replica_reply(replica, part->rank, PART_PULLED, PART_LATER, NULL); break;
    case CONSISTENCY_NEVER:
        replica_reply(replica, part->rank, PART_PULLED, PART_GONE, &(struct part){.name = replica->version});
        break;
    case CONSISTENCY_KEPT:
        show(replica, part, replica->version - 1, span_of(replica->kept.data, replica->kept.size));
        break;
    case CONSISTENCY_NOW:
        if (part->commit == replica->tape.applied + 1) {
            replica_reply(replica, part->rank, PART_PULLED, PART_SAME,
                          &(struct part){.lsn = replica->tape.applied, .prev = part->name});
            break;
        }
        buffer_init(&values, 1 << 20);
        replica_write_values(replica, &values);
        show(replica, part, replica->version, span_of(values.data, values.size));
        buffer_fini(&values);
        break;
    }
}

void replica_take_hello(replica *replica, const part *part) {
    replica_reply(replica, part->rank, PART_CLOCK, PART_OK,
                  &(struct part){.name = replica->names[part->rank], .lsn = replica->version});
}
