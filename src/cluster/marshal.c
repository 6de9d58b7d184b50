/* marshal.c — see marshal.h. */
#include "cluster/marshal.h"

#include <stdlib.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/invariants.h"
#include "cluster/attendee.h"
#include "cluster/detector.h"

enum { REQUESTS_MAX = 2 * ROSTER_MEMBERS_MAX };

typedef struct request {
    uint32_t id;
    uint64_t incarnation;
    roster_wish wish;
} request;

struct marshal {
    marshal_options options;
    detector *detector;
    roster roster, next; /* decided; and what it is to become */
    bool changed;        /* next is another than the roster */
    bool asking, looked; /* an answer is owed; the coordinator was asked once */
    uint64_t expected;
    uint64_t birth;       /* that the data is to have at least */
    attendee_word *words; /* owned: what was said meanwhile, the last of each member */
    size_t word_count;
    request *requests; /* owned: claims for the roster that is proposed next */
    size_t request_count, request_room;
    int64_t now_us, next_tick_us, next_poll_us;
};

marshal *marshal_create(const marshal_options *options, int64_t now_us) {
    marshal *marshal = xcalloc(1, sizeof *marshal);
    marshal->options = *options;
    marshal->now_us = marshal->next_tick_us = now_us;
    detector_options detector = {.interval_us = MARSHAL_TICK_US, .suspect_us = MARSHAL_SUSPECT_US};
    marshal->detector = detector_create(&detector, now_us);
    return marshal;
}

void marshal_destroy(marshal *marshal) {
    detector_destroy(marshal->detector);
    roster_fini(&marshal->roster);
    roster_fini(&marshal->next);
    free(marshal->words);
    free(marshal->requests);
    free(marshal);
}

const roster *marshal_roster(const marshal *marshal) { return &marshal->roster; }
int64_t marshal_next_us(const marshal *marshal) { return marshal->next_tick_us; }

void marshal_restart(marshal *marshal, uint64_t birth) {
    if (birth > marshal->birth) marshal->birth = birth;
}

/* ---- What is said. */

static bool is_present(const roster *roster, const roster_member *member) {
    const roster_member *there = roster_find(roster, member->id);
    return there != NULL && there->incarnation == member->incarnation;
}

static void keep(marshal *marshal, const attendee_word *word) {
    size_t at = 0;
    while (at < marshal->word_count && marshal->words[at].member.id != word->member.id) at++;
    if (at == ROSTER_MEMBERS_MAX) return; /* it is said again */
    if (at == marshal->word_count) {
        marshal->words = xrealloc(marshal->words, (at + 1) * sizeof *marshal->words);
        marshal->word_count++;
    }
    marshal->words[at] = *word;
}

static void request_claim(marshal *marshal, const roster_member *member, const roster_wish *wish) {
    if (marshal->request_count == REQUESTS_MAX) return; /* it is said again */
    xgrow(&marshal->requests, &marshal->request_room, marshal->request_count + 1, sizeof *marshal->requests);
    MR_ASSERT(marshal->request_count < marshal->request_room);
    marshal->requests[marshal->request_count++] = (request){member->id, member->incarnation, *wish};
}

/* What is over goes into the roster first, whoever says it: a step that is over gets no piece. */
static bool hear_wishes(marshal *marshal, const attendee_word *word) {
    bool passed = false;
    for (size_t i = 0; i < word->wish_count; i++) {
        passed = roster_pass(&marshal->next, &word->wishes[i]) || passed;
        if (word->wishes[i].count != 0) request_claim(marshal, &word->member, &word->wishes[i]);
    }
    return passed;
}

/* What one says goes into the next roster. */
static void hear(marshal *marshal, const attendee_word *word) {
    roster *next = &marshal->next;
    const roster_member *member = &word->member;
    bool was_in = is_present(next, member);
    if (roster_put(next, member) != MR_OK) return;
    if (!was_in) detector_watch(marshal->detector, member->id, marshal->now_us);
    bool passed = hear_wishes(marshal, word);
    marshal->changed = marshal->changed || !was_in || passed;
}

/* ---- Deciding. */

static void begin_next(marshal *marshal) {
    roster_copy(&marshal->next, &marshal->roster);
    marshal->changed = false;
    for (size_t i = 0; i < marshal->word_count; i++) hear(marshal, &marshal->words[i]);
    marshal->word_count = 0;
}

/* Members that it never heard of begin as if they had just been heard. */
static void adopt(marshal *marshal, const coordinator_answer *answer) {
    marshal->expected = answer->version;
    marshal->next_poll_us = marshal->now_us + MARSHAL_POLL_US;
    if (answer->value.size != 0 && answer->version > marshal->roster.number &&
        roster_decode(answer->value, &marshal->roster) == MR_OK) {
        for (size_t i = 0; i < marshal->roster.member_count; i++)
            if (!detector_watches(marshal->detector, marshal->roster.members[i].id))
                detector_watch(marshal->detector, marshal->roster.members[i].id, marshal->now_us);
        if (marshal->options.on_decided != NULL)
            marshal->options.on_decided(marshal->options.context, &marshal->roster);
    }
    begin_next(marshal);
}

static void on_read(void *argument, const coordinator_answer *answer) {
    marshal *marshal = argument;
    MR_ASSERT(marshal->asking);
    marshal->asking = false;
    if (answer->status != MR_OK) return;
    marshal->looked = true;
    adopt(marshal, answer);
}

static void look(marshal *marshal) {
    coordinator coordinator = marshal->options.coordinator;
    marshal->asking = true;
    coordinator.ops->get(coordinator.self, ROSTER_KEY, 0, on_read, marshal);
}

static span encode(const roster *roster, uint8_t **bytes) { /* *bytes: the caller's */
    size_t size = roster_size(roster);
    *bytes = xmalloc(size);
    writer writer = writer_of(*bytes, size);
    roster_encode(roster, &writer);
    MR_ASSERT(!writer.failed && writer_size(&writer) == size);
    return span_of(*bytes, size);
}

static void on_swapped(void *argument, const coordinator_answer *answer) {
    marshal *marshal = argument;
    MR_ASSERT(marshal->asking);
    marshal->asking = false;
    if (answer->status == MR_OK) {
        uint8_t *bytes;
        adopt(marshal, &(coordinator_answer){MR_OK, answer->version, encode(&marshal->next, &bytes)});
        free(bytes);
    } else if (answer->status == MR_STALE) {
        adopt(marshal, answer);
    } else {
        marshal->looked = false; /* perhaps it was decided */
    }
}

static void propose(marshal *marshal) {
    coordinator coordinator = marshal->options.coordinator;
    MR_ASSERT(!marshal->asking && marshal->looked);
    roster_cut(&marshal->next, marshal->options.sizes, marshal->options.part_count);
    roster_deal(&marshal->next);
    marshal->next.number = marshal->expected + 1;
    marshal->asking = true;
    uint8_t *bytes;
    span value = encode(&marshal->next, &bytes);
    coordinator.ops->compare_and_swap(coordinator.self, ROSTER_KEY, marshal->expected, value, 0, on_swapped, marshal);
    free(bytes);
}

/* ---- Hearing. */

static void send_roster(marshal *marshal, const char *address) {
    uint8_t *bytes;
    letter letter = {.kind = LETTER_ROSTER, .stamp = {.view = marshal->roster.number}};
    letter.value = encode(&marshal->roster, &bytes);
    marshal->options.send(marshal->options.context, address, &letter);
    free(bytes);
}

bool marshal_take(marshal *marshal, const letter *letter, int64_t now_us) {
    if (letter->kind != LETTER_ATTEND) return false;
    attendee_word word;
    marshal->now_us = now_us;
    if (attendee_read(letter, &word) != MR_OK) return true;
    if (is_present(&marshal->roster, &word.member)) detector_heard(marshal->detector, word.member.id, now_us);
    if (marshal->asking || !marshal->looked)
        keep(marshal, &word);
    else
        hear(marshal, &word);
    if (letter->stamp.view < marshal->roster.number) send_roster(marshal, word.member.address);
    CHECK_INVARIANTS(marshal->next.member_count + marshal->next.claims.count, marshal_check(marshal));
    return true;
}

/* ---- Time. */

/* Claims that were said since the last roster, in the order in which they came. */
static void grant(marshal *marshal) {
    for (size_t i = 0; i < marshal->request_count; i++) {
        const request *request = &marshal->requests[i];
        if (roster_claim(&marshal->next, request->id, request->incarnation, &request->wish) == MR_OK)
            marshal->changed = true;
    }
    marshal->request_count = 0;
}

static void take_out_silent(marshal *marshal) {
    for (size_t i = marshal->next.member_count; i-- > 0;) {
        uint32_t id = marshal->next.members[i].id;
        if (!detector_suspects(marshal->detector, id)) continue;
        roster_remove(&marshal->next, id);
        detector_forget(marshal->detector, id);
        marshal->changed = true;
    }
}

void marshal_tick(marshal *marshal, int64_t now_us) {
    marshal->now_us = now_us;
    marshal->next_tick_us = now_us + MARSHAL_TICK_US;
    (void)detector_tick(marshal->detector, now_us);
    if (marshal->asking) return;
    if (marshal->looked) take_out_silent(marshal);
    if (marshal->looked && roster_restart(&marshal->next, marshal->birth)) marshal->changed = true;
    if (marshal->looked) grant(marshal);
    if (marshal->looked && marshal->changed)
        propose(marshal);
    else if (!marshal->looked || now_us >= marshal->next_poll_us)
        look(marshal);
    CHECK_INVARIANTS(marshal->next.member_count + marshal->next.claims.count, marshal_check(marshal));
}

void marshal_check(const marshal *marshal) {
    roster_check(&marshal->next);                                                                   /* 1 */
    roster_check(&marshal->roster);                                                                 /* 1 */
    MR_ASSERT(marshal->word_count <= ROSTER_MEMBERS_MAX && marshal->request_count <= REQUESTS_MAX); /* 2 */
    MR_ASSERT(marshal->request_count <= marshal->request_room);                                     /* 2 */
}
