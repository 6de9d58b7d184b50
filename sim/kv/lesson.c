/* lesson.c — see lesson.h. */
#include "sim/kv/lesson.h"

#include <string.h>

void lesson_gradient(const lesson *lesson, uint32_t rank, uint64_t step, const lesson_weights shown,
                     lesson_weights out) {
    for (size_t part = 0; part < LESSON_PARTS; part++)
        for (size_t key = 0; key < LESSON_KEYS; key++)
            for (size_t i = 0; i < LESSON_WIDTH; i++) {
                float target = (float)((part + key * 7 + i * 3 + 1) % 11) / 3.0f;
                float noise = (float)((step * 31 + rank * 17 + i * 5 + key) % 23) / 97.0f;
                float wanted = (target + noise - shown[part][key][i]) * 0.05f / (float)(rank + 1);
                out[part][key][i] = lesson->rounds[part] ? wanted : 1;
            }
}

static void add(float *to, const float *more) {
    for (size_t i = 0; i < sizeof(lesson_weights) / sizeof(float); i++) to[i] += more[i];
}

void lesson_reference(const lesson *lesson, uint64_t steps, lesson_weights out) {
    memset(out, 0, sizeof(lesson_weights));
    for (uint64_t step = 0; step < steps; step++) {
        lesson_weights sum = {0}, part;
        for (uint32_t rank = 0; rank < lesson->workers; rank++) {
            lesson_gradient(lesson, rank, step, out, part);
            add(&sum[0][0][0], &part[0][0][0]);
        }
        add(&out[0][0][0], &sum[0][0][0]);
    }
}

/* In blocks that are shorter than rows, so that many slots have some. */
void lesson_tables(lesson_table out[LESSON_PARTS]) {
    out[LESSON_ROWS] = (lesson_table){
        .name = "rows", .options = MR_OPTIONS(mr_ps_table_options, .kind = MR_PS_SPARSE, .dim = LESSON_WIDTH)};
    out[LESSON_VECTORS] =
        (lesson_table){.name = "vectors", .options = MR_OPTIONS(mr_ps_table_options, .kind = MR_PS_VECTORS)};
    out[LESSON_ARRAY] =
        (lesson_table){.name = "array",
                       .array = {.name = "weights", .dims = 2, .shape = {LESSON_KEYS, LESSON_WIDTH}},
                       .options = MR_OPTIONS(mr_ps_table_options, .kind = MR_PS_DENSE, .array_count = 1, .block = 3)};
    out[LESSON_ARRAY].options.arrays = &out[LESSON_ARRAY].array;
}

void lesson_keys(uint64_t keys[LESSON_KEYS], uint32_t lengths[LESSON_KEYS]) {
    for (uint32_t i = 0; i < LESSON_KEYS; i++) {
        keys[i] = (uint64_t)i * i + 3;
        lengths[i] = LESSON_WIDTH;
    }
}
