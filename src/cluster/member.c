/* member.c — see member.h. `asking`: a request to the coordinator is open. */
#include "cluster/member.h"

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

struct member {
    const env *env;
    coordinator coordinator;
    mail *mail;
    const member_events *events;
    void *context;
    member_options options;
    char address[VIEW_ADDRESS_MAX];

    member_phase phase;
    uint64_t incarnation; /* 0: none */
    view view;
    view proposed; /* what the open compare-and-swap says */
    detector *detector;

    bool asking;
    int64_t next_ask_us, retry_us; /* not before; and how long to wait after the next failure */
    int64_t next_poll_us, next_beat_us;
};

static int64_t now_of(const member *member) { return clock_now_us(member->env->clock); }
static uint64_t id_of(const member *member) { return member->options.id; }

static bool is_me(const member *member, const view_member *who) {
    return who != NULL && (who->incarnation == member->incarnation || MUTATED("no-incarnation-check"));
}

/* ---- Saying. */

stamp member_stamp(const member *member) {
    return (stamp){.view = member->view.number, .id = id_of(member), .incarnation = member->incarnation};
}

static size_t encode(const letter *letter, uint8_t *bytes, size_t room) {
    writer writer = writer_of(bytes, room);
    letter_encode(letter, &writer);
    MR_ASSERT(!writer.failed);
    return writer_size(&writer);
}

/* The newest view in a letter; the caller frees it. */
static span view_letter(const member *member) {
    size_t size = view_size(&member->view);
    uint8_t *value = xmalloc(size), *bytes = xmalloc(LETTER_HEAD_SIZE + size);
    writer writer = writer_of(value, size);
    view_encode(&member->view, &writer);
    letter letter = {.kind = LETTER_VIEW, .stamp = member_stamp(member), .value = span_of(value, size)};
    size = encode(&letter, bytes, LETTER_HEAD_SIZE + size);
    free(value);
    return span_of(bytes, size);
}

static void answer_view(member *member, link_id link) {
    span bytes = view_letter(member);
    mail_answer(member->mail, link, bytes);
    free((void *)(uintptr_t)bytes.data);
}

static size_t heartbeat(const member *member, uint8_t bytes[LETTER_HEAD_SIZE]) {
    letter letter = {.kind = LETTER_HEARTBEAT, .stamp = member_stamp(member)};
    return encode(&letter, bytes, LETTER_HEAD_SIZE);
}

static void send_to_others(member *member, const view *others, span bytes) {
    for (size_t i = 0; i < others->count; i++)
        if (others->members[i].id != id_of(member)) mail_send(member->mail, others->members[i].address, bytes);
}

/* ---- Phases. */

static void set_phase(member *member, member_phase phase) {
    if (member->phase == phase) return;
    member->phase = phase;
    if (member->events->on_phase != NULL) member->events->on_phase(member->context, phase);
}

static void stop_acting(member *member) {
    MR_ASSERT(member->phase != MEMBER_REPLACED);
    detector_forget_all(member->detector);
    member->incarnation = 0;
}

/* Watches who is new, forgets who is gone; whoever stays keeps what was heard of it. */
static void watch_others(member *member, const view *before, int64_t now_us) {
    const view *after = &member->view;
    for (size_t i = 0; i < before->count; i++) {
        const view_member *old = &before->members[i], *same = view_find(after, old->id);
        if (same != NULL && same->incarnation == old->incarnation) continue;
        detector_forget(member->detector, old->id);
        if (same == NULL || strcmp(same->address, old->address) != 0) mail_forget(member->mail, old->address);
    }
    for (size_t i = 0; i < after->count; i++) {
        uint64_t id = after->members[i].id;
        if (id != id_of(member) && !detector_watches(member->detector, id))
            detector_watch(member->detector, id, now_us);
    }
}

/* The detector has not been ticked while nobody was watched: that is no standing still. */
static void begin_watching(member *member, int64_t now_us) {
    detector_forget_all(member->detector);
    (void)detector_tick(member->detector, now_us);
    member->next_beat_us = now_us;
}

static bool is_newer(uint64_t incarnation, uint64_t than) {
    return incarnation > than && coordinator_generation(incarnation) == coordinator_generation(than);
}

/* Where this member stands in the view it has just entered. */
static void find_place(member *member, const view *before, int64_t now_us) {
    const view_member *me = view_find(&member->view, id_of(member));
    if (is_me(member, me)) {
        member->incarnation = me->incarnation;
        if (member->phase != MEMBER_IN) begin_watching(member, now_us);
        watch_others(member, before, now_us);
        set_phase(member, MEMBER_IN);
    } else if (me != NULL && member->incarnation != 0 && is_newer(me->incarnation, member->incarnation)) {
        stop_acting(member);
        set_phase(member, MEMBER_REPLACED);
    } else if (member->phase == MEMBER_IN) {
        stop_acting(member);
        set_phase(member, MEMBER_ENTERING);
    }
}

/* Takes what `fresh` holds if it is newer. */
static void adopt(member *member, view *fresh) {
    if (fresh->number <= member->view.number) return;
    view before = member->view;
    MR_ASSERT(fresh->number > before.number); /* 2 */
    member->view = *fresh;
    *fresh = (view){0};
    member->events->on_view(member->context, &member->view);
    find_place(member, &before, now_of(member));
    view_fini(&before);
    CHECK_INVARIANTS(member->view.count, member_check(member));
}

static void adopt_bytes(member *member, uint64_t number, span bytes) {
    view fresh = {0};
    if (view_decode(bytes, &fresh) != MR_OK) return;
    if (number == 0 || fresh.number == number) adopt(member, &fresh);
    view_fini(&fresh);
}

static void adopt_answer(member *member, const coordinator_answer *answer) {
    view nobody = {.number = answer->version};
    if (answer->value.size != 0)
        adopt_bytes(member, answer->version, answer->value);
    else
        adopt(member, &nobody);
}

/* ---- Asking the coordinator. */

static void ask_again_after_failure(member *member) {
    member->next_ask_us = now_of(member) + rng_between(member->env->rng, member->retry_us / 2, member->retry_us);
    member->retry_us = member->retry_us * 2 < RETRY_MAX_US ? member->retry_us * 2 : RETRY_MAX_US;
}

static void asked_well(member *member) {
    member->next_ask_us = now_of(member);
    member->retry_us = RETRY_MIN_US;
}

/* Another was faster; a little disorder lets the next one be alone. */
static void ask_again_soon(member *member) {
    asked_well(member);
    member->next_ask_us += rng_between(member->env->rng, 0, RETRY_MIN_US);
}

static void on_incarnation_swapped(void *argument, const coordinator_answer *answer) {
    member *member = argument;
    MR_ASSERT(member->asking); /* 1 */
    member->asking = false;
    if (answer->status == MR_OK) {
        asked_well(member);
        if (member->phase != MEMBER_ENTERING) return;
        member->incarnation = answer->version;
        if (member->events->on_incarnation != NULL) member->events->on_incarnation(member->context, answer->version);
    } else if (answer->status == MR_STALE) {
        ask_again_soon(member);
    } else {
        ask_again_after_failure(member);
    }
}

static void on_incarnation_read(void *argument, const coordinator_answer *answer) {
    member *member = argument;
    if (answer->status != MR_OK) {
        member->asking = false;
        ask_again_after_failure(member);
        return;
    }
    coordinator coordinator = member->coordinator;
    coordinator.ops->compare_and_swap(coordinator.self, MEMBER_INCARNATION_KEY, answer->version, (span){0}, 0,
                                      on_incarnation_swapped, member);
}

static void on_view_read(void *argument, const coordinator_answer *answer) {
    member *member = argument;
    MR_ASSERT(member->asking); /* 1 */
    member->asking = false;
    if (answer->status != MR_OK) {
        ask_again_after_failure(member);
        return;
    }
    asked_well(member);
    member->next_poll_us = now_of(member) + member->options.poll_us;
    adopt_answer(member, answer);
}

/* Everybody in it is told. Who is no longer in it learns it from the answer to its next heartbeat. */
static void on_decided(member *member) {
    asked_well(member);
    if (member->proposed.number <= member->view.number) return;
    adopt(member, &member->proposed);
    span bytes = view_letter(member);
    send_to_others(member, &member->view, bytes);
    free((void *)(uintptr_t)bytes.data);
}

/* Unless the answer puts it into a view, an incarnation that was proposed once is not proposed again: it may have been
 * in a view, and left out of the next, without this process ever knowing. */
static void on_view_swapped(void *argument, const coordinator_answer *answer) {
    member *member = argument;
    MR_ASSERT(member->asking); /* 1 */
    member->asking = false;
    if (answer->status == MR_OK && answer->version == member->proposed.number)
        on_decided(member);
    else if (answer->status == MR_STALE) {
        ask_again_soon(member);
        adopt_answer(member, answer);
    } else {
        ask_again_after_failure(member);
    }
    if (member->phase == MEMBER_ENTERING) member->incarnation = 0;
}

static void propose(member *member) {
    size_t size = view_size(&member->proposed);
    uint8_t *bytes = xmalloc(size);
    writer writer = writer_of(bytes, size);
    view_encode(&member->proposed, &writer);
    MR_ASSERT(!writer.failed);
    coordinator coordinator = member->coordinator;
    coordinator.ops->compare_and_swap(coordinator.self, MEMBER_VIEW_KEY, member->view.number, span_of(bytes, size), 0,
                                      on_view_swapped, member);
    free(bytes);
}

/* A full cluster takes nobody in: it goes on asking until there is room. */
static bool draft_entry(member *member) {
    view_copy(&member->proposed, &member->view);
    member->proposed.number++;
    return view_put(&member->proposed, id_of(member), member->incarnation, member->address) == MR_OK;
}

static void draft_removal(member *member) {
    view_copy(&member->proposed, &member->view);
    member->proposed.number++;
    for (size_t i = 0; i < member->view.count; i++) {
        uint64_t id = member->view.members[i].id;
        if (detector_suspects(member->detector, id)) view_remove(&member->proposed, id);
    }
}

static void read_view(member *member) {
    member->coordinator.ops->get(member->coordinator.self, MEMBER_VIEW_KEY, member->view.number, on_view_read, member);
}

static bool wants_removal(const member *member) {
    return member->phase == MEMBER_IN && !MUTATED("no-deadline") && detector_suspect_count(member->detector) > 0;
}

/* What there is to ask now, one thing at a time. Before anything is proposed, the newest view has been read. */
static void ask(member *member, int64_t now_us) {
    coordinator coordinator = member->coordinator;
    member->asking = true;
    if (now_us >= member->next_poll_us) {
        read_view(member);
    } else if (member->phase == MEMBER_ENTERING && member->incarnation == 0) {
        coordinator.ops->get(coordinator.self, MEMBER_INCARNATION_KEY, 0, on_incarnation_read, member);
    } else if (member->phase == MEMBER_ENTERING && draft_entry(member)) {
        propose(member);
    } else if (wants_removal(member)) {
        draft_removal(member);
        propose(member);
    } else {
        member->asking = false;
        if (member->phase == MEMBER_ENTERING) member->next_ask_us = member->next_poll_us;
    }
}

/* ---- Hearing. */

static bool holds(const member *member, const stamp *stamp) {
    const view_member *who = view_find(&member->view, stamp->id);
    return who != NULL && (who->incarnation == stamp->incarnation || MUTATED("no-incarnation-check"));
}

static void take_heartbeat(member *member, link_id link, const stamp *stamp) {
    if (member->phase != MEMBER_IN) return;
    if (holds(member, stamp)) detector_heard(member->detector, stamp->id, now_of(member));
    if (stamp->view < member->view.number) {
        answer_view(member, link);
    } else if (stamp->view > member->view.number) { /* our number asks for the newer view */
        uint8_t bytes[LETTER_HEAD_SIZE];
        mail_answer(member->mail, link, span_of(bytes, heartbeat(member, bytes)));
    }
}

bool member_take(member *member, link_id link, const letter *letter) {
    switch (letter->kind) {
    case LETTER_HEARTBEAT: take_heartbeat(member, link, &letter->stamp); return true;
    case LETTER_VIEW:
        if (member->phase == MEMBER_REPLACED) return true;
        adopt_bytes(member, 0, letter->value);
        if (holds(member, &letter->stamp)) detector_heard(member->detector, letter->stamp.id, now_of(member));
        return true;
    default: return false;
    }
}

mr_status member_admit(member *member, link_id link, const stamp *stamp) {
    uint64_t here = member->view.number, there = stamp->view;
    if (member->phase != MEMBER_IN)
        return error_set(MR_CLOSED, "not a member since view " COORDINATOR_FORMAT, COORDINATOR_ARGS(here));
    if (MUTATED("no-fencing")) return MR_OK;
    if (there > here) {
        uint8_t bytes[LETTER_HEAD_SIZE];
        mail_answer(member->mail, link, span_of(bytes, heartbeat(member, bytes)));
        return error_set(MR_BUSY,
                         "a message of view " COORDINATOR_FORMAT " came to a process still in view " COORDINATOR_FORMAT,
                         COORDINATOR_ARGS(there), COORDINATOR_ARGS(here));
    }
    if (there == here && holds(member, stamp)) return MR_OK;
    answer_view(member, link);
    return error_set(MR_STALE,
                     "a message of view " COORDINATOR_FORMAT " came from %llu/" COORDINATOR_FORMAT
                     ", which is not in view " COORDINATOR_FORMAT,
                     COORDINATOR_ARGS(there), (unsigned long long)stamp->id, COORDINATOR_ARGS(stamp->incarnation),
                     COORDINATOR_ARGS(here));
}

void member_broken(member *member, const char *address) {
    for (size_t i = 0; i < member->view.count; i++) {
        const view_member *who = &member->view.members[i];
        if (strcmp(who->address, address) == 0) detector_hint(member->detector, who->id, now_of(member));
    }
}

/* ---- Time. */

int64_t member_next_us(const member *member) {
    if (member->phase == MEMBER_REPLACED) return CLOCK_NEVER_US;
    if (member->asking) return member->phase == MEMBER_IN ? member->next_beat_us : CLOCK_NEVER_US;
    if (member->phase == MEMBER_ENTERING) return member->next_ask_us;
    int64_t ask_us = member->next_ask_us;
    if (!wants_removal(member) && ask_us < member->next_poll_us) ask_us = member->next_poll_us;
    return ask_us < member->next_beat_us ? ask_us : member->next_beat_us;
}

/* A member that stood still asks what has been decided meanwhile before it proposes anything. */
static void beat(member *member, int64_t now_us) {
    member->next_beat_us = now_us + member->options.heartbeat_us;
    if (detector_tick(member->detector, now_us) > 0) member->next_poll_us = now_us;
    uint8_t bytes[LETTER_HEAD_SIZE];
    send_to_others(member, &member->view, span_of(bytes, heartbeat(member, bytes)));
}

void member_tick(member *member, int64_t now_us) {
    if (member->phase == MEMBER_IN && now_us >= member->next_beat_us) beat(member, now_us);
    if (!member->asking && now_us >= member->next_ask_us && member->phase != MEMBER_REPLACED) ask(member, now_us);
    CHECK_INVARIANTS(member->view.count, member_check(member));
}

/* ---- Life. */

member *member_create(const env *env, coordinator coordinator, mail *mail, const member_options *options,
                      const member_events *events, void *context) {
    MR_ASSERT(view_address_valid(options->address));
    member *member = xcalloc(1, sizeof *member);
    member->env = env;
    member->coordinator = coordinator;
    member->mail = mail;
    member->events = events;
    member->context = context;
    member->options = *options;
    strcpy(member->address, options->address);
    if (member->options.heartbeat_us == 0) member->options.heartbeat_us = 100000;
    if (member->options.suspect_us == 0) member->options.suspect_us = 500000;
    if (member->options.poll_us == 0) member->options.poll_us = 1000000;
    int64_t now_us = clock_now_us(env->clock);
    detector_options watching = {.interval_us = member->options.heartbeat_us, .suspect_us = member->options.suspect_us};
    member->detector = detector_create(&watching, now_us);
    member->retry_us = RETRY_MIN_US;
    member->next_ask_us = member->next_poll_us = member->next_beat_us = now_us;
    return member;
}

void member_destroy(member *member) {
    detector_destroy(member->detector);
    view_fini(&member->view);
    view_fini(&member->proposed);
    free(member);
}

member_phase member_phase_now(const member *member) { return member->phase; }
const view *member_view(const member *member) { return &member->view; }
uint64_t member_incarnation(const member *member) { return member->incarnation; }

bool member_leads(const member *member) {
    const view_member *leader = view_leader(&member->view);
    return member->phase == MEMBER_IN && leader != NULL && leader->id == id_of(member);
}

void member_check(const member *member) {
    const view *view = &member->view;
    view_check(view); /* 2 */
    bool is_in = member->phase == MEMBER_IN;
    MR_ASSERT(!is_in || (member->incarnation != 0 && view_holds(view, id_of(member), member->incarnation))); /* 3 */
    for (size_t i = 0; i < view->count; i++) {
        uint64_t id = view->members[i].id;
        MR_ASSERT(detector_watches(member->detector, id) == (is_in && id != id_of(member))); /* 3, 4 */
    }
    MR_ASSERT(member->phase != MEMBER_REPLACED || member->incarnation == 0); /* 4 */
}
