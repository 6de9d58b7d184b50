/* checkpoint_thread.c — see checkpoint_thread.h.
 *
 *   job:  in ── checkpoint_store_take_bytes ──► done ── the loop ──► freed  a received packet
 *   job:  the checkpoint store's send ──► out ── host.send ──► freed  a control message to be sent */
#include "kv/checkpoint/checkpoint_thread.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/list.h"
#include "base/log.h"
#include "base/thread.h"
#include "kv/checkpoint/snapshot_file.h"

typedef struct job {
    list queued;
    shared_bytes *bytes;
    span batch;                             /* of a received packet: its bytes in the shared buffer */
    char address[SLOT_MESSAGE_ADDRESS_MAX]; /* of a message to be sent */
} job;

typedef struct change { /* of the tables */
    list queued;
    uint32_t id; /* 0: all tables are removed */
    size_t size; /* of the table; 0: it is removed */
    uint8_t bytes[];
} change;

typedef struct queue {
    list jobs;
    size_t bytes, bytes_max;
} queue;

struct checkpoint_thread {
    const checkpoint_thread_host *host;
    void *context;
    checkpoint_store *store; /* used by the thread, once it runs */
    clock_source clock;
    table_catalog catalog; /* used by the thread */
    char *damage;          /* last reported damage, used by the thread; owned; NULL: none */
    bool threaded;         /* the fields that follow are in use */
    int event_fd;          /* owned: wakes the loop */
    event_loop_watch *watch;
    pthread_t thread;

    pthread_mutex_t lock; /* guards the fields that follow */
    pthread_cond_t work;
    queue in, done, out;
    bool stopping;
    checkpoint_thread_look look;
    char *trouble; /* owned; NULL: unchanged */
    list changes;  /* of the tables, in their order; owned */
};

/* ---- Queues; the caller has the lock. */

static void put(queue *queue, job *job) {
    list_push_back(&queue->jobs, &job->queued);
    queue->bytes += job->batch.size;
}

static job *take(queue *queue) { /* NULL: empty */
    list *item = list_pop_front(&queue->jobs);
    job *job = item == NULL ? NULL : container_of(item, struct job, queued);
    if (job != NULL) queue->bytes -= job->batch.size;
    return job;
}

static bool has_room(const queue *queue, size_t size) {
    return list_empty(&queue->jobs) || queue->bytes + size <= queue->bytes_max;
}

static void destroy_job(job *job) {
    shared_bytes_unref(job->bytes);
    free(job);
}

/* Adds a job; a packet without room in the queue is dropped. A packet in a shared buffer holds the buffer; others are
 * copied. Only one thread adds to each queue. */
static void add_job(checkpoint_thread *thread, queue *queue, shared_bytes *bytes, span batch, const char *address) {
    pthread_mutex_lock(&thread->lock);
    bool room = has_room(queue, batch.size);
    pthread_mutex_unlock(&thread->lock);
    if (!room) return;
    struct shared_bytes *held = bytes != NULL ? shared_bytes_ref(bytes) : shared_bytes_copy(batch);
    job *job = XNEW(struct job, .bytes = held, .batch = bytes != NULL ? batch : shared_bytes_bytes(held));
    snprintf(job->address, sizeof job->address, "%s", address);
    pthread_mutex_lock(&thread->lock);
    put(queue, job);
    pthread_cond_signal(&thread->work);
    pthread_mutex_unlock(&thread->lock);
}

static void tell_loop(checkpoint_thread *thread) {
    if (thread->threaded) (void)eventfd_write(thread->event_fd, 1);
}

/* ---- The thread. */

static void send_bytes(void *context, const char *address, span bytes) {
    checkpoint_thread *thread = context;
    add_job(thread, &thread->out, NULL, bytes, address);
    tell_loop(thread);
}

static void say_trouble(checkpoint_thread *thread, const char *text) {
    char *copy = xstrdup(text);
    pthread_mutex_lock(&thread->lock);
    free(thread->trouble);
    thread->trouble = copy;
    pthread_mutex_unlock(&thread->lock);
    tell_loop(thread);
}

static void on_trouble(void *context, mr_status status) { say_trouble(context, mr_last_error()); }

/* Called before the controller and the requester are informed of a complete checkpoint. */
static void on_whole(void *context, const checkpoint_store *store) {
    checkpoint_thread *thread = context;
    int64_t written_us = clock_wall_us(thread->clock);
    pthread_mutex_lock(&thread->lock);
    thread->look.newest = checkpoint_store_newest(store);
    thread->look.oldest = checkpoint_store_oldest(store, &thread->look.oldest_version);
    thread->look.written_us = written_us;
    pthread_mutex_unlock(&thread->lock);
    say_trouble(thread, "");
}

/* ---- Files. */

/* The next change of the tables; NULL: there is none. */
static change *take_change(checkpoint_thread *thread) {
    pthread_mutex_lock(&thread->lock);
    list *item = list_pop_front(&thread->changes);
    pthread_mutex_unlock(&thread->lock);
    return item == NULL ? NULL : container_of(item, change, queued);
}

static void learn_tables(checkpoint_thread *thread) {
    for (change *change; (change = take_change(thread)) != NULL; free(change)) {
        if (change->id == 0) {
            table_catalog_fini(&thread->catalog);
        } else if (change->size == 0) {
            (void)table_catalog_remove(&thread->catalog, change->id);
        } else if (table_catalog_put(&thread->catalog, span_of(change->bytes, change->size)) != MR_OK) {
            log_warn("checkpoints name a table by its id: %s", mr_last_error());
        }
    }
}

static mr_status encode(void *context, uint32_t slot, span shard, const byte_sink *file) {
    checkpoint_thread *thread = context;
    learn_tables(thread);
    return snapshot_file_encode(slot, shard, &thread->catalog, SNAPSHOT_FILE_CHECKED, file);
}

static mr_status decode(void *context, span file, buffer *shard) { return snapshot_file_decode(file, shard); }

static const checkpoint_store_format format = {.ending = CHECKPOINT_THREAD_ENDING, .encode = encode, .decode = decode};

/* Reports damage when it is found. */
static void tell_damage(checkpoint_thread *thread) {
    bool damaged = checkpoint_store_check(thread->store) != MR_OK;
    if (!damaged || (thread->damage != NULL && strcmp(thread->damage, mr_last_error()) == 0)) return;
    free(thread->damage);
    thread->damage = xstrdup(mr_last_error());
    say_trouble(thread, thread->damage);
}

/* Next packet; NULL: a tick is due, or the thread ends. The caller has the lock. */
static job *wait_for_job(checkpoint_thread *thread) {
    int64_t next_us = checkpoint_store_next_us(thread->store);
    const struct timespec until = {.tv_sec = next_us / 1000000, .tv_nsec = next_us % 1000000 * 1000};
    job *job = NULL;
    while (!thread->stopping && clock_now_us(thread->clock) < next_us && (job = take(&thread->in)) == NULL)
        (void)pthread_cond_timedwait(&thread->work, &thread->lock, &until);
    return job;
}

/* Handles a packet, or none, and due ticks. */
static void work(checkpoint_thread *thread, job *job) {
    if (job != NULL) checkpoint_store_take_bytes(thread->store, job->batch, job->bytes);
    int64_t now_us = clock_now_us(thread->clock);
    if (now_us >= checkpoint_store_next_us(thread->store)) checkpoint_store_tick(thread->store, now_us);
    tell_damage(thread);
    bool stuck = checkpoint_store_is_stuck(thread->store);
    uint64_t newest = stuck ? 0 : checkpoint_store_newest(thread->store), version,
             oldest = checkpoint_store_oldest(thread->store, &version);
    pthread_mutex_lock(&thread->lock);
    thread->look.newest = newest;
    thread->look.oldest = oldest;
    thread->look.oldest_version = version;
    thread->look.stuck = stuck;
    if (job != NULL) put(&thread->done, job);
    pthread_mutex_unlock(&thread->lock);
    if (job != NULL) tell_loop(thread);
}

static void *keep(void *argument) {
    checkpoint_thread *thread = argument;
    for (bool over = false; !over;) {
        pthread_mutex_lock(&thread->lock);
        job *job = wait_for_job(thread);
        over = thread->stopping && job == NULL;
        pthread_mutex_unlock(&thread->lock);
        if (!over) work(thread, job);
    }
    return NULL;
}

/* ---- Interface of the loop's thread. */

static job *take_locked(checkpoint_thread *thread, queue *queue) {
    pthread_mutex_lock(&thread->lock);
    job *job = take(queue);
    pthread_mutex_unlock(&thread->lock);
    return job;
}

static void hand_over(checkpoint_thread *thread) {
    for (job *job; (job = take_locked(thread, &thread->done)) != NULL;) destroy_job(job);
    for (job *job; (job = take_locked(thread, &thread->out)) != NULL;) {
        thread->host->send(thread->context, job->address, job->bytes);
        destroy_job(job);
    }
    pthread_mutex_lock(&thread->lock);
    char *trouble = thread->trouble;
    thread->trouble = NULL;
    pthread_mutex_unlock(&thread->lock);
    if (trouble != NULL) thread->host->on_trouble(thread->context, trouble);
    free(trouble);
}

static void on_event(void *context) {
    checkpoint_thread *thread = context;
    eventfd_t count;
    (void)eventfd_read(thread->event_fd, &count);
    hand_over(thread);
}

int64_t checkpoint_thread_next_us(checkpoint_thread *thread) {
    if (thread->threaded) return CLOCK_NEVER_US;
    return list_empty(&thread->in.jobs) ? checkpoint_store_next_us(thread->store) : 0;
}

void checkpoint_thread_tick(checkpoint_thread *thread) {
    if (thread->threaded) return;
    job *job;
    do {
        job = take_locked(thread, &thread->in);
        work(thread, job);
    } while (job != NULL);
    hand_over(thread);
}

/* Whether a checkpoint store handles the packet: cluster maps, and messages that it answers. */
static bool is_for_checkpoints(span batch) {
    reader reader = reader_of(batch.data, batch.size);
    slot_message_head head;
    slot_message message;
    uint32_t count;
    if (slot_message_read_head(&reader, &head, &count) != MR_OK) return false;
    bool wanted = head.maps;
    for (uint32_t i = 0; !wanted && i < count && slot_message_read(&reader, &message) == MR_OK; i++)
        wanted = message.kind == SLOT_MESSAGE_CUT || message.kind == SLOT_MESSAGE_FETCH ||
                 message.kind == SLOT_MESSAGE_SEAL || message.kind == SLOT_MESSAGE_PIECE ||
                 message.kind == SLOT_MESSAGE_TAKEN_PIECE;
    return wanted;
}

void checkpoint_thread_take(checkpoint_thread *thread, span batch, shared_bytes *bytes) {
    if (is_for_checkpoints(batch)) add_job(thread, &thread->in, bytes, batch, "");
}

void checkpoint_thread_name_table(void *self, uint32_t id, span table) {
    checkpoint_thread *thread = self;
    change *change = xmalloc(sizeof *change + table.size);
    change->id = id;
    change->size = table.size;
    if (table.size != 0) memcpy(change->bytes, table.data, table.size);
    list_init(&change->queued);
    pthread_mutex_lock(&thread->lock);
    list_push_back(&thread->changes, &change->queued);
    pthread_mutex_unlock(&thread->lock);
}

checkpoint_thread_look checkpoint_thread_look_at(checkpoint_thread *thread) {
    pthread_mutex_lock(&thread->lock);
    checkpoint_thread_look look = thread->look;
    pthread_mutex_unlock(&thread->lock);
    if (look.newest == 0) look.written_us = 0;
    return look;
}

/* ---- Creation and end. */

static void queue_init(queue *queue, size_t bytes_max) {
    *queue = (struct queue){.bytes_max = bytes_max == 0 ? CHECKPOINT_THREAD_BYTES_MAX : bytes_max};
    list_init(&queue->jobs);
}

static void queue_fini(queue *queue) {
    for (job *job; (job = take(queue)) != NULL;) destroy_job(job);
}

static void init_lock(checkpoint_thread *thread) {
    pthread_condattr_t attributes;
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(&thread->work, &attributes);
    pthread_condattr_destroy(&attributes);
    pthread_mutex_init(&thread->lock, NULL);
}

static void destroy(checkpoint_thread *thread) {
    checkpoint_store_destroy(thread->store);
    queue_fini(&thread->in);
    queue_fini(&thread->done);
    queue_fini(&thread->out);
    pthread_cond_destroy(&thread->work);
    pthread_mutex_destroy(&thread->lock);
    table_catalog_fini(&thread->catalog);
    list_for_each (item, &thread->changes) free(container_of(item, change, queued));
    free(thread->trouble);
    free(thread->damage);
    free(thread);
}

static mr_status begin_thread(checkpoint_thread *thread, event_loop *loop) {
    thread->event_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (thread->event_fd < 0) return error_errno("cannot create the eventfd of the checkpoint store");
    mr_status status = event_loop_watch_add(loop, thread->event_fd, on_event, thread, &thread->watch);
    if (status != MR_OK) goto close_event;
    thread->threaded = true;
    int failed = thread_start(&thread->thread, keep, thread);
    if (failed == 0) return MR_OK;
    status = error_set(MR_IO, "cannot start the thread of the checkpoint store: error %d", failed);
    event_loop_watch_remove(thread->watch);

close_event:
    close(thread->event_fd);
    return status;
}

mr_status checkpoint_thread_open(event_loop *loop, const checkpoint_thread_options *options,
                                 const checkpoint_thread_host *host, void *context, checkpoint_thread **out) {
    checkpoint_thread *thread = XNEW(struct checkpoint_thread, .host = host, .context = context,
                                     .clock = options->clock, .look.written_us = options->written_us);
    list_init(&thread->changes);
    queue_init(&thread->in, options->bytes_max);
    queue_init(&thread->done, options->bytes_max);
    queue_init(&thread->out, options->bytes_max);
    init_lock(thread);
    checkpoint_store_options checkpoints = {.address = options->address,
                                            .controller = options->controller,
                                            .disk = options->disk,
                                            .format = &format,
                                            .exact = options->exact,
                                            .slot_count = options->slot_count,
                                            .send = send_bytes,
                                            .on_whole = on_whole,
                                            .on_trouble = on_trouble,
                                            .context = thread};
    thread->store = checkpoint_store_create(&checkpoints, clock_now_us(thread->clock));
    mr_status status = loop == NULL ? MR_OK : begin_thread(thread, loop);
    if (status != MR_OK)
        destroy(thread);
    else
        *out = thread;
    return status;
}

static void end_thread(checkpoint_thread *thread) {
    pthread_mutex_lock(&thread->lock);
    thread->stopping = true;
    pthread_cond_signal(&thread->work);
    pthread_mutex_unlock(&thread->lock);
    pthread_join(thread->thread, NULL);
    event_loop_watch_remove(thread->watch);
    close(thread->event_fd);
}

void checkpoint_thread_close(checkpoint_thread *thread) {
    if (thread == NULL) return;
    if (thread->threaded) end_thread(thread);
    destroy(thread);
}
