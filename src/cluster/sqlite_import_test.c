/* sqlite_import_test.c — a database of release 0.1.0 is imported once, wherever the process is killed, and nothing
 * starts empty beside one. Skipped on machines without SQLite. */
#include "cluster/sqlite_import.h"

#include <dlfcn.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "base/failpoint.h"
#include "cluster/metadata_db.h"
#include "cluster/metadata_file.h"
#include "tests/support/temp_dir.h"
#include "tests/support/test_child.h"

enum { GENERATION = 7, WAIT_MS = 60000 };

/* The schema of release 0.1.0. */
#define SCHEMA                                                                                    \
    "PRAGMA locking_mode = EXCLUSIVE; PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL;"      \
    "BEGIN IMMEDIATE; PRAGMA user_version = 1;"                                                   \
    "CREATE TABLE meta (id INTEGER PRIMARY KEY CHECK (id = 1), generation INTEGER NOT NULL);"     \
    "CREATE TABLE value (key BLOB PRIMARY KEY, version INTEGER NOT NULL, lease INTEGER NOT NULL," \
    " value BLOB NOT NULL) WITHOUT ROWID; COMMIT;"
#define CONTENT                                                                    \
    "INSERT INTO meta VALUES (1, 7);"                                              \
    "INSERT INTO value VALUES (CAST('one' AS BLOB), (7 << 36) + 5, 0, X'000102');" \
    "INSERT INTO value VALUES (CAST('two' AS BLOB), (7 << 36) + 9, 77, X'');"

typedef struct world {
    char folder[TEMP_DIR_FOLDER_MAX], path[TEMP_DIR_FOLDER_MAX + 32];
    rng rng;
    metadata_file file;
} world;

typedef struct sqlite3 sqlite3;

/* Opens the database and executes `text`. The process keeps the database open until it ends. */
static bool execute(const world *world, const char *text) {
    void *library = dlopen("libsqlite3.so.0", RTLD_NOW | RTLD_LOCAL);
    int (*open_file)(const char *path, sqlite3 **out);
    int (*exec)(sqlite3 * file, const char *text, void *row, void *context, char **error);
    sqlite3 *file;
    if (library == NULL) return false;
    *(void **)&open_file = dlsym(library, "sqlite3_open");
    *(void **)&exec = dlsym(library, "sqlite3_exec");
    return open_file(world->path, &file) == 0 && exec(file, text, NULL, NULL, NULL) == 0;
}

typedef struct script {
    const world *world;
    const char *text;
    bool waits; /* with the database open */
} script;

/* Killed, so that committed data is in the log beside the database. */
static int run_and_die(void *argument) {
    const script *script = argument;
    TEST_CHILD_CHECK(execute(script->world, script->text));
    if (script->waits) raise(SIGSTOP);
    return raise(SIGKILL);
}

static void make_database(const world *world, const char *text) {
    script script = {world, text, false};
    assert_int_equal(test_child_run(run_and_die, &script, WAIT_MS), -SIGKILL);
}

static int setup(void **state) {
    world *world = xcalloc(1, sizeof *world);
    if (!temp_dir_folder(world->folder) || disk_open(world->folder, &world->file.disk) != MR_OK) return -1;
    snprintf(world->path, sizeof world->path, "%s/" SQLITE_IMPORT_FILE, world->folder);
    rng_init(&world->rng, 3);
    *state = world;
    return 0;
}

static bool there(const world *world, const char *name) {
    uint64_t size;
    return world->file.disk.ops->size(world->file.disk.self, name, &size) == MR_OK;
}

static int teardown(void **state) {
    static const char *const names[] = {SQLITE_IMPORT_FILE, SQLITE_IMPORT_FILE "-wal", SQLITE_IMPORT_DONE,
                                        METADATA_FILE_FILE};
    world *world = *state;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        (void)world->file.disk.ops->remove(world->file.disk.self, names[i]);
    disk_close(world->file.disk);
    int left = rmdir(world->folder);
    free(world);
    return left;
}

static mr_status import(world *world) {
    return sqlite_import(world->folder, world->file.disk, metadata_file_storage(&world->file), &world->rng);
}

static void assert_value(const metadata_db *db, const char *key, uint64_t count, const void *bytes, size_t size) {
    uint64_t version;
    span value;
    metadata_db_get(db, span_of(key, strlen(key)), &version, &value);
    assert_true(version == metadata_store_version(GENERATION, count) && value.size == size);
    if (size != 0) assert_memory_equal(value.data, bytes, size);
}

static void assert_imported(world *world) {
    metadata_db *db;
    metadata_file file = {.disk = world->file.disk};
    assert_int_equal(metadata_db_open(metadata_file_storage(&file), &world->rng, 0, &db), MR_OK);
    metadata_storage_content content = metadata_db_content(db);
    assert_true(content.generation == GENERATION && content.count == 2);
    for (size_t i = 0; i < 2; i++)
        assert_int_equal(content.records[i].lease, content.records[i].key.data[0] == 't' ? 77 : 0);
    assert_value(db, "one", 5, "\0\1\2", 3);
    assert_value(db, "two", 9, "", 0);
    assert_value(db, "three", 0, "", 0);
    metadata_db_close(db);
    assert_true(!there(world, SQLITE_IMPORT_FILE) && there(world, SQLITE_IMPORT_DONE));
    assert_true(!there(world, SQLITE_IMPORT_FILE "-wal") && !there(world, SQLITE_IMPORT_FILE "-journal"));
}

/* The database is unchanged, and no new file exists beside it. */
static void assert_refused(world *world, mr_status expected, const char *words) {
    assert_int_equal(import(world), expected);
    if (strstr(mr_last_error(), words) == NULL) fail_msg("it said: %s", mr_last_error());
    assert_non_null(strstr(mr_last_error(), "0.1.0"));
    assert_true(there(world, SQLITE_IMPORT_FILE) && !there(world, SQLITE_IMPORT_DONE));
}

static void a_folder_without_a_database_is_left_alone(void **state) {
    world *world = *state;
    assert_int_equal(import(world), MR_OK);
    assert_false(there(world, METADATA_FILE_FILE));
}

static void a_database_is_imported_with_its_log(void **state) {
    world *world = *state;
    make_database(world, SCHEMA CONTENT);
    assert_true(there(world, SQLITE_IMPORT_FILE "-wal"));
    assert_int_equal(import(world), MR_OK);
    assert_imported(world);
    assert_int_equal(import(world), MR_OK); /* the database is gone */
    assert_imported(world);
}

static int import_and_die(void *argument) {
    world *world = argument;
    return import(world) == MR_OK ? 0 : 1;
}

static void an_import_may_be_killed_anywhere(void **state) {
    static const char *const places[] = {"import.read=kill", "import.saved=kill", "import.renamed=kill"};
    world *world = *state;
    if (failpoint_count() == 0) skip();
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        (void)world->file.disk.ops->remove(world->file.disk.self, METADATA_FILE_FILE);
        world->file = (metadata_file){.disk = world->file.disk};
        make_database(world, SCHEMA CONTENT);
        assert_int_equal(failpoint_arm(places[i]), MR_OK);
        assert_int_equal(test_child_run(import_and_die, world, WAIT_MS), -SIGKILL);
        failpoint_disarm_all();
        assert_true(there(world, METADATA_FILE_FILE) == (i > 0));
        assert_true(there(world, SQLITE_IMPORT_FILE) == (i < 2));
        assert_int_equal(import(world), MR_OK);
        assert_imported(world);
    }
}

/* The state after a kill between the save and the rename. */
static void the_same_content_twice_is_one(void **state) {
    world *world = *state;
    disk disk = world->file.disk;
    make_database(world, SCHEMA CONTENT);
    assert_int_equal(import(world), MR_OK);
    assert_int_equal(disk.ops->rename(disk.self, SQLITE_IMPORT_DONE, SQLITE_IMPORT_FILE), MR_OK);
    assert_int_equal(import(world), MR_OK);
    assert_imported(world);
}

static void another_content_is_not_guessed_about(void **state) {
    static const char *const changes[] = {
        "UPDATE meta SET generation = 8; UPDATE value SET version = version + (1 << 36)",
        "UPDATE value SET version = version + 1",
        "UPDATE value SET value = X'03'",
        "UPDATE value SET lease = 78",
        "DELETE FROM value WHERE lease = 0",
        "INSERT INTO value VALUES (X'01', (7 << 36) + 1, 0, X'')"};
    world *world = *state;
    disk disk = world->file.disk;
    make_database(world, SCHEMA CONTENT);
    assert_int_equal(import(world), MR_OK);
    for (size_t i = 0; i < sizeof changes / sizeof *changes; i++) {
        buffer before, after;
        assert_int_equal(disk.ops->rename(disk.self, SQLITE_IMPORT_DONE, SQLITE_IMPORT_FILE), MR_OK);
        assert_int_equal(unlink(world->path), 0);
        char text[2000];
        snprintf(text, sizeof text, "%s;%s", SCHEMA CONTENT, changes[i]);
        make_database(world, text);
        buffer_init(&before, 1 << 20);
        buffer_init(&after, 1 << 20);
        assert_int_equal(disk_read_all(disk, METADATA_FILE_FILE, 1 << 20, &before), MR_OK);
        assert_refused(world, MR_EXISTS, "which it used last is not known");
        assert_int_equal(disk_read_all(disk, METADATA_FILE_FILE, 1 << 20, &after), MR_OK);
        assert_true(before.size == after.size && memcmp(before.data, after.data, after.size) == 0);
        buffer_fini(&before);
        buffer_fini(&after);
        assert_int_equal(disk.ops->rename(disk.self, SQLITE_IMPORT_FILE, SQLITE_IMPORT_DONE), MR_OK);
    }
}

static void without_sqlite_nothing_begins(void **state) {
    world *world = *state;
    if (failpoint_count() == 0) skip();
    make_database(world, SCHEMA CONTENT);
    assert_int_equal(failpoint_arm("import.library=error"), MR_OK);
    assert_refused(world, MR_NOT_FOUND, "libsqlite3-0");
    failpoint_disarm_all();
    assert_false(there(world, METADATA_FILE_FILE));
    assert_int_equal(import(world), MR_OK);
    assert_imported(world);
}

static void an_empty_or_damaged_database_is_refused(void **state) {
    static const char *const databases[] = {"PRAGMA user_version = 1", SCHEMA, SCHEMA "INSERT INTO meta VALUES (1, 0)",
                                            SCHEMA CONTENT "UPDATE value SET key = X'' WHERE lease = 0",
                                            SCHEMA CONTENT "UPDATE value SET version = 3 WHERE lease = 0"};
    world *world = *state;
    for (size_t i = 0; i < sizeof databases / sizeof *databases; i++) {
        make_database(world, databases[i]);
        assert_int_equal(import(world), MR_CORRUPT);
        assert_true(there(world, SQLITE_IMPORT_FILE) && !there(world, METADATA_FILE_FILE));
        assert_int_equal(unlink(world->path), 0);
        (void)world->file.disk.ops->remove(world->file.disk.self, SQLITE_IMPORT_FILE "-wal");
    }
    char bytes[8192];
    memset(bytes, 'x', sizeof bytes);
    span span = span_of(bytes, sizeof bytes);
    assert_int_equal(world->file.disk.ops->write(world->file.disk.self, SQLITE_IMPORT_FILE, 0, span), MR_OK);
    assert_refused(world, MR_CORRUPT, "is damaged: file is not a database");
    assert_false(there(world, METADATA_FILE_FILE));
}

static void a_scheduler_that_runs_is_not_disturbed(void **state) {
    world *world = *state;
    script script = {world, SCHEMA CONTENT, true};
    pid_t running = test_child_start(run_and_die, &script);
    assert_true(test_child_stops(running));
    assert_refused(world, MR_BUSY, "stop that scheduler first");
    assert_false(there(world, METADATA_FILE_FILE));
    kill(running, SIGKILL);
    assert_int_equal(test_child_wait(running, WAIT_MS), -SIGKILL);
    assert_int_equal(import(world), MR_OK);
    assert_imported(world);
}

#define IN_WORLD(test) cmocka_unit_test_setup_teardown(test, setup, teardown)

int main(void) {
    const struct CMUnitTest tests[] = {
        IN_WORLD(a_folder_without_a_database_is_left_alone), IN_WORLD(a_database_is_imported_with_its_log),
        IN_WORLD(an_import_may_be_killed_anywhere),          IN_WORLD(the_same_content_twice_is_one),
        IN_WORLD(another_content_is_not_guessed_about),      IN_WORLD(without_sqlite_nothing_begins),
        IN_WORLD(an_empty_or_damaged_database_is_refused),   IN_WORLD(a_scheduler_that_runs_is_not_disturbed),
    };
    void *library = dlopen("libsqlite3.so.0", RTLD_NOW | RTLD_LOCAL);
    if (library == NULL) {
        print_message("this machine has no SQLite: the import of 0.1.0 is not tested\n");
        return 0;
    }
    dlclose(library);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
