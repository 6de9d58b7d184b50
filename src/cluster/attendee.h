/* attendee.h — member's side of the consumer group: its role, and the batches it claims (marshal.h).
 *
 * It says all of that every ATTENDEE_BEAT_US, until the newest roster shows it. Pure: letters and ticks.
 *
 * Invariants (attendee_check)
 *   1  Of each rank there is one wish; ATTENDEE_WISHES_MAX at most.
 *   2  No wish is open that the newest roster grants. */
#pragma once
#include "cluster/letter.h"
#include "cluster/roster.h"

#define ATTENDEE_BEAT_US INT64_C(100000)
enum { ATTENDEE_WISHES_MAX = 16 };

typedef struct attendee_options {
    uint32_t id;
    uint8_t role;
    const char *address, *marshal; /* where it is reached, and where the marshal is; borrowed for its life */
    void (*send)(void *context, const char *address, const letter *letter);
    void (*on_roster)(void *context, const roster *roster); /* it knows a newer one */
    void *context;
} attendee_options;

typedef struct attendee attendee;

attendee *attendee_create(const attendee_options *options); /* copies the options */
void attendee_destroy(attendee *attendee);

/* It has an incarnation, which the coordinator gives, and begins; or goes on as another, having been taken out. */
void attendee_begin(attendee *attendee, uint64_t incarnation, int64_t now_us);
bool attendee_is_out(const attendee *attendee); /* it was in a roster, and the newest is without it */

bool attendee_take(attendee *attendee, const letter *letter); /* false: not for an attendee */
int64_t attendee_next_us(const attendee *attendee);
void attendee_tick(attendee *attendee, int64_t now_us);

const roster *attendee_roster(const attendee *attendee);

/* Wants pieces for steps of a rank, or says that some are over (roster.h), until the roster has it. Another wish for
 * the same rank takes the place of the last one. False: it has ATTENDEE_WISHES_MAX others. */
bool attendee_wish(attendee *attendee, const roster_wish *wish);
const roster_wish *attendee_wish_of(const attendee *attendee, uint32_t rank); /* that is open; NULL: none */
void attendee_withdraw(attendee *attendee, uint32_t rank);                    /* it plays this rank no more */

/* ---- What it says, for the marshal. */

typedef struct attendee_word {
    roster_member member;
    uint8_t wish_count;
    roster_wish wishes[ATTENDEE_WISHES_MAX];
} attendee_word;
MR_MUST mr_status attendee_read(const letter *letter, attendee_word *word); /* MR_CORRUPT */

void attendee_check(const attendee *attendee); /* asserts the invariants above (base/invariants.h) */
