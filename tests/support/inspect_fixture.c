/* inspect_fixture.c — see inspect_fixture.h. */
#include "tests/support/inspect_fixture.h"
#include "tests/support/program_tasks.h"

#include <dirent.h>
#include <fcntl.h>
#include <ftw.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

inspect_fixture_program seen;

static const char *outside; /* original TMPDIR */
static bool has_looked;     /* whether `outside` is set */

/* ---- Tasks of workers. */

/* Runs until the test opens the gate. */
MR_TASK(hold) {
    mr_span path;
    MR_TRY(mr_arg_str(call, 0, &path));
    char name[TEMP_DIR_FOLDER_MAX + 8];
    snprintf(name, sizeof name, "%.*s", (int)path.size, (const char *)path.data);
    while (access(name, F_OK) != 0) usleep(1000);
    return mr_return(call, mr_int(1));
}

MR_TASK(add) {
    int64_t a, b;
    MR_TRY(mr_arg_int(call, 0, &a));
    MR_TRY(mr_arg_int(call, 1, &b));
    return mr_return(call, mr_int(a + b));
}

/* ---- Finding the node: the only socket below the test's folder. */

static bool find_socket(const char *path, int depth) {
    DIR *dir = opendir(path);
    if (dir == NULL) return false;
    bool found = false;
    for (struct dirent *entry; !found && (entry = readdir(dir)) != NULL;) {
        char below[512];
        struct stat status;
        if (entry->d_name[0] == '.') continue;
        snprintf(below, sizeof below, "%s/%s", path, entry->d_name);
        if (lstat(below, &status) != 0) continue;
        if (S_ISSOCK(status.st_mode)) {
            snprintf(seen.address, sizeof seen.address, "%s", below);
            found = true;
        } else if (S_ISDIR(status.st_mode) && depth > 0) {
            found = find_socket(below, depth - 1);
        }
    }
    closedir(dir);
    return found;
}

void inspect_fixture_start(int workers) {
    if (!has_looked && getenv("TMPDIR") != NULL) outside = strdup(getenv("TMPDIR"));
    has_looked = true;
    assert_true(temp_dir_folder(seen.folder));
    setenv("XDG_RUNTIME_DIR", seen.folder, 1);
    setenv("TMPDIR", seen.folder, 1);
    snprintf(seen.gate, sizeof seen.gate, "%s/gate", seen.folder);
    assert_int_equal(mr_init(&MR_OPTIONS(mr_options, .num_workers = workers), &seen.mr), MR_OK);
    assert_true(find_socket(seen.folder, 3));
    assert_int_equal(mr_inspect_open(seen.address, &seen.inspect), MR_OK);
}

static int remove_one(const char *path, const struct stat *status, int kind, struct FTW *at) { return remove(path); }

void inspect_fixture_stop(void) {
    mr_inspect_close(seen.inspect);
    mr_shutdown(seen.mr);
    if (outside != NULL) setenv("TMPDIR", outside, 1);
    if (outside == NULL) unsetenv("TMPDIR");
    nftw(seen.folder, remove_one, 8, FTW_DEPTH | FTW_PHYS);
}

/* ---- Reading. */

mr_value inspect_fixture_ask(const char *what, const char *id, size_t limit) {
    mr_value answer;
    mr_status status = mr_inspect_ask(seen.inspect, what, id, limit, &answer);
    if (status != MR_OK) print_error("%s: %s\n", mr_status_name(status), mr_last_error());
    assert_int_equal(status, MR_OK);
    return answer;
}

mr_value inspect_fixture_field(const mr_value *map, const char *key) {
    mr_value value;
    assert_int_equal(mr_value_field(map, key, &value), MR_OK);
    return value;
}

mr_value inspect_fixture_ask_all(const char *what, size_t limit) {
    for (int i = 0;; i++) {
        mr_value answer = inspect_fixture_ask(what, NULL, limit), silent = inspect_fixture_field(&answer, "silent");
        if (mr_value_count(&silent) == 0 || i == 60) return answer;
        mr_value_release(&answer);
    }
}

int64_t inspect_fixture_number(const mr_value *map, const char *key) {
    mr_value value = inspect_fixture_field(map, key);
    int64_t result;
    assert_int_equal(mr_value_int(&value, &result), MR_OK);
    return result;
}

const char *inspect_fixture_text(const mr_value *map, const char *key) {
    static char texts[4][512];
    static unsigned next;
    char *out = texts[next++ % 4];
    mr_value value = inspect_fixture_field(map, key);
    mr_span span = {0};
    if (mr_value_kind(&value) == MR_KIND_STR) assert_int_equal(mr_value_str(&value, &span), MR_OK);
    snprintf(out, 512, "%.*s", (int)span.size, (const char *)span.data);
    return out;
}

bool inspect_fixture_find_row(const mr_value *answer, const char *list, const char *key, const char *value,
                              mr_value *out) {
    mr_value rows = inspect_fixture_field(answer, list), row;
    for (mr_iter iter = mr_value_iter(&rows); mr_iter_next(&iter, &row);) {
        if (strcmp(inspect_fixture_text(&row, key), value) != 0) continue;
        *out = row;
        return true;
    }
    return false;
}

void inspect_fixture_await_row(const char *what, const char *key, const char *value, const char *state, char id[32]) {
    for (int i = 0; i < INSPECT_FIXTURE_TRIES; i++) {
        mr_value answer = inspect_fixture_ask(what, NULL, 1000), row;
        bool found = inspect_fixture_find_row(&answer, what, key, value, &row) &&
                     strcmp(inspect_fixture_text(&row, "state"), state) == 0;
        if (found) snprintf(id, 32, "%s", inspect_fixture_text(&row, "id"));
        mr_value_release(&answer);
        if (found) return;
        usleep(5000);
    }
    fail_msg("no %s with %s=%s became %s", what, key, value, state);
}

void inspect_fixture_why(const char *id, char out[4096]) {
    mr_value answer = inspect_fixture_ask("why", id, 0), steps = inspect_fixture_field(&answer, "steps"), step;
    size_t used = 0;
    out[0] = '\0';
    for (mr_iter iter = mr_value_iter(&steps); mr_iter_next(&iter, &step) && used < 4000;)
        used += (size_t)snprintf(out + used, 4096 - used, "%s %s|%s|%s\n", inspect_fixture_text(&step, "id"),
                                 inspect_fixture_text(&step, "what"), inspect_fixture_text(&step, "because"),
                                 inspect_fixture_text(&step, "release"));
    mr_value_release(&answer);
}

void inspect_fixture_assert_has(const char *whole, const char *part) {
    if (strstr(whole, part) == NULL) print_error("'%s' is not in:\n%s\n", part, whole);
    assert_non_null(strstr(whole, part));
}

void inspect_fixture_open_gate(void) { close(open(seen.gate, O_CREAT | O_WRONLY | O_CLOEXEC, 0600)); }

void inspect_fixture_finish(mr_ref ref) {
    mr_value value;
    assert_int_equal(mr_get(seen.mr, ref, INSPECT_FIXTURE_PATIENCE_US, &value), MR_OK);
    mr_value_release(&value);
    mr_release(seen.mr, ref);
}
