/* bureau.c — see bureau.h. Tested by tests/ps_meeting_test.c. */
#include "kv/office/bureau.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/log.h"
#include "kv/office/arrival.h"
#include "kv/office/barriers.h"
#include "kv/office/desk.h"

enum { WAITERS_MAX = 4096 };

typedef struct waiter { /* who has come to a barrier, as it said last */
    uint32_t rank;
    link_id link;
    arrival_word word;
} waiter;

struct bureau {
    bureau_options options;
    board board;
    stocks stocks;
    barriers barriers;
    notes *notes;
    standing self;
    waiter *waiters; /* owned */
    size_t waiter_count, waiter_room;
    int64_t stand_us; /* when it notes that it is here */
};

static const chart *chart_of(const bureau *bureau) { return bureau->options.chart(bureau->options.context); }
static int64_t now_of(const bureau *bureau) { return van_now_us(bureau->options.van); }

static void send_letter(void *context, const char *address, const letter *letter) {
    van_send_letter(((bureau *)context)->options.van, address, letter);
}

/* ---- Barriers. */

/* What has opened, as the keeper has it. Of another number of ranks, or damaged: nothing has. */
static void recall(bureau *bureau) {
    const bureau_options *options = &bureau->options;
    span value = keeper_value(options->keeper, BARRIERS_KEY);
    barriers_fini(&bureau->barriers);
    barriers_init(&bureau->barriers, options->rank_count, options->rounds);
    if (value.size != 0 && barriers_decode(value, &bureau->barriers) != MR_OK) log_error("%s", mr_last_error());
}

static mr_status write_down(bureau *bureau) {
    uint64_t version;
    span before, key = span_of(BARRIERS_KEY, strlen(BARRIERS_KEY));
    size_t size = barriers_size(&bureau->barriers);
    uint8_t *bytes = xmalloc(size);
    writer writer = writer_of(bytes, size);
    barriers_encode(&bureau->barriers, &writer);
    keeper_get(bureau->options.keeper, key, &version, &before);
    mr_status status = keeper_swap(bureau->options.keeper, key, version, span_of(bytes, size), 0);
    free(bytes);
    return status;
}

static void pass(bureau *bureau, const waiter *waiter, const arrival_verdict *verdict) {
    uint8_t bytes[ARRIVAL_VERDICT_MAX];
    letter letter = {.kind = DESK_PASS,
                     .stamp = {.view = chart_of(bureau)->number, .id = waiter->word.token},
                     .value = span_of(bytes, arrival_verdict_encode(verdict, bytes))};
    van_answer_letter(bureau->options.van, waiter->link, &letter);
}

static bool is_full(const chart *chart) {
    if (chart->number == 0) return false;
    for (uint32_t i = 0; i < chart->slot_count; i++)
        if (chart->slots[i].count < chart->copies) return false;
    return true;
}

static arrival_verdict servers_verdict(const bureau *bureau) {
    arrival_verdict verdict = {.status = MR_OK, .role = MR_PS_SERVERS};
    uint32_t here = board_servers_here(&bureau->board, now_of(bureau));
    for (uint32_t i = 0; here < bureau->options.server_count && i < bureau->options.server_count; i++) {
        const board_row *row = board_find(&bureau->board, MR_PS_SERVERS, i);
        if (row != NULL && board_is_here(row, now_of(bureau))) continue;
        if (verdict.named < ARRIVAL_NAMED) verdict.numbers[verdict.named++] = i;
        verdict.missing++;
    }
    if (here < bureau->options.server_count || !is_full(chart_of(bureau))) verdict.status = MR_BUSY;
    return verdict;
}

static arrival_verdict ranks_verdict(bureau *bureau, const waiter *waiter, bool *opens) {
    const arrival_word *word = &waiter->word;
    arrival_verdict verdict = {.role = MR_PS_WORKERS};
    verdict.status = barriers_come(&bureau->barriers, waiter->rank, word->name, word->early, word->place, opens);
    if (verdict.status != MR_BUSY) return verdict;
    size_t count = barriers_missing(&bureau->barriers, word->name, word->early, verdict.numbers, ARRIVAL_NAMED);
    verdict.missing = (uint32_t)count;
    verdict.named = count < ARRIVAL_NAMED ? (uint32_t)count : ARRIVAL_NAMED;
    return verdict;
}

/* How it is for one who has come; *opens: a round that is not written down yet. */
static arrival_verdict judge(bureau *bureau, const waiter *waiter, bool *opens) {
    arrival_verdict verdict = {.status = MR_OK, .role = MR_PS_WORKERS};
    *opens = false;
    if ((waiter->word.group & MR_PS_WORKERS) != 0) verdict = ranks_verdict(bureau, waiter, opens);
    if (verdict.status == MR_OK && (waiter->word.group & MR_PS_SERVERS) != 0) verdict = servers_verdict(bureau);
    return verdict;
}

/* All who wait, now that something has changed; those who may go on are told. */
static void release(bureau *bureau) {
    for (size_t i = bureau->waiter_count; i-- > 0;) {
        bool opens;
        waiter waiter = bureau->waiters[i];
        arrival_verdict verdict = judge(bureau, &waiter, &opens);
        if (verdict.status != MR_OK || opens) continue;
        pass(bureau, &waiter, &verdict);
        bureau->waiters[i] = bureau->waiters[--bureau->waiter_count];
    }
}

static void remember_waiter(bureau *bureau, const waiter *waiter) {
    size_t at = 0;
    while (at < bureau->waiter_count &&
           (bureau->waiters[at].rank != waiter->rank || strcmp(bureau->waiters[at].word.name, waiter->word.name) != 0))
        at++;
    if (at == WAITERS_MAX) return; /* it comes again */
    xgrow(&bureau->waiters, &bureau->waiter_room, at + 1, sizeof *bureau->waiters);
    bureau->waiters[at] = *waiter;
    if (at == bureau->waiter_count) bureau->waiter_count++;
}

static void take_come(bureau *bureau, link_id link, const letter *letter) {
    waiter waiter = {.rank = (uint32_t)letter->stamp.id, .link = link};
    const chart *chart = chart_of(bureau);
    bool opens;
    if (arrival_word_decode(letter->value, &waiter.word) != MR_OK || letter->stamp.id >= bureau->options.rank_count)
        return;
    if (chart->number < letter->stamp.view || chart->generation != waiter.word.generation) return; /* not yet */
    barriers_begin(&bureau->barriers, chart->generation);
    barriers_resume(&bureau->barriers, waiter.rank, waiter.word.generation, waiter.word.first);
    arrival_verdict verdict = judge(bureau, &waiter, &opens);
    if (opens && write_down(bureau) != MR_OK) {
        log_error("cannot store that barrier '%s' opened: %s", waiter.word.name, mr_last_error());
        recall(bureau);
        return;
    }
    pass(bureau, &waiter, &verdict);
    if (verdict.status == MR_BUSY) remember_waiter(bureau, &waiter);
    if (opens) release(bureau);
}

/* ---- The board. */

static void take_stock(bureau *bureau, const letter *letter) {
    stock stock;
    if (letter->stamp.id >= CHART_SERVERS_MAX || stock_decode(letter->value, &stock) != MR_OK) return;
    stocks_take(&bureau->stocks, (uint32_t)letter->stamp.id, letter->stamp.incarnation, &stock);
}

static void tell_awaited(bureau *bureau, link_id link, const letter *here) {
    uint64_t chart;
    const char *text = bureau->options.awaited(bureau->options.context, &chart);
    if (text[0] != '\0')
        van_answer_letter(bureau->options.van, link,
                          &(letter){.kind = DESK_AWAIT,
                                    .stamp = {.view = chart, .id = here->stamp.id},
                                    .value = span_of(text, strlen(text))});
}

static void take_here(bureau *bureau, link_id link, const letter *letter) {
    standing standing;
    const chart *chart = chart_of(bureau);
    if (standing_decode(letter->value, &standing) != MR_OK || letter->stamp.id > UINT32_MAX) return;
    if (letter->stamp.incarnation == 0) return;
    if (standing.role == MR_PS_WORKERS ? letter->stamp.id >= CHART_RANKS_MAX : letter->stamp.id >= CHART_SERVERS_MAX)
        return;
    if (standing.role == MR_PS_SCHEDULER) return; /* that is this one */
    standing.number = (uint32_t)letter->stamp.id;
    standing.incarnation = letter->stamp.incarnation;
    standing.chart = letter->stamp.view;
    board_take(&bureau->board, &standing, now_of(bureau));
    if (standing.role == MR_PS_WORKERS) tell_awaited(bureau, link, letter);
    if (standing.role != MR_PS_WORKERS || !standing.ready || chart->number == 0) return;
    barriers_begin(&bureau->barriers, chart->generation);
    barriers_resume(&bureau->barriers, standing.number, standing.generation, standing.first);
}

static void show_page(bureau *bureau, link_id link, const letter *question) {
    size_t size, from = question->stamp.view < SIZE_MAX ? (size_t)question->stamp.view : SIZE_MAX;
    uint8_t *page = board_page(&bureau->board, from, now_of(bureau), &size);
    van_answer_letter(bureau->options.van, link,
                      &(letter){.kind = DESK_BOARD, .stamp = question->stamp, .value = span_of(page, size)});
    free(page);
}

static void show_list(bureau *bureau, link_id link, const letter *question) {
    size_t size;
    uint8_t role = question->stamp.view <= MR_PS_ALL ? (uint8_t)question->stamp.view : 0;
    uint32_t number = question->stamp.id <= UINT32_MAX ? (uint32_t)question->stamp.id : 0;
    uint8_t *list = board_list(&bureau->board, role, number, now_of(bureau), &size);
    van_answer_letter(bureau->options.van, link,
                      &(letter){.kind = DESK_THOSE, .stamp = question->stamp, .value = span_of(list, size)});
    free(list);
}

/* ---- As the scheduler's. */

bool bureau_take(bureau *bureau, link_id link, const letter *letter) {
    switch (letter->kind) {
    case DESK_HERE: take_here(bureau, link, letter); return true;
    case DESK_STOCK: take_stock(bureau, letter); return true;
    case DESK_COME: take_come(bureau, link, letter); return true;
    case DESK_PEEK: show_page(bureau, link, letter); return true;
    case DESK_WHO: show_list(bureau, link, letter); return true;
    default: break;
    }
    notes_chart(bureau->notes, chart_of(bureau)->number);
    if (!notes_take(bureau->notes, letter, now_of(bureau))) return false;
    notes_call_handlers(bureau->notes);
    return true;
}

void bureau_broken(bureau *bureau, const char *address) { board_broken(&bureau->board, address, now_of(bureau)); }

int64_t bureau_next_us(const bureau *bureau) {
    return clock_earlier_us(bureau->stand_us, notes_next_us(bureau->notes));
}

/* What servers do changes without anybody coming, so those who wait for them are looked after now and then. */
void bureau_tick(bureau *bureau, int64_t now_us) {
    if (now_us >= notes_next_us(bureau->notes)) notes_tick(bureau->notes, now_us);
    if (now_us < bureau->stand_us) return;
    bureau->stand_us = now_us + STANDING_US;
    bureau->self.chart = chart_of(bureau)->number;
    board_take(&bureau->board, &bureau->self, now_us);
    release(bureau);
}

bureau *bureau_create(const bureau_options *options) {
    bureau *bureau = xcalloc(1, sizeof *bureau);
    bureau->options = *options;
    bureau->self.role = MR_PS_SCHEDULER;
    bureau->self.incarnation =
        (uint64_t)now_of(bureau) << 16 | (rng_next(van_env(options->van)->rng) & 0xffff); /* grows */
    snprintf(bureau->self.address, sizeof bureau->self.address, "%s", van_address(options->van));
    barriers_init(&bureau->barriers, options->rank_count, options->rounds);
    recall(bureau);
    bureau->notes = notes_create(&(notes_options){.role = MR_PS_SCHEDULER,
                                                  .address = bureau->self.address,
                                                  .scheduler = bureau->self.address,
                                                  .standing = &bureau->self,
                                                  .send = send_letter,
                                                  .context = bureau});
    notes_begin(bureau->notes, 0, bureau->self.incarnation, now_of(bureau));
    bureau->stand_us = now_of(bureau);
    return bureau;
}

void bureau_destroy(bureau *bureau) {
    if (bureau == NULL) return;
    notes_destroy(bureau->notes);
    barriers_fini(&bureau->barriers);
    board_fini(&bureau->board);
    stocks_fini(&bureau->stocks);
    free(bureau->waiters);
    free(bureau);
}

notes *bureau_notes(bureau *bureau) { return bureau->notes; }
const board *bureau_board(const bureau *bureau) { return &bureau->board; }
const stocks *bureau_stocks(const bureau *bureau) { return &bureau->stocks; }
