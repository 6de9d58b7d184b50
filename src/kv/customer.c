/* customer.c — see customer.h. */
#include "kv/customer.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/error.h"
#include "base/list.h"
#include "base/map.h"
#include "ps/player.h"
#include "ps/rank.h"
#include "ps/server.h"

_Static_assert(CUSTOMER_FLOATS_MAX * sizeof(float) == SERVER_PUSH_MAX, "a slot is what a push may be");

typedef struct request {
    list of_lane;    /* queued or sent; in neither: it is over */
    uint64_t ticket; /* 0: nobody asks after it */
    uint32_t slot;
    bool pulls;
    uint64_t name; /* of a push */
    span payload;  /* borrowed */
    float *to;     /* borrowed */
    size_t room;
    mr_status status; /* MR_BUSY: it is not over */
} request;

typedef struct lane { /* the requests of one slot, in their order */
    list queued;
    list sent;        /* pushes that are not acknowledged */
    request *pulling; /* the pull that was asked */
    uint32_t parts;   /* pushes of this step */
} lane;

struct customer {
    postoffice *postoffice;
    uint64_t incarnation;
    player *player; /* NULL: it is not here yet */
    rank *rank;     /* NULL: it plays none */
    bool ready, opening, asked, open, deposed, out, dirty;
    uint64_t step; /* BSP: the version; else from 1 */
    uint32_t slot_count;
    lane *lanes; /* by slot, owned */
    size_t under_way;
    map requests; /* ticket → request, owned */
    uint64_t tickets;
};

static bool in_rounds(const customer *customer) {
    return player_chart(customer->player)->consistency.kind == CONSISTENCY_BSP;
}

static void touched(customer *customer) { customer->dirty = true; }

/* ---- Requests. */

static void finish(customer *customer, request *request, mr_status status) {
    list_remove(&request->of_lane);
    request->status = status;
    customer->under_way--;
    if (request->ticket == 0) free(request);
}

/* The last name of a step: an empty push to every slot, which it has to hear of whatever else it gets. */
static uint64_t name_now(const customer *customer, const lane *lane, bool ends) {
    if (in_rounds(customer)) return customer->step + 1;
    return ends ? name_tick(customer->step) : name_of(customer->step, lane->parts);
}

static bool issue_push(customer *customer, lane *lane, request *request) {
    if (rank_push(customer->rank, request->slot, request->name, request->payload) != MR_OK) return false;
    list_remove(&request->of_lane);
    list_push_back(&lane->sent, &request->of_lane);
    return true;
}

static bool issue_pull(customer *customer, lane *lane, request *request) {
    bool rounds = in_rounds(customer);
    if (lane->pulling != NULL || (!rounds && !list_empty(&lane->sent))) return false;
    lane->pulling = request;
    list_remove(&request->of_lane);
    rank_pull(customer->rank, request->slot, rounds ? customer->step : customer->step - 1, (span){0}, NULL);
    return true;
}

/* As many as may go, in their order. */
static void issue(customer *customer, uint32_t slot) {
    lane *lane = &customer->lanes[slot];
    while (!list_empty(&lane->queued)) {
        request *request = container_of(lane->queued.next, struct request, of_lane);
        if (request->pulls ? !issue_pull(customer, lane, request) : !issue_push(customer, lane, request)) return;
        touched(customer);
    }
}

static request *add(customer *customer, uint32_t slot, bool asks) {
    request *request = xcalloc(1, sizeof *request);
    list_init(&request->of_lane);
    request->slot = slot;
    request->status = MR_BUSY;
    if (asks) {
        request->ticket = ++customer->tickets;
        map_put(&customer->requests, request->ticket, request);
    }
    list_push_back(&customer->lanes[slot].queued, &request->of_lane);
    customer->under_way++;
    return request;
}

static void fail_all(customer *customer, mr_status status) {
    for (uint32_t i = 0; i < customer->slot_count; i++) {
        lane *lane = &customer->lanes[i];
        if (lane->pulling != NULL) finish(customer, lane->pulling, status);
        lane->pulling = NULL;
        while (!list_empty(&lane->sent)) finish(customer, container_of(lane->sent.next, request, of_lane), status);
        while (!list_empty(&lane->queued)) finish(customer, container_of(lane->queued.next, request, of_lane), status);
    }
    MR_ASSERT(customer->under_way == 0);
}

/* ---- Steps. */

/* Whatever was known of the table is not true any more. */
static void forget_step(customer *customer) {
    fail_all(customer, MR_STALE);
    customer->ready = customer->asked = customer->open = customer->out = false;
}

static void open_lanes(customer *customer, uint32_t slot_count) {
    free(customer->lanes);
    customer->slot_count = slot_count;
    customer->lanes = xcalloc(slot_count + 1, sizeof *customer->lanes);
    for (uint32_t i = 0; i < slot_count; i++) {
        list_init(&customer->lanes[i].queued);
        list_init(&customer->lanes[i].sent);
    }
}

static void open_step(customer *customer) {
    customer->opening = customer->asked = false;
    customer->open = true;
    for (uint32_t i = 0; i < customer->slot_count; i++) customer->lanes[i].parts = 0;
}

/* Begins the step that is wanted as soon as it can be begun. */
static void pump(customer *customer) {
    if (!customer->opening || !customer->ready || customer->asked) return;
    if (!in_rounds(customer)) {
        open_step(customer);
    } else if (customer->under_way == 0) {
        customer->asked = true;
        rank_pull(customer->rank, chart_ledger(rank_chart(customer->rank)), customer->step, (span){0}, NULL);
        touched(customer);
    }
}

/* ---- What the rank says. */

static void on_ready(void *context) {
    customer *customer = context;
    const chart *chart = rank_chart(customer->rank);
    uint64_t lowest = UINT64_MAX;
    open_lanes(customer, chart->slot_count);
    for (uint32_t i = 0; i < chart->slot_count; i++) {
        uint64_t here =
            in_rounds(customer) ? rank_version(customer->rank, i) : name_ended(rank_clock(customer->rank, i)) + 1;
        if (here < lowest) lowest = here;
    }
    customer->step = lowest;
    customer->ready = true;
}

static void on_over(void *context) { forget_step(context); }

static void on_pushed(void *context, uint32_t slot, uint64_t name, part_status status) {
    customer *customer = context;
    lane *lane = &customer->lanes[slot];
    list_for_each (item, &lane->sent) {
        request *request = container_of(item, struct request, of_lane);
        if (request->name != name) continue;
        finish(customer, request, MR_OK);
        break;
    }
    issue(customer, slot);
}

static void on_pulled(void *context, uint32_t slot, uint64_t version, uint64_t lsn, span values) {
    customer *customer = context;
    lane *lane = &customer->lanes[slot];
    request *request = lane->pulling;
    if (request == NULL) return;
    size_t size = request->room * sizeof(float), got = values.size < size ? values.size : size;
    if (got != 0) memcpy(request->to, values.data, got);
    if (size > got) memset((uint8_t *)request->to + got, 0, size - got);
    lane->pulling = NULL;
    finish(customer, request, MR_OK);
    issue(customer, slot);
}

static void on_same(void *context, uint32_t slot, uint64_t lsn) {} /* nobody asks for newer ones only */

static void on_round(void *context, const ledger_terms *terms) {
    customer *customer = context;
    if (!customer->asked) return;
    customer->out = !crowd_has(&terms->members, customer_rank(customer));
    if (!customer->out) open_step(customer);
}

/* The others went on without it. */
static void on_gone(void *context, uint32_t slot, uint64_t version) {
    customer *customer = context;
    fail_all(customer, MR_STALE);
    customer->asked = customer->open = false;
    if (version > customer->step) customer->step = version;
}

static void on_ordered(void *context, tape_kind kind, bool done, uint64_t round) {} /* nothing is ordered */

static void send_bytes(void *context, const char *address, span bytes) {
    customer *customer = context;
    van_send(customer_van(customer), address, bytes);
}

static void send_pieces(void *context, const char *address, const bale_piece *pieces, size_t count) {
    customer *customer = context;
    van_send_pieces(customer_van(customer), address, pieces, count);
}

/* ---- What the player says. */

static void on_begin(void *context, uint32_t number, uint64_t stint) {
    customer *customer = context;
    if (number != customer_rank(customer)) return;
    rank_options options = {.rank = number,
                            .address = van_address(customer_van(customer)),
                            .director = postoffice_scheduler(customer->postoffice),
                            .send = send_bytes,
                            .send_pieces = send_pieces,
                            .on_ready = on_ready,
                            .on_over = on_over,
                            .on_pushed = on_pushed,
                            .on_pulled = on_pulled,
                            .on_same = on_same,
                            .on_round = on_round,
                            .on_gone = on_gone,
                            .on_ordered = on_ordered,
                            .context = customer};
    customer->rank = rank_create(&options);
    rank_begin(customer->rank, stint, van_now_us(customer_van(customer)));
}

static void on_end(void *context, uint32_t number) {
    customer *customer = context;
    if (number != customer_rank(customer)) return;
    const chart *chart = player_chart(customer->player);
    const chart_player *now = number < chart->rank_count ? &chart->players[number] : NULL;
    customer->deposed = now != NULL && now->since != 0 && now->incarnation != customer->incarnation;
    forget_step(customer);
    rank_destroy(customer->rank);
    customer->rank = NULL;
}

/* ---- As the postoffice's host. */

static void on_here(void *context, uint64_t incarnation) {
    customer *customer = context;
    player_options options = {.worker = customer_rank(customer),
                              .address = van_address(customer_van(customer)),
                              .director = postoffice_scheduler(customer->postoffice),
                              .send = send_bytes,
                              .on_begin = on_begin,
                              .on_end = on_end,
                              .context = customer};
    customer->incarnation = incarnation;
    customer->player = player_create(&options);
    player_begin(customer->player, incarnation, van_now_us(customer_van(customer)));
}

static void take(void *context, span batch, bale *bale) {
    customer *customer = context;
    if (customer->player == NULL) return;
    player_take(customer->player, batch);
    if (customer->rank != NULL && bale != NULL)
        rank_take_bale(customer->rank, batch, bale);
    else if (customer->rank != NULL)
        rank_take(customer->rank, batch);
    pump(customer);
}

static int64_t next_us(void *context) {
    customer *customer = context;
    if (customer->player == NULL) return CLOCK_NEVER_US;
    int64_t next_us = player_next_us(customer->player), rank_us = CLOCK_NEVER_US;
    if (customer->rank != NULL) rank_us = rank_next_us(customer->rank);
    return next_us < rank_us ? next_us : rank_us;
}

static void tick(void *context, int64_t now_us) {
    customer *customer = context;
    if (now_us >= player_next_us(customer->player)) player_tick(customer->player, now_us);
    if (customer->rank != NULL && now_us >= rank_next_us(customer->rank)) rank_tick(customer->rank, now_us);
    pump(customer);
}

static void flush(void *context) {
    customer *customer = context;
    if (customer->dirty && customer->rank != NULL) rank_flush(customer->rank);
    customer->dirty = false;
}

/* ---- For its program. */

mr_status customer_open(const postoffice_options *options, customer **out) {
    static const postoffice_host host = {
        .on_here = on_here, .take = take, .flush = flush, .next_us = next_us, .tick = tick};
    customer *customer = xcalloc(1, sizeof *customer);
    postoffice_options own = *options;
    own.role = DESK_WORKER;
    mr_status status = postoffice_open(&own, &host, customer, &customer->postoffice);
    if (status != MR_OK) {
        free(customer);
        return status;
    }
    *out = customer;
    return MR_OK;
}

void customer_close(customer *customer) {
    if (customer == NULL) return;
    fail_all(customer, MR_CLOSED);
    if (customer->rank != NULL) rank_destroy(customer->rank);
    if (customer->player != NULL) player_destroy(customer->player);
    postoffice_close(customer->postoffice);
    map_slot slot;
    for (size_t at = 0; (at = map_next(&customer->requests, at, &slot)) != 0;) free(slot.value);
    map_fini(&customer->requests);
    free(customer->lanes);
    free(customer);
}

van *customer_van(const customer *customer) { return postoffice_van(customer->postoffice); }
uint32_t customer_rank(const customer *customer) { return postoffice_number(customer->postoffice); }

const chart *customer_chart(const customer *customer) {
    static const chart none = {0};
    return customer->player == NULL ? &none : player_chart(customer->player);
}

void customer_begin(customer *customer) {
    if (customer->open) return;
    customer->opening = true;
    if (customer->player != NULL) pump(customer);
}

mr_status customer_ready(const customer *customer) {
    const char *scheduler = postoffice_scheduler(customer->postoffice);
    const chart *chart = customer_chart(customer);
    uint32_t rank = customer_rank(customer);
    if (customer->ready) return MR_OK;
    if (customer->deposed) return error_set(MR_EXISTS, "another process plays rank %u now", rank);
    if (!postoffice_heard(customer->postoffice)) return error_set(MR_BUSY, "no scheduler answers at %s", scheduler);
    if (chart->number == 0) return error_set(MR_BUSY, "the scheduler at %s waits for servers", scheduler);
    if (rank >= chart->rank_count)
        return error_set(MR_NOT_FOUND, "there is no rank %u: the table has %u", rank, chart->rank_count);
    if (customer->rank == NULL) return error_set(MR_BUSY, "rank %u was not given to this process yet", rank);
    return error_set(MR_BUSY, "the servers of some slots do not answer rank %u", rank);
}

mr_status customer_opened(const customer *customer) {
    if (customer->open) return MR_OK;
    MR_TRY(customer_ready(customer));
    unsigned long long step = customer_step(customer);
    if (customer->out) return error_set(MR_DENIED, "rank %u is not in round %llu", customer_rank(customer), step);
    return error_set(MR_BUSY, "step %llu cannot begin: others have not ended theirs, or servers do not answer", step);
}

uint64_t customer_step(const customer *customer) {
    bool rounds = customer->player == NULL || in_rounds(customer);
    return rounds || customer->step == 0 ? customer->step : customer->step - 1;
}

static mr_status check(const customer *customer, uint32_t slot, size_t count) {
    if (!customer->open) return error_set(MR_STALE, "no step is open: it has to be begun, or begun again");
    uint32_t slots = chart_value_slots(player_chart(customer->player));
    if (slot >= slots) return error_set(MR_INVALID, "there is no slot %u: the table has %u", slot, slots);
    if (count < 1 || count > CUSTOMER_FLOATS_MAX)
        return error_set(MR_INVALID, "%zu floats: a slot has 1 to %d", count, CUSTOMER_FLOATS_MAX);
    if (customer->requests.count >= CUSTOMER_REQUESTS_MAX)
        return error_set(MR_BUSY, "%d requests were not waited for", CUSTOMER_REQUESTS_MAX);
    return MR_OK;
}

mr_status customer_push(customer *customer, uint32_t slot, span floats, uint64_t *ticket) {
    MR_TRY(check(customer, slot, floats.size / sizeof(float)));
    lane *lane = &customer->lanes[slot];
    if (in_rounds(customer) && lane->parts != 0)
        return error_set(MR_EXISTS, "slot %u was pushed in this step: in BSP it is pushed once", slot);
    if (lane->parts == NAME_TICK - 1) return error_set(MR_BUSY, "too many pushes of slot %u in one step", slot);
    lane->parts++;
    request *request = add(customer, slot, true);
    request->payload = floats;
    request->name = name_now(customer, lane, false);
    *ticket = request->ticket;
    issue(customer, slot);
    return MR_OK;
}

mr_status customer_pull(customer *customer, uint32_t slot, float *to, size_t room, uint64_t *ticket) {
    MR_TRY(check(customer, slot, room));
    request *request = add(customer, slot, true);
    request->pulls = true;
    request->to = to;
    request->room = room;
    *ticket = request->ticket;
    issue(customer, slot);
    return MR_OK;
}

mr_status customer_end(customer *customer) {
    if (!customer->open) return error_set(MR_STALE, "no step is open: it has to be begun, or begun again");
    bool rounds = in_rounds(customer);
    for (uint32_t i = 0; i < customer->slot_count; i++) {
        lane *lane = &customer->lanes[i];
        if (rounds && lane->parts != 0) continue;
        add(customer, i, false)->name = name_now(customer, lane, true);
        issue(customer, i);
    }
    customer->open = false;
    customer->step++;
    return MR_OK;
}

mr_status customer_done(customer *customer, uint64_t ticket) {
    request *request = map_get(&customer->requests, ticket);
    if (request == NULL) return error_set(MR_NOT_FOUND, "there is no request %llu", (unsigned long long)ticket);
    mr_status status = request->status;
    if (status == MR_BUSY) return status;
    map_remove(&customer->requests, ticket);
    free(request);
    if (status == MR_STALE) return error_set(status, "the table went back to a checkpoint, or on without this rank");
    return status;
}

size_t customer_open_count(const customer *customer) { return customer->under_way; }
