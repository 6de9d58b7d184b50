/* sight.c — mr_ps_chart_get (miniray/ps.h): how things stand, as the scheduler sees it. */
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "kv/dmlc.h"
#include "kv/postoffice.h"
#include "miniray/ps.h"
#include "ps/chart.h"

_Static_assert((int)MR_PS_COPIES_MAX == (int)CHART_COPIES_MAX && (int)MR_PS_ADDRESS_MAX == (int)PART_ADDRESS_MAX,
               "the public limits are the internal ones");

typedef struct looker {
    van *van;
    const char *scheduler;
    uint64_t token;
    int64_t ask_us;
    mr_ps_chart *chart; /* NULL: not answered yet */
} looker;

static mr_ps_slot slot_of(const chart_slot *slot) {
    mr_ps_slot out = {.epoch = slot->epoch, .count = slot->count};
    for (size_t i = 0; i < slot->count; i++)
        out.copies[i] = (mr_ps_copy){slot->chain[i].server, slot->chain[i].incarnation};
    return out;
}

static mr_ps_server server_of(const chart_server *server) {
    mr_ps_server out = {.number = server->id, .incarnation = server->incarnation};
    memcpy(out.address, server->address, sizeof out.address);
    return out;
}

static mr_ps_chart *picture_of(const chart *chart, uint64_t checkpoint) {
    mr_ps_chart *out = xcalloc(1, sizeof *out);
    *out = (mr_ps_chart){.number = chart->number,
                         .generation = chart->generation,
                         .origin = chart->origin,
                         .checkpoint = checkpoint,
                         .info = {.ranks = chart->rank_count,
                                  .slots = chart_value_slots(chart),
                                  .servers = chart->server_count,
                                  .copies = chart->copies,
                                  .consistency = (mr_ps_consistency)chart->consistency.kind,
                                  .staleness = chart->consistency.bound},
                         .slots = xcalloc(chart->slot_count + 1, sizeof *out->slots),
                         .slot_count = chart->slot_count,
                         .servers = xcalloc(chart->server_count + 1, sizeof *out->servers),
                         .players = xcalloc(chart->rank_count + 1, sizeof *out->players)};
    for (uint32_t i = 0; i < chart->slot_count; i++) out->slots[i] = slot_of(&chart->slots[i]);
    for (uint32_t i = 0; i < chart->server_count; i++) out->servers[i] = server_of(&chart->servers[i]);
    for (uint32_t i = 0; i < chart->rank_count; i++)
        if (chart->players[i].since != 0)
            out->players[i] = (mr_ps_player){chart->players[i].worker, chart->players[i].incarnation};
    return out;
}

static void take(void *context, link_id link, span bytes, bale *bale) {
    looker *looker = context;
    letter letter;
    chart chart = {0};
    if (looker->chart != NULL || letter_decode(bytes, &letter) != MR_OK || letter.kind != DESK_SIGHT) return;
    if (letter.stamp.id != looker->token) return;
    if (letter.value.size == 0 || chart_follow(&chart, letter.value) == MR_OK)
        looker->chart = picture_of(&chart, letter.stamp.view);
    chart_fini(&chart);
}

static int64_t next_us(void *context) { return ((looker *)context)->ask_us; }

static void tick(void *context, int64_t now_us) {
    looker *looker = context;
    looker->ask_us = now_us + POSTOFFICE_ASK_US;
    van_send_letter(looker->van, looker->scheduler, &(letter){.kind = DESK_LOOK, .stamp = {.id = looker->token}});
}

mr_status mr_ps_chart_get(const char *scheduler, int64_t timeout_us, mr_ps_chart **out) {
    static const van_host host = {.take = take, .next_us = next_us, .tick = tick};
    char address[DMLC_ADDRESS_MAX];
    if (timeout_us < 0) return error_set(MR_INVALID, "a timeout is not negative: nothing waits for ever");
    MR_TRY(dmlc_default(&scheduler, address));
    looker looker = {.scheduler = scheduler, .token = rng_system_seed()};
    MR_TRY(van_check_address(looker.scheduler));
    MR_TRY(van_open(&(van_options){.listen = NULL}, &host, &looker, &looker.van));
    int64_t until_us = clock_deadline_us(van_now_us(looker.van), timeout_us), left_us;
    while (looker.chart == NULL && (left_us = until_us - van_now_us(looker.van)) > 0)
        loop_run_once(van_loop(looker.van), left_us);
    van_close(looker.van);
    if (looker.chart == NULL)
        return error_set(MR_TIMEOUT, "no scheduler answers at %s", scheduler != NULL ? scheduler : address);
    *out = looker.chart;
    return MR_OK;
}

void mr_ps_chart_free(mr_ps_chart *chart) {
    if (chart == NULL) return;
    free(chart->slots);
    free(chart->servers);
    free(chart->players);
    free(chart);
}
