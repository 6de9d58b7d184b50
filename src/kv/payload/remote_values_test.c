/* remote_values_test.c — remote values are found and fetched; unreadable references are reported. */
#include "kv/payload/remote_values.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

enum { SIZE = SHM_EXPORT_FRONT + (1 << 20), ITEMS = 100, PROCESS = 77 };

typedef struct scene {
    shm_export *export;
    shm_import import;
    float *values;
    uint64_t offset;
    remote_values_map_view map_view;
} scene;

static const shm_import *see(void *context, uint64_t process) {
    const scene *scene = context;
    return process == PROCESS ? &scene->import : NULL;
}

static void begin(scene *scene) {
    void *memory;
    assert_int_equal(shm_export_create(SIZE, &scene->export), MR_OK);
    assert_int_equal(shm_export_take(scene->export, ITEMS * sizeof(float), &memory), MR_OK);
    assert_int_equal(shm_import_open(shm_export_fd(scene->export), &scene->import), MR_OK);
    assert_true(shm_export_holds(scene->export, memory, ITEMS * sizeof(float), &scene->offset));
    scene->values = memory;
    for (int i = 0; i < ITEMS; i++) scene->values[i] = (float)i;
    scene->map_view = (remote_values_map_view){see, scene};
}

static void finish(scene *scene) {
    shm_import_close(&scene->import);
    shm_export_destroy(scene->export);
}

static void add_afar(payload_writer *writer, payload_afar afar, uint32_t first, uint32_t count) {
    payload_head head = {.table = 3, .op = PAYLOAD_ADD_BLOCK, .flags = PAYLOAD_AFAR, .dtype = MR_F32, .count = count};
    payload_room room;
    assert_int_equal(payload_add(writer, head, sizeof afar, &room), MR_OK);
    *room.place = (payload_place){1, 2, ITEMS, first};
    memcpy(room.values, &afar, sizeof afar);
}

static void add_rows(payload_writer *writer) {
    payload_head head = {.table = 4, .op = PAYLOAD_ADD_ROWS, .dtype = MR_F32, .count = 1};
    payload_room room;
    assert_int_equal(payload_add(writer, head, 2 * sizeof(float), &room), MR_OK);
    room.keys[0] = 9;
    memcpy(room.values, (const float[]){5, 6}, 2 * sizeof(float));
}

static void mapped_values_are_read_in_place(void **state) {
    scene scene;
    payload_writer writer = {0};
    payload_section section;
    begin(&scene);
    add_afar(&writer, (payload_afar){.process = PROCESS, .offset = scene.offset + 4}, 1, 50);
    payload_reader reader = payload_open(payload_written(&writer));
    assert_true(payload_next(&reader, &section));
    const float *values = remote_values_values(&scene.map_view, &section, 50 * sizeof(float));
    assert_non_null(values);
    assert_memory_equal(values, scene.values + 1, 50 * sizeof(float));
    assert_null(remote_values_values(NULL, &section, 4));
    assert_null(remote_values_values(&scene.map_view, &section, SIZE));
    section.afar.process++;
    assert_null(remote_values_values(&scene.map_view, &section, 4));
    payload_fini(&writer);
    finish(&scene);
}

static void fetched_payloads_contain_the_values(void **state) {
    scene scene;
    payload_writer writer = {0};
    payload_section section;
    shared_bytes *fetched = NULL;
    begin(&scene);
    add_rows(&writer);
    add_afar(&writer, (payload_afar){.process = PROCESS, .offset = scene.offset + 8}, 2, 30);
    add_rows(&writer);
    assert_true(remote_values_speaks(payload_written(&writer)));
    assert_true(remote_values_is_there(&scene.map_view, payload_written(&writer)));
    assert_int_equal(remote_values_fetch(&scene.map_view, payload_written(&writer), &fetched), MR_OK);
    memset(scene.values, 0, ITEMS * sizeof(float)); /* a fetched copy does not change */
    assert_int_equal(payload_check(shared_bytes_bytes(fetched)), MR_OK);
    payload_reader reader = payload_open(shared_bytes_bytes(fetched));
    for (int i = 0; i < 3; i++) {
        assert_true(payload_next(&reader, &section));
        assert_int_equal(section.flags, 0);
        if (i != 1) {
            assert_int_equal(section.keys[0], 9);
            assert_memory_equal(section.values.data, ((const float[]){5, 6}), 2 * sizeof(float));
            continue;
        }
        assert_int_equal(section.place.first, 2);
        assert_int_equal(section.values.size, 30 * sizeof(float));
        for (int k = 0; k < 30; k++) {
            float value;
            memcpy(&value, section.values.data + k * sizeof value, sizeof value);
            assert_true(value == (float)(k + 2));
        }
    }
    assert_false(payload_next(&reader, &section));
    shared_bytes_unref(fetched);
    payload_fini(&writer);
    finish(&scene);
}

static void payloads_without_references_stay_unchanged(void **state) {
    scene scene;
    payload_writer writer = {0};
    shared_bytes *fetched = NULL;
    begin(&scene);
    add_rows(&writer);
    assert_false(remote_values_speaks(payload_written(&writer)));
    assert_true(remote_values_is_there(NULL, payload_written(&writer)));
    assert_int_equal(remote_values_fetch(NULL, payload_written(&writer), &fetched), MR_OK);
    assert_null(fetched);
    assert_int_equal(remote_values_fetch(NULL, (span){0}, &fetched), MR_OK);
    assert_null(fetched);
    static const uint8_t rubbish[24] = {0xff, 0xff, 0xff, 0xff, 0xff, 0xff};
    assert_true(remote_values_is_there(&scene.map_view, span_of(rubbish, sizeof rubbish)));
    payload_fini(&writer);
    finish(&scene);
}

static void values_outside_the_mapping_are_missing(void **state) {
    scene scene;
    payload_writer writer = {0};
    shared_bytes *fetched = NULL;
    begin(&scene);
    add_afar(&writer, (payload_afar){.process = PROCESS, .offset = scene.offset}, 0, 10);
    add_afar(&writer, (payload_afar){.process = PROCESS, .offset = SIZE - 8}, 0, 10); /* beyond the end of the export */
    assert_false(remote_values_is_there(&scene.map_view, payload_written(&writer)));
    assert_int_equal(remote_values_fetch(&scene.map_view, payload_written(&writer), &fetched), MR_NOT_FOUND);
    assert_int_equal(remote_values_fetch(NULL, payload_written(&writer), &fetched), MR_NOT_FOUND);
    assert_null(fetched);
    payload_fini(&writer);
    finish(&scene);
}

/* Only blocks have remote values; a reference must be complete and aligned. */
static void only_blocks_lie_elsewhere(void **state) {
    payload_writer writer = {0};
    payload_room room;
    payload_afar afar = {.process = PROCESS, .offset = SHM_EXPORT_FRONT + 2};
    payload_head rows = {.table = 4, .op = PAYLOAD_ADD_ROWS, .flags = PAYLOAD_AFAR, .dtype = MR_F32, .count = 1};
    assert_int_equal(payload_add(&writer, rows, sizeof afar, &room), MR_OK);
    room.keys[0] = 1;
    memcpy(room.values, &afar, sizeof afar);
    assert_int_equal(payload_check(payload_written(&writer)), MR_CORRUPT);
    payload_fini(&writer);
    add_afar(&writer, afar, 0, 4);
    assert_int_equal(payload_check(payload_written(&writer)), MR_CORRUPT);
    payload_fini(&writer);
    afar.offset += 2;
    add_afar(&writer, afar, 0, 4);
    assert_int_equal(payload_check(payload_written(&writer)), MR_OK);
    payload_trim(&writer, 8);
    assert_int_equal(payload_check(payload_written(&writer)), MR_CORRUPT);
    payload_fini(&writer);
    payload_head half = {.table = 3, .op = PAYLOAD_ADD_BLOCK, .flags = PAYLOAD_AFAR, .dtype = MR_F16, .count = 4};
    assert_int_equal(payload_add(&writer, half, sizeof afar, &room), MR_OK);
    *room.place = (payload_place){1, 2, ITEMS, 0};
    memcpy(room.values, &afar, sizeof afar);
    assert_int_equal(payload_check(payload_written(&writer)), MR_CORRUPT);
    payload_fini(&writer);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(mapped_values_are_read_in_place),
        cmocka_unit_test(fetched_payloads_contain_the_values),
        cmocka_unit_test(payloads_without_references_stay_unchanged),
        cmocka_unit_test(values_outside_the_mapping_are_missing),
        cmocka_unit_test(only_blocks_lie_elsewhere),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
