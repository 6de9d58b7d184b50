/* metadata_db.c — see metadata_db.h. records[i] borrows its key from keys[i] and owns its value; the metadata storage
 * has the same content. */
#include "cluster/metadata_db.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/invariants.h"
#include "base/mutation.h"

enum {
    GENERATIONS_FIRST = 1 << 24, /* bound of the random generation of a new metadata store */
    GENERATIONS_STEP = 1 << 19,  /* bound of the random step to the next generation */
};

typedef struct lease {
    uint64_t number;
    int64_t ends_us;
} lease;

struct metadata_db {
    metadata_storage storage;
    rng *rng;
    uint64_t generation;
    size_t count;
    metadata_storage_record records[METADATA_DB_KEYS_MAX];
    uint8_t keys[METADATA_DB_KEYS_MAX][METADATA_DB_KEY_MAX];
    size_t lease_count;
    lease leases[METADATA_DB_LEASES_MAX];
};

static bool same_key(span a, span b) { return a.size == b.size && memcmp(a.data, b.data, a.size) == 0; }

static const metadata_storage_record *find(const metadata_db *db, span key) {
    for (size_t i = 0; i < db->count; i++)
        if (same_key(db->records[i].key, key)) return &db->records[i];
    return NULL;
}

static span copy_value(span value) {
    uint8_t *copy = xmalloc(value.size + 1);
    if (value.size != 0) memcpy(copy, value.data, value.size);
    return span_of(copy, value.size);
}

static void free_value(metadata_storage_record *record) { free((void *)(uintptr_t)record->value.data); }

/* ---- Leases. */

static lease *find_lease(metadata_db *db, uint64_t number) {
    for (size_t i = 0; i < db->lease_count; i++)
        if (db->leases[i].number == number) return &db->leases[i];
    return NULL;
}

static mr_status add_lease(metadata_db *db, uint64_t number, int64_t ends_us) {
    if (db->lease_count == METADATA_DB_LEASES_MAX)
        return error_set(MR_TOO_LARGE, "the metadata store has %d leases, which is the limit", METADATA_DB_LEASES_MAX);
    MR_ASSERT(number != 0 && find_lease(db, number) == NULL);
    db->leases[db->lease_count++] = (lease){number, ends_us};
    return MR_OK;
}

mr_status metadata_db_lease(metadata_db *db, uint64_t number, uint64_t ttl_us, int64_t now_us) {
    if (number == 0 || ttl_us > METADATA_STORE_LEASE_MAX_US)
        return error_set(MR_INVALID, "metadata lease %llu: expected a number above 0 and at most %lld s",
                         (unsigned long long)number, (long long)METADATA_STORE_LEASE_MAX_US / 1000000);
    lease *lease = find_lease(db, number);
    if (lease == NULL && ttl_us == 0) return MR_OK;
    if (lease == NULL) return add_lease(db, number, now_us + (int64_t)ttl_us);
    lease->ends_us = now_us + (int64_t)ttl_us;
    if (ttl_us == 0) metadata_db_tick(db, now_us);
    return MR_OK;
}

/* Empties the values of a lease. True: no value is attached to it any more. */
static bool release(metadata_db *db, uint64_t number) {
    for (size_t i = 0; i < db->count; i++) {
        const metadata_storage_record *record = &db->records[i];
        if (record->lease != number) continue;
        if (metadata_db_swap(db, record->key, record->version, (span){0}, 0) != MR_OK) return false;
    }
    return true;
}

void metadata_db_tick(metadata_db *db, int64_t now_us) {
    for (size_t i = 0; i < db->lease_count;) {
        lease *lease = &db->leases[i];
        if (lease->ends_us > now_us) {
            i++;
        } else if (release(db, lease->number)) {
            *lease = db->leases[--db->lease_count];
        } else {
            lease->ends_us = now_us + METADATA_DB_RETRY_US;
            i++;
        }
    }
    CHECK_INVARIANTS(db->count, metadata_db_check(db));
}

int64_t metadata_db_next_us(const metadata_db *db) {
    int64_t next_us = CLOCK_NEVER_US;
    for (size_t i = 0; i < db->lease_count; i++)
        if (db->leases[i].ends_us < next_us) next_us = db->leases[i].ends_us;
    return next_us;
}

/* ---- Loading. */

static void add(metadata_db *db, const metadata_storage_record *record) {
    MR_ASSERT(db->count < METADATA_DB_KEYS_MAX && record->key.size <= METADATA_DB_KEY_MAX);
    size_t at = db->count++;
    memcpy(db->keys[at], record->key.data, record->key.size);
    db->records[at] = *record;
    db->records[at].key = span_of(db->keys[at], record->key.size);
    db->records[at].value = copy_value(record->value);
}

static bool take_record(void *context, uint64_t generation, const metadata_storage_record *record) {
    metadata_db *db = context;
    if (db->count == METADATA_DB_KEYS_MAX || record->key.size == 0 || record->key.size > METADATA_DB_KEY_MAX ||
        record->value.size > METADATA_DB_VALUE_MAX || find(db, record->key) != NULL)
        return false;
    if (metadata_store_generation(record->version) != generation || metadata_store_count(record->version) == 0)
        return false;
    if (record->lease != 0 && find_lease(db, record->lease) == NULL && add_lease(db, record->lease, 0) != MR_OK)
        return false;
    add(db, record);
    return true;
}

static uint64_t draw(rng *rng, uint64_t bound) { return 1 + rng_below(rng, bound); }

static mr_status load(metadata_db *db, int64_t now_us) {
    uint64_t drawn = draw(db->rng, GENERATIONS_FIRST);
    mr_status status = db->storage.ops->load(db->storage.self, take_record, db, &db->generation);
    if (status == MR_NOT_FOUND) { /* saved before any answer, so that it is the same after a restart */
        db->generation = drawn;
        return db->storage.ops->begin(db->storage.self, drawn);
    }
    MR_TRY(status);
    if (db->generation == 0 || db->generation > METADATA_STORE_GENERATION_MAX)
        return error_set(MR_CORRUPT, "malformed metadata storage: no generation below 2^28");
    for (size_t i = 0; i < db->lease_count; i++) db->leases[i].ends_us = now_us + METADATA_DB_GRACE_US;
    return MR_OK;
}

mr_status metadata_db_open(metadata_storage storage, rng *rng, int64_t now_us, metadata_db **out) {
    metadata_db *db = XNEW(metadata_db, .storage = storage, .rng = rng);
    mr_status status = load(db, now_us);
    if (status != MR_OK) {
        metadata_db_close(db);
        return status;
    }
    if (MUTATED("same-generation") && db->count == 0) db->generation = 1;
    CHECK_INVARIANTS(db->count, metadata_db_check(db));
    *out = db;
    return MR_OK;
}

static void forget(metadata_db *db) {
    for (size_t i = 0; i < db->count; i++) free_value(&db->records[i]);
    db->count = 0;
}

void metadata_db_close(metadata_db *db) {
    forget(db);
    free(db);
}

/* ---- Reads and decisions. */

void metadata_db_get(const metadata_db *db, span key, uint64_t *version, span *value) {
    const metadata_storage_record *record = find(db, key);
    *version = record == NULL ? metadata_store_version(db->generation, 0) : record->version;
    *value = record == NULL ? (span){0} : record->value;
}

span metadata_db_value(const metadata_db *db, const char *key) {
    const metadata_storage_record *record = find(db, span_of(key, strlen(key)));
    return record == NULL ? (span){0} : record->value;
}

metadata_storage_content metadata_db_content(const metadata_db *db) {
    return (metadata_storage_content){db->generation, db->records, db->count};
}

static mr_status check(metadata_db *db, span key, span value, uint64_t lease) {
    if (key.size == 0 || key.size > METADATA_DB_KEY_MAX)
        return error_set(MR_INVALID, "a metadata key of %zu bytes: expected 1 to %d", key.size, METADATA_DB_KEY_MAX);
    if (value.size > METADATA_DB_VALUE_MAX)
        return error_set(MR_TOO_LARGE, "a metadata value of %zu bytes: the limit is %d", value.size,
                         METADATA_DB_VALUE_MAX);
    if (find(db, key) == NULL && db->count == METADATA_DB_KEYS_MAX)
        return error_set(MR_TOO_LARGE, "the metadata store has %d values, which is the limit", METADATA_DB_KEYS_MAX);
    if (lease != 0 && find_lease(db, lease) == NULL)
        return error_set(MR_NOT_FOUND, "metadata lease %llu has ended, or was never granted",
                         (unsigned long long)lease);
    return MR_OK;
}

mr_status metadata_db_swap(metadata_db *db, span key, uint64_t expected, span value, uint64_t lease) {
    MR_TRY(check(db, key, value, lease));
    const metadata_storage_record *there = find(db, key);
    uint64_t newest = there == NULL ? metadata_store_version(db->generation, 0) : there->version;
    if (expected != newest && !MUTATED("accept-two-decisions"))
        return error_set(MR_STALE, "the value already has version " METADATA_STORE_FORMAT, METADATA_STORE_ARGS(newest));
    if (metadata_store_count(expected) == METADATA_STORE_COUNT_MAX)
        return error_set(MR_TOO_LARGE, "the value was changed 2^36 - 1 times, which is the limit");
    metadata_storage_record before = {0}, after = {key, expected + 1, lease, copy_value(value)};
    MR_ASSERT(there != NULL || db->count < METADATA_DB_KEYS_MAX); /* ensured by check() */
    size_t at = there == NULL ? db->count : (size_t)(there - db->records);
    if (there == NULL) {
        memcpy(db->keys[at], key.data, key.size);
        db->count++;
    } else {
        before = *there;
    }
    after.key = span_of(db->keys[at], key.size);
    db->records[at] = after;
    metadata_storage_content content = metadata_db_content(db);
    mr_status status = db->storage.ops->save(db->storage.self, &content, at);
    if (status == MR_OK) {
        free_value(&before);
        CHECK_INVARIANTS(db->count, metadata_db_check(db));
        return MR_OK;
    }
    free_value(&after);
    db->records[at] = before;
    if (there == NULL) db->count--;
    return status;
}

/* ---- Lost decisions. */

mr_status metadata_db_heed(metadata_db *db, span key, uint64_t known) {
    uint64_t newest;
    span value;
    metadata_db_get(db, key, &newest, &value);
    if (known <= newest || MUTATED("deaf-keeper")) return MR_OK;
    uint64_t generation = metadata_store_generation(known) + draw(db->rng, GENERATIONS_STEP);
    if (generation > METADATA_STORE_GENERATION_MAX)
        return error_set(MR_INVALID, "no metadata store gave version " METADATA_STORE_FORMAT,
                         METADATA_STORE_ARGS(known));
    MR_TRY(db->storage.ops->begin(db->storage.self, generation));
    MR_ASSERT(generation > metadata_store_generation(known));
    forget(db);
    db->generation = generation;
    CHECK_INVARIANTS(db->count, metadata_db_check(db));
    return MR_OK;
}

/* ---- Control messages. */

void metadata_db_answer(metadata_db *db, const control_message *question, int64_t now_us, control_message *answer) {
    *answer = (control_message){.kind = CONTROL_MESSAGE_ANSWER, .request = question->request};
    if (question->kind == CONTROL_MESSAGE_LEASE) {
        answer->status = metadata_db_lease(db, question->lease, question->ttl_us, now_us);
        return;
    }
    MR_ASSERT(question->kind == CONTROL_MESSAGE_GET || question->kind == CONTROL_MESSAGE_SWAP ||
              question->kind == CONTROL_MESSAGE_WATCH);
    answer->status = metadata_db_heed(db, question->key, question->version);
    if (answer->status != MR_OK) return;
    if (question->kind == CONTROL_MESSAGE_SWAP) {
        answer->version = question->version + 1;
        answer->status = metadata_db_swap(db, question->key, question->version, question->value, question->lease);
        if (answer->status == MR_OK) return;
    }
    metadata_db_get(db, question->key, &answer->version, &answer->value);
}

/* ---- Invariants. */

static void check_record(const metadata_db *db, size_t at) {
    const metadata_storage_record *record = &db->records[at];
    bool leased = record->lease == 0;
    MR_ASSERT(metadata_store_generation(record->version) == db->generation);                           /* 1 */
    MR_ASSERT(metadata_store_count(record->version) != 0);                                             /* 1 */
    MR_ASSERT(record->key.data == db->keys[at] && record->key.size > 0);                               /* 2 */
    MR_ASSERT(record->key.size <= METADATA_DB_KEY_MAX && record->value.size <= METADATA_DB_VALUE_MAX); /* 2 */
    for (size_t i = 0; i < at; i++) MR_ASSERT(!same_key(db->records[i].key, record->key));             /* 2 */
    for (size_t i = 0; i < db->lease_count; i++) leased |= db->leases[i].number == record->lease;
    MR_ASSERT(leased); /* 4 */
}

void metadata_db_check(const metadata_db *db) {
    MR_ASSERT(db->generation != 0 && db->generation <= METADATA_STORE_GENERATION_MAX);         /* 1 */
    MR_ASSERT(db->count <= METADATA_DB_KEYS_MAX && db->lease_count <= METADATA_DB_LEASES_MAX); /* 2, 3 */
    for (size_t i = 0; i < db->count; i++) check_record(db, i);
    for (size_t i = 0; i < db->lease_count; i++) {
        MR_ASSERT(db->leases[i].number != 0);                                                   /* 3 */
        for (size_t k = 0; k < i; k++) MR_ASSERT(db->leases[k].number != db->leases[i].number); /* 3 */
    }
}
