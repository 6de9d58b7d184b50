/* replica_log.h — replicated log of one slot: entries stay until they are committed and no replica needs them.
 *
 *   … base ] kept … applied ] … last ]          lsn counts from 1; base <= applied <= last
 *
 * An entry references its payload and holds the shared buffer of the payload. Committed entries are applied; an
 * applied entry may be kept for a joiner, and is dropped from the front when no replica needs it. No entry is ever
 * removed from the end, except by a reset of the log.
 *
 * An entry that is not applied is held on the credit of a rank or a link: taken when it is logged, returned when it is
 * applied or dropped, here and nowhere else.
 *
 * Invariants (replica_log_check)
 *   1  base <= applied <= last = base + count, and there are at most REPLICA_LOG_MAX entries.
 *   2  `total` of an entry is the total of the entry before it plus the bytes of its own payload.
 *   3  An entry without a payload holds no shared buffer.
 *
 * Bounds  REPLICA_LOG_MAX entries; unacknowledged ones are bounded by windows (rank.h) and credit (credit.h). */
#pragma once
#include "base/shared_bytes.h"
#include "ps/credit.h"

enum { REPLICA_LOG_MAX = 1 << 16 };

typedef enum replica_log_kind {
    REPLICA_LOG_PUSH,
    REPLICA_LOG_ROUND,  /* the sum of a round, and its ranks; `name`: the version after it */
    REPLICA_LOG_FREEZE, /* contributions of `rank` to the round `name` do not count */
    REPLICA_LOG_JOIN,
    REPLICA_LOG_LEAVE,
    REPLICA_LOG_DROP, /* JOIN, LEAVE, DROP: orders to a round state (round_state.h); `name`: number of the order */
    REPLICA_LOG_VOID,
    REPLICA_LOG_REDO, /* VOID, REDO: decisions of a round state; `name`: the round */
    /* orders a checkpoint; `name`: its number; `rank`, in slots without rounds of a mixed deployment: 1 + the version
     * of the rounds in it, modulo 2^32 */
    REPLICA_LOG_MARK,
    /* changes nothing; a head that commits it is current, and then answers the request `name` of `rank`; payload: its
     * query */
    REPLICA_LOG_FRESH,
    REPLICA_LOG_NORMS, /* at a round state: phase `rank` of the norms of round `name` (norm_reports.h) */
    REPLICA_LOG_KIND_COUNT
} replica_log_kind;

typedef struct replica_log_entry {
    uint8_t kind; /* a replica_log_kind */
    uint32_t rank;
    uint64_t name;
    span payload;
    shared_bytes *bytes; /* shared; not held if the payload is empty */
    uint8_t account;     /* a credit_account: the account that holds the bytes */
    uint64_t total;      /* set by replica_log_add: bytes of all payloads up to this one */
} replica_log_entry;

typedef struct replica_log { /* zero-initialized: empty, with nothing applied */
    credit *credit;          /* borrowed; NULL: not counted */
    uint64_t base, applied;
    uint64_t base_total;          /* bytes of all payloads up to `base` */
    size_t head, count, capacity; /* a ring buffer */
    replica_log_entry *entries;   /* owned */
} replica_log;

void replica_log_fini(replica_log *log);                    /* afterwards: empty, with nothing applied and no credit */
void replica_log_reset(replica_log *log, uint64_t applied); /* afterwards: empty, and the next lsn is applied + 1 */
void replica_log_add(replica_log *log, const replica_log_entry *entry); /* takes a reference to the shared buffer */
void replica_log_apply(replica_log *log);                               /* advances `applied` by one entry */
void replica_log_trim(replica_log *log, uint64_t lsn);                  /* drops applied entries up to `lsn` */

static inline uint64_t replica_log_last(const replica_log *log) { return log->base + log->count; }
const replica_log_entry *replica_log_at(const replica_log *log, uint64_t lsn); /* borrowed; base < lsn <= last */

/* Bytes of the payloads after `from`, up to `to`; dropped entries do not count. */
uint64_t replica_log_bytes(const replica_log *log, uint64_t from, uint64_t to);

/* Whether an unapplied entry of this kind, rank and name is in the log. */
bool replica_log_holds(const replica_log *log, replica_log_kind kind, uint32_t rank, uint64_t name);

void replica_log_check(const replica_log *log); /* asserts the invariants above */
