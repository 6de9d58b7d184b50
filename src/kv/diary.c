/* diary.c — see diary.h. */
#include "kv/diary.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "base/alloc.h"
#include "base/assert.h"

typedef struct head {
    uint64_t magic, generation;
    uint32_t rank, whole;
    uint64_t step, size, checksum;
} head;

_Static_assert(sizeof(head) == DIARY_HEAD, "a head has no gaps");

struct diary {
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

diary *diary_create(uint64_t bytes_max) {
    diary *diary = xcalloc(1, sizeof *diary);
    diary->bytes_max = bytes_max == 0 ? FEEDBACK_BYTES_MAX : bytes_max;
    diary->file = -1;
    return diary;
}

static void forget_all(diary *diary) {
    for (size_t i = 0; i < diary->count; i++) feedback_destroy(diary->feedbacks[i]);
    diary->count = 0;
}

static void close_file(diary *diary) {
    if (diary->file >= 0) close(diary->file);
    diary->file = -1;
}

void diary_destroy(diary *diary) {
    forget_all(diary);
    close_file(diary);
    free(diary->feedbacks);
    free(diary->path);
    free(diary);
}

void diary_keep(diary *diary, const char *path) {
    close_file(diary);
    free(diary->path);
    diary->path = path == NULL ? NULL : xstrdup(path);
    diary->generation = 0; /* what is there is looked at by the next diary_begin */
}

static feedback *reach(diary *diary, uint32_t table) {
    feedback *there = diary_find(diary, table);
    if (there != NULL) return there;
    diary->feedbacks = xrealloc(diary->feedbacks, (diary->count + 1) * sizeof *diary->feedbacks);
    return diary->feedbacks[diary->count++] = feedback_create(table, diary->bytes_max);
}

/* ---- Writing. */

static void stop_keeping(diary *diary) {
    close_file(diary);
    free(diary->path);
    diary->path = NULL;
}

/* Feedback is worth less than what is learned with it: the worker goes on. */
static void give_up(diary *diary, const char *what) {
    fprintf(stderr, "miniray: the feedback of rank %u is not kept any more: %s %s: %s\n", diary->rank, what,
            diary->path, strerror(errno));
    stop_keeping(diary);
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
static size_t make_record(const diary *diary, bool whole, uint8_t **out) {
    size_t size = 0;
    void *memory;
    for (size_t i = 0; i < diary->count; i++) size += feedback_size(diary->feedbacks[i], whole);
    if (alloc_try(sizeof(head) + size, &memory) != MR_OK) return 0;
    uint8_t *at = (uint8_t *)memory + sizeof(head);
    for (size_t i = 0; i < diary->count; i++) {
        feedback_save(diary->feedbacks[i], whole, at);
        at += feedback_size(diary->feedbacks[i], whole);
    }
    head head = {DIARY_MAGIC, diary->generation, diary->rank, whole, diary->step, size, 0};
    head.checksum = checksum_of(&head, span_of((uint8_t *)memory + sizeof head, size));
    memcpy(memory, &head, sizeof head);
    *out = memory;
    return sizeof head + size;
}

static bool append(diary *diary, bool whole) {
    uint8_t *record = NULL;
    size_t size = make_record(diary, whole, &record);
    bool good = size != 0 && write_all(diary->file, record, size);
    free(record);
    if (whole) diary->base = size;
    diary->since = whole ? 0 : diary->since + size;
    return good;
}

/* Another process that plays the rank has begun a file of its own in its place: what is here is the past. */
static bool is_mine(const diary *diary) {
    struct stat mine, there;
    return fstat(diary->file, &mine) == 0 && stat(diary->path, &there) == 0 && mine.st_ino == there.st_ino &&
           mine.st_dev == there.st_dev;
}

/* A file that begins with this state; the one before it stays, if it is of use. */
static void begin_file(diary *diary, bool keeps_old) {
    char *draft = xasprintf("%s.new", diary->path), *old = xasprintf("%s.old", diary->path);
    close_file(diary);
    diary->file = open(draft, O_WRONLY | O_CREAT | O_TRUNC | O_APPEND | O_CLOEXEC, 0600);
    bool good = diary->file >= 0 && append(diary, true);
    if (good && keeps_old) good = rename(diary->path, old) == 0 || errno == ENOENT;
    if (good) good = rename(draft, diary->path) == 0;
    if (good && !keeps_old) good = unlink(old) == 0 || errno == ENOENT;
    if (!good) give_up(diary, "cannot write");
    free(draft);
    free(old);
}

static void settle(diary *diary) {
    for (size_t i = 0; i < diary->count; i++) feedback_settle(diary->feedbacks[i]);
}

void diary_end(diary *diary, uint64_t next_step) {
    diary->step = next_step;
    if (diary->file >= 0 && !is_mine(diary)) stop_keeping(diary);
    if (diary->file >= 0 && !append(diary, false)) give_up(diary, "cannot write");
    settle(diary);
    if (diary->file >= 0 && diary->since > diary->base + DIARY_SLACK) begin_file(diary, true);
}

/* ---- Reading. */

static bool take_record(diary *diary, const head *head, span body) {
    reader reader = reader_of(body.data, body.size);
    uint32_t table;
    if (head->whole) forget_all(diary);
    while (reader_left(&reader) > 0)
        if (!feedback_peek(&reader, &table) || !feedback_load(reach(diary, table), &reader)) return false;
    return true;
}

bool diary_read(diary *diary, span file, uint32_t rank, uint64_t generation, uint64_t step) {
    reader reader = reader_of(file.data, file.size);
    bool found = false, begun = false;
    forget_all(diary);
    while (!found) {
        head head;
        const uint8_t *at = reader_bytes(&reader, sizeof head);
        if (at == NULL) break;
        memcpy(&head, at, sizeof head);
        const uint8_t *body = head.size <= reader_left(&reader) ? reader_bytes(&reader, head.size) : NULL;
        if (body == NULL || head.magic != DIARY_MAGIC || head.rank != rank || head.generation != generation ||
            head.checksum != checksum_of(&head, span_of(body, head.size)) || head.step > step || head.whole == begun ||
            !take_record(diary, &head, span_of(body, head.size)))
            break;
        begun = true;
        found = head.step == step;
    }
    if (!found) forget_all(diary);
    return found;
}

static bool read_file(diary *diary, const char *path, uint32_t rank, uint64_t generation, uint64_t step) {
    struct stat facts;
    void *memory = NULL;
    bool found = false;
    int file = open(path, O_RDONLY | O_CLOEXEC);
    if (file < 0) return false;
    if (fstat(file, &facts) == 0 && alloc_try((size_t)facts.st_size + 1, &memory) == MR_OK) {
        size_t size = 0;
        for (ssize_t got; size < (size_t)facts.st_size; size += (size_t)got)
            if ((got = read(file, (uint8_t *)memory + size, (size_t)facts.st_size - size)) <= 0) break;
        found = diary_read(diary, span_of(memory, size), rank, generation, step);
    }
    close(file);
    free(memory);
    return found;
}

static bool recall(diary *diary) {
    if (diary->path == NULL) return false;
    char *old = xasprintf("%s.old", diary->path);
    bool found = read_file(diary, diary->path, diary->rank, diary->generation, diary->step) ||
                 read_file(diary, old, diary->rank, diary->generation, diary->step);
    free(old);
    if (found) begin_file(diary, false);
    return found;
}

void diary_begin(diary *diary, uint32_t rank, uint64_t generation, uint64_t step) {
    bool goes_on = diary->generation == generation && diary->rank == rank && diary->step == step;
    if (goes_on) return;
    diary->rank = rank;
    diary->generation = generation;
    diary->step = step;
    close_file(diary);
    forget_all(diary);
    diary->missing = !recall(diary) && step != 0;
}

/* ---- What is in it. */

feedback *diary_find(const diary *diary, uint32_t table) {
    for (size_t i = 0; i < diary->count; i++)
        if (feedback_table(diary->feedbacks[i]) == table) return diary->feedbacks[i];
    return NULL;
}

feedback *diary_of(diary *diary, uint32_t table) {
    if (diary->missing) {
        diary->missing = false;
        diary->begun_empty++;
        fprintf(stderr,
                "miniray: rank %u begins step %llu without the feedback of the steps before it, if there was any: it "
                "is not known here, and begins at zero\n",
                diary->rank, (unsigned long long)diary->step);
    }
    if (diary->path != NULL && diary->file < 0) begin_file(diary, false);
    return reach(diary, table);
}

void diary_drop(diary *diary, uint32_t table) {
    for (size_t i = 0; i < diary->count; i++) {
        if (feedback_table(diary->feedbacks[i]) != table) continue;
        feedback_destroy(diary->feedbacks[i]);
        diary->feedbacks[i] = diary->feedbacks[--diary->count];
        return;
    }
}

diary_look diary_look_at(const diary *diary) {
    diary_look look = {.begun_empty = diary->begun_empty};
    for (size_t i = 0; i < diary->count; i++) {
        feedback_look one = feedback_look_at(diary->feedbacks[i]);
        look.bytes += one.bytes;
        look.forgotten += one.forgotten;
    }
    return look;
}
