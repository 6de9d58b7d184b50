/* metadata_store_test.c — one contract, every backend: a metadata store in this process on a folder, and one that is
 * reached by control messages through the simulated network, on a simulated disk. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "cluster/election.h"
#include "cluster/messenger.h"
#include "cluster/metadata_file.h"
#include "cluster/metadata_local.h"
#include "cluster/metadata_remote.h"
#include "sim/cluster/sim_metadata.h"
#include "tests/support/metadata_answer.h"
#include "tests/support/temp_dir.h"

#define SECOND_US INT64_C(1000000)

typedef struct backend {
    const char *name;
    void *(*open)(void);
    void (*close)(void *self);
    metadata_store (*ask)(void *self);
    int64_t (*now_us)(void *self);
    void (*pass)(void *self, int64_t us); /* advances the time */
    void (*restart)(void *self);          /* ends and restarts the store's process; no request is pending */
} backend;

/* ---- On a folder, in this process. */

typedef struct file_world {
    char folder[TEMP_DIR_FOLDER_MAX];
    rng rng;
    metadata_file file;
    metadata_db *db;
    metadata_local *local;
    int64_t now_us;
} file_world;

static void file_start(file_world *world) {
    world->file = (metadata_file){0};
    assert_int_equal(disk_open(world->folder, &world->file.disk), MR_OK);
    assert_int_equal(metadata_db_open(metadata_file_storage(&world->file), &world->rng, world->now_us, &world->db),
                     MR_OK);
    world->local = metadata_local_create(world->db);
}

static void file_stop(file_world *world) {
    metadata_local_destroy(world->local);
    metadata_db_close(world->db);
    disk_close(world->file.disk);
}

static void *file_open(void) {
    file_world *world = xcalloc(1, sizeof *world);
    assert_true(temp_dir_folder(world->folder));
    rng_init(&world->rng, 5);
    file_start(world);
    return world;
}

static void file_close(void *self) {
    file_world *world = self;
    disk disk;
    file_stop(world);
    assert_int_equal(disk_open(world->folder, &disk), MR_OK);
    assert_int_equal(disk.ops->remove(disk.self, METADATA_FILE_FILE), MR_OK);
    disk_close(disk);
    assert_int_equal(rmdir(world->folder), 0);
    free(world);
}

static metadata_store file_ask(void *self) { return metadata_local_metadata(((file_world *)self)->local); }
static int64_t file_now_us(void *self) { return ((file_world *)self)->now_us; }

static void file_pass(void *self, int64_t us) {
    file_world *world = self;
    int64_t until_us = world->now_us + us;
    for (int64_t next_us; (next_us = metadata_local_next_us(world->local)) <= until_us;) {
        if (next_us > world->now_us) world->now_us = next_us;
        metadata_local_tick(world->local, world->now_us);
    }
    world->now_us = until_us;
}

static void file_restart(void *self) {
    file_stop(self);
    file_start(self);
}

/* ---- In the simulator, by control messages. */

typedef struct sim_world {
    sim *sim;
    scenario_options options;
    sim_node *metadata, *client;
} sim_world;

typedef struct client {
    messenger *messenger;
    metadata_remote *remote;
} client;

static void client_message(void *context, link_id link, span bytes) {
    control_message message;
    if (control_message_decode(bytes, &message) == MR_OK)
        (void)metadata_remote_take(((client *)context)->remote, &message);
}

static void *client_start(sim_node *node, const env *env, void *argument) {
    static const messenger_handlers handlers = {.on_message = client_message};
    client *client = xcalloc(1, sizeof *client);
    client->messenger = messenger_create(env, &handlers, client);
    client->remote = metadata_remote_create(env, client->messenger, "keeper");
    sim_node_serve(node, &messenger_events, client->messenger);
    return client;
}

static void client_stop(void *state) {
    client *client = state;
    metadata_remote_destroy(client->remote);
    messenger_destroy(client->messenger);
    free(client);
}

static int64_t client_next_us(void *state) { return metadata_remote_next_us(((client *)state)->remote); }
static void client_tick(void *state, int64_t now_us) { metadata_remote_tick(((client *)state)->remote, now_us); }

static void *sim_open(void) {
    static const sim_program asker = {"client", client_start, client_stop, client_next_us, client_tick};
    sim_world *world = xcalloc(1, sizeof *world);
    world->options = scenario_options_of(1, NULL);
    world->sim = sim_create(&world->options);
    world->metadata = sim_node_add(world->sim, "keeper", &sim_metadata_program, NULL);
    world->client = sim_node_add(world->sim, "client", &asker, world);
    sim_node_start(world->metadata);
    sim_node_start(world->client);
    return world;
}

static void sim_close(void *self) {
    sim_world *world = self;
    scenario_result result;
    sim_finish(world->sim, &result);
    free(world);
}

static metadata_store sim_ask(void *self) {
    return metadata_remote_metadata(((client *)sim_node_state(((sim_world *)self)->client))->remote);
}
static int64_t sim_time_us(void *self) { return sim_node_now_us(((sim_world *)self)->client); }
static void sim_pass(void *self, int64_t us) {
    sim *sim = ((sim_world *)self)->sim;
    assert_true(sim_run(sim, sim_now_us(sim) + us));
}
static void sim_restart(void *self) {
    sim_world *world = self;
    sim_node_crash(world->metadata, false);
    sim_node_start(world->metadata);
    sim_pass(world, SECOND_US / 2); /* time for the link to be opened again */
}

static const backend backends[] = {
    {"folder", file_open, file_close, file_ask, file_now_us, file_pass, file_restart},
    {"simulated", sim_open, sim_close, sim_ask, sim_time_us, sim_pass, sim_restart},
};

/* ---- The contract. */

typedef struct asker {
    const backend *backend;
    void *self;
    metadata_store store;
} asker;

static void pass(asker *asker, int64_t us) { asker->backend->pass(asker->self, us); }

static metadata_answer ended(asker *asker, const metadata_answer *answer) {
    if (answer->count == 0) pass(asker, SECOND_US / 4);
    assert_int_equal(answer->count, 1);
    return *answer;
}

static metadata_answer get(asker *asker, const char *key) {
    metadata_answer answer = {0};
    asker->store.ops->get(asker->store.self, key, 0, metadata_answer_done, &answer);
    assert_int_equal(answer.count, 0); /* no answer from within the operation */
    return ended(asker, &answer);
}

static metadata_answer swap(asker *asker, const char *key, uint64_t expected, const char *value, uint64_t lease) {
    metadata_answer answer = {0};
    asker->store.ops->compare_and_swap(asker->store.self, key, expected, span_of(value, strlen(value)), lease,
                                       metadata_answer_done, &answer);
    assert_int_equal(answer.count, 0);
    return ended(asker, &answer);
}

static mr_status lease(asker *asker, uint64_t number, int64_t ttl_us) {
    metadata_answer answer = {0};
    asker->store.ops->lease(asker->store.self, number, ttl_us, metadata_answer_done, &answer);
    return ended(asker, &answer).status;
}

static void versions_are_decided_once(asker *asker) {
    metadata_answer first = get(asker, "view");
    assert_int_equal(first.status, MR_OK);
    assert_int_equal(metadata_store_count(first.version), 0);
    metadata_answer one = swap(asker, "view", first.version, "one", 0);
    assert_int_equal(one.status, MR_OK);
    assert_true(one.version == first.version + 1 && one.value[0] == '\0');
    metadata_answer late = swap(asker, "view", first.version, "other", 0);
    assert_int_equal(late.status, MR_STALE);
    assert_true(late.version == one.version);
    assert_string_equal(late.value, "one");
    assert_string_equal(get(asker, "view").value, "one");
    assert_int_equal(metadata_store_count(get(asker, "else").version), 0);
    assert_int_equal(swap(asker, "", first.version, "x", 0).status, MR_INVALID);
}

static void what_is_too_large_is_refused(asker *asker) {
    char *value = xmalloc(METADATA_DB_VALUE_MAX + 2), key[METADATA_DB_KEY_MAX + 2] = {0};
    memset(value, 'x', METADATA_DB_VALUE_MAX + 1);
    memset(key, 'k', METADATA_DB_KEY_MAX + 1);
    value[METADATA_DB_VALUE_MAX + 1] = '\0';
    uint64_t first = get(asker, "large").version;
    metadata_answer large = {0}, unheard = {0}; /* requests too large to be sent end at the next tick */
    asker->store.ops->compare_and_swap(asker->store.self, "large", first, span_of(value, METADATA_DB_VALUE_MAX + 1), 0,
                                       metadata_answer_done, &large);
    asker->store.ops->compare_and_swap(asker->store.self, key, first, (span){0}, 0, metadata_answer_done, &unheard);
    assert_true(get(asker, "large").version == first);
    assert_true(large.count == 1 && large.status == MR_TOO_LARGE);
    assert_true(unheard.count == 1 && unheard.status == MR_INVALID);
    value[METADATA_DB_VALUE_MAX] = '\0'; /* the maximal size */
    assert_int_equal(swap(asker, "large", first, value, 0).status, MR_OK);
    free(value);
}

static void a_watch_waits_for_a_newer_version(asker *asker) {
    metadata_answer waits = {0}, at_once = {0}, in_vain = {0};
    uint64_t begin = get(asker, "watched").version;
    asker->store.ops->watch(asker->store.self, "watched", begin, metadata_answer_done, &waits);
    pass(asker, SECOND_US);
    assert_int_equal(waits.count, 0);
    assert_int_equal(swap(asker, "another", begin, "x", 0).status, MR_OK);
    assert_int_equal(waits.count, 0);
    assert_int_equal(swap(asker, "watched", begin, "news", 0).status, MR_OK);
    metadata_answer told = ended(asker, &waits);
    assert_true(told.status == MR_OK && told.version == begin + 1);
    assert_string_equal(told.value, "news");
    asker->store.ops->watch(asker->store.self, "watched", begin, metadata_answer_done, &at_once);
    assert_string_equal(ended(asker, &at_once).value, "news");
    asker->store.ops->watch(asker->store.self, "watched", begin + 1, metadata_answer_done, &in_vain);
    pass(asker, METADATA_REMOTE_WATCH_US + SECOND_US);
    assert_int_equal(ended(asker, &in_vain).status, MR_TIMEOUT);
}

static void what_hangs_on_a_lease_ends_with_it(asker *asker) {
    uint64_t begin = get(asker, "leader").version;
    assert_int_equal(swap(asker, "leader", begin, "me", 77).status, MR_NOT_FOUND);
    assert_int_equal(lease(asker, 0, SECOND_US), MR_INVALID);
    assert_int_equal(lease(asker, 77, METADATA_STORE_LEASE_MAX_US + 1), MR_INVALID);
    assert_int_equal(lease(asker, 77, 2 * SECOND_US), MR_OK);
    assert_int_equal(swap(asker, "leader", begin, "me", 77).status, MR_OK);
    for (int i = 0; i < 5; i++) {
        assert_int_equal(lease(asker, 77, 2 * SECOND_US), MR_OK);
        pass(asker, SECOND_US);
        assert_string_equal(get(asker, "leader").value, "me");
    }
    metadata_answer told = {0};
    asker->store.ops->watch(asker->store.self, "leader", begin + 1, metadata_answer_done, &told);
    pass(asker, 2 * SECOND_US);
    metadata_answer gone = ended(asker, &told);
    assert_true(gone.version == begin + 2 && gone.value[0] == '\0');
    assert_int_equal(swap(asker, "leader", begin + 2, "me", 77).status, MR_NOT_FOUND);
    assert_int_equal(lease(asker, 78, 2 * SECOND_US), MR_OK);
    assert_int_equal(swap(asker, "leader", begin + 2, "she", 78).status, MR_OK);
    assert_int_equal(lease(asker, 78, 0), MR_OK);
    assert_true(get(asker, "leader").version == begin + 4);
}

static void what_was_decided_outlives_the_metadata(asker *asker) {
    uint64_t begin = get(asker, "kept").version;
    assert_int_equal(lease(asker, 5, 2 * SECOND_US), MR_OK);
    assert_int_equal(swap(asker, "kept", begin, "one", 0).status, MR_OK);
    assert_int_equal(swap(asker, "leased", begin, "two", 5).status, MR_OK);
    asker->backend->restart(asker->self);
    asker->store = asker->backend->ask(asker->self);
    metadata_answer kept = get(asker, "kept");
    assert_true(kept.version == begin + 1);
    assert_string_equal(kept.value, "one");
    assert_string_equal(get(asker, "leased").value, "two");
    assert_int_equal(swap(asker, "kept", begin, "other", 0).status, MR_STALE);
    pass(asker, METADATA_DB_GRACE_US + SECOND_US); /* the process with the lease has not returned */
    assert_true(get(asker, "leased").version == begin + 2);
}

static void drive(asker *asker, election **elections, size_t count, int64_t us) {
    for (int64_t until_us = asker->backend->now_us(asker->self) + us; asker->backend->now_us(asker->self) < until_us;) {
        for (size_t i = 0; i < count; i++) election_tick(elections[i], asker->backend->now_us(asker->self));
        pass(asker, SECOND_US / 20);
    }
}

static size_t elected(election **elections, size_t count) {
    size_t number = 0;
    for (size_t i = 0; i < count; i++) number += election_phase_now(elections[i]) == ELECTION_ELECTED;
    return number;
}

static void one_of_many_is_elected(asker *asker) {
    enum { MANY = 3 };
    election *elections[MANY];
    rng rng;
    rng_init(&rng, 9);
    for (size_t i = 0; i < MANY; i++)
        elections[i] = election_begin(asker->store, &rng, "leader", "somebody", 2 * SECOND_US,
                                      asker->backend->now_us(asker->self));
    drive(asker, elections, MANY, SECOND_US);
    assert_int_equal(elected(elections, MANY), 1);
    while (election_phase_now(elections[0]) != ELECTION_ELECTED) { /* the leader becomes the first element */
        election *first = elections[0];
        memmove(elections, elections + 1, (MANY - 1) * sizeof *elections);
        elections[MANY - 1] = first;
    }
    drive(asker, elections, MANY, 10 * SECOND_US);
    assert_int_equal(election_phase_now(elections[0]), ELECTION_ELECTED);
    uint64_t term = election_term(elections[0]);
    /* The leader is paused, and then notices that another one is elected. */
    drive(asker, elections + 1, MANY - 1, 5 * SECOND_US);
    assert_int_equal(elected(elections + 1, MANY - 1), 1);
    election_tick(elections[0], asker->backend->now_us(asker->self));
    assert_int_equal(election_phase_now(elections[0]), ELECTION_LOST);
    bool second = election_phase_now(elections[1]) == ELECTION_ELECTED;
    uint64_t next = election_term(elections[second ? 1 : 2]);
    assert_true(next > term);
    election_end(elections[second ? 1 : 2]); /* leaves with a message */
    drive(asker, &elections[second ? 2 : 1], 1, SECOND_US);
    assert_true(election_term(elections[second ? 2 : 1]) > next);
    election_end(elections[second ? 2 : 1]);
    election_end(elections[0]);
    pass(asker, SECOND_US);
    assert_string_equal(get(asker, "leader").value, "");
}

static void on_every_backend(void (*contract)(asker *asker)) {
    for (size_t i = 0; i < sizeof backends / sizeof *backends; i++) {
        asker asker = {.backend = &backends[i], .self = backends[i].open()};
        asker.store = asker.backend->ask(asker.self);
        contract(&asker);
        asker.backend->close(asker.self);
    }
}

#define CONTRACT(name) \
    static void test_##name(void **state) { on_every_backend(name); }
CONTRACT(versions_are_decided_once)
CONTRACT(what_is_too_large_is_refused)
CONTRACT(a_watch_waits_for_a_newer_version)
CONTRACT(what_hangs_on_a_lease_ends_with_it)
CONTRACT(what_was_decided_outlives_the_metadata)
CONTRACT(one_of_many_is_elected)

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_versions_are_decided_once),
        cmocka_unit_test(test_what_is_too_large_is_refused),
        cmocka_unit_test(test_a_watch_waits_for_a_newer_version),
        cmocka_unit_test(test_what_hangs_on_a_lease_ends_with_it),
        cmocka_unit_test(test_what_was_decided_outlives_the_metadata),
        cmocka_unit_test(test_one_of_many_is_elected),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
