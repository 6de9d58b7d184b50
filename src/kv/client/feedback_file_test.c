/* feedback_file_test.c — a replayed rank begins with the feedback of its step, or with none and a counted miss. */
#include "kv/client/feedback_file.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "base/rng.h"
#include "tests/support/temp_dir.h"

enum { RANK = 2, GENERATION = 77, STEPS = 40, KEYS = 30, ITEMS = 5000 };

typedef struct scene {
    char folder[TEMP_DIR_FOLDER_MAX], path[TEMP_DIR_FOLDER_MAX + 16];
} scene;

static void begin(scene *scene) {
    assert_true(temp_dir_folder(scene->folder));
    snprintf(scene->path, sizeof scene->path, "%s/rank", scene->folder);
}

static void finish(scene *scene) {
    char old[sizeof scene->path + 8];
    snprintf(old, sizeof old, "%s.old", scene->path);
    unlink(scene->path);
    unlink(old);
    assert_int_equal(rmdir(scene->folder), 0); /* the folder has no other files */
}

static feedback_file *open_feedback_file(const scene *scene, uint64_t generation, uint64_t step) {
    feedback_file *file = feedback_file_create(0);
    feedback_file_keep(file, scene->path);
    feedback_file_begin(file, RANK, generation, step);
    return file;
}

/* Pushes of a step: a function of the step and of the residuals. */
static void play(feedback_file *file, uint64_t step) {
    rng rng;
    rng_init(&rng, step);
    for (int i = 0; i < 20; i++) {
        uint64_t key = rng_below(&rng, KEYS);
        float rest;
        error_feedback_keys one = {.keys = &key, .count = 1, .dim = 1};
        error_feedback_read(feedback_file_of(file, 1), &one, &rest);
        rest = rest * 0.5f + (float)rng_below(&rng, 100);
        error_feedback_write(feedback_file_of(file, 1), &one, &rest);
    }
    float *rests;
    uint64_t first = rng_below(&rng, ITEMS - 100);
    assert_int_equal(error_feedback_stretch(feedback_file_of(file, 9), 0, ITEMS, first, 100, &rests), MR_OK);
    for (int i = 0; i < 100; i++) rests[i] = rests[i] * 0.5f + (float)(step + (uint64_t)i);
}

static void assert_same(feedback_file *one, feedback_file *other) {
    for (uint32_t table = 1; table <= 9; table += 8) {
        error_feedback *mine = feedback_file_find(one, table), *theirs = feedback_file_find(other, table);
        assert_true((mine == NULL) == (theirs == NULL));
        if (mine == NULL) continue;
        size_t size = error_feedback_size(mine, true);
        uint8_t *a = xmalloc(size + 1), *b = xmalloc(size + 1);
        assert_int_equal(error_feedback_size(theirs, true), size);
        error_feedback_save(mine, true, a);
        error_feedback_save(theirs, true, b);
        assert_memory_equal(a, b, size);
        free(a);
        free(b);
    }
}

/* The process dies in each step, before and after its end; in between the next process replays the step from its
 * beginning. */
static void the_next_process_reads_the_file(void **state) {
    scene scene;
    begin(&scene);
    feedback_file *reference = feedback_file_create(0);
    feedback_file_begin(reference, RANK, GENERATION, 0);
    for (uint64_t step = 0; step < STEPS; step++) {
        feedback_file *dies = open_feedback_file(&scene, GENERATION, step);
        assert_same(dies, reference);
        play(dies, step);
        feedback_file_destroy(dies); /* before the end: the step is replayed */
        dies = open_feedback_file(&scene, GENERATION, step);
        assert_same(dies, reference);
        play(dies, step);
        feedback_file_end(dies, step + 1);
        if (step % 3 == 0) { /* the end was written, but not reported */
            feedback_file_destroy(dies);
            dies = open_feedback_file(&scene, GENERATION, step);
            assert_same(dies, reference);
            play(dies, step);
            feedback_file_end(dies, step + 1);
        }
        assert_int_equal(feedback_file_look_at(dies).begun_empty, 0);
        feedback_file_destroy(dies);
        play(reference, step);
        feedback_file_end(reference, step + 1);
    }
    feedback_file_destroy(reference);
    finish(&scene);
}

/* At least the last two states are kept, however large the changes of a step are. */
static void two_steps_are_kept(void **state) {
    scene scene;
    begin(&scene);
    feedback_file *lives = open_feedback_file(&scene, GENERATION, 0), *behind = feedback_file_create(0);
    feedback_file_begin(behind, RANK, GENERATION, 0);
    for (uint64_t step = 0; step < STEPS; step++) {
        float *rests;
        play(lives, step);
        assert_int_equal(error_feedback_stretch(feedback_file_of(lives, 9), 1, ITEMS * 8, 0, ITEMS * 8, &rests), MR_OK);
        rests[step] = 1;
        feedback_file_end(lives, step + 1);
        feedback_file *next = feedback_file_create(0); /* only reads; begin_file would write */
        char old[sizeof scene.path + 8];
        snprintf(old, sizeof old, "%s.old", scene.path);
        bool found = false;
        for (int i = 0; i < 2 && !found; i++) {
            FILE *file = fopen(i == 0 ? scene.path : old, "rb");
            if (file == NULL) continue;
            static uint8_t bytes[4 << 20];
            size_t size = fread(bytes, 1, sizeof bytes, file);
            assert_true(size < sizeof bytes);
            fclose(file);
            found = feedback_file_read(next, span_of(bytes, size), RANK, GENERATION, step);
        }
        assert_true(found);
        if (step > 0) assert_same(next, behind);
        feedback_file_destroy(next);
        play(behind, step);
        assert_int_equal(error_feedback_stretch(feedback_file_of(behind, 9), 1, ITEMS * 8, 0, ITEMS * 8, &rests),
                         MR_OK);
        rests[step] = 1;
        feedback_file_end(behind, step + 1);
    }
    feedback_file_destroy(lives);
    feedback_file_destroy(behind);
    finish(&scene);
}

static void a_missing_file_is_reported(void **state) {
    scene scene;
    begin(&scene);
    feedback_file *file = open_feedback_file(&scene, GENERATION, 0);
    play(file, 0);
    assert_int_equal(feedback_file_look_at(file).begun_empty, 0);
    feedback_file_end(file, 1);
    feedback_file_destroy(file);
    const struct { uint64_t generation, step; } others[] = {{GENERATION + 1, 1}, {GENERATION, 2}};
    for (int i = 0; i < 2; i++) {
        file = open_feedback_file(&scene, others[i].generation, others[i].step);
        assert_int_equal(feedback_file_look_at(file).bytes, 0);
        assert_int_equal(feedback_file_look_at(file).begun_empty, 0); /* no state was needed */
        assert_non_null(feedback_file_of(file, 1));
        assert_int_equal(feedback_file_look_at(file).begun_empty, 1);
        assert_non_null(feedback_file_of(file, 1));
        assert_int_equal(feedback_file_look_at(file).begun_empty, 1);
        feedback_file_destroy(file);
    }
    file = open_feedback_file(&scene, GENERATION + 9, 0); /* the first step needs no state */
    assert_non_null(feedback_file_of(file, 1));
    assert_int_equal(feedback_file_look_at(file).begun_empty, 0);
    play(file, 0);
    feedback_file_end(file, 1);
    feedback_file_begin(file, RANK, GENERATION + 9, 1); /* continues */
    assert_true(feedback_file_look_at(file).bytes != 0);
    feedback_file_begin(file, RANK, GENERATION + 10, 1); /* another generation */
    assert_int_equal(feedback_file_look_at(file).bytes, 0);
    feedback_file_destroy(file);
    finish(&scene);
}

/* The earlier process does not change the later process's file. */
static void two_play_the_rank(void **state) {
    scene scene;
    begin(&scene);
    feedback_file *earlier = open_feedback_file(&scene, GENERATION, 0);
    play(earlier, 0);
    feedback_file_end(earlier, 1);
    feedback_file *later = open_feedback_file(&scene, GENERATION, 1);
    assert_same(earlier, later);
    play(later, 1);
    feedback_file_end(later, 2);
    for (uint64_t step = 1; step < STEPS; step++) {
        play(earlier, step + 100);
        feedback_file_end(earlier, step + 1);
    }
    feedback_file *next = open_feedback_file(&scene, GENERATION, 2);
    assert_same(next, later);
    feedback_file_destroy(earlier);
    feedback_file_destroy(later);
    feedback_file_destroy(next);
    finish(&scene);
}

static void broken_files_are_not_believed(void **state) {
    scene scene;
    begin(&scene);
    feedback_file *feedback_file = open_feedback_file(&scene, GENERATION, 0);
    play(feedback_file, 0);
    feedback_file_end(feedback_file, 1);
    feedback_file_destroy(feedback_file);
    static uint8_t bytes[1 << 20];
    FILE *file = fopen(scene.path, "rb");
    assert_non_null(file);
    size_t size = fread(bytes, 1, sizeof bytes, file);
    fclose(file);
    feedback_file = feedback_file_create(0);
    assert_true(feedback_file_read(feedback_file, span_of(bytes, size), RANK, GENERATION, 1));
    assert_false(feedback_file_read(feedback_file, span_of(bytes, size), RANK + 1, GENERATION, 1));
    assert_int_equal(feedback_file_look_at(feedback_file).bytes, 0);
    for (size_t cut = 0; cut < size; cut += 1 + cut / 50) {
        uint8_t *exact = malloc(cut + 1);
        memcpy(exact, bytes, cut);
        assert_false(feedback_file_read(feedback_file, span_of(exact, cut), RANK, GENERATION, 1));
        free(exact);
    }
    rng rng;
    rng_init(&rng, 5);
    for (int i = 0; i < 300; i++) {
        size_t at = rng_below(&rng, size);
        bytes[at] ^= 4;
        assert_false(feedback_file_read(feedback_file, span_of(bytes, size), RANK, GENERATION, 1));
        bytes[at] ^= 4;
    }
    feedback_file_destroy(feedback_file);
    finish(&scene);
}

static void a_folder_that_cannot_be_written_ends_the_keeping_only(void **state) {
    feedback_file *file = feedback_file_create(0);
    feedback_file_keep(file, "/nowhere/at/all/rank");
    feedback_file_begin(file, RANK, GENERATION, 0);
    play(file, 0);
    feedback_file_end(file, 1);
    assert_true(feedback_file_look_at(file).bytes != 0);
    feedback_file_drop(file, 9);
    feedback_file_drop(file, 1);
    assert_int_equal(feedback_file_look_at(file).bytes, 0);
    feedback_file_destroy(file);
}

/* In a folder of all users, another user has made links where this rank will write: to a file of this user. */
static void planted_links_are_not_followed(void **state) {
    scene scene;
    char planted[3][sizeof scene.path + 8], victim[sizeof scene.path + 8], text[32] = "";
    begin(&scene);
    snprintf(victim, sizeof victim, "%s/victim", scene.folder);
    FILE *file = fopen(victim, "we");
    fputs("precious", file);
    fclose(file);
    static const char *const ends[] = {"", ".new", ".old"};
    for (int i = 0; i < 3; i++) {
        snprintf(planted[i], sizeof planted[i], "%s%s", scene.path, ends[i]);
        assert_int_equal(symlink(victim, planted[i]), 0);
    }
    feedback_file *feedback = open_feedback_file(&scene, GENERATION, 0);
    for (uint64_t step = 0; step < STEPS; step++) {
        play(feedback, step);
        feedback_file_end(feedback, step + 1);
    }
    feedback_file *again = open_feedback_file(&scene, GENERATION, STEPS);
    assert_same(feedback, again); /* the file was written nevertheless */
    feedback_file_destroy(again);
    feedback_file_destroy(feedback);
    file = fopen(victim, "re");
    assert_non_null(fgets(text, sizeof text, file));
    fclose(file);
    assert_string_equal(text, "precious");
    unlink(victim);
    unlink(planted[1]);
    finish(&scene);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_next_process_reads_the_file),
        cmocka_unit_test(two_steps_are_kept),
        cmocka_unit_test(a_missing_file_is_reported),
        cmocka_unit_test(two_play_the_rank),
        cmocka_unit_test(broken_files_are_not_believed),
        cmocka_unit_test(a_folder_that_cannot_be_written_ends_the_keeping_only),
        cmocka_unit_test(planted_links_are_not_followed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
