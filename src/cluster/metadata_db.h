/* metadata_db.h — state of the metadata store: named values with versions, kept in a storage (metadata_storage.h).
 *
 * A swap is answered MR_OK only after it is durable in the metadata storage (metadata_storage.h). If that fails the
 * swap is not decided: it is not answered MR_OK, the value in memory stays the old one, and another swap to the same
 * version may yet succeed and then replaces the bytes that the failure left there. After a restart the content of the
 * metadata storage is the decided one; a damaged storage is refused, because a store that decides without knowing its
 * earlier decisions decides twice.
 *
 * Lost disks  A metadata store whose disk was lost, or exchanged for an older copy, does not know which decisions it
 *             has lost. Two rules keep it from deciding a version twice (metadata_store.h has the generations):
 *               - a metadata store that finds an empty metadata storage draws its generation at random, one of 2^24,
 *                 and saves it before it answers;
 *               - a request carries the newest version that its sender knows. If that is newer than the version here,
 *                 the metadata store has lost decisions, and begins a generation above it, without any value, and saves
 *                 it before it answers. That generation is drawn at random, too, of 2^19: it may be lost in its turn,
 *                 and then a process that still knows the version below must not be answered with the same generation.
 *                 There is room for about 500 such losses of one cluster.
 *             All members are then in no view, and enter again: the content of the lost views, above all the removed
 *             members, is unknown. There is no list of members to ask and no time to wait: a member that is absent for
 *             now is accepted when it returns. An older copy of the metadata storage is not noticed until a process
 *             that knows a newer version sends a request: do not restore one, remove it.
 *
 * Leases      A lease is known while it runs; the metadata storage knows which values are attached to it. After a
 *             restart each of those has METADATA_DB_GRACE_US to be renewed. When one ends, its values become empty, one
 *             swap each; a swap that the metadata storage refuses is tried again METADATA_DB_RETRY_US later, and the
 *             lease has not ended until then.
 *
 * Invariants (metadata_db_check)
 *   1  The generation is within its bounds, and every version is of it and was written.
 *   2  Keys are different, have 1 to METADATA_DB_KEY_MAX bytes, and are stored in `keys`; values are within their
 *      bound.
 *   3  Leases have different numbers, none of them 0.
 *   4  A value that is attached to a lease is attached to one that has not ended.
 *
 * Bounds  METADATA_DB_KEYS_MAX values of METADATA_DB_VALUE_MAX bytes, METADATA_DB_LEASES_MAX leases.
 * Ownership   keys and values are copied. */
#pragma once
#include "base/rng.h"
#include "cluster/control_message.h"
#include "cluster/metadata_storage.h"
#include "cluster/metadata_store.h"

enum {
    METADATA_DB_KEYS_MAX = 64,
    METADATA_DB_KEY_MAX = CONTROL_MESSAGE_KEY_MAX,
    METADATA_DB_VALUE_MAX = CONTROL_MESSAGE_VALUE_MAX,
    METADATA_DB_LEASES_MAX = 64,
};
#define METADATA_DB_GRACE_US INT64_C(5000000)
#define METADATA_DB_RETRY_US INT64_C(100000)

typedef struct metadata_db metadata_db;

/* An empty metadata storage makes a new metadata store. MR_CORRUPT, … `rng` and `storage.self` are borrowed for the
 * db's life. */
MR_MUST mr_status metadata_db_open(metadata_storage storage, rng *rng, int64_t now_us, metadata_db **out);
void metadata_db_close(metadata_db *db);

/* *value is borrowed until the next swap. A version with the count 0: never written. */
void metadata_db_get(const metadata_db *db, span key, uint64_t *version, span *value);
span metadata_db_value(const metadata_db *db, const char *key);      /* the value alone; borrowed until the next swap */
metadata_storage_content metadata_db_content(const metadata_db *db); /* all records; borrowed until the next swap */

/* MR_STALE: `expected` is not the newest version. MR_NOT_FOUND: no such lease. MR_INVALID: malformed key.
 * MR_TOO_LARGE: the value is too large, or there are too many values or changes. */
MR_MUST mr_status metadata_db_swap(metadata_db *db, span key, uint64_t expected, span value, uint64_t lease);

/* Begins or renews a lease; ttl_us 0 ends it. MR_INVALID: number 0 or too long a time; MR_TOO_LARGE: too many
 * leases. */
MR_MUST mr_status metadata_db_lease(metadata_db *db, uint64_t lease, uint64_t ttl_us, int64_t now_us);
int64_t metadata_db_next_us(const metadata_db *db);
void metadata_db_tick(metadata_db *db, int64_t now_us); /* ends the leases that are due */

/* Compares the version of a key with the one that a sender knows; if the sender's is newer, decisions were lost, and
 * another generation begins. Not MR_OK: that generation could not begin, and nothing may be answered. */
MR_MUST mr_status metadata_db_heed(metadata_db *db, span key, uint64_t known);

/* Answers a control message of kind GET, SWAP, WATCH (as GET) or LEASE. The answer borrows its value from the
 * metadata store, until the next answer. */
void metadata_db_answer(metadata_db *db, const control_message *question, int64_t now_us, control_message *answer);

void metadata_db_check(const metadata_db *db); /* asserts the invariants above (base/invariants.h) */
