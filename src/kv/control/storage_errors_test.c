/* storage_errors_test.c — a write error of the metadata storage is remembered until a write succeeds. */
#include "kv/control/storage_errors.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/error.h"

static bool is_full;
static int written;

static mr_status outcome(void) {
    if (is_full) return error_set(MR_NOMEM, "no room");
    written++;
    return MR_OK;
}

static mr_status load(void *self, metadata_storage_take_fn *take, void *context, uint64_t *generation) {
    *generation = 7;
    return MR_OK;
}
static mr_status save(void *self, const metadata_storage_content *content, size_t changed) { return outcome(); }
static mr_status begin(void *self, uint64_t generation) { return outcome(); }

static void failed_writes_are_recorded(void **state) {
    static const metadata_storage_ops ops = {.name = "below", .load = load, .save = save, .begin = begin};
    storage_errors errors = {.below = {&ops, NULL}};
    metadata_storage storage = storage_errors_storage(&errors);
    uint64_t generation = 0;
    assert_int_equal(storage.ops->load(storage.self, NULL, NULL, &generation), MR_OK);
    assert_true(generation == 7 && errors.trouble[0] == '\0');
    is_full = true;
    assert_int_equal(storage.ops->save(storage.self, &(metadata_storage_content){0}, 0), MR_NOMEM);
    assert_string_equal(errors.trouble, "no room");
    is_full = false;
    assert_int_equal(storage.ops->begin(storage.self, 8), MR_OK);
    assert_string_equal(errors.trouble, "");
    is_full = true;
    assert_int_equal(storage.ops->begin(storage.self, 9), MR_NOMEM);
    assert_string_equal(errors.trouble, "no room");
    is_full = false;
    assert_int_equal(storage.ops->save(storage.self, &(metadata_storage_content){0}, 0), MR_OK);
    assert_true(errors.trouble[0] == '\0' && written == 2);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(failed_writes_are_recorded)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
