/* worker_log.c — see worker_log.h. */
#include "runtime/node/worker_log.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/log.h"
#include "base/map.h"

enum {
    PAUSE_US = 10 * 1000,      /* between two reads, while there is output */
    BEHIND_MAX = 256 * 1024,   /* more unread bytes than this are skipped */
    BEHIND_KEEP = 64 * 1024,   /* unread bytes left after a skip */
    LINE_MAX_BYTES = 4 * 1024, /* a longer line is passed on in parts */
    PATH_BYTES = 256,
    LAST_LINES = 3,
};

typedef struct tail { /* reader of one file */
    std_stream std_stream;
    off_t at;    /* position of the next read */
    off_t taken; /* position up to which lines were completed or copied to `part` */
    bool dirty;
    size_t part_size;
    uint8_t part[LINE_MAX_BYTES]; /* begin of an unfinished line */
} tail;

typedef struct speaker { /* a worker */
    uint32_t program;
    int pid;
    char label[64];
    tail tails[STD_STREAMS];
} speaker;

struct worker_logs {
    const char *folder;
    worker_log_fn *fn;
    void *context;
    int inotify_fd;
    event_loop_watch *watch;
    event_loop_timer *timer;
    bool timer_set;
    map speakers; /* by pid */
};

/* `end`: "" for the current file, ".1" for the one before it. */
static void path_of(const worker_logs *logs, int pid, std_stream std_stream, const char *end, char out[PATH_BYTES]) {
    snprintf(out, PATH_BYTES, "%.200s/%d%s%s", logs->folder, pid, std_stream_end(std_stream), end);
}

/* ---- Passing lines on. */

/* If the line sets the worker's label (WORKER_LOG_NAME), stores it and returns true. */
static bool take_name(speaker *speaker, const uint8_t *data, size_t size) {
    size_t mark = sizeof WORKER_LOG_NAME - 1;
    if (size <= mark || memcmp(data, WORKER_LOG_NAME, mark) != 0) return false;
    snprintf(speaker->label, sizeof speaker->label, "%.*s", (int)(size - mark), (const char *)data + mark);
    return true;
}

static void hand_on(const worker_logs *logs, speaker *speaker, const tail *tail, const uint8_t *data, size_t size) {
    if (tail->std_stream == STD_STREAM_OUT && take_name(speaker, data, size)) return;
    worker_log_source source = {.program = speaker->program,
                                .pid = speaker->pid,
                                .std_stream = tail->std_stream,
                                .label = speaker->label,
                                .place = (uint64_t)tail->taken};
    logs->fn(logs->context, &source, span_of(data, size));
}

static void end_line(const worker_logs *logs, speaker *speaker, tail *tail) {
    hand_on(logs, speaker, tail, tail->part, tail->part_size);
    tail->part_size = 0;
}

static void take(const worker_logs *logs, speaker *speaker, tail *tail, const uint8_t *data, size_t size) {
    while (size > 0) {
        const uint8_t *newline = memchr(data, '\n', size);
        size_t length = newline == NULL ? size : (size_t)(newline - data);
        size_t room = sizeof tail->part - tail->part_size, more = length < room ? length : room;
        memcpy(tail->part + tail->part_size, data, more);
        tail->part_size += more;
        bool whole = more == length && newline != NULL;
        tail->taken += (off_t)(more + whole);
        if (whole || tail->part_size == sizeof tail->part) end_line(logs, speaker, tail);
        data += more + whole;
        size -= more + whole;
    }
}

static void leave_out(const worker_logs *logs, speaker *speaker, tail *tail, off_t size) {
    char text[64];
    off_t skip = size - BEHIND_KEEP - tail->at;
    if (tail->part_size > 0) end_line(logs, speaker, tail);
    int length = snprintf(text, sizeof text, "[%lld kB not shown]", (long long)skip / 1024);
    hand_on(logs, speaker, tail, (const uint8_t *)text, (size_t)length);
    tail->at += skip;
}

/* ---- Reading. */

/* Copies the content to the file `path`, and truncates the source. Output written in between is lost. */
static bool move_to(const char *path, int fd, off_t size) {
    int to = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    off_t from = 0;
    while (to >= 0 && from < size && copy_file_range(fd, &from, to, NULL, (size_t)(size - from), 0) > 0) {}
    if (to >= 0) close(to);
    return ftruncate(fd, 0) == 0;
}

static void rotate(const worker_logs *logs, const speaker *speaker, tail *tail, int fd, off_t size) {
    char path[PATH_BYTES];
    path_of(logs, speaker->pid, tail->std_stream, ".1", path);
    if (move_to(path, fd, size)) tail->at = 0;
}

static void read_new(const worker_logs *logs, speaker *speaker, tail *tail, int fd) {
    static const size_t piece = 16 * 1024;
    uint8_t bytes[16 * 1024];
    struct stat stat;
    if (fstat(fd, &stat) != 0) return;
    if (stat.st_size < tail->at) tail->at = 0; /* the file was truncated */
    if (stat.st_size - tail->at > BEHIND_MAX) leave_out(logs, speaker, tail, stat.st_size);
    for (ssize_t got; tail->at < stat.st_size && (got = pread(fd, bytes, piece, tail->at)) > 0;) {
        tail->taken = tail->at;
        tail->at += got;
        take(logs, speaker, tail, bytes, (size_t)got);
    }
    if (tail->at > WORKER_LOG_BYTES_MAX) rotate(logs, speaker, tail, fd, tail->at);
}

static void pump(const worker_logs *logs, speaker *speaker, tail *tail) {
    char path[PATH_BYTES];
    tail->dirty = false;
    path_of(logs, speaker->pid, tail->std_stream, "", path);
    int fd = open(path, O_RDWR | O_CLOEXEC);
    if (fd < 0) return;
    read_new(logs, speaker, tail, fd);
    close(fd);
}

static void pump_all(const worker_logs *logs, speaker *speaker) {
    for (std_stream i = 0; i < STD_STREAMS; i++) {
        tail *tail = &speaker->tails[i];
        pump(logs, speaker, tail);
        if (tail->part_size > 0) end_line(logs, speaker, tail);
    }
}

static void look(void *context) {
    worker_logs *logs = context;
    logs->timer_set = false;
    map_for_each (slot, &logs->speakers) {
        speaker *speaker = slot.value;
        for (std_stream i = 0; i < STD_STREAMS; i++)
            if (speaker->tails[i].dirty) pump(logs, speaker, &speaker->tails[i]);
    }
}

static void look_soon(worker_logs *logs) {
    if (logs->timer_set) return;
    logs->timer_set = true;
    event_loop_timer_set(logs->timer, PAUSE_US);
}

/* Limits the size of the node's own file, if any, which is not passed on. */
static void cap_own(const worker_logs *logs) {
    char path[PATH_BYTES], before[PATH_BYTES];
    struct stat stat;
    snprintf(path, sizeof path, "%.200s/" WORKER_LOG_OWN, logs->folder);
    snprintf(before, sizeof before, "%.200s/" WORKER_LOG_OWN ".1", logs->folder);
    int fd = open(path, O_RDWR | O_CLOEXEC);
    if (fd < 0) return;
    if (fstat(fd, &stat) == 0 && stat.st_size > WORKER_LOG_BYTES_MAX) move_to(before, fd, stat.st_size);
    close(fd);
}

static void mark_dirty(const worker_logs *logs, const char *name) {
    char *end;
    speaker *speaker = map_get(&logs->speakers, strtoull(name, &end, 10));
    for (std_stream i = 0; speaker != NULL && i < STD_STREAMS; i++)
        if (strcmp(end, std_stream_end(i)) == 0) speaker->tails[i].dirty = true;
}

/* Handles inotify events. An event without a known file is from a worker that has ended, or whose file has no name
 * yet. */
static void changed(void *context) {
    worker_logs *logs = context;
    _Alignas(struct inotify_event) char bytes[4096];
    for (ssize_t got; (got = read(logs->inotify_fd, bytes, sizeof bytes)) > 0;) {
        for (ssize_t at = 0; at < got;) {
            const struct inotify_event *event = (const void *)(bytes + at);
            if (event->len > 0 && strcmp(event->name, WORKER_LOG_OWN) == 0) cap_own(logs);
            if (event->len > 0) mark_dirty(logs, event->name);
            at += (ssize_t)sizeof *event + event->len;
        }
        look_soon(logs);
    }
}

void worker_logs_drain(worker_logs *logs) {
    map_for_each (slot, &logs->speakers) pump_all(logs, slot.value);
}

/* ---- Opening and closing. */

mr_status worker_logs_open(event_loop *loop, const char *folder, worker_log_fn *fn, void *context, worker_logs **out) {
    int fd = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
    if (fd < 0) return error_errno("cannot watch the logs of workers in %s", folder);
    worker_logs *logs = XNEW(worker_logs, .folder = folder, .fn = fn, .context = context, .inotify_fd = fd);
    mr_status status = inotify_add_watch(fd, folder, IN_MODIFY) < 0
                           ? error_errno("cannot watch the logs of workers in %s", folder)
                           : MR_OK;
    if (status == MR_OK) status = event_loop_watch_add(loop, fd, changed, logs, &logs->watch);
    if (status != MR_OK) {
        close(fd);
        free(logs);
        return status;
    }
    logs->timer = event_loop_timer_create(loop, look, logs);
    *out = logs;
    return MR_OK;
}

void worker_logs_close(worker_logs *logs) {
    map_entry entry;
    if (logs == NULL) return;
    while (map_next(&logs->speakers, 0, &entry) != 0) worker_logs_ended(logs, ((speaker *)entry.value)->pid);
    map_fini(&logs->speakers);
    event_loop_timer_destroy(logs->timer);
    event_loop_watch_remove(logs->watch);
    close(logs->inotify_fd);
    free(logs);
}

/* ---- Workers. */

static void new_path(const worker_logs *logs, std_stream std_stream, char out[PATH_BYTES]) {
    snprintf(out, PATH_BYTES, "%.200s/new%s", logs->folder, std_stream_end(std_stream));
}

static int create(const worker_logs *logs, std_stream std_stream) {
    char path[PATH_BYTES];
    new_path(logs, std_stream, path);
    int fd = open(path, O_WRONLY | O_APPEND | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (fd < 0) log_warn("cannot create the log %s: the worker's output goes to the node's: %s", path, strerror(errno));
    return fd;
}

static void remove_new(const worker_logs *logs) {
    char path[PATH_BYTES];
    for (std_stream i = 0; i < STD_STREAMS; i++) {
        new_path(logs, i, path);
        unlink(path);
    }
}

bool worker_logs_create(worker_logs *logs, int fds[STD_STREAMS]) {
    fds[STD_STREAM_OUT] = create(logs, STD_STREAM_OUT);
    fds[STD_STREAM_ERR] = fds[STD_STREAM_OUT] < 0 ? -1 : create(logs, STD_STREAM_ERR);
    if (fds[STD_STREAM_ERR] >= 0) return true;
    if (fds[STD_STREAM_OUT] >= 0) {
        close(fds[STD_STREAM_OUT]);
        remove_new(logs);
    }
    fds[STD_STREAM_OUT] = -1;
    return false;
}

void worker_logs_made(worker_logs *logs, uint32_t program, int pid) {
    speaker *made = XNEW(speaker, .program = program, .pid = pid);
    for (std_stream i = 0; i < STD_STREAMS; i++) made->tails[i] = (tail){.std_stream = i, .dirty = true};
    free(map_put(&logs->speakers, (uint64_t)pid, made));
    look_soon(logs);
}

void worker_logs_started(worker_logs *logs, uint32_t program, int pid) {
    char from[PATH_BYTES], path[PATH_BYTES];
    if (pid == 0) {
        remove_new(logs);
        return;
    }
    for (std_stream i = 0; i < STD_STREAMS; i++) {
        new_path(logs, i, from);
        path_of(logs, pid, i, "", path);
        if (rename(from, path) != 0) unlink(from);
    }
    worker_logs_made(logs, program, pid);
}

void worker_logs_label(worker_logs *logs, int pid, const char *label) {
    speaker *speaker = map_get(&logs->speakers, (uint64_t)pid);
    if (speaker != NULL) snprintf(speaker->label, sizeof speaker->label, "%s", label);
}

/* Removes an empty file that was never rotated. */
static void remove_empty(const worker_logs *logs, int pid, std_stream std_stream) {
    char path[PATH_BYTES], before[PATH_BYTES];
    struct stat stat;
    path_of(logs, pid, std_stream, "", path);
    path_of(logs, pid, std_stream, ".1", before);
    if (lstat(path, &stat) == 0 && stat.st_size == 0 && access(before, F_OK) != 0) unlink(path);
}

void worker_logs_ended(worker_logs *logs, int pid) {
    speaker *speaker = map_remove(&logs->speakers, (uint64_t)pid);
    if (speaker == NULL) return;
    pump_all(logs, speaker);
    for (std_stream i = 0; i < STD_STREAMS; i++) remove_empty(logs, pid, i);
    free(speaker);
}

/* ---- Last lines of a worker. */

static size_t read_end(const char *path, char *out, size_t size) {
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    struct stat stat;
    ssize_t got = 0;
    if (fd < 0) return 0;
    if (fstat(fd, &stat) == 0) got = pread(fd, out, size, stat.st_size > (off_t)size ? stat.st_size - (off_t)size : 0);
    close(fd);
    return got > 0 ? (size_t)got : 0;
}

/* Begin of the last LAST_LINES lines, or of the last "Fatal Python error: ", whose end is least useful. */
static size_t begin_of_last(const char *text, size_t size) {
    static const char fatal[] = "Fatal Python error: ";
    for (size_t at = size; at > 0; at--)
        if (size - at + 1 >= sizeof fatal - 1 && memcmp(text + at - 1, fatal, sizeof fatal - 1) == 0) return at - 1;
    size_t at = size;
    for (int lines = 0; at > 0; at--)
        if (text[at - 1] == '\n' && ++lines == LAST_LINES) break;
    return at;
}

/* Like worker_logs_last, for one file. */
static void quote(const char *path, char *out, size_t size) {
    char text[4096];
    size_t length = read_end(path, text, sizeof text), used = 0;
    while (length > 0 && text[length - 1] == '\n') length--;
    for (size_t at = begin_of_last(text, length); at < length && used + 4 < size; at++) {
        if (text[at] == '\n') {
            memcpy(out + used, " | ", 3);
            used += 3;
        } else {
            out[used++] = (unsigned char)text[at] < ' ' || text[at] == 127 ? ' ' : text[at];
        }
    }
    out[used] = '\0';
}

void worker_logs_last(worker_logs *logs, int pid, char *out, size_t size) {
    char path[PATH_BYTES];
    path_of(logs, pid, STD_STREAM_ERR, "", path);
    quote(path, out, size);
    if (out[0] != '\0') return;
    path_of(logs, pid, STD_STREAM_OUT, "", path);
    quote(path, out, size);
}
