/* replica_serve.c — see replica.h: what a head does for ranks, and what a committed entry does to the state. */
#include "ps/replica_core.h"

/* ---- Entries. */

void replica_append(replica *replica, const tape_entry *entry) {
    replica_log(replica, entry);
    replica->level = tape_last(&replica->tape);
    replica_advance(replica);
}

static void show(replica *replica, uint32_t rank, uint64_t request, uint64_t version, span values) {
    replica_reply(replica, rank, PART_PULLED, PART_OK,
                  &(part){.lsn = replica->tape.applied, .commit = request, .name = version, .payload = values});
}

static void show_now(replica *replica, uint32_t rank, uint64_t request) {
    buffer values;
    buffer_init(&values, 1 << 20);
    replica_write_values(replica, &values);
    show(replica, rank, request, replica->version, span_of(values.data, values.size));
    buffer_fini(&values);
}

static void apply_push(replica *replica, const tape_entry *entry) {
    if (entry->rank >= replica->rank_count) return;
    if (entry->payload.size != 0) replica->ops->apply(replica->values, entry->payload);
    replica->names[entry->rank] = entry->name;
    if (replica_is_head(replica))
        replica_reply(replica, entry->rank, PART_PUSHED, PART_OK, &(part){.name = entry->name});
}

void replica_apply(replica *replica, const tape_entry *entry) {
    switch (entry->kind) {
    case TAPE_PUSH: apply_push(replica, entry); break;
    case TAPE_ROUND: replica_end_round(replica, entry); break;
    case TAPE_FREEZE: replica_freeze(replica, entry); break;
    case TAPE_MARK: replica_apply_mark(replica, entry); break;
    case TAPE_FRESH:
        if (replica_is_head(replica)) show_now(replica, entry->rank, entry->name);
        break;
    default: replica_apply_order(replica, entry); break;
    }
    replica->news = true;
    if (replica->host->on_applied != NULL) replica->host->on_applied(replica->host->context, replica, entry);
}

void replica_take_push(replica *replica, const part *part, bale *bale) {
    uint32_t rank = part->rank;
    if (replica->consistency.kind == CONSISTENCY_BSP) {
        replica_take_gift(replica, part, bale);
    } else if (part->name <= replica->names[rank] && !replica->mutations.no_clock) {
        replica_reply(replica, rank, PART_PUSHED, PART_OK, part);
    } else if (part->name <= replica->logged[rank] && !replica->mutations.no_clock) {
        if (replica->mutations.log_ack) replica_reply(replica, rank, PART_PUSHED, PART_OK, part);
    } else if (part->prev == replica->logged[rank] || replica->mutations.no_prev || replica->mutations.no_clock) {
        replica_append(replica, &(tape_entry){TAPE_PUSH, rank, part->name, part->payload, bale});
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
    if (replica->mutations.no_known) pull.name = pull.lsn = 0;
    consistency_verdict verdict = consistency_judge(consistency, &state, &pull);
    if (replica->mutations.any_version && verdict == CONSISTENCY_KEPT) verdict = CONSISTENCY_NOW;
    if (verdict == CONSISTENCY_KEPT && replica->kept.size == 0) verdict = CONSISTENCY_NEVER; /* it was not saved */
    return verdict;
}

bool replica_may_show(const replica *replica) {
    return replica->phase == REPLICA_SERVING ||
           (replica->phase == REPLICA_MEMBER && replica->tape.applied >= replica->inherited);
}

static void ask_chain(replica *replica, const part *part) {
    if (!tape_holds(&replica->tape, TAPE_FRESH, part->rank, part->commit))
        replica_append(replica, &(tape_entry){.kind = TAPE_FRESH, .rank = part->rank, .name = part->commit});
}

void replica_take_pull(replica *replica, const part *part) {
    bool rounds = replica->consistency.kind == CONSISTENCY_BSP; /* versions are exact: fresh is what is named */
    switch (judge(replica, part)) {
    case CONSISTENCY_WAIT:
        replica_reply(replica, part->rank, PART_PULLED, PART_LATER, &(struct part){.commit = part->commit});
        break;
    case CONSISTENCY_NEVER:
        replica_reply(replica, part->rank, PART_PULLED, PART_GONE,
                      &(struct part){.commit = part->commit, .name = replica->version});
        break;
    case CONSISTENCY_KEPT:
        show(replica, part->rank, part->commit, replica->version - 1, span_of(replica->kept.data, replica->kept.size));
        break;
    case CONSISTENCY_NOW:
        if ((part->entry & PART_PULL_FRESH) != 0 && !rounds && !replica->mutations.fresh_local)
            ask_chain(replica, part);
        else if ((part->entry & PART_PULL_NEWER) != 0 && part->lsn == replica->tape.applied)
            replica_reply(replica, part->rank, PART_PULLED, PART_SAME,
                          &(struct part){.lsn = part->lsn, .commit = part->commit});
        else
            show_now(replica, part->rank, part->commit);
        break;
    }
}

/* What an earlier stint has in the log would be taken for the asker's own. */
void replica_take_hello(replica *replica, const part *part) {
    uint64_t name = replica->names[part->rank];
    bool rests = replica->logged[part->rank] == name || replica->mutations.early_clock;
    replica_reply(replica, part->rank, PART_CLOCK, rests ? PART_OK : PART_LATER,
                  &(struct part){.name = name, .lsn = replica->version, .commit = part->commit});
}
