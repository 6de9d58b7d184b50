/* engine_norms_test.c — rounds over two slots that need norms, compared with plain arithmetic. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

#include "kv/engine/engine.h"
#include "kv/engine/slot_norms.h"
#include "kv/optim/l2_norm.h"
#include "tests/support/engine_fixture.h"
#include "tests/support/payload_builder.h"

enum { SLOTS = 2, BLOCK = 4 };

typedef struct scene {
    void *engine[SLOTS];
    payload_writer writer[SLOTS]; /* push of a rank for the next round */
    uint64_t moment;
    size_t phases; /* phases of the last round */
} scene;

static void begin(scene *scene, definition_options options) {
    *scene = (struct scene){0};
    for (int i = 0; i < SLOTS; i++) {
        scene->engine[i] = engine_ops.create(NULL, (uint32_t)i, true);
        payload_define(&scene->writer[i], options);
    }
}

static void finish(scene *scene) {
    for (int i = 0; i < SLOTS; i++) engine_ops.destroy(scene->engine[i]);
}

/* Sum of `ranks` equal contributions. */
static shared_bytes *sum_of(const void *engine, payload_writer *writer, uint32_t ranks) {
    void *sum = engine_ops.sum_begin(engine);
    for (uint32_t i = 0; i < ranks; i++) engine_ops.sum_add(sum, payload_written(writer));
    shared_bytes *bytes = shared_bytes_new(engine_ops.sum_size(sum));
    engine_ops.sum_write(sum, shared_bytes_room(bytes));
    engine_ops.sum_end(sum);
    payload_fini(writer);
    return bytes;
}

/* Closes a round as the heads of the slots and the round state do: a slot that needs no norms gets none. */
static void close_round(scene *scene, uint32_t ranks) {
    shared_bytes *sums[SLOTS], *norms = shared_bytes_new(0);
    bool needs[SLOTS] = {0};
    scene->moment++;
    scene->phases = 0;
    for (int i = 0; i < SLOTS; i++) sums[i] = sum_of(scene->engine[i], &scene->writer[i], ranks);
    for (bool any = true; any; scene->phases += any) {
        span parts[SLOTS] = {{0}};
        shared_bytes *bytes[SLOTS] = {0};
        any = false;
        for (int i = 0; i < SLOTS; i++) {
            if (scene->phases != 0 && !needs[i]) continue;
            bytes[i] = engine_ops.measure(scene->engine[i], shared_bytes_bytes(sums[i]), shared_bytes_bytes(norms),
                                          scene->moment);
            if (bytes[i] == NULL) continue;
            parts[i] = shared_bytes_bytes(bytes[i]);
            needs[i] = any = true;
        }
        shared_bytes *more = engine_ops.combine(NULL, parts, SLOTS);
        shared_bytes *both = shared_bytes_new(shared_bytes_bytes(norms).size + shared_bytes_bytes(more).size);
        if (shared_bytes_bytes(norms).size != 0)
            memcpy(shared_bytes_room(both), shared_bytes_bytes(norms).data, shared_bytes_bytes(norms).size);
        if (shared_bytes_bytes(more).size != 0)
            memcpy(shared_bytes_room(both) + shared_bytes_bytes(norms).size, shared_bytes_bytes(more).data,
                   shared_bytes_bytes(more).size);
        for (int i = 0; i < SLOTS; i++) shared_bytes_unref(bytes[i]);
        shared_bytes_unref(more);
        shared_bytes_unref(norms);
        norms = both;
    }
    for (int i = 0; i < SLOTS; i++) {
        if (needs[i])
            engine_ops.apply_normed(scene->engine[i], shared_bytes_bytes(sums[i]), shared_bytes_bytes(norms),
                                    scene->moment);
        else
            engine_ops.apply(scene->engine[i], shared_bytes_bytes(sums[i]), scene->moment);
        shared_bytes_unref(sums[i]);
    }
    shared_bytes_unref(norms);
}

static void push_row(scene *scene, int slot, uint64_t key, float value) {
    payload_rows(&scene->writer[slot], PAYLOAD_ADD_ROWS, 1, &key, 1, &value, 1);
}

/* First value of the answer to a query. */
static float shown(scene *scene, int slot, payload_writer *query) {
    shared_bytes *bytes = engine_ops.show(scene->engine[slot], payload_written(query), false);
    payload_reader reader = payload_open(shared_bytes_bytes(bytes));
    payload_section section;
    float value = (float)NAN;
    assert_true(payload_next(&reader, &section));
    if (section.values.size >= sizeof value) memcpy(&value, section.values.data, sizeof value);
    shared_bytes_unref(bytes);
    payload_fini(query);
    return value;
}

static float row_of(scene *scene, int slot, uint64_t key) {
    payload_writer query = {0};
    payload_keys(&query, PAYLOAD_GET_ROWS, 1, &key, 1);
    return shown(scene, slot, &query);
}

static uint64_t left_out(const scene *scene, int slot) {
    engine_look look;
    assert_int_equal(engine_look_at(scene->engine[slot], 0, &look, 1), 1);
    return look.now.left_out;
}

static void a_gradient_is_clipped_by_what_all_slots_have(void **state) {
    for (int average = 0; average < 2; average++) {
        scene scene;
        begin(&scene, (definition_options){.clip_norm = 2, .average = average});
        push_row(&scene, 0, 1, 1.5f); /* two ranks push 3 and 4: the norm is 5, that of the mean 2.5 */
        push_row(&scene, 1, 2, 2);
        close_round(&scene, 2);
        assert_int_equal(scene.phases, 1);
        float factor = average ? 0.5f * (float)(2 / 2.5) : (float)(2 / 5.0);
        assert_true(row_of(&scene, 0, 1) == factor * 3 && row_of(&scene, 1, 2) == factor * 4);
        push_row(&scene, 0, 3, 0.75f); /* below clip_norm, and nothing in the other slot */
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
    payload_rows(&scene.writer[0], PAYLOAD_SET_ROWS, 1, (const uint64_t[]){1}, 1, (const float[]){9}, 1);
    close_round(&scene, 1); /* assigned values are not clipped */
    assert_true(scene.phases == 0 && row_of(&scene, 0, 1) == 9);
    finish(&scene);
    begin(&scene, (definition_options){.optimizer = "lamb", .dim = 1}); /* each row has a norm of its own */
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
        float factor = refuse ? (float)(1 / 5.0) : 0; /* the other gradients are applied, or none is */
        assert_true(row_of(&scene, 0, 1) == 0 && row_of(&scene, 0, 2) == factor * 3);
        assert_true(row_of(&scene, 1, 3) == factor * 4);
        finish(&scene);
    }
}

static void push_block(scene *scene, int slot, uint32_t array, uint32_t block, float value) {
    const float values[BLOCK] = {value, value, value, value};
    payload_block(&scene->writer[slot], PAYLOAD_ADD_BLOCK, 1, (payload_place){array, block, BLOCK, 0}, values, BLOCK);
}

static float block_of(scene *scene, int slot, uint32_t array, uint32_t block) {
    payload_writer query = {0};
    payload_get_block(&query, 1, (payload_place){array, block, BLOCK, 0}, BLOCK);
    return shown(scene, slot, &query);
}

/* One item stands for a block, whose items are equal. */
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
        begin(&scene, (definition_options){.kind = TABLE_SCHEMA_DENSE,
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
            assert_int_equal(scene.phases, clips ? 2 : 1); /* the update is made from the clipped gradient */
            float scale = clips ? l2_norm_clip(4 * (1 + 9 + 0.25), 1) : 1;
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
    begin(&scene,
          (definition_options){.kind = TABLE_SCHEMA_DENSE, .block = BLOCK, .optimizer = "lamb", .clip_norm = 1});
    push_block(&scene, 0, 0, 0, 3);
    close_round(&scene, 1);
    shared_bytes *before = engine_fixture_bytes(scene.engine[0]);
    push_block(&scene, 0, 0, 0, 3);
    push_block(&scene, 0, 5, 7, 3); /* the array has no such block */
    shared_bytes *sum = sum_of(scene.engine[0], &scene.writer[0], 1);
    shared_bytes *part = engine_ops.measure(scene.engine[0], shared_bytes_bytes(sum), (span){0}, 2);
    assert_int_equal(shared_bytes_bytes(part).size, SLOT_NORMS_ITEM);
    shared_bytes *more = engine_ops.measure(scene.engine[0], shared_bytes_bytes(sum), shared_bytes_bytes(part), 2);
    assert_int_equal(shared_bytes_bytes(more).size, 2 * SLOT_NORMS_ITEM);
    assert_null(engine_ops.measure(scene.engine[0], span_of("noise", 5), (span){0}, 2));
    shared_bytes *after = engine_fixture_bytes(scene.engine[0]);
    assert_int_equal(shared_bytes_bytes(before).size, shared_bytes_bytes(after).size);
    assert_memory_equal(shared_bytes_bytes(before).data, shared_bytes_bytes(after).data,
                        shared_bytes_bytes(after).size);
    shared_bytes *const all[] = {before, after, sum, part, more};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) shared_bytes_unref(all[i]);
    finish(&scene);
}

static void without_rounds_there_is_no_such_table(void **state) {
    static const definition_options options[] = {{.clip_norm = 1},
                                                 {.kind = TABLE_SCHEMA_DENSE, .optimizer = "lamb", .block = BLOCK}};
    for (size_t i = 0; i < 2; i++) {
        void *engine = engine_ops.create(NULL, 0, false);
        payload_writer writer = {0};
        payload_define(&writer, options[i]);
        engine_ops.apply(engine, payload_written(&writer), 1);
        payload_fini(&writer);
        engine_look look;
        assert_int_equal(engine_look_at(engine, 0, &look, 1), 0);
        engine_ops.destroy(engine);
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
