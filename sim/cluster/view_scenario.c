/* view_scenario.c — a metadata store and a few members: each view is decided once, and no member acts on an old one.
 *
 * Members send heartbeats, suspect others, enter and leave. The leader of a view writes to all others (the resources);
 * each write carries the leader's incarnation and view. Some seeds have a spare machine on which a second process has a
 * member's id, as when a launcher restarts a live process; in some seeds the metadata store loses its disk. First,
 * faults of all kinds occur for a while. Then they heal, and the cluster must settle. Then, without faults, one member
 * loses its power, another member is paused for two seconds, then all members are paused, and in some seeds the
 * metadata store loses its disk once more.
 *
 * view_checker.h has the checks of each step. Checked at the end:
 *
 *   settling         after the faults, the newest view of the metadata store contains exactly the living members, and
 *                    all of them have entered it
 *   noticing         a member that dies without other faults is out of the view within the bound of membership.h
 *   small cost       a paused member is left out and comes back; no other incarnation changes, and if all members are
 *                    paused no incarnation changes
 *   forgetting       a metadata store that lost its disk begins a new generation, in which every incarnation is new */
#include "sim/cluster/view_scenario.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "cluster/membership.h"
#include "cluster/metadata_remote.h"
#include "sim/cluster/sim_metadata.h"
#include "sim/cluster/view_checker.h"
#include "sim/faults.h"

enum { SITES_MAX = VIEW_CHECKER_MEMBERS_MAX, MESSAGE_WRITE = CONTROL_MESSAGE_USER };

#define FAULTS_US    INT64_C(8000000)
#define SETTLE_US    INT64_C(1500000) /* after all effects of the faults */
#define HEARTBEAT_US INT64_C(100000)
#define SUSPECT_US   INT64_C(500000)
#define NOTICE_US    (SUSPECT_US + 3 * HEARTBEAT_US)
#define WRITE_US     INT64_C(50000)
#define STAND_US     INT64_C(2000000)
#define FORGET_US    INT64_C(3000000) /* two polls, in case the first finds a lower generation; then all enter */
#define SLACK_US     INT64_C(20000)   /* for control messages in flight when a bound ends */

typedef struct world world;

typedef struct site { /* a machine for a member */
    world *world;
    sim_node *node;
    uint64_t id;
} site;

struct world {
    sim *sim;
    sim_node *metadata;
    site sites[SITES_MAX];
    size_t site_count;
    view_checker checker;
    bool loses_disk; /* in this seed the metadata store loses its disk */
};

typedef struct process { /* process of a member */
    site *site;
    const env *env;
    messenger *messenger;
    metadata_remote *remote;
    membership *membership;
    int64_t next_write_us;
    uint64_t entered; /* the newest view, as the checker saw it */
} process;

/* ---- A member's process. */

static void on_incarnation(void *context, uint64_t incarnation) {
    process *process = context;
    world *world = process->site->world;
    view_checker_given(&world->checker, process->site->node, incarnation);
    sim_note(world->sim, process->site->node, "is incarnation " METADATA_STORE_FORMAT " of %" PRIu64,
             METADATA_STORE_ARGS(incarnation), process->site->id);
}

static void on_view(void *context, const membership_view *view) {
    process *process = context;
    view_checker_entered(&process->site->world->checker, process->site->node, view, &process->entered);
    if (!sim_listens(process->site->world->sim)) return;
    char text[300] = "";
    for (size_t i = 0, used = 0; i < view->count && used + 60 < sizeof text; i++)
        used += (size_t)snprintf(text + used, sizeof text - used, " %" PRIu64 "/" METADATA_STORE_FORMAT,
                                 view->members[i].id, METADATA_STORE_ARGS(view->members[i].incarnation));
    sim_trace_tell(sim_get_trace(process->site->world->sim), sim_now_us(process->site->world->sim),
                   sim_node_name(process->site->node), "enters view " METADATA_STORE_FORMAT ":%s",
                   METADATA_STORE_ARGS(view->number), text);
}

static void on_phase(void *context, membership_phase phase) {
    static const char *const names[] = {"is left out", "is in", "is replaced"};
    process *process = context;
    sim_note(process->site->world->sim, process->site->node, "%s", names[phase]);
    if (phase == MEMBERSHIP_ENTERING) sim_count(process->site->world->sim, "left out", 1);
}

static void take_write(process *process, link_id link, const control_message *message) {
    reader reader = reader_of(message->value.data, message->value.size);
    uint64_t number = reader_u64(&reader);
    if (reader.failed) return;
    mr_status status = membership_admit(process->membership, link, &message->stamp);
    if (status == MR_OK)
        view_checker_accepted(&process->site->world->checker, process->site->node, process->entered, number);
    if (status == MR_STALE) sim_count(process->site->world->sim, "writes refused", 1);
}

static void take_message(void *context, link_id link, span bytes) {
    process *process = context;
    control_message message;
    if (control_message_decode(bytes, &message) != MR_OK) {
        sim_violation(process->site->world->sim, "a letter cannot be read");
        return;
    }
    if (metadata_remote_take(process->remote, &message) || membership_take(process->membership, link, &message)) return;
    if (message.kind == MESSAGE_WRITE) take_write(process, link, &message);
}

static void take_broken(void *context, const char *address, const cause *why) {
    membership_broken(((process *)context)->membership, address);
}

static void write_to_others(process *process) {
    uint8_t value[8], bytes[CONTROL_MESSAGE_HEAD_SIZE + sizeof value];
    writer value_writer = writer_of(value, sizeof value), writer = writer_of(bytes, sizeof bytes);
    writer_u64(&value_writer, view_checker_sent(&process->site->world->checker, process->site->node, process->entered));
    control_message message = {
        .kind = MESSAGE_WRITE, .stamp = membership_stamp(process->membership), .value = span_of(value, sizeof value)};
    control_message_encode(&message, &writer);
    const membership_view *view = membership_current(process->membership);
    for (size_t i = 0; i < view->count; i++)
        if (view->members[i].id != process->site->id)
            messenger_send(process->messenger, view->members[i].address, span_of(bytes, writer_size(&writer)));
}

static void *member_start(sim_node *node, const env *env, void *argument) {
    static const messenger_handlers handlers = {.on_message = take_message, .on_broken = take_broken};
    static const membership_events events = {on_incarnation, on_view, on_phase};
    process *process = xcalloc(1, sizeof *process);
    process->site = argument;
    process->env = env;
    process->messenger = messenger_create(env, &handlers, process);
    world *world = process->site->world;
    process->remote = metadata_remote_create(env, process->messenger, sim_node_name(world->metadata));
    membership_options options = {.id = process->site->id,
                                  .address = sim_node_name(node),
                                  .heartbeat_us = HEARTBEAT_US,
                                  .suspect_us = SUSPECT_US};
    process->membership = membership_create(env, metadata_remote_metadata(process->remote), process->messenger,
                                            &options, &events, process);
    sim_node_serve(node, &messenger_events, process->messenger);
    process->next_write_us = clock_now_us(env->clock);
    return process;
}

static void member_stop(void *state) {
    process *process = state;
    metadata_remote_destroy(process->remote);
    membership_destroy(process->membership);
    messenger_destroy(process->messenger);
    free(process);
}

static int64_t earlier(int64_t a, int64_t b) { return a < b ? a : b; }

static int64_t process_next_us(void *state) {
    const process *process = state;
    int64_t next_us = earlier(membership_next_us(process->membership), metadata_remote_next_us(process->remote));
    return membership_leads(process->membership) ? earlier(next_us, process->next_write_us) : next_us;
}

static void process_tick(void *state, int64_t now_us) {
    process *process = state;
    metadata_remote_tick(process->remote, now_us);
    membership_tick(process->membership, now_us);
    if (!membership_leads(process->membership) || now_us < process->next_write_us) return;
    process->next_write_us = now_us + WRITE_US;
    write_to_others(process);
}

static const sim_program member_program = {"member", member_start, member_stop, process_next_us, process_tick};

/* ---- State of the whole cluster. */

static process *process_at(const world *world, size_t index) { return sim_node_state(world->sites[index].node); }

/* The newest number in the metadata store; 0: none at present. */
static uint64_t metadata_newest(const world *world) {
    const metadata_db *db = sim_metadata_metadata(world->metadata);
    if (db == NULL) return 0;
    uint64_t version;
    span value;
    metadata_db_get(db, span_of(MEMBERSHIP_VIEW_KEY, strlen(MEMBERSHIP_VIEW_KEY)), &version, &value);
    return version;
}

/* If the metadata store lost its disk, all members that knew a higher number may be dead. */
static bool metadata_agrees(const world *world) {
    uint64_t number = metadata_newest(world);
    return number == world->checker.newest || (number != 0 && world->loses_disk);
}

static bool in_newest(const world *world, const process *process) {
    return membership_phase_now(process->membership) == MEMBERSHIP_IN && process->entered == metadata_newest(world);
}

/* The newest view contains exactly the living members. */
static bool settled(void *context) {
    const world *world = context;
    size_t in = 0, members = 0;
    for (size_t i = 0; i < world->site_count; i++) {
        const process *process = process_at(world, i);
        if (process == NULL || membership_phase_now(process->membership) == MEMBERSHIP_REPLACED) continue;
        if (!in_newest(world, process)) return false;
        members = membership_current(process->membership)->count;
        in++;
    }
    return in > 0 && in == members && metadata_agrees(world);
}

/* A site whose process is in the newest view; -1: none except `except`. */
static int any_member(world *world, int except) {
    size_t start = (size_t)rng_below(sim_rng(world->sim), world->site_count);
    for (size_t i = 0; i < world->site_count; i++) {
        int at = (int)((start + i) % world->site_count);
        const process *process = process_at(world, (size_t)at);
        if (at != except && process != NULL && in_newest(world, process)) return at;
    }
    return -1;
}

static void describe_unsettled(world *world, char *text, size_t size) {
    size_t used = (size_t)snprintf(text, size, "newest view " METADATA_STORE_FORMAT "%s;",
                                   METADATA_STORE_ARGS(world->checker.newest),
                                   metadata_agrees(world) ? "" : ", of which the keeper does not know");
    for (size_t i = 0; i < world->site_count && used + 60 < size; i++) {
        const process *process = process_at(world, i);
        const char *name = sim_node_name(world->sites[i].node);
        if (process == NULL)
            used += (size_t)snprintf(text + used, size - used, " %s is down;", name);
        else
            used +=
                (size_t)snprintf(text + used, size - used, " %s phase %d view " METADATA_STORE_FORMAT " of %zu;", name,
                                 membership_phase_now(process->membership), METADATA_STORE_ARGS(process->entered),
                                 membership_current(process->membership)->count);
    }
}

static bool settle(world *world, int64_t within_us, const char *after) {
    bool held = settled(world);
    if (!held && !sim_run_until(world->sim, sim_now_us(world->sim) + within_us, settled, world, &held)) return false;
    if (held) return true;
    char text[SCENARIO_TEXT_MAX - 100];
    describe_unsettled(world, text, sizeof text);
    sim_violation(world->sim, "not settled %d ms after %s: %s", (int)(within_us / 1000), after, text);
    return false;
}

/* ---- Without faults. */

static bool lose_power(world *world) {
    int victim = any_member(world, -1), recorder = any_member(world, victim);
    if (recorder < 0) return true;
    uint64_t id = world->sites[victim].id;
    sim_node_crash(world->sites[victim].node, true);
    if (!sim_run(world->sim, sim_now_us(world->sim) + NOTICE_US + HEARTBEAT_US + SLACK_US)) return false;
    for (size_t i = 0; i < world->site_count; i++) {
        const process *process = process_at(world, i);
        if (process == NULL || membership_phase_now(process->membership) == MEMBERSHIP_REPLACED) continue;
        if (membership_view_find(membership_current(process->membership), id) != NULL) {
            sim_violation(world->sim, "member %" PRIu64 " is dead and still in the view of %s", id,
                          sim_node_name(process->site->node));
            return false;
        }
    }
    return settle(world, SLACK_US, "a death in the calm");
}

/* The incarnation of each site; 0: none. Returns their number. */
static size_t note_incarnations(const world *world, uint64_t incarnations[SITES_MAX]) {
    size_t count = 0;
    for (size_t i = 0; i < world->site_count; i++) {
        const process *process = process_at(world, i);
        incarnations[i] = process == NULL ? 0 : membership_incarnation(process->membership);
        count += incarnations[i] != 0;
    }
    return count;
}

/* A member that is paused for STAND_US returns with another incarnation; no other incarnation changes. */
static bool stand_still(world *world) {
    int sleeper = any_member(world, -1);
    uint64_t before[SITES_MAX], after[SITES_MAX];
    if (sleeper < 0 || note_incarnations(world, before) < 2) return true;
    sim_node_spend(world->sites[sleeper].node, STAND_US);
    if (!sim_run(world->sim, sim_now_us(world->sim) + STAND_US)) return false;
    if (!settle(world, SUSPECT_US, "a member stood still")) return false;
    if (!sim_run(world->sim, sim_now_us(world->sim) + SUSPECT_US)) return false; /* it may still suspect others */
    if (!settle(world, 0, "a member stood still")) return false;
    note_incarnations(world, after);
    for (size_t i = 0; i < world->site_count; i++) {
        bool same = after[i] == before[i];
        if (same != ((int)i == sleeper)) continue;
        sim_violation(world->sim, "%s stood still, and %s has %s incarnation",
                      sim_node_name(world->sites[sleeper].node), sim_node_name(world->sites[i].node),
                      same ? "the same" : "another");
        return false;
    }
    return true;
}

/* All members are paused, as on a suspended laptop: no member suspects another afterwards. */
static bool all_stand_still(world *world) {
    uint64_t before[SITES_MAX], after[SITES_MAX];
    note_incarnations(world, before);
    for (size_t i = 0; i < sim_node_count(world->sim); i++)
        if (sim_node_up(sim_node_at(world->sim, i))) sim_node_spend(sim_node_at(world->sim, i), STAND_US);
    if (!sim_run(world->sim, sim_now_us(world->sim) + STAND_US + 2 * SUSPECT_US)) return false;
    if (!settle(world, 0, "all stood still")) return false;
    note_incarnations(world, after);
    if (memcmp(before, after, world->site_count * sizeof *before) == 0) return true;
    sim_violation(world->sim, "all stood still, and somebody has another incarnation");
    return false;
}

/* Replaces the machine of the metadata store by another one with the same name and an empty disk. */
static void lose_disk(void *context, uint64_t unused) {
    world *world = context;
    sim_note(world->sim, world->metadata, "loses its disk");
    sim_count(world->sim, "disks lost", 1);
    if (sim_node_up(world->metadata)) sim_node_crash(world->metadata, rng_chance(sim_rng(world->sim), 0.5));
    sim_disk_lose(sim_node_disk(world->metadata));
}

/* The lost views are unknown, so every incarnation is replaced by a new one. */
static bool lose_decisions(world *world) {
    uint64_t before[SITES_MAX], after[SITES_MAX], newest = metadata_newest(world);
    if (!world->loses_disk) return true;
    note_incarnations(world, before);
    lose_disk(world, 0);
    sim_node_start(world->metadata);
    if (!sim_run(world->sim, sim_now_us(world->sim) + FORGET_US)) return false;
    if (!settle(world, 0, "the keeper lost its disk")) return false;
    note_incarnations(world, after);
    if (metadata_newest(world) <= newest)
        sim_violation(world->sim, "the keeper lost its disk, and no new view was decided");
    for (size_t i = 0; i < world->site_count; i++)
        if (after[i] != 0 && after[i] == before[i])
            sim_violation(world->sim, "the keeper lost its disk, and %s has the same incarnation",
                          sim_node_name(world->sites[i].node));
    return !sim_failed(world->sim);
}

/* ---- The run. */

static bool is_member(void *context, sim_node *node) { return node != ((world *)context)->metadata; }

static void build(world *world) {
    rng *rng = sim_rng(world->sim);
    world->metadata = sim_node_add(world->sim, "keeper", &sim_metadata_program, NULL);
    size_t members = 2 + (size_t)rng_below(rng, 4), spares = (size_t)rng_below(rng, 2);
    world->site_count = members + spares;
    for (size_t i = 0; i < world->site_count; i++) {
        site *site = &world->sites[i];
        site->world = world;
        site->id = i < members ? 10 + i : 10 + rng_below(rng, members);
        char name[SIM_NAME_MAX];
        snprintf(name, sizeof name, "%s%d", i < members ? "m" : "spare", (int)i);
        site->node = sim_node_add(world->sim, name, &member_program, site);
    }
    world->loses_disk = rng_chance(rng, 0.3);
    if (world->loses_disk) sim_after(world->sim, rng_between(rng, 0, FAULTS_US), lose_disk, world, 0);
    sim_node_start(world->metadata);
    for (size_t i = 0; i < members; i++) sim_node_start(world->sites[i].node);
}

static void describe(span head, char *text, size_t size) {
    static const char *const names[] = {"?", "heartbeat", "view", "get", "swap", "answer", "watch", "lease"};
    control_message message;
    if (control_message_decode(head, &message) != MR_OK)
        snprintf(text, size, "something else");
    else
        snprintf(text, size,
                 "%s (view " METADATA_STORE_FORMAT ", %" PRIu64 "/" METADATA_STORE_FORMAT
                 ") %.*s " METADATA_STORE_FORMAT " %s",
                 message.kind < 8 ? names[message.kind] : "write", METADATA_STORE_ARGS(message.stamp.view),
                 message.stamp.id, METADATA_STORE_ARGS(message.stamp.incarnation), (int)message.key.size,
                 (const char *)message.key.data, METADATA_STORE_ARGS(message.version),
                 message.kind == CONTROL_MESSAGE_ANSWER ? mr_status_name(message.status) : "");
}

static void run(const scenario_options *options, scenario_result *result) {
    world world = {.sim = sim_create(options)};
    view_checker_init(&world.checker, world.sim);
    sim_describe(world.sim, describe);
    build(&world);
    fault_limits limits = {.allowed = FAULT_ALL,
                           .from_us = 0,
                           .until_us = FAULTS_US,
                           .down_max = world.site_count,
                           .dead_max = world.site_count / 3,
                           .may_die = is_member,
                           .context = &world};
    faults *faults = faults_create(world.sim, &limits);
    if (sim_run(world.sim, FAULTS_US + FAULTS_HEAL_US) && settle(&world, SETTLE_US, "the faults ended") &&
        lose_power(&world) && stand_still(&world) && all_stand_still(&world))
        (void)lose_decisions(&world);
    view_checker_check_lives(&world.checker);
    faults_destroy(faults);
    sim_finish(world.sim, result);
    view_checker_fini(&world.checker);
}

static const scenario_mutation mutations[] = {
    {"no-fencing", "members act on messages of other views", 100},
    {"no-sync", "the metadata store answers before its decision is on disk", 100},
    {"no-deadline", "silence is never a failure", 100},
    {"accept-two-decisions", "the metadata store does not compare before it swaps", 100},
    {"same-generation", "a metadata store that lost its disk counts generations from 1 again", 300},
    {"deaf-keeper", "the metadata store ignores the views that members know", 100},
    {"no-incarnation-check", "a process takes the entry of an earlier process with its id for its own", 100},
    {0},
};

const scenario view_scenario = {
    "view", "members, a metadata store of views, leaders that write: failure detection and fencing", mutations, run};
