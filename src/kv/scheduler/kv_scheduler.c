/* kv_scheduler.c — see kv_scheduler.h. Tested by tests/ps_process_test.c. */
#include "kv/scheduler/kv_scheduler.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/format.h"
#include "base/log.h"
#include "base/plural.h"
#include "cluster/consumer_group.h"
#include "cluster/metadata_file.h"
#include "cluster/metadata_local.h"
#include "cluster/metadata_service.h"
#include "cluster/sqlite_import.h"
#include "kv/checkpoint/checkpoint_list.h"
#include "kv/checkpoint/checkpoint_thread.h"
#include "kv/control/app_message.h"
#include "kv/control/catalog_server.h"
#include "kv/control/checkpoint_requests.h"
#include "kv/control/control_wire.h"
#include "kv/control/data_service.h"
#include "kv/control/dataset_spec.h"
#include "kv/control/drain.h"
#include "kv/control/drain_list.h"
#include "kv/control/id_allocator.h"
#include "kv/control/metadata_guard.h"
#include "kv/control/overview_collect.h"
#include "kv/control/process_state.h"
#include "kv/control/sender_table.h"
#include "kv/control/stall.h"
#include "kv/control/storage_errors.h"
#include "kv/scheduler/final_checkpoint.h"
#include "kv/scheduler/repartition.h"
#include "kv/scheduler/server_admission.h"
#include "ps/controller.h"
#include "ps/silence.h"

#define LOCK_FILE   "scheduler.lock"
#define STOPPED_KEY "stopped" /* number of the cluster map at an intended stop */

struct kv_scheduler {
    kv_scheduler_options options;
    van *van;
    metadata_file file;
    storage_errors errors;
    metadata_db *db;
    metadata_service *service;
    metadata_local *local;
    controller *controller;
    checkpoint_thread *thread;
    char *folder; /* owned: absolute path */
    catalog_log *catalog;
    catalog_server *tables;
    control_server *server;
    data_service *data_service;
    drain_list list;
    id_allocator servers, workers, readers;
    uint32_t admitted[ID_ALLOCATOR_MAX]; /* by number: what a server that registered here can decompress; 0: unknown */
    checkpoint_requests requests;
    final_checkpoint final;
    bool leaves;        /* the loop stops when `final` has ended */
    int64_t leaves_us;  /* since then */
    int64_t settled_us; /* no number is assigned before this time */
    int64_t mark_us;    /* time of the next checkpoint */
    char checkpoints_address[SLOT_MESSAGE_ADDRESS_MAX];
    bool troubled;           /* checkpoints fail */
    char *trouble;           /* last error of checkpoints, perhaps resolved; owned; NULL: none yet */
    int64_t trouble_us;      /* time of its last log line */
    int64_t trouble_wall_us; /* time of the error, since 1970 */
    stall_watch watch;
    int64_t watch_us; /* time of the next diagnosis */
    uint64_t watched; /* cluster map of the last diagnosis */
    char stall[ERROR_TEXT_MAX];
    sender_table senders;
    token_copy token_copy; /* of the deployment's token, for processes of the same user */
};

/* ---- Requests to the scheduler. */

/* Tells a process why it cannot join: the text of the last error. */
static void reject(kv_scheduler *scheduler, const char *what, link_id link, const control_message *question) {
    const char *text = mr_last_error();
    log_warn("a %s is not admitted: %s", what, text);
    van_answer_value(scheduler->van, link, CONTROL_SEATED, (stamp){.view = ID_ALLOCATOR_MAX, .id = question->stamp.id},
                     span_of(text, strlen(text)));
}

/* Opens links to the processes that have all numbers: a failure shows those that are gone (broken). The link to a
 * process may break before its last message arrives; then no other event shows its end. */
static void reach_all(kv_scheduler *scheduler, const id_allocator *ids, uint32_t count) {
    for (uint32_t i = 0; i < count; i++)
        if (ids->list[i].taken && ids->list[i].address[0] != '\0')
            messenger_reach(van_messenger(scheduler->van), ids->list[i].address);
}

/* The readers that there may be: those of the cluster map, which has another number than the options until the next
 * generation, if this scheduler began with other options. */
static uint32_t reader_count(const kv_scheduler *scheduler) {
    const cluster_map *map = controller_map(scheduler->controller);
    return map->number == 0 ? scheduler->options.reader_count : map->reader_count;
}

static void give_reader(kv_scheduler *scheduler, link_id link, const control_message *question) {
    uint32_t count = reader_count(scheduler);
    if (count == 0) {
        (void)error_set(MR_DENIED, "the deployment has no readers; start its scheduler with the option readers "
                                   "(miniray ps scheduler --readers N, miniray.ps.start(readers=N))");
        reject(scheduler, "reader", link, question);
        return;
    }
    uint32_t number = id_allocator_give(&scheduler->readers, count, question->stamp.id, van_now_us(scheduler->van));
    if (number == ID_ALLOCATOR_MAX) reach_all(scheduler, &scheduler->readers, count);
    van_answer_value(scheduler->van, link, CONTROL_SEATED,
                     (stamp){.view = number, .id = question->stamp.id, .incarnation = count}, (span){0});
}

static void give_number(kv_scheduler *scheduler, link_id link, const control_message *question) {
    int64_t now_us = van_now_us(scheduler->van);
    bool serves = question->stamp.view == CONTROL_SERVER;
    uint64_t wanted = question->stamp.incarnation;             /* 1 + a number; 0: any */
    if (wanted == 0 && now_us < scheduler->settled_us) return; /* the process repeats its request */
    if (question->stamp.view == CONTROL_READER) {
        give_reader(scheduler, link, question);
        return;
    }
    uint32_t number = ID_ALLOCATOR_MAX;
    if (serves && server_admission_check(catalog_log_tables(scheduler->catalog), question->value) != MR_OK) {
        reject(scheduler, "server", link, question);
        return;
    }
    if (!serves)
        number = id_allocator_give(&scheduler->workers, scheduler->options.rank_count, question->stamp.id, now_us);
    else if (wanted == 0)
        number = id_allocator_give(&scheduler->servers, ID_ALLOCATOR_MAX, question->stamp.id, now_us);
    else if (wanted <= ID_ALLOCATOR_MAX &&
             id_allocator_take(&scheduler->servers, (uint32_t)wanted - 1, question->stamp.id, now_us))
        number = (uint32_t)wanted - 1;
    if (!serves && number == ID_ALLOCATOR_MAX) reach_all(scheduler, &scheduler->workers, scheduler->options.rank_count);
    if (serves && number < ID_ALLOCATOR_MAX) scheduler->admitted[number] = server_admission_read(question->value);
    van_answer_value(scheduler->van, link, CONTROL_SEATED, (stamp){.view = number, .id = question->stamp.id},
                     (span){0});
}

static void show(kv_scheduler *scheduler, link_id link, const control_message *question) {
    const cluster_map *map = controller_map(scheduler->controller);
    size_t size = map->number == 0 ? 0 : cluster_map_size(map, 0);
    if (size > CONTROL_MESSAGE_VALUE_MAX) return;
    uint8_t *bytes = xmalloc(size + 1);
    writer writer = writer_of(bytes, size);
    if (size != 0) cluster_map_encode(map, 0, &writer);
    uint64_t newest = checkpoint_thread_look_at(scheduler->thread).newest;
    van_answer_value(scheduler->van, link, CONTROL_MAP_VIEW, (stamp){.view = newest, .id = question->stamp.id},
                     span_of(bytes, size));
    free(bytes);
}

/* Whether a live server does not drain. */
static bool a_server_stays(const kv_scheduler *scheduler) {
    const process_table *table = control_server_process_table(scheduler->server);
    for (size_t i = 0; i < table->count; i++) {
        const process_state *now = &table->rows[i]->now;
        if (now->role == MR_PS_SERVERS && process_table_is_here(table->rows[i], van_now_us(scheduler->van)) &&
            !drain_list_has(&scheduler->list, now->number, now->incarnation))
            return true;
    }
    return false;
}

/* ---- The last checkpoint. */

static bool is_here(const kv_scheduler *scheduler, const cluster_map_member *member) {
    const process_table_row *row =
        process_table_find(control_server_process_table(scheduler->server), MR_PS_SERVERS, member->server);
    return row != NULL && row->now.incarnation == member->incarnation &&
           process_table_is_here(row, van_now_us(scheduler->van));
}

/* The first slot without a live server; the number of slots: none. */
static uint32_t find_unserved(const kv_scheduler *scheduler) {
    const cluster_map *map = controller_map(scheduler->controller);
    for (uint32_t i = 0; i < map->slot_count; i++) {
        bool served = false;
        for (uint8_t k = 0; k < map->slots[i].count; k++)
            served = served || is_here(scheduler, &map->slots[i].chain[k]);
        if (!served) return i;
    }
    return map->slot_count;
}

/* Why a requested checkpoint is not complete yet; "": it is under way. */
static const char *obstacle(const kv_scheduler *scheduler) {
    return scheduler->troubled ? scheduler->trouble : scheduler->stall;
}

/* False: there is nothing to save, or no last checkpoint is wanted. */
static bool begin_final(kv_scheduler *scheduler, const char *why) {
    const cluster_map *map = controller_map(scheduler->controller);
    if (scheduler->options.final_us == 0 || map->number == 0 || catalog_log_tables(scheduler->catalog)->count == 0)
        return false;
    /* the servers have drained after it */
    if (scheduler->final.phase == FINAL_CHECKPOINT_COMPLETE && !a_server_stays(scheduler)) return false;
    if (scheduler->final.phase == FINAL_CHECKPOINT_WAITING) return true;
    log_info("%s: making a last checkpoint in %s", why, scheduler->folder);
    final_checkpoint_begin(&scheduler->final, rng_next(van_env(scheduler->van)->rng), scheduler->options.final_us,
                           van_now_us(scheduler->van));
    return true;
}

static void say_final(const kv_scheduler *scheduler) {
    const final_checkpoint *final = &scheduler->final;
    uint64_t newest = checkpoint_thread_look_at(scheduler->thread).newest;
    char cause[ERROR_TEXT_MAX];
    if (final->phase == FINAL_CHECKPOINT_COMPLETE) {
        log_info("checkpoint %llu is complete: the next start continues from it", (unsigned long long) final->number);
        return;
    }
    if (final->phase == FINAL_CHECKPOINT_GONE)
        snprintf(cause, sizeof cause, "no server with a replica of slot %u is alive", find_unserved(scheduler));
    else if (obstacle(scheduler)[0] != '\0')
        snprintf(cause, sizeof cause, "%s", obstacle(scheduler));
    else
        snprintf(cause, sizeof cause, "%llu of %u slots were saved in %.0f s, and no other in the last %.0f s",
                 (unsigned long long) final->saved, controller_map(scheduler->controller)->slot_count,
                 (double)(final->next_us - final->begun_us) / 1e6, (double) final->patience_us / 1e6);
    log_warn("the last checkpoint in %s is not complete: %s; the next start continues from checkpoint %llu%s, without "
             "later pushes",
             scheduler->folder, cause, (unsigned long long)newest, newest == 0 ? " (none: with empty tables)" : "");
}

static void tick_final(kv_scheduler *scheduler, int64_t now_us) {
    final_checkpoint_facts facts = {.served =
                                        find_unserved(scheduler) == controller_map(scheduler->controller)->slot_count};
    bool making = controller_marks(scheduler->controller);
    facts.number = checkpoint_requests_ask(&scheduler->requests, scheduler->final.token, making, now_us);
    if (facts.number == 0 && !making) controller_checkpoint(scheduler->controller);
    facts.saved = controller_saved(scheduler->controller, &facts.making);
    if (!final_checkpoint_tick(&scheduler->final, &facts, now_us)) return;
    say_final(scheduler);
    if (scheduler->leaves) van_stop(scheduler->van);
}

void kv_scheduler_leave(kv_scheduler *scheduler) {
    int64_t now_us = van_now_us(scheduler->van);
    bool again = scheduler->leaves;
    if (again && now_us - scheduler->leaves_us < KV_SCHEDULER_TWICE_US) return;
    if (!again) scheduler->leaves_us = now_us;
    scheduler->leaves = true;
    if (again && scheduler->final.phase == FINAL_CHECKPOINT_WAITING)
        log_warn("a second signal: the last checkpoint in %s is given up; checkpoint %llu is the newest",
                 scheduler->folder, (unsigned long long)checkpoint_thread_look_at(scheduler->thread).newest);
    if (again || !begin_final(scheduler, "stopping")) van_stop(scheduler->van);
}

/* Handles a server's drain: other servers take its slots. Without another server it waits for the last checkpoint. */
static void let_leave(kv_scheduler *scheduler, link_id link, const control_message *question) {
    uint64_t view = DRAIN_MOVES;
    if (question->stamp.id >= ID_ALLOCATOR_MAX) return;
    if (drain_list_add(&scheduler->list, (uint32_t)question->stamp.id, question->stamp.incarnation))
        controller_retire(scheduler->controller, scheduler->list.numbers, scheduler->list.count);
    if (a_server_stays(scheduler)) {
        if (!scheduler->leaves) scheduler->final = (final_checkpoint){0};
    } else {
        if (scheduler->final.phase == FINAL_CHECKPOINT_NONE) (void)begin_final(scheduler, "the last server drains");
        view = scheduler->final.phase == FINAL_CHECKPOINT_WAITING ? DRAIN_HELD : DRAIN_GO;
    }
    van_answer_value(scheduler->van, link, CONTROL_LEFT, (stamp){.view = view}, (span){0});
}

/* Handles a request for a checkpoint. The waiting process repeats its request, so only this call begins a
 * checkpoint. */
static void save(kv_scheduler *scheduler, link_id link, const control_message *question) {
    bool making = controller_marks(scheduler->controller);
    uint64_t number =
        checkpoint_requests_ask(&scheduler->requests, question->stamp.id, making, van_now_us(scheduler->van));
    if (number == 0 && !making) controller_checkpoint(scheduler->controller);
    const char *why = obstacle(scheduler);
    van_answer_value(scheduler->van, link, CONTROL_SAVED, (stamp){.view = number, .id = question->stamp.id},
                     span_of(why, strlen(why)));
}

/* ---- Stalls. */

static stall_facts facts_of(const kv_scheduler *scheduler) {
    return (stall_facts){.map = controller_map(scheduler->controller),
                         .table = control_server_process_table(scheduler->server),
                         .server_count = scheduler->options.server_count,
                         .checkpoint = checkpoint_thread_look_at(scheduler->thread).newest,
                         .scheduler = van_address(scheduler->van),
                         .folder = scheduler->folder,
                         .trouble = scheduler->troubled ? scheduler->trouble : "",
                         .stuck = checkpoint_thread_look_at(scheduler->thread).stuck,
                         .undecided = scheduler->errors.trouble,
                         .now_us = van_now_us(scheduler->van)};
}

static void watch(kv_scheduler *scheduler) {
    stall_facts facts = facts_of(scheduler);
    stall_news news = stall_watch_look(&scheduler->watch, &facts);
    stall_watch_say(&scheduler->watch, &facts, scheduler->stall, sizeof scheduler->stall);
    if (news == STALL_SAY) log_warn("waiting: %s", scheduler->stall);
    if (news == STALL_OVER) log_warn("the wait is over at cluster map %llu", (unsigned long long)facts.map->number);
    scheduler->watch_us = facts.now_us + KV_SCHEDULER_WATCH_US;
    scheduler->watched = facts.map->number;
}

static void survey(kv_scheduler *scheduler, link_id link, const control_message *question) {
    clock_source clock = van_env(scheduler->van)->clock;
    stall_facts facts = facts_of(scheduler);
    overview_collect_facts about = {.stall = &facts,
                                    .watch = &scheduler->watch,
                                    .list = control_server_table_stats(scheduler->server),
                                    .db = scheduler->db,
                                    .tables = catalog_log_tables(scheduler->catalog),
                                    .after = (uint32_t)question->stamp.view,
                                    .wall_us = clock_wall_us(clock),
                                    .checkpoint_us = checkpoint_thread_look_at(scheduler->thread).written_us,
                                    .every_us = scheduler->options.checkpoint_us,
                                    .trouble_us = scheduler->trouble_wall_us,
                                    .trouble = scheduler->trouble,
                                    .making = controller_marks(scheduler->controller)};
    size_t size;
    uint32_t last;
    if (question->stamp.view > UINT32_MAX) return;
    uint8_t *bytes = overview_collect_make(&about, &size, &last);
    stamp stamp = {.view = last, .id = question->stamp.id, .incarnation = question->stamp.view};
    van_answer_value(scheduler->van, link, CONTROL_OVERVIEW, stamp, span_of(bytes, size));
    free(bytes);
}

/* ---- Requests to the scheduler, continued. */

static void on_checkpoint(void *context, uint64_t number) {
    checkpoint_requests_whole(&((kv_scheduler *)context)->requests, number);
}

static void answer_process(void *context, link_id link, const control_message *answer) {
    van_answer_message(((kv_scheduler *)context)->van, link, answer);
}

/* Whether all servers can hold a new table. A server says what it can decompress when it registers, and with every
 * state, since it may have registered with an earlier process of the scheduler: before servers had time to report, the
 * answer is MR_BUSY, and the question is repeated. */
static mr_status check_table(void *context, const table_catalog_table *table) {
    const kv_scheduler *scheduler = context;
    const process_table *processes = control_server_process_table(scheduler->server);
    uint32_t available[ID_ALLOCATOR_MAX] = {0};
    if (van_now_us(scheduler->van) < scheduler->settled_us)
        return error_set(MR_BUSY, "the scheduler has started again, and waits for its servers' reports");
    for (uint32_t i = 0; i < ID_ALLOCATOR_MAX; i++) {
        const id_assignment *server = &scheduler->servers.list[i];
        const process_table_row *row = process_table_find(processes, MR_PS_SERVERS, i);
        if (!server->taken || server->broken) continue;
        available[i] = scheduler->admitted[i];
        if (available[i] == 0 && row != NULL) available[i] = (uint32_t)row->now.compressors;
    }
    return server_admission_check_table(table, available, ID_ALLOCATOR_MAX);
}

/* Other processes change the training data and incarnations; all else is decided here. */
static void swap(kv_scheduler *scheduler, link_id link, const control_message *question) {
    if (metadata_guard_check(question->key, question->value) == MR_OK) {
        (void)metadata_service_take(scheduler->service, link, question, van_now_us(scheduler->van));
        return;
    }
    log_warn("a change of the metadata store was refused: %s", mr_last_error());
    van_answer_message(
        scheduler->van, link,
        &(control_message){.kind = CONTROL_MESSAGE_ANSWER, .request = question->request, .status = MR_DENIED});
}

/* Whether the process at the other end of the link is the one that the message names as its sender. */
static bool may_send(kv_scheduler *scheduler, link_id link, const control_message *message) {
    process_state state = {.role = MR_PS_SERVERS};
    app_message note;
    struct stamp from = message->stamp;
    switch (message->kind) {
    case CONTROL_HERE:
        if (process_state_decode(message->value, &state) != MR_OK) return false;
        break;
    case CONTROL_COME: state.role = MR_PS_WORKERS; break;
    case CONTROL_TABLE_STATS:
    case CONTROL_LEAVE: break;
    case CONTROL_NOTE:
        if (app_message_read(message, &note) != MR_OK) return false;
        state.role = note.from_role;
        break;
    default: return true;
    }
    sender_verdict verdict = sender_table_judge_role(&scheduler->senders, state.role, from.id, from.incarnation,
                                                     van_sender(scheduler->van, link));
    return verdict == SENDER_ADMITTED || (verdict == SENDER_SCHEDULER && link.v == 0);
}

static void take_message(kv_scheduler *scheduler, link_id link, const control_message *message) {
    switch (message->kind) {
    case CONTROL_MESSAGE_SWAP: swap(scheduler, link, message); break;
    case CONTROL_REGISTER: give_number(scheduler, link, message); break;
    case CONTROL_LOOK: show(scheduler, link, message); break;
    case CONTROL_LEAVE: let_leave(scheduler, link, message); break;
    case CONTROL_SAVE: save(scheduler, link, message); break;
    case CONTROL_SURVEY: survey(scheduler, link, message); break;
    default:
        if (!control_server_take(scheduler->server, link, message) &&
            !catalog_server_take(scheduler->tables, link, message, van_now_us(scheduler->van)) &&
            !data_service_take(scheduler->data_service, link, message))
            (void)metadata_service_take(scheduler->service, link, message, van_now_us(scheduler->van));
    }
}

/* ---- Host of the van. */

static void hear(kv_scheduler *scheduler, span batch) {
    reader reader = reader_of(batch.data, batch.size);
    slot_message_head head;
    uint32_t count;
    if (slot_message_read_head(&reader, &head, &count) != MR_OK) return;
    if (head.who < SLOT_MESSAGE_RANK) {
        id_allocator_heard(&scheduler->servers, head.who, head.address, van_now_us(scheduler->van));
        if (drain_list_heard(&scheduler->list, head.who, head.incarnation))
            controller_retire(scheduler->controller, scheduler->list.numbers, scheduler->list.count);
    }
    if ((head.who & SLOT_MESSAGE_WORKER) == 0) return;
    uint32_t number = head.who & ~(uint32_t)SLOT_MESSAGE_WORKER;
    bool reads = number >= CLUSTER_MAP_READER;
    id_allocator_heard(reads ? &scheduler->readers : &scheduler->workers, reads ? number - CLUSTER_MAP_READER : number,
                       head.address, van_now_us(scheduler->van));
}

static void take(void *context, link_id link, span bytes, shared_bytes *shared) {
    kv_scheduler *scheduler = context;
    uint32_t magic = 0;
    control_message message;
    if (bytes.size >= sizeof magic) memcpy(&magic, bytes.data, sizeof magic);
    if (magic == SLOT_MESSAGE_MAGIC) {
        sender_verdict verdict = sender_table_judge(&scheduler->senders, bytes, van_sender(scheduler->van, link));
        if (verdict == SENDER_REFUSED || (verdict == SENDER_SCHEDULER && link.v != 0)) {
            van_refuse(scheduler->van, link, "a message that only another process may send");
            return;
        }
        hear(scheduler, bytes);
        controller_take(scheduler->controller, bytes, van_now_us(scheduler->van));
        checkpoint_thread_take(scheduler->thread, bytes, shared);
    } else if (control_message_decode(bytes, &message) != MR_OK || !may_send(scheduler, link, &message)) {
        van_refuse(scheduler->van, link, "malformed bytes, or a message that only another process may send");
    } else {
        take_message(scheduler, link, &message);
    }
}

static void broken(void *context, const char *address, bool silent) {
    kv_scheduler *scheduler = context;
    controller_broken(scheduler->controller, address, silent, van_now_us(scheduler->van));
    if (silent) return;
    control_server_broken(scheduler->server, address);
    id_allocator_broken(&scheduler->servers, address);
    id_allocator_broken(&scheduler->workers, address);
    id_allocator_broken(&scheduler->readers, address);
}

static int64_t next_us(void *context) {
    kv_scheduler *scheduler = context;
    int64_t next_us =
        clock_earlier_us(metadata_local_next_us(scheduler->local), metadata_service_next_us(scheduler->service));
    next_us = clock_earlier_us(next_us, controller_next_us(scheduler->controller));
    next_us = clock_earlier_us(next_us, control_server_next_us(scheduler->server));
    next_us = clock_earlier_us(next_us, data_service_next_us(scheduler->data_service));
    next_us = clock_earlier_us(next_us, scheduler->watch_us);
    next_us = clock_earlier_us(next_us, checkpoint_thread_next_us(scheduler->thread));
    if (scheduler->final.phase == FINAL_CHECKPOINT_WAITING)
        next_us = clock_earlier_us(next_us, scheduler->final.next_us);
    return clock_earlier_us(next_us, scheduler->mark_us);
}

static void tick(void *context, int64_t now_us) {
    kv_scheduler *scheduler = context;
    metadata_local_tick(scheduler->local, now_us);
    if (now_us >= metadata_service_next_us(scheduler->service)) metadata_service_tick(scheduler->service, now_us);
    if (now_us >= controller_next_us(scheduler->controller)) controller_tick(scheduler->controller, now_us);
    if (now_us >= control_server_next_us(scheduler->server)) control_server_tick(scheduler->server, now_us);
    if (now_us >= data_service_next_us(scheduler->data_service)) data_service_tick(scheduler->data_service, now_us);
    if (now_us >= scheduler->watch_us) watch(scheduler);
    if (now_us >= checkpoint_thread_next_us(scheduler->thread)) checkpoint_thread_tick(scheduler->thread);
    if (scheduler->final.phase == FINAL_CHECKPOINT_WAITING && now_us >= scheduler->final.next_us)
        tick_final(scheduler, now_us);
    if (now_us < scheduler->mark_us) return;
    scheduler->mark_us = now_us + scheduler->options.checkpoint_us;
    controller_checkpoint(scheduler->controller);
}

static void send_bytes(void *context, const char *address, span bytes) {
    kv_scheduler *scheduler = context;
    van_send(scheduler->van, address, bytes);
}

/* ---- Creation and end. */

_Static_assert((int)ID_ALLOCATOR_MAX <= (int)RANK_SET_MAX && 2 * (int)ID_ALLOCATOR_MAX <= (int)CLUSTER_MAP_RANKS_MAX,
               "all ranks can be in a round, and all readers have a place");

static bool has_rounds(const kv_scheduler_options *options) {
    return options->mixed || options->consistency.kind == CONSISTENCY_BSP;
}

static mr_status check_rounds(const kv_scheduler_options *options) {
    if (!has_rounds(options) && (options->backup != 0 || options->deadline_us != 0))
        return error_set(MR_INVALID, "a %s needs rounds: consistency bsp, or mixed_consistency (--mixed-consistency)",
                         options->backup != 0 ? "number of backup workers" : "deadline");
    if (options->backup >= options->rank_count)
        return error_set(MR_INVALID, "%u backup worker%s of %u: at least 1 worker must not be a backup",
                         options->backup, plural(options->backup), options->rank_count);
    if (options->deadline_us < 0 || options->deadline_us > UINT32_MAX)
        return error_set(MR_INVALID, "a deadline of %lld µs: expected 0 (none) to %lu", (long long)options->deadline_us,
                         (unsigned long)UINT32_MAX);
    return MR_OK;
}

static mr_status check(const kv_scheduler_options *options) {
    const uint32_t slots_max = (CLUSTER_MAP_SLOTS_MAX - 1) / (options->mixed ? 2 : 1);
    if (options->rank_count < 1 || options->rank_count > ID_ALLOCATOR_MAX)
        return error_set(MR_INVALID, "%u workers: expected 1 to %u", options->rank_count, ID_ALLOCATOR_MAX);
    if (options->reader_count > ID_ALLOCATOR_MAX)
        return error_set(MR_INVALID, "%u readers: expected 0 to %u", options->reader_count, ID_ALLOCATOR_MAX);
    if (options->table_slots > slots_max)
        return error_set(MR_INVALID, "%u slots: expected 1 to %u, or 0 for the default", options->table_slots,
                         slots_max);
    if (options->server_count < 1 || options->server_count > ID_ALLOCATOR_MAX)
        return error_set(MR_INVALID, "%u servers: expected 1 to %u", options->server_count, ID_ALLOCATOR_MAX);
    if (options->copies < 1 || options->copies > CLUSTER_MAP_COPIES_MAX || options->copies > options->server_count)
        return error_set(MR_INVALID, "%u replica%s of each slot: expected 1 to %u, and no more than servers (%u)",
                         options->copies, plural(options->copies), CLUSTER_MAP_COPIES_MAX, options->server_count);
    if (options->exact_checkpoints && options->mixed)
        return error_set(MR_INVALID,
                         "consistent_checkpoints (--consistent-checkpoints) are not possible with mixed_consistency");
    if (options->checkpoint_us < 0) return error_set(MR_INVALID, "the time between checkpoints is below 0");
    return check_rounds(options);
}

static mr_status folder_failed(const kv_scheduler *scheduler, mr_status status) {
    bool disk = status == MR_IO || status == MR_NOMEM || status == MR_DENIED;
    return error_wrap(
        status, disk ? "cannot begin in the folder '%s'; check its permissions and free space" : "the folder '%s'",
        scheduler->options.folder);
}

/* Locks the folder for this process, and converts a folder of release 0.1.0. */
static mr_status prepare_folder(kv_scheduler *scheduler) {
    const env *env = van_env(scheduler->van);
    mr_status status = disk_lock(env->disk, LOCK_FILE);
    if (status == MR_BUSY)
        return error_wrap(status, "another scheduler is in the folder '%s'; stop it, or begin in another folder",
                          scheduler->options.folder);
    MR_TRY(status);
    return sqlite_import(scheduler->options.folder, env->disk, scheduler->errors.below, env->rng);
}

static mr_status open_metadata(kv_scheduler *scheduler) {
    const env *env = van_env(scheduler->van);
    scheduler->file.disk = env->disk;
    scheduler->errors.below = metadata_file_storage(&scheduler->file);
    mr_status status = scheduler->options.env != NULL ? MR_OK : prepare_folder(scheduler);
    metadata_storage storage = storage_errors_storage(&scheduler->errors);
    if (status == MR_OK) status = metadata_db_open(storage, env->rng, van_now_us(scheduler->van), &scheduler->db);
    return status == MR_OK ? MR_OK : folder_failed(scheduler, status);
}

/* The first cluster map of a generation shows its cause. */
static void on_decided(void *context, const cluster_map *map) {
    if (!map->lost || map->number != map->birth) return;
    if (map->origin != 0)
        log_warn("the servers with all replicas of a slot died: all tables continue from checkpoint %llu",
                 (unsigned long long)map->origin);
    else
        log_warn("the servers with all replicas of a slot died, and there is no checkpoint: all tables are empty. Use "
                 "at least 2 replicas, or checkpoints");
}

/* Number of the cluster map that the last kv_scheduler_stop recorded; 0: none. */
static uint64_t stopped_map(const kv_scheduler *scheduler) {
    span value = metadata_db_value(scheduler->db, STOPPED_KEY);
    reader reader = reader_of(value.data, value.size);
    uint64_t number = reader_u64(&reader);
    return reader.failed ? 0 : number;
}

/* Tells all processes that wait for this deployment how it ended, and with what it can be continued. */
static void announce_stop(kv_scheduler *scheduler, const char *how) {
    uint64_t newest = checkpoint_thread_look_at(scheduler->thread).newest;
    char text[ERROR_TEXT_MAX];
    int size = snprintf(text, sizeof text, "its scheduler %.80s", how);
    if (newest != 0 && scheduler->options.final_us != 0)
        snprintf(text + size, sizeof text - (size_t)size, ", and checkpoint %llu is in %.120s",
                 (unsigned long long)newest, scheduler->folder);
    van_announce(scheduler->van, &(control_message){.kind = CONTROL_STOPPED,
                                                    .stamp = {.view = controller_map(scheduler->controller)->number},
                                                    .value = span_of(text, strlen(text))});
}

void kv_scheduler_stop(kv_scheduler *scheduler, const char *how) {
    uint64_t version, number = controller_map(scheduler->controller)->number;
    span value, key = span_of(STOPPED_KEY, strlen(STOPPED_KEY));
    metadata_db_get(scheduler->db, key, &version, &value);
    if (metadata_db_swap(scheduler->db, key, version, span_of(&number, sizeof number), 0) != MR_OK)
        log_warn("cannot record that this scheduler was stopped on purpose: %s", mr_last_error());
    announce_stop(scheduler, how);
}

static uint32_t slot_count(const kv_scheduler_options *options) {
    return options->table_slots * (options->mixed ? 2 : 1) + has_rounds(options);
}

static void begin_controller(kv_scheduler *scheduler) {
    const kv_scheduler_options *options = &scheduler->options;
    controller_options controller = {
        .address = van_address(scheduler->van),
        .checkpoints = scheduler->checkpoints_address,
        .pause_us = options->exact_checkpoints ? KV_SCHEDULER_PAUSE_US : 0,
        .hold_us = SILENCE_HOLD_US,
        .restores = true,
        .store = metadata_local_metadata(scheduler->local),
        .rng = van_env(scheduler->van)->rng,
        .consistency = options->consistency,
        .mixed = options->mixed,
        .rounds = {.backup = options->backup, .deadline_us = (uint32_t)options->deadline_us},
        .copies = options->copies,
        .rank_count = options->rank_count,
        .reader_count = options->reader_count,
        .slot_count = slot_count(options),
        .first_servers = options->server_count,
        .own_ranks = true,
        .stopped = stopped_map(scheduler),
        .balance = {options->balance_us, KV_SCHEDULER_LEAST, KV_SCHEDULER_READS},
        .send = send_bytes,
        .on_decided = on_decided,
        .on_checkpoint = on_checkpoint,
        .context = scheduler};
    scheduler->controller = controller_create(&controller, van_now_us(scheduler->van));
}

static void send_shared(void *context, const char *address, shared_bytes *message) {
    kv_scheduler *scheduler = context;
    van_send_pieces(scheduler->van, address, &(shared_bytes_piece){shared_bytes_bytes(message), message}, 1);
}

/* Logs errors of checkpoints: the first at once, later ones at intervals, since one error may occur many times per
 * second. */
static void on_trouble(void *context, const char *text) {
    kv_scheduler *scheduler = context;
    int64_t now_us = van_now_us(scheduler->van);
    bool good = text[0] == '\0';
    if (good && scheduler->troubled) log_warn("checkpoints in %s are written again", scheduler->folder);
    if (!good && (!scheduler->troubled || now_us - scheduler->trouble_us >= KV_SCHEDULER_TROUBLE_US)) {
        log_warn("cannot write checkpoints in %s: %s; training goes on without", scheduler->folder, text);
        scheduler->trouble_us = now_us;
    }
    scheduler->troubled = !good;
    if (good) return;
    scheduler->trouble_wall_us = clock_wall_us(van_env(scheduler->van)->clock);
    free(scheduler->trouble);
    scheduler->trouble = xstrdup(text);
}

static mr_status begin_checkpoints(kv_scheduler *scheduler) {
    static const checkpoint_thread_host host = {.send = send_shared, .on_trouble = on_trouble};
    checkpoint_thread_options checkpoint_thread = {
        .address = scheduler->checkpoints_address,
        .controller = van_address(scheduler->van),
        .disk = van_env(scheduler->van)->disk,
        .slot_count = slot_count(&scheduler->options),
        .exact = scheduler->options.exact_checkpoints,
        .written_us = checkpoint_list_written_us(scheduler->folder, CHECKPOINT_STORE_MANIFEST),
        .clock = van_env(scheduler->van)->clock};
    return checkpoint_thread_open(van_loop(scheduler->van), &checkpoint_thread, &host, scheduler, &scheduler->thread);
}

static uint64_t oldest(const void *context, uint64_t *version) {
    checkpoint_thread_look look = checkpoint_thread_look_at(((const kv_scheduler *)context)->thread);
    *version = look.oldest_version;
    return look.oldest;
}

static void begin_services(kv_scheduler *scheduler) {
    const kv_scheduler_options *options = &scheduler->options;
    scheduler->server =
        control_server_create(&(control_server_options){.van = scheduler->van,
                                                        .db = scheduler->db,
                                                        .rank_count = options->rank_count,
                                                        .server_count = options->server_count,
                                                        .rounds = options->consistency.kind == CONSISTENCY_BSP,
                                                        .controller = scheduler->controller,
                                                        .stall = scheduler->stall,
                                                        .stall_map = &scheduler->watched});
    scheduler->data_service =
        data_service_create(&(data_service_options){.van = scheduler->van,
                                                    .db = scheduler->db,
                                                    .store = metadata_local_metadata(scheduler->local),
                                                    .controller = scheduler->controller,
                                                    .oldest = oldest,
                                                    .context = scheduler});
}

/* Checks that this version reads the formats of the folder's files. */
static mr_status check_formats(const kv_scheduler *scheduler) {
    dataset_spec spec = {0};
    consumer_group group = {0};
    span data = metadata_db_value(scheduler->db, DATASET_SPEC_KEY),
         members = metadata_db_value(scheduler->db, CONSUMER_GROUP_KEY);
    mr_status status = data.size != 0 ? dataset_spec_decode(data, &spec) : MR_OK;
    if (status == MR_OK && members.size != 0) status = consumer_group_decode(members, &group);
    if (status == MR_OK && scheduler->options.env == NULL)
        status = checkpoint_store_check_folder(van_env(scheduler->van)->disk);
    dataset_spec_fini(&spec);
    consumer_group_fini(&group);
    return status == MR_OK ? MR_OK : error_wrap(status, "the folder '%s'", scheduler->options.folder);
}

/* Sets the number of slots, and changes that of the folder if another one was chosen. */
static mr_status set_slots(kv_scheduler *scheduler, const cluster_map *map) {
    kv_scheduler_options *options = &scheduler->options;
    const repartition_options change = {.folder = options->folder,
                                        .disk = van_env(scheduler->van)->disk,
                                        .db = scheduler->db,
                                        .catalog = catalog_log_tables(scheduler->catalog),
                                        .map = map,
                                        .rounds = options->consistency.kind == CONSISTENCY_BSP,
                                        .mixed = options->mixed,
                                        .stopped = map->number != 0 && stopped_map(scheduler) == map->number,
                                        .chosen = options->table_slots,
                                        .usual = KV_SCHEDULER_SLOTS};
    return repartition_folder(&change, &options->table_slots);
}

static mr_status check_options(const kv_scheduler_options *options, const cluster_map *map) {
    static const char *const names[] = {"asp", "ssp", "bsp"};
    consistency_kind kind = map->consistency.kind;
    if (map->number == 0 || (kind == options->consistency.kind && map->mixed == options->mixed)) return MR_OK;
    return error_set(MR_INVALID, "the deployment in %s is %s%s; it cannot become %s%s", options->folder, names[kind],
                     map->mixed ? ", mixed" : "", names[options->consistency.kind], options->mixed ? ", mixed" : "");
}

/* A file of release 0.2.0 is replaced here. */
static mr_status open_tables(kv_scheduler *scheduler) {
    mr_status status = catalog_log_open(van_env(scheduler->van)->disk, scheduler->db, &scheduler->catalog);
    return status == MR_OK ? MR_OK : error_wrap(status, "the folder '%s'", scheduler->options.folder);
}

/* Checks that the options equal those of the folder, opens the tables, and sets the number of slots, which determines
 * where keys are. */
static mr_status check_folder(kv_scheduler *scheduler) {
    kv_scheduler_options *options = &scheduler->options;
    span bytes = metadata_db_value(scheduler->db, CLUSTER_MAP_KEY);
    cluster_map map = {0};
    MR_TRY(check_formats(scheduler));
    mr_status status = bytes.size == 0 ? MR_OK : cluster_map_follow(&map, bytes);
    if (status != MR_OK) return error_wrap(status, "the folder '%s'", options->folder);
    status = check_options(options, &map);
    if (status == MR_OK) status = open_tables(scheduler);
    if (status == MR_OK) status = set_slots(scheduler, &map);
    cluster_map_fini(&map);
    return status;
}

/* With a tcp address: reads or creates the deployment's token, and leaves a copy for processes of the same user. */
static mr_status begin_token(kv_scheduler *scheduler) {
    const char *address = van_address(scheduler->van);
    token token;
    if (scheduler->options.env != NULL || strncmp(address, "tcp:", 4) != 0) return MR_OK;
    MR_TRY(token_obtain(scheduler->options.folder, &token));
    van_own_token(scheduler->van, &token);
    mr_status status = token_copy_create(address, &token, &scheduler->token_copy);
    explicit_bzero(&token, sizeof token);
    return status;
}

static mr_status begin(kv_scheduler *scheduler) {
    static const van_host host = {.take = take, .broken = broken, .next_us = next_us, .tick = tick};
    const kv_scheduler_options *options = &scheduler->options;
    van_options van_options = {.listen = options->listen, .folder = options->folder, .env = options->env};
    MR_TRY(van_open(&van_options, &host, scheduler, &scheduler->van));
    MR_TRY(open_metadata(scheduler));
    /* Former processes report before a number is assigned to another process, or a process is declared gone. */
    bool before = metadata_db_value(scheduler->db, CLUSTER_MAP_KEY).size != 0;
    MR_TRY(check_folder(scheduler));
    MR_TRY(begin_token(scheduler));
    scheduler->folder = realpath(options->folder, NULL); /* independent of the readers' working directories */
    if (scheduler->folder == NULL) scheduler->folder = xstrdup(options->folder);
    snprintf(scheduler->checkpoints_address, sizeof scheduler->checkpoints_address, "%s" CONTROL_CHECKPOINTS,
             van_address(scheduler->van));
    MR_TRY(begin_checkpoints(scheduler));
    scheduler->service = metadata_service_create(scheduler->db, van_answer_message, scheduler->van);
    scheduler->tables =
        catalog_server_create(scheduler->catalog, &(catalog_server_host){check_table, answer_process, scheduler});
    catalog_log_follow(scheduler->catalog, checkpoint_thread_name_table, scheduler->thread);
    scheduler->local = metadata_local_create(scheduler->db);
    begin_controller(scheduler);
    begin_services(scheduler);
    scheduler->settled_us = van_now_us(scheduler->van) + (before ? KV_SCHEDULER_SETTLE_US : 0);
    scheduler->watch_us = scheduler->settled_us;
    scheduler->mark_us = options->checkpoint_us == 0 ? CLOCK_NEVER_US : van_now_us(scheduler->van);
    return MR_OK;
}

mr_status kv_scheduler_open(const kv_scheduler_options *options, kv_scheduler **out) {
    MR_TRY(check(options));
    kv_scheduler *scheduler = xcalloc(1, sizeof *scheduler);
    scheduler->options = *options;
    if (options->env == NULL) scheduler->senders.seed = rng_system_seed();
    mr_status status = begin(scheduler);
    if (status == MR_OK)
        *out = scheduler;
    else
        kv_scheduler_close(scheduler);
    return status;
}

void kv_scheduler_close(kv_scheduler *scheduler) {
    if (scheduler == NULL) return;
    catalog_log_close(scheduler->catalog);
    catalog_server_destroy(scheduler->tables);
    checkpoint_thread_close(scheduler->thread);
    free(scheduler->trouble);
    free(scheduler->folder);
    if (scheduler->service != NULL) { /* the services were begun */
        metadata_local_destroy(scheduler->local);
        controller_destroy(scheduler->controller);
        control_server_destroy(scheduler->server);
        data_service_destroy(scheduler->data_service);
        metadata_service_destroy(scheduler->service);
    }
    sender_table_fini(&scheduler->senders);
    token_copy_remove(&scheduler->token_copy); /* before another scheduler can have the address */
    van_close(scheduler->van);
    if (scheduler->db != NULL) metadata_db_close(scheduler->db);
    free(scheduler);
}

control_server *kv_scheduler_control_server(const kv_scheduler *scheduler) { return scheduler->server; }
van *kv_scheduler_van(const kv_scheduler *scheduler) { return scheduler->van; }
