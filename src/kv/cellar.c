/* cellar.c — see cellar.h.
 *
 *   crate:  in ── depot_take_bale ──► done ── the loop ──► freed            a batch that came
 *   crate:  the depot's send ──► out ── host.send ──► freed            a letter that goes */
#include "kv/cellar.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/list.h"
#include "base/thread.h"
#include "kv/shelf/slot_file.h"

typedef struct crate {
    list queued;
    bale *bale;
    span batch;                     /* of one that came: where it lies in the bale */
    char address[PART_ADDRESS_MAX]; /* of one that goes */
} crate;

typedef struct queue {
    list crates;
    size_t bytes, bytes_max;
} queue;

struct cellar {
    const cellar_host *host;
    void *context;
    depot *depot; /* the thread's, once it runs */
    clock_source clock;
    catalogue catalogue; /* the thread's, too, */
    char *damage;        /* and what it has told of damage; owned; NULL: nothing */
    bool threaded;       /* with what follows: */
    int event_fd;        /* owned: there is something for the loop */
    loop_watch *watch;
    pthread_t thread;

    pthread_mutex_t lock; /* of what follows */
    pthread_cond_t work;
    queue in, done, out;
    bool stopping;
    cellar_look look;
    char *trouble; /* owned; NULL: no news */
    bale *tables;  /* a catalogue as bytes, moved to the thread; NULL: no news */
};

/* ---- Queues, with the lock. */

static void put(queue *queue, crate *crate) {
    list_push_back(&queue->crates, &crate->queued);
    queue->bytes += crate->batch.size;
}

static crate *take(queue *queue) { /* NULL: it is empty */
    list *item = list_pop_front(&queue->crates);
    crate *crate = item == NULL ? NULL : container_of(item, struct crate, queued);
    if (crate != NULL) queue->bytes -= crate->batch.size;
    return crate;
}

static bool has_room(const queue *queue, size_t size) {
    return list_empty(&queue->crates) || queue->bytes + size <= queue->bytes_max;
}

static void destroy_crate(crate *crate) {
    bale_unref(crate->bale);
    free(crate);
}

/* The bale is moved to it. */
static crate *create_crate(bale *bale, span batch, const char *address) {
    crate *crate = xcalloc(1, sizeof *crate);
    crate->bale = bale;
    crate->batch = batch;
    snprintf(crate->address, sizeof crate->address, "%s", address);
    return crate;
}

static void tell_loop(cellar *cellar) {
    if (cellar->threaded) (void)eventfd_write(cellar->event_fd, 1);
}

/* ---- The thread. */

static void send_bytes(void *context, const char *address, span bytes) {
    cellar *cellar = context;
    pthread_mutex_lock(&cellar->lock);
    bool room = has_room(&cellar->out, bytes.size);
    pthread_mutex_unlock(&cellar->lock);
    if (!room) return; /* only this thread puts anything there */
    bale *bale = bale_copy(bytes);
    crate *crate = create_crate(bale, bale_bytes(bale), address);
    pthread_mutex_lock(&cellar->lock);
    put(&cellar->out, crate);
    pthread_mutex_unlock(&cellar->lock);
    tell_loop(cellar);
}

static void say_trouble(cellar *cellar, const char *text) {
    char *copy = xstrdup(text);
    pthread_mutex_lock(&cellar->lock);
    free(cellar->trouble);
    cellar->trouble = copy;
    pthread_mutex_unlock(&cellar->lock);
    tell_loop(cellar);
}

static void on_trouble(void *context, mr_status status) { say_trouble(context, mr_last_error()); }

/* Before the director hears of it, and whoever has asked for it. */
static void on_whole(void *context, const depot *depot) {
    cellar *cellar = context;
    int64_t written_us = clock_wall_us(cellar->clock);
    pthread_mutex_lock(&cellar->lock);
    cellar->look.newest = depot_newest(depot);
    cellar->look.oldest = depot_oldest(depot);
    cellar->look.written_us = written_us;
    pthread_mutex_unlock(&cellar->lock);
    say_trouble(cellar, "");
}

/* ---- Files. */

static void learn_tables(cellar *cellar) {
    pthread_mutex_lock(&cellar->lock);
    bale *bytes = cellar->tables;
    cellar->tables = NULL;
    pthread_mutex_unlock(&cellar->lock);
    catalogue read;
    if (bytes != NULL && catalogue_decode(bale_bytes(bytes), &read) == MR_OK) {
        catalogue_fini(&cellar->catalogue);
        cellar->catalogue = read;
    }
    bale_unref(bytes);
}

static mr_status encode(void *context, uint32_t slot, span shard, buffer *file) {
    cellar *cellar = context;
    learn_tables(cellar);
    return slot_file_encode(slot, shard, &cellar->catalogue, file);
}

static mr_status decode(void *context, span file, buffer *shard) { return slot_file_decode(file, shard); }

static const depot_format format = {.ending = CELLAR_ENDING, .encode = encode, .decode = decode};

/* Damage is told when it is found. */
static void tell_damage(cellar *cellar) {
    bool damaged = depot_check(cellar->depot) != MR_OK;
    if (!damaged || (cellar->damage != NULL && strcmp(cellar->damage, mr_last_error()) == 0)) return;
    free(cellar->damage);
    cellar->damage = xstrdup(mr_last_error());
    say_trouble(cellar, cellar->damage);
}

/* The next batch, when there is one; NULL: a tick is due, or it is over. With the lock. */
static crate *wait_for_crate(cellar *cellar) {
    int64_t next_us = depot_next_us(cellar->depot);
    const struct timespec until = {.tv_sec = next_us / 1000000, .tv_nsec = next_us % 1000000 * 1000};
    crate *crate = NULL;
    while (!cellar->stopping && clock_now_us(cellar->clock) < next_us && (crate = take(&cellar->in)) == NULL)
        (void)pthread_cond_timedwait(&cellar->work, &cellar->lock, &until);
    return crate;
}

/* One batch, or none, and what is due. */
static void work(cellar *cellar, crate *crate) {
    if (crate != NULL) depot_take_bale(cellar->depot, crate->batch, crate->bale);
    int64_t now_us = clock_now_us(cellar->clock);
    if (now_us >= depot_next_us(cellar->depot)) depot_tick(cellar->depot, now_us);
    tell_damage(cellar);
    bool stuck = depot_is_stuck(cellar->depot);
    uint64_t newest = stuck ? 0 : depot_newest(cellar->depot), oldest = depot_oldest(cellar->depot);
    pthread_mutex_lock(&cellar->lock);
    cellar->look.newest = newest;
    cellar->look.oldest = oldest;
    cellar->look.stuck = stuck;
    if (crate != NULL) put(&cellar->done, crate);
    pthread_mutex_unlock(&cellar->lock);
    if (crate != NULL) tell_loop(cellar);
}

static void *keep(void *argument) {
    cellar *cellar = argument;
    for (bool over = false; !over;) {
        pthread_mutex_lock(&cellar->lock);
        crate *crate = wait_for_crate(cellar);
        over = cellar->stopping && crate == NULL;
        pthread_mutex_unlock(&cellar->lock);
        if (!over) work(cellar, crate);
    }
    return NULL;
}

/* ---- The loop's side. */

static crate *take_locked(cellar *cellar, queue *queue) {
    pthread_mutex_lock(&cellar->lock);
    crate *crate = take(queue);
    pthread_mutex_unlock(&cellar->lock);
    return crate;
}

static void hand_over(cellar *cellar) {
    for (crate *crate; (crate = take_locked(cellar, &cellar->done)) != NULL;) destroy_crate(crate);
    for (crate *crate; (crate = take_locked(cellar, &cellar->out)) != NULL;) {
        cellar->host->send(cellar->context, crate->address, crate->bale);
        destroy_crate(crate);
    }
    pthread_mutex_lock(&cellar->lock);
    char *trouble = cellar->trouble;
    cellar->trouble = NULL;
    pthread_mutex_unlock(&cellar->lock);
    if (trouble != NULL) cellar->host->on_trouble(cellar->context, trouble);
    free(trouble);
}

static void on_event(void *context) {
    cellar *cellar = context;
    eventfd_t count;
    (void)eventfd_read(cellar->event_fd, &count);
    hand_over(cellar);
}

int64_t cellar_next_us(cellar *cellar) {
    if (cellar->threaded) return CLOCK_NEVER_US;
    return list_empty(&cellar->in.crates) ? depot_next_us(cellar->depot) : 0;
}

void cellar_tick(cellar *cellar) {
    if (cellar->threaded) return;
    crate *crate;
    do {
        crate = take_locked(cellar, &cellar->in);
        work(cellar, crate);
    } while (crate != NULL);
    hand_over(cellar);
}

/* Charts it needs to know; of all else, what a depot answers. */
static bool is_for_depot(span batch) {
    reader reader = reader_of(batch.data, batch.size);
    part_head head;
    part part;
    uint32_t count;
    if (part_read_head(&reader, &head, &count) != MR_OK) return false;
    bool wanted = head.charts;
    for (uint32_t i = 0; !wanted && i < count && part_read(&reader, &part) == MR_OK; i++)
        wanted = part.kind == PART_CUT || part.kind == PART_FETCH || part.kind == PART_SEAL;
    return wanted;
}

void cellar_take(cellar *cellar, span batch, bale *bale) {
    if (!is_for_depot(batch)) return;
    pthread_mutex_lock(&cellar->lock);
    bool room = has_room(&cellar->in, batch.size);
    pthread_mutex_unlock(&cellar->lock);
    if (!room) return; /* only this thread puts anything there */
    struct bale *held = bale != NULL ? bale_ref(bale) : bale_copy(batch);
    crate *crate = create_crate(held, bale != NULL ? batch : bale_bytes(held), "");
    pthread_mutex_lock(&cellar->lock);
    put(&cellar->in, crate);
    pthread_cond_signal(&cellar->work);
    pthread_mutex_unlock(&cellar->lock);
}

void cellar_name_tables(cellar *cellar, span catalogue) {
    bale *bytes = bale_copy(catalogue);
    pthread_mutex_lock(&cellar->lock);
    bale *before = cellar->tables;
    cellar->tables = bytes;
    pthread_mutex_unlock(&cellar->lock);
    bale_unref(before); /* the thread has not seen it */
}

cellar_look cellar_look_at(cellar *cellar) {
    pthread_mutex_lock(&cellar->lock);
    cellar_look look = cellar->look;
    pthread_mutex_unlock(&cellar->lock);
    if (look.newest == 0) look.written_us = 0;
    return look;
}

/* ---- Life. */

static void queue_init(queue *queue, size_t bytes_max) {
    *queue = (struct queue){.bytes_max = bytes_max == 0 ? CELLAR_BYTES_MAX : bytes_max};
    list_init(&queue->crates);
}

static void queue_fini(queue *queue) {
    for (crate *crate; (crate = take(queue)) != NULL;) destroy_crate(crate);
}

static mr_status start(cellar *cellar) {
    int failed = thread_start(&cellar->thread, keep, cellar);
    return failed == 0 ? MR_OK : error_set(MR_IO, "cannot start the thread of the checkpoint store: error %d", failed);
}

static void init_lock(cellar *cellar) {
    pthread_condattr_t attributes;
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(&cellar->work, &attributes);
    pthread_condattr_destroy(&attributes);
    pthread_mutex_init(&cellar->lock, NULL);
}

static void destroy(cellar *cellar) {
    depot_destroy(cellar->depot);
    queue_fini(&cellar->in);
    queue_fini(&cellar->done);
    queue_fini(&cellar->out);
    pthread_cond_destroy(&cellar->work);
    pthread_mutex_destroy(&cellar->lock);
    catalogue_fini(&cellar->catalogue);
    bale_unref(cellar->tables);
    free(cellar->trouble);
    free(cellar->damage);
    free(cellar);
}

static mr_status begin_thread(cellar *cellar, loop *loop) {
    cellar->event_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (cellar->event_fd < 0) return error_errno("cannot create the eventfd of the checkpoint store");
    mr_status status = loop_watch_add(loop, cellar->event_fd, on_event, cellar, &cellar->watch);
    if (status != MR_OK) goto close_event;
    cellar->threaded = true;
    status = start(cellar);
    if (status != MR_OK) goto remove_watch;
    return MR_OK;

remove_watch:
    loop_watch_remove(cellar->watch);
close_event:
    close(cellar->event_fd);
    return status;
}

mr_status cellar_open(loop *loop, const cellar_options *options, const cellar_host *host, void *context, cellar **out) {
    cellar *cellar = xcalloc(1, sizeof *cellar);
    *cellar = (struct cellar){
        .host = host, .context = context, .clock = options->clock, .look.written_us = options->written_us};
    queue_init(&cellar->in, options->bytes_max);
    queue_init(&cellar->done, options->bytes_max);
    queue_init(&cellar->out, options->bytes_max);
    init_lock(cellar);
    depot_options depot = {.address = options->address,
                           .director = options->director,
                           .disk = options->disk,
                           .format = &format,
                           .exact = options->exact,
                           .send = send_bytes,
                           .on_whole = on_whole,
                           .on_trouble = on_trouble,
                           .context = cellar};
    cellar->depot = depot_create(&depot, clock_now_us(cellar->clock));
    mr_status status = loop == NULL ? MR_OK : begin_thread(cellar, loop);
    if (status != MR_OK)
        destroy(cellar);
    else
        *out = cellar;
    return status;
}

static void end_thread(cellar *cellar) {
    pthread_mutex_lock(&cellar->lock);
    cellar->stopping = true;
    pthread_cond_signal(&cellar->work);
    pthread_mutex_unlock(&cellar->lock);
    pthread_join(cellar->thread, NULL);
    loop_watch_remove(cellar->watch);
    close(cellar->event_fd);
}

void cellar_close(cellar *cellar) {
    if (cellar == NULL) return;
    if (cellar->threaded) end_thread(cellar);
    destroy(cellar);
}
