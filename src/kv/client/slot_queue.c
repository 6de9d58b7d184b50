/* slot_queue.c — see slot_queue.h. */
#include "kv/client/slot_queue.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"

void slot_queue_init(slot_queue *queue, uint32_t slot, bool holds) {
    *queue = (struct slot_queue){.slot = slot, .holds = holds};
    list_init(&queue->link);
    list_init(&queue->waiting);
    list_init(&queue->out);
    list_init(&queue->asking);
}

static void push_batch_free(push_batch *batch) {
    if (batch == NULL) return;
    MR_ASSERT(batch->zero_copy == NULL);
    payload_fini(&batch->payload);
    free(batch->tickets);
    free(batch);
}

static void query_batch_free(query_batch *batch) {
    if (batch == NULL) return;
    payload_fini(&batch->payload);
    free(batch->parts);
    free(batch);
}

void slot_queue_fini(slot_queue *queue) {
    MR_ASSERT(slot_queue_count(queue) == 0);
    push_batch_free(queue->spare);
    query_batch_free(queue->spare_batch);
}

/* ---- Pushes. */

static push_batch *open_batch(slot_queue *queue) {
    push_batch *batch = queue->spare;
    queue->spare = NULL;
    if (batch == NULL) batch = xcalloc(1, sizeof *batch);
    batch->number = ++queue->batches;
    batch->name = 0;
    batch->closed = false;
    batch->priority = 0;
    batch->ticket_count = 0;
    list_push_back(&queue->waiting, &batch->link);
    return batch;
}

static push_batch *gathering(const slot_queue *queue) {
    if (list_empty(&queue->waiting)) return NULL;
    push_batch *last = container_of(queue->waiting.prev, push_batch, link);
    return last->closed ? NULL : last;
}

push_batch *slot_queue_gather(slot_queue *queue, size_t bytes) {
    push_batch *batch = gathering(queue);
    if (batch != NULL && !queue->holds && batch->payload.size != 0 && batch->payload.size + bytes > SLOT_QUEUE_BATCH) {
        batch->closed = true;
        batch = NULL;
    }
    return batch != NULL ? batch : open_batch(queue);
}

size_t slot_queue_gathered(const slot_queue *queue) {
    const push_batch *batch = gathering(queue);
    return batch == NULL ? 0 : batch->payload.size;
}

void slot_queue_part(slot_queue *queue, push_batch *batch, uint64_t name, ticket *ticket) {
    xgrow(&batch->tickets, &batch->ticket_room, batch->ticket_count + 1, sizeof *batch->tickets);
    tickets_part(ticket);
    batch->tickets[batch->ticket_count++] = ticket;
    batch->name = queue->last = name;
}

void slot_queue_lend(push_batch *batch, zero_copy *zero_copy) {
    MR_ASSERT(batch->zero_copy == NULL);
    batch->zero_copy = zero_copy;
    batch->closed = true;
}

static bool recall_all(const list *batches, const ticket *ticket) {
    bool all = true;
    list_for_each (item, batches) {
        const push_batch *batch = container_of(item, struct push_batch, link);
        for (uint32_t i = 0; batch->zero_copy != NULL && i < batch->ticket_count; i++)
            if (batch->tickets[i] == ticket) all = zero_copy_recall(batch->zero_copy) && all;
    }
    return all;
}

static void abandon_parts(query_batch *batch, const ticket *ticket) {
    for (uint32_t i = 0; i < batch->part_count; i++)
        if (batch->parts[i].ticket == ticket) scatter_abandon(&batch->parts[i]);
}

bool slot_queue_abandon(slot_queue *queue, const ticket *ticket) {
    bool waiting = recall_all(&queue->waiting, ticket);
    if (queue->asked != NULL) abandon_parts(queue->asked, ticket);
    list_for_each (item, &queue->asking) abandon_parts(container_of(item, query_batch, link), ticket);
    return recall_all(&queue->out, ticket) && waiting;
}

void slot_queue_skip(slot_queue *queue, uint64_t name) {
    MR_ASSERT(name <= queue->there);
    if (name > queue->last) queue->last = name;
}

mr_status slot_queue_write_rest(slot_queue *queue, payload_writer *out) {
    push_batch *batch = gathering(queue);
    payload_room room;
    if (batch != NULL) payload_seal(&batch->payload);
    payload_reader reader = payload_open(batch == NULL ? (span){0} : payload_written(&batch->payload));
    for (payload_section section; payload_next(&reader, &section);)
        if (section.op == PAYLOAD_DEFINE || section.op == PAYLOAD_DROP) MR_TRY(payload_copy(out, &section));
    return payload_add(out, (payload_head){.op = PAYLOAD_SKIP}, 0, &room);
}

void slot_queue_replace(slot_queue *queue, payload_writer *payload) {
    push_batch *batch = gathering(queue);
    if (batch == NULL) batch = open_batch(queue);
    payload_fini(&batch->payload);
    batch->payload = *payload;
    *payload = (payload_writer){0};
}

void slot_queue_close(slot_queue *queue, uint64_t name) {
    push_batch *batch = gathering(queue);
    if (batch == NULL) batch = open_batch(queue);
    batch->name = queue->last = name;
    batch->closed = true;
}

bool slot_queue_owes(const slot_queue *queue, uint64_t name) {
    if (list_empty(&queue->waiting)) return false;
    const push_batch *first = container_of(queue->waiting.next, push_batch, link);
    return first->name != 0 && first->name <= name;
}

push_batch *slot_queue_next(const slot_queue *queue) {
    if (list_empty(&queue->waiting)) return NULL;
    push_batch *first = container_of(queue->waiting.next, push_batch, link);
    bool goes = first->closed || (!queue->holds && queue->under_way == 0);
    return goes && first->name != 0 ? first : NULL;
}

void slot_queue_sent(slot_queue *queue, push_batch *batch) {
    list_remove(&batch->link);
    list_push_back(&queue->out, &batch->link);
    batch->closed = true;
    queue->sent = batch->name;
    queue->under_way++;
}

static void end_batch(slot_queue *queue, tickets *tickets, push_batch *batch, mr_status status) {
    zero_copy_end(batch->zero_copy); /* before the caller gets the memory back */
    batch->zero_copy = NULL;
    for (uint32_t i = 0; i < batch->ticket_count; i++) tickets_end(tickets, batch->tickets[i], status);
    list_remove(&batch->link);
    payload_empty(&batch->payload);
    push_batch_free(queue->spare);
    queue->spare = batch;
}

bool slot_queue_acknowledge(slot_queue *queue, tickets *tickets, uint64_t name, bool counted) {
    list_for_each (item, &queue->out) {
        push_batch *batch = container_of(item, struct push_batch, link);
        if (batch->name != name) continue;
        if (counted && batch->number > queue->known) queue->known = batch->number;
        if (name > queue->there) queue->there = name;
        queue->under_way--;
        end_batch(queue, tickets, batch, counted ? MR_OK : MR_STALE);
        return true;
    }
    return false;
}

/* ---- Pulls. */

typedef struct query_kind { /* queries of different kinds are not gathered into one */
    uint64_t step;
    reader_pull *pull;
    bool follows;
} query_kind;

static query_batch *open_query(slot_queue *queue, query_kind kind) {
    query_batch *batch = queue->spare_batch;
    queue->spare_batch = NULL;
    if (batch == NULL) batch = xcalloc(1, sizeof *batch);
    *batch = (struct query_batch){.step = kind.step,
                                  .pull = kind.pull,
                                  .slot = queue->slot,
                                  .follows = kind.follows,
                                  .payload = batch->payload,
                                  .parts = batch->parts,
                                  .part_room = batch->part_room};
    batch->number = ++queue->queries;
    list_push_back(&queue->asking, &batch->link);
    return batch;
}

static bool is_of(const query_batch *batch, query_kind kind) {
    return batch->step == kind.step && batch->pull == kind.pull && batch->follows == kind.follows;
}

static query_batch *gather_query(slot_queue *queue, query_kind kind, size_t answer) {
    query_batch *batch = list_empty(&queue->asking) ? NULL : container_of(queue->asking.prev, struct query_batch, link);
    if (batch == NULL || !is_of(batch, kind) || (batch->expects != 0 && batch->expects + answer > SLOT_QUEUE_ANSWER))
        batch = open_query(queue, kind);
    batch->expects += answer;
    return batch;
}

query_batch *slot_queue_ask(slot_queue *queue, uint64_t step, uint64_t behind, size_t answer) {
    query_batch *batch = gather_query(queue, (query_kind){.step = step}, answer);
    if (behind > batch->behind) batch->behind = behind;
    return batch;
}

query_batch *slot_queue_read(slot_queue *queue, reader_pull *pull, size_t answer) {
    return gather_query(queue, (query_kind){.step = pull->asked, .pull = pull}, answer);
}

/* The query that asks for more of what this one asked for, in the same version. */
static query_batch *ask_more(slot_queue *queue, const query_batch *batch, size_t answer) {
    return gather_query(queue, (query_kind){batch->step, batch->pull, batch->pull != NULL}, answer);
}

void slot_queue_expect(query_batch *batch, const scatter *part) {
    /* grows from few: lists of up to SLOT_QUEUE_PARTS_KEPT are kept for reuse */
    if (batch->part_count == batch->part_room) {
        batch->part_room = batch->part_room == 0 ? 4 : batch->part_room * 2;
        batch->parts = xrealloc(batch->parts, batch->part_room * sizeof *batch->parts);
    }
    tickets_part(part->ticket);
    batch->parts[batch->part_count++] = *part;
}

query_batch *slot_queue_next_query(const slot_queue *queue) {
    uint64_t reached = queue->holds || queue->sent < queue->there ? queue->there : queue->sent;
    if (queue->asked != NULL) return NULL;
    list_for_each (item, &queue->asking) {
        query_batch *batch = container_of(item, struct query_batch, link);
        if (reached >= batch->behind) return batch; /* in rounds a query may wait for the end of the step */
    }
    return NULL;
}

void slot_queue_asked(slot_queue *queue, query_batch *batch) {
    list_remove(&batch->link);
    queue->asked = batch;
}

/* Ends a query. That of a reader's pull is kept; the memory of others is reused unless it has many parts. */
static void let_go(slot_queue *queue, query_batch *batch) {
    list_remove(&batch->link);
    if (batch->pull != NULL && !batch->follows) {
        list_push_back(&batch->pull->batches, &batch->link);
        return;
    }
    payload_empty(&batch->payload);
    if (batch->part_room > SLOT_QUEUE_PARTS_KEPT || queue->spare_batch != NULL)
        query_batch_free(batch);
    else
        queue->spare_batch = batch;
}

/* Ends a part. After MR_OK the slot has cached the keys that were sent; else that is unknown. */
static void end_part(scatter *part, tickets *tickets, mr_status status) {
    if (part->list != NULL) {
        part->list->known = status == MR_OK;
        key_list_cache_release(part->list);
    }
    tickets_end(tickets, part->ticket, status);
}

static void end_query(slot_queue *queue, query_batch *batch, tickets *tickets, mr_status status) {
    for (uint32_t i = 0; i < batch->part_count; i++) end_part(&batch->parts[i], tickets, status);
    let_go(queue, batch);
}

mr_status slot_queue_ask_block(query_batch *batch, const scatter *part) {
    payload_head head = {.table = part->table,
                         .op = PAYLOAD_GET_BLOCK,
                         .flags = part->map_view != NULL ? PAYLOAD_AFAR : 0,
                         .dtype = part->wire,
                         .count = part->count};
    payload_room room;
    MR_TRY(payload_add(&batch->payload, head, 0, &room));
    *room.place = part->place;
    slot_queue_expect(batch, part);
    return MR_OK;
}

/* Asks for vectors of unknown lengths, in a query of their own. */
static mr_status ask_vectors(slot_queue *queue, const query_batch *asked, const scatter *part, uint32_t from,
                             uint32_t count) {
    query_batch *batch = ask_more(queue, asked, SLOT_QUEUE_ANSWER);
    scatter again = *part;
    payload_room room;
    again.list = NULL;
    again.places += from;
    again.count = count;
    const payload_head head = {.table = part->table, .op = PAYLOAD_GET_VECTORS, .dtype = part->wire, .count = count};
    MR_TRY(payload_add(&batch->payload, head, 0, &room));
    vector_gather_keys(part->vectors, again.places, count, room.keys);
    slot_queue_expect(batch, &again);
    return MR_OK;
}

/* Asks for the rows of a range that follow those of an answer with as many rows as were asked for. */
static mr_status ask_rest(slot_queue *queue, const query_batch *asked, const scatter *part) {
    query_batch *batch = ask_more(queue, asked, SLOT_QUEUE_ANSWER);
    scatter again = *part;
    payload_room room;
    uint64_t range[2];
    size_t rows = gather_rest(part->gather, part->piece, &range[0], &range[1]);
    if (rows < again.count) again.count = (uint32_t)rows;
    const payload_head head = {
        .table = part->table, .op = PAYLOAD_GET_RANGE, .dtype = part->wire, .count = again.count};
    MR_TRY(payload_add(&batch->payload, head, 0, &room));
    memcpy(room.range, range, sizeof range);
    slot_queue_expect(batch, &again);
    return MR_OK;
}

/* Asks again for a block that changed while it was read; the last attempt asks for the values. Vectors that were too
 * large for one answer are asked for in two halves. */
static mr_status look_again(slot_queue *queue, const query_batch *asked, const scatter *part) {
    scatter again = *part;
    uint32_t half = part->count / 2;
    if (part->kind == SCATTER_RANGE) return ask_rest(queue, asked, part);
    if (part->kind == SCATTER_GATHER) {
        MR_TRY(ask_vectors(queue, asked, part, 0, half));
        return ask_vectors(queue, asked, part, half, part->count - half);
    }
    if (++again.tries == SLOT_QUEUE_LOOKS) again.map_view = NULL;
    return slot_queue_ask_block(ask_more(queue, asked, part->bytes), &again);
}

/* Hands each answering section to the receiver of its question; both are in the same order. */
static void scatter_all(slot_queue *queue, query_batch *batch, tickets *tickets, span bytes) {
    payload_reader reader = payload_open(bytes);
    for (uint32_t i = 0; i < batch->part_count; i++) {
        scatter *part = &batch->parts[i];
        payload_section section;
        mr_status status = MR_CORRUPT;
        if (payload_next(&reader, &section)) status = scatter_take(part, &section);
        if (status == MR_BUSY) status = look_again(queue, batch, part);
        end_part(part, tickets, status);
    }
    let_go(queue, batch);
}

static bool is_forgotten(span answer) {
    payload_reader reader = payload_open(answer);
    for (payload_section section; payload_next(&reader, &section);)
        if (section.op == PAYLOAD_NONE && section.count == PAYLOAD_FORGOTTEN) return true;
    return false;
}

static mr_status list_keys(payload_writer *out, const payload_section *section, const key_list_cache_item *item) {
    payload_room room;
    payload_head head = {.table = section->table,
                         .op = section->op,
                         .flags = PAYLOAD_LISTED,
                         .dtype = section->dtype,
                         .count = item->count};
    MR_TRY(payload_add(out, head, 0, &room));
    *room.version = section->version;
    memcpy(room.keys, item->keys, item->count * sizeof *room.keys);
    return MR_OK;
}

/* Rewrites the query with all keys instead of hashes. */
static mr_status spell_out(const query_batch *batch, payload_writer *out) {
    payload_reader reader = payload_open(payload_written(&batch->payload));
    uint32_t part = 0;
    for (payload_section section; payload_next(&reader, &section);) {
        const scatter *asked = payload_asks(&section) ? &batch->parts[part++] : NULL;
        bool named = asked != NULL && (section.flags & PAYLOAD_KNOWN) != 0;
        MR_TRY(named ? list_keys(out, &section, asked->list) : payload_copy(out, &section));
    }
    MR_ASSERT(part == batch->part_count);
    return MR_OK;
}

static mr_status ask_again(slot_queue *queue, query_batch *batch) {
    payload_writer spelled = {0};
    mr_status status = spell_out(batch, &spelled);
    if (status != MR_OK) {
        payload_fini(&spelled);
        return status;
    }
    payload_fini(&batch->payload);
    batch->payload = spelled;
    batch->names = false;
    queue->forgotten++;
    list_push_front(&queue->asking, &batch->link);
    return MR_OK;
}

/* The rest of the pull is asked for in the version of this answer. */
static void note_version(slot_queue *queue, query_batch *batch, uint64_t version) {
    reader_pull_answered(batch->pull, version);
    batch->step = version;
    list_for_each (item, &queue->asking) {
        query_batch *next = container_of(item, query_batch, link);
        if (next->pull == batch->pull) next->step = version;
    }
}

bool slot_queue_answer(slot_queue *queue, tickets *tickets, uint64_t version, span answer) {
    query_batch *batch = queue->asked;
    payload_scratch scratch;
    span aligned;
    if (batch == NULL) return false;
    queue->asked = NULL;
    if (batch->pull != NULL) note_version(queue, batch, version);
    mr_status status = payload_align(answer, &scratch, &aligned);
    bool again = status == MR_OK && batch->names && is_forgotten(aligned);
    if (again) status = ask_again(queue, batch);
    if (status != MR_OK)
        end_query(queue, batch, tickets, status);
    else if (!again)
        scatter_all(queue, batch, tickets, aligned);
    payload_clear(&scratch);
    return true;
}

/* ---- Pulls of readers. */

bool slot_queue_gone(slot_queue *queue, tickets *tickets, uint64_t version) {
    query_batch *batch = queue->asked;
    if (batch == NULL || batch->pull == NULL) return false;
    queue->asked = NULL;
    reader_pull_gone(batch->pull, version);
    end_query(queue, batch, tickets, MR_OK);
    return true;
}

void slot_queue_drop(slot_queue *queue, tickets *tickets, const reader_pull *pull) {
    list_for_each (item, &queue->asking) {
        query_batch *batch = container_of(item, query_batch, link);
        if (batch->pull == pull) end_query(queue, batch, tickets, MR_OK);
    }
}

void slot_queue_release(slot_queue *queue, tickets *tickets, const reader_pull *pull) {
    slot_queue_drop(queue, tickets, pull);
    if (queue->asked != NULL && queue->asked->pull == pull) queue->asked->pull = NULL; /* it has no parts */
}

/* Writes the query anew, without the versions of the caller's values: some of its memory may have other values now. */
static mr_status forget_versions(query_batch *batch) {
    payload_writer out = {0};
    payload_reader reader = payload_open(payload_written(&batch->payload));
    mr_status status = MR_OK;
    for (payload_section section; status == MR_OK && payload_next(&reader, &section);) {
        status = payload_copy(&out, &section);
        if (status == MR_OK && payload_is_query(section.op)) payload_forget_version(&out);
    }
    payload_fini(status == MR_OK ? &batch->payload : &out);
    if (status == MR_OK) batch->payload = out;
    return status;
}

mr_status slot_queue_renew(const reader_pull *pull) {
    list_for_each (item, &pull->batches) {
        query_batch *batch = container_of(item, query_batch, link);
        bool versions = false;
        for (uint32_t i = 0; i < batch->part_count; i++) {
            scatter_renew(&batch->parts[i]);
            versions = versions || batch->parts[i].version != NULL;
        }
        if (versions) MR_TRY(forget_versions(batch));
    }
    return MR_OK;
}

void slot_queue_repeat(slot_queue *queue, query_batch *batch, uint64_t step) {
    MR_ASSERT(batch->pull != NULL && batch->slot == queue->slot);
    list_remove(&batch->link);
    list_push_back(&queue->asking, &batch->link);
    batch->step = step;
    for (uint32_t i = 0; i < batch->part_count; i++) tickets_part(batch->parts[i].ticket);
}

void slot_queue_abandon_kept(const reader_pull *pull) {
    list_for_each (item, &pull->batches) abandon_parts(container_of(item, query_batch, link), pull->ticket);
}

void slot_queue_forget(reader_pull *pull, bool valid) {
    for (list *item; (item = list_pop_front(&pull->batches)) != NULL;) {
        query_batch *batch = container_of(item, query_batch, link);
        for (uint32_t i = 0; !valid && i < batch->part_count; i++)
            if (batch->parts[i].version != NULL) *batch->parts[i].version = 0;
        query_batch_free(batch);
    }
}

/* ---- Acknowledgements and answers. */

void slot_queue_fail(slot_queue *queue, tickets *tickets, mr_status status) {
    if (queue->asked != NULL) end_query(queue, queue->asked, tickets, status);
    queue->asked = NULL;
    while (!list_empty(&queue->out)) end_batch(queue, tickets, container_of(queue->out.next, push_batch, link), status);
    while (!list_empty(&queue->waiting))
        end_batch(queue, tickets, container_of(queue->waiting.next, push_batch, link), status);
    while (!list_empty(&queue->asking))
        end_query(queue, container_of(queue->asking.next, query_batch, link), tickets, status);
    queue->under_way = 0;
    list_remove(&queue->link);
}

static size_t length(const list *head) {
    size_t count = 0;
    for (const list *at = head->next; at != head; at = at->next) count++;
    return count;
}

size_t slot_queue_count(const slot_queue *queue) {
    return length(&queue->waiting) + length(&queue->out) + length(&queue->asking) + (queue->asked != NULL);
}
