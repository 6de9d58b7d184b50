/* feedback_file.c — see feedback_file.h. */
#include "kv/client/feedback_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "base/alloc.h"
#include "base/format.h"
#include "base/new_file.h"

typedef struct head {
    uint64_t magic, generation;
    uint32_t rank, whole;
    uint64_t step, size, checksum;
} head;

_Static_assert(sizeof(head) == FEEDBACK_FILE_HEAD, "a head has no gaps");

struct feedback_file {
    uint64_t bytes_max;
    uint32_t rank;
    uint64_t generation, step; /* of the state; generation 0: none */
    bool missing;              /* a needed state was missing; feedback_file_of reports it */
    uint64_t begun_empty;
    error_feedback **feedbacks; /* owned, with its elements */
    size_t count;
    char *path;           /* owned; NULL: the feedback is not saved */
    int file;             /* -1: not open */
    uint64_t base, since; /* bytes of the first record; bytes of the others */
};

feedback_file *feedback_file_create(uint64_t bytes_max) {
    feedback_file *file = xcalloc(1, sizeof *file);
    file->bytes_max = bytes_max == 0 ? ERROR_FEEDBACK_BYTES_MAX : bytes_max;
    file->file = -1;
    return file;
}

static void forget_all(feedback_file *file) {
    for (size_t i = 0; i < file->count; i++) error_feedback_destroy(file->feedbacks[i]);
    file->count = 0;
}

static void close_file(feedback_file *file) {
    if (file->file >= 0) close(file->file);
    file->file = -1;
}

static void stop_keeping(feedback_file *file) {
    close_file(file);
    free(file->path);
    file->path = NULL;
}

void feedback_file_destroy(feedback_file *file) {
    forget_all(file);
    stop_keeping(file);
    free(file->feedbacks);
    free(file);
}

void feedback_file_keep(feedback_file *file, const char *path) {
    stop_keeping(file);
    if (path != NULL) file->path = xstrdup(path);
    file->generation = 0; /* the next feedback_file_begin reads the file */
}

static error_feedback *reach(feedback_file *file, uint32_t table) {
    error_feedback *there = feedback_file_find(file, table);
    if (there != NULL) return there;
    file->feedbacks = xrealloc(file->feedbacks, (file->count + 1) * sizeof *file->feedbacks);
    return file->feedbacks[file->count++] = error_feedback_create(table, file->bytes_max);
}

/* ---- Writing. */

/* Stops the saving after a file error; the worker continues. */
static void give_up(feedback_file *file, const char *what) {
    fprintf(stderr, "miniray: the error feedback of rank %u is no longer saved: %s %s: %s\n", file->rank, what,
            file->path, strerror(errno));
    stop_keeping(file);
}

static bool write_all(int file, const uint8_t *bytes, size_t size) {
    while (size > 0) {
        ssize_t written = write(file, bytes, size);
        if (written < 0 && errno == EINTR) continue;
        if (written <= 0) return false;
        bytes += written;
        size -= (size_t)written;
    }
    return true;
}

static uint64_t checksum_of(const head *head, span body) {
    struct head plain = *head;
    plain.checksum = 0;
    return XXH3_64bits_withSeed(body.data, body.size, XXH3_64bits(&plain, sizeof plain));
}

/* Encodes a record of the current state. The caller frees *out. 0: no memory. */
static size_t make_record(const feedback_file *file, bool whole, uint8_t **out) {
    size_t size = 0;
    uint8_t *memory;
    for (size_t i = 0; i < file->count; i++) size += error_feedback_size(file->feedbacks[i], whole);
    if (alloc_try(sizeof(head) + size, &memory) != MR_OK) return 0;
    uint8_t *at = memory + sizeof(head);
    for (size_t i = 0; i < file->count; i++) {
        error_feedback_save(file->feedbacks[i], whole, at);
        at += error_feedback_size(file->feedbacks[i], whole);
    }
    head head = {FEEDBACK_FILE_MAGIC, file->generation, file->rank, whole, file->step, size, 0};
    head.checksum = checksum_of(&head, span_of(memory + sizeof head, size));
    memcpy(memory, &head, sizeof head);
    *out = memory;
    return sizeof head + size;
}

static bool append(feedback_file *file, bool whole) {
    uint8_t *record = NULL;
    size_t size = make_record(file, whole, &record);
    bool good = size != 0 && write_all(file->file, record, size);
    free(record);
    if (whole) file->base = size;
    file->since = whole ? 0 : file->since + size;
    return good;
}

/* False: another process of the rank has replaced the file, so this state is outdated. */
static bool is_mine(const feedback_file *file) {
    struct stat mine, there;
    return fstat(file->file, &mine) == 0 && lstat(file->path, &there) == 0 && mine.st_ino == there.st_ino &&
           mine.st_dev == there.st_dev;
}

/* Begins a file with the current state; keeps the previous file if it is still needed. */
static void begin_file(feedback_file *file, bool keeps_old) {
    char *draft = xasprintf("%s.new", file->path), *old = xasprintf("%s.old", file->path);
    close_file(file);
    file->file = new_file_create(draft, 0600);
    bool good = file->file >= 0 && append(file, true);
    if (good && keeps_old) good = rename(file->path, old) == 0 || errno == ENOENT;
    if (good) good = rename(draft, file->path) == 0;
    if (good && !keeps_old) good = unlink(old) == 0 || errno == ENOENT;
    if (!good) give_up(file, "cannot write");
    free(draft);
    free(old);
}

void feedback_file_end(feedback_file *file, uint64_t next_step) {
    file->step = next_step;
    if (file->file >= 0 && !is_mine(file)) stop_keeping(file);
    if (file->file >= 0 && !append(file, false)) give_up(file, "cannot write");
    for (size_t i = 0; i < file->count; i++) error_feedback_settle(file->feedbacks[i]);
    if (file->file >= 0 && file->since > file->base + FEEDBACK_FILE_SLACK) begin_file(file, true);
}

/* ---- Reading. */

static bool take_record(feedback_file *file, const head *head, span body) {
    reader reader = reader_of(body.data, body.size);
    uint32_t table;
    if (head->whole) forget_all(file);
    while (reader_left(&reader) > 0)
        if (!error_feedback_peek(&reader, &table) || !error_feedback_load(reach(file, table), &reader)) return false;
    return true;
}

bool feedback_file_read(feedback_file *feedback_file, span file, uint32_t rank, uint64_t generation, uint64_t step) {
    reader reader = reader_of(file.data, file.size);
    bool found = false, begun = false;
    forget_all(feedback_file);
    while (!found) {
        head head;
        const uint8_t *at = reader_bytes(&reader, sizeof head);
        if (at == NULL) break;
        memcpy(&head, at, sizeof head);
        const uint8_t *body = head.size <= reader_left(&reader) ? reader_bytes(&reader, head.size) : NULL;
        if (body == NULL || head.magic != FEEDBACK_FILE_MAGIC || head.rank != rank || head.generation != generation ||
            head.checksum != checksum_of(&head, span_of(body, head.size)) || head.step > step || head.whole == begun ||
            !take_record(feedback_file, &head, span_of(body, head.size)))
            break;
        begun = true;
        found = head.step == step;
    }
    if (!found) forget_all(feedback_file);
    return found;
}

/* Leaves a file of another format unchanged; the rank continues without saving. */
static void reject(feedback_file *file, const char *path, uint32_t found) {
    char *object = xasprintf("the feedback file %s", path);
    (void)format_reject(object, found, format_of(FEEDBACK_FILE_MAGIC, FEEDBACK_FILE_MAGIC, sizeof(uint64_t)),
                        FORMAT_USE_WRITER ", or remove the file");
    fprintf(stderr, "miniray: the error feedback of rank %u is not saved: %s\n", file->rank, mr_last_error());
    free(object);
    stop_keeping(file);
}

static bool read_file(feedback_file *feedback, const char *path) {
    struct stat facts;
    void *memory = NULL;
    bool found = false;
    int file = open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (file < 0) return false;
    /* In a folder that others may write to, another user's file is not this rank's. */
    bool is_own = fstat(file, &facts) == 0 && S_ISREG(facts.st_mode) && facts.st_uid == geteuid();
    if (is_own && alloc_try((size_t)facts.st_size + 1, &memory) == MR_OK) {
        size_t size = 0;
        for (ssize_t got; size < (size_t)facts.st_size; size += (size_t)got)
            if ((got = read(file, (uint8_t *)memory + size, (size_t)facts.st_size - size)) <= 0) break;
        uint64_t magic = size < sizeof magic ? 0 : *(const uint64_t *)memory;
        uint32_t format = format_of(magic, FEEDBACK_FILE_MAGIC, sizeof magic);
        if (magic != FEEDBACK_FILE_MAGIC && format != 0)
            reject(feedback, path, format);
        else
            found = feedback_file_read(feedback, span_of(memory, size), feedback->rank, feedback->generation,
                                       feedback->step);
    }
    close(file);
    free(memory);
    return found;
}

static bool recall(feedback_file *file) {
    if (file->path == NULL) return false;
    char *old = xasprintf("%s.old", file->path);
    bool found = read_file(file, file->path);
    if (!found && file->path != NULL) found = read_file(file, old);
    free(old);
    if (found) begin_file(file, false);
    return found;
}

void feedback_file_begin(feedback_file *file, uint32_t rank, uint64_t generation, uint64_t step) {
    /* the current state is the step's */
    if (file->generation == generation && file->rank == rank && file->step == step) return;
    file->rank = rank;
    file->generation = generation;
    file->step = step;
    close_file(file);
    forget_all(file);
    file->missing = !recall(file) && step != 0;
}

/* ---- Interface. */

error_feedback *feedback_file_find(const feedback_file *file, uint32_t table) {
    for (size_t i = 0; i < file->count; i++)
        if (error_feedback_table(file->feedbacks[i]) == table) return file->feedbacks[i];
    return NULL;
}

error_feedback *feedback_file_of(feedback_file *file, uint32_t table) {
    if (file->missing) {
        file->missing = false;
        file->begun_empty++;
        fprintf(stderr,
                "miniray: rank %u begins step %llu without the error feedback of earlier steps: it is not known here, "
                "and begins at zero\n",
                file->rank, (unsigned long long)file->step);
    }
    if (file->path != NULL && file->file < 0) begin_file(file, false);
    return reach(file, table);
}

void feedback_file_drop(feedback_file *file, uint32_t table) {
    for (size_t i = 0; i < file->count; i++) {
        if (error_feedback_table(file->feedbacks[i]) != table) continue;
        error_feedback_destroy(file->feedbacks[i]);
        file->feedbacks[i] = file->feedbacks[--file->count];
        return;
    }
}

feedback_file_look feedback_file_look_at(const feedback_file *file) {
    feedback_file_look look = {.begun_empty = file->begun_empty};
    for (size_t i = 0; i < file->count; i++) {
        error_feedback_look one = error_feedback_look_at(file->feedbacks[i]);
        look.bytes += one.bytes;
        look.forgotten += one.forgotten;
    }
    return look;
}
