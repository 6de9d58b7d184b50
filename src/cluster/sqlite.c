/* sqlite.c — see sqlite.h. */
#include "cluster/sqlite.h"

#include <dlfcn.h>
#include <limits.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/error.h"
#include "base/failpoint.h"
#include "base/format.h"

#define FUNCTIONS(X) \
    X(open_v2)       \
    X(close)         \
    X(exec)          \
    X(prepare_v2)    \
    X(finalize)      \
    X(step)          \
    X(reset)         \
    X(bind_blob)     \
    X(bind_int64)    \
    X(column_blob)   \
    X(column_bytes)  \
    X(column_int64)  \
    X(errmsg)

typedef struct api {
    void *library;
#define X(name) __typeof__(&sqlite3_##name) name;
    FUNCTIONS(X)
#undef X
} api;

struct sqlite {
    api api;
    sqlite3 *file;
    sqlite3_stmt *put; /* one record */
};

#define TEXT(number)    #number
#define TEXT_OF(number) TEXT(number)
#define SET_FORMAT      "PRAGMA user_version = " TEXT_OF(SQLITE_ARCHIVE_FORMAT) ";"

/* Before the log, which needs no shared memory then. */
static const char *const locking = "PRAGMA locking_mode = EXCLUSIVE";
static const char *const schema =
    "PRAGMA journal_mode = WAL;"
    "PRAGMA synchronous = FULL;"
    "BEGIN IMMEDIATE;" SET_FORMAT
    "CREATE TABLE IF NOT EXISTS meta (id INTEGER PRIMARY KEY CHECK (id = 1), generation INTEGER NOT NULL);"
    "CREATE TABLE IF NOT EXISTS value (key BLOB PRIMARY KEY, version INTEGER NOT NULL, lease INTEGER NOT NULL,"
    " value BLOB NOT NULL) WITHOUT ROWID;"
    "COMMIT;";

static mr_status load_api(api *api) {
    api->library = dlopen("libsqlite3.so.0", RTLD_NOW | RTLD_LOCAL);
    if (api->library == NULL) return error_set(MR_NOT_FOUND, "this machine has no SQLite: %s", dlerror());
#define X(name) *(void **)&api->name = dlsym(api->library, "sqlite3_" #name);
    FUNCTIONS(X)
#undef X
#define X(name) &&api->name != NULL
    bool whole = true FUNCTIONS(X);
#undef X
    return whole ? MR_OK : error_set(MR_NOT_FOUND, "this machine's SQLite lacks a function");
}

static mr_status failed(sqlite *sqlite, int code) {
    mr_status status = MR_IO;
    if (code == SQLITE_BUSY || code == SQLITE_LOCKED) status = MR_BUSY;
    if (code == SQLITE_CORRUPT || code == SQLITE_NOTADB) status = MR_CORRUPT;
    if (code == SQLITE_FULL || code == SQLITE_NOMEM) status = MR_NOMEM;
    return error_set(status, "the keeper's database: %s",
                     sqlite->file == NULL ? "no memory" : sqlite->api.errmsg(sqlite->file));
}

static mr_status execute(sqlite *sqlite, const char *text) {
    int code = sqlite->api.exec(sqlite->file, text, NULL, NULL, NULL);
    return code == SQLITE_OK ? MR_OK : failed(sqlite, code);
}

static mr_status prepare(sqlite *sqlite, const char *text, sqlite3_stmt **out) {
    int code = sqlite->api.prepare_v2(sqlite->file, text, -1, out, NULL);
    return code == SQLITE_OK ? MR_OK : failed(sqlite, code);
}

static mr_status read_number(sqlite *sqlite, const char *text, int64_t *out) {
    sqlite3_stmt *rows;
    MR_TRY(prepare(sqlite, text, &rows));
    int code = sqlite->api.step(rows);
    if (code == SQLITE_ROW) *out = sqlite->api.column_int64(rows, 0);
    sqlite->api.finalize(rows);
    return code == SQLITE_ROW ? MR_OK : failed(sqlite, code);
}

/* A file without tables is a new one. */
static mr_status check_format(sqlite *sqlite) {
    int64_t format, tables;
    MR_TRY(read_number(sqlite, "PRAGMA user_version", &format));
    MR_TRY(read_number(sqlite, "SELECT count(*) FROM sqlite_master", &tables));
    if (tables == 0 || format == SQLITE_ARCHIVE_FORMAT) return MR_OK;
    return format_reject("the keeper's database", (uint64_t)format, SQLITE_ARCHIVE_FORMAT,
                         FORMAT_USE_WRITER ", or begin in another folder");
}

static mr_status open_file(sqlite *sqlite, const char *path) {
    MR_TRY(load_api(&sqlite->api));
    int code = sqlite->api.open_v2(path, &sqlite->file, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE, NULL);
    if (code != SQLITE_OK) return failed(sqlite, code);
    MR_TRY(execute(sqlite, locking));
    MR_TRY(check_format(sqlite));
    MR_TRY(execute(sqlite, schema));
    return prepare(sqlite, "INSERT OR REPLACE INTO value VALUES (?, ?, ?, ?)", &sqlite->put);
}

mr_status sqlite_open(const char *path, sqlite **out) {
    sqlite *sqlite = xcalloc(1, sizeof *sqlite);
    mr_status status = open_file(sqlite, path);
    if (status != MR_OK) {
        sqlite_close(sqlite);
        return status;
    }
    *out = sqlite;
    return MR_OK;
}

void sqlite_close(sqlite *sqlite) {
    if (sqlite->file != NULL) {
        sqlite->api.finalize(sqlite->put);
        sqlite->api.close(sqlite->file);
    }
    if (sqlite->api.library != NULL) dlclose(sqlite->api.library);
    free(sqlite);
}

/* ---- Loading. */

static span column(sqlite *sqlite, sqlite3_stmt *row, int index) {
    const void *data = sqlite->api.column_blob(row, index);
    return span_of(data, (size_t)sqlite->api.column_bytes(row, index));
}

static mr_status damaged(void) {
    return error_set(MR_CORRUPT,
                     "the keeper's database is damaged: remove it, and every member will enter the cluster anew");
}

static mr_status load_generation(sqlite *sqlite, uint64_t *out) {
    sqlite3_stmt *rows;
    MR_TRY(prepare(sqlite, "SELECT generation FROM meta", &rows));
    int code = sqlite->api.step(rows);
    if (code == SQLITE_ROW) *out = (uint64_t)sqlite->api.column_int64(rows, 0);
    sqlite->api.finalize(rows);
    if (code == SQLITE_DONE) return MR_NOT_FOUND;
    return code == SQLITE_ROW ? MR_OK : failed(sqlite, code);
}

static mr_status load(void *self, archive_take_fn *take, void *context, uint64_t *generation) {
    sqlite *sqlite = self;
    sqlite3_stmt *rows;
    MR_TRY(load_generation(sqlite, generation));
    MR_TRY(prepare(sqlite, "SELECT key, version, lease, value FROM value", &rows));
    mr_status status = MR_OK;
    int code;
    while (status == MR_OK && (code = sqlite->api.step(rows)) != SQLITE_DONE) {
        if (code != SQLITE_ROW) {
            status = failed(sqlite, code);
            break;
        }
        archive_record record = {column(sqlite, rows, 0), (uint64_t)sqlite->api.column_int64(rows, 1),
                                 (uint64_t)sqlite->api.column_int64(rows, 2), column(sqlite, rows, 3)};
        if (!take(context, *generation, &record)) status = damaged();
    }
    sqlite->api.finalize(rows);
    return status;
}

/* ---- Saving. */

static mr_status put_record(sqlite *sqlite, const archive_record *record) {
    const api *api = &sqlite->api;
    MR_ASSERT(record->key.size <= INT_MAX && record->value.size <= INT_MAX);
    const void *value = record->value.data == NULL ? "" : (const void *)record->value.data;
    int code = api->bind_blob(sqlite->put, 1, record->key.data, (int)record->key.size, SQLITE_STATIC);
    if (code == SQLITE_OK) code = api->bind_int64(sqlite->put, 2, (int64_t)record->version);
    if (code == SQLITE_OK) code = api->bind_int64(sqlite->put, 3, (int64_t)record->lease);
    if (code == SQLITE_OK) code = api->bind_blob(sqlite->put, 4, value, (int)record->value.size, SQLITE_STATIC);
    if (code == SQLITE_OK) code = api->step(sqlite->put);
    mr_status status = code == SQLITE_DONE ? MR_OK : failed(sqlite, code);
    api->reset(sqlite->put);
    return status;
}

static mr_status put_generation(sqlite *sqlite, uint64_t generation) {
    char text[100];
    snprintf(text, sizeof text, "INSERT OR REPLACE INTO meta VALUES (1, %llu)", (unsigned long long)generation);
    return execute(sqlite, text);
}

/* A transaction of the changes that `status` speaks of; all of them, or none. */
static mr_status commit(sqlite *sqlite, mr_status status) {
    if (status == MR_OK && FAILPOINT_ERROR("sqlite.commit")) status = error_set(MR_IO, "a failpoint");
    if (status == MR_OK) status = execute(sqlite, "COMMIT");
    if (status != MR_OK) (void)sqlite->api.exec(sqlite->file, "ROLLBACK", NULL, NULL, NULL);
    FAILPOINT("sqlite.committed");
    return status;
}

static mr_status save(void *self, const archive_content *content, size_t changed) {
    sqlite *sqlite = self;
    MR_TRY(execute(sqlite, "BEGIN IMMEDIATE"));
    mr_status status = put_generation(sqlite, content->generation);
    if (status == MR_OK) status = put_record(sqlite, &content->records[changed]);
    return commit(sqlite, status);
}

static mr_status begin(void *self, uint64_t generation) {
    sqlite *sqlite = self;
    MR_TRY(execute(sqlite, "BEGIN IMMEDIATE; DELETE FROM value"));
    return commit(sqlite, put_generation(sqlite, generation));
}

archive sqlite_archive(sqlite *sqlite) {
    static const archive_ops ops = {.name = "sqlite", .load = load, .save = save, .begin = begin};
    return (archive){&ops, sqlite};
}
