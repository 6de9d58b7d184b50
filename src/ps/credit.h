/* credit.h — flow-control credit: the bytes that a server holds for ranks and links, and the limits on them.
 *
 *   rank ── parts that are not acknowledged ──► head         for each rank, in all slots together: rank_bytes
 *   member ── entries that are not applied ──► successor     in all slots that follow somebody:    link_bytes
 *
 * A grant is a number of bytes that may be under way. It is said again with every answer, and it is never spent:
 * whoever sends knows what it has under way from what it keeps for itself, and whoever holds counts what lies in its
 * logs and open rounds. So a word that is lost, late or doubled changes nothing but the pace, and a process that dies,
 * a cluster map and another generation take no credit along: there is none to be given back.
 *
 * What is beyond its limit is not taken, whatever the sender believes; it is said again. But there is always room for
 * one: for the part of a rank that has nothing here, for the next entry of a slot that has everything applied. So
 * nothing that may go on waits for credit.
 *
 * Invariant   held[rank] and linked are what the logs and rounds that use this credit have, no more and no less. */
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

bool credit_admits(const credit *credit, uint32_t rank, size_t bytes); /* a part of this rank */
bool credit_follows(const credit *credit, size_t bytes);               /* an entry from up the chain */

/* What is said to others: how much a rank may have under way; how much more may come down a chain. */
uint64_t credit_grant(const credit *credit);
uint64_t credit_room(const credit *credit);
