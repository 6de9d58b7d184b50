/* sight.c — requests to the scheduler from any process: mr_ps_cluster_map_get, mr_ps_processes_get,
 * mr_ps_overview_get, mr_ps_checkpoint (miniray/admin.h): queries to the scheduler.
 * Tested by tests/ps_status_test.c. */
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "kv/dmlc.h"
#include "kv/office/board.h"
#include "kv/office/overview.h"
#include "kv/postoffice.h"
#include "kv/worker/connection.h"
#include "miniray/admin.h"

_Static_assert((int)MR_PS_REPLICAS_MAX == (int)CHART_COPIES_MAX && (int)MR_PS_ADDRESS_MAX == (int)PART_ADDRESS_MAX,
               "the public limits are the internal ones");

typedef struct looker {
    van *van;
    const char *scheduler;
    uint8_t question; /* DESK_LOOK, DESK_PEEK, DESK_SURVEY, DESK_SAVE */
    uint64_t token;
    int64_t ask_us;
    bool heard, done;
    mr_ps_cluster_map *chart;
    mr_ps_processes *board;
    mr_ps_overview *overview;
    uint64_t checkpoint;
    char trouble[256]; /* why there is none yet; "": it is being made */
} looker;

static mr_ps_slot slot_of(const chart_slot *slot) {
    mr_ps_slot out = {
        .epoch = slot->epoch, .count = slot->count, .read_replicas = slot->more, .pinned_server = (int)slot->home - 1};
    for (size_t i = 0; i < slot->count; i++)
        out.replicas[i] = (mr_ps_replica){slot->chain[i].server, slot->chain[i].incarnation};
    return out;
}

static mr_ps_server server_of(const chart_server *server) {
    mr_ps_server out = {.number = server->id, .incarnation = server->incarnation};
    memcpy(out.address, server->address, sizeof out.address);
    return out;
}

static mr_ps_cluster_map *picture_of(const chart *chart, uint64_t checkpoint) {
    mr_ps_cluster_map *out = xcalloc(1, sizeof *out);
    *out = (mr_ps_cluster_map){.number = chart->number,
                               .generation = chart->generation,
                               .restored_from = chart->origin,
                               .checkpoint = checkpoint,
                               .info = connection_info(chart, 0),
                               .slots = xcalloc(chart->slot_count + 1, sizeof *out->slots),
                               .slot_count = chart->slot_count,
                               .servers = xcalloc(chart->server_count + 1, sizeof *out->servers),
                               .ranks = xcalloc(chart->rank_count + 1, sizeof *out->ranks)};
    for (uint32_t i = 0; i < chart->slot_count; i++) out->slots[i] = slot_of(&chart->slots[i]);
    for (uint32_t i = 0; i < chart->server_count; i++) out->servers[i] = server_of(&chart->servers[i]);
    for (uint32_t i = 0; i < chart->rank_count; i++)
        if (chart->players[i].since != 0)
            out->ranks[i] = (mr_ps_rank){chart->players[i].worker, chart->players[i].incarnation};
    return out;
}

static void take_chart(looker *looker, const letter *letter) {
    chart chart = {0};
    if (letter->value.size == 0 || chart_follow(&chart, letter->value) == MR_OK)
        looker->chart = picture_of(&chart, letter->stamp.view);
    looker->done = looker->chart != NULL;
    chart_fini(&chart);
}

static mr_ps_process process_of(const board_line *line) {
    const standing *now = &line->standing;
    mr_ps_process out = {.role = now->role,
                         .number = now->number,
                         .incarnation = now->incarnation,
                         .here = line->here,
                         .silent_us = line->silent_us,
                         .step = now->step,
                         .steps_second = line->rates.step,
                         .pushes = now->pushes,
                         .pulls = now->pulls,
                         .bytes_in = now->bytes_in,
                         .bytes_out = now->bytes_out,
                         .pushes_second = line->rates.pushes,
                         .pulls_second = line->rates.pulls,
                         .bytes_in_second = line->rates.bytes_in,
                         .bytes_out_second = line->rates.bytes_out,
                         .memory = now->memory,
                         .memory_max = now->memory_max,
                         .conflicts = now->disputes,
                         .metric_count = now->report_count};
    memcpy(out.address, now->address, sizeof out.address);
    for (uint32_t i = 0; i < now->report_count; i++) {
        const standing_report *report = &now->reports[i];
        out.metrics[i].value = report->value;
        out.metrics[i].rate = line->rates.reports[i];
        out.metrics[i].count = report->count;
        memcpy(out.metrics[i].key, report->key, sizeof out.metrics[i].key);
    }
    return out;
}

/* Page by page; the next one is asked for at once. */
static void take_page(looker *looker, const letter *letter) {
    mr_ps_processes *board = looker->board;
    board_reading reading;
    board_line line;
    if (letter->stamp.view != board->count || board_read(letter->value, &reading) != MR_OK) return;
    mr_status status;
    while ((status = board_next(&reading, &line)) == MR_OK) {
        board->processes = xrealloc(board->processes, (board->count + 1) * sizeof *board->processes);
        board->processes[board->count++] = process_of(&line);
    }
    looker->done = status == MR_END && board->count >= reading.total;
    looker->ask_us = 0;
}

static void take_saved(looker *looker, const letter *letter) {
    size_t size = letter->value.size < sizeof looker->trouble ? letter->value.size : sizeof looker->trouble - 1;
    memcpy(looker->trouble, letter->value.data, size);
    looker->trouble[size] = '\0';
    looker->checkpoint = letter->stamp.view;
    looker->done = looker->checkpoint != 0;
}

static void take(void *context, link_id link, span bytes, bale *bale) {
    looker *looker = context;
    letter letter;
    if (looker->done || letter_decode(bytes, &letter) != MR_OK || letter.stamp.id != looker->token) return;
    looker->heard = true;
    if (looker->question == DESK_SAVE && letter.kind == DESK_SAVED) take_saved(looker, &letter);
    if (looker->question == DESK_LOOK && letter.kind == DESK_SIGHT) take_chart(looker, &letter);
    if (looker->question == DESK_PEEK && letter.kind == DESK_BOARD) take_page(looker, &letter);
    if (looker->question == DESK_SURVEY && letter.kind == DESK_OVERVIEW)
        looker->done = overview_decode(letter.value, &looker->overview) == MR_OK;
}

static int64_t next_us(void *context) { return ((looker *)context)->ask_us; }

static void tick(void *context, int64_t now_us) {
    looker *looker = context;
    uint64_t from = looker->board == NULL ? 0 : looker->board->count;
    looker->ask_us = now_us + POSTOFFICE_ASK_US;
    van_send_letter(looker->van, looker->scheduler,
                    &(letter){.kind = looker->question, .stamp = {.view = from, .id = looker->token}});
}

/* Asks until it is answered. */
static mr_status look(looker *looker, const char *scheduler, int64_t timeout_us) {
    static const van_host host = {.take = take, .next_us = next_us, .tick = tick};
    char address[DMLC_ADDRESS_MAX];
    MR_TRY(dmlc_default(&scheduler, address));
    looker->scheduler = scheduler;
    looker->token = rng_system_seed();
    MR_TRY(van_check_address(looker->scheduler));
    MR_TRY(van_open(&(van_options){.listen = NULL}, &host, looker, &looker->van));
    int64_t until_us = clock_deadline_us(van_now_us(looker->van), timeout_us), left_us;
    while (!looker->done && (left_us = until_us - van_now_us(looker->van)) > 0)
        loop_run_once(van_loop(looker->van), left_us);
    van_close(looker->van);
    return looker->done ? MR_OK : error_set(MR_TIMEOUT, "no answer from the scheduler at %s", scheduler);
}

mr_status mr_ps_cluster_map_get(const char *scheduler, int64_t timeout_us, mr_ps_cluster_map **out) {
    looker looker = {.question = DESK_LOOK};
    MR_TRY(look(&looker, scheduler, timeout_us));
    *out = looker.chart;
    return MR_OK;
}

mr_status mr_ps_checkpoint(const char *scheduler, int64_t timeout_us, uint64_t *out) {
    looker looker = {.question = DESK_SAVE};
    mr_status status = look(&looker, scheduler, timeout_us);
    if (status == MR_OK) *out = looker.checkpoint;
    if (status != MR_TIMEOUT || !looker.heard) return status;
    if (looker.trouble[0] != '\0') return error_set(MR_TIMEOUT, "cannot make a checkpoint: %s", looker.trouble);
    return error_set(MR_TIMEOUT, "no checkpoint after %.1f s: it needs all servers, and in bsp the end of a step",
                     (double)timeout_us / 1e6);
}

mr_status mr_ps_processes_get(const char *scheduler, int64_t timeout_us, mr_ps_processes **out) {
    looker looker = {.question = DESK_PEEK, .board = xcalloc(1, sizeof *looker.board)};
    mr_status status = look(&looker, scheduler, timeout_us);
    if (status != MR_OK)
        mr_ps_processes_free(looker.board);
    else
        *out = looker.board;
    return status;
}

mr_status mr_ps_overview_get(const char *scheduler, int64_t timeout_us, mr_ps_overview **out) {
    looker looker = {.question = DESK_SURVEY};
    MR_TRY(look(&looker, scheduler, timeout_us));
    *out = looker.overview;
    return MR_OK;
}

void mr_ps_processes_free(mr_ps_processes *board) {
    if (board == NULL) return;
    free(board->processes);
    free(board);
}

void mr_ps_cluster_map_free(mr_ps_cluster_map *chart) {
    if (chart == NULL) return;
    free(chart->slots);
    free(chart->servers);
    free(chart->ranks);
    free(chart);
}
