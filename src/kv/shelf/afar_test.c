/* afar_test.c — values that lie in the memory of another process: found, fetched, missed. */
#include "kv/shelf/afar.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

enum { SIZE = GLASS_FRONT + (1 << 20), ITEMS = 100, PROCESS = 77 };

typedef struct scene {
    glass *glass;
    glass_view view;
    float *values;
    uint64_t offset;
    afar_sight sight;
} scene;

static const glass_view *see(void *context, uint64_t process) {
    const scene *scene = context;
    return process == PROCESS ? &scene->view : NULL;
}

static void begin(scene *scene) {
    void *memory;
    assert_int_equal(glass_create(SIZE, &scene->glass), MR_OK);
    assert_int_equal(glass_take(scene->glass, ITEMS * sizeof(float), &memory), MR_OK);
    assert_int_equal(glass_look(glass_fd(scene->glass), &scene->view), MR_OK);
    assert_true(glass_holds(scene->glass, memory, ITEMS * sizeof(float), &scene->offset));
    scene->values = memory;
    for (int i = 0; i < ITEMS; i++) scene->values[i] = (float)i;
    scene->sight = (afar_sight){see, scene};
}

static void finish(scene *scene) {
    glass_look_away(&scene->view);
    glass_destroy(scene->glass);
}

static void add_afar(parcel_writer *writer, parcel_afar afar, uint32_t first, uint32_t count) {
    parcel_head head = {.table = 3, .op = PARCEL_ADD_BLOCK, .flags = PARCEL_AFAR, .dtype = MR_F32, .count = count};
    parcel_room room;
    assert_int_equal(parcel_add(writer, head, sizeof afar, &room), MR_OK);
    *room.place = (parcel_place){1, 2, ITEMS, first};
    memcpy(room.values, &afar, sizeof afar);
}

static void add_rows(parcel_writer *writer) {
    parcel_head head = {.table = 4, .op = PARCEL_ADD_ROWS, .dtype = MR_F32, .count = 1};
    parcel_room room;
    assert_int_equal(parcel_add(writer, head, 2 * sizeof(float), &room), MR_OK);
    room.keys[0] = 9;
    memcpy(room.values, (const float[]){5, 6}, 2 * sizeof(float));
}

static void what_is_seen_is_read_where_it_lies(void **state) {
    scene scene;
    parcel_writer writer = {0};
    parcel_section section;
    begin(&scene);
    add_afar(&writer, (parcel_afar){.process = PROCESS, .offset = scene.offset + 4}, 1, 50);
    parcel_reader reader = parcel_open(parcel_written(&writer));
    assert_true(parcel_next(&reader, &section));
    const float *values = afar_values(&scene.sight, &section, 50 * sizeof(float));
    assert_non_null(values);
    assert_memory_equal(values, scene.values + 1, 50 * sizeof(float));
    assert_null(afar_values(NULL, &section, 4));
    assert_null(afar_values(&scene.sight, &section, SIZE));
    section.afar.process++;
    assert_null(afar_values(&scene.sight, &section, 4));
    parcel_fini(&writer);
    finish(&scene);
}

static void what_is_fetched_has_the_values_in_it(void **state) {
    scene scene;
    parcel_writer writer = {0};
    parcel_section section;
    bale *fetched = NULL;
    begin(&scene);
    add_rows(&writer);
    add_afar(&writer, (parcel_afar){.process = PROCESS, .offset = scene.offset + 8}, 2, 30);
    add_rows(&writer);
    assert_true(afar_speaks(parcel_written(&writer)));
    assert_true(afar_is_there(&scene.sight, parcel_written(&writer)));
    assert_int_equal(afar_fetch(&scene.sight, parcel_written(&writer), &fetched), MR_OK);
    memset(scene.values, 0, ITEMS * sizeof(float)); /* it is read once, and that was then */
    assert_int_equal(parcel_check(bale_bytes(fetched)), MR_OK);
    parcel_reader reader = parcel_open(bale_bytes(fetched));
    for (int i = 0; i < 3; i++) {
        assert_true(parcel_next(&reader, &section));
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
    assert_false(parcel_next(&reader, &section));
    bale_unref(fetched);
    parcel_fini(&writer);
    finish(&scene);
}

static void what_speaks_of_nothing_stays_as_it_is(void **state) {
    scene scene;
    parcel_writer writer = {0};
    bale *fetched = NULL;
    begin(&scene);
    add_rows(&writer);
    assert_false(afar_speaks(parcel_written(&writer)));
    assert_true(afar_is_there(NULL, parcel_written(&writer)));
    assert_int_equal(afar_fetch(NULL, parcel_written(&writer), &fetched), MR_OK);
    assert_null(fetched);
    assert_int_equal(afar_fetch(NULL, (span){0}, &fetched), MR_OK);
    assert_null(fetched);
    static const uint8_t rubbish[24] = {0xff, 0xff, 0xff, 0xff, 0xff, 0xff};
    assert_true(afar_is_there(&scene.sight, span_of(rubbish, sizeof rubbish)));
    parcel_fini(&writer);
    finish(&scene);
}

static void what_is_not_seen_is_not_there(void **state) {
    scene scene;
    parcel_writer writer = {0};
    bale *fetched = NULL;
    begin(&scene);
    add_afar(&writer, (parcel_afar){.process = PROCESS, .offset = scene.offset}, 0, 10);
    add_afar(&writer, (parcel_afar){.process = PROCESS, .offset = SIZE - 8}, 0, 10); /* beyond its end */
    assert_false(afar_is_there(&scene.sight, parcel_written(&writer)));
    assert_int_equal(afar_fetch(&scene.sight, parcel_written(&writer), &fetched), MR_NOT_FOUND);
    assert_int_equal(afar_fetch(NULL, parcel_written(&writer), &fetched), MR_NOT_FOUND);
    assert_null(fetched);
    parcel_fini(&writer);
    finish(&scene);
}

/* Rows have no such values; what is said of them has to be whole; numbers lie where numbers may. */
static void only_blocks_lie_elsewhere(void **state) {
    parcel_writer writer = {0};
    parcel_room room;
    parcel_afar afar = {.process = PROCESS, .offset = GLASS_FRONT + 2};
    parcel_head rows = {.table = 4, .op = PARCEL_ADD_ROWS, .flags = PARCEL_AFAR, .dtype = MR_F32, .count = 1};
    assert_int_equal(parcel_add(&writer, rows, sizeof afar, &room), MR_OK);
    room.keys[0] = 1;
    memcpy(room.values, &afar, sizeof afar);
    assert_int_equal(parcel_check(parcel_written(&writer)), MR_CORRUPT);
    parcel_fini(&writer);
    add_afar(&writer, afar, 0, 4);
    assert_int_equal(parcel_check(parcel_written(&writer)), MR_CORRUPT);
    parcel_fini(&writer);
    afar.offset += 2;
    add_afar(&writer, afar, 0, 4);
    assert_int_equal(parcel_check(parcel_written(&writer)), MR_OK);
    parcel_trim(&writer, 8);
    assert_int_equal(parcel_check(parcel_written(&writer)), MR_CORRUPT);
    parcel_fini(&writer);
    parcel_head half = {.table = 3, .op = PARCEL_ADD_BLOCK, .flags = PARCEL_AFAR, .dtype = MR_F16, .count = 4};
    assert_int_equal(parcel_add(&writer, half, sizeof afar, &room), MR_OK);
    *room.place = (parcel_place){1, 2, ITEMS, 0};
    memcpy(room.values, &afar, sizeof afar);
    assert_int_equal(parcel_check(parcel_written(&writer)), MR_CORRUPT);
    parcel_fini(&writer);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_seen_is_read_where_it_lies),
        cmocka_unit_test(what_is_fetched_has_the_values_in_it),
        cmocka_unit_test(what_speaks_of_nothing_stays_as_it_is),
        cmocka_unit_test(what_is_not_seen_is_not_there),
        cmocka_unit_test(only_blocks_lie_elsewhere),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
