/* membership.c — see membership.h. `asking`: a request to the metadata store is pending. */
#include "cluster/membership.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/error.h"
#include "base/invariants.h"
#include "base/mutation.h"
#include "cluster/detector.h"

#define RETRY_MIN_US INT64_C(20000)
#define RETRY_MAX_US INT64_C(500000)

struct membership {
    const env *env;
    metadata_store store;
    messenger *messenger;
    const membership_events *events;
    void *context;
    membership_options options;
    char address[MEMBERSHIP_VIEW_ADDRESS_MAX];

    membership_phase phase;
    uint64_t incarnation; /* 0: none */
    membership_view view;
    membership_view proposed; /* value of the pending compare-and-swap */
    detector *detector;

    bool asking;
    int64_t next_ask_us, retry_us; /* time of the next request; delay after the next failure */
    int64_t next_poll_us, next_beat_us;
};

static int64_t now_of(const membership *membership) { return clock_now_us(membership->env->clock); }
static uint64_t id_of(const membership *membership) { return membership->options.id; }

static bool has_incarnation(const membership_view_member *who, uint64_t incarnation) {
    return who != NULL && (who->incarnation == incarnation || MUTATED("no-incarnation-check"));
}

/* ---- Sending. */

stamp membership_stamp(const membership *membership) {
    return (stamp){.view = membership->view.number, .id = id_of(membership), .incarnation = membership->incarnation};
}

/* Encodes a control message of this member; released by free_message. */
static span write_message(const membership *membership, uint8_t kind, span value) {
    size_t size;
    control_message message = {.kind = kind, .stamp = membership_stamp(membership), .value = value};
    uint8_t *bytes = control_message_write(&message, &size);
    return span_of(bytes, size);
}

/* Encodes the newest view; released by free_message. */
static span write_view(const membership *membership) {
    size_t size;
    uint8_t *value = membership_view_write(&membership->view, &size);
    span bytes = write_message(membership, CONTROL_MESSAGE_VIEW, span_of(value, size));
    free(value);
    return bytes;
}

static span write_heartbeat(const membership *membership) {
    return write_message(membership, CONTROL_MESSAGE_HEARTBEAT, (span){0});
}

static void free_message(span bytes) { free((void *)(uintptr_t)bytes.data); }

static void answer(membership *membership, link_id link, span bytes) {
    messenger_answer(membership->messenger, link, bytes);
    free_message(bytes);
}

static void send_to_others(membership *membership, span bytes) {
    const membership_view *view = &membership->view;
    for (size_t i = 0; i < view->count; i++)
        if (view->members[i].id != id_of(membership))
            messenger_send(membership->messenger, view->members[i].address, bytes);
    free_message(bytes);
}

/* ---- Phases. */

static void set_phase(membership *membership, membership_phase phase) {
    if (membership->phase == phase) return;
    membership->phase = phase;
    if (membership->events->on_phase != NULL) membership->events->on_phase(membership->context, phase);
}

static void stop_acting(membership *membership) {
    MR_ASSERT(membership->phase != MEMBERSHIP_REPLACED);
    detector_forget_all(membership->detector);
    membership->incarnation = 0;
}

/* Watches new members and stops watching those that left; the others keep their state. */
static void watch_others(membership *membership, const membership_view *before, int64_t now_us) {
    const membership_view *after = &membership->view;
    for (size_t i = 0; i < before->count; i++) {
        const membership_view_member *old = &before->members[i], *same = membership_view_find(after, old->id);
        if (same != NULL && same->incarnation == old->incarnation) continue;
        detector_forget(membership->detector, old->id);
        if (same == NULL || strcmp(same->address, old->address) != 0)
            messenger_forget(membership->messenger, old->address);
    }
    for (size_t i = 0; i < after->count; i++) {
        uint64_t id = after->members[i].id;
        if (id != id_of(membership) && !detector_watches(membership->detector, id))
            detector_watch(membership->detector, id, now_us);
    }
}

/* The detector was not ticked while no member was watched: that gap is not a pause. */
static void begin_watching(membership *membership, int64_t now_us) {
    detector_forget_all(membership->detector);
    (void)detector_tick(membership->detector, now_us);
    membership->next_beat_us = now_us;
}

static bool is_newer(uint64_t incarnation, uint64_t than) {
    return incarnation > than && metadata_store_generation(incarnation) == metadata_store_generation(than);
}

/* Sets the phase of this member in the view that it has just adopted. */
static void find_place(membership *membership, const membership_view *before, int64_t now_us) {
    const membership_view_member *me = membership_view_find(&membership->view, id_of(membership));
    if (has_incarnation(me, membership->incarnation)) {
        membership->incarnation = me->incarnation;
        if (membership->phase != MEMBERSHIP_IN) begin_watching(membership, now_us);
        watch_others(membership, before, now_us);
        set_phase(membership, MEMBERSHIP_IN);
    } else if (me != NULL && membership->incarnation != 0 && is_newer(me->incarnation, membership->incarnation)) {
        stop_acting(membership);
        set_phase(membership, MEMBERSHIP_REPLACED);
    } else if (membership->phase == MEMBERSHIP_IN) {
        stop_acting(membership);
        set_phase(membership, MEMBERSHIP_ENTERING);
    }
}

/* Takes over the content of `fresh` if it is newer. */
static void adopt(membership *membership, membership_view *fresh) {
    if (fresh->number <= membership->view.number) return;
    membership_view before = membership->view;
    MR_ASSERT(fresh->number > before.number); /* 2 */
    membership->view = *fresh;
    *fresh = (membership_view){0};
    membership->events->on_view(membership->context, &membership->view);
    find_place(membership, &before, now_of(membership));
    membership_view_fini(&before);
    CHECK_INVARIANTS(membership->view.count, membership_check(membership));
}

static void adopt_bytes(membership *membership, uint64_t number, span bytes) {
    membership_view fresh = {0};
    if (membership_view_decode(bytes, &fresh) != MR_OK) return;
    if (number == 0 || fresh.number == number) adopt(membership, &fresh);
    membership_view_fini(&fresh);
}

static void adopt_answer(membership *membership, const metadata_store_answer *answer) {
    membership_view nobody = {.number = answer->version};
    if (answer->value.size != 0)
        adopt_bytes(membership, answer->version, answer->value);
    else
        adopt(membership, &nobody);
}

/* ---- Requests to the metadata store. */

static void ask_again_after_failure(membership *membership) {
    membership->next_ask_us =
        now_of(membership) + rng_between(membership->env->rng, membership->retry_us / 2, membership->retry_us);
    membership->retry_us = membership->retry_us * 2 < RETRY_MAX_US ? membership->retry_us * 2 : RETRY_MAX_US;
}

static void asked_well(membership *membership) {
    membership->next_ask_us = now_of(membership);
    membership->retry_us = RETRY_MIN_US;
}

/* Another process was faster; a random delay avoids further collisions. */
static void ask_again_soon(membership *membership) {
    asked_well(membership);
    membership->next_ask_us += rng_between(membership->env->rng, 0, RETRY_MIN_US);
}

static void on_incarnation_swapped(void *argument, const metadata_store_answer *answer) {
    membership *membership = argument;
    MR_ASSERT(membership->asking); /* 1 */
    membership->asking = false;
    if (answer->status == MR_OK) {
        asked_well(membership);
        if (membership->phase != MEMBERSHIP_ENTERING) return;
        membership->incarnation = answer->version;
        if (membership->events->on_incarnation != NULL)
            membership->events->on_incarnation(membership->context, answer->version);
    } else if (answer->status == MR_STALE) {
        ask_again_soon(membership);
    } else {
        ask_again_after_failure(membership);
    }
}

static void on_incarnation_read(void *argument, const metadata_store_answer *answer) {
    membership *membership = argument;
    if (answer->status != MR_OK) {
        membership->asking = false;
        ask_again_after_failure(membership);
        return;
    }
    metadata_store store = membership->store;
    store.ops->compare_and_swap(store.self, MEMBERSHIP_INCARNATION_KEY, answer->version, (span){0}, 0,
                                on_incarnation_swapped, membership);
}

static void on_view_read(void *argument, const metadata_store_answer *answer) {
    membership *membership = argument;
    MR_ASSERT(membership->asking); /* 1 */
    membership->asking = false;
    if (answer->status != MR_OK) {
        ask_again_after_failure(membership);
        return;
    }
    asked_well(membership);
    membership->next_poll_us = now_of(membership) + membership->options.poll_us;
    adopt_answer(membership, answer);
}

/* Sends the decided view to its members. A process that is no longer a member learns that from the answer to its next
 * heartbeat. */
static void on_decided(membership *membership) {
    asked_well(membership);
    if (membership->proposed.number <= membership->view.number) return;
    adopt(membership, &membership->proposed);
    send_to_others(membership, write_view(membership));
}

/* An incarnation that was proposed once is not proposed again unless the answer shows it in a view: it may have been
 * in a view and removed in the next, without this process ever knowing. */
static void on_view_swapped(void *argument, const metadata_store_answer *answer) {
    membership *membership = argument;
    MR_ASSERT(membership->asking); /* 1 */
    membership->asking = false;
    if (answer->status == MR_OK && answer->version == membership->proposed.number)
        on_decided(membership);
    else if (answer->status == MR_STALE) {
        ask_again_soon(membership);
        adopt_answer(membership, answer);
    } else {
        ask_again_after_failure(membership);
    }
    if (membership->phase == MEMBERSHIP_ENTERING) membership->incarnation = 0;
}

static void propose(membership *membership) {
    size_t size;
    uint8_t *bytes = membership_view_write(&membership->proposed, &size);
    metadata_store store = membership->store;
    store.ops->compare_and_swap(store.self, MEMBERSHIP_VIEW_KEY, membership->view.number, span_of(bytes, size), 0,
                                on_view_swapped, membership);
    free(bytes);
}

static void begin_draft(membership *membership) {
    membership_view_copy(&membership->proposed, &membership->view);
    membership->proposed.number++;
}

/* False: the view is full; the process retries until there is room. */
static bool draft_entry(membership *membership) {
    begin_draft(membership);
    return membership_view_put(&membership->proposed, id_of(membership), membership->incarnation,
                               membership->address) == MR_OK;
}

static void draft_removal(membership *membership) {
    begin_draft(membership);
    for (size_t i = 0; i < membership->view.count; i++) {
        uint64_t id = membership->view.members[i].id;
        if (detector_suspects(membership->detector, id)) membership_view_remove(&membership->proposed, id);
    }
}

static bool wants_removal(const membership *membership) {
    return membership->phase == MEMBERSHIP_IN && !MUTATED("no-deadline") &&
           detector_suspect_count(membership->detector) > 0;
}

/* Sends the next request, one at a time. The newest view is read before anything is proposed. */
static void ask(membership *membership, int64_t now_us) {
    metadata_store store = membership->store;
    membership->asking = true;
    if (now_us >= membership->next_poll_us) {
        store.ops->get(store.self, MEMBERSHIP_VIEW_KEY, membership->view.number, on_view_read, membership);
    } else if (membership->phase == MEMBERSHIP_ENTERING && membership->incarnation == 0) {
        store.ops->get(store.self, MEMBERSHIP_INCARNATION_KEY, 0, on_incarnation_read, membership);
    } else if (membership->phase == MEMBERSHIP_ENTERING && draft_entry(membership)) {
        propose(membership);
    } else if (wants_removal(membership)) {
        draft_removal(membership);
        propose(membership);
    } else {
        membership->asking = false;
        if (membership->phase == MEMBERSHIP_ENTERING) membership->next_ask_us = membership->next_poll_us;
    }
}

/* ---- Messages. */

static bool holds(const membership *membership, const stamp *stamp) {
    return has_incarnation(membership_view_find(&membership->view, stamp->id), stamp->incarnation);
}

static void take_heartbeat(membership *membership, link_id link, const stamp *stamp) {
    if (membership->phase != MEMBERSHIP_IN) return;
    if (holds(membership, stamp)) detector_heard(membership->detector, stamp->id, now_of(membership));
    if (stamp->view < membership->view.number)
        answer(membership, link, write_view(membership));
    else if (stamp->view > membership->view.number) /* the answer requests the newer view */
        answer(membership, link, write_heartbeat(membership));
}

bool membership_take(membership *membership, link_id link, const control_message *message) {
    switch (message->kind) {
    case CONTROL_MESSAGE_HEARTBEAT: take_heartbeat(membership, link, &message->stamp); return true;
    case CONTROL_MESSAGE_VIEW:
        if (membership->phase == MEMBERSHIP_REPLACED) return true;
        adopt_bytes(membership, 0, message->value);
        if (holds(membership, &message->stamp))
            detector_heard(membership->detector, message->stamp.id, now_of(membership));
        return true;
    default: return false;
    }
}

mr_status membership_admit(membership *membership, link_id link, const stamp *stamp) {
    uint64_t here = membership->view.number, there = stamp->view;
    if (membership->phase != MEMBERSHIP_IN)
        return error_set(MR_CLOSED, "not a member since view " METADATA_STORE_FORMAT, METADATA_STORE_ARGS(here));
    if (MUTATED("no-fencing")) return MR_OK;
    if (there > here) {
        answer(membership, link, write_heartbeat(membership));
        return error_set(MR_BUSY,
                         "a message of view " METADATA_STORE_FORMAT
                         " came to a process still in view " METADATA_STORE_FORMAT,
                         METADATA_STORE_ARGS(there), METADATA_STORE_ARGS(here));
    }
    if (there == here && holds(membership, stamp)) return MR_OK;
    answer(membership, link, write_view(membership));
    return error_set(MR_STALE,
                     "a message of view " METADATA_STORE_FORMAT " came from %llu/" METADATA_STORE_FORMAT
                     ", which is not in view " METADATA_STORE_FORMAT,
                     METADATA_STORE_ARGS(there), (unsigned long long)stamp->id, METADATA_STORE_ARGS(stamp->incarnation),
                     METADATA_STORE_ARGS(here));
}

void membership_broken(membership *membership, const char *address) {
    for (size_t i = 0; i < membership->view.count; i++) {
        const membership_view_member *who = &membership->view.members[i];
        if (strcmp(who->address, address) == 0) detector_hint(membership->detector, who->id, now_of(membership));
    }
}

/* ---- Time. */

int64_t membership_next_us(const membership *membership) {
    if (membership->phase == MEMBERSHIP_REPLACED) return CLOCK_NEVER_US;
    if (membership->asking) return membership->phase == MEMBERSHIP_IN ? membership->next_beat_us : CLOCK_NEVER_US;
    if (membership->phase == MEMBERSHIP_ENTERING) return membership->next_ask_us;
    int64_t ask_us = membership->next_ask_us;
    if (!wants_removal(membership) && ask_us < membership->next_poll_us) ask_us = membership->next_poll_us;
    return ask_us < membership->next_beat_us ? ask_us : membership->next_beat_us;
}

/* A member that was paused reads the newest view before it proposes anything. */
static void beat(membership *membership, int64_t now_us) {
    membership->next_beat_us = now_us + membership->options.heartbeat_us;
    if (detector_tick(membership->detector, now_us) > 0) membership->next_poll_us = now_us;
    send_to_others(membership, write_heartbeat(membership));
}

void membership_tick(membership *membership, int64_t now_us) {
    if (membership->phase == MEMBERSHIP_IN && now_us >= membership->next_beat_us) beat(membership, now_us);
    if (!membership->asking && now_us >= membership->next_ask_us && membership->phase != MEMBERSHIP_REPLACED)
        ask(membership, now_us);
    CHECK_INVARIANTS(membership->view.count, membership_check(membership));
}

/* ---- Creation and death. */

membership *membership_create(const env *env, metadata_store store, messenger *messenger,
                              const membership_options *options, const membership_events *events, void *context) {
    MR_ASSERT(membership_view_address_valid(options->address));
    membership *membership = XNEW(struct membership, .env = env, .store = store, .messenger = messenger,
                                  .events = events, .context = context, .options = *options);
    strcpy(membership->address, options->address);
    if (membership->options.heartbeat_us == 0) membership->options.heartbeat_us = 100000;
    if (membership->options.suspect_us == 0) membership->options.suspect_us = 500000;
    if (membership->options.poll_us == 0) membership->options.poll_us = 1000000;
    int64_t now_us = clock_now_us(env->clock);
    detector_options watching = {.interval_us = membership->options.heartbeat_us,
                                 .suspect_us = membership->options.suspect_us};
    membership->detector = detector_create(&watching, now_us);
    membership->retry_us = RETRY_MIN_US;
    membership->next_ask_us = membership->next_poll_us = membership->next_beat_us = now_us;
    return membership;
}

void membership_destroy(membership *membership) {
    detector_destroy(membership->detector);
    membership_view_fini(&membership->view);
    membership_view_fini(&membership->proposed);
    free(membership);
}

membership_phase membership_phase_now(const membership *membership) { return membership->phase; }
const membership_view *membership_current(const membership *membership) { return &membership->view; }
uint64_t membership_incarnation(const membership *membership) { return membership->incarnation; }

bool membership_leads(const membership *membership) {
    const membership_view_member *leader = membership_view_leader(&membership->view);
    return membership->phase == MEMBERSHIP_IN && leader != NULL && leader->id == id_of(membership);
}

void membership_check(const membership *membership) {
    const membership_view *view = &membership->view;
    membership_view_check(view); /* 2 */
    bool is_in = membership->phase == MEMBERSHIP_IN;
    MR_ASSERT(!is_in || (membership->incarnation != 0 &&
                         membership_view_holds(view, id_of(membership), membership->incarnation))); /* 3 */
    for (size_t i = 0; i < view->count; i++) {
        uint64_t id = view->members[i].id;
        MR_ASSERT(detector_watches(membership->detector, id) == (is_in && id != id_of(membership))); /* 3, 4 */
    }
    MR_ASSERT(membership->phase != MEMBERSHIP_REPLACED || membership->incarnation == 0); /* 4 */
}
