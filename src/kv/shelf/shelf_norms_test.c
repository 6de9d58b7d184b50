/* shelf_norms_test.c — a round that needs norms, in two slots: measured, combined, applied; beside plain arithmetic. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

#include "kv/optim/norm.h"
#include "kv/shelf/lengths.h"
#include "kv/shelf/shelf.h"
#include "tests/support/parcels.h"
#include "tests/support/shelves.h"

enum { SLOTS = 2, BLOCK = 4 };

typedef struct scene {
    void *shelf[SLOTS];
    parcel_writer writer[SLOTS]; /* what a rank pushes in the next round */
    uint64_t moment;
    size_t phases; /* that the last round took */
} scene;

static void begin(scene *scene, definition_options options) {
    *scene = (struct scene){0};
    for (int i = 0; i < SLOTS; i++) {
        scene->shelf[i] = shelf_ops.create(NULL, (uint32_t)i, true);
        parcels_define(&scene->writer[i], options);
    }
}

static void finish(scene *scene) {
    for (int i = 0; i < SLOTS; i++) shelf_ops.destroy(scene->shelf[i]);
}

/* Of so many ranks that all push the same. */
static bale *sum_of(parcel_writer *writer, uint32_t ranks) {
    void *sum = shelf_ops.sum_begin(NULL, 0);
    for (uint32_t i = 0; i < ranks; i++) shelf_ops.sum_add(sum, parcel_written(writer));
    bale *bale = bale_new(shelf_ops.sum_size(sum));
    shelf_ops.sum_write(sum, bale_room(bale));
    shelf_ops.sum_end(sum);
    parcel_fini(writer);
    return bale;
}

/* As the heads of the slots and the ledger do it. A slot that asks for nothing is told nothing. */
static void close_round(scene *scene, uint32_t ranks) {
    bale *sums[SLOTS], *norms = bale_new(0);
    bool needs[SLOTS] = {0};
    scene->moment++;
    scene->phases = 0;
    for (int i = 0; i < SLOTS; i++) sums[i] = sum_of(&scene->writer[i], ranks);
    for (bool any = true; any; scene->phases += any) {
        span parts[SLOTS] = {{0}};
        bale *bales[SLOTS] = {0};
        any = false;
        for (int i = 0; i < SLOTS; i++) {
            if (scene->phases != 0 && !needs[i]) continue;
            bales[i] = shelf_ops.measure(scene->shelf[i], bale_bytes(sums[i]), bale_bytes(norms), scene->moment);
            if (bales[i] == NULL) continue;
            parts[i] = bale_bytes(bales[i]);
            needs[i] = any = true;
        }
        bale *more = shelf_ops.combine(NULL, parts, SLOTS);
        bale *both = bale_new(bale_bytes(norms).size + bale_bytes(more).size);
        if (bale_bytes(norms).size != 0) memcpy(bale_room(both), bale_bytes(norms).data, bale_bytes(norms).size);
        if (bale_bytes(more).size != 0)
            memcpy(bale_room(both) + bale_bytes(norms).size, bale_bytes(more).data, bale_bytes(more).size);
        for (int i = 0; i < SLOTS; i++) bale_unref(bales[i]);
        bale_unref(more);
        bale_unref(norms);
        norms = both;
    }
    for (int i = 0; i < SLOTS; i++) {
        if (needs[i])
            shelf_ops.apply_normed(scene->shelf[i], bale_bytes(sums[i]), bale_bytes(norms), scene->moment);
        else
            shelf_ops.apply(scene->shelf[i], bale_bytes(sums[i]), scene->moment);
        bale_unref(sums[i]);
    }
    bale_unref(norms);
}

static void push_row(scene *scene, int slot, uint64_t key, float value) {
    parcels_rows(&scene->writer[slot], PARCEL_ADD_ROWS, 1, &key, 1, &value, 1);
}

/* The first of the values that a query shows. */
static float shown(scene *scene, int slot, parcel_writer *query) {
    bale *bale = shelf_ops.show(scene->shelf[slot], parcel_written(query), false);
    parcel_reader reader = parcel_open(bale_bytes(bale));
    parcel_section section;
    float value = (float)NAN;
    assert_true(parcel_next(&reader, &section));
    if (section.values.size >= sizeof value) memcpy(&value, section.values.data, sizeof value);
    bale_unref(bale);
    parcel_fini(query);
    return value;
}

static float row_of(scene *scene, int slot, uint64_t key) {
    parcel_writer query = {0};
    parcels_keys(&query, PARCEL_GET_ROWS, 1, &key, 1);
    return shown(scene, slot, &query);
}

static uint64_t left_out(const scene *scene, int slot) {
    shelf_look look;
    assert_int_equal(shelf_look_at(scene->shelf[slot], &look, 1), 1);
    return look.now.left_out;
}

static void a_gradient_is_clipped_by_what_all_slots_have(void **state) {
    for (int average = 0; average < 2; average++) {
        scene scene;
        begin(&scene, (definition_options){.clip_norm = 2, .average = average});
        push_row(&scene, 0, 1, 1.5f); /* of two ranks: 3, and 4; their norm is 5, that of the mean 2.5 */
        push_row(&scene, 1, 2, 2);
        close_round(&scene, 2);
        assert_int_equal(scene.phases, 1);
        float factor = average ? 0.5f * (float)(2 / 2.5) : (float)(2 / 5.0);
        assert_true(row_of(&scene, 0, 1) == factor * 3 && row_of(&scene, 1, 2) == factor * 4);
        push_row(&scene, 0, 3, 0.75f); /* short enough, and nothing in the other slot */
        close_round(&scene, 1);
        assert_true(row_of(&scene, 0, 3) == 0.75f && left_out(&scene, 0) == 0);
        finish(&scene);
    }
}

static void where_nothing_is_pushed_nothing_is_measured(void **state) {
    scene scene;
    begin(&scene, (definition_options){.clip_norm = 2});
    close_round(&scene, 1);
    assert_int_equal(scene.phases, 0);
    parcels_rows(&scene.writer[0], PARCEL_SET_ROWS, 1, (const uint64_t[]){1}, 1, (const float[]){9}, 1);
    close_round(&scene, 1); /* what is set is set */
    assert_true(scene.phases == 0 && row_of(&scene, 0, 1) == 9);
    finish(&scene);
    begin(&scene, (definition_options){.optimizer = "lamb", .dim = 1}); /* rows have norms of their own */
    push_row(&scene, 0, 1, 1);
    close_round(&scene, 1);
    assert_int_equal(scene.phases, 0);
    finish(&scene);
}

static void a_gradient_that_is_not_finite_is_left_out_everywhere(void **state) {
    for (int refuse = 0; refuse < 2; refuse++) {
        scene scene;
        begin(&scene, (definition_options){.clip_norm = 1, .refuse_nan = refuse});
        push_row(&scene, 0, 1, (float)NAN);
        push_row(&scene, 0, 2, 3);
        push_row(&scene, 1, 3, 4);
        close_round(&scene, 1);
        assert_true(left_out(&scene, 0) == 1 && left_out(&scene, 1) == (refuse ? 0 : 1));
        float factor = refuse ? (float)(1 / 5.0) : 0; /* the others go on, or nobody does */
        assert_true(row_of(&scene, 0, 1) == 0 && row_of(&scene, 0, 2) == factor * 3);
        assert_true(row_of(&scene, 1, 3) == factor * 4);
        finish(&scene);
    }
}

static void push_block(scene *scene, int slot, uint32_t array, uint32_t block, float value) {
    const float values[BLOCK] = {value, value, value, value};
    parcels_block(&scene->writer[slot], PARCEL_ADD_BLOCK, 1, (parcel_place){array, block, BLOCK, 0}, values, BLOCK);
}

static float block_of(scene *scene, int slot, uint32_t array, uint32_t block) {
    parcel_writer query = {0};
    parcels_get_block(&query, 1, (parcel_place){array, block, BLOCK, 0}, BLOCK);
    return shown(scene, slot, &query);
}

/* All items of a block are alike, so one stands for all. */
typedef struct item {
    float w, m, v;
} item;

static float update_of(item *item, float gradient, uint64_t t) {
    item->m = 0.9f * item->m + (float)(1 - (double)0.9f) * gradient;
    item->v = 0.999f * item->v + (float)(1 - (double)0.999f) * (gradient * gradient);
    float first = (float)(1 / (1 - pow((double)0.9f, (double)t)));
    float second = (float)(1 / sqrt(1 - pow((double)0.999f, (double)t)));
    return (item->m * first) / (sqrtf(item->v) * second + 1e-6f) + 0.1f * item->w;
}

static void an_array_has_one_ratio_whatever_slots_it_lies_in(void **state) {
    for (int clips = 0; clips < 2; clips++) {
        scene scene;
        begin(&scene, (definition_options){.kind = DEFINITION_DENSE,
                                           .block = BLOCK,
                                           .optimizer = "lamb",
                                           .initializer = "constant:2",
                                           .decay = 0.1,
                                           .rate = 0.5,
                                           .clip_norm = clips ? 1 : 0});
        item items[2] = {{.w = 2}, {.w = 2}}, other = {.w = 2};
        for (uint64_t t = 1; t <= 3; t++) {
            const float gradients[2] = {1, -3}, of_other = 0.5f;
            push_block(&scene, 0, 0, 0, gradients[0]);
            push_block(&scene, 1, 0, 1, gradients[1]);
            push_block(&scene, 1, 1, 0, of_other);
            close_round(&scene, 1);
            assert_int_equal(scene.phases, clips ? 2 : 1); /* the update is that of the clipped gradient */
            float scale = clips ? norm_clip(4 * (1 + 9 + 0.25), 1) : 1;
            double of_w = 0, of_u = 0;
            float updates[2];
            for (int i = 0; i < 2; i++) {
                updates[i] = update_of(&items[i], scale * gradients[i], t);
                of_w += BLOCK * (double)items[i].w * (double)items[i].w;
                of_u += BLOCK * (double)updates[i] * (double)updates[i];
            }
            float trust = (float)(sqrt(of_w) / sqrt(of_u));
            for (int i = 0; i < 2; i++) items[i].w -= (0.5f * trust) * updates[i];
            float update = update_of(&other, scale * of_other, t), own = fabsf(other.w) / fabsf(update);
            other.w -= (0.5f * own) * update;
            for (int i = 0; i < 2; i++) assert_true(fabsf(block_of(&scene, i, 0, (uint32_t)i) - items[i].w) < 1e-5f);
            assert_true(fabsf(block_of(&scene, 1, 1, 0) - other.w) < 1e-5f);
        }
        finish(&scene);
    }
}

static void measuring_changes_nothing(void **state) {
    scene scene;
    begin(&scene, (definition_options){.kind = DEFINITION_DENSE, .block = BLOCK, .optimizer = "lamb", .clip_norm = 1});
    push_block(&scene, 0, 0, 0, 3);
    close_round(&scene, 1);
    bale *before = shelves_bytes(scene.shelf[0]);
    push_block(&scene, 0, 0, 0, 3);
    push_block(&scene, 0, 5, 7, 3); /* a block that is not there */
    bale *sum = sum_of(&scene.writer[0], 1);
    bale *part = shelf_ops.measure(scene.shelf[0], bale_bytes(sum), (span){0}, 2);
    assert_int_equal(bale_bytes(part).size, LENGTHS_ITEM);
    bale *more = shelf_ops.measure(scene.shelf[0], bale_bytes(sum), bale_bytes(part), 2);
    assert_int_equal(bale_bytes(more).size, 2 * LENGTHS_ITEM);
    assert_null(shelf_ops.measure(scene.shelf[0], span_of("noise", 5), (span){0}, 2));
    bale *after = shelves_bytes(scene.shelf[0]);
    assert_int_equal(bale_bytes(before).size, bale_bytes(after).size);
    assert_memory_equal(bale_bytes(before).data, bale_bytes(after).data, bale_bytes(after).size);
    bale *const all[] = {before, after, sum, part, more};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) bale_unref(all[i]);
    finish(&scene);
}

static void without_rounds_there_is_no_such_table(void **state) {
    static const definition_options options[] = {{.clip_norm = 1},
                                                 {.kind = DEFINITION_DENSE, .optimizer = "lamb", .block = BLOCK}};
    for (size_t i = 0; i < 2; i++) {
        void *shelf = shelf_ops.create(NULL, 0, false);
        parcel_writer writer = {0};
        parcels_define(&writer, options[i]);
        shelf_ops.apply(shelf, parcel_written(&writer), 1);
        parcel_fini(&writer);
        shelf_look look;
        assert_int_equal(shelf_look_at(shelf, &look, 1), 0);
        shelf_ops.destroy(shelf);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_gradient_is_clipped_by_what_all_slots_have),
        cmocka_unit_test(where_nothing_is_pushed_nothing_is_measured),
        cmocka_unit_test(a_gradient_that_is_not_finite_is_left_out_everywhere),
        cmocka_unit_test(an_array_has_one_ratio_whatever_slots_it_lies_in),
        cmocka_unit_test(measuring_changes_nothing),
        cmocka_unit_test(without_rounds_there_is_no_such_table),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
