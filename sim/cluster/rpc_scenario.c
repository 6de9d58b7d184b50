/* rpc_scenario.c — see rpc_scenario.h. The program of a node is a `host`; the `world` has the state that outlives its
 * processes. */
#include "sim/cluster/rpc_scenario.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "net/rpc/rpc_header.h"
#include "sim/cluster/rpc_checker.h"
#include "sim/faults.h"
#include "sim/sim_network.h"

enum { NODES_MAX = 5, JOINTS_MAX = 64, LOAD_MAX = 300 /* LOAD_MAX: calls, before the probes */, PROBES = 2 };

#define FAULTS_US     INT64_C(2000000)
#define SETTLE_US     INT64_C(4000000) /* time for opens and restarts after the faults have ended */
#define PROBE_US      INT64_C(1000000)
#define CLOSE_US      INT64_C(1000000)
#define CHECK_GAP_US  INT64_C(20000)
#define REOPEN_MAX_US INT64_C(50000)

typedef struct world {
    sim *sim;
    rpc_checker checker;
    size_t node_count;
    int64_t gap_us;                     /* mean time between the calls of a node */
    bool closing;                       /* closed links are not opened again */
    bool reached[NODES_MAX][NODES_MAX]; /* a probe from one to the other was answered */
} world;

typedef struct joint { /* a link that is open */
    link_id id;
    size_t peer;       /* index of the node */
    uint32_t process;  /* process number of that node */
    bool closing;      /* closed by this node, or all of its calls have just been lost */
    uint8_t *arriving; /* owned: memory for a request's body */
} joint;

typedef struct hold { /* a request whose answer is delayed */
    list of_host;
    uint64_t id;
    rpc_call_token token;
    rpc_entry *entry;
    mr_status status; /* status of the answer */
    uint64_t relay;   /* serial of the call that the answer waits for; 0: none */
    bool wants_room, cancelled, answered;
} hold;

typedef struct host {
    world *world;
    sim_node *node;
    const env *env;
    rpc *rpc;
    bool stopping;
    link_id opened[NODES_MAX]; /* the link to that node that this node opened, or is opening */
    joint joints[JOINTS_MAX];
    size_t joint_count;
    list holds;
    uint64_t next_hold;
} host;

static rng *chance(const host *host) { return sim_rng(host->world->sim); }
static int64_t now_us(const host *host) { return sim_node_now_us(host->node); }

static joint *find_joint(host *host, link_id id) {
    for (size_t i = 0; i < host->joint_count; i++)
        if (host->joints[i].id.v == id.v) return &host->joints[i];
    return NULL;
}

static void close_joint(const host *host, joint *joint) {
    joint->closing = true;
    host->env->transport.ops->close(host->env->transport.self, joint->id);
}

/* Draws log-uniformly: every order of magnitude is equally likely. */
static int64_t draw_time(rng *rng, int64_t low_us, int64_t high_us) {
    int64_t doublings = 0;
    for (int64_t time_us = low_us; time_us * 2 <= high_us; time_us *= 2) doublings++;
    int64_t time_us = low_us << rng_between(rng, 0, doublings);
    return rng_between(rng, time_us, 2 * time_us);
}

/* ---- Calling. */

static rpc_plan draw_plan(host *host) {
    static const struct {
        rpc_manner manner;
        double until;
    } shares[] = {
        {MANNER_NOW, 0.5}, {MANNER_LATER, 0.75}, {MANNER_FAIL, 0.85}, {MANNER_NEVER, 0.92}, {MANNER_RELAY, 1}};
    rng *rng = chance(host);
    double share = rng_unit(rng);
    size_t at = 0;
    while (share >= shares[at].until) at++;
    rpc_plan plan = {.manner = shares[at].manner, .delay_us = (uint32_t)draw_time(rng, 50, 100000)};
    plan.filler = (uint32_t)rng_below(rng, 200);
    if (rng_chance(rng, 0.85)) plan.timeout_us = draw_time(rng, 500, 500000);
    if (rng_chance(rng, 0.5)) {
        plan.attempt_timeout_us = draw_time(rng, 500, 100000);
        plan.attempts_max = (int)rng_between(rng, 0, RPC_CHECKER_ATTEMPTS_MAX);
    }
    if (rng_chance(rng, 0.15)) plan.body = (uint32_t)rng_between(rng, 1, RPC_CHECKER_BODY_MAX);
    if (plan.manner != MANNER_FAIL && rng_chance(rng, 0.15)) {
        plan.answer_body = (uint32_t)rng_between(rng, 1, RPC_CHECKER_BODY_MAX);
        plan.refuse_body = rng_chance(rng, 0.1);
    }
    return plan;
}

static void asked_done(void *argument, rpc_call_id id, const rpc_call_result *result);

static void asked_sent(void *argument, mr_status status) { ((rpc_entry *)argument)->borrowed = false; }

static void *asked_body(void *argument, rpc_call_id id, span payload, uint64_t size) {
    rpc_entry *entry = argument;
    const host *host = entry->owner;
    return rpc_checker_place(&host->world->checker, entry, size);
}

/* Returns NULL if the link is full or gone. */
static rpc_entry *ask(host *host, link_id link, const rpc_plan *plan) {
    uint8_t *payload;
    size_t size = rpc_plan_payload_size(plan);
    mr_status status = rpc_begin(host->rpc, link, (uint32_t)plan->manner, size, &payload);
    if (status != MR_OK) {
        sim_count(host->world->sim, "calls refused", 1);
        return NULL;
    }
    rpc_entry *entry = rpc_checker_add(&host->world->checker, plan, host->node, payload);
    rpc_call_options options = {.timeout_us = plan->timeout_us,
                                .attempt_timeout_us = plan->attempt_timeout_us,
                                .attempts_max = plan->attempts_max,
                                .on_body = plan->answer_body == 0 ? NULL : asked_body};
    entry->owner = host;
    entry->borrowed = plan->body != 0;
    if (plan->body == 0)
        entry->id = rpc_commit(host->rpc, now_us(host), link, size, &options, asked_done, entry);
    else
        entry->id = rpc_commit_body(host->rpc, now_us(host), link, size, span_of(entry->body, plan->body), asked_sent,
                                    &options, asked_done, entry);
    sim_count(host->world->sim, "calls", 1);
    return entry;
}

static rpc_entry *ask_anybody(host *host, const rpc_plan *plan) {
    if (host->joint_count == 0 || host->world->checker.count >= LOAD_MAX) return NULL;
    return ask(host, host->joints[rng_below(chance(host), host->joint_count)].id, plan);
}

static void cancel(void *context, uint64_t serial) {
    host *host = context;
    rpc_entry *entry = &host->world->checker.entries[serial - 1];
    bool was_open = !entry->ended;
    entry->cancelling = was_open;
    mr_status status = rpc_cancel(host->rpc, entry->id);
    if (status != (was_open ? MR_OK : MR_NOT_FOUND) || !entry->ended)
        sim_violation(host->world->sim, "cancelling call %" PRIu64 " gave %s", serial, mr_status_name(status));
}

static void load(void *context, uint64_t unused) {
    host *host = context;
    rng *rng = chance(host);
    if (sim_now_us(host->world->sim) >= FAULTS_US) return;
    for (int64_t i = rng_between(rng, 1, 3); i > 0; i--) {
        rpc_plan plan = draw_plan(host);
        rpc_entry *entry = ask_anybody(host, &plan);
        if (entry != NULL && rng_chance(rng, 0.15))
            sim_node_after(host->node, draw_time(rng, 100, 100000), cancel, host, entry->serial);
    }
    sim_node_after(host->node, rng_between(rng, 0, 2 * host->world->gap_us), load, host, 0);
}

/* ---- Answering. */

static void hold_free(hold *hold) {
    list_remove(&hold->of_host);
    free(hold);
}

static bool same_call(const hold *hold, rpc_call_token token) {
    return hold->token.link.v == token.link.v && hold->token.number == token.number;
}

static void free_body(void *argument, mr_status status) { free(argument); }

static mr_status send_answer(host *host, const hold *hold) {
    if (hold->status != MR_OK) return rpc_fail(host->rpc, hold->token, hold->status, "as planned");
    uint8_t *payload;
    MR_TRY(rpc_reply_begin(host->rpc, hold->token, RPC_CHECKER_ANSWER_SIZE, &payload));
    rpc_checker_answer(hold->entry, payload);
    size_t size = hold->entry->plan.answer_body;
    if (size == 0) {
        rpc_reply_commit(host->rpc, hold->token, RPC_CHECKER_ANSWER_SIZE);
        return MR_OK;
    }
    uint8_t *body = xmalloc(size);
    rpc_checker_fill(hold->entry, body, size);
    rpc_reply_commit_body(host->rpc, hold->token, RPC_CHECKER_ANSWER_SIZE, span_of(body, size), free_body, body);
    return MR_OK;
}

static mr_status try_answer(host *host, hold *hold) {
    mr_status status = send_answer(host, hold);
    hold->wants_room = status == MR_BUSY;
    if (status == MR_BUSY) return status;
    const joint *joint = find_joint(host, hold->token.link);
    bool gone = joint == NULL || joint->closing || sim_node_dying(host->node);
    bool stale = hold->cancelled || hold->answered || gone;
    if (status == MR_OK && hold->cancelled)
        sim_violation(host->world->sim, "call %" PRIu64 " is answered after it was cancelled", hold->entry->serial);
    if (status != MR_OK && !stale)
        sim_violation(host->world->sim, "the first answer to call %" PRIu64 " gave %s", hold->entry->serial,
                      mr_status_name(status));
    if (status == MR_OK) {
        list_for_each (at, &host->holds) {
            struct hold *other = container_of(at, struct hold, of_host);
            if (same_call(other, hold->token)) other->answered = true;
        }
    }
    hold_free(hold);
    return status;
}

static void answer_due(void *context, uint64_t id) {
    host *host = context;
    list_for_each (at, &host->holds) {
        hold *hold = container_of(at, struct hold, of_host);
        if (hold->id != id) continue;
        (void)try_answer(host, hold);
        return;
    }
}

static void relay(host *host, hold *hold) {
    rpc_plan plan = draw_plan(host);
    if (plan.manner == MANNER_RELAY) plan.manner = MANNER_NOW;
    rpc_entry *entry = ask_anybody(host, &plan);
    if (entry != NULL)
        hold->relay = entry->serial;
    else
        (void)try_answer(host, hold);
}

static void behave(host *host, hold *hold, bool refused) {
    const rpc_plan *plan = &hold->entry->plan;
    if (plan->manner == MANNER_FAIL) hold->status = MR_DENIED;
    if (refused) hold->status = MR_TOO_LARGE;
    if (refused || plan->manner == MANNER_NOW)
        (void)try_answer(host, hold);
    else if (plan->manner == MANNER_LATER || plan->manner == MANNER_FAIL)
        sim_node_after(host->node, plan->delay_us, answer_due, host, hold->id);
    else if (plan->manner == MANNER_RELAY)
        relay(host, hold);
}

static void on_request(void *context, const rpc_call_request *request) {
    host *host = context;
    rpc_entry *entry = rpc_checker_ran(&host->world->checker, request);
    joint *joint = find_joint(host, request->token.link);
    if (joint == NULL) {
        sim_violation(host->world->sim, "a request came on a link that is not open");
        return;
    }
    if (joint->arriving != NULL) {
        if (request->body.data != joint->arriving)
            sim_violation(host->world->sim, "the body of call %" PRIu64 " is lost", entry == NULL ? 0 : entry->serial);
        free(joint->arriving);
        joint->arriving = NULL;
    }
    if (entry == NULL) return;
    if (request->deadline_us <= now_us(host))
        sim_violation(host->world->sim, "call %" PRIu64 " is run after its deadline", entry->serial);
    hold *hold = xcalloc(1, sizeof *hold);
    hold->id = ++host->next_hold;
    hold->token = request->token;
    hold->entry = entry;
    list_push_back(&host->holds, &hold->of_host);
    sim_count(host->world->sim, "handlers run", 1);
    behave(host, hold, request->body.data == NULL && request->body.size != 0);
    if (sim_now_us(host->world->sim) < FAULTS_US && rng_chance(chance(host), 0.005)) close_joint(host, joint);
}

static void *on_body(void *context, link_id link, uint32_t method, span payload, uint64_t size) {
    host *host = context;
    joint *joint = find_joint(host, link);
    if (joint == NULL || joint->arriving != NULL || size > RPC_CHECKER_BODY_MAX) {
        sim_violation(host->world->sim, "memory for a body of %" PRIu64 " bytes is asked for at the wrong time", size);
        return NULL;
    }
    if (rng_chance(chance(host), 0.1)) return NULL;
    joint->arriving = xmalloc(size);
    return joint->arriving;
}

static void on_cancel(void *context, rpc_call_token token) {
    host *host = context;
    size_t found = 0;
    list_for_each (at, &host->holds) {
        hold *hold = container_of(at, struct hold, of_host);
        if (!same_call(hold, token)) continue;
        hold->cancelled = true;
        found++;
    }
    sim_count(host->world->sim, "cancellations seen", 1);
    if (found == 0) sim_violation(host->world->sim, "a request is cancelled that waits for nothing");
}

static void on_room(void *context, link_id link) {
    host *host = context;
    list_for_each (at, &host->holds) {
        hold *hold = container_of(at, struct hold, of_host);
        if (!hold->wants_room || hold->token.link.v != link.v) continue;
        if (try_answer(host, hold) == MR_BUSY) return;
    }
}

/* After the faults have ended a probe may fail only because the peer of its link has been gone for a while. */
static void probe_ended(host *host, const joint *joint, const rpc_call_result *result) {
    world *world = host->world;
    const sim_node *peer = sim_node_at(world->sim, joint->peer);
    bool there = sim_node_up(peer) && sim_node_process(peer) == joint->process;
    if (result->status == MR_OK)
        world->reached[sim_node_index(host->node)][joint->peer] = true;
    else if (result->why == NULL && there)
        sim_violation(world->sim, "%s asks %s in vain although there are no faults any more: %s",
                      sim_node_name(host->node), sim_node_name(peer), mr_status_name(result->status));
}

/* A call has ended: the checker checks it, and the request that waits for it is answered. */
static void asked_done(void *argument, rpc_call_id id, const rpc_call_result *result) {
    rpc_entry *entry = argument;
    host *host = entry->owner;
    if (host->stopping) {
        entry->ended = true;
        return;
    }
    rpc_checker_ended(&host->world->checker, entry, id, result);
    joint *joint = find_joint(host, id.link);
    if (entry->plan.probe && joint != NULL) probe_ended(host, joint, result);
    if (result->why != NULL && joint != NULL) joint->closing = true; /* on_link_closed follows */
    list_for_each (at, &host->holds) {
        hold *hold = container_of(at, struct hold, of_host);
        if (hold->relay != entry->serial) continue;
        if (result->status != MR_OK) hold->status = MR_DENIED;
        (void)try_answer(host, hold);
        return;
    }
}

/* ---- Links. */

static void open_link(void *context, uint64_t peer) {
    host *host = context;
    if (host->world->closing) return;
    transport transport = host->env->transport;
    const char *name = sim_node_name(sim_node_at(host->world->sim, peer));
    if (transport.ops->open(transport.self, name, &host->opened[peer]) != MR_OK)
        host->opened[peer] = (link_id){0}; /* the node is crashing */
}

static void on_link_open(void *context, link_id link, const peer *peer) {
    host *host = context;
    if (host->joint_count == JOINTS_MAX) {
        sim_violation(host->world->sim, "%s has too many links", sim_node_name(host->node));
        return;
    }
    host->joints[host->joint_count++] =
        (joint){.id = link, .peer = (size_t)(peer->process >> 32) - 1, .process = (uint32_t)peer->process};
}

static void on_link_closed(void *context, link_id link, const cause *why) {
    host *host = context;
    world *world = host->world;
    for (size_t i = 0; i < world->checker.count; i++) {
        const rpc_entry *entry = &world->checker.entries[i];
        if (!entry->ended && entry->node == host->node && entry->process == sim_node_process(host->node) &&
            entry->id.link.v == link.v)
            sim_violation(world->sim, "call %" PRIu64 " outlives its link", entry->serial);
    }
    list_for_each (at, &host->holds) {
        hold *hold = container_of(at, struct hold, of_host);
        if (hold->token.link.v == link.v) hold_free(hold);
    }
    joint *joint = find_joint(host, link);
    if (joint != NULL) {
        free(joint->arriving);
        *joint = host->joints[--host->joint_count];
    }
    for (size_t i = 0; i < world->node_count; i++)
        if (host->opened[i].v == link.v)
            sim_node_after(host->node, rng_between(chance(host), 1000, REOPEN_MAX_US), open_link, host, i);
}

/* ---- The program. */

static const rpc_call_handlers handlers = {
    .on_request = on_request,
    .on_cancel = on_cancel,
    .on_body = on_body,
    .on_link_open = on_link_open,
    .on_link_closed = on_link_closed,
    .on_room = on_room,
};

static void begin(void *context, uint64_t unused) {
    host *host = context;
    for (size_t i = 0; i < host->world->node_count; i++)
        if (i != sim_node_index(host->node)) open_link(host, i);
    load(host, 0);
}

static void *start(sim_node *node, const env *env, void *argument) {
    world *world = argument;
    host *host = xcalloc(1, sizeof *host);
    host->world = world;
    host->node = node;
    host->env = env;
    list_init(&host->holds);
    host->rpc = rpc_create(env, &handlers, host);
    sim_node_serve(node, &rpc_events, host->rpc);
    sim_node_after(node, 0, begin, host, 0);
    return host;
}

static void stop(void *state) {
    host *host = state;
    host->stopping = true;
    rpc_destroy(host->rpc);
    while (!list_empty(&host->holds)) hold_free(container_of(host->holds.next, hold, of_host));
    for (size_t i = 0; i < host->joint_count; i++) free(host->joints[i].arriving);
    free(host);
}

static int64_t next_us(void *state) { return rpc_next_us(((host *)state)->rpc); }
static void tick(void *state, int64_t now) { rpc_tick(((host *)state)->rpc, now); }

static const sim_program program = {.name = "caller", .start = start, .stop = stop, .next_us = next_us, .tick = tick};

/* ---- Checks of the whole state. */

static void check_host(world *world, const host *host) {
    rpc_call_stats stats = rpc_stats(host->rpc);
    size_t open = rpc_open_count(host->rpc);
    if (stats.bad_messages != 0) sim_violation(world->sim, "%s saw a bad message", sim_node_name(host->node));
    if (stats.started != stats.answered + stats.failed + stats.timed_out + stats.cancelled + stats.lost + open)
        sim_violation(world->sim, "the counts of %s do not add up", sim_node_name(host->node));
    size_t expected = rpc_checker_open_count(&world->checker, host->node);
    if (open != expected || open > RPC_CALL_WINDOW * host->joint_count)
        sim_violation(world->sim, "%s has %zu open calls, the ledger says %zu", sim_node_name(host->node), open,
                      expected);
}

static void check(void *context, uint64_t unused) {
    world *world = context;
    rpc_checker_check_deadlines(&world->checker);
    for (size_t i = 0; i < world->node_count; i++) {
        const host *host = sim_node_state(sim_node_at(world->sim, i));
        if (host != NULL) check_host(world, host);
    }
    sim_after(world->sim, CHECK_GAP_US, check, world, 0);
}

static void probe(void *context, uint64_t unused) {
    host *host = context;
    rpc_plan plan = {.manner = MANNER_NOW, .probe = true, .timeout_us = PROBE_US / 2};
    for (size_t i = 0; i < host->joint_count; i++) ask(host, host->joints[i].id, &plan);
}

static void check_reached(world *world) {
    for (size_t i = 0; i < world->node_count; i++)
        for (size_t j = 0; j < world->node_count; j++) {
            const sim_node *a = sim_node_at(world->sim, i), *b = sim_node_at(world->sim, j);
            if (i != j && sim_node_up(a) && sim_node_up(b) && !world->reached[i][j])
                sim_violation(world->sim, "%s cannot ask %s although there are no faults any more", sim_node_name(a),
                              sim_node_name(b));
        }
}

static void close_links(void *context, uint64_t unused) {
    host *host = context;
    for (size_t i = 0; i < host->joint_count; i++) close_joint(host, &host->joints[i]);
}

static void on_all_nodes(world *world, sim_fn *fn) {
    for (size_t i = 0; i < world->node_count; i++) {
        sim_node *node = sim_node_at(world->sim, i);
        if (sim_node_up(node)) sim_node_after(node, 0, fn, sim_node_state(node), 0);
    }
}

static void check_all_ended(world *world) {
    for (size_t i = 0; i < world->checker.count; i++) {
        const rpc_entry *entry = &world->checker.entries[i];
        if (!entry->ended)
            sim_violation(world->sim, "call %" PRIu64 " never ended, although its link is gone", entry->serial);
        if (entry->borrowed)
            sim_violation(world->sim, "the body of call %" PRIu64 " was never given back", entry->serial);
    }
}

static void count_ends(world *world) {
    static const struct {
        mr_status status;
        const char *name;
    } kinds[] = {{MR_OK, "answered"},   {MR_TIMEOUT, "timed out"},        {MR_CANCELLED, "cancelled"},
                 {MR_DENIED, "denied"}, {MR_TOO_LARGE, "bodies refused"}, {MR_PEER_DIED, "peer died"},
                 {MR_IO, "link reset"}};
    for (size_t i = 0; i < world->checker.count; i++)
        for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++)
            if (world->checker.entries[i].status == kinds[k].status) sim_count(world->sim, kinds[k].name, 1);
}

/* ---- The run. */

static void describe(span bytes, char *text, size_t size) {
    static const char *const kinds[] = {
        [RPC_CALL_REQUEST] = "request", [RPC_CALL_ANSWER] = "answer", [RPC_CALL_CANCEL] = "cancel"};
    rpc_header header;
    span payload;
    if (rpc_header_decode(bytes, &header, &payload) != MR_OK) {
        snprintf(text, size, "rubbish");
        return;
    }
    reader reader = reader_of(payload.data, payload.size);
    uint64_t serial = reader_u64(&reader);
    snprintf(text, size, "%s %" PRIu64 "/%u, %s, call %" PRIu64, kinds[header.kind], header.number, header.attempt,
             mr_status_name(header.status), reader.failed ? 0 : serial);
}

static bool play(world *world) {
    int64_t at_us = FAULTS_US + SETTLE_US;
    if (!sim_run(world->sim, at_us)) return false;
    for (int round = 0; round < PROBES; round++) {
        on_all_nodes(world, probe);
        if (!sim_run(world->sim, at_us += PROBE_US)) return false;
    }
    check_reached(world);
    world->closing = true;
    on_all_nodes(world, close_links);
    return sim_run(world->sim, at_us + CLOSE_US);
}

static void run(const scenario_options *options, scenario_result *result) {
    world world = {.sim = sim_create(options)};
    rng *rng = sim_rng(world.sim);
    sim_describe(world.sim, describe);
    world.node_count = (size_t)rng_between(rng, 2, NODES_MAX);
    world.gap_us = draw_time(rng, 5000, 100000);
    rpc_checker_init(&world.checker, world.sim, LOAD_MAX + PROBES * NODES_MAX * JOINTS_MAX);
    for (size_t i = 0; i < world.node_count; i++) sim_node_add(world.sim, NULL, &program, &world);
    fault_limits limits = {.allowed = FAULT_ALL & ~(FAULT_BIT(FAULT_DISK_ERROR) | FAULT_BIT(FAULT_DISK_SLOW)),
                           .until_us = FAULTS_US,
                           .down_max = world.node_count - 1,
                           .dead_max = world.node_count / 3};
    faults *faults = faults_create(world.sim, &limits);
    for (size_t i = 0; i < world.node_count; i++) sim_node_start(sim_node_at(world.sim, i));
    check(&world, 0);
    if (play(&world)) check_all_ended(&world);
    rpc_checker_check_memory(&world.checker);
    count_ends(&world);
    faults_destroy(faults);
    sim_finish(world.sim, result);
    rpc_checker_fini(&world.checker);
}

static const scenario_mutation mutations[] = {
    {"no-duplicate-filter", "run a handler for each copy of a request", 300},
    {"no-deadline", "never time out a call", 300},
    {0},
};

const scenario rpc_scenario = {.name = "call",
                               .doc = "RPC calls between processes: each call ends once and runs once",
                               .mutations = mutations,
                               .run = run};
