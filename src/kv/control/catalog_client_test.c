/* catalog_client_test.c — the catalog is changed by compare-and-swap, despite lost answers and concurrent changes. */
#include "kv/control/catalog_client.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "base/error.h"

/* A metadata store of one value; `serve` answers a request. */
typedef struct control {
    uint8_t *value;
    size_t size;
    uint64_t version;
    metadata_store_done_fn *done; /* pending request */
    void *argument;
    metadata_store_answer answer;
    uint8_t *wanted; /* new value of a compare-and-swap */
    size_t wanted_size;
    bool swaps;
} control;

static void get(void *self, const char *key, uint64_t known, metadata_store_done_fn *done, void *argument) {
    control *client = self;
    assert_string_equal(key, TABLE_CATALOG_KEY);
    assert_null(client->done);
    client->done = done;
    client->argument = argument;
    client->swaps = false;
}

static void swap(void *self, const char *key, uint64_t expected, span value, uint64_t lease,
                 metadata_store_done_fn *done, void *argument) {
    control *client = self;
    get(self, key, 0, done, argument);
    client->swaps = true;
    client->answer.version = expected;
    client->wanted = xmalloc(value.size);
    client->wanted_size = value.size;
    memcpy(client->wanted, value.data, value.size);
}

static const metadata_store_ops ops = {.name = "office", .get = get, .compare_and_swap = swap};

static void answer(control *client, metadata_store_answer answer) {
    metadata_store_done_fn *done = client->done;
    client->done = NULL;
    assert_non_null(done);
    done(client->argument, &answer);
}

/* Executes the pending request; `lost`: reports MR_TIMEOUT instead of the result. */
static void serve(control *client, bool lost) {
    metadata_store_answer said = {.status = MR_OK, .version = client->version, .value = {client->value, client->size}};
    if (client->swaps) {
        bool right = client->answer.version == client->version;
        said = (metadata_store_answer){.status = right ? MR_OK : MR_STALE};
        if (right) {
            free(client->value);
            client->value = client->wanted;
            client->size = client->wanted_size;
            client->version++;
        } else {
            free(client->wanted);
        }
    }
    answer(client, lost ? (metadata_store_answer){.status = MR_TIMEOUT} : said);
}

static mr_status add_one(void *argument, table_catalog *catalog, bool *changed) {
    if (table_catalog_find(catalog, argument) != NULL) return MR_OK;
    table_catalog_table table;
    MR_TRY(table_catalog_table_init(&table, argument, &(mr_ps_table_options){0}));
    mr_status status = table_catalog_add(catalog, &table);
    table_catalog_table_fini(&table);
    *changed = true;
    return status;
}

static mr_status refuse(void *argument, table_catalog *catalog, bool *changed) {
    return error_set(MR_DENIED, "not this one");
}

static uint32_t tables_in(const control *client) {
    table_catalog catalog;
    assert_int_equal(table_catalog_decode(span_of(client->value, client->size), &catalog), MR_OK);
    uint32_t count = catalog.count;
    table_catalog_fini(&catalog);
    return count;
}

static void an_edit_is_decided(void **state) {
    control client = {0};
    char name[] = "one";
    cas_update *ask = catalog_client_begin((metadata_store){&ops, &client}, &(catalog_client_ask){add_one, name});
    assert_int_equal(cas_update_status(ask), MR_BUSY);
    serve(&client, false);
    assert_int_equal(cas_update_status(ask), MR_BUSY);
    serve(&client, false);
    assert_int_equal(cas_update_status(ask), MR_OK);
    cas_update_end(ask);
    assert_int_equal(tables_in(&client), 1);
    free(client.value);
}

static void a_lost_answer_is_looked_up(void **state) {
    control client = {0};
    char name[] = "one";
    cas_update *ask = catalog_client_begin((metadata_store){&ops, &client}, &(catalog_client_ask){add_one, name});
    serve(&client, true);
    serve(&client, false);
    serve(&client, true); /* executed, but the answer is lost */
    serve(&client, false);
    assert_int_equal(cas_update_status(ask), MR_OK);
    assert_null(client.done);
    cas_update_end(ask);
    assert_int_equal(tables_in(&client), 1);
    free(client.value);
}

static void the_slower_of_two_writers_retries(void **state) {
    control client = {0};
    char mine[] = "mine", other[] = "other";
    cas_update *ask = catalog_client_begin((metadata_store){&ops, &client}, &(catalog_client_ask){add_one, mine});
    serve(&client, false);
    client.version++; /* another process was faster */
    serve(&client, false);
    assert_int_equal(cas_update_status(ask), MR_BUSY);
    serve(&client, false);
    serve(&client, false);
    assert_int_equal(cas_update_status(ask), MR_OK);
    cas_update_end(ask);
    ask = catalog_client_begin((metadata_store){&ops, &client}, &(catalog_client_ask){add_one, other});
    serve(&client, false);
    serve(&client, false);
    cas_update_end(ask);
    assert_int_equal(tables_in(&client), 2);
    free(client.value);
}

static void a_refusal_is_reported(void **state) {
    control client = {0};
    cas_update *ask = catalog_client_begin((metadata_store){&ops, &client}, &(catalog_client_ask){refuse, NULL});
    serve(&client, false);
    error_clear();
    assert_int_equal(cas_update_status(ask), MR_DENIED);
    assert_string_equal(mr_last_error(), "not this one");
    cas_update_end(ask);
    client.size = 1;
    client.value = xcalloc(1, 1);
    ask = catalog_client_begin((metadata_store){&ops, &client}, &(catalog_client_ask){refuse, NULL});
    serve(&client, false);
    assert_int_equal(cas_update_status(ask), MR_CORRUPT);
    cas_update_end(ask);
    ask = catalog_client_begin((metadata_store){&ops, &client}, &(catalog_client_ask){refuse, NULL});
    answer(&client, (metadata_store_answer){.status = MR_CLOSED});
    assert_int_equal(cas_update_status(ask), MR_CLOSED);
    cas_update_end(ask);
    free(client.value);
}

static void one_that_was_ended_goes_with_its_answer(void **state) {
    control client = {0};
    cas_update_end(catalog_client_begin((metadata_store){&ops, &client}, &(catalog_client_ask){refuse, NULL}));
    serve(&client, false); /* LeakSanitizer checks that the update is freed */
    assert_null(client.done);
    cas_update_end(catalog_client_begin((metadata_store){&ops, &client}, &(catalog_client_ask){refuse, NULL}));
    answer(&client, (metadata_store_answer){.status = MR_CLOSED});
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_edit_is_decided),
        cmocka_unit_test(a_lost_answer_is_looked_up),
        cmocka_unit_test(the_slower_of_two_writers_retries),
        cmocka_unit_test(a_refusal_is_reported),
        cmocka_unit_test(one_that_was_ended_goes_with_its_answer),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
