/* chute.c — see chute.h. */
#include "kv/worker/chute.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"

void chute_init(chute *chute, uint32_t slot, bool holds) {
    *chute = (struct chute){.slot = slot, .holds = holds};
    list_init(&chute->link);
    list_init(&chute->waiting);
    list_init(&chute->out);
    list_init(&chute->asking);
}

static void batch_free(batch *batch) {
    if (batch == NULL) return;
    MR_ASSERT(batch->lease == NULL);
    parcel_fini(&batch->parcel);
    free(batch->tickets);
    free(batch);
}

static void query_free(query *query) {
    if (query == NULL) return;
    parcel_fini(&query->parcel);
    free(query->parts);
    free(query);
}

void chute_fini(chute *chute) {
    MR_ASSERT(chute_count(chute) == 0);
    batch_free(chute->spare);
    query_free(chute->spare_query);
}

/* ---- Pushes. */

static batch *open_batch(chute *chute) {
    batch *batch = chute->spare;
    chute->spare = NULL;
    if (batch == NULL) batch = xcalloc(1, sizeof *batch);
    batch->number = ++chute->batches;
    batch->name = 0;
    batch->closed = false;
    batch->priority = 0;
    batch->ticket_count = 0;
    list_push_back(&chute->waiting, &batch->link);
    return batch;
}

static batch *gathering(const chute *chute) {
    if (list_empty(&chute->waiting)) return NULL;
    batch *last = container_of(chute->waiting.prev, batch, link);
    return last->closed ? NULL : last;
}

batch *chute_gather(chute *chute, size_t bytes) {
    batch *batch = gathering(chute);
    if (batch != NULL && !chute->holds && batch->parcel.size != 0 && batch->parcel.size + bytes > CHUTE_BATCH) {
        batch->closed = true;
        batch = NULL;
    }
    return batch != NULL ? batch : open_batch(chute);
}

size_t chute_gathered(const chute *chute) {
    const batch *batch = gathering(chute);
    return batch == NULL ? 0 : batch->parcel.size;
}

void chute_part(chute *chute, batch *batch, uint64_t name, ticket *ticket) {
    xgrow(&batch->tickets, &batch->ticket_room, batch->ticket_count + 1, sizeof *batch->tickets);
    tickets_part(ticket);
    batch->tickets[batch->ticket_count++] = ticket;
    batch->name = chute->last = name;
}

void chute_lend(batch *batch, lease *lease) {
    MR_ASSERT(batch->lease == NULL);
    batch->lease = lease;
    batch->closed = true;
}

static bool recall_all(const list *batches, const ticket *ticket) {
    bool all = true;
    list_for_each (item, batches) {
        const batch *batch = container_of(item, struct batch, link);
        for (uint32_t i = 0; batch->lease != NULL && i < batch->ticket_count; i++)
            if (batch->tickets[i] == ticket) all = lease_recall(batch->lease) && all;
    }
    return all;
}

static void abandon_parts(query *query, const ticket *ticket) {
    for (uint32_t i = 0; i < query->part_count; i++)
        if (query->parts[i].ticket == ticket) scatter_abandon(&query->parts[i]);
}

bool chute_abandon(chute *chute, const ticket *ticket) {
    bool waiting = recall_all(&chute->waiting, ticket);
    if (chute->asked != NULL) abandon_parts(chute->asked, ticket);
    list_for_each (item, &chute->asking) abandon_parts(container_of(item, query, link), ticket);
    return recall_all(&chute->out, ticket) && waiting;
}

void chute_skip(chute *chute, uint64_t name) {
    MR_ASSERT(name <= chute->there);
    if (name > chute->last) chute->last = name;
}

void chute_close(chute *chute, uint64_t name) {
    batch *batch = gathering(chute);
    if (batch == NULL) batch = open_batch(chute);
    batch->name = chute->last = name;
    batch->closed = true;
}

bool chute_owes(const chute *chute, uint64_t name) {
    if (list_empty(&chute->waiting)) return false;
    const batch *first = container_of(chute->waiting.next, batch, link);
    return first->name != 0 && first->name <= name;
}

batch *chute_next(const chute *chute) {
    if (list_empty(&chute->waiting)) return NULL;
    batch *first = container_of(chute->waiting.next, batch, link);
    bool goes = first->closed || (!chute->holds && chute->under_way == 0);
    return goes && first->name != 0 ? first : NULL;
}

void chute_sent(chute *chute, batch *batch) {
    list_remove(&batch->link);
    list_push_back(&chute->out, &batch->link);
    batch->closed = true;
    chute->sent = batch->name;
    chute->under_way++;
}

static void end_batch(chute *chute, tickets *tickets, batch *batch, mr_status status) {
    lease_end(batch->lease); /* before the caller has its memory back */
    batch->lease = NULL;
    for (uint32_t i = 0; i < batch->ticket_count; i++) tickets_end(tickets, batch->tickets[i], status);
    list_remove(&batch->link);
    parcel_empty(&batch->parcel);
    batch_free(chute->spare);
    chute->spare = batch;
}

bool chute_acknowledge(chute *chute, tickets *tickets, uint64_t name, bool counted) {
    list_for_each (item, &chute->out) {
        batch *batch = container_of(item, struct batch, link);
        if (batch->name != name) continue;
        if (counted && batch->number > chute->known) chute->known = batch->number;
        if (name > chute->there) chute->there = name;
        chute->under_way--;
        end_batch(chute, tickets, batch, counted ? MR_OK : MR_STALE);
        return true;
    }
    return false;
}

/* ---- Pulls. */

static query *open_query(chute *chute, uint64_t step) {
    query *query = chute->spare_query;
    chute->spare_query = NULL;
    if (query == NULL) query = xcalloc(1, sizeof *query);
    *query =
        (struct query){.step = step, .parcel = query->parcel, .parts = query->parts, .part_room = query->part_room};
    query->number = ++chute->queries;
    list_push_back(&chute->asking, &query->link);
    return query;
}

query *chute_ask(chute *chute, uint64_t step, uint64_t behind, size_t answer) {
    query *query = list_empty(&chute->asking) ? NULL : container_of(chute->asking.prev, struct query, link);
    if (query == NULL || query->step != step || (query->expects != 0 && query->expects + answer > CHUTE_ANSWER))
        query = open_query(chute, step);
    query->expects += answer;
    if (behind > query->behind) query->behind = behind;
    return query;
}

void chute_expect(query *query, const scatter *part) {
    if (query->part_count == query->part_room) { /* by few at first: small lists are kept (CHUTE_PARTS_KEPT) */
        query->part_room = query->part_room == 0 ? 4 : query->part_room * 2;
        query->parts = xrealloc(query->parts, query->part_room * sizeof *query->parts);
    }
    tickets_part(part->ticket);
    query->parts[query->part_count++] = *part;
}

query *chute_next_query(const chute *chute) {
    uint64_t reached = chute->holds || chute->sent < chute->there ? chute->there : chute->sent;
    if (chute->asked != NULL) return NULL;
    list_for_each (item, &chute->asking) {
        query *query = container_of(item, struct query, link);
        if (reached >= query->behind) return query; /* in rounds one may wait for the end of the step */
    }
    return NULL;
}

void chute_asked(chute *chute, query *query) {
    list_remove(&query->link);
    chute->asked = query;
}

/* One that asked for many parts is not kept. */
static void let_go(chute *chute, query *query) {
    list_remove(&query->link);
    parcel_empty(&query->parcel);
    if (query->part_room > CHUTE_PARTS_KEPT || chute->spare_query != NULL)
        query_free(query);
    else
        chute->spare_query = query;
}

/* The slot knows its keys by their name from now on, if it was told them; or it is not known whether it does. */
static void end_part(scatter *part, tickets *tickets, mr_status status) {
    if (part->list != NULL) {
        part->list->known = status == MR_OK;
        lists_release(part->list);
    }
    tickets_end(tickets, part->ticket, status);
}

static void end_query(chute *chute, query *query, tickets *tickets, mr_status status) {
    for (uint32_t i = 0; i < query->part_count; i++) end_part(&query->parts[i], tickets, status);
    let_go(chute, query);
}

mr_status chute_ask_block(query *query, const scatter *part) {
    parcel_head head = {.table = part->table,
                        .op = PARCEL_GET_BLOCK,
                        .flags = part->sight != NULL ? PARCEL_AFAR : 0,
                        .count = part->count};
    parcel_room room;
    MR_TRY(parcel_add(&query->parcel, head, 0, &room));
    *room.place = part->place;
    chute_expect(query, part);
    return MR_OK;
}

/* It has changed while it was looked at. Where that happens again and again the server sends it. */
static mr_status look_again(chute *chute, uint64_t step, const scatter *part) {
    scatter again = *part;
    if (++again.tries == CHUTE_LOOKS) again.sight = NULL;
    return chute_ask_block(chute_ask(chute, step, 0, part->bytes), &again);
}

/* One section for each that asked, in their order. */
static void scatter_all(chute *chute, query *query, tickets *tickets, span bytes) {
    parcel_reader reader = parcel_open(bytes);
    for (uint32_t i = 0; i < query->part_count; i++) {
        scatter *part = &query->parts[i];
        parcel_section section;
        mr_status status = MR_CORRUPT;
        if (parcel_next(&reader, &section)) status = scatter_take(part, &section);
        if (status == MR_BUSY) status = look_again(chute, query->step, part);
        end_part(part, tickets, status);
    }
}

static bool is_forgotten(span answer) {
    parcel_reader reader = parcel_open(answer);
    for (parcel_section section; parcel_next(&reader, &section);)
        if (section.op == PARCEL_NONE && section.count == PARCEL_FORGOTTEN) return true;
    return false;
}

static mr_status list_keys(parcel_writer *out, const parcel_section *section, const lists_item *item) {
    parcel_room room;
    parcel_head head = {.table = section->table, .op = section->op, .flags = PARCEL_LISTED, .count = item->count};
    MR_TRY(parcel_add(out, head, 0, &room));
    *room.version = section->version;
    memcpy(room.keys, item->keys, item->count * sizeof *room.keys);
    return MR_OK;
}

/* The query as it is without names. */
static mr_status spell_out(const query *query, parcel_writer *out) {
    parcel_reader reader = parcel_open(parcel_written(&query->parcel));
    uint32_t part = 0;
    for (parcel_section section; parcel_next(&reader, &section);) {
        const scatter *asked = parcel_asks(&section) ? &query->parts[part++] : NULL;
        bool named = asked != NULL && (section.flags & PARCEL_KNOWN) != 0;
        MR_TRY(named ? list_keys(out, &section, asked->list) : parcel_copy(out, &section));
    }
    MR_ASSERT(part == query->part_count);
    return MR_OK;
}

static mr_status ask_again(chute *chute, query *query) {
    parcel_writer spelled = {0};
    mr_status status = spell_out(query, &spelled);
    if (status != MR_OK) {
        parcel_fini(&spelled);
        return status;
    }
    parcel_fini(&query->parcel);
    query->parcel = spelled;
    query->names = false;
    chute->forgotten++;
    list_push_front(&chute->asking, &query->link);
    return MR_OK;
}

bool chute_answer(chute *chute, tickets *tickets, span answer) {
    query *query = chute->asked;
    parcel_tray tray;
    span aligned;
    if (query == NULL) return false;
    chute->asked = NULL;
    mr_status status = parcel_align(answer, &tray, &aligned);
    if (status == MR_OK) {
        bool again = query->names && is_forgotten(aligned);
        if (again)
            status = ask_again(chute, query);
        else
            scatter_all(chute, query, tickets, aligned);
        parcel_clear(&tray);
        if (again && status == MR_OK) return true;
    }
    if (status == MR_OK)
        let_go(chute, query);
    else
        end_query(chute, query, tickets, status);
    return true;
}

/* ---- Their ends. */

void chute_fail(chute *chute, tickets *tickets, mr_status status) {
    if (chute->asked != NULL) end_query(chute, chute->asked, tickets, status);
    chute->asked = NULL;
    while (!list_empty(&chute->out)) end_batch(chute, tickets, container_of(chute->out.next, batch, link), status);
    while (!list_empty(&chute->waiting))
        end_batch(chute, tickets, container_of(chute->waiting.next, batch, link), status);
    while (!list_empty(&chute->asking))
        end_query(chute, container_of(chute->asking.next, query, link), tickets, status);
    chute->under_way = 0;
    list_remove(&chute->link);
}

static size_t length(const list *head) {
    size_t count = 0;
    for (const list *at = head->next; at != head; at = at->next) count++;
    return count;
}

size_t chute_count(const chute *chute) {
    return length(&chute->waiting) + length(&chute->out) + length(&chute->asking) + (chute->asked != NULL);
}
