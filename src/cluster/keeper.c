/* keeper.c — see keeper.h. records[i] borrows its key from keys[i] and owns its value; the archive saved last what
 * they are. */
#include "cluster/keeper.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/invariants.h"
#include "base/mutation.h"

enum {
    GENERATIONS_FIRST = 1 << 24, /* the first one of a keeper is one of so many */
    GENERATIONS_STEP = 1 << 19,  /* and another one is at most so many above what is known */
};

typedef struct lease {
    uint64_t number;
    int64_t ends_us;
} lease;

struct keeper {
    archive archive;
    rng *rng;
    uint64_t generation;
    size_t count;
    archive_record records[KEEPER_KEYS_MAX];
    uint8_t keys[KEEPER_KEYS_MAX][KEEPER_KEY_MAX];
    size_t lease_count;
    lease leases[KEEPER_LEASES_MAX];
};

static bool same_key(span a, span b) { return a.size == b.size && memcmp(a.data, b.data, a.size) == 0; }

static const archive_record *find(const keeper *keeper, span key) {
    for (size_t i = 0; i < keeper->count; i++)
        if (same_key(keeper->records[i].key, key)) return &keeper->records[i];
    return NULL;
}

static span copy_value(span value) {
    uint8_t *copy = xmalloc(value.size + 1);
    if (value.size != 0) memcpy(copy, value.data, value.size);
    return span_of(copy, value.size);
}

static void free_value(archive_record *record) { free((void *)(uintptr_t)record->value.data); }

/* ---- Leases. */

static lease *find_lease(keeper *keeper, uint64_t number) {
    for (size_t i = 0; i < keeper->lease_count; i++)
        if (keeper->leases[i].number == number) return &keeper->leases[i];
    return NULL;
}

static mr_status add_lease(keeper *keeper, uint64_t number, int64_t ends_us) {
    if (keeper->lease_count == KEEPER_LEASES_MAX)
        return error_set(MR_TOO_LARGE, "the metadata store has %d leases, which is the limit", KEEPER_LEASES_MAX);
    MR_ASSERT(number != 0 && find_lease(keeper, number) == NULL);
    keeper->leases[keeper->lease_count++] = (lease){number, ends_us};
    return MR_OK;
}

mr_status keeper_lease(keeper *keeper, uint64_t number, uint64_t ttl_us, int64_t now_us) {
    if (number == 0 || ttl_us > COORDINATOR_LEASE_MAX_US)
        return error_set(MR_INVALID, "metadata lease %llu: expected a number above 0 and at most %lld s",
                         (unsigned long long)number, (long long)COORDINATOR_LEASE_MAX_US / 1000000);
    lease *lease = find_lease(keeper, number);
    if (lease == NULL && ttl_us == 0) return MR_OK;
    if (lease == NULL) return add_lease(keeper, number, now_us + (int64_t)ttl_us);
    lease->ends_us = now_us + (int64_t)ttl_us;
    if (ttl_us == 0) keeper_tick(keeper, now_us);
    return MR_OK;
}

/* True: nothing hangs on it any more. */
static bool release(keeper *keeper, uint64_t number) {
    for (size_t i = 0; i < keeper->count; i++) {
        const archive_record *record = &keeper->records[i];
        if (record->lease != number) continue;
        if (keeper_swap(keeper, record->key, record->version, (span){0}, 0) != MR_OK) return false;
    }
    return true;
}

void keeper_tick(keeper *keeper, int64_t now_us) {
    for (size_t i = 0; i < keeper->lease_count;) {
        lease *lease = &keeper->leases[i];
        if (lease->ends_us > now_us) {
            i++;
        } else if (release(keeper, lease->number)) {
            *lease = keeper->leases[--keeper->lease_count];
        } else {
            lease->ends_us = now_us + KEEPER_RETRY_US;
            i++;
        }
    }
    CHECK_INVARIANTS(keeper->count, keeper_check(keeper));
}

int64_t keeper_next_us(const keeper *keeper) {
    int64_t next_us = CLOCK_NEVER_US;
    for (size_t i = 0; i < keeper->lease_count; i++)
        if (keeper->leases[i].ends_us < next_us) next_us = keeper->leases[i].ends_us;
    return next_us;
}

/* ---- Opening. */

static void add(keeper *keeper, const archive_record *record) {
    MR_ASSERT(keeper->count < KEEPER_KEYS_MAX && record->key.size <= KEEPER_KEY_MAX);
    size_t at = keeper->count++;
    memcpy(keeper->keys[at], record->key.data, record->key.size);
    keeper->records[at] = *record;
    keeper->records[at].key = span_of(keeper->keys[at], record->key.size);
    keeper->records[at].value = copy_value(record->value);
}

static bool take_record(void *context, uint64_t generation, const archive_record *record) {
    keeper *keeper = context;
    if (keeper->count == KEEPER_KEYS_MAX || record->key.size == 0 || record->key.size > KEEPER_KEY_MAX ||
        record->value.size > KEEPER_VALUE_MAX || find(keeper, record->key) != NULL)
        return false;
    if (coordinator_generation(record->version) != generation || coordinator_count(record->version) == 0) return false;
    if (record->lease != 0 && find_lease(keeper, record->lease) == NULL && add_lease(keeper, record->lease, 0) != MR_OK)
        return false;
    add(keeper, record);
    return true;
}

static uint64_t draw(rng *rng, uint64_t bound) { return 1 + rng_below(rng, bound); }

static mr_status load(keeper *keeper, int64_t now_us) {
    uint64_t drawn = draw(keeper->rng, GENERATIONS_FIRST);
    mr_status status = keeper->archive.ops->load(keeper->archive.self, take_record, keeper, &keeper->generation);
    if (status == MR_NOT_FOUND) { /* somebody may hear of it at once, so it must be the same after a restart */
        keeper->generation = drawn;
        return keeper->archive.ops->begin(keeper->archive.self, drawn);
    }
    MR_TRY(status);
    if (keeper->generation == 0 || keeper->generation > COORDINATOR_GENERATION_MAX)
        return error_set(MR_CORRUPT, "malformed metadata storage: no generation below 2^28");
    for (size_t i = 0; i < keeper->lease_count; i++) keeper->leases[i].ends_us = now_us + KEEPER_GRACE_US;
    return MR_OK;
}

mr_status keeper_open(archive archive, rng *rng, int64_t now_us, keeper **out) {
    keeper *keeper = xcalloc(1, sizeof *keeper);
    keeper->archive = archive;
    keeper->rng = rng;
    mr_status status = load(keeper, now_us);
    if (status != MR_OK) {
        keeper_close(keeper);
        return status;
    }
    if (MUTATED("same-generation") && keeper->count == 0) keeper->generation = 1;
    CHECK_INVARIANTS(keeper->count, keeper_check(keeper));
    *out = keeper;
    return MR_OK;
}

static void forget(keeper *keeper) {
    for (size_t i = 0; i < keeper->count; i++) free_value(&keeper->records[i]);
    keeper->count = 0;
}

void keeper_close(keeper *keeper) {
    forget(keeper);
    free(keeper);
}

/* ---- Asking and deciding. */

void keeper_get(const keeper *keeper, span key, uint64_t *version, span *value) {
    const archive_record *record = find(keeper, key);
    *version = record == NULL ? coordinator_version(keeper->generation, 0) : record->version;
    *value = record == NULL ? (span){0} : record->value;
}

span keeper_value(const keeper *keeper, const char *key) {
    const archive_record *record = find(keeper, span_of(key, strlen(key)));
    return record == NULL ? (span){0} : record->value;
}

archive_content keeper_content(const keeper *keeper) {
    return (archive_content){keeper->generation, keeper->records, keeper->count};
}

static mr_status check(keeper *keeper, span key, span value, uint64_t lease) {
    if (key.size == 0 || key.size > KEEPER_KEY_MAX)
        return error_set(MR_INVALID, "a metadata key of %zu bytes: expected 1 to %d", key.size, KEEPER_KEY_MAX);
    if (value.size > KEEPER_VALUE_MAX)
        return error_set(MR_TOO_LARGE, "a metadata value of %zu bytes: the limit is %d", value.size, KEEPER_VALUE_MAX);
    if (find(keeper, key) == NULL && keeper->count == KEEPER_KEYS_MAX)
        return error_set(MR_TOO_LARGE, "the metadata store has %d values, which is the limit", KEEPER_KEYS_MAX);
    if (lease != 0 && find_lease(keeper, lease) == NULL)
        return error_set(MR_NOT_FOUND, "metadata lease %llu has ended, or was never granted",
                         (unsigned long long)lease);
    return MR_OK;
}

mr_status keeper_swap(keeper *keeper, span key, uint64_t expected, span value, uint64_t lease) {
    MR_TRY(check(keeper, key, value, lease));
    const archive_record *there = find(keeper, key);
    uint64_t newest = there == NULL ? coordinator_version(keeper->generation, 0) : there->version;
    if (expected != newest && !MUTATED("accept-two-decisions"))
        return error_set(MR_STALE, "the value already has version " COORDINATOR_FORMAT, COORDINATOR_ARGS(newest));
    if (coordinator_count(expected) == COORDINATOR_COUNT_MAX)
        return error_set(MR_TOO_LARGE, "the value was changed 2^36 - 1 times, which is the limit");
    archive_record before = {0}, after = {key, expected + 1, lease, copy_value(value)};
    MR_ASSERT(there != NULL || keeper->count < KEEPER_KEYS_MAX); /* check() has said so */
    size_t at = there == NULL ? keeper->count : (size_t)(there - keeper->records);
    if (there == NULL) {
        memcpy(keeper->keys[at], key.data, key.size);
        keeper->count++;
    } else {
        before = *there;
    }
    after.key = span_of(keeper->keys[at], key.size);
    keeper->records[at] = after;
    archive_content content = keeper_content(keeper);
    mr_status status = keeper->archive.ops->save(keeper->archive.self, &content, at);
    if (status == MR_OK) {
        free_value(&before);
        CHECK_INVARIANTS(keeper->count, keeper_check(keeper));
        return MR_OK;
    }
    free_value(&after);
    keeper->records[at] = before;
    if (there == NULL) keeper->count--;
    return status;
}

/* ---- Having forgotten. */

mr_status keeper_heed(keeper *keeper, span key, uint64_t known) {
    uint64_t newest;
    span value;
    keeper_get(keeper, key, &newest, &value);
    if (known <= newest || MUTATED("deaf-keeper")) return MR_OK;
    uint64_t generation = coordinator_generation(known) + draw(keeper->rng, GENERATIONS_STEP);
    if (generation > COORDINATOR_GENERATION_MAX)
        return error_set(MR_INVALID, "no metadata store gave version " COORDINATOR_FORMAT, COORDINATOR_ARGS(known));
    MR_TRY(keeper->archive.ops->begin(keeper->archive.self, generation));
    MR_ASSERT(generation > coordinator_generation(known));
    forget(keeper);
    keeper->generation = generation;
    CHECK_INVARIANTS(keeper->count, keeper_check(keeper));
    return MR_OK;
}

/* ---- Letters. */

void keeper_answer(keeper *keeper, const letter *question, int64_t now_us, letter *answer) {
    *answer = (letter){.kind = LETTER_ANSWER, .request = question->request};
    if (question->kind == LETTER_LEASE) {
        answer->status = keeper_lease(keeper, question->lease, question->ttl_us, now_us);
        return;
    }
    MR_ASSERT(question->kind == LETTER_GET || question->kind == LETTER_SWAP || question->kind == LETTER_WATCH);
    answer->status = keeper_heed(keeper, question->key, question->version);
    if (answer->status != MR_OK) return;
    if (question->kind == LETTER_SWAP) {
        answer->version = question->version + 1;
        answer->status = keeper_swap(keeper, question->key, question->version, question->value, question->lease);
        if (answer->status == MR_OK) return;
    }
    keeper_get(keeper, question->key, &answer->version, &answer->value);
}

/* ---- Invariants. */

static void check_record(const keeper *keeper, size_t at) {
    const archive_record *record = &keeper->records[at];
    bool leased = record->lease == 0;
    MR_ASSERT(coordinator_generation(record->version) == keeper->generation);                  /* 1 */
    MR_ASSERT(coordinator_count(record->version) != 0);                                        /* 1 */
    MR_ASSERT(record->key.data == keeper->keys[at] && record->key.size > 0);                   /* 2 */
    MR_ASSERT(record->key.size <= KEEPER_KEY_MAX && record->value.size <= KEEPER_VALUE_MAX);   /* 2 */
    for (size_t i = 0; i < at; i++) MR_ASSERT(!same_key(keeper->records[i].key, record->key)); /* 2 */
    for (size_t i = 0; i < keeper->lease_count; i++) leased |= keeper->leases[i].number == record->lease;
    MR_ASSERT(leased); /* 4 */
}

void keeper_check(const keeper *keeper) {
    MR_ASSERT(keeper->generation != 0 && keeper->generation <= COORDINATOR_GENERATION_MAX);  /* 1 */
    MR_ASSERT(keeper->count <= KEEPER_KEYS_MAX && keeper->lease_count <= KEEPER_LEASES_MAX); /* 2, 3 */
    for (size_t i = 0; i < keeper->count; i++) check_record(keeper, i);
    for (size_t i = 0; i < keeper->lease_count; i++) {
        MR_ASSERT(keeper->leases[i].number != 0);                                                       /* 3 */
        for (size_t k = 0; k < i; k++) MR_ASSERT(keeper->leases[k].number != keeper->leases[i].number); /* 3 */
    }
}
