/* group_leader.c — see group_leader.h. */
#include "cluster/group_leader.h"

#include <stdlib.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/invariants.h"
#include "cluster/detector.h"
#include "cluster/group_consumer.h"

enum { REQUESTS_MAX = 2 * CONSUMER_GROUP_MEMBERS_MAX };

typedef struct request {
    uint32_t id;
    uint64_t incarnation;
    consumer_group_wish wish;
} request;

struct group_leader {
    group_leader_options options;
    detector *detector;
    consumer_group group, next; /* the decided consumer group, and the proposal */
    bool changed;               /* `next` differs from `group` */
    bool asking, looked;        /* asking: an answer is pending; looked: the metadata store was read once */
    uint64_t expected;
    uint64_t birth;             /* least birth of the data */
    group_consumer_word *words; /* owned: last message of each member that arrived during a decision */
    size_t word_count;
    request *requests; /* owned: claims for the next proposal */
    size_t request_count, request_room;
    int64_t now_us, next_tick_us, next_poll_us;
};

group_leader *group_leader_create(const group_leader_options *options, int64_t now_us) {
    group_leader *leader = XNEW(group_leader, .options = *options, .now_us = now_us, .next_tick_us = now_us);
    detector_options detector = {.interval_us = GROUP_LEADER_TICK_US, .suspect_us = GROUP_LEADER_SUSPECT_US};
    leader->detector = detector_create(&detector, now_us);
    return leader;
}

void group_leader_destroy(group_leader *leader) {
    detector_destroy(leader->detector);
    consumer_group_fini(&leader->group);
    consumer_group_fini(&leader->next);
    free(leader->words);
    free(leader->requests);
    free(leader);
}

const consumer_group *group_leader_group(const group_leader *leader) { return &leader->group; }
int64_t group_leader_next_us(const group_leader *leader) { return leader->next_tick_us; }

void group_leader_restart(group_leader *leader, uint64_t birth) {
    if (birth > leader->birth) leader->birth = birth;
}

/* ---- Messages of members. */

static bool is_present(const consumer_group *group, const consumer_group_member *member) {
    const consumer_group_member *there = consumer_group_find(group, member->id);
    return there != NULL && there->incarnation == member->incarnation;
}

static void keep(group_leader *leader, const group_consumer_word *word) {
    size_t at = 0;
    while (at < leader->word_count && leader->words[at].member.id != word->member.id) at++;
    if (at == CONSUMER_GROUP_MEMBERS_MAX) return; /* the member repeats the message */
    if (at == leader->word_count) {
        leader->words = xrealloc(leader->words, (at + 1) * sizeof *leader->words);
        leader->word_count++;
    }
    leader->words[at] = *word;
}

static void request_claim(group_leader *leader, const consumer_group_member *member, const consumer_group_wish *wish) {
    if (leader->request_count == REQUESTS_MAX) return; /* the member repeats the message */
    xgrow(&leader->requests, &leader->request_room, leader->request_count + 1, sizeof *leader->requests);
    MR_ASSERT(leader->request_count < leader->request_room);
    leader->requests[leader->request_count++] = (request){member->id, member->incarnation, *wish};
}

/* Adds steps that are over to the proposal before any claims: such steps get no batch. */
static bool hear_wishes(group_leader *leader, const group_consumer_word *word) {
    bool passed = false;
    for (size_t i = 0; i < word->wish_count; i++) {
        passed = consumer_group_pass(&leader->next, &word->wishes[i]) || passed;
        if (word->wishes[i].count != 0) request_claim(leader, &word->member, &word->wishes[i]);
    }
    return passed;
}

/* Applies a member's message to the proposal. */
static void hear(group_leader *leader, const group_consumer_word *word) {
    consumer_group *next = &leader->next;
    const consumer_group_member *member = &word->member;
    bool was_in = is_present(next, member);
    if (consumer_group_put(next, member) != MR_OK) return;
    if (!was_in) detector_watch(leader->detector, member->id, leader->now_us);
    bool passed = hear_wishes(leader, word);
    leader->changed = leader->changed || !was_in || passed;
}

/* ---- Decisions. */

static void begin_next(group_leader *leader) {
    consumer_group_copy(&leader->next, &leader->group);
    leader->changed = false;
    for (size_t i = 0; i < leader->word_count; i++) hear(leader, &leader->words[i]);
    leader->word_count = 0;
}

/* Takes a decided consumer group. Members that are not watched yet are treated as if a message had just arrived. */
static void adopt(group_leader *leader, const metadata_store_answer *answer) {
    leader->expected = answer->version;
    leader->next_poll_us = leader->now_us + GROUP_LEADER_POLL_US;
    if (answer->value.size != 0 && answer->version > leader->group.number &&
        consumer_group_decode(answer->value, &leader->group) == MR_OK) {
        for (size_t i = 0; i < leader->group.member_count; i++)
            if (!detector_watches(leader->detector, leader->group.members[i].id))
                detector_watch(leader->detector, leader->group.members[i].id, leader->now_us);
        if (leader->options.on_decided != NULL) leader->options.on_decided(leader->options.context, &leader->group);
    }
    begin_next(leader);
}

static void on_read(void *argument, const metadata_store_answer *answer) {
    group_leader *leader = argument;
    MR_ASSERT(leader->asking);
    leader->asking = false;
    if (answer->status != MR_OK) return;
    leader->looked = true;
    adopt(leader, answer);
}

static void look(group_leader *leader) {
    metadata_store store = leader->options.store;
    leader->asking = true;
    store.ops->get(store.self, CONSUMER_GROUP_KEY, 0, on_read, leader);
}

static span encode(const consumer_group *group, uint8_t **bytes) { /* the caller frees *bytes */
    size_t size = consumer_group_size(group);
    *bytes = xmalloc(size);
    writer writer = writer_of(*bytes, size);
    consumer_group_encode(group, &writer);
    MR_ASSERT(!writer.failed && writer_size(&writer) == size);
    return span_of(*bytes, size);
}

static void on_swapped(void *argument, const metadata_store_answer *answer) {
    group_leader *leader = argument;
    MR_ASSERT(leader->asking);
    leader->asking = false;
    if (answer->status == MR_OK) {
        uint8_t *bytes;
        adopt(leader, &(metadata_store_answer){MR_OK, answer->version, encode(&leader->next, &bytes)});
        free(bytes);
    } else if (answer->status == MR_STALE) {
        adopt(leader, answer);
    } else {
        leader->looked = false; /* the proposal may have been decided: read again */
    }
}

static void propose(group_leader *leader) {
    metadata_store store = leader->options.store;
    MR_ASSERT(!leader->asking && leader->looked);
    consumer_group_cut(&leader->next, leader->options.sizes, leader->options.part_count);
    consumer_group_deal(&leader->next);
    leader->next.number = leader->expected + 1;
    leader->asking = true;
    uint8_t *bytes;
    span value = encode(&leader->next, &bytes);
    store.ops->compare_and_swap(store.self, CONSUMER_GROUP_KEY, leader->expected, value, 0, on_swapped, leader);
    free(bytes);
}

/* ---- Messages. */

static void send_group(group_leader *leader, const char *address) {
    uint8_t *bytes;
    control_message message = {.kind = MESSAGE_GROUP, .stamp = {.view = leader->group.number}};
    message.value = encode(&leader->group, &bytes);
    leader->options.send(leader->options.context, address, &message);
    free(bytes);
}

bool group_leader_take(group_leader *leader, const control_message *message, int64_t now_us) {
    if (message->kind != MESSAGE_ATTEND) return false;
    group_consumer_word word;
    leader->now_us = now_us;
    if (group_consumer_read(message, &word) != MR_OK) return true;
    if (is_present(&leader->group, &word.member)) detector_heard(leader->detector, word.member.id, now_us);
    if (leader->asking || !leader->looked)
        keep(leader, &word);
    else
        hear(leader, &word);
    if (message->stamp.view < leader->group.number) send_group(leader, word.member.address);
    CHECK_INVARIANTS(leader->next.member_count + leader->next.claims.count, group_leader_check(leader));
    return true;
}

/* ---- Time. */

/* Adds the claims since the last consumer group, in order of arrival. */
static void grant(group_leader *leader) {
    for (size_t i = 0; i < leader->request_count; i++) {
        const request *request = &leader->requests[i];
        if (consumer_group_claim(&leader->next, request->id, request->incarnation, &request->wish) == MR_OK)
            leader->changed = true;
    }
    leader->request_count = 0;
}

static void take_out_silent(group_leader *leader) {
    for (size_t i = leader->next.member_count; i-- > 0;) {
        uint32_t id = leader->next.members[i].id;
        if (!detector_suspects(leader->detector, id)) continue;
        consumer_group_remove(&leader->next, id);
        detector_forget(leader->detector, id);
        leader->changed = true;
    }
}

void group_leader_tick(group_leader *leader, int64_t now_us) {
    leader->now_us = now_us;
    leader->next_tick_us = now_us + GROUP_LEADER_TICK_US;
    (void)detector_tick(leader->detector, now_us);
    if (leader->asking) return;
    if (leader->looked) take_out_silent(leader);
    if (leader->looked && consumer_group_restart(&leader->next, leader->birth)) leader->changed = true;
    if (leader->looked) grant(leader);
    if (leader->looked && leader->changed)
        propose(leader);
    else if (!leader->looked || now_us >= leader->next_poll_us)
        look(leader);
    CHECK_INVARIANTS(leader->next.member_count + leader->next.claims.count, group_leader_check(leader));
}

void group_leader_check(const group_leader *leader) {
    consumer_group_check(&leader->next);                                                                  /* 1 */
    consumer_group_check(&leader->group);                                                                 /* 1 */
    MR_ASSERT(leader->word_count <= CONSUMER_GROUP_MEMBERS_MAX && leader->request_count <= REQUESTS_MAX); /* 2 */
    MR_ASSERT(leader->request_count <= leader->request_room);                                             /* 2 */
}
