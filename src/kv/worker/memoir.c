/* memoir.c — see memoir.h. */
#include "kv/worker/memoir.h"

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

typedef struct head {
    uint64_t magic, generation;
    uint32_t rank, whole;
    uint64_t step, size, checksum;
} head;

_Static_assert(sizeof(head) == MEMOIR_HEAD, "a head has no gaps");

struct memoir {
    uint64_t bytes_max;
    uint32_t rank;
    uint64_t generation, step; /* that the state is of; generation 0: of none */
    bool missing;              /* there should have been a state, and there was none: to be said */
    uint64_t begun_empty;
    feedback **feedbacks; /* owned, each too */
    size_t count;
    char *path;           /* owned; NULL: nowhere */
    int file;             /* -1: none yet */
    uint64_t base, since; /* bytes of its first record, and of the others */
};

memoir *memoir_create(uint64_t bytes_max) {
    memoir *memoir = xcalloc(1, sizeof *memoir);
    memoir->bytes_max = bytes_max == 0 ? FEEDBACK_BYTES_MAX : bytes_max;
    memoir->file = -1;
    return memoir;
}

static void forget_all(memoir *memoir) {
    for (size_t i = 0; i < memoir->count; i++) feedback_destroy(memoir->feedbacks[i]);
    memoir->count = 0;
}

static void close_file(memoir *memoir) {
    if (memoir->file >= 0) close(memoir->file);
    memoir->file = -1;
}

void memoir_destroy(memoir *memoir) {
    forget_all(memoir);
    close_file(memoir);
    free(memoir->feedbacks);
    free(memoir->path);
    free(memoir);
}

void memoir_keep(memoir *memoir, const char *path) {
    close_file(memoir);
    free(memoir->path);
    memoir->path = path == NULL ? NULL : xstrdup(path);
    memoir->generation = 0; /* what is there is looked at by the next memoir_begin */
}

static feedback *reach(memoir *memoir, uint32_t table) {
    feedback *there = memoir_find(memoir, table);
    if (there != NULL) return there;
    memoir->feedbacks = xrealloc(memoir->feedbacks, (memoir->count + 1) * sizeof *memoir->feedbacks);
    return memoir->feedbacks[memoir->count++] = feedback_create(table, memoir->bytes_max);
}

/* ---- Writing. */

static void stop_keeping(memoir *memoir) {
    close_file(memoir);
    free(memoir->path);
    memoir->path = NULL;
}

/* Feedback is worth less than what is learned with it: the worker goes on. */
static void give_up(memoir *memoir, const char *what) {
    fprintf(stderr, "miniray: the error feedback of rank %u is no longer saved: %s %s: %s\n", memoir->rank, what,
            memoir->path, strerror(errno));
    stop_keeping(memoir);
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

/* A record of this state. *out is to be freed; 0: there is no memory. */
static size_t make_record(const memoir *memoir, bool whole, uint8_t **out) {
    size_t size = 0;
    void *memory;
    for (size_t i = 0; i < memoir->count; i++) size += feedback_size(memoir->feedbacks[i], whole);
    if (alloc_try(sizeof(head) + size, &memory) != MR_OK) return 0;
    uint8_t *at = (uint8_t *)memory + sizeof(head);
    for (size_t i = 0; i < memoir->count; i++) {
        feedback_save(memoir->feedbacks[i], whole, at);
        at += feedback_size(memoir->feedbacks[i], whole);
    }
    head head = {MEMOIR_MAGIC, memoir->generation, memoir->rank, whole, memoir->step, size, 0};
    head.checksum = checksum_of(&head, span_of((uint8_t *)memory + sizeof head, size));
    memcpy(memory, &head, sizeof head);
    *out = memory;
    return sizeof head + size;
}

static bool append(memoir *memoir, bool whole) {
    uint8_t *record = NULL;
    size_t size = make_record(memoir, whole, &record);
    bool good = size != 0 && write_all(memoir->file, record, size);
    free(record);
    if (whole) memoir->base = size;
    memoir->since = whole ? 0 : memoir->since + size;
    return good;
}

/* Another process that plays the rank has begun a file of its own in its place: what is here is the past. */
static bool is_mine(const memoir *memoir) {
    struct stat mine, there;
    return fstat(memoir->file, &mine) == 0 && stat(memoir->path, &there) == 0 && mine.st_ino == there.st_ino &&
           mine.st_dev == there.st_dev;
}

/* A file that begins with this state; the one before it stays, if it is of use. */
static void begin_file(memoir *memoir, bool keeps_old) {
    char *draft = xasprintf("%s.new", memoir->path), *old = xasprintf("%s.old", memoir->path);
    close_file(memoir);
    memoir->file = open(draft, O_WRONLY | O_CREAT | O_TRUNC | O_APPEND | O_CLOEXEC, 0600);
    bool good = memoir->file >= 0 && append(memoir, true);
    if (good && keeps_old) good = rename(memoir->path, old) == 0 || errno == ENOENT;
    if (good) good = rename(draft, memoir->path) == 0;
    if (good && !keeps_old) good = unlink(old) == 0 || errno == ENOENT;
    if (!good) give_up(memoir, "cannot write");
    free(draft);
    free(old);
}

static void settle(memoir *memoir) {
    for (size_t i = 0; i < memoir->count; i++) feedback_settle(memoir->feedbacks[i]);
}

void memoir_end(memoir *memoir, uint64_t next_step) {
    memoir->step = next_step;
    if (memoir->file >= 0 && !is_mine(memoir)) stop_keeping(memoir);
    if (memoir->file >= 0 && !append(memoir, false)) give_up(memoir, "cannot write");
    settle(memoir);
    if (memoir->file >= 0 && memoir->since > memoir->base + MEMOIR_SLACK) begin_file(memoir, true);
}

/* ---- Reading. */

static bool take_record(memoir *memoir, const head *head, span body) {
    reader reader = reader_of(body.data, body.size);
    uint32_t table;
    if (head->whole) forget_all(memoir);
    while (reader_left(&reader) > 0)
        if (!feedback_peek(&reader, &table) || !feedback_load(reach(memoir, table), &reader)) return false;
    return true;
}

bool memoir_read(memoir *memoir, span file, uint32_t rank, uint64_t generation, uint64_t step) {
    reader reader = reader_of(file.data, file.size);
    bool found = false, begun = false;
    forget_all(memoir);
    while (!found) {
        head head;
        const uint8_t *at = reader_bytes(&reader, sizeof head);
        if (at == NULL) break;
        memcpy(&head, at, sizeof head);
        const uint8_t *body = head.size <= reader_left(&reader) ? reader_bytes(&reader, head.size) : NULL;
        if (body == NULL || head.magic != MEMOIR_MAGIC || head.rank != rank || head.generation != generation ||
            head.checksum != checksum_of(&head, span_of(body, head.size)) || head.step > step || head.whole == begun ||
            !take_record(memoir, &head, span_of(body, head.size)))
            break;
        begun = true;
        found = head.step == step;
    }
    if (!found) forget_all(memoir);
    return found;
}

/* The rank goes on, and what is in the file is not touched. */
static void reject(memoir *memoir, const char *path, uint32_t found) {
    char *object = xasprintf("the feedback file %s", path);
    (void)format_reject(object, found, format_of(MEMOIR_MAGIC, MEMOIR_MAGIC, sizeof(uint64_t)),
                        FORMAT_USE_WRITER ", or remove the file");
    fprintf(stderr, "miniray: the error feedback of rank %u is not saved: %s\n", memoir->rank, mr_last_error());
    free(object);
    stop_keeping(memoir);
}

static bool read_file(memoir *memoir, const char *path, uint32_t rank, uint64_t generation, uint64_t step) {
    struct stat facts;
    void *memory = NULL;
    bool found = false;
    int file = open(path, O_RDONLY | O_CLOEXEC);
    if (file < 0) return false;
    if (fstat(file, &facts) == 0 && alloc_try((size_t)facts.st_size + 1, &memory) == MR_OK) {
        size_t size = 0;
        for (ssize_t got; size < (size_t)facts.st_size; size += (size_t)got)
            if ((got = read(file, (uint8_t *)memory + size, (size_t)facts.st_size - size)) <= 0) break;
        uint64_t magic = size < sizeof magic ? 0 : *(const uint64_t *)memory;
        uint32_t format = format_of(magic, MEMOIR_MAGIC, sizeof magic);
        if (magic != MEMOIR_MAGIC && format != 0)
            reject(memoir, path, format);
        else
            found = memoir_read(memoir, span_of(memory, size), rank, generation, step);
    }
    close(file);
    free(memory);
    return found;
}

static bool recall(memoir *memoir) {
    if (memoir->path == NULL) return false;
    char *old = xasprintf("%s.old", memoir->path);
    bool found = read_file(memoir, memoir->path, memoir->rank, memoir->generation, memoir->step);
    if (!found && memoir->path != NULL) found = read_file(memoir, old, memoir->rank, memoir->generation, memoir->step);
    free(old);
    if (found) begin_file(memoir, false);
    return found;
}

void memoir_begin(memoir *memoir, uint32_t rank, uint64_t generation, uint64_t step) {
    bool goes_on = memoir->generation == generation && memoir->rank == rank && memoir->step == step;
    if (goes_on) return;
    memoir->rank = rank;
    memoir->generation = generation;
    memoir->step = step;
    close_file(memoir);
    forget_all(memoir);
    memoir->missing = !recall(memoir) && step != 0;
}

/* ---- What is in it. */

feedback *memoir_find(const memoir *memoir, uint32_t table) {
    for (size_t i = 0; i < memoir->count; i++)
        if (feedback_table(memoir->feedbacks[i]) == table) return memoir->feedbacks[i];
    return NULL;
}

feedback *memoir_of(memoir *memoir, uint32_t table) {
    if (memoir->missing) {
        memoir->missing = false;
        memoir->begun_empty++;
        fprintf(stderr,
                "miniray: rank %u begins step %llu without the error feedback of earlier steps: it is not known here, "
                "and begins at zero\n",
                memoir->rank, (unsigned long long)memoir->step);
    }
    if (memoir->path != NULL && memoir->file < 0) begin_file(memoir, false);
    return reach(memoir, table);
}

void memoir_drop(memoir *memoir, uint32_t table) {
    for (size_t i = 0; i < memoir->count; i++) {
        if (feedback_table(memoir->feedbacks[i]) != table) continue;
        feedback_destroy(memoir->feedbacks[i]);
        memoir->feedbacks[i] = memoir->feedbacks[--memoir->count];
        return;
    }
}

memoir_look memoir_look_at(const memoir *memoir) {
    memoir_look look = {.begun_empty = memoir->begun_empty};
    for (size_t i = 0; i < memoir->count; i++) {
        feedback_look one = feedback_look_at(memoir->feedbacks[i]);
        look.bytes += one.bytes;
        look.forgotten += one.forgotten;
    }
    return look;
}
