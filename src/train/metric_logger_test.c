/* metric_logger_test.c — contents of the files; tests/python/test_train_files.py reads the event files back. */
#include "train/metric_logger.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

#include "tests/support/exact_value.h"
#include "tests/support/temp_dir.h"

#define MAP(...) mr_map((mr_arg[]){__VA_ARGS__}, sizeof((mr_arg[]){__VA_ARGS__}) / sizeof(mr_arg) / 2)

typedef struct scene {
    char folder[TEMP_DIR_FOLDER_MAX], path[TEMP_DIR_FOLDER_MAX + 16];
    mr_metric_logger *logger;
} scene;

static void begin(scene *scene, const char *kind) {
    assert_true(temp_dir_folder(scene->folder));
    snprintf(scene->path, sizeof scene->path, "%s/log", scene->folder);
    assert_int_equal(mr_metric_logger_open(kind, scene->path, &scene->logger), MR_OK);
}

static void write_epoch(scene *scene, int64_t epoch, mr_arg result) {
    exact_value exact_value;
    value_doc doc;
    mr_value value;
    assert_int_equal(pack(&result, SIZE_MAX, &exact_value), MR_OK);
    assert_int_equal(exact_value_open(&exact_value, &doc, &value), MR_OK);
    assert_int_equal(mr_metric_logger_write(scene->logger, epoch, &value), MR_OK);
    value_close(&doc);
    exact_value_fini(&exact_value);
}

/* Asserts the content of the file while the logger is open. */
static void check(const scene *scene, const char *expected) {
    char text[4096];
    FILE *file = fopen(scene->path, "r");
    assert_non_null(file);
    text[fread(text, 1, sizeof text - 1, file)] = '\0';
    fclose(file);
    assert_string_equal(text, expected);
}

static void end(scene *scene) {
    mr_metric_logger_close(scene->logger);
    unlink(scene->path);
    assert_int_equal(rmdir(scene->folder), 0);
}

static void a_table_has_a_column_for_each_field(void **state) {
    scene scene;
    begin(&scene, "csv");
    write_epoch(&scene, 0, MAP(mr_str("loss"), mr_float(0.5), mr_str("synced"), mr_bool(true)));
    write_epoch(&scene, 1, MAP(mr_str("synced"), mr_bool(false), mr_str("loss"), mr_float(NAN)));
    check(&scene, "epoch,loss,synced\n0,0.5,true\n1,nan,false\n");
    end(&scene);
}

static void a_new_field_widens_the_table(void **state) {
    scene scene;
    begin(&scene, "csv");
    write_epoch(&scene, 0, MAP(mr_str("loss"), mr_int(3)));
    write_epoch(&scene, 1, MAP(mr_str("test"), MAP(mr_str("accuracy"), mr_float(0.25))));
    write_epoch(&scene, 2, MAP(mr_str("loss"), mr_int(1), mr_str("list"), mr_list(NULL, 0)));
    check(&scene, "epoch,loss,test/accuracy\n0,3,\n1,,0.25\n2,1,\n");
    end(&scene);
}

static void texts_are_quoted(void **state) {
    scene scene;
    begin(&scene, "csv");
    write_epoch(&scene, 0, MAP(mr_str("a,b"), mr_str("say \"hi\"\n"), mr_str("epoch"), mr_int(7)));
    check(&scene, "epoch,\"a,b\"\n0,\"say \"\"hi\"\"\n\"\n");
    end(&scene);
}

static void a_line_of_json_for_each_epoch(void **state) {
    scene scene;
    begin(&scene, "jsonl");
    write_epoch(&scene, 0, MAP(mr_str("loss"), mr_float(0.5), mr_str("by"), MAP(mr_str("cat"), mr_int(1))));
    write_epoch(&scene, 1, MAP(mr_str("epoch"), mr_int(9), mr_str("loss"), mr_float(INFINITY)));
    check(&scene, "{\"epoch\":0,\"loss\":0.5,\"by\":{\"cat\":1}}\n{\"epoch\":1,\"loss\":null}\n");
    end(&scene);
}

static void write_errors_are_reported(void **state) {
    mr_metric_logger *logger;
    assert_int_equal(mr_metric_logger_open("xml", "/tmp/x", &logger), MR_INVALID);
    assert_int_equal(mr_metric_logger_open("csv", "/nonexistent/folder/log.csv", &logger), MR_IO);
    assert_int_equal(mr_metric_logger_open("tensorboard", "/nonexistent/folder", &logger), MR_IO);
    scene scene;
    mr_value nil = {0};
    begin(&scene, "csv");
    assert_int_equal(mr_metric_logger_write(scene.logger, 0, &nil), MR_INVALID);
    end(&scene);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_table_has_a_column_for_each_field),
        cmocka_unit_test(a_new_field_widens_the_table),
        cmocka_unit_test(texts_are_quoted),
        cmocka_unit_test(a_line_of_json_for_each_epoch),
        cmocka_unit_test(write_errors_are_reported),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
