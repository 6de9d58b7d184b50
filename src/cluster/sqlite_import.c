/* sqlite_import.c — see sqlite_import.h. */
#include "cluster/sqlite_import.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/failpoint.h"
#include "base/format.h"
#include "base/log.h"
#include "cluster/metadata_db.h"

/* The functions used of SQLite's interface, which is stable: its header is not needed. */
typedef struct sqlite3 sqlite3;
typedef struct sqlite3_stmt sqlite3_stmt;
enum {
    SQLITE_OK = 0,
    SQLITE_BUSY = 5,
    SQLITE_LOCKED = 6,
    SQLITE_NOMEM = 7,
    SQLITE_CORRUPT = 11,
    SQLITE_FULL = 13,
    SQLITE_NOTADB = 26,
    SQLITE_ROW = 100,
    SQLITE_DONE = 101,
    SQLITE_OPEN_READWRITE = 2
};
#define FUNCTIONS(X)                                                                                        \
    X(int, open_v2, (const char *path, sqlite3 **out, int flags, const char *vfs))                          \
    X(int, close, (sqlite3 * file))                                                                         \
    X(int, prepare_v2, (sqlite3 * file, const char *text, int size, sqlite3_stmt **out, const char **rest)) \
    X(int, step, (sqlite3_stmt * rows))                                                                     \
    X(int, finalize, (sqlite3_stmt * rows))                                                                 \
    X(const void *, column_blob, (sqlite3_stmt * rows, int column))                                         \
    X(int, column_bytes, (sqlite3_stmt * rows, int column))                                                 \
    X(int64_t, column_int64, (sqlite3_stmt * rows, int column))                                             \
    X(const char *, errmsg, (sqlite3 * file))

typedef struct database {
    void *library;
    sqlite3 *file;
#define X(type, name, parameters) type(*name) parameters;
    FUNCTIONS(X)
#undef X
} database;

/* ---- Opening. */

static mr_status no_library(const char *why) {
    return error_set(MR_NOT_FOUND,
                     "its '" SQLITE_IMPORT_FILE
                     "' is of Miniray 0.1.0 and is imported once with SQLite, which is not installed (%s): install it "
                     "(Debian, Ubuntu: libsqlite3-0) and start again, or begin in another folder",
                     why);
}

static mr_status load_library(database *database) {
    if (FAILPOINT_ERROR("import.library")) return no_library("a failpoint");
    database->library = dlopen("libsqlite3.so.0", RTLD_NOW | RTLD_LOCAL);
    if (database->library == NULL) return no_library(dlerror());
#define X(type, name, parameters) *(void **)&database->name = dlsym(database->library, "sqlite3_" #name);
    FUNCTIONS(X)
#undef X
#define X(type, name, parameters) &&database->name != NULL
    bool whole = true FUNCTIONS(X);
#undef X
    return whole ? MR_OK : no_library("libsqlite3.so.0 lacks a function");
}

static mr_status damaged(const char *what) {
    return error_set(MR_CORRUPT,
                     "its '" SQLITE_IMPORT_FILE
                     "' of Miniray 0.1.0 is damaged: %s. The list of tables and the progress of the data are lost; the "
                     "checkpoints remain: export one with `miniray ps checkpoint export`, and begin in another folder",
                     what);
}

static mr_status failed(const database *database, int code) {
    const char *text = database->file == NULL ? "no memory" : database->errmsg(database->file);
    if (code == SQLITE_CORRUPT || code == SQLITE_NOTADB) return damaged(text);
    if (code == SQLITE_BUSY || code == SQLITE_LOCKED)
        return error_set(MR_BUSY,
                         "a scheduler of Miniray 0.1.0 uses '" SQLITE_IMPORT_FILE "': stop that scheduler first");
    return error_set(code == SQLITE_FULL || code == SQLITE_NOMEM ? MR_NOMEM : MR_IO,
                     "cannot import its '" SQLITE_IMPORT_FILE "' of Miniray 0.1.0, which is unchanged: %s", text);
}

/* Runs a statement up to its first row. The caller finalizes *out. */
static mr_status query(database *database, const char *text, int *code, sqlite3_stmt **out) {
    *code = database->prepare_v2(database->file, text, -1, out, NULL);
    if (*code != SQLITE_OK) return failed(database, *code);
    *code = database->step(*out);
    if (*code == SQLITE_ROW || *code == SQLITE_DONE) return MR_OK;
    mr_status status = failed(database, *code);
    database->finalize(*out);
    return status;
}

/* Reads the only number of the only row; -1: no row. */
static mr_status ask(database *database, const char *text, int64_t *out) {
    sqlite3_stmt *rows;
    int code;
    MR_TRY(query(database, text, &code, &rows));
    *out = code == SQLITE_ROW ? database->column_int64(rows, 0) : -1;
    database->finalize(rows);
    return MR_OK;
}

static mr_status open_database(database *database, const char *folder) {
    int64_t format, tables, ignored;
    MR_TRY(load_library(database));
    char *path = xasprintf("%s/" SQLITE_IMPORT_FILE, folder);
    int code = database->open_v2(path, &database->file, SQLITE_OPEN_READWRITE, NULL);
    free(path);
    if (code != SQLITE_OK) return failed(database, code);
    MR_TRY(ask(database, "PRAGMA locking_mode = EXCLUSIVE", &ignored));
    MR_TRY(ask(database, "PRAGMA user_version", &format));
    MR_TRY(ask(database, "SELECT count(*) FROM sqlite_master", &tables));
    if (tables == 0) return damaged("it is empty");
    if (format != SQLITE_IMPORT_FORMAT)
        return format_reject("'" SQLITE_IMPORT_FILE "'", (uint64_t)format, SQLITE_IMPORT_FORMAT,
                             FORMAT_USE_WRITER ", or begin in another folder");
    return ask(database, "PRAGMA journal_mode = DELETE", &ignored);
}

static void close_database(database *database) {
    if (database->file != NULL) database->close(database->file);
    if (database->library != NULL) dlclose(database->library);
}

/* ---- Reading, as a metadata storage. */

static span column(const database *database, sqlite3_stmt *row, int index) {
    const void *data = database->column_blob(row, index);
    return span_of(data, (size_t)database->column_bytes(row, index));
}

static mr_status load(void *self, metadata_storage_take_fn *take, void *context, uint64_t *generation) {
    database *database = self;
    sqlite3_stmt *rows;
    int64_t found;
    int code;
    MR_TRY(ask(database, "SELECT generation FROM meta", &found));
    if (found < 0) return damaged("it has no generation");
    *generation = (uint64_t)found;
    MR_TRY(query(database, "SELECT key, version, lease, value FROM value", &code, &rows));
    bool good = true;
    for (; good && code == SQLITE_ROW; code = database->step(rows)) {
        metadata_storage_record record = {column(database, rows, 0), (uint64_t)database->column_int64(rows, 1),
                                          (uint64_t)database->column_int64(rows, 2), column(database, rows, 3)};
        good = take(context, *generation, &record);
    }
    database->finalize(rows);
    if (!good) return damaged("a malformed value");
    return code == SQLITE_DONE ? MR_OK : failed(database, code);
}

/* Loads the database into a metadata store, which checks every value. */
static mr_status read_database(const char *folder, rng *rng, metadata_db **out) {
    static const metadata_storage_ops ops = {.name = "sqlite", .load = load};
    database database = {0};
    mr_status status = open_database(&database, folder);
    if (status == MR_OK) status = metadata_db_open((metadata_storage){&ops, &database}, rng, 0, out);
    close_database(&database);
    return status;
}

/* ---- Saving. */

typedef struct comparison {
    const metadata_storage_content *with;
    size_t equal, count;
} comparison;

static bool same(span a, span b) { return a.size == b.size && (a.size == 0 || memcmp(a.data, b.data, a.size) == 0); }

static bool compare(void *context, uint64_t generation, const metadata_storage_record *record) {
    comparison *comparison = context;
    comparison->count++;
    for (size_t i = 0; i < comparison->with->count; i++) {
        const metadata_storage_record *other = &comparison->with->records[i];
        comparison->equal += same(record->key, other->key) && same(record->value, other->value) &&
                             record->version == other->version && record->lease == other->lease;
    }
    return true;
}

static mr_status save(metadata_storage to, const metadata_storage_content *content) {
    comparison found = {.with = content};
    uint64_t generation;
    mr_status status = to.ops->load(to.self, compare, &found, &generation);
    if (status == MR_NOT_FOUND)
        return content->count == 0 ? to.ops->begin(to.self, content->generation) : to.ops->save(to.self, content, 0);
    MR_TRY(status);
    if (generation == content->generation && found.equal == content->count && found.count == content->count)
        return MR_OK;
    return error_set(MR_EXISTS,
                     "it has the file 'keeper' with %zu values and '" SQLITE_IMPORT_FILE "' of Miniray 0.1.0 with %zu "
                     "others: a scheduler ran here with and without SQLite, and which it used last is not known. Move "
                     "one of them to another folder (`ls -l` shows when they were written), and start again",
                     found.count, content->count);
}

static mr_status finish(const char *folder, disk disk, size_t count) {
    uint64_t size;
    FAILPOINT("import.saved");
    if (disk.ops->size(disk.self, SQLITE_IMPORT_FILE "-wal", &size) != MR_NOT_FOUND ||
        disk.ops->size(disk.self, SQLITE_IMPORT_FILE "-journal", &size) != MR_NOT_FOUND)
        return error_set(MR_IO,
                         "SQLite has left its log beside '" SQLITE_IMPORT_FILE "': check that the folder and its "
                         "files may be written, and start again");
    MR_TRY(disk.ops->rename(disk.self, SQLITE_IMPORT_FILE, SQLITE_IMPORT_DONE));
    FAILPOINT("import.renamed");
    log_info("imported %zu values of Miniray 0.1.0 from %s/" SQLITE_IMPORT_FILE ", which is " SQLITE_IMPORT_DONE " now",
             count, folder);
    return MR_OK;
}

mr_status sqlite_import(const char *folder, disk disk, metadata_storage to, rng *rng) {
    uint64_t size;
    metadata_db *db;
    mr_status status = disk.ops->size(disk.self, SQLITE_IMPORT_FILE, &size);
    if (status == MR_NOT_FOUND) return MR_OK;
    MR_TRY(status);
    MR_TRY(read_database(folder, rng, &db));
    FAILPOINT("import.read");
    metadata_storage_content content = metadata_db_content(db);
    status = save(to, &content);
    if (status == MR_OK) status = finish(folder, disk, content.count);
    metadata_db_close(db);
    return status;
}
