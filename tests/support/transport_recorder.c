/* transport_recorder.c — see transport_recorder.h. */
#include "tests/support/transport_recorder.h"

#include <stdio.h>
#include <string.h>

#include "base/assert.h"

static transport_recorder_link *find(transport_recorder *recorder, link_id link) {
    return link.v >= 1 && link.v <= recorder->opened ? &recorder->links[link.v - 1] : NULL;
}

static mr_status slot_open(void *self, const char *address, link_id *out) {
    transport_recorder *recorder = self;
    if (recorder->refuses) return MR_INVALID;
    MR_ASSERT(recorder->opened < TRANSPORT_RECORDER_LINKS_MAX);
    transport_recorder_link *link = &recorder->links[recorder->opened++];
    snprintf(link->address, sizeof link->address, "%s", address);
    link->state = TRANSPORT_RECORDER_OPENING;
    out->v = recorder->opened;
    return MR_OK;
}

static void slot_close(void *self, link_id id) {
    transport_recorder_link *link = find(self, id);
    if (link != NULL && link->state < TRANSPORT_RECORDER_CLOSING) link->state = TRANSPORT_RECORDER_CLOSING;
}

static mr_status slot_reserve(void *self, link_id id, size_t size, uint8_t **out) {
    transport_recorder *recorder = self;
    transport_recorder_link *link = find(recorder, id);
    if (link == NULL || link->state != TRANSPORT_RECORDER_OPEN) return MR_CLOSED;
    if (recorder->full) return MR_BUSY;
    buffer_clear(&recorder->reserved);
    MR_TRY(buffer_reserve(&recorder->reserved, size + 1));
    *out = recorder->reserved.data;
    return MR_OK;
}

static void slot_commit(void *self, link_id id, size_t size) {
    transport_recorder *recorder = self;
    MR_ASSERT(recorder->sent_count < TRANSPORT_RECORDER_SENT_MAX);
    transport_recorder_sent *sent = &recorder->sent[recorder->sent_count++];
    sent->link = id;
    buffer_init(&sent->bytes, MESSAGE_HEAD_MAX);
    MR_ASSERT(buffer_append(&sent->bytes, recorder->reserved.data, size) == MR_OK);
}

/* Records the pieces after the head of the message. */
static void slot_commit_pieces(void *self, link_id id, size_t size, const span *pieces, size_t count,
                               body_sent_fn *sent, void *argument) {
    transport_recorder *recorder = self;
    slot_commit(self, id, size);
    buffer *bytes = &recorder->sent[recorder->sent_count - 1].bytes;
    for (size_t i = 0; i < count; i++) MR_ASSERT(buffer_append(bytes, pieces[i].data, pieces[i].size) == MR_OK);
    sent(argument, MR_OK);
}

static void slot_commit_body(void *self, link_id id, size_t size, span body, body_sent_fn *sent, void *argument) {
    slot_commit_pieces(self, id, size, &body, 1, sent, argument);
}

static void slot_discard(void *self, link_id id) {}
static void slot_flush(void *self) {}

static const transport_ops ops = {.name = "recorder",
                                  .open = slot_open,
                                  .close = slot_close,
                                  .reserve = slot_reserve,
                                  .commit = slot_commit,
                                  .commit_body = slot_commit_body,
                                  .commit_pieces = slot_commit_pieces,
                                  .discard = slot_discard,
                                  .flush = slot_flush};

void transport_recorder_init(transport_recorder *recorder) {
    memset(recorder, 0, sizeof *recorder);
    recorder->clock.now_us = 1000000;
    rng_init(&recorder->rng, 1);
    buffer_init(&recorder->reserved, MESSAGE_HEAD_MAX + 1);
    recorder->env =
        (env){.clock = clock_virtual(&recorder->clock), .rng = &recorder->rng, .transport = {&ops, recorder}};
}

void transport_recorder_fini(transport_recorder *recorder) {
    for (size_t i = 0; i < recorder->sent_count; i++) buffer_fini(&recorder->sent[i].bytes);
    buffer_fini(&recorder->reserved);
}

void transport_recorder_listen(transport_recorder *recorder, const transport_events *events, void *context) {
    recorder->events = events;
    recorder->context = context;
}

void transport_recorder_open(transport_recorder *recorder, uint32_t id) {
    transport_recorder_link *link = find(recorder, (link_id){id});
    MR_ASSERT(link != NULL && link->state == TRANSPORT_RECORDER_OPENING);
    link->state = TRANSPORT_RECORDER_OPEN;
    peer peer = {.process = id};
    recorder->events->on_open(recorder->context, (link_id){id}, &peer);
}

link_id transport_recorder_dial_in(transport_recorder *recorder) {
    link_id link;
    MR_ASSERT(slot_open(recorder, "", &link) == MR_OK);
    transport_recorder_open(recorder, link.v);
    return link;
}

void transport_recorder_close(transport_recorder *recorder, uint32_t id, mr_status status) {
    transport_recorder_link *link = find(recorder, (link_id){id});
    MR_ASSERT(link != NULL && link->state != TRANSPORT_RECORDER_GONE);
    link->state = TRANSPORT_RECORDER_GONE;
    cause cause;
    cause_set(&cause, status, "the test says so");
    recorder->events->on_closed(recorder->context, (link_id){id}, &cause);
}

void transport_recorder_deliver(transport_recorder *recorder, link_id link, span head) {
    message message = {.head = head};
    recorder->events->on_message(recorder->context, link, &message);
}

bool transport_recorder_take(transport_recorder *recorder, link_id *link, span *bytes) {
    if (recorder->taken == recorder->sent_count) return false;
    const transport_recorder_sent *sent = &recorder->sent[recorder->taken++];
    *link = sent->link;
    *bytes = span_of(sent->bytes.data, sent->bytes.size);
    return true;
}
