/* scheduler.c — see scheduler.h. Tested by tests/ps_process_test.c. */
#include "kv/scheduler.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/format.h"
#include "base/log.h"
#include "cluster/clerk.h"
#include "cluster/image.h"
#include "cluster/local.h"
#include "cluster/roster.h"
#include "cluster/sqlite_import.h"
#include "kv/catalogue.h"
#include "kv/cellar.h"
#include "kv/corpus.h"
#include "kv/inventory.h"
#include "kv/office/awaited.h"
#include "kv/office/desk.h"
#include "kv/office/larder.h"
#include "kv/office/leavers.h"
#include "kv/office/savers.h"
#include "kv/office/scribe.h"
#include "kv/office/seats.h"
#include "kv/office/survey.h"
#include "ps/director.h"

#define LOCK_FILE   "scheduler.lock"
#define STOPPED_KEY "stopped" /* the number of the chart when the scheduler was stopped on purpose */

struct scheduler {
    scheduler_options options;
    van *van;
    image image;
    scribe scribe;
    keeper *keeper;
    clerk *clerk;
    local *local;
    director *director;
    cellar *cellar;
    char *folder;       /* owned: where it is, from the root on */
    uint64_t catalogue; /* its version, as the cellar has it */
    bureau *bureau;
    larder *larder;
    leavers leavers;
    seats servers, workers;
    savers savers;
    int64_t settled_us; /* before it gives no numbers away */
    int64_t mark_us;    /* when the next checkpoint is ordered */
    char depot_address[PART_ADDRESS_MAX];
    bool troubled;           /* no checkpoint is made, and this is why: */
    char *trouble;           /* owned; the last, though it may be over; NULL: nothing was wrong yet */
    int64_t trouble_us;      /* when that was said last */
    int64_t trouble_wall_us; /* when it was, since 1970 */
    awaited_watch watch;
    int64_t watch_us; /* when it looks again */
    uint64_t watched; /* the chart when it looked last */
    char awaited[ERROR_TEXT_MAX];
};

/* ---- The desk. */

static void give_seat(scheduler *scheduler, link_id link, const letter *question) {
    int64_t now_us = van_now_us(scheduler->van);
    bool serves = question->stamp.view == DESK_SERVER;
    uint64_t wanted = question->stamp.incarnation;             /* 1 + a number; 0: any */
    if (wanted == 0 && now_us < scheduler->settled_us) return; /* it asks again */
    uint32_t number = SEATS_MAX;
    if (!serves)
        number = seats_give(&scheduler->workers, scheduler->options.rank_count, question->stamp.id, now_us);
    else if (wanted == 0)
        number = seats_give(&scheduler->servers, SEATS_MAX, question->stamp.id, now_us);
    else if (wanted <= SEATS_MAX && seats_take(&scheduler->servers, (uint32_t)wanted - 1, question->stamp.id, now_us))
        number = (uint32_t)wanted - 1;
    van_answer_letter(scheduler->van, link,
                      &(letter){.kind = DESK_SEATED, .stamp = {.view = number, .id = question->stamp.id}});
}

static void show(scheduler *scheduler, link_id link, const letter *question) {
    const chart *chart = director_chart(scheduler->director);
    size_t size = chart->number == 0 ? 0 : chart_size(chart, 0);
    if (size > LETTER_VALUE_MAX) return;
    uint8_t *bytes = xmalloc(size + 1);
    writer writer = writer_of(bytes, size);
    if (size != 0) chart_encode(chart, 0, &writer);
    van_answer_letter(scheduler->van, link,
                      &(letter){.kind = DESK_SIGHT,
                                .stamp = {.view = cellar_look_at(scheduler->cellar).newest, .id = question->stamp.id},
                                .value = span_of(bytes, size)});
    free(bytes);
}

/* Is there a server that is here and does not go? */
static bool somebody_stays(const scheduler *scheduler) {
    const board *board = bureau_board(scheduler->bureau);
    for (size_t i = 0; i < board->count; i++) {
        const standing *now = &board->rows[i]->now;
        if (now->role == MR_PS_SERVERS && board_is_here(board->rows[i], van_now_us(scheduler->van)) &&
            !leavers_has(&scheduler->leavers, now->number, now->incarnation))
            return true;
    }
    return false;
}

/* Its slots are led elsewhere; where there is nobody else it need not wait. */
static void let_leave(scheduler *scheduler, link_id link, const letter *question) {
    if (question->stamp.id >= SEATS_MAX) return;
    if (leavers_add(&scheduler->leavers, (uint32_t)question->stamp.id, question->stamp.incarnation))
        director_retire(scheduler->director, scheduler->leavers.numbers, scheduler->leavers.count);
    van_answer_letter(scheduler->van, link,
                      &(letter){.kind = DESK_LEFT, .stamp = {.view = !somebody_stays(scheduler)}});
}

/* Whoever waits asks again, so nothing is begun but here. */
static void save(scheduler *scheduler, link_id link, const letter *question) {
    bool making = director_marks(scheduler->director);
    uint64_t number = savers_ask(&scheduler->savers, question->stamp.id, making, van_now_us(scheduler->van));
    if (number == 0) director_checkpoint(scheduler->director);
    const char *trouble = scheduler->troubled ? scheduler->trouble : "";
    van_answer_letter(scheduler->van, link,
                      &(letter){.kind = DESK_SAVED,
                                .stamp = {.view = number, .id = question->stamp.id},
                                .value = span_of(trouble, strlen(trouble))});
}

/* ---- What is awaited. */

static awaited_facts facts_of(const scheduler *scheduler) {
    return (awaited_facts){.chart = director_chart(scheduler->director),
                           .board = bureau_board(scheduler->bureau),
                           .server_count = scheduler->options.server_count,
                           .checkpoint = cellar_look_at(scheduler->cellar).newest,
                           .scheduler = van_address(scheduler->van),
                           .folder = scheduler->folder,
                           .trouble = scheduler->troubled ? scheduler->trouble : "",
                           .stuck = cellar_look_at(scheduler->cellar).stuck,
                           .undecided = scheduler->scribe.trouble,
                           .now_us = van_now_us(scheduler->van)};
}

static void watch(scheduler *scheduler) {
    awaited_facts facts = facts_of(scheduler);
    awaited_news news = awaited_watch_look(&scheduler->watch, &facts);
    awaited_watch_say(&scheduler->watch, &facts, scheduler->awaited, sizeof scheduler->awaited);
    if (news == AWAITED_SAY) log_warn("waiting: %s", scheduler->awaited);
    if (news == AWAITED_OVER) log_warn("the wait is over at cluster map %llu", (unsigned long long)facts.chart->number);
    scheduler->watch_us = facts.now_us + SCHEDULER_WATCH_US;
    scheduler->watched = facts.chart->number;
}

static const char *awaited_text(const void *context, uint64_t *chart) {
    const scheduler *scheduler = context;
    *chart = scheduler->watched;
    return scheduler->awaited;
}

static void survey(scheduler *scheduler, link_id link, const letter *question) {
    clock_source clock = van_env(scheduler->van)->clock;
    awaited_facts facts = facts_of(scheduler);
    survey_facts about = {.awaited = &facts,
                          .watch = &scheduler->watch,
                          .stocks = bureau_stocks(scheduler->bureau),
                          .keeper = scheduler->keeper,
                          .wall_us = clock_wall_us(clock),
                          .checkpoint_us = cellar_look_at(scheduler->cellar).written_us,
                          .every_us = scheduler->options.checkpoint_us,
                          .trouble_us = scheduler->trouble_wall_us,
                          .trouble = scheduler->trouble,
                          .making = director_marks(scheduler->director)};
    size_t size;
    uint8_t *bytes = survey_make(&about, &size);
    van_answer_letter(
        scheduler->van, link,
        &(letter){.kind = DESK_OVERVIEW, .stamp = {.id = question->stamp.id}, .value = span_of(bytes, size)});
    free(bytes);
}

/* ---- The desk. */

static void on_checkpoint(void *context, uint64_t number) { savers_whole(&((scheduler *)context)->savers, number); }

static void take_letter(scheduler *scheduler, link_id link, const letter *letter) {
    switch (letter->kind) {
    case DESK_SEAT: give_seat(scheduler, link, letter); break;
    case DESK_LOOK: show(scheduler, link, letter); break;
    case DESK_LEAVE: let_leave(scheduler, link, letter); break;
    case DESK_SAVE: save(scheduler, link, letter); break;
    case DESK_SURVEY: survey(scheduler, link, letter); break;
    default:
        if (!bureau_take(scheduler->bureau, link, letter) && !larder_take(scheduler->larder, link, letter))
            (void)clerk_take(scheduler->clerk, link, letter, van_now_us(scheduler->van));
    }
}

/* ---- As the van's host. */

static void hear(scheduler *scheduler, span batch) {
    reader reader = reader_of(batch.data, batch.size);
    part_head head;
    uint32_t count;
    if (part_read_head(&reader, &head, &count) != MR_OK) return;
    if (head.who < PART_RANK) {
        seats_heard(&scheduler->servers, head.who, head.address, van_now_us(scheduler->van));
        if (leavers_heard(&scheduler->leavers, head.who, head.incarnation))
            director_retire(scheduler->director, scheduler->leavers.numbers, scheduler->leavers.count);
    }
    if ((head.who & PART_WORKER) != 0)
        seats_heard(&scheduler->workers, head.who & ~(uint32_t)PART_WORKER, head.address, van_now_us(scheduler->van));
}

/* What is pushed to a table was decided here before. */
static void name_tables(scheduler *scheduler) {
    uint64_t version;
    span value;
    keeper_get(scheduler->keeper, span_of(CATALOGUE_KEY, strlen(CATALOGUE_KEY)), &version, &value);
    if (version == scheduler->catalogue) return;
    scheduler->catalogue = version;
    cellar_name_tables(scheduler->cellar, value);
}

static void take(void *context, link_id link, span bytes, bale *bale) {
    scheduler *scheduler = context;
    uint32_t magic = 0;
    letter letter;
    if (bytes.size >= sizeof magic) memcpy(&magic, bytes.data, sizeof magic);
    if (magic == PART_MAGIC) {
        hear(scheduler, bytes);
        director_take(scheduler->director, bytes, van_now_us(scheduler->van));
        name_tables(scheduler);
        cellar_take(scheduler->cellar, bytes, bale);
    } else if (letter_decode(bytes, &letter) == MR_OK) {
        take_letter(scheduler, link, &letter);
    }
}

static void broken(void *context, const char *address, bool silent) {
    scheduler *scheduler = context;
    director_broken(scheduler->director, address, van_now_us(scheduler->van));
    bureau_broken(scheduler->bureau, address);
    if (silent) return;
    seats_broken(&scheduler->servers, address);
    seats_broken(&scheduler->workers, address);
}

static int64_t next_us(void *context) {
    scheduler *scheduler = context;
    int64_t next_us = clock_earlier_us(local_next_us(scheduler->local), clerk_next_us(scheduler->clerk));
    next_us = clock_earlier_us(next_us, director_next_us(scheduler->director));
    next_us = clock_earlier_us(next_us, bureau_next_us(scheduler->bureau));
    next_us = clock_earlier_us(next_us, larder_next_us(scheduler->larder));
    next_us = clock_earlier_us(next_us, scheduler->watch_us);
    next_us = clock_earlier_us(next_us, cellar_next_us(scheduler->cellar));
    return clock_earlier_us(next_us, scheduler->mark_us);
}

static void tick(void *context, int64_t now_us) {
    scheduler *scheduler = context;
    local_tick(scheduler->local, now_us);
    if (now_us >= clerk_next_us(scheduler->clerk)) clerk_tick(scheduler->clerk, now_us);
    if (now_us >= director_next_us(scheduler->director)) director_tick(scheduler->director, now_us);
    if (now_us >= bureau_next_us(scheduler->bureau)) bureau_tick(scheduler->bureau, now_us);
    if (now_us >= larder_next_us(scheduler->larder)) larder_tick(scheduler->larder, now_us);
    if (now_us >= scheduler->watch_us) watch(scheduler);
    if (now_us >= cellar_next_us(scheduler->cellar)) cellar_tick(scheduler->cellar);
    if (now_us < scheduler->mark_us) return;
    scheduler->mark_us = now_us + scheduler->options.checkpoint_us;
    director_checkpoint(scheduler->director);
}

static void answer(void *context, link_id link, const letter *letter) {
    scheduler *scheduler = context;
    van_answer_letter(scheduler->van, link, letter);
}

static void send_bytes(void *context, const char *address, span bytes) {
    scheduler *scheduler = context;
    van_send(scheduler->van, address, bytes);
}

/* ---- Life. */

_Static_assert((int)SEATS_MAX <= (int)CROWD_MAX && (int)SEATS_MAX <= (int)CHART_RANKS_MAX, "all can be in a round");

static bool has_rounds(const scheduler_options *options) {
    return options->mixed || options->consistency.kind == CONSISTENCY_BSP;
}

static mr_status check_rounds(const scheduler_options *options) {
    if (!has_rounds(options) && (options->backup != 0 || options->deadline_us != 0))
        return error_set(MR_INVALID, "a %s needs rounds: consistency bsp, or `mixed`",
                         options->backup != 0 ? "number of backup workers" : "deadline");
    if (options->backup >= options->rank_count)
        return error_set(MR_INVALID, "%u backup workers of %u: at least 1 worker must not be a backup", options->backup,
                         options->rank_count);
    if (options->deadline_us < 0 || options->deadline_us > UINT32_MAX)
        return error_set(MR_INVALID, "a deadline of %lld µs: expected 0 (none) to %lu", (long long)options->deadline_us,
                         (unsigned long)UINT32_MAX);
    return MR_OK;
}

static mr_status check(const scheduler_options *options) {
    const uint32_t slots_max = (CHART_SLOTS_MAX - 1) / (options->mixed ? 2 : 1);
    if (options->rank_count < 1 || options->rank_count > SEATS_MAX)
        return error_set(MR_INVALID, "%u workers: expected 1 to %u", options->rank_count, SEATS_MAX);
    if (options->table_slots < 1 || options->table_slots > slots_max)
        return error_set(MR_INVALID, "%u slots: expected 1 to %u", options->table_slots, slots_max);
    if (options->server_count < 1 || options->server_count > SEATS_MAX)
        return error_set(MR_INVALID, "%u servers: expected 1 to %u", options->server_count, SEATS_MAX);
    if (options->copies < 1 || options->copies > CHART_COPIES_MAX || options->copies > options->server_count)
        return error_set(MR_INVALID, "%u replicas of each slot: expected 1 to %u, and no more than servers (%u)",
                         options->copies, CHART_COPIES_MAX, options->server_count);
    if (options->exact_checkpoints && options->mixed)
        return error_set(MR_INVALID, "exact checkpoints are not possible with `mixed`");
    if (options->checkpoint_us < 0) return error_set(MR_INVALID, "the time between checkpoints is below 0");
    return check_rounds(options);
}

static mr_status folder_failed(const scheduler *scheduler, mr_status status) {
    bool disk = status == MR_IO || status == MR_NOMEM || status == MR_DENIED;
    return error_wrap(
        status, disk ? "cannot begin in the folder '%s'; check its permissions and free space" : "the folder '%s'",
        scheduler->options.folder);
}

/* For this process alone, with nothing in it that only an older release reads. */
static mr_status prepare_folder(scheduler *scheduler) {
    const env *env = van_env(scheduler->van);
    mr_status status = disk_lock(env->disk, LOCK_FILE);
    if (status == MR_BUSY) return error_wrap(status, "another scheduler is there; stop it, or begin in another folder");
    MR_TRY(status);
    return sqlite_import(scheduler->options.folder, env->disk, scheduler->scribe.below, env->rng);
}

static mr_status open_keeper(scheduler *scheduler) {
    const env *env = van_env(scheduler->van);
    scheduler->image.disk = env->disk;
    scheduler->scribe.below = image_archive(&scheduler->image);
    mr_status status = scheduler->options.env != NULL ? MR_OK : prepare_folder(scheduler);
    archive archive = scribe_archive(&scheduler->scribe);
    if (status == MR_OK) status = keeper_open(archive, env->rng, van_now_us(scheduler->van), &scheduler->keeper);
    return status == MR_OK ? MR_OK : folder_failed(scheduler, status);
}

/* The first chart of a generation says how it came about. */
static void on_decided(void *context, const chart *chart) {
    if (!chart->lost || chart->number != chart->birth) return;
    if (chart->origin != 0)
        log_warn("the servers with all replicas of a slot died: all tables continue from checkpoint %llu",
                 (unsigned long long)chart->origin);
    else
        log_warn("the servers with all replicas of a slot died, and there is no checkpoint: all tables are empty. Use "
                 "at least 2 replicas, or checkpoints");
}

/* The chart with which everything was stopped on purpose, if that was the last thing that happened here; else 0. */
static uint64_t stopped_chart(const scheduler *scheduler) {
    span value = keeper_value(scheduler->keeper, STOPPED_KEY);
    reader reader = reader_of(value.data, value.size);
    uint64_t number = reader_u64(&reader);
    return reader.failed ? 0 : number;
}

void scheduler_stop(scheduler *scheduler) {
    uint64_t version, number = director_chart(scheduler->director)->number;
    span value, key = span_of(STOPPED_KEY, strlen(STOPPED_KEY));
    keeper_get(scheduler->keeper, key, &version, &value);
    if (keeper_swap(scheduler->keeper, key, version, span_of(&number, sizeof number), 0) != MR_OK)
        log_warn("cannot record that this scheduler was stopped on purpose: %s", mr_last_error());
}

static void begin_director(scheduler *scheduler) {
    const scheduler_options *options = &scheduler->options;
    director_options director = {.address = van_address(scheduler->van),
                                 .depot = scheduler->depot_address,
                                 .pause_us = options->exact_checkpoints ? SCHEDULER_PAUSE_US : 0,
                                 .restores = true,
                                 .coordinator = local_coordinator(scheduler->local),
                                 .rng = van_env(scheduler->van)->rng,
                                 .consistency = options->consistency,
                                 .mixed = options->mixed,
                                 .rounds = {.backup = options->backup, .deadline_us = (uint32_t)options->deadline_us},
                                 .copies = options->copies,
                                 .rank_count = options->rank_count,
                                 .slot_count = options->table_slots * (options->mixed ? 2 : 1) + has_rounds(options),
                                 .first_servers = options->server_count,
                                 .own_ranks = true,
                                 .stopped = stopped_chart(scheduler),
                                 .balance = {options->balance_us, SCHEDULER_LEAST, SCHEDULER_READS},
                                 .send = send_bytes,
                                 .on_decided = on_decided,
                                 .on_checkpoint = on_checkpoint,
                                 .context = scheduler};
    scheduler->director = director_create(&director, van_now_us(scheduler->van));
}

static void send_bale(void *context, const char *address, bale *letter) {
    scheduler *scheduler = context;
    van_send_pieces(scheduler->van, address, &(bale_piece){bale_bytes(letter), letter}, 1);
}

/* Of each file the same, likely, many times a second: the first is told, then what it is now and then. */
static void on_trouble(void *context, const char *text) {
    scheduler *scheduler = context;
    int64_t now_us = van_now_us(scheduler->van);
    bool good = text[0] == '\0';
    if (good && scheduler->troubled) log_warn("checkpoints in %s are written again", scheduler->folder);
    if (!good && (!scheduler->troubled || now_us - scheduler->trouble_us >= SCHEDULER_TROUBLE_US)) {
        log_warn("cannot write checkpoints in %s: %s; training goes on without", scheduler->folder, text);
        scheduler->trouble_us = now_us;
    }
    scheduler->troubled = !good;
    if (good) return;
    scheduler->trouble_wall_us = clock_wall_us(van_env(scheduler->van)->clock);
    free(scheduler->trouble);
    scheduler->trouble = xstrdup(text);
}

static mr_status begin_depot(scheduler *scheduler) {
    static const cellar_host host = {.send = send_bale, .on_trouble = on_trouble};
    cellar_options cellar = {.address = scheduler->depot_address,
                             .director = van_address(scheduler->van),
                             .disk = van_env(scheduler->van)->disk,
                             .exact = scheduler->options.exact_checkpoints,
                             .written_us = inventory_written_us(scheduler->folder, DEPOT_MANIFEST),
                             .clock = van_env(scheduler->van)->clock};
    return cellar_open(van_loop(scheduler->van), &cellar, &host, scheduler, &scheduler->cellar);
}

static const chart *newest_chart(const void *context) { return director_chart(((const scheduler *)context)->director); }

static void begin_bureau(scheduler *scheduler) {
    const scheduler_options *options = &scheduler->options;
    scheduler->bureau = bureau_create(&(bureau_options){.van = scheduler->van,
                                                        .keeper = scheduler->keeper,
                                                        .rank_count = options->rank_count,
                                                        .server_count = options->server_count,
                                                        .rounds = options->consistency.kind == CONSISTENCY_BSP,
                                                        .chart = newest_chart,
                                                        .awaited = awaited_text,
                                                        .context = scheduler});
}

static bool bound(const void *context, uint64_t *checkpoint) {
    return director_bound(((const scheduler *)context)->director, checkpoint);
}

static uint64_t oldest(const void *context) { return cellar_look_at(((const scheduler *)context)->cellar).oldest; }

static void begin_larder(scheduler *scheduler) {
    scheduler->larder = larder_create(&(larder_options){.van = scheduler->van,
                                                        .keeper = scheduler->keeper,
                                                        .coordinator = local_coordinator(scheduler->local),
                                                        .chart = newest_chart,
                                                        .bound = bound,
                                                        .oldest = oldest,
                                                        .context = scheduler});
}

/* What is in the folder has the formats that this version reads. */
static mr_status check_formats(const scheduler *scheduler) {
    catalogue catalogue = {0};
    corpus corpus = {0};
    roster roster = {0};
    span tables = keeper_value(scheduler->keeper, CATALOGUE_KEY), data = keeper_value(scheduler->keeper, CORPUS_KEY),
         members = keeper_value(scheduler->keeper, ROSTER_KEY);
    mr_status status = catalogue_decode(tables, &catalogue);
    if (status == MR_OK && data.size != 0) status = corpus_decode(data, &corpus);
    if (status == MR_OK && members.size != 0) status = roster_decode(members, &roster);
    if (status == MR_OK && scheduler->options.env == NULL) status = depot_check_folder(van_env(scheduler->van)->disk);
    catalogue_fini(&catalogue);
    corpus_fini(&corpus);
    roster_fini(&roster);
    return status == MR_OK ? MR_OK : error_wrap(status, "the folder '%s'", scheduler->options.folder);
}

/* What is in the folder goes on as it was begun: keys lie in slots by how many there are. */
static mr_status check_folder(const scheduler *scheduler) {
    static const char *const names[] = {"asp", "ssp", "bsp"};
    const scheduler_options *options = &scheduler->options;
    span bytes = keeper_value(scheduler->keeper, CHART_KEY);
    chart chart = {0};
    MR_TRY(check_formats(scheduler));
    if (bytes.size == 0) return MR_OK;
    mr_status status = chart_follow(&chart, bytes);
    if (status != MR_OK) return error_wrap(status, "the folder '%s'", options->folder);
    uint32_t slots = chart_table_slots(&chart);
    consistency_kind kind = chart.consistency.kind;
    bool mixed = chart.mixed;
    chart_fini(&chart);
    if (slots == options->table_slots && kind == options->consistency.kind && mixed == options->mixed) return MR_OK;
    return error_set(MR_INVALID, "the deployment in %s has %u slots and is %s%s; it cannot become %u and %s%s",
                     options->folder, slots, names[kind], mixed ? ", mixed" : "", options->table_slots,
                     names[options->consistency.kind], options->mixed ? ", mixed" : "");
}

/* Whoever was here before is heard before a number is given to another, or somebody is said to be gone. */
static void settle(scheduler *scheduler) {
    bool before = keeper_value(scheduler->keeper, CHART_KEY).size != 0;
    scheduler->settled_us = van_now_us(scheduler->van) + (before ? SCHEDULER_SETTLE_US : 0);
    scheduler->watch_us = scheduler->settled_us;
}

/* Where it is, whatever folder is the current one of those who ask. */
static void know_folder(scheduler *scheduler) {
    scheduler->folder = realpath(scheduler->options.folder, NULL);
    if (scheduler->folder == NULL) scheduler->folder = xstrdup(scheduler->options.folder);
}

mr_status scheduler_open(const scheduler_options *options, scheduler **out) {
    static const van_host host = {.take = take, .broken = broken, .next_us = next_us, .tick = tick};
    MR_TRY(check(options));
    scheduler *scheduler = xcalloc(1, sizeof *scheduler);
    scheduler->options = *options;
    van_options van_options = {.listen = options->listen,
                               .folder = options->folder,
                               .beyond_this_machine = options->beyond_this_machine,
                               .env = options->env};
    mr_status status = van_open(&van_options, &host, scheduler, &scheduler->van);
    if (status != MR_OK) goto free_scheduler;
    status = open_keeper(scheduler);
    if (status != MR_OK) goto close_van;
    status = check_folder(scheduler);
    if (status != MR_OK) goto close_keeper;
    know_folder(scheduler);
    snprintf(scheduler->depot_address, sizeof scheduler->depot_address, "%s" DESK_DEPOT, van_address(scheduler->van));
    status = begin_depot(scheduler);
    if (status != MR_OK) goto close_keeper;
    scheduler->clerk = clerk_create(scheduler->keeper, answer, scheduler);
    scheduler->local = local_create(scheduler->keeper);
    begin_director(scheduler);
    begin_bureau(scheduler);
    begin_larder(scheduler);
    settle(scheduler);
    scheduler->mark_us = options->checkpoint_us == 0 ? CLOCK_NEVER_US : van_now_us(scheduler->van);
    *out = scheduler;
    return MR_OK;

close_keeper:
    free(scheduler->folder);
    keeper_close(scheduler->keeper);
close_van:
    van_close(scheduler->van);
free_scheduler:
    free(scheduler);
    return status;
}

void scheduler_close(scheduler *scheduler) {
    if (scheduler == NULL) return;
    cellar_close(scheduler->cellar);
    free(scheduler->trouble);
    free(scheduler->folder);
    local_destroy(scheduler->local);
    director_destroy(scheduler->director);
    bureau_destroy(scheduler->bureau);
    larder_destroy(scheduler->larder);
    clerk_destroy(scheduler->clerk);
    van_close(scheduler->van);
    keeper_close(scheduler->keeper);
    free(scheduler);
}

bureau *scheduler_bureau(const scheduler *scheduler) { return scheduler->bureau; }
van *scheduler_van(const scheduler *scheduler) { return scheduler->van; }
