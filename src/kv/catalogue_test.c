/* catalogue_test.c — tables are listed, ids are given once, bytes come back as they went, damage is noticed. */
#include "kv/catalogue.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/alloc.h"

static const mr_ps_array arrays[] = {{.name = "w", .dims = 2, .shape = {3, 4}}, {.name = "b"}};

static catalogue_table table_of(const char *name, mr_ps_table_options options) {
    catalogue_table table;
    assert_int_equal(catalogue_table_init(&table, name, &options), MR_OK);
    return table;
}

static void add(catalogue *catalogue, const char *name, mr_ps_table_options options) {
    catalogue_table table = table_of(name, options);
    assert_int_equal(catalogue_add(catalogue, &table), MR_OK);
    catalogue_table_fini(&table);
}

static catalogue some_tables(void) {
    catalogue catalogue = {0};
    add(&catalogue, "rows",
        (mr_ps_table_options){.dim = 7, .optimizer = "adam", .schedule = "cosine:100", .consistency = "ssp:4"});
    add(&catalogue, "vectors", (mr_ps_table_options){.kind = MR_PS_VECTORS});
    add(&catalogue, "dense", (mr_ps_table_options){.kind = MR_PS_DENSE, .arrays = arrays, .array_count = 2});
    return catalogue;
}

static uint8_t *bytes_of(const catalogue *catalogue, size_t *size) {
    *size = catalogue_size(catalogue);
    uint8_t *bytes = xmalloc(*size);
    writer writer = writer_of(bytes, *size);
    catalogue_encode(catalogue, &writer);
    assert_false(writer.failed);
    assert_int_equal(writer_size(&writer), *size);
    return bytes;
}

static void bytes_come_back_as_they_went(void **state) {
    catalogue catalogue = some_tables(), read;
    size_t size;
    uint8_t *bytes = bytes_of(&catalogue, &size);
    assert_int_equal(catalogue_decode(span_of(bytes, size), &read), MR_OK);
    assert_int_equal(read.count, 3);
    assert_int_equal(read.next, 4);
    for (uint32_t i = 0; i < read.count; i++) {
        assert_string_equal(read.tables[i].name, catalogue.tables[i].name);
        assert_int_equal(read.tables[i].definition.id, i + 1);
        assert_null(catalogue_table_differs(&read.tables[i], &catalogue.tables[i]));
        assert_string_equal(read.tables[i].schedule, catalogue.tables[i].schedule);
        assert_string_equal(read.tables[i].consistency, i == 0 ? "ssp:4" : "");
    }
    catalogue_fini(&read);
    for (size_t cut = 1; cut < size; cut++) assert_int_equal(catalogue_decode(span_of(bytes, cut), &read), MR_CORRUPT);
    assert_int_equal(catalogue_decode((span){0}, &read), MR_OK);
    assert_int_equal(read.count, 0);
    free(bytes);
    catalogue_fini(&catalogue);
}

static void an_id_is_given_once(void **state) {
    catalogue catalogue = some_tables();
    assert_true(catalogue_remove(&catalogue, 3));
    assert_false(catalogue_remove(&catalogue, 3));
    assert_null(catalogue_find(&catalogue, "dense"));
    add(&catalogue, "dense", (mr_ps_table_options){0});
    assert_int_equal(catalogue_find(&catalogue, "dense")->definition.id, 4);
    catalogue_fini(&catalogue);
}

static void what_differs_is_named(void **state) {
    const mr_ps_table_options plain = {.dim = 2}, dense = {.kind = MR_PS_DENSE, .arrays = arrays, .array_count = 1};
    mr_ps_table_options other = dense;
    catalogue_table a = table_of("a", plain), b = table_of("a", plain);
    assert_null(catalogue_table_differs(&a, &b));
    catalogue_table_fini(&b);
    b = table_of("a", (mr_ps_table_options){.dim = 3});
    assert_string_equal(catalogue_table_differs(&a, &b), "dim");
    catalogue_table_fini(&b);
    b = table_of("a", (mr_ps_table_options){.dim = 2, .dtype = MR_F16});
    assert_string_equal(catalogue_table_differs(&a, &b), "dtype");
    catalogue_table_fini(&b);
    b = table_of("a", (mr_ps_table_options){.dim = 2, .consistency = "asp"});
    assert_string_equal(catalogue_table_differs(&a, &b), "consistency");
    catalogue_table_fini(&a);
    catalogue_table_fini(&b);
    other.array_count = 2;
    a = table_of("a", dense);
    b = table_of("a", other);
    assert_string_equal(catalogue_table_differs(&a, &b), "arrays");
    catalogue_table_fini(&a);
    catalogue_table_fini(&b);
}

static void assert_refused(const char *name, mr_ps_table_options options, const char *words) {
    catalogue_table table;
    assert_int_equal(catalogue_table_init(&table, name, &options), MR_INVALID);
    if (strstr(mr_last_error(), words) == NULL) fprintf(stderr, "'%s' is not in: %s\n", words, mr_last_error());
    assert_non_null(strstr(mr_last_error(), words));
}

static void options_that_cannot_be_are_named(void **state) {
    static const mr_ps_array twice[] = {{.name = "w"}, {.name = "w"}}, bad[] = {{.name = "w", .dims = 9}};
    char name[MR_PS_NAME_MAX + 1] = {0};
    memset(name, 'x', MR_PS_NAME_MAX);
    assert_refused("", (mr_ps_table_options){0}, "needs a name");
    assert_refused(name, (mr_ps_table_options){0}, "longer than 63 bytes");
    assert_refused("a", (mr_ps_table_options){.optimizer = "magic"}, "magic");
    assert_refused("a", (mr_ps_table_options){.dtype = MR_U8}, "uint8");
    assert_refused("a", (mr_ps_table_options){.consistency = "ssp:x"}, "ssp:x");
    assert_refused("a", (mr_ps_table_options){.arrays = arrays, .array_count = 1}, "dense");
    assert_refused("a", (mr_ps_table_options){.kind = MR_PS_DENSE}, "'a' has 0 arrays; expected 1 to 1024");
    assert_refused("a", (mr_ps_table_options){.kind = MR_PS_DENSE, .arrays = twice, .array_count = 2}, "two arrays");
    assert_refused("a", (mr_ps_table_options){.kind = MR_PS_DENSE, .arrays = bad, .array_count = 1}, "dimensions");
}

static mr_status consistency_in(consistency_kind kind, bool mixed, const char *text, consistency *out) {
    const chart chart = {.consistency = {kind, 7}, .mixed = mixed, .slot_count = 5};
    catalogue_table table = table_of("a", (mr_ps_table_options){.consistency = text});
    mr_status status = catalogue_table_consistency(&table, &chart, out);
    catalogue_table_fini(&table);
    return status;
}

static void a_table_has_the_consistency_of_its_chart_or_its_own(void **state) {
    consistency found;
    assert_int_equal(consistency_in(CONSISTENCY_SSP, false, NULL, &found), MR_OK);
    assert_true(found.kind == CONSISTENCY_SSP && found.bound == 7);
    assert_int_equal(consistency_in(CONSISTENCY_SSP, false, "ssp:2", &found), MR_OK);
    assert_true(found.kind == CONSISTENCY_SSP && found.bound == 2);
    assert_int_equal(consistency_in(CONSISTENCY_ASP, false, "bsp", &found), MR_INVALID);
    assert_int_equal(consistency_in(CONSISTENCY_BSP, false, "asp", &found), MR_INVALID);
    assert_int_equal(consistency_in(CONSISTENCY_BSP, true, "asp", &found), MR_OK);
    assert_int_equal(consistency_in(CONSISTENCY_ASP, true, "bsp", &found), MR_OK);
    assert_int_equal(found.kind, CONSISTENCY_BSP);
}

static void there_is_a_bound(void **state) {
    catalogue catalogue = {0};
    catalogue_table table = table_of("x", (mr_ps_table_options){0});
    mr_status status = MR_OK;
    while (status == MR_OK) {
        snprintf(table.name, sizeof table.name, "table %u", catalogue.count);
        status = catalogue_add(&catalogue, &table);
    }
    assert_int_equal(status, MR_TOO_LARGE);
    assert_true(catalogue.count > 100 && catalogue_size(&catalogue) <= CATALOGUE_BYTES_MAX);
    catalogue_table_fini(&table);
    catalogue_fini(&catalogue);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bytes_come_back_as_they_went),
        cmocka_unit_test(an_id_is_given_once),
        cmocka_unit_test(what_differs_is_named),
        cmocka_unit_test(options_that_cannot_be_are_named),
        cmocka_unit_test(a_table_has_the_consistency_of_its_chart_or_its_own),
        cmocka_unit_test(there_is_a_bound),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
