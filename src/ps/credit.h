/* credit.h — flow-control credit: the bytes that a server holds for ranks and links, and the limits on them.
 *
 *   rank ── unacknowledged slot messages ──► head     for each rank, in all slots together: rank_bytes
 *   member ── unapplied entries ──► successor         in all slots with a predecessor:      link_bytes
 *
 * A grant is a number of bytes that may be in flight. Every answer repeats the grant, and a grant is never used up: a
 * sender knows its bytes in flight from its own unacknowledged messages, and a receiver counts the bytes in its logs
 * and open rounds. So a lost, late or duplicated message changes only the speed, and after a crash, a new cluster map
 * or another generation there is no credit to return.
 *
 * A message beyond the limit is refused by the receiver, and is sent again. But one message always has room: that of a
 * rank without held bytes here, and the next entry of a slot whose entries are all applied. So credit never blocks
 * progress.
 *
 * Invariant   held[rank] and linked are exactly the bytes in the logs and rounds that use this credit. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef enum credit_account { CREDIT_NONE, CREDIT_RANK, CREDIT_LINK } credit_account;

typedef struct credit {
    uint64_t rank_bytes, link_bytes; /* 0: no bound */
    uint32_t rank_count;
    uint64_t *held; /* by rank, owned */
    uint64_t linked;
} credit;

void credit_init(credit *credit, uint32_t rank_count, uint64_t rank_bytes, uint64_t link_bytes);
void credit_fini(credit *credit);

void credit_take(credit *credit, credit_account account, uint32_t rank, size_t bytes);
void credit_return(credit *credit, credit_account account, uint32_t rank, size_t bytes);

bool credit_admits(const credit *credit, uint32_t rank, size_t bytes); /* room for a message of this rank */
bool credit_follows(const credit *credit, size_t bytes);               /* room for an entry from the predecessor */

/* Grants in answers: bytes that a rank may have in flight; bytes that a predecessor may still send along a chain. */
uint64_t credit_grant(const credit *credit);
uint64_t credit_room(const credit *credit);
