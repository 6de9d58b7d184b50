/* lesson.h — a small training whose end is known: three tables, one of each kind, with a few weights by key in each.
 *
 * What a rank pushes is a function of its number, the step and the weights that it is shown, so whatever goes wrong
 * anywhere shows in the bits at the end: they are those of plain sums in one process. Where there are no rounds nobody
 * knows the order, and all push ones: each must have been counted once.
 *
 * It is the same whoever plays it: processes of this machine by shared memory or tcp (tests/support/ps_world.h), or
 * simulated ones (pupil.h). Pure. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "miniray/ps.h"

enum { LESSON_WIDTH = 5, LESSON_KEYS = 8 };
typedef enum lesson_part { LESSON_ROWS, LESSON_VECTORS, LESSON_ARRAY, LESSON_PARTS } lesson_part;
typedef float lesson_weights[LESSON_PARTS][LESSON_KEYS][LESSON_WIDTH];
enum { LESSON_ITEMS = LESSON_KEYS * LESSON_WIDTH }; /* of a part */

typedef struct lesson {
    uint32_t workers;
    bool rounds[LESSON_PARTS]; /* of tables of BSP */
} lesson;

void lesson_gradient(const lesson *lesson, uint32_t rank, uint64_t step, const lesson_weights shown,
                     lesson_weights out);
void lesson_reference(const lesson *lesson, uint64_t steps, lesson_weights out); /* after so many steps of all ranks */

typedef struct lesson_table {
    const char *name;
    mr_ps_array array; /* of the dense one: options.arrays */
    mr_ps_table_options options;
} lesson_table;
void lesson_tables(lesson_table out[LESSON_PARTS]); /* that do not move: options point to arrays in there */
void lesson_keys(uint64_t keys[LESSON_KEYS], uint32_t lengths[LESSON_KEYS]);
