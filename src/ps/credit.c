/* credit.c — see credit.h. */
#include "ps/credit.h"

#include <stdlib.h>

#include "base/alloc.h"
#include "base/assert.h"

void credit_init(credit *credit, uint32_t rank_count, uint64_t rank_bytes, uint64_t link_bytes) {
    *credit = (struct credit){.rank_bytes = rank_bytes, .link_bytes = link_bytes, .rank_count = rank_count};
    credit->held = xcalloc(rank_count + 1, sizeof *credit->held);
}

void credit_fini(credit *credit) {
    free(credit->held);
    *credit = (struct credit){0};
}

static uint64_t *account_of(credit *credit, credit_account account, uint32_t rank) {
    MR_ASSERT(account == CREDIT_LINK || rank < credit->rank_count);
    return account == CREDIT_LINK ? &credit->linked : &credit->held[rank];
}

void credit_take(credit *credit, credit_account account, uint32_t rank, size_t bytes) {
    if (credit != NULL && account != CREDIT_NONE) *account_of(credit, account, rank) += bytes;
}

void credit_return(credit *credit, credit_account account, uint32_t rank, size_t bytes) {
    if (credit == NULL || account == CREDIT_NONE) return;
    uint64_t *held = account_of(credit, account, rank);
    MR_ASSERT(*held >= bytes);
    *held -= bytes;
}

bool credit_admits(const credit *credit, uint32_t rank, size_t bytes) {
    if (credit == NULL || credit->rank_bytes == 0 || bytes == 0) return true;
    MR_ASSERT(rank < credit->rank_count);
    return credit->held[rank] == 0 || credit->held[rank] + bytes <= credit->rank_bytes;
}

bool credit_follows(const credit *credit, size_t bytes) {
    return credit == NULL || credit->link_bytes == 0 || bytes == 0 || credit->linked + bytes <= credit->link_bytes;
}

uint64_t credit_grant(const credit *credit) {
    return credit == NULL || credit->rank_bytes == 0 ? UINT64_MAX : credit->rank_bytes;
}

uint64_t credit_room(const credit *credit) {
    if (credit == NULL || credit->link_bytes == 0) return UINT64_MAX;
    return credit->linked < credit->link_bytes ? credit->link_bytes - credit->linked : 0;
}
