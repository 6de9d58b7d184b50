/* player.c — see player.h. */
#include "ps/player.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/clock.h"
#include "base/invariants.h"
#include "cluster/coordinator.h"
#include "ps/rest.h"

struct player {
    player_options options;
    char director[PART_ADDRESS_MAX];
    post *post;
    uint64_t incarnation;    /* 0: none yet */
    int64_t next_us, now_us; /* now_us: of the last tick */
    rest rest;
    bool said; /* that all its ranks stand, in this pause */
    uint64_t generation;
    uint32_t rank_count;
    uint64_t *stints; /* by rank, owned; 0: it does not play it */
};

static bool is_mine(const player *player, const chart_player *part) {
    return part->since != 0 && part->worker == player->options.worker && part->incarnation == player->incarnation;
}

/* Another generation may have another number of ranks. */
static void count_ranks(player *player, uint32_t rank_count) {
    if (player->rank_count == rank_count) return;
    player->stints = xrealloc(player->stints, (rank_count + 1) * sizeof *player->stints);
    for (uint32_t i = player->rank_count; i < rank_count; i++) player->stints[i] = 0;
    player->rank_count = rank_count;
}

/* All that ends, then all that begins. */
static void on_chart(void *context, const chart *chart) {
    player *player = context;
    const player_options *options = &player->options;
    if (player->generation != chart->generation) rest_forget(&player->rest);
    player->generation = chart->generation;
    for (uint32_t i = 0; i < player->rank_count; i++) {
        bool goes_on = i < chart->rank_count && player->stints[i] == chart->players[i].since;
        if (player->stints[i] == 0 || goes_on) continue;
        player->stints[i] = 0;
        options->on_end(options->context, i);
    }
    count_ranks(player, chart->rank_count);
    for (uint32_t i = 0; i < chart->rank_count; i++) {
        if (player->stints[i] != 0 || !is_mine(player, &chart->players[i])) continue;
        player->stints[i] = chart->players[i].since;
        options->on_begin(options->context, i, player->stints[i]);
    }
}

static bool plays(const player *player) {
    for (uint32_t i = 0; i < player->rank_count; i++)
        if (player->stints[i] != 0) return true;
    return false;
}

/* ---- Pauses. */

/* Says where its ranks stand; true: all of them do. */
static bool tell_ranks(player *player) {
    bool all = true;
    MR_ASSERT(player->options.stands != NULL && player->rest.number != 0);
    for (uint32_t i = 0; i < player->rank_count; i++) {
        uint64_t step = 0;
        if (player->stints[i] == 0) continue;
        bool still = player->options.stands(player->options.context, i, &step);
        all = all && still && rest_holds(&player->rest, step);
        post_add(player->post, player->director,
                 &(part){.kind = PART_PAUSED,
                         .status = still ? PART_OK : PART_LATER,
                         .rank = i,
                         .lsn = step,
                         .commit = player->stints[i],
                         .name = player->rest.number});
    }
    return all;
}

static void take_pause(player *player, const part *part) {
    if (player->options.stands == NULL) return;
    if (part->status == PART_GONE)
        rest_end(&player->rest, part->name);
    else if (rest_take(&player->rest, part->name, part->lsn, player->now_us))
        player->said = tell_ranks(player);
    else
        post_add(
            player->post, player->director,
            &(struct part){.kind = PART_PAUSED,
                           .status = PART_GONE,
                           .name = part->name,
                           .prev = player->rest.number > player->rest.over ? player->rest.number : player->rest.over});
}

bool player_rests(const player *player, uint64_t ended) { return rest_holds(&player->rest, ended); }

/* As long as not all stand it is asked again and again; whether they do is asked of the host, and costs little. */
void player_say(player *player) {
    if (player->rest.number == 0 || player->said) return;
    for (uint32_t i = 0; i < player->rank_count; i++) {
        uint64_t step = 0;
        if (player->stints[i] == 0) continue;
        if (!player->options.stands(player->options.context, i, &step) || !rest_holds(&player->rest, step)) return;
    }
    player->said = tell_ranks(player);
    post_flush(player->post);
}

/* ---- What comes. */

static void on_part(void *context, const part_head *from, const part *part, bale *bale) {
    player *player = context;
    const player_options *options = &player->options;
    bool later = coordinator_generation(part->name) > coordinator_generation(player->incarnation);
    if (part->kind == PART_PAUSE && from->who == PART_DIRECTOR) take_pause(player, part);
    if (part->kind == PART_REPLACED && from->who == PART_DIRECTOR && later && !plays(player) &&
        options->on_replaced != NULL)
        options->on_replaced(options->context, part->name);
}

player *player_create(const player_options *options) {
    MR_ASSERT(options->worker < PART_RANK && options->on_begin != NULL && options->on_end != NULL);
    MR_ASSERT(strlen(options->director) < PART_ADDRESS_MAX);
    player *player = xcalloc(1, sizeof *player);
    player->options = *options;
    strncpy(player->director, options->director, sizeof player->director - 1);
    post_host host = {.send = options->send,
                      .send_context = options->context,
                      .on_chart = on_chart,
                      .on_part = on_part,
                      .context = player,
                      .atlas = options->atlas};
    player->post = post_create(&host, PART_WORKER | options->worker, options->address);
    player->next_us = CLOCK_NEVER_US;
    return player;
}

void player_destroy(player *player) {
    post_destroy(player->post);
    free(player->stints);
    free(player);
}

void player_begin(player *player, uint64_t incarnation, int64_t now_us) {
    MR_ASSERT(incarnation > player->incarnation);
    player->incarnation = incarnation;
    post_set_incarnation(player->post, incarnation);
    player->next_us = player->now_us = now_us;
}

void player_take(player *player, span bytes) {
    if (player->incarnation != 0) post_take(player->post, bytes);
    CHECK_INVARIANTS(player->rank_count, player_check(player));
}

int64_t player_next_us(const player *player) { return player->next_us; }

void player_tick(player *player, int64_t now_us) {
    player->next_us = now_us + PLAYER_BEAT_US;
    player->now_us = now_us;
    rest_tick(&player->rest, now_us);
    player_say(player);
    post_add(player->post, player->director, NULL);
    post_flush(player->post);
    CHECK_INVARIANTS(player->rank_count, player_check(player));
}

const chart *player_chart(const player *player) { return post_chart(player->post); }

void player_check(const player *player) {
    const chart *chart = player_chart(player);
    MR_ASSERT(player->rank_count == chart->rank_count); /* 1 */
    for (uint32_t i = 0; i < player->rank_count; i++)
        MR_ASSERT(player->stints[i] == 0 || player->stints[i] == chart->players[i].since); /* 1 */
    MR_ASSERT(player->rest.number == 0 || player->rest.number > player->rest.over);        /* 2 */
}
