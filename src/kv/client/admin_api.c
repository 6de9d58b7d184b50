/* admin_api.c — requests to the scheduler from any process: mr_ps_cluster_map_get, mr_ps_processes_get,
 * mr_ps_overview_get, mr_ps_checkpoint (miniray/admin.h).
 * Tested by tests/ps_status_test.c. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "kv/client/deployment_end.h"
#include "kv/client/ps_connection.h"
#include "kv/control/kv_process.h"
#include "kv/control/overview.h"
#include "kv/control/process_table.h"
#include "kv/dmlc_env.h"
#include "miniray/admin.h"
#include "net/socket/supervisor.h"

_Static_assert((int)MR_PS_REPLICAS_MAX == (int)CLUSTER_MAP_COPIES_MAX &&
                   (int)MR_PS_ADDRESS_MAX == (int)SLOT_MESSAGE_ADDRESS_MAX,
               "the public limits are the internal ones");

typedef struct looker {
    van *van;
    const char *scheduler;
    uint8_t question; /* CONTROL_LOOK, CONTROL_PEEK, CONTROL_SURVEY, CONTROL_SAVE */
    uint64_t token;
    int64_t ask_us;
    bool heard, done;
    deployment_end end;
    mr_ps_cluster_map *map;
    mr_ps_processes *process_table;
    mr_ps_overview *overview; /* owned; NULL: no page of it is here */
    uint64_t after;           /* last table of the pages that are here; 0: none */
    uint64_t checkpoint;
    char trouble[ERROR_TEXT_MAX]; /* why there is no answer yet; "": under way */
} looker;

static mr_ps_slot slot_of(const cluster_map_slot *slot) {
    mr_ps_slot out = {
        .epoch = slot->epoch, .count = slot->count, .read_replicas = slot->more, .pinned_server = (int)slot->home - 1};
    for (size_t i = 0; i < slot->count; i++)
        out.replicas[i] = (mr_ps_replica){slot->chain[i].server, slot->chain[i].incarnation};
    return out;
}

static mr_ps_server server_of(const cluster_map_server *server) {
    mr_ps_server out = {.number = server->id, .incarnation = server->incarnation};
    memcpy(out.address, server->address, sizeof out.address);
    return out;
}

static mr_ps_cluster_map *picture_of(const cluster_map *map, uint64_t checkpoint) {
    mr_ps_cluster_map *out = xcalloc(1, sizeof *out);
    *out = (mr_ps_cluster_map){.number = map->number,
                               .generation = map->generation,
                               .restored_from = map->origin,
                               .checkpoint = checkpoint,
                               .info = ps_connection_info(map, 0),
                               .slots = xcalloc(map->slot_count + 1, sizeof *out->slots),
                               .slot_count = map->slot_count,
                               .servers = xcalloc(map->server_count + 1, sizeof *out->servers),
                               .ranks = xcalloc(map->rank_count + 1, sizeof *out->ranks)};
    for (uint32_t i = 0; i < map->slot_count; i++) out->slots[i] = slot_of(&map->slots[i]);
    for (uint32_t i = 0; i < map->server_count; i++) out->servers[i] = server_of(&map->servers[i]);
    for (uint32_t i = 0; i < map->rank_count; i++)
        if (map->ranks[i].since != 0) out->ranks[i] = (mr_ps_rank){map->ranks[i].worker, map->ranks[i].incarnation};
    return out;
}

static void take_map(looker *looker, const control_message *message) {
    cluster_map map = {0};
    if (message->value.size == 0 || cluster_map_follow(&map, message->value) == MR_OK)
        looker->map = picture_of(&map, message->stamp.view);
    looker->done = looker->map != NULL;
    cluster_map_fini(&map);
}

static mr_ps_process process_of(const process_table_line *line) {
    const process_state *now = &line->state;
    mr_ps_process out = {.role = now->role,
                         .number = now->number,
                         .incarnation = now->incarnation,
                         .here = line->here,
                         .silent_us = line->silent_us,
                         .step = now->step,
                         .steps_second = line->rates.step,
                         .memory = now->memory,
                         .memory_max = now->memory_max,
                         .conflicts = now->disputes,
                         .metric_count = now->report_count,
#define X(name) .name = now->name, .name##_second = line->rates.name,
                         X(pushes) X(pulls) X(bytes_in) X(bytes_out)
#undef X
    };
    memcpy(out.address, now->address, sizeof out.address);
    for (uint32_t i = 0; i < now->report_count; i++) {
        const process_state_report *report = &now->reports[i];
        out.metrics[i].value = report->value;
        out.metrics[i].rate = line->rates.reports[i];
        out.metrics[i].count = report->count;
        memcpy(out.metrics[i].key, report->key, sizeof out.metrics[i].key);
    }
    return out;
}

/* The answer has pages; each page is requested when the previous one has arrived. */
static void take_page(looker *looker, const control_message *message) {
    mr_ps_processes *process_table = looker->process_table;
    process_table_reading reading;
    process_table_line line;
    if (message->stamp.view != process_table->count || process_table_read(message->value, &reading) != MR_OK) return;
    mr_status status;
    while ((status = process_table_next(&reading, &line)) == MR_OK) {
        process_table->processes =
            xrealloc(process_table->processes, (process_table->count + 1) * sizeof *process_table->processes);
        process_table->processes[process_table->count++] = process_of(&line);
    }
    looker->done = status == MR_END && process_table->count >= reading.total;
    looker->ask_us = 0;
}

/* Appends the tables of a page to those of the first one, and frees the page. */
static void append_tables(mr_ps_overview *all, mr_ps_overview *page) {
    all->tables = xrealloc(all->tables, (all->table_count + page->table_count + 1) * sizeof *all->tables);
    memcpy(all->tables + all->table_count, page->tables, page->table_count * sizeof *page->tables);
    all->table_count += page->table_count;
    mr_ps_overview_free(page);
}

/* The answer repeats the table after which the page begins. */
static void take_overview(looker *looker, const control_message *message) {
    mr_ps_overview *page;
    if (message->stamp.incarnation != looker->after || overview_decode(message->value, &page) != MR_OK) return;
    if (looker->overview == NULL)
        looker->overview = page;
    else
        append_tables(looker->overview, page);
    looker->done = message->stamp.view <= looker->after;
    looker->after = message->stamp.view;
    looker->ask_us = 0;
}

static void take_saved(looker *looker, const control_message *message) {
    span text = message->value;
    snprintf(looker->trouble, sizeof looker->trouble, "%.*s", (int)text.size, (const char *)text.data);
    looker->checkpoint = message->stamp.view;
    looker->done = looker->checkpoint != 0;
}

static void take(void *context, link_id link, span bytes, shared_bytes *shared) {
    looker *looker = context;
    control_message message;
    if (looker->done || control_message_decode(bytes, &message) != MR_OK) return;
    if (message.kind == CONTROL_STOPPED)
        deployment_end_take(&looker->end, van_messenger(looker->van), looker->scheduler, &message);
    if (message.stamp.id != looker->token) return;
    looker->heard = true;
    if (looker->question == CONTROL_SAVE && message.kind == CONTROL_SAVED) take_saved(looker, &message);
    if (looker->question == CONTROL_LOOK && message.kind == CONTROL_MAP_VIEW) take_map(looker, &message);
    if (looker->question == CONTROL_PEEK && message.kind == CONTROL_PROCESS_TABLE) take_page(looker, &message);
    if (looker->question == CONTROL_SURVEY && message.kind == CONTROL_OVERVIEW) take_overview(looker, &message);
}

static int64_t next_us(void *context) { return ((looker *)context)->ask_us; }

static void tick(void *context, int64_t now_us) {
    looker *looker = context;
    uint64_t from = looker->process_table == NULL ? looker->after : looker->process_table->count;
    looker->ask_us = now_us + KV_PROCESS_ASK_US;
    van_send_value(looker->van, looker->scheduler, looker->question,
                   (stamp){.view = from, .id = looker->token, .incarnation = from}, (span){0});
}

static const char *name_question(uint8_t question) {
    switch (question) {
    case CONTROL_LOOK: return "the question for the cluster map";
    case CONTROL_PEEK: return "the question for the processes";
    case CONTROL_SURVEY: return "the question for the tables";
    default: return "the checkpoint";
    }
}

/* Only the scheduler answers questions, so it alone need be gone. */
static mr_status check_end(const looker *looker, const supervisor_watch *supervisor) {
    mr_status status = deployment_end_check(&looker->end, van_messenger(looker->van), NULL);
    if (status == MR_OK) status = supervisor_watch_check(supervisor);
    return status == MR_OK ? MR_OK : error_wrap(status, "%s failed", name_question(looker->question));
}

/* Repeats the question until the scheduler answers. */
static mr_status look(looker *looker, const char *scheduler, int64_t timeout_us) {
    static const van_host host = {.take = take, .next_us = next_us, .tick = tick};
    char address[DMLC_ADDRESS_MAX];
    MR_TRY(dmlc_default(&scheduler, address));
    looker->scheduler = scheduler;
    looker->token = rng_system_seed();
    MR_TRY(van_check_address(looker->scheduler));
    MR_TRY(van_open(&(van_options){.scheduler = scheduler}, &host, looker, &looker->van));
    supervisor_watch *supervisor = supervisor_watch_open(van_loop(looker->van), looker->scheduler);
    int64_t until_us = clock_deadline_us(van_now_us(looker->van), timeout_us), left_us;
    mr_status status = MR_OK;
    while (!looker->done && (status = check_end(looker, supervisor)) == MR_OK &&
           (left_us = until_us - van_now_us(looker->van)) > 0)
        event_loop_run_once(van_loop(looker->van), left_us);
    if (!looker->done && status == MR_OK) {
        const char *trouble = van_trouble(looker->van, scheduler);
        status = error_set(MR_TIMEOUT, "no answer from the scheduler at %s%s%s", scheduler,
                           trouble[0] == '\0' ? "" : ": ", trouble);
    }
    supervisor_watch_close(supervisor);
    van_close(looker->van);
    return status;
}

mr_status mr_ps_cluster_map_get(const char *scheduler, int64_t timeout_us, mr_ps_cluster_map **out) {
    looker looker = {.question = CONTROL_LOOK};
    MR_TRY(look(&looker, scheduler, timeout_us));
    *out = looker.map;
    return MR_OK;
}

mr_status mr_ps_checkpoint(const char *scheduler, int64_t timeout_us, uint64_t *out) {
    looker looker = {.question = CONTROL_SAVE};
    mr_status status = look(&looker, scheduler, timeout_us);
    if (status == MR_OK) *out = looker.checkpoint;
    if (status != MR_TIMEOUT || !looker.heard) return status;
    if (looker.trouble[0] != '\0') return error_set(MR_TIMEOUT, "cannot make a checkpoint: %s", looker.trouble);
    return error_set(MR_TIMEOUT, "no checkpoint after %.1f s: it needs all servers", (double)timeout_us / 1e6);
}

mr_status mr_ps_processes_get(const char *scheduler, int64_t timeout_us, mr_ps_processes **out) {
    looker looker = {.question = CONTROL_PEEK, .process_table = xcalloc(1, sizeof *looker.process_table)};
    mr_status status = look(&looker, scheduler, timeout_us);
    if (status != MR_OK)
        mr_ps_processes_free(looker.process_table);
    else
        *out = looker.process_table;
    return status;
}

mr_status mr_ps_overview_get(const char *scheduler, int64_t timeout_us, mr_ps_overview **out) {
    looker looker = {.question = CONTROL_SURVEY};
    mr_status status = look(&looker, scheduler, timeout_us);
    if (status != MR_OK)
        mr_ps_overview_free(looker.overview);
    else
        *out = looker.overview;
    return status;
}

void mr_ps_processes_free(mr_ps_processes *process_table) {
    if (process_table == NULL) return;
    free(process_table->processes);
    free(process_table);
}

void mr_ps_cluster_map_free(mr_ps_cluster_map *map) {
    if (map == NULL) return;
    free(map->slots);
    free(map->servers);
    free(map->ranks);
    free(map);
}
