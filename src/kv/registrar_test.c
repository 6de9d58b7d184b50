/* registrar_test.c — the catalogue is changed by compare-and-swap, whatever answers are lost and whoever is faster. */
#include "kv/registrar.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "base/error.h"

/* A coordinator of one value, which answers when it is told to. */
typedef struct office {
    uint8_t *value;
    size_t size;
    uint64_t version;
    coordinator_done_fn *done; /* the question that is open */
    void *argument;
    coordinator_answer answer;
    uint8_t *wanted; /* of a swap */
    size_t wanted_size;
    bool swaps;
} office;

static void get(void *self, const char *key, uint64_t known, coordinator_done_fn *done, void *argument) {
    office *office = self;
    assert_string_equal(key, CATALOGUE_KEY);
    assert_null(office->done);
    office->done = done;
    office->argument = argument;
    office->swaps = false;
}

static void swap(void *self, const char *key, uint64_t expected, span value, uint64_t lease, coordinator_done_fn *done,
                 void *argument) {
    office *office = self;
    get(self, key, 0, done, argument);
    office->swaps = true;
    office->answer.version = expected;
    office->wanted = xmalloc(value.size);
    office->wanted_size = value.size;
    memcpy(office->wanted, value.data, value.size);
}

static const coordinator_ops ops = {.name = "office", .get = get, .compare_and_swap = swap};

static void answer(office *office, coordinator_answer answer) {
    coordinator_done_fn *done = office->done;
    office->done = NULL;
    assert_non_null(done);
    done(office->argument, &answer);
}

/* Does what was asked; `lost`: and does not say so. */
static void serve(office *office, bool lost) {
    coordinator_answer said = {.status = MR_OK, .version = office->version, .value = {office->value, office->size}};
    if (office->swaps) {
        bool right = office->answer.version == office->version;
        said = (coordinator_answer){.status = right ? MR_OK : MR_STALE};
        if (right) {
            free(office->value);
            office->value = office->wanted;
            office->size = office->wanted_size;
            office->version++;
        } else {
            free(office->wanted);
        }
    }
    answer(office, lost ? (coordinator_answer){.status = MR_TIMEOUT} : said);
}

static mr_status add_one(void *argument, catalogue *catalogue, bool *changed) {
    if (catalogue_find(catalogue, argument) != NULL) return MR_OK;
    catalogue_table table;
    MR_TRY(catalogue_table_init(&table, argument, &(mr_ps_table_options){0}));
    mr_status status = catalogue_add(catalogue, &table);
    catalogue_table_fini(&table);
    *changed = true;
    return status;
}

static mr_status refuse(void *argument, catalogue *catalogue, bool *changed) {
    return error_set(MR_DENIED, "not this one");
}

static uint32_t tables_in(const office *office) {
    catalogue catalogue;
    assert_int_equal(catalogue_decode(span_of(office->value, office->size), &catalogue), MR_OK);
    uint32_t count = catalogue.count;
    catalogue_fini(&catalogue);
    return count;
}

static void an_edit_is_decided(void **state) {
    office office = {0};
    char name[] = "one";
    ballot *ask = registrar_begin((coordinator){&ops, &office}, &(registrar_ask){add_one, name});
    assert_int_equal(ballot_status(ask), MR_BUSY);
    serve(&office, false);
    assert_int_equal(ballot_status(ask), MR_BUSY);
    serve(&office, false);
    assert_int_equal(ballot_status(ask), MR_OK);
    ballot_end(ask);
    assert_int_equal(tables_in(&office), 1);
    free(office.value);
}

static void what_is_lost_is_looked_after(void **state) {
    office office = {0};
    char name[] = "one";
    ballot *ask = registrar_begin((coordinator){&ops, &office}, &(registrar_ask){add_one, name});
    serve(&office, true);
    serve(&office, false);
    serve(&office, true); /* decided, and nobody heard of it */
    serve(&office, false);
    assert_int_equal(ballot_status(ask), MR_OK);
    assert_null(office.done);
    ballot_end(ask);
    assert_int_equal(tables_in(&office), 1);
    free(office.value);
}

static void whoever_is_slower_tries_again(void **state) {
    office office = {0};
    char mine[] = "mine", other[] = "other";
    ballot *ask = registrar_begin((coordinator){&ops, &office}, &(registrar_ask){add_one, mine});
    serve(&office, false);
    office.version++; /* somebody else was faster */
    serve(&office, false);
    assert_int_equal(ballot_status(ask), MR_BUSY);
    serve(&office, false);
    serve(&office, false);
    assert_int_equal(ballot_status(ask), MR_OK);
    ballot_end(ask);
    ask = registrar_begin((coordinator){&ops, &office}, &(registrar_ask){add_one, other});
    serve(&office, false);
    serve(&office, false);
    ballot_end(ask);
    assert_int_equal(tables_in(&office), 2);
    free(office.value);
}

static void what_is_refused_is_said(void **state) {
    office office = {0};
    ballot *ask = registrar_begin((coordinator){&ops, &office}, &(registrar_ask){refuse, NULL});
    serve(&office, false);
    error_clear();
    assert_int_equal(ballot_status(ask), MR_DENIED);
    assert_string_equal(mr_last_error(), "not this one");
    ballot_end(ask);
    office.size = 1;
    office.value = xcalloc(1, 1);
    ask = registrar_begin((coordinator){&ops, &office}, &(registrar_ask){refuse, NULL});
    serve(&office, false);
    assert_int_equal(ballot_status(ask), MR_CORRUPT);
    ballot_end(ask);
    ask = registrar_begin((coordinator){&ops, &office}, &(registrar_ask){refuse, NULL});
    answer(&office, (coordinator_answer){.status = MR_CLOSED});
    assert_int_equal(ballot_status(ask), MR_CLOSED);
    ballot_end(ask);
    free(office.value);
}

static void one_that_was_ended_goes_with_its_answer(void **state) {
    office office = {0};
    ballot_end(registrar_begin((coordinator){&ops, &office}, &(registrar_ask){refuse, NULL}));
    serve(&office, false); /* the sanitizer sees whether it is gone */
    assert_null(office.done);
    ballot_end(registrar_begin((coordinator){&ops, &office}, &(registrar_ask){refuse, NULL}));
    answer(&office, (coordinator_answer){.status = MR_CLOSED});
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_edit_is_decided),
        cmocka_unit_test(what_is_lost_is_looked_after),
        cmocka_unit_test(whoever_is_slower_tries_again),
        cmocka_unit_test(what_is_refused_is_said),
        cmocka_unit_test(one_that_was_ended_goes_with_its_answer),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
