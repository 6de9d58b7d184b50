/* spill_file.c — see spill_file.h.
 *
 *  job:  queued ── helper thread ──► done ── spill_file_poll ──► freed
 *
 * The record of a saved object is created by save and removed by forget, both on the loop's thread; the helper thread
 * writes the checksum during the save. spill_file_poll frees a removed record, after all earlier jobs of the queue. */
#include "store/spill_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/stat.h>
#include <unistd.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/error.h"
#include "base/failpoint.h"
#include "base/list.h"
#include "base/map.h"
#include "base/thread.h"
#include "base/tsan.h"
#include "net/shm/extent_allocator.h"

enum { PIECE = 1 << 20 };
#define ENDLESS (UINT64_C(1) << 46)

typedef struct spill_file_file {
    extent place;
    uint64_t size, checksum;
} spill_file_file;

typedef enum job_kind { JOB_SAVE, JOB_LOAD, JOB_FORGET } job_kind;

typedef struct job {
    list place; /* in spill->queue or spill->done */
    job_kind kind;
    uint64_t ticket;
    spill_file_file *file; /* of a JOB_FORGET: owned */
    uint8_t *data;         /* borrowed; a save only reads it */
    mr_status status;
    char *text; /* of the error; owned; NULL: none */
} job;

struct spill_file {
    int fd, event_fd; /* owned */
    pthread_t helper;
    extent_allocator *allocator;
    map files; /* ticket → spill_file_file */

    pthread_mutex_t lock; /* protects the members below */
    pthread_cond_t work;
    list queue, done;
    bool stopping;
};

/* ---- Helper thread. */

/* One pwrite or pread; a read at the end of the file returns 0. */
static ssize_t move_some(int fd, job_kind kind, uint8_t *data, size_t size, uint64_t at) {
    if (kind == JOB_SAVE && FAILPOINT_ERROR("store.spill_write")) return errno = ENOSPC, -1;
    if (kind == JOB_LOAD && FAILPOINT_ERROR("store.spill_read")) return errno = EIO, -1;
    return kind == JOB_SAVE ? pwrite(fd, data, size, (off_t)at) : pread(fd, data, size, (off_t)at);
}

static mr_status move_piece(int fd, job_kind kind, uint8_t *data, size_t size, uint64_t at) {
    while (size > 0) {
        ssize_t part = move_some(fd, kind, data, size, at);
        if (part < 0 && errno == EINTR) continue;
        if (part < 0 && kind == JOB_SAVE) return error_errno("cannot write %zu bytes to the spill file", size);
        if (part < 0) return error_errno("cannot read %zu bytes from the spill file", size);
        if (part == 0 && kind == JOB_LOAD)
            return error_set(MR_CORRUPT, "the spill file ends %zu bytes before the end of an object", size);
        data += part;
        size -= (size_t)part;
        at += (uint64_t)part;
    }
    return MR_OK;
}

/* Works in pieces, so that bytes are still in the caches when they are hashed. The memory of an object that is being
 * saved may be reused meanwhile: its slot then shows that at the end, and the file is dropped (store_spill.c). */
static mr_status transfer(int fd, job *job) {
    spill_file_file *file = job->file;
    XXH3_state_t hash;
    mr_status status = MR_OK;
    XXH3_64bits_reset(&hash);
    tsan_ignore_reads();
    for (uint64_t at = 0; at < file->size && status == MR_OK; at += PIECE) {
        size_t size = file->size - at < PIECE ? (size_t)(file->size - at) : PIECE;
        status = move_piece(fd, job->kind, job->data + at, size, file->place.offset + at);
        if (status == MR_OK) XXH3_64bits_update(&hash, job->data + at, size);
    }
    tsan_observe_reads();
    uint64_t sum = XXH3_64bits_digest(&hash);
    if (status != MR_OK) return status;
    if (job->kind == JOB_SAVE)
        file->checksum = sum;
    else if (file->checksum != sum)
        return error_set(MR_CORRUPT, "%llu bytes came back from disk changed", (unsigned long long)file->size);
    return MR_OK;
}

static void do_job(spill_file *spill, job *job) {
    if (job->kind == JOB_FORGET) { /* without support by the file system, the bytes stay until they are overwritten */
        (void)fallocate(spill->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)job->file->place.offset,
                        (off_t)job->file->place.size);
        return;
    }
    job->status = transfer(spill->fd, job);
    if (job->status != MR_OK) job->text = xstrdup(mr_last_error());
}

static void *help(void *argument) {
    spill_file *spill = argument;
    pthread_mutex_lock(&spill->lock);
    while (!spill->stopping) {
        list *item = list_pop_front(&spill->queue);
        if (item == NULL) {
            pthread_cond_wait(&spill->work, &spill->lock);
            continue;
        }
        pthread_mutex_unlock(&spill->lock);
        do_job(spill, container_of(item, job, place));
        pthread_mutex_lock(&spill->lock);
        list_push_back(&spill->done, item);
        (void)eventfd_write(spill->event_fd, 1);
    }
    pthread_mutex_unlock(&spill->lock);
    return NULL;
}

/* ---- Thread of the loop. */

static void add_job(spill_file *spill, const job *like) {
    job *job = xcopy(like, sizeof *job);
    pthread_mutex_lock(&spill->lock);
    list_push_back(&spill->queue, &job->place);
    pthread_cond_signal(&spill->work);
    pthread_mutex_unlock(&spill->lock);
}

mr_status spill_file_save(spill_file *spill, uint64_t ticket, const void *data, uint64_t size) {
    extent place;
    MR_ASSERT(size > 0);
    if (FAILPOINT_ERROR("store.spill_save"))
        return error_set(MR_NOMEM, "no room on disk: failpoint 'store.spill_save'");
    if (extent_allocator_alloc(spill->allocator, size, &place) != MR_OK)
        return error_wrap(MR_NOMEM, "cannot spill %llu bytes: spill_bytes_max is reached", (unsigned long long)size);
    MR_ASSERT(place.size >= size && map_get(&spill->files, ticket) == NULL);
    spill_file_file *file = XNEW(spill_file_file, .place = place, .size = size);
    map_put(&spill->files, ticket, file);
    union { /* removes const: a save only reads */
        const void *from;
        uint8_t *data;
    } bytes = {.from = data};
    add_job(spill, &(job){.kind = JOB_SAVE, .ticket = ticket, .file = file, .data = bytes.data});
    return MR_OK;
}

mr_status spill_file_load(spill_file *spill, uint64_t ticket, uint64_t name, void *data, uint64_t size) {
    spill_file_file *file = map_get(&spill->files, name);
    if (file == NULL || file->size != size)
        return error_set(MR_NOT_FOUND, "no spilled object %llx", (unsigned long long)name);
    add_job(spill, &(job){.kind = JOB_LOAD, .ticket = ticket, .file = file, .data = data});
    return MR_OK;
}

/* The range of the file is free at once: jobs run in order, so a later save to it runs after the hole was punched. */
void spill_file_forget(spill_file *spill, uint64_t name) {
    spill_file_file *file = map_remove(&spill->files, name);
    if (file == NULL) return;
    extent_allocator_free(spill->allocator, file->place);
    add_job(spill, &(job){.kind = JOB_FORGET, .file = file});
}

int spill_file_fd(const spill_file *spill) { return spill->event_fd; }

static void job_free(job *job) {
    if (job->kind == JOB_FORGET) free(job->file);
    free(job->text);
    free(job);
}

void spill_file_poll(spill_file *spill, store_server *server, int64_t now_us) {
    eventfd_t count;
    (void)eventfd_read(spill->event_fd, &count);
    for (;;) {
        pthread_mutex_lock(&spill->lock);
        list *item = list_pop_front(&spill->done);
        pthread_mutex_unlock(&spill->lock);
        if (item == NULL) return;
        job *job = container_of(item, struct job, place);
        if (job->status != MR_OK) error_set(job->status, "%s", job->text);
        if (job->kind == JOB_SAVE && job->status != MR_OK) spill_file_forget(spill, job->ticket);
        if (job->kind != JOB_FORGET) store_server_moved(server, job->ticket, job->status, now_us);
        job_free(job);
    }
}

/* ---- Open and close. */

static int open_unnamed(const char *folder) {
    int fd = open(folder, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    if (fd >= 0 || (errno != EOPNOTSUPP && errno != EISDIR && errno != EINVAL)) return fd;
    char *path = xasprintf("%s/spill-XXXXXX", folder);
    fd = mkostemp(path, O_CLOEXEC);
    if (fd >= 0) unlink(path);
    free(path);
    return fd;
}

mr_status spill_file_open(const char *folder, uint64_t bytes_max, spill_file **out) {
    if (mkdir(folder, 0700) != 0 && errno != EEXIST) return error_errno("cannot create the directory '%s'", folder);
    spill_file *spill = xcalloc(1, sizeof *spill);
    mr_status status;
    spill->fd = open_unnamed(folder);
    if (spill->fd < 0) {
        status = error_errno("cannot create a spill file in '%s'", folder);
        goto free_spill;
    }
    spill->event_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (spill->event_fd < 0) {
        status = error_errno("cannot create the eventfd of the spill file in '%s'", folder);
        goto close_fd;
    }
    list_init(&spill->queue);
    list_init(&spill->done);
    pthread_mutex_init(&spill->lock, NULL);
    pthread_cond_init(&spill->work, NULL);
    int failed = thread_start(&spill->helper, help, spill);
    if (failed != 0) {
        errno = failed;
        status = error_errno("cannot start the thread of the spill file in '%s'", folder);
        goto close_event;
    }
    uint64_t end = bytes_max == 0 || bytes_max > ENDLESS ? ENDLESS : bytes_max / EXTENT_UNIT * EXTENT_UNIT;
    spill->allocator = extent_allocator_create(0, end < EXTENT_UNIT ? EXTENT_UNIT : end);
    *out = spill;
    return MR_OK;

close_event:
    pthread_mutex_destroy(&spill->lock);
    pthread_cond_destroy(&spill->work);
    close(spill->event_fd);
close_fd:
    close(spill->fd);
free_spill:
    free(spill);
    return status;
}

static void drop_jobs(list *jobs) {
    for (list *item; (item = list_pop_front(jobs)) != NULL;) job_free(container_of(item, job, place));
}

void spill_file_close(spill_file *spill) {
    if (spill == NULL) return;
    pthread_mutex_lock(&spill->lock);
    spill->stopping = true;
    pthread_cond_signal(&spill->work);
    pthread_mutex_unlock(&spill->lock);
    pthread_join(spill->helper, NULL);
    drop_jobs(&spill->queue);
    drop_jobs(&spill->done);
    map_for_each (found, &spill->files) free(found.value);
    map_fini(&spill->files);
    extent_allocator_destroy(spill->allocator);
    pthread_mutex_destroy(&spill->lock);
    pthread_cond_destroy(&spill->work);
    close(spill->event_fd);
    close(spill->fd);
    free(spill);
}
