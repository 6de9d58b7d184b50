/* office.c — see office.h. Tested by tests/ps_meeting_test.c. */
#include "kv/office/office.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/error.h"
#include "kv/office/desk.h"

#define AWAITS_US INT64_C(3000000) /* what was said before that is not so any more */

struct office {
    van *van;
    const char *scheduler;
    office_host host;
    standing standing;
    arrivals *arrivals;
    notes *notes;
    int64_t say_us;        /* when it says how it stands */
    int64_t count_us;      /* and what it has */
    int64_t awaits_us;     /* when it was told what is awaited, which is */
    uint64_t awaits_chart; /* that the scheduler looked at: a newer one ends the wait */
    char awaited[ERROR_TEXT_MAX];
};

static void send_letter(void *context, const char *address, const letter *letter) {
    office *office = context;
    van_send_letter(office->van, address, letter);
}

office *office_create(van *van, uint8_t role, const char *scheduler, const office_host *host) {
    office *office = xcalloc(1, sizeof *office);
    office->van = van;
    office->scheduler = scheduler;
    office->host = *host;
    office->standing.role = role;
    snprintf(office->standing.address, sizeof office->standing.address, "%s", van_address(van));
    office->arrivals =
        arrivals_create(&(arrivals_options){.scheduler = scheduler, .send = send_letter, .context = office},
                        rng_next(van_env(van)->rng));
    office->notes = notes_create(&(notes_options){.role = role,
                                                  .address = office->standing.address,
                                                  .scheduler = scheduler,
                                                  .standing = &office->standing,
                                                  .send = send_letter,
                                                  .context = office});
    office->say_us = office->count_us = CLOCK_NEVER_US;
    return office;
}

void office_destroy(office *office) {
    if (office == NULL) return;
    arrivals_destroy(office->arrivals);
    notes_destroy(office->notes);
    free(office);
}

void office_refresh(office *office) {
    office->host.describe(office->host.context, &office->standing);
    notes_chart(office->notes, office->standing.chart);
}

void office_begin(office *office, uint32_t number, uint64_t incarnation) {
    int64_t now_us = van_now_us(office->van);
    office->standing.number = number;
    office->standing.incarnation = incarnation;
    office->say_us = now_us;
    if (office->host.count != NULL) office->count_us = now_us;
    notes_begin(office->notes, number, incarnation, now_us);
}

notes *office_notes(office *office) { return office->notes; }

mr_status office_report(office *office, const char *key, double value) {
    return standing_report_set(&office->standing, key, value);
}

mr_status office_come(office *office, const char *name, uint8_t group, arrivals_where where) {
    return arrivals_come(office->arrivals, name, group, where, van_now_us(office->van));
}

mr_status office_passed(office *office, const char *name) {
    office_refresh(office);
    return arrivals_passed(office->arrivals, name, &office->standing);
}

void office_restart(office *office) {
    arrivals_restart(office->arrivals);
    if (office->say_us != CLOCK_NEVER_US) office->say_us = van_now_us(office->van);
}

/* It is said again with every standing, as long as it is so. */
const char *office_awaited(office *office) {
    bool lately = office->awaits_us != 0 && van_now_us(office->van) - office->awaits_us < AWAITS_US;
    office_refresh(office);
    return lately && office->awaits_chart >= office->standing.chart ? office->awaited : "";
}

static void take_await(office *office, const letter *letter) {
    size_t size = letter->value.size < sizeof office->awaited ? letter->value.size : sizeof office->awaited - 1;
    if (size != 0) memcpy(office->awaited, letter->value.data, size);
    office->awaited[size] = '\0';
    office->awaits_us = van_now_us(office->van);
    office->awaits_chart = letter->stamp.view;
}

bool office_take(office *office, const letter *letter) {
    if (letter->kind == DESK_AWAIT) return take_await(office, letter), true;
    office_refresh(office);
    return arrivals_take(office->arrivals, letter) || notes_take(office->notes, letter, van_now_us(office->van));
}

int64_t office_next_us(const office *office) {
    int64_t next_us = clock_earlier_us(arrivals_next_us(office->arrivals), notes_next_us(office->notes));
    next_us = clock_earlier_us(next_us, office->count_us);
    return office->say_us == CLOCK_NEVER_US ? CLOCK_NEVER_US : clock_earlier_us(next_us, office->say_us);
}

static void say(office *office, int64_t now_us) {
    uint8_t bytes[STANDING_SIZE_MAX];
    const standing *self = &office->standing;
    letter letter = {.kind = DESK_HERE,
                     .stamp = {self->chart, self->number, self->incarnation},
                     .value = span_of(bytes, standing_encode(self, bytes))};
    van_send_letter(office->van, office->scheduler, &letter);
    office->say_us = now_us + STANDING_US;
}

static void count(office *office, int64_t now_us) {
    uint8_t bytes[STOCK_SIZE_MAX];
    stock stock = {.count = 0};
    letter letter = {.kind = DESK_STOCK, .stamp = {0, office->standing.number, office->standing.incarnation}};
    letter.stamp.view = office->host.count(office->host.context, &stock);
    letter.value = span_of(bytes, stock_encode(&stock, bytes));
    van_send_letter(office->van, office->scheduler, &letter);
    office->count_us = now_us + STOCK_US;
}

void office_tick(office *office, int64_t now_us) {
    if (office->say_us == CLOCK_NEVER_US) return;
    office_refresh(office);
    if (now_us >= office->say_us) say(office, now_us);
    if (now_us >= office->count_us) count(office, now_us);
    if (now_us >= arrivals_next_us(office->arrivals)) arrivals_tick(office->arrivals, &office->standing, now_us);
    if (now_us >= notes_next_us(office->notes)) notes_tick(office->notes, now_us);
}
