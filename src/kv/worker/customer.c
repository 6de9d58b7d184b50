/* customer.c — see customer.h. Tested by tests/ps_process_test.c. */
#include "kv/worker/customer.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/invariants.h"
#include "kv/worker/customer_core.h"
#include "net/shm/headroom.h"

#define CUSTOMER_SHOWN (UINT64_C(1) << 34) /* where nobody knows how much there is */

/* ---- Sending. */

/* An empty one says that a step is over, or that there is nothing to add to a round. */
static bool send_batch(customer *customer, chute *chute, batch *batch) {
    parcel_seal(&batch->parcel);
    bale *bale = batch->parcel.bale;
    span payload = parcel_written(&batch->parcel);
    rank_prefer(customer->rank, chute->slot, batch->priority);
    bale_piece tail = {0};
    if (batch->lease != NULL) tail = (bale_piece){batch->lease->bytes, &batch->lease->bale};
    if (rank_push_pieces(customer->rank, chute->slot, batch->name, payload, bale, tail) != MR_OK) return false;
    chute_sent(chute, batch);
    return true;
}

static void send_query(customer *customer, chute *chute, query *query) {
    rank_prefer(customer->rank, chute->slot, query->priority);
    span payload = parcel_written(&query->parcel);
    if (chute->holds)
        rank_pull(customer->rank, chute->slot, query->step, payload, query->parcel.bale);
    else
        rank_pull_behind(customer->rank, chute->slot, query->step, payload, query->parcel.bale);
    chute_asked(chute, query);
}

/* The ledger hears of the end of a step behind the slots without rounds: the rank looks after that, for what it has
 * (rank.h). */
static bool may_go(const customer *customer, const chute *chute, const batch *batch) {
    const chart *chart = customer_stage(customer);
    if (!chart->mixed || chute->slot != chart_ledger(chart)) return true;
    for (uint32_t i = 0; i < customer->slot_count; i++)
        if (!customer->chutes[i].holds && chute_owes(&customer->chutes[i], name_tick(batch->name))) return false;
    return true;
}

/* What the window of the rank does not take goes when something was acknowledged. */
static void send_chute(customer *customer, chute *chute) {
    batch *batch;
    query *query;
    list_remove(&chute->link);
    while ((batch = chute_next(chute)) != NULL && may_go(customer, chute, batch) && send_batch(customer, chute, batch))
        continue;
    if ((query = chute_next_query(chute)) != NULL) send_query(customer, chute, query);
}

void customer_fail_all(customer *customer, mr_status status) {
    for (uint32_t i = 0; i < customer->slot_count; i++) chute_fail(&customer->chutes[i], &customer->tickets, status);
}

size_t customer_under_way(const customer *customer) {
    size_t count = 0;
    for (uint32_t i = 0; i < customer->slot_count; i++) count += chute_count(&customer->chutes[i]);
    return count;
}

/* A round is over, as far as this rank goes, when all slots with rounds have acknowledged it. */
bool customer_rounds_rest(const customer *customer) {
    for (uint32_t i = 0; i < customer->slot_count; i++)
        if (customer->chutes[i].holds && chute_count(&customer->chutes[i]) != 0) return false;
    return true;
}

static void close_chutes(customer *customer) {
    for (uint32_t i = 0; i < customer->slot_count; i++) chute_fini(&customer->chutes[i]);
    free(customer->chutes);
    customer->chutes = NULL;
    customer->slot_count = 0;
}

/* What a slot had of this rank when the stint began is not sent again. In rounds it is: whether it counted is not
 * known. */
void customer_open_chutes(customer *customer, uint32_t slot_count) {
    close_chutes(customer);
    customer->generation++;
    customer->slot_count = slot_count;
    customer->chutes = xcalloc(slot_count, sizeof *customer->chutes);
    for (uint32_t i = 0; i < slot_count; i++) {
        bool rounds = chart_in_rounds(customer_stage(customer), i);
        chute_init(&customer->chutes[i], i, rounds);
        if (!rounds) customer->chutes[i].there = rank_clock(customer->rank, i);
    }
}

/* ---- The state of the rank. */

/* It is kept beside the scheduler's socket, unless the program says where. */
void customer_recall(customer *customer) {
    const char *scheduler = postoffice_scheduler(customer->postoffice);
    uint32_t rank = customer_rank(customer);
    if (!customer->kept_elsewhere && strncmp(scheduler, "unix:", 5) == 0) {
        char *path = xasprintf("%s.rank-%u", scheduler + 5, rank);
        memoir_keep(customer->coder.memoir, path);
        free(path);
        customer->kept_elsewhere = true;
    }
    memoir_begin(customer->coder.memoir, rank, rank_chart(customer->rank)->generation, customer_step(customer));
}

const coder *customer_coder(const customer *customer) { return &customer->coder; }

mr_status customer_keep(customer *customer, const char *folder) {
    if (memoir_look_at(customer->coder.memoir).bytes != 0 || customer_is_open(customer))
        return error_set(MR_BUSY, "mr_ps_set_state_dir must be called before the rank's first step");
    char *path = folder == NULL ? NULL : xasprintf("%s/rank-%u", folder, customer_rank(customer));
    memoir_keep(customer->coder.memoir, path);
    free(path);
    customer->kept_elsewhere = true;
    if (customer_is_ready(customer)) customer_recall(customer);
    return MR_OK;
}

/* ---- What the rank says. */

/* A round was over long ago when this came, and nobody knows with whom: not with this rank, if it came only once. */
static bool is_missed(const customer *customer, part_status status) {
    bool once = customer->ended_chart == customer_stage(customer)->number &&
                customer->ended_breaks == postoffice_breaks(customer->postoffice);
    return status == PART_MISSED || (status == PART_GONE && once);
}

static void on_pushed(void *context, uint32_t slot, uint64_t name, part_status status) {
    customer *customer = context;
    chute *chute = &customer->chutes[slot];
    if (chute->holds && !customer_stage(customer)->mixed && is_missed(customer, status))
        feed_miss(customer->feed, name - 1, name);
    if (chute_acknowledge(chute, &customer->tickets, name, status == PART_OK)) customer_wakes(customer, chute);
    if (customer_stage(customer)->mixed)
        customer_wakes(customer, &customer->chutes[chart_ledger(customer_stage(customer))]);
}

static void on_pulled(void *context, uint32_t slot, uint64_t version, uint64_t lsn, span values) {
    customer *customer = context;
    chute *chute = &customer->chutes[slot];
    uint64_t forgotten = chute->forgotten;
    if (chute_answer(chute, &customer->tickets, values)) customer_wakes(customer, chute);
    customer->coder.traffic.forgotten += chute->forgotten - forgotten;
}

static void send_bytes(void *context, const char *address, span bytes) {
    customer *customer = context;
    van_send(customer_van(customer), address, bytes);
}

static void send_pieces(void *context, const char *address, const bale_piece *pieces, size_t count) {
    customer *customer = context;
    van_send_pieces(customer_van(customer), address, pieces, count);
}

/* ---- What is seen of others, and by them. */

const char *customer_head(const customer *customer, uint32_t slot) {
    const chart *chart = rank_chart(customer->rank);
    const chart_slot *chain = &chart->slots[slot];
    const chart_server *head = chain->count == 0 ? NULL : chart_find(chart, chain->chain[0].server);
    return head == NULL ? NULL : head->address;
}

static const glass_view *see(void *context, uint64_t process) { return van_sight(customer_van(context), process); }

static const glass_view *see_own(void *context, uint64_t process) { return context; }

/* What lies in this process's memory goes along to a server that does not see it. */
static bale *carry(void *context, uint32_t slot, span payload, bool *afar) {
    customer *customer = context;
    if (!customer->lends || !afar_speaks(payload)) return NULL;
    van *van = customer_van(customer);
    const char *address = customer_head(customer, slot);
    bale *own = NULL;
    if (address == NULL) return NULL; /* it does not leave */
    *afar = van_is_seen(van, address);
    if (*afar) return NULL;
    glass_view view = glass_own_view(van_glass(van));
    const afar_sight sight = {see_own, &view};
    return afar_fetch(&sight, payload, &own) == MR_OK ? own : NULL;
}

/* ---- What the player says. */

static void on_begin(void *context, uint32_t number, uint64_t stint) {
    customer *customer = context;
    if (number != customer_rank(customer)) return;
    rank_options options = {.rank = number,
                            .address = van_address(customer_van(customer)),
                            .director = postoffice_scheduler(customer->postoffice),
                            .spread = RANK_HOT,
                            .send = send_bytes,
                            .send_pieces = send_pieces,
                            .carry = carry,
                            .on_ready = customer_on_ready,
                            .on_over = customer_on_over,
                            .on_pushed = on_pushed,
                            .on_pulled = on_pulled,
                            .on_round = customer_on_round,
                            .on_gone = customer_on_gone,
                            .on_ordered = customer_on_ordered,
                            .context = customer};
    kv_session_move(&customer->session, KV_SESSION_SYNCING);
    customer->rank = rank_create(&options);
    rank_begin(customer->rank, stint, van_now_us(customer_van(customer)));
    feed_begin(customer->feed, customer->incarnation, van_now_us(customer_van(customer)));
}

static void on_end(void *context, uint32_t number) {
    customer *customer = context;
    if (number != customer_rank(customer)) return;
    const chart *chart = player_chart(customer->player);
    const chart_player *now = number < chart->rank_count ? &chart->players[number] : NULL;
    bool replaced = now != NULL && now->since != 0 && now->incarnation != customer->incarnation;
    customer_interrupt(customer, chart, replaced ? KV_SESSION_REPLACED : KV_SESSION_WAITING);
    feed_end(customer->feed);
    rank_destroy(customer->rank);
    customer->rank = NULL;
}

/* For a checkpoint: has it ended its step? */
static bool stands(void *context, uint32_t number, uint64_t *step) {
    const customer *customer = context;
    *step = customer->session.step + customer_is_open(customer); /* counted from 1 */
    return customer_is_ready(customer) && !customer_is_open(customer) && customer_under_way(customer) == 0;
}

/* ---- As the postoffice's host. */

static void on_replaced(void *context, uint64_t incarnation) {
    postoffice_enrol_again(((customer *)context)->postoffice, incarnation);
}

static void on_full(void *context) { ((customer *)context)->crowded = true; }

static void on_here(void *context, uint64_t incarnation) {
    customer *customer = context;
    player_options options = {.worker = customer_rank(customer),
                              .address = van_address(customer_van(customer)),
                              .director = postoffice_scheduler(customer->postoffice),
                              .send = send_bytes,
                              .on_begin = on_begin,
                              .on_end = on_end,
                              .on_replaced = on_replaced,
                              .stands = stands,
                              .context = customer};
    customer->incarnation = incarnation;
    if (customer->player == NULL) {
        kv_session_move(&customer->session, KV_SESSION_WAITING);
        customer->player = player_create(&options);
    }
    player_begin(customer->player, incarnation, van_now_us(customer_van(customer)));
}

/* A player acts on what the director says, and on charts: on those that come, and on those that others do not have.
 * What servers answer to a rank, in the chart that both have, is nothing of that. */
static bool concerns_player(const customer *customer, span batch) {
    reader reader = reader_of(batch.data, batch.size);
    part_head head;
    uint32_t count;
    if (part_peek(&reader, &head, &count) != MR_OK) return false;
    const chart *chart = player_chart(customer->player);
    return head.who == PART_DIRECTOR || head.charts || head.number != chart->number ||
           head.generation != chart->generation;
}

static void take(void *context, span batch, bale *bale) {
    customer *customer = context;
    if (customer->player == NULL) return;
    if (concerns_player(customer, batch)) player_take(customer->player, batch);
    if (customer->rank != NULL) rank_take_bale(customer->rank, batch, bale);
    player_say(customer->player);
    customer_go_on(customer);
    CHECK_INVARIANTS(customer->slot_count, customer_check(customer));
}

static void take_letter(void *context, const letter *letter) {
    customer *customer = context;
    if (customer->feed != NULL) (void)feed_take(customer->feed, letter);
}

static int64_t next_us(void *context) {
    customer *customer = context;
    if (customer->player == NULL) return CLOCK_NEVER_US;
    int64_t next_us = player_next_us(customer->player), rank_us = CLOCK_NEVER_US;
    if (customer->rank != NULL) rank_us = rank_next_us(customer->rank);
    if (customer->feed != NULL && feed_next_us(customer->feed) < rank_us) rank_us = feed_next_us(customer->feed);
    return next_us < rank_us ? next_us : rank_us;
}

static void tick(void *context, int64_t now_us) {
    customer *customer = context;
    if (now_us >= player_next_us(customer->player)) player_tick(customer->player, now_us);
    if (customer->rank != NULL && now_us >= rank_next_us(customer->rank)) rank_tick(customer->rank, now_us);
    if (customer->feed != NULL && now_us >= feed_next_us(customer->feed)) feed_tick(customer->feed, now_us);
    customer_go_on(customer);
    CHECK_INVARIANTS(customer->slot_count, customer_check(customer));
}

static void describe(void *context, standing *standing) {
    customer *customer = context;
    const chart *chart = customer_chart(customer);
    standing->chart = chart->number;
    standing->generation = chart->generation;
    standing->first = customer->session.first;
    standing->step = customer_step(customer);
    standing->ready = customer_is_ready(customer);
}

void customer_ship(customer *customer) {
    while (!list_empty(&customer->eager)) send_chute(customer, container_of(customer->eager.next, chute, link));
    rank_flush(customer->rank);
}

static void flush(void *context) {
    customer *customer = context;
    if (!customer->dirty || customer->rank == NULL) return;
    customer->dirty = false;
    customer_ship(customer);
    CHECK_INVARIANTS(customer->slot_count, customer_check(customer));
}

/* ---- For its program. */

mr_status customer_open(const postoffice_options *options, customer **out) {
    static const postoffice_host host = {.on_here = on_here,
                                         .on_full = on_full,
                                         .take = take,
                                         .take_letter = take_letter,
                                         .flush = flush,
                                         .next_us = next_us,
                                         .tick = tick,
                                         .describe = describe};
    customer *customer = xcalloc(1, sizeof *customer);
    postoffice_options own = *options;
    uint64_t left = headroom_bytes();
    own.role = DESK_WORKER;
    own.shown = left == HEADROOM_UNKNOWN ? CUSTOMER_SHOWN : left;
    customer->sight = (afar_sight){see, customer};
    list_init(&customer->eager);
    tickets_init(&customer->tickets);
    coder_init(&customer->coder);
    lists_init(&customer->lists, CUSTOMER_LISTS);
    mr_status status = postoffice_open(&own, &host, customer, &customer->postoffice);
    if (status != MR_OK) {
        coder_fini(&customer->coder);
        lists_fini(&customer->lists);
        free(customer);
        return status;
    }
    *out = customer;
    return MR_OK;
}

void customer_close(customer *customer) {
    if (customer == NULL) return;
    customer_fail_all(customer, MR_CLOSED);
    if (customer->rank != NULL) rank_destroy(customer->rank);
    if (customer->player != NULL) player_destroy(customer->player);
    close_chutes(customer);
    postoffice_close(customer->postoffice);
    feed_destroy(customer->feed);
    tickets_fini(&customer->tickets);
    splitter_fini(&customer->splitter);
    coder_fini(&customer->coder);
    lists_fini(&customer->lists);
    free(customer->offsets);
    free(customer->drops);
    free(customer);
}

van *customer_van(const customer *customer) { return postoffice_van(customer->postoffice); }
office *customer_office(const customer *customer) { return postoffice_office(customer->postoffice); }
void customer_stir(customer *customer) { customer->dirty = true; }

arrivals_where customer_where(const customer *customer) {
    return (arrivals_where){
        .early = !customer->session.begun, .open = customer_is_open(customer), .step = customer_step(customer)};
}

coordinator customer_coordinator(const customer *customer) { return postoffice_coordinator(customer->postoffice); }
uint32_t customer_rank(const customer *customer) { return postoffice_number(customer->postoffice); }

const chart *customer_chart(const customer *customer) {
    static const chart none = {0};
    return customer->player == NULL ? &none : player_chart(customer->player);
}

void customer_join(customer *customer) { customer->session.joins = true; }

void customer_begin(customer *customer) {
    kv_session *session = &customer->session;
    session->begun = true;
    session->lost = false; /* the number of the step that begins tells the program */
    if (customer_is_ready(customer)) session->told = customer_stage(customer)->generation;
    if (customer_is_open(customer)) return;
    if (session->order == KV_SESSION_ORDER_LEFT && session->step >= session->order_round)
        kv_session_set_order(session, KV_SESSION_ORDER_NONE);
    session->wanted = true;
    if (customer->player != NULL) customer_go_on(customer);
    CHECK_INVARIANTS(customer->slot_count, customer_check(customer));
}

mr_status customer_ready(const customer *customer) {
    const char *scheduler = postoffice_scheduler(customer->postoffice);
    const chart *chart = customer_chart(customer);
    uint32_t rank = customer_rank(customer);
    if (customer_is_ready(customer)) return MR_OK;
    if (customer->session.state == KV_SESSION_REPLACED)
        return error_set(MR_EXISTS, "another process holds rank %u now", rank);
    if (customer->crowded && rank == POSTOFFICE_ANY)
        return error_set(MR_BUSY, "every rank at %s is held by another process", scheduler);
    if (!postoffice_heard(customer->postoffice))
        return error_set(MR_BUSY, "no answer from the scheduler at %s", scheduler);
    if (chart->number == 0) return error_set(MR_BUSY, "the scheduler at %s waits for servers", scheduler);
    if (rank >= chart->rank_count)
        return error_set(MR_NOT_FOUND, "no rank %u: there are %u, counted from 0", rank, chart->rank_count);
    if (customer->rank == NULL) return error_set(MR_BUSY, "rank %u is not assigned to this process yet", rank);
    return error_set(MR_BUSY, "the servers of some slots do not answer rank %u", rank);
}

mr_status customer_opened(const customer *customer) {
    if (customer_is_open(customer)) return MR_OK;
    MR_TRY(customer_ready(customer));
    unsigned long long step = customer_step(customer);
    if (customer->session.order == KV_SESSION_ORDER_JOINING)
        return error_set(MR_BUSY, "rank %u is not in round %llu, and has asked to join", customer_rank(customer), step);
    if (player_rests(customer->player, customer->session.step) && !chart_has_rounds(customer_stage(customer)))
        return error_set(MR_BUSY, "step %llu waits for a checkpoint, for which all ranks stop", step);
    uint32_t slot;
    if (rank_refused(customer->rank, &slot))
        return error_set(MR_BUSY, "step %llu cannot begin: the server of slot %u is out of memory" CUSTOMER_MORE_MEMORY,
                         step, slot);
    return error_set(MR_BUSY, "step %llu cannot begin: other ranks have not ended theirs, or servers do not answer",
                     step);
}

/* The step that comes behind all those of which any slot has a push of this rank. */
static uint64_t fresh_step(const customer *customer) {
    uint64_t newest = customer->session.step;
    for (uint32_t i = 0; i < customer->slot_count; i++) {
        uint64_t pushed = customer->chutes[i].holds ? 0 : name_step(rank_clock(customer->rank, i));
        if (pushed > newest) newest = pushed;
    }
    return newest;
}

mr_status customer_admit(customer *customer, bool pushes) {
    if (customer_is_open(customer)) return MR_OK;
    if (customer->session.begun && !customer->session.lost) return error_set(MR_STALE, "no step is open (mr_ps_begin)");
    if (customer->session.begun) return customer_say_lost(customer);
    MR_TRY(customer_ready(customer));
    if (chart_has_rounds(customer_stage(customer)) && !customer_stage(customer)->mixed)
        return error_set(MR_STALE, "no step is open: begin one first (mr_ps_begin); bsp tables are used in steps");
    if (customer->session.lost) return customer_say_lost(customer);
    if (!pushes) return MR_OK;
    if (!customer->session.wanted) customer_skip_to(customer, fresh_step(customer));
    customer->session.wanted = true;
    customer_go_on(customer);
    return customer_opened(customer);
}

mr_status customer_leave(customer *customer) {
    kv_session *session = &customer->session;
    MR_TRY(customer_ready(customer));
    if (!chart_has_rounds(customer_stage(customer)) || customer_stage(customer)->mixed)
        return error_set(MR_INVALID, "mr_ps_leave needs a deployment in which all tables are bsp");
    bool half = session->order == KV_SESSION_ORDER_LEFT && session->step < session->order_round;
    if (session->order == KV_SESSION_ORDER_LEAVING || half)
        return MR_OK; /* it was asked, and not waited for long enough */
    if (customer_is_open(customer))
        return error_set(MR_DENIED, "a step is open: end it before the rank leaves (mr_ps_end)");
    session->wanted = false;
    kv_session_set_order(session, KV_SESSION_ORDER_LEAVING);
    rank_order(customer->rank, TAPE_LEAVE);
    customer->dirty = true;
    CHECK_INVARIANTS(customer->slot_count, customer_check(customer));
    return MR_OK;
}

mr_status customer_left(const customer *customer, uint64_t *round) {
    switch (customer->session.order) {
    case KV_SESSION_ORDER_LEFT: *round = customer->session.order_round; return MR_OK;
    case KV_SESSION_ORDER_KEPT:
        return error_set(MR_DENIED, "rank %u is the last one in the rounds", customer_rank(customer));
    case KV_SESSION_ORDER_LOST:
        return error_set(MR_STALE,
                         "rank %u has not left the rounds: all replicas of a slot were lost first. The tables continue "
                         "from the newest checkpoint, or are empty if there is none; leave again",
                         customer_rank(customer));
    default: return error_set(MR_BUSY, "rank %u has asked to leave, without an answer yet", customer_rank(customer));
    }
}

uint64_t customer_step(const customer *customer) { return customer->session.step; }

/* That a table was dropped has no name of its own: a step that is played again may not say it. */
static void say_drops(const customer *customer, chute *chute) {
    for (uint32_t i = 0; i < customer->drop_count; i++) {
        parcel_room room;
        batch *batch = chute_gather(chute, 0);
        parcel_head head = {.table = customer->drops[i], .op = PARCEL_DROP};
        if (parcel_add(&batch->parcel, head, 0, &room) != MR_OK) return; /* servers keep what they have */
    }
}

/* The end of a step is heard by every slot, whatever else it got; in rounds it is what the step adds. To rounds that
 * this worker has not joined it adds nothing, later. */
mr_status customer_end(customer *customer) {
    if (!customer_is_open(customer)) return error_set(MR_STALE, "no step is open: begin one first (mr_ps_begin)");
    uint64_t step = customer->session.step + 1;
    memoir_end(customer->coder.memoir, step); /* before anybody hears of the end */
    for (uint32_t i = 0; i < customer->slot_count; i++) {
        chute *chute = &customer->chutes[i];
        uint64_t name = chute->holds ? step : name_tick(step);
        if (chute->holds && !customer_in_round(customer)) continue;
        if (!chute->holds && name <= chute->there) {
            chute_skip(chute, name);
            continue;
        }
        if (i != chart_ledger(customer_stage(customer))) say_drops(customer, chute);
        chute_close(chute, name);
        customer_wakes(customer, chute);
    }
    bool later = customer->session.joins && !customer_in_round(customer) && chart_has_rounds(customer_stage(customer));
    if (!later) customer->drop_count = 0;
    customer->ended_chart = customer_stage(customer)->number;
    customer->ended_breaks = postoffice_breaks(customer->postoffice);
    kv_session_end_step(&customer->session);
    customer_go_on(customer);
    CHECK_INVARIANTS(customer->slot_count, customer_check(customer));
    return MR_OK;
}

/* ---- What goes with a step. */

bool customer_eager(const customer *customer) { return customer->dirty; }

void customer_drop(customer *customer, uint32_t table) {
    memoir_drop(customer->coder.memoir, table);
    customer->drops = xrealloc(customer->drops, (customer->drop_count + 1) * sizeof *customer->drops);
    customer->drops[customer->drop_count++] = table;
    bool unstepped = customer_is_ready(customer) && !customer->session.begun && !customer->session.lost;
    if (unstepped && customer_admit(customer, true) == MR_OK && customer_end(customer) == MR_OK) return;
    error_clear(); /* slots are told with the next step that ends */
}
