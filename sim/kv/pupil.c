/* pupil.c — see school.h: a worker of it.
 *
 *   its rank is ready ──► tables, data ──► step ──► shown, computed, pushed ──► step …    again if something is stale
 *                                            └─ the last one is over ──► compares, ends unless everything goes back
 *
 * It is a program of users but for one thing: it waits for nothing, and looks again whenever something has come. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/mutation.h"
#include "kv/registrar.h"
#include "kv/worker/customer.h"
#include "kv/worker/errand.h"
#include "sim/kv/school.h"

typedef enum phase { BEGINS, ASKS, CUTS, OPENS, LOOKS, EATS, COMPUTES, PUSHES, LEAVES, COMPARES, ENDED } phase;

typedef struct pupil {
    school_seat *seat;
    customer *customer;
    phase phase;
    uint64_t step;
    int64_t until_us; /* it computes */
    bool hurries;     /* in this step */
    registrar_ask question;
    ballot *ask;
    corpus corpus; /* that it says; then its customer has it */
    ballot *cut;
    catalogue_table wanted[LESSON_PARTS], found[LESSON_PARTS];
    size_t asked; /* tables that it has, and the one that it asks for */
    sheet sheets[LESSON_PARTS];
    uint64_t keys[LESSON_KEYS], tickets[LESSON_PARTS];
    uint32_t lengths[LESSON_KEYS];
    lesson_weights shown, parts;
} pupil;

static int64_t now_of(const pupil *pupil) { return van_now_us(customer_van(pupil->customer)); }
static sim *sim_of(const pupil *pupil) { return pupil->seat->school->sim; }

/* ---- Tables. */

static mr_status edit(void *argument, catalogue *catalogue, bool *changed) {
    pupil *pupil = argument;
    const catalogue_table *wanted = &pupil->wanted[pupil->asked];
    if (catalogue_find(catalogue, wanted->name) == NULL) {
        MR_TRY(catalogue_add(catalogue, wanted));
        *changed = true;
    }
    catalogue_table_fini(&pupil->found[pupil->asked]);
    catalogue_table_copy(&pupil->found[pupil->asked], catalogue_find(catalogue, wanted->name));
    return MR_OK;
}

static void ask(pupil *pupil) {
    catalogue_table *wanted = &pupil->wanted[pupil->asked];
    consistency consistency;
    if (catalogue_table_consistency(wanted, customer_chart(pupil->customer), &consistency) != MR_OK)
        sim_violation(sim_of(pupil), "table '%s' has no consistency", wanted->name);
    else
        consistency_write(consistency, wanted->consistency);
    pupil->question = (registrar_ask){edit, pupil};
    pupil->ask = registrar_begin(customer_coordinator(pupil->customer), &pupil->question);
}

static void take_table(pupil *pupil) {
    sheet *sheet = &pupil->sheets[pupil->asked];
    ballot_end(pupil->ask);
    pupil->ask = NULL;
    if (sheet_init(sheet, &pupil->found[pupil->asked], customer_chart(pupil->customer)) != MR_OK) {
        sim_violation(sim_of(pupil), "table '%s' cannot be opened", pupil->found[pupil->asked].name);
        pupil->phase = ENDED;
        return;
    }
    if (sheet_in_rounds(sheet)) customer_join(pupil->customer);
    if (++pupil->asked < LESSON_PARTS) ask(pupil);
}

/* ---- Data. */

static void cut(pupil *pupil) {
    const diet *diet = &pupil->seat->school->diet;
    if (corpus_init(&pupil->corpus, diet->sizes, diet->parts) != MR_OK)
        sim_violation(sim_of(pupil), "the data cannot be cut");
    pupil->cut = corpus_decide(customer_coordinator(pupil->customer), &pupil->corpus);
}

static phase take_cut(pupil *pupil) {
    mr_status status = ballot_status(pupil->cut);
    if (status == MR_BUSY) return CUTS;
    ballot_end(pupil->cut);
    pupil->cut = NULL;
    if (status != MR_OK) sim_violation(sim_of(pupil), "the data is not cut: %d", (int)status);
    customer_cut(pupil->customer, &pupil->corpus);
    return OPENS;
}

/* Of as many items as the step says: who plays it again says the same. */
static mr_status eat(pupil *pupil) {
    diet *diet = &pupil->seat->school->diet;
    claims_piece piece;
    if (diet->parts == 0 || pupil->step >= pupil->seat->school->steps) return MR_OK;
    MR_TRY(customer_piece(pupil->customer, 1 + pupil->step % 3, &piece));
    diet_used(diet, customer_chart(pupil->customer), pupil->seat->number, pupil->step, &piece);
    return MR_OK;
}

/* Leaves what it has claimed to others, between two steps, and comes back. */
static bool leaves(pupil *pupil) {
    rng *rng = van_env(customer_van(pupil->customer))->rng;
    if (pupil->seat->school->diet.parts == 0 || !rng_chance(rng, pupil->seat->school->leave_chance)) return false;
    sim_count(sim_of(pupil), "data left", 1);
    customer_hand_back(pupil->customer);
    diet_left(&pupil->seat->school->diet, customer_chart(pupil->customer), pupil->seat->number,
              customer_step(pupil->customer));
    return true;
}

/* ---- A step. */

static errand errand_of(pupil *pupil, lesson_part part) {
    errand errand = {.sheet = &pupil->sheets[part], .kept = true, .count = LESSON_ITEMS};
    if (part == LESSON_ARRAY) return errand;
    errand.keys = pupil->keys;
    errand.count = LESSON_KEYS;
    if (part == LESSON_VECTORS) errand.lengths = pupil->lengths;
    return errand;
}

static mr_status look(pupil *pupil) {
    for (int i = 0; i < LESSON_PARTS; i++) {
        errand errand = errand_of(pupil, (lesson_part)i);
        errand.to = pupil->shown[i];
        errand.pulls = true;
        MR_TRY((i == LESSON_ARRAY ? errand_array : errand_keys)(pupil->customer, &errand, &pupil->tickets[i]));
    }
    return MR_OK;
}

static mr_status push(pupil *pupil) {
    bool other = MUTATED("other-values") && sim_node_process(pupil->seat->node) > 1;
    lesson_gradient(&pupil->seat->school->lesson, pupil->seat->number, pupil->step + other, pupil->shown, pupil->parts);
    for (int i = 0; i < LESSON_PARTS; i++) {
        errand errand = errand_of(pupil, (lesson_part)i);
        errand.values = pupil->parts[i];
        errand.pushes = true;
        errand.kept = !pupil->hurries;
        MR_TRY((i == LESSON_ARRAY ? errand_array : errand_keys)(pupil->customer, &errand, &pupil->tickets[i]));
    }
    return customer_end(pupil->customer);
}

/* All of them; one that is over is not asked after again. */
static mr_status answered(pupil *pupil) {
    mr_status all = MR_OK;
    for (int i = 0; i < LESSON_PARTS; i++) {
        mr_status status = pupil->tickets[i] == 0 ? MR_OK : customer_done(pupil->customer, pupil->tickets[i]);
        if (status != MR_BUSY) pupil->tickets[i] = 0;
        if (all == MR_OK || (all == MR_BUSY && status != MR_OK)) all = status;
    }
    return all;
}

static void tell(const pupil *pupil) {
    const chart *chart = customer_chart(pupil->customer);
    sim_note(sim_of(pupil), pupil->seat->node, "has learnt it");
    if (pupil->seat->number == 0 && chart->origin != 0) sim_count(sim_of(pupil), "from a checkpoint", 1);
}

/* Where nobody knows the order others may not be done yet. */
static void compare(pupil *pupil) {
    school *school = pupil->seat->school;
    lesson_weights expected;
    lesson_reference(&school->lesson, school->steps, expected);
    const float *seen = &pupil->shown[0][0][0], *right = &expected[0][0][0];
    bool same = memcmp(seen, right, sizeof expected) == 0, late = false;
    for (size_t i = 0; i < LESSON_PARTS * LESSON_ITEMS && !same; i++) {
        if (seen[i] == right[i]) continue;
        if (school->lesson.rounds[i / LESSON_ITEMS] || seen[i] > right[i])
            sim_violation(sim_of(pupil), "rank %u sees %a where %a is right, at %zu", pupil->seat->number,
                          (double)seen[i], (double)right[i], i);
        late = true;
    }
    if (same) memcpy(school->end, pupil->shown, sizeof school->end);
    if (same) tell(pupil);
    school->done[pupil->seat->number] = same;
    pupil->phase = late ? COMPARES : ENDED;
}

/* ---- One thing after the other. */

static phase from(mr_status status, phase then, phase now) {
    if (status == MR_OK) return then;
    return status == MR_BUSY ? now : OPENS; /* all else is begun again */
}

static phase goes_on(pupil *pupil) {
    pupil->step++;
    return leaves(pupil) ? LEAVES : OPENS;
}

static phase next_of(pupil *pupil) {
    customer *customer = pupil->customer;
    switch (pupil->phase) {
    case BEGINS:
        if (customer_ready(customer) != MR_OK) return BEGINS;
        ask(pupil);
        return ASKS;
    case ASKS: {
        mr_status status = ballot_status(pupil->ask);
        if (status == MR_OK) take_table(pupil);
        if (status != MR_OK && status != MR_BUSY) sim_violation(sim_of(pupil), "no table: %d", (int)status);
        if (pupil->phase == ENDED || pupil->asked < LESSON_PARTS) return pupil->phase;
        if (pupil->seat->school->diet.parts == 0) return OPENS;
        cut(pupil);
        return CUTS;
    }
    case CUTS: return take_cut(pupil);
    case OPENS:
        customer_begin(customer);
        if (customer_opened(customer) != MR_OK) return OPENS;
        if (!MUTATED("counts-alone")) pupil->step = customer_step(customer);
        pupil->hurries = pupil->step + 1 < pupil->seat->school->steps &&
                         rng_chance(van_env(customer_van(customer))->rng, pupil->seat->school->hurry_chance);
        return pupil->hurries ? EATS : from(look(pupil), LOOKS, OPENS);
    case LOOKS: return from(answered(pupil), EATS, LOOKS);
    case EATS: {
        mr_status status = eat(pupil);
        pupil->until_us =
            now_of(pupil) + rng_between(van_env(customer_van(customer))->rng, 0, pupil->seat->school->step_us);
        return from(status, COMPUTES, EATS);
    }
    case COMPUTES:
        if (now_of(pupil) < pupil->until_us) return COMPUTES;
        if (pupil->step >= pupil->seat->school->steps) return COMPARES;
        if (push(pupil) != MR_OK) return OPENS;
        return pupil->hurries ? goes_on(pupil) : PUSHES;
    case PUSHES: {
        mr_status status = answered(pupil);
        return from(status, status == MR_OK ? goes_on(pupil) : OPENS, PUSHES);
    }
    case LEAVES: return customer_handed_back(customer) == MR_OK ? OPENS : LEAVES;
    case COMPARES: compare(pupil); return pupil->phase == ENDED ? ENDED : from(look(pupil), LOOKS, OPENS);
    case ENDED:
        if (customer == NULL || customer_opened(customer) == MR_OK) return ENDED;
        pupil->seat->school->done[pupil->seat->number] = false; /* everything went back to a checkpoint */
        return OPENS;
    }
    return ENDED;
}

static void go_on(pupil *pupil) {
    phase before;
    do {
        before = pupil->phase;
        pupil->phase = next_of(pupil);
    } while (pupil->phase != before && pupil->phase != ENDED);
}

void school_pupil_why(const school_seat *seat, char *text, size_t size) {
    static const char *const phases[] = {"begins",   "asks",   "cuts",   "opens",    "looks", "eats",
                                         "computes", "pushes", "leaves", "compares", "ended"};
    const pupil *pupil = sim_node_state(seat->node);
    if (pupil == NULL || pupil->customer == NULL) {
        snprintf(text, size, "it is down");
        return;
    }
    mr_status status = customer_opened(pupil->customer);
    for (int i = 0; status == MR_OK && i < LESSON_PARTS; i++)
        if (pupil->tickets[i] != 0) status = customer_late(pupil->customer, pupil->tickets[i]);
    snprintf(text, size, "it %s step %d; %s", phases[pupil->phase], (int)pupil->step,
             status == MR_OK ? "nothing is under way" : mr_last_error());
}

/* ---- As a process. */

static void *start(sim_node *node, const env *env, void *argument) {
    pupil *pupil = xcalloc(1, sizeof *pupil);
    lesson_table tables[LESSON_PARTS];
    pupil->seat = argument;
    postoffice_options options = {
        .scheduler = SCHOOL_SCHEDULER, .listen = sim_node_name(node), .number = pupil->seat->number, .env = env};
    lesson_keys(pupil->keys, pupil->lengths);
    lesson_tables(tables);
    if (pupil->seat->school->scheduler.mixed) {
        tables[LESSON_VECTORS].options.consistency = "ssp:1";
        tables[LESSON_ARRAY].options.consistency = "asp";
    }
    mr_status status = customer_open(&options, &pupil->customer);
    for (int i = 0; status == MR_OK && i < LESSON_PARTS; i++)
        status = catalogue_table_init(&pupil->wanted[i], tables[i].name, &tables[i].options);
    if (status != MR_OK) sim_violation(sim_of(pupil), "rank %u cannot begin", pupil->seat->number);
    if (pupil->customer != NULL) sim_node_serve(node, &mail_events, van_mail(customer_van(pupil->customer)));
    return pupil;
}

static void stop(void *state) {
    pupil *pupil = state;
    if (pupil->ask != NULL) ballot_end(pupil->ask);
    if (pupil->cut != NULL) ballot_end(pupil->cut);
    corpus_fini(&pupil->corpus);
    customer_close(pupil->customer);
    for (size_t i = 0; i < LESSON_PARTS; i++) {
        if (i < pupil->asked) sheet_fini(&pupil->sheets[i]);
        catalogue_table_fini(&pupil->wanted[i]);
        catalogue_table_fini(&pupil->found[i]);
    }
    free(pupil);
}

static int64_t next_us(void *state) {
    pupil *pupil = state;
    if (pupil->customer == NULL) return CLOCK_NEVER_US;
    int64_t due_us = van_due_us(customer_van(pupil->customer));
    return pupil->phase == COMPUTES && pupil->until_us < due_us ? pupil->until_us : due_us;
}

/* What it asks for goes with the turn behind it. */
static void tick(void *state, int64_t now_us) {
    pupil *pupil = state;
    van *van = customer_van(pupil->customer);
    van_turn(van);
    go_on(pupil);
    van_turn(van);
}

const sim_program school_worker_program = {"worker", start, stop, next_us, tick};
