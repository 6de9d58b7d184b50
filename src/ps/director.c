/* director.c — see director.h. */
#include "ps/director.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/invariants.h"
#include "base/search.h"
#include "cluster/detector.h"
#include "ps/cast.h"
#include "ps/depot.h"
#include "ps/tape.h"

typedef struct known {
    uint32_t id;
    uint64_t incarnation;
    bool spoke; /* it was heard itself, and not only read of */
    char address[PART_ADDRESS_MAX];
} known;

typedef struct company { /* all servers, or all workers */
    uint64_t watch;      /* added to their ids, for the detector */
    size_t most;
    known *list; /* sorted by id, owned */
    size_t count;
} company;

struct director {
    director_options options;
    post *post;
    detector *detector;
    company servers, workers;
    ring *ring;      /* of those that were alive, and stay, when it was made, owned; NULL: to be made */
    uint64_t *alive; /* those, owned */
    size_t alive_count;
    plan_gate *gates; /* by slot, owned; NULL before the first chart */
    const placement_pin *pins;
    size_t pin_count;
    const uint32_t *leaving;
    size_t leaving_count;
    uint64_t *drops; /* by rank, owned: the number of an order that is not answered; 0: none */
    load load;
    marker marker;
    bool resumes;        /* everything was stopped on purpose, and no server of then is heard again */
    bool restoring;      /* somebody wants this generation to end: */
    uint64_t generation; /* the one that was known then */
    chart proposed;
    bool asking, looked; /* an answer is owed; the coordinator was asked once */
    uint64_t expected;
    int64_t now_us, next_tick_us, next_poll_us;
};

/* ---- Who is here. */

static size_t seek(const company *company, uint32_t id) {
    return search_first(&id, company->list, company->count, sizeof *company->list, search_u32);
}

static known *find(const company *company, uint32_t id) { /* NULL: not known */
    size_t at = seek(company, id);
    return at < company->count && company->list[at].id == id ? &company->list[at] : NULL;
}

/* Somebody waits for what comes next. */
static void hasten(director *director) { director->next_tick_us = director->now_us; }

static void heard(director *director, company *company, uint32_t id, uint64_t incarnation, const char *address) {
    MR_ASSERT(id < PART_RANK && strlen(address) < PART_ADDRESS_MAX);
    size_t at = seek(company, id);
    if (find(company, id) == NULL) {
        if (company->count == company->most) return;
        company->list = xrealloc(company->list, (company->count + 1) * sizeof *company->list);
        memmove(&company->list[at + 1], &company->list[at], (company->count - at) * sizeof *company->list);
        company->count++;
        company->list[at] = (known){.id = id};
        detector_watch(director->detector, company->watch + id, director->now_us);
    }
    known *known = &company->list[at];
    if (incarnation < known->incarnation) {
        post_add(director->post, address, &(part){.kind = PART_REPLACED, .name = known->incarnation});
        return;
    }
    if (incarnation == known->incarnation) /* the same process: it was slow, and nothing else */
        detector_forgive(director->detector, company->watch + id, director->now_us);
    if (incarnation > known->incarnation) hasten(director); /* it waits for what follows from that */
    known->spoke = known->spoke && incarnation == known->incarnation;
    known->incarnation = incarnation;
    strcpy(known->address, address);
    detector_heard(director->detector, company->watch + id, director->now_us);
}

static void spoke(company *company, uint32_t id, uint64_t incarnation) {
    known *known = find(company, id);
    if (known != NULL && known->incarnation == incarnation) known->spoke = true;
}

/* Somebody of whom it only reads begins as if it had just been heard. */
static void read_of(director *director, company *company, uint32_t id, uint64_t incarnation, const char *address) {
    const known *known = find(company, id);
    if (known == NULL || known->incarnation < incarnation) heard(director, company, id, incarnation, address);
}

static bool is_alive(const director *director, const company *company, const known *known) {
    return !detector_suspects(director->detector, company->watch + known->id);
}

/* The ring is made anew only when somebody came or went. */
static void update_ring(director *director, const plan_server *servers) {
    size_t known = director->servers.count, count = 0;
    ring_server *members = xcalloc(known + 1, sizeof *members);
    uint64_t *alive = xcalloc(known + 1, sizeof *alive);
    for (size_t i = 0; i < known; i++) {
        if (!servers[i].alive || servers[i].leaves) continue;
        alive[count] = servers[i].id;
        members[count++] = (ring_server){servers[i].id, 1};
    }
    bool same = director->ring != NULL && count == director->alive_count &&
                memcmp(alive, director->alive, count * sizeof *alive) == 0;
    if (!same) {
        if (director->ring != NULL) ring_destroy(director->ring);
        mr_status status = ring_create(members, count, &director->ring);
        MR_ASSERT(status == MR_OK);
        free(director->alive);
        director->alive = alive;
        director->alive_count = count;
    } else {
        free(alive);
    }
    free(members);
}

static bool leaves(const director *director, uint32_t id) {
    size_t at = search_first(&id, director->leaving, director->leaving_count, sizeof *director->leaving, search_u32);
    return at < director->leaving_count && director->leaving[at] == id;
}

/* `spoke`: alive are those only who were heard themselves. */
static plan_facts facts_of(director *director, plan_server *servers, bool spoke) {
    for (size_t i = 0; i < director->servers.count; i++) {
        const known *known = &director->servers.list[i];
        servers[i] = (plan_server){known->id,
                                   known->incarnation,
                                   known->address,
                                   is_alive(director, &director->servers, known) && (known->spoke || !spoke),
                                   leaves(director, known->id),
                                   detector_doubts(director->detector, known->id)};
    }
    update_ring(director, servers);
    return (plan_facts){.servers = servers,
                        .server_count = director->servers.count,
                        .gates = director->gates,
                        .ring = director->ring,
                        .pins = director->pins,
                        .pin_count = director->pin_count};
}

/* Who plays which rank in the chart that is to be decided. */
static bool cast(director *director, chart *chart) {
    const company *company = &director->workers;
    cast_worker *workers = xcalloc(company->count + 1, sizeof *workers);
    for (size_t i = 0; i < company->count; i++) {
        const known *known = &company->list[i];
        bool doubted = detector_doubts(director->detector, company->watch + known->id); /* its link broke */
        workers[i] = (cast_worker){known->id, known->incarnation, is_alive(director, company, known) && !doubted};
    }
    bool changed = director->options.own_ranks ? cast_own(chart, workers, company->count)
                                               : cast_next(chart, workers, company->count);
    free(workers);
    return changed;
}

/* The caller's to free. */
static truce_worker *crew_of(const director *director) {
    const company *company = &director->workers;
    truce_worker *crew = xcalloc(company->count + 1, sizeof *crew);
    for (size_t i = 0; i < company->count; i++) {
        const known *known = &company->list[i];
        crew[i] = (truce_worker){known->id, known->incarnation, known->address, is_alive(director, company, known)};
    }
    return crew;
}

/* `news`: only if that makes a difference now. */
static void order_marks(director *director, bool news) {
    const chart *chart = post_chart(director->post);
    truce_worker *workers = director->options.pause_us == 0 ? NULL : crew_of(director);
    marker_crew crew = {workers, workers == NULL ? 0 : director->workers.count};
    if (!news || marker_moves(&director->marker, chart, crew))
        marker_order(&director->marker, chart, director->post, crew, director->now_us);
    free(workers);
}

/* ---- What is decided. */

/* Who begins something by this chart hears of it now, not with its next beat. */
static void tell_those_it_begins_with(director *director, const chart *chart, bool anew) {
    for (uint32_t i = 0; anew && i < chart->server_count; i++)
        post_add(director->post, chart->servers[i].address, NULL);
    for (uint32_t i = 0; i < chart->rank_count; i++) {
        if (chart->players[i].since != chart->number) continue;
        const known *known = find(&director->workers, chart->players[i].worker);
        if (known != NULL && known->address[0] != '\0') post_add(director->post, known->address, NULL);
    }
}

static void on_chart(void *context, const chart *chart) {
    director *director = context;
    if (director->gates == NULL) director->gates = xcalloc(chart->slot_count + 1, sizeof *director->gates);
    for (uint32_t i = 0; i < chart->server_count; i++) {
        const chart_server *server = &chart->servers[i];
        read_of(director, &director->servers, server->id, server->incarnation, server->address);
    }
    for (uint32_t i = 0; i < chart->rank_count; i++) {
        const chart_player *player = &chart->players[i];
        if (player->since != 0) read_of(director, &director->workers, player->worker, player->incarnation, "");
    }
    if (director->generation == 0) director->resumes = chart->number == director->options.stopped;
    if (chart->generation != director->generation) {
        if (director->generation != 0) director->resumes = false;
        director->restoring = false;
        marker_restart(&director->marker);
    }
    tell_those_it_begins_with(director, chart, chart->generation != director->generation);
    director->generation = chart->generation;
    if (director->options.on_decided != NULL) director->options.on_decided(director->options.context, chart);
}

static void adopt(director *director, const coordinator_answer *answer) {
    director->expected = answer->version;
    director->next_poll_us = director->now_us + DIRECTOR_POLL_US;
    if (answer->value.size != 0) post_adopt(director->post, answer->value);
}

static void on_read(void *argument, const coordinator_answer *answer) {
    director *director = argument;
    MR_ASSERT(director->asking);
    director->asking = false;
    if (answer->status != MR_OK) return;
    director->looked = true;
    adopt(director, answer);
    hasten(director);
}

static void look(director *director) {
    MR_ASSERT(!director->asking);
    director->asking = true;
    uint64_t known = post_chart(director->post)->number;
    if (director->marker.known > known) known = director->marker.known;
    director->options.coordinator.ops->get(director->options.coordinator.self, CHART_KEY, known, on_read, director);
}

static void on_swapped(void *argument, const coordinator_answer *answer) {
    director *director = argument;
    MR_ASSERT(director->asking);
    director->asking = false;
    if (answer->status == MR_STALE) {
        adopt(director, answer);
    } else if (answer->status != MR_OK) {
        director->looked = false; /* perhaps it was decided */
    } else {
        size_t size = chart_size(&director->proposed, 0);
        uint8_t *bytes = xmalloc(size);
        writer writer = writer_of(bytes, size);
        chart_encode(&director->proposed, 0, &writer);
        adopt(director, &(coordinator_answer){MR_OK, answer->version, span_of(bytes, size)});
        free(bytes);
        hasten(director);
    }
}

static void propose(director *director) {
    MR_ASSERT(!director->asking && director->proposed.number == director->expected + 1);
    size_t size = chart_size(&director->proposed, 0);
    uint8_t *bytes = xmalloc(size);
    writer writer = writer_of(bytes, size);
    chart_encode(&director->proposed, 0, &writer);
    MR_ASSERT(!writer.failed);
    director->asking = true;
    if (director->options.on_propose != NULL)
        director->options.on_propose(director->options.context, &director->proposed);
    director->options.coordinator.ops->compare_and_swap(director->options.coordinator.self, CHART_KEY,
                                                        director->expected, span_of(bytes, size), 0, on_swapped,
                                                        director);
    free(bytes);
}

/* ---- Deciding. */

/* Somebody may have pushed in the generation of this chart, or has not heard of what an earlier one has lost. */
static bool loses(const director *director, const chart *before) {
    return !director->resumes && (before->first_stint != 0 || before->lost);
}

/* Of a generation: its first chart. A director that has just begun gives everybody of whom it reads time to be heard;
 * but a slot may not begin where nobody is: a server that never comes back would have it for ever. */
static void begin(director *director) {
    plan_server servers[CHART_SERVERS_MAX];
    plan_facts facts = facts_of(director, servers, true);
    size_t alive = 0;
    for (size_t i = 0; i < facts.server_count; i++) alive += servers[i].alive;
    if (alive < director->options.first_servers || alive == 0) return;
    if (director->options.depot != NULL &&
        !marker_seal(&director->marker, director->post, director->options.depot, director->expected))
        return;
    chart_fini(&director->proposed);
    director->proposed = (chart){.consistency = director->options.consistency,
                                 .mixed = director->options.mixed,
                                 .copies = director->options.copies,
                                 .rounds = director->options.rounds,
                                 .origin = director->marker.origin,
                                 .lost = loses(director, post_chart(director->post)),
                                 .rank_count = director->options.rank_count,
                                 .slot_count = director->options.slot_count,
                                 .slots = xcalloc(director->options.slot_count + 1, sizeof(chart_slot))};
    plan_first(&facts, director->expected + 1, rng_next(director->options.rng), &director->proposed);
    (void)cast(director, &director->proposed);
    propose(director);
}

static void order(director *director, const plan_join *join) {
    const chart_server *tail = chart_find(post_chart(director->post), join->tail);
    if (tail == NULL) return;
    post_add(director->post, tail->address,
             &(part){.kind = PART_JOIN,
                     .slot = join->slot,
                     .epoch = join->epoch,
                     .name = join->server,
                     .prev = join->incarnation});
}

/* Ranks that are given up, until the ledger has heard of it. */
static void order_drops(director *director, const chart *chart) {
    uint32_t ledger = chart_ledger(chart);
    MR_ASSERT(ledger == NO_LEDGER || ledger < chart->slot_count);
    if (ledger == NO_LEDGER || director->drops == NULL || chart->slots[ledger].count == 0) return;
    const chart_server *head = chart_find(chart, chart->slots[ledger].chain[0].server);
    for (uint32_t i = 0; head != NULL && i < chart->rank_count && i < director->options.rank_count; i++)
        if (director->drops[i] != 0)
            post_add(director->post, head->address,
                     &(part){.kind = PART_ORDER,
                             .entry = TAPE_DROP,
                             .slot = ledger,
                             .rank = i,
                             .epoch = chart->slots[ledger].epoch,
                             .name = director->drops[i]});
}

/* All is where it should be: should it? */
static bool balance(director *director, const chart *chart, plan_facts *facts, plan_join *joins, size_t *count) {
    plan_wish wishes[LOAD_WISHES_MAX];
    facts->wishes = wishes;
    facts->wish_count = load_wishes(&director->load, chart, facts, director->now_us, wishes);
    return facts->wish_count != 0 && plan_next(chart, facts, &director->proposed, joins, count);
}

static bool is_over(const director *director, const chart *chart, const plan_facts *facts) {
    bool lost = director->restoring;
    for (uint32_t i = 0; !lost && director->options.restores && i < chart->slot_count; i++)
        lost = plan_is_lost(chart, facts, i);
    return lost;
}

static void go_on(director *director, const chart *chart) {
    plan_server servers[CHART_SERVERS_MAX];
    plan_facts facts = facts_of(director, servers, false);
    if (is_over(director, chart, &facts)) {
        begin(director);
        return;
    }
    plan_join *joins = xcalloc(chart->slot_count + 1, sizeof *joins);
    size_t count;
    bool changed = plan_next(chart, &facts, &director->proposed, joins, &count);
    if (!changed && count == 0 && director->options.balance.decide_us != 0)
        changed = balance(director, chart, &facts, joins, &count);
    if (cast(director, &director->proposed) || changed)
        propose(director);
    else
        for (size_t i = 0; i < count; i++) order(director, &joins[i]);
    free(joins);
}

/* ---- Hearing. */

static void on_head(void *context, const part_head *from) {
    director *director = context;
    uint32_t worker = from->who & ~(uint32_t)PART_WORKER;
    if (from->incarnation == 0) return;
    if (from->who < PART_RANK) {
        heard(director, &director->servers, from->who, from->incarnation, from->address);
        spoke(&director->servers, from->who, from->incarnation);
        const chart_server *listed = chart_find(post_chart(director->post), from->who);
        if (listed != NULL && listed->incarnation == from->incarnation) director->resumes = false;
    } else if (worker < PART_RANK)
        heard(director, &director->workers, worker, from->incarnation, from->address);
}

static void take_gate(director *director, const part_head *from, const part *part) {
    const chart *chart = post_chart(director->post);
    if (part->slot >= chart->slot_count) return;
    const chart_slot *slot = &chart->slots[part->slot];
    if (part->epoch != slot->epoch || slot->count == 0 || slot->chain[slot->count - 1].server != from->who) return;
    MR_ASSERT(director->gates != NULL);
    director->gates[part->slot] = (plan_gate){.epoch = part->epoch,
                                              .server = (uint32_t)part->name,
                                              .incarnation = part->prev,
                                              .ready = part->status == PART_OK};
}

/* If the checkpoint from which this generation begins is not there any more, some copies wait for it in vain: it begins
 * anew (policy `restores`). The process of the depot logs the damage (depot_check). */
static void take_damage(director *director, const part *part) {
    bool gone = part->status == PART_OK && part->name < post_chart(director->post)->origin;
    if (gone && director->options.restores) director->restoring = true;
}

static void on_part(void *context, const part_head *from, const part *part, bale *bale) {
    director *director = context;
    if (part->kind == PART_WHOLE && from->who == PART_DEPOT && part->payload.size != 0) take_damage(director, part);
    if (part->kind == PART_GATE) take_gate(director, from, part);
    if (part->kind == PART_SEALED) hasten(director);
    if (part->kind == PART_LOAD) load_take(&director->load, post_chart(director->post), part);
    if (marker_take(&director->marker, post_chart(director->post), part) && director->options.on_checkpoint != NULL)
        director->options.on_checkpoint(director->options.context, director->marker.newest);
    if (part->kind == PART_PAUSED || part->kind == PART_ORDERED || part->kind == PART_WHOLE)
        order_marks(director, true);
    if (part->kind == PART_ORDERED && part->entry == TAPE_DROP && director->drops != NULL &&
        part->rank < director->options.rank_count)
        if (director->drops[part->rank] == part->name) director->drops[part->rank] = 0;
}

/* ---- Life. */

director *director_create(const director_options *options, int64_t now_us) {
    MR_ASSERT(options->send != NULL && options->coordinator.ops != NULL && options->rng != NULL);
    MR_ASSERT(options->slot_count <= CHART_SLOTS_MAX && options->rank_count <= CHART_RANKS_MAX);
    MR_ASSERT(options->copies <= CHART_COPIES_MAX && options->pause_us >= 0);
    director *director = xcalloc(1, sizeof *director);
    director->options = *options;
    director->now_us = now_us;
    director->servers.most = CHART_SERVERS_MAX;
    director->load.terms = options->balance;
    director->marker.exact = options->pause_us != 0;
    director->marker.pause_us = options->pause_us;
    director->workers = (company){.watch = PART_WORKER, .most = CHART_RANKS_MAX};
    detector_options detector = {.interval_us = DIRECTOR_TICK_US, .suspect_us = DIRECTOR_SUSPECT_US};
    director->detector = detector_create(&detector, now_us);
    post_host host = {.send = options->send,
                      .send_context = options->context,
                      .on_chart = on_chart,
                      .on_part = on_part,
                      .on_head = on_head,
                      .context = director};
    director->post = post_create(&host, PART_DIRECTOR, options->address);
    return director;
}

void director_destroy(director *director) {
    detector_destroy(director->detector);
    post_destroy(director->post);
    chart_fini(&director->proposed);
    if (director->ring != NULL) ring_destroy(director->ring);
    free(director->alive);
    free(director->servers.list);
    free(director->workers.list);
    free(director->gates);
    free(director->drops);
    load_fini(&director->load);
    marker_fini(&director->marker);
    free(director);
}

static void check_company(const director *director, const company *company) {
    MR_ASSERT(company->count <= company->most); /* 1 */
    for (size_t i = 0; i < company->count; i++) {
        const known *known = &company->list[i];
        MR_ASSERT(i == 0 || known[-1].id < known->id);                               /* 1 */
        MR_ASSERT(detector_watches(director->detector, company->watch + known->id)); /* 1 */
    }
}

void director_check(const director *director) {
    const chart *chart = post_chart(director->post);
    check_company(director, &director->servers);
    check_company(director, &director->workers);
    MR_ASSERT(chart->number == 0 || director->gates != NULL); /* 2 */
    for (uint32_t i = 0; director->gates != NULL && i < chart->slot_count; i++)
        MR_ASSERT(director->gates[i].epoch <= chart->slots[i].epoch);                                          /* 2 */
    MR_ASSERT(director->alive_count <= director->servers.count);                                               /* 3 */
    for (size_t i = 1; i < director->alive_count; i++) MR_ASSERT(director->alive[i - 1] < director->alive[i]); /* 3 */
    chart_check(chart);                                                                                        /* 4 */
    marker_check(&director->marker);                                                                           /* 4 */
}

void director_take(director *director, span bytes, int64_t now_us) {
    director->now_us = now_us;
    post_take(director->post, bytes);
    CHECK_INVARIANTS(director->servers.count + director->workers.count + post_chart(director->post)->slot_count,
                     director_check(director));
}

int64_t director_next_us(const director *director) { return director->next_tick_us; }

/* The coordinator has lost what it decided, and begun another generation (cluster/coordinator.h). Nobody can say which
 * charts there were behind the one that is known here: what is sure is the last checkpoint. */
static bool is_forgotten(const director *director, const chart *chart) {
    return director->options.depot != NULL && director->options.restores && director->expected > chart->number &&
           coordinator_count(director->expected) == 0;
}

void director_tick(director *director, int64_t now_us) {
    director->now_us = now_us;
    director->next_tick_us = now_us + DIRECTOR_TICK_US;
    (void)detector_tick(director->detector, now_us);
    load_tick(&director->load, now_us);
    const chart *chart = post_chart(director->post);
    bool behind = director->marker.known > director->expected; /* it does not know yet what it has forgotten */
    if (!director->asking && (!director->looked || behind || now_us >= director->next_poll_us))
        look(director);
    else if (!director->asking && (chart->number == 0 || is_forgotten(director, chart)))
        begin(director);
    else if (!director->asking && chart->number == director->expected)
        go_on(director, chart);
    order_drops(director, chart);
    order_marks(director, false);
    post_flush(director->post);
    CHECK_INVARIANTS(director->servers.count + director->workers.count + post_chart(director->post)->slot_count,
                     director_check(director));
}

static void hint(director *director, const company *company, const char *address) {
    for (size_t i = 0; i < company->count; i++)
        if (strcmp(company->list[i].address, address) == 0)
            detector_hint(director->detector, company->watch + company->list[i].id, director->now_us);
}

void director_broken(director *director, const char *address, int64_t now_us) {
    director->now_us = now_us;
    hint(director, &director->servers, address);
    hint(director, &director->workers, address);
}

void director_pin(director *director, const placement_pin *pins, size_t count) {
    director->pins = pins;
    director->pin_count = count;
}

void director_retire(director *director, const uint32_t *servers, size_t count) {
    for (size_t i = 1; i < count; i++) MR_ASSERT(servers[i - 1] < servers[i]); /* sorted */
    director->leaving = servers;
    director->leaving_count = count;
}

const chart *director_chart(const director *director) { return post_chart(director->post); }

/* Above all orders of that stint, below all of the next one. */
void director_drop(director *director, uint32_t rank, uint64_t stint) {
    MR_ASSERT(rank < director->options.rank_count && stint != 0);
    if (director->drops == NULL) director->drops = xcalloc(director->options.rank_count, sizeof *director->drops);
    director->drops[rank] = stint << 16 | UINT16_MAX;
}

void director_checkpoint(director *director) { marker_want(&director->marker); }
bool director_marks(const director *director) { return director->marker.wanted != 0; }

bool director_bound(const director *director, uint64_t *number) {
    return marker_bound(&director->marker, number) || director->options.depot == NULL;
}
void director_restore(director *director) { director->restoring = true; }

bool director_lost(director *director, uint32_t slot) {
    MR_ASSERT(slot < post_chart(director->post)->slot_count);
    plan_server servers[CHART_SERVERS_MAX];
    plan_facts facts = facts_of(director, servers, false);
    return plan_is_lost(post_chart(director->post), &facts, slot);
}
