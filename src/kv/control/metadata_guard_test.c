/* metadata_guard_test.c — keys and values that other processes may write. */
#include "kv/control/metadata_guard.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "cluster/consumer_group.h"
#include "kv/control/barrier_server.h"
#include "kv/control/catalog_log.h"
#include "kv/control/dataset_spec.h"
#include "ps/cluster_map.h"

static span text(const char *text) { return span_of(text, strlen(text)); }

static void decisions_of_the_scheduler_are_its_own(void **state) {
    static const char *const keys[] = {CLUSTER_MAP_KEY,
                                       CONSUMER_GROUP_KEY,
                                       BARRIER_SERVER_KEY,
                                       CATALOG_LOG_KEY,
                                       "stopped",
                                       "view",
                                       "",
                                       "table",
                                       "tables2",
                                       "dat",
                                       "Incarnation"};
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        assert_int_equal(metadata_guard_check(text(keys[i]), text("")), MR_DENIED);
    assert_int_equal(metadata_guard_check(text("incarnation17"), text("")), MR_OK);
    assert_int_equal(metadata_guard_check(text("incarnation17"), text("any")), MR_OK);
}

static void values_are_well_formed(void **state) {
    uint8_t bytes[64];
    dataset_spec spec;
    assert_int_equal(metadata_guard_check(text(DATASET_SPEC_KEY), text("garbage that no version wrote")), MR_CORRUPT);
    assert_int_equal(metadata_guard_check(text(DATASET_SPEC_KEY), text("")), MR_CORRUPT);
    assert_int_equal(dataset_spec_init(&spec, (uint64_t[]){7}, 1), MR_OK);
    writer writer = writer_of(bytes, sizeof bytes);
    dataset_spec_encode(&spec, &writer);
    assert_false(writer.failed);
    assert_int_equal(metadata_guard_check(text(DATASET_SPEC_KEY), span_of(bytes, writer_size(&writer))), MR_OK);
    dataset_spec_fini(&spec);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(decisions_of_the_scheduler_are_its_own),
        cmocka_unit_test(values_are_well_formed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
