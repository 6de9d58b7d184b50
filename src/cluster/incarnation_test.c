/* incarnation_test.c — incarnations are unique and grow; a thousand processes at once need few requests each. */
#include "cluster/incarnation.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "base/clock.h"

enum { MEMBERS = 1000, QUESTIONS_MAX = 4 * MEMBERS };
#define STEP_US INT64_C(1000) /* one request and its answer */

typedef struct question {
    char key[24];
    bool swaps;
    uint64_t expected;
    metadata_store_done_fn *done;
    void *argument;
} question;

typedef struct world { /* a metadata store of a few values, and its clients */
    uint64_t versions[INCARNATION_ACQUIRE_KEYS];
    question questions[QUESTIONS_MAX];
    size_t count, asked;
    uint64_t known; /* newest version in a request */
    mr_status status;
    rng rng;
    int64_t now_us;
    struct member {
        struct world *world;
        incarnation_acquire *acquire;
        uint64_t incarnation;
        int done;
    } members[MEMBERS];
} world;

static void ask(world *world, const char *key, bool swaps, uint64_t expected, metadata_store_done_fn *done,
                void *argument) {
    assert_true(world->count < QUESTIONS_MAX);
    question *question = &world->questions[world->count++];
    *question = (struct question){.swaps = swaps, .expected = expected, .done = done, .argument = argument};
    strncpy(question->key, key, sizeof question->key - 1);
    world->asked++;
}

static void get(void *self, const char *key, uint64_t known, metadata_store_done_fn *done, void *argument) {
    world *world = self;
    if (known > world->known) world->known = known;
    ask(self, key, false, 0, done, argument);
}

static void swap(void *self, const char *key, uint64_t expected, span value, uint64_t lease,
                 metadata_store_done_fn *done, void *argument) {
    ask(self, key, true, expected, done, argument);
}

static const metadata_store_ops ops = {.name = "few values", .get = get, .compare_and_swap = swap};

static void answer_all(world *world) {
    size_t count = world->count;
    for (size_t i = 0; i < count; i++) {
        question question = world->questions[i];
        uint64_t *version = &world->versions[strtoul(question.key + strlen("incarnation"), NULL, 10)];
        mr_status status = world->status;
        if (status == MR_OK && question.swaps && question.expected != *version) status = MR_STALE;
        if (status == MR_OK && question.swaps) ++*version;
        question.done(question.argument, &(metadata_store_answer){status, *version, {0}});
    }
    memmove(world->questions, world->questions + count, (world->count - count) * sizeof *world->questions);
    world->count -= count;
}

static void on_done(void *context, uint64_t incarnation) {
    struct member *member = context;
    member->incarnation = incarnation;
    member->done++;
}

static void begin(world *world, uint32_t id) {
    struct member *member = &world->members[id];
    member->world = world;
    member->done = 0;
    member->acquire =
        incarnation_acquire_create((metadata_store){&ops, world}, &world->rng, id, world->now_us, on_done, member);
}

/* Runs until all members have an incarnation, or the time is over. Returns how many have one. */
static size_t run(world *world, size_t members, int64_t for_us) {
    size_t done = 0;
    for (int64_t until_us = world->now_us + for_us; done < members && world->now_us < until_us;) {
        world->now_us += STEP_US;
        for (size_t i = 0; i < members; i++)
            if (world->now_us >= incarnation_acquire_next_us(world->members[i].acquire))
                incarnation_acquire_tick(world->members[i].acquire, world->now_us);
        answer_all(world);
        done = 0;
        for (size_t i = 0; i < members; i++) done += world->members[i].done != 0;
    }
    return done;
}

static world *create(void) {
    world *world = xcalloc(1, sizeof *world);
    rng_init(&world->rng, 1);
    return world;
}

static void a_thousand_at_once(void **state) {
    world *world = create();
    for (uint32_t i = 0; i < MEMBERS; i++) begin(world, i);
    assert_int_equal(run(world, MEMBERS, 30000000), MEMBERS);
    print_message("%d members: %zu questions, %d ms\n", MEMBERS, world->asked, (int)(world->now_us / 1000));
    assert_true(world->asked <= 12 * MEMBERS);
    for (uint32_t i = 0; i < MEMBERS; i++) {
        assert_int_equal(world->members[i].done, 1);
        /* members of the same value have different incarnations */
        for (uint32_t k = i % INCARNATION_ACQUIRE_KEYS; k < i; k += INCARNATION_ACQUIRE_KEYS)
            assert_true(world->members[i].incarnation != world->members[k].incarnation);
        incarnation_acquire_destroy(world->members[i].acquire);
    }
    free(world);
}

static void an_unconfirmed_incarnation_has_no_owner(void **state) {
    world *world = create();
    begin(world, 0);
    world->status = MR_TIMEOUT;
    assert_int_equal(run(world, 1, 500000), 0);
    world->status = MR_OK;
    world->versions[0] = 7; /* the swap of an unanswered request may have been decided */
    struct member *member = &world->members[0];
    assert_int_equal(run(world, 1, 4000000), 1);
    assert_true(member->done == 1 && member->incarnation == 8);
    assert_true(incarnation_acquire_next_us(member->acquire) == CLOCK_NEVER_US);
    incarnation_acquire_destroy(member->acquire);
    begin(world, 0); /* the next process of the member */
    assert_int_equal(run(world, 1, 10 * STEP_US), 1);
    assert_true(member->done == 1 && member->incarnation == 9);
    incarnation_acquire_destroy(member->acquire);
    free(world);
}

/* A metadata store that lost its disk learns the known number from the request, and begins above it (metadata_db.h). */
static void a_new_incarnation_exceeds_the_known_one(void **state) {
    world *world = create();
    begin(world, 0);
    assert_int_equal(run(world, 1, 10 * STEP_US), 1);
    assert_int_equal(world->known, 0);
    uint64_t first = world->members[0].incarnation;
    world->members[0].done = 0;
    incarnation_acquire_again(world->members[0].acquire, 700, world->now_us);
    incarnation_acquire_again(world->members[0].acquire, 600, world->now_us); /* while a request is pending */
    assert_int_equal(run(world, 1, 10 * STEP_US), 1);
    assert_int_equal(world->known, 700);
    assert_true(world->members[0].done == 1 && world->members[0].incarnation > first);
    incarnation_acquire_destroy(world->members[0].acquire);
    free(world);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_thousand_at_once),
        cmocka_unit_test(an_unconfirmed_incarnation_has_no_owner),
        cmocka_unit_test(a_new_incarnation_exceeds_the_known_one),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
