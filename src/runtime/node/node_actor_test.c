/* node_actor_test.c — every transition of the diagram in node_actor.h, with a host that only records its calls. */
#include "runtime/node/node_actor.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "runtime/refs/attachment.h"

typedef struct fixture {
    node_actors actors;
    value_pack *args;
    uint64_t next_ticket;
    int requests, forgets, starts, kills, dismissals, tells, deaths;
    uint64_t forgotten, killed, dismissed; /* of the last call */
    uint32_t start;
    int told[16]; /* answers per token */
    node_actor_state told_state;
    uint64_t told_process;
    struct node_kept *kept; /* what the host keeps for an actor */
} fixture;

static uint64_t host_request(void *host, node_actor *actor) {
    fixture *fixture = host;
    assert_int_equal(actor->state, NODE_ACTOR_PENDING);
    assert_non_null(actor->args);
    fixture->requests++;
    return fixture->next_ticket++;
}

static void host_forget(void *host, node_actor *actor, uint64_t ticket) {
    fixture *fixture = host;
    fixture->forgets++;
    fixture->forgotten = ticket;
}

static void host_start(void *host, node_actor *actor) {
    fixture *fixture = host;
    assert_int_equal(actor->state, NODE_ACTOR_STARTING);
    assert_non_null(actor->args);
    fixture->starts++;
    fixture->start = actor->starts;
}

static void host_kill(void *host, uint64_t process) {
    fixture *fixture = host;
    fixture->kills++;
    fixture->killed = process;
}

static void host_dismiss(void *host, uint64_t process) {
    fixture *fixture = host;
    fixture->dismissals++;
    fixture->dismissed = process;
}

static void host_tell(void *host, rpc_call_token token, node_actor *actor) {
    fixture *fixture = host;
    assert_true(actor->state == NODE_ACTOR_ALIVE || actor->state == NODE_ACTOR_DEAD);
    assert_true((actor->dead != NULL) == (actor->state == NODE_ACTOR_DEAD));
    fixture->tells++;
    fixture->told[token.number]++;
    fixture->told_state = actor->state;
    fixture->told_process = actor->process;
}

static void host_died(void *host, node_actor *actor) {
    assert_int_equal(actor->state, NODE_ACTOR_DEAD);
    ((fixture *)host)->deaths++;
}

static void host_let_go(void *host, struct node_kept *kept) {
    fixture *fixture = host;
    assert_ptr_equal(kept, fixture->kept);
    fixture->kept = NULL;
}

static const node_actor_ops ops = {host_request, host_forget, host_start, host_kill,
                                   host_dismiss, host_tell,   host_died,  host_let_go};

static int setup(void **state) {
    fixture *fixture = calloc(1, sizeof *fixture);
    node_actors_init(&fixture->actors, &ops, fixture);
    fixture->next_ticket = 50;
    assert_int_equal(value_pack_create(NULL, 0, &fixture->args), MR_OK);
    *state = fixture;
    return 0;
}

static int teardown(void **state) {
    fixture *fixture = *state;
    node_actors_fini(&fixture->actors);
    int shared = fixture->args->refs != 1;
    value_pack_unref(fixture->args);
    free(fixture);
    return shared;
}

static const mr_actor first = {{1, 1}};

static mr_status create(fixture *fixture, mr_actor id, const char *name, uint32_t restarts) {
    node_actor_plan plan = {.id = id,
                            .class_name = span_of("Counter", 7),
                            .name = span_of(name, strlen(name)),
                            .restarts = restarts,
                            .args = fixture->args};
    return node_actor_create(&fixture->actors, &plan);
}

static node_actor *created(fixture *fixture, uint32_t restarts) {
    assert_int_equal(create(fixture, first, "", restarts), MR_OK);
    return node_actor_find(&fixture->actors, first);
}

static void where(fixture *fixture, node_actor *actor, uint64_t number) {
    node_actor_where(&fixture->actors, actor, (rpc_call_token){.number = number});
}

static void gone(fixture *fixture, uint64_t process) {
    cause why = {0};
    cause_set(&why, MR_PEER_DIED, "process %d was killed", (int)process);
    node_actor_process_gone(&fixture->actors, process, &why);
}

static void make_alive(fixture *fixture, node_actor *actor, uint64_t process) {
    node_actor_granted(&fixture->actors, actor, process);
    node_actor_created(&fixture->actors, actor->id, actor->starts, NULL);
    assert_int_equal(actor->state, NODE_ACTOR_ALIVE);
}

static void an_actor_comes_to_life(void **state) {
    fixture *fixture = *state;
    node_actor *actor = created(fixture, 0);
    assert_true(actor->state == NODE_ACTOR_PENDING && actor->ticket == 50 && fixture->requests == 1);
    assert_ptr_equal(node_actor_ticket(&fixture->actors, 50), actor);
    assert_null(node_actor_ticket(&fixture->actors, 51));
    where(fixture, actor, 1);
    node_actor_granted(&fixture->actors, actor, 101);
    assert_true(actor->state == NODE_ACTOR_STARTING && actor->process == 101 && fixture->starts == 1);
    assert_null(node_actor_ticket(&fixture->actors, 50));
    where(fixture, actor, 2);
    assert_int_equal(fixture->tells, 0);
    node_actor_created(&fixture->actors, first, fixture->start, NULL);
    assert_true(actor->state == NODE_ACTOR_ALIVE && fixture->told_process == 101);
    where(fixture, actor, 3);
    node_actor_created(&fixture->actors, first, fixture->start, NULL); /* a repeated report has no effect */
    for (int i = 1; i <= 3; i++) assert_int_equal(fixture->told[i], 1);
    assert_int_equal(fixture->tells, 3);
    assert_int_equal(fixture->kills + fixture->forgets, 0);
}

static void one_that_cannot_be_created_is_dead(void **state) {
    fixture *fixture = *state;
    node_actor *actor = created(fixture, 5);
    where(fixture, actor, 1);
    node_actor_granted(&fixture->actors, actor, 101);
    failure *failed = failure_create(MR_INVALID, "a bad argument", "class 'Counter'", NULL);
    node_actor_created(&fixture->actors, first, 1, failed);
    failure_unref(failed);
    assert_true(actor->state == NODE_ACTOR_DEAD && fixture->told[1] == 1 && fixture->told_state == NODE_ACTOR_DEAD);
    assert_true(fixture->kills == 1 && fixture->killed == 101);
    assert_int_equal(actor->dead->code, MR_ACTOR_DIED);
    assert_string_equal(actor->dead->cause->message, "a bad argument");
    gone(fixture, 101); /* a class whose creation failed is not restarted */
    assert_true(actor->state == NODE_ACTOR_DEAD && fixture->requests == 1);
    where(fixture, actor, 2);
    assert_int_equal(fixture->told[2], 1);
}

static void a_death_without_restarts_is_the_end(void **state) {
    for (int alive = 0; alive < 2; alive++) {
        fixture *fixture = *state;
        mr_actor id = {{1, 10 + (uint64_t)alive}};
        assert_int_equal(create(fixture, id, "", 0), MR_OK);
        node_actor *actor = node_actor_find(&fixture->actors, id);
        where(fixture, actor, (uint64_t)alive);
        node_actor_granted(&fixture->actors, actor, 101);
        if (alive) node_actor_created(&fixture->actors, id, 1, NULL);
        gone(fixture, 999);
        gone(fixture, 0);
        assert_int_equal(actor->state, alive ? NODE_ACTOR_ALIVE : NODE_ACTOR_STARTING);
        gone(fixture, 101);
        assert_int_equal(actor->state, NODE_ACTOR_DEAD);
        assert_non_null(strstr(actor->dead->message, "process 101 was killed"));
        assert_int_equal(fixture->told[alive], 1);
        assert_int_equal(fixture->kills, 0); /* the process is gone already */
        node_actor_created(&fixture->actors, id, 1, NULL);
        assert_int_equal(actor->state, NODE_ACTOR_DEAD);
        gone(fixture, 101);
    }
}

static void a_death_with_restarts_is_a_new_start(void **state) {
    fixture *fixture = *state;
    node_actor *actor = created(fixture, 2);
    make_alive(fixture, actor, 101);
    gone(fixture, 101);
    assert_true(actor->state == NODE_ACTOR_PENDING && actor->ticket == 51 && actor->process == 0);
    where(fixture, actor, 1);
    node_actor_granted(&fixture->actors, actor, 102);
    node_actor_created(&fixture->actors, first, 1, NULL); /* a late answer to the first start */
    assert_int_equal(actor->state, NODE_ACTOR_STARTING);
    assert_int_equal(fixture->told[1], 0);
    failure *failed = failure_create(MR_PEER_DIED, "lost", "", NULL);
    node_actor_created(&fixture->actors, first, 1, failed);
    failure_unref(failed);
    assert_int_equal(actor->state, NODE_ACTOR_STARTING);
    gone(fixture, 102); /* the process ends during its start */
    assert_int_equal(actor->state, NODE_ACTOR_PENDING);
    gone(fixture, 101); /* the end of a former process has no effect */
    assert_int_equal(actor->state, NODE_ACTOR_PENDING);
    make_alive(fixture, actor, 103);
    assert_true(fixture->told[1] == 1 && fixture->told_process == 103);
    gone(fixture, 103);
    assert_int_equal(actor->state, NODE_ACTOR_DEAD);
    assert_int_equal(fixture->requests, 3);
}

static void one_can_be_killed_in_every_state(void **state) {
    fixture *fixture = *state;
    for (uint64_t when = NODE_ACTOR_PENDING; when <= NODE_ACTOR_ALIVE; when++) {
        mr_actor id = {{2, when}};
        int forgets = fixture->forgets, kills = fixture->kills;
        assert_int_equal(create(fixture, id, "", 5), MR_OK);
        node_actor *actor = node_actor_find(&fixture->actors, id);
        uint64_t ticket = actor->ticket, process = 200 + when;
        if (when > NODE_ACTOR_PENDING) node_actor_granted(&fixture->actors, actor, process);
        if (when == NODE_ACTOR_ALIVE) node_actor_created(&fixture->actors, id, 1, NULL);
        if (when < NODE_ACTOR_ALIVE) where(fixture, actor, when);
        node_actor_kill(&fixture->actors, actor);
        node_actor_kill(&fixture->actors, actor);
        assert_int_equal(actor->state, NODE_ACTOR_DEAD);
        assert_non_null(strstr(actor->dead->message, "killed by a program (kill)"));
        if (when < NODE_ACTOR_ALIVE) assert_int_equal(fixture->told[when], 1);
        assert_int_equal(fixture->forgets - forgets, when == NODE_ACTOR_PENDING);
        assert_int_equal(fixture->kills - kills, when != NODE_ACTOR_PENDING);
        assert_true(when == NODE_ACTOR_PENDING ? fixture->forgotten == ticket : fixture->killed == process);
        assert_null(node_actor_ticket(&fixture->actors, ticket));
        int requests = fixture->requests;
        gone(fixture, process); /* killed: not restarted, although restarts are left */
        assert_true(actor->state == NODE_ACTOR_DEAD && fixture->requests == requests);
    }
}

static void names_are_for_one_that_lives(void **state) {
    fixture *fixture = *state;
    mr_actor second = {{1, 2}}, third = {{1, 3}}, fourth = {{1, 4}};
    assert_int_equal(create(fixture, first, "boss", 0), MR_OK);
    assert_int_equal(create(fixture, second, "boss", 0), MR_EXISTS);
    assert_non_null(strstr(mr_last_error(), "'boss'"));
    assert_null(node_actor_find(&fixture->actors, second));
    assert_int_equal(create(fixture, first, "other", 0), MR_EXISTS);
    assert_int_equal(create(fixture, third, "", 0), MR_OK);
    assert_int_equal(create(fixture, fourth, "", 0), MR_OK); /* any number of actors may have no name */
    assert_null(node_actor_named(&fixture->actors, (span){0}, span_of("", 0)));
    assert_null(node_actor_named(&fixture->actors, (span){0}, span_of("bos", 3)));
    char hint[NEAREST_NAME_HINT_MAX];
    assert_string_equal(node_actor_hint(&fixture->actors, (span){0}, span_of("bos", 3), hint), "; did you mean boss?");
    assert_string_equal(node_actor_hint(&fixture->actors, span_of("other", 5), span_of("bos", 3), hint), "");
    node_actor *boss = node_actor_named(&fixture->actors, (span){0}, span_of("boss", 4));
    assert_ptr_equal(boss, node_actor_find(&fixture->actors, first));
    node_actor_kill(&fixture->actors, boss);
    assert_null(node_actor_named(&fixture->actors, (span){0}, span_of("boss", 4)));
    assert_int_equal(create(fixture, second, "boss", 0), MR_OK);
    assert_ptr_equal(node_actor_named(&fixture->actors, (span){0}, span_of("boss", 4)),
                     node_actor_find(&fixture->actors, second));
}

static void askers_may_be_left_at_the_end(void **state) {
    fixture *fixture = *state;
    node_actor *actor = created(fixture, 0);
    for (uint64_t i = 0; i < 5; i++) where(fixture, actor, i);
    node_actors_fini(&fixture->actors); /* a sanitizer detects leaks */
    assert_int_equal(fixture->tells, 0);
}

static void the_dead_are_remembered_for_a_while(void **state) {
    fixture *fixture = *state;
    for (uint64_t i = 1; i <= NODE_ACTORS_DEAD_MAX + 10; i++) {
        assert_int_equal(create(fixture, (mr_actor){{2, i}}, "ada", 0), MR_OK); /* the name is free again */
        node_actor_kill(&fixture->actors, node_actor_find(&fixture->actors, (mr_actor){{2, i}}));
    }
    for (uint64_t i = 1; i <= NODE_ACTORS_DEAD_MAX + 10; i++) {
        node_actor *actor = node_actor_find(&fixture->actors, (mr_actor){{2, i}});
        assert_int_equal(actor != NULL, i > 10);
        if (actor != NULL) where(fixture, actor, 3);
        if (actor != NULL) assert_int_equal(fixture->told_state, NODE_ACTOR_DEAD);
    }
    assert_true(list_empty(&fixture->actors.list));
    assert_int_equal(fixture->deaths, NODE_ACTORS_DEAD_MAX + 10);
}

static void an_actor_ends_with_its_last_handle(void **state) {
    fixture *fixture = *state;
    node_actor *actor = created(fixture, 3);
    make_alive(fixture, actor, 7);
    node_actor_drop(&fixture->actors, actor, 20); /* process 20 had no handle */
    node_actor_hold(&fixture->actors, actor, 20);
    node_actor_hold(&fixture->actors, actor, 20);
    node_actor_hold(&fixture->actors, actor, 21);
    node_actor_drop(&fixture->actors, actor, 20);
    node_actor_drop(&fixture->actors, actor, 20);
    assert_int_equal(actor->state, NODE_ACTOR_ALIVE);
    gone(fixture, 21); /* the end of a process releases its handles */
    assert_int_equal(actor->state, NODE_ACTOR_DEAD);
    assert_true(fixture->dismissed == 7 && fixture->dismissals == 1 && fixture->kills == 0); /* it exits by itself */
    assert_non_null(strstr(actor->dead->message, "handle"));
    node_actor_hold(&fixture->actors, actor, 20); /* no effect on a dead actor */
    assert_int_equal(fixture->actors.holders.count, 0);
}

static void an_actor_holds_the_handles_among_its_arguments(void **state) {
    fixture *fixture = *state;
    node_actor *inner = created(fixture, 0);
    make_alive(fixture, inner, 7);
    node_actor_hold(&fixture->actors, inner, 20);
    mr_arg inside = mr_handle(first), args[] = {mr_int(1), mr_list(&inside, 1)};
    const struct {
        mr_actor actor;
        uint32_t index, place;
    } row = {first, 1, ATTACHMENT_ACTOR}; /* row of the table of references in a value pack */
    value_pack_item items[] = {{.arg = &args[0]}, {.arg = &args[1]}, {.entry = {.bytes = span_of(&row, sizeof row)}}};
    value_pack *given;
    assert_int_equal(value_pack_create(items, 3, &given), MR_OK);
    value_pack_hide(given, 1);
    node_actor_plan plan = {.id = {{1, 2}}, .class_name = span_of("Outer", 5), .restarts = 1, .args = given};
    assert_int_equal(node_actor_create(&fixture->actors, &plan), MR_OK);
    value_pack_unref(given);
    node_actor_drop(&fixture->actors, inner, 20); /* the creator of both actors releases its handle */
    node_actor *outer = node_actor_find(&fixture->actors, plan.id);
    make_alive(fixture, outer, 8);
    gone(fixture, 8);
    make_alive(fixture, outer, 9); /* restarted with the same arguments */
    assert_int_equal(inner->state, NODE_ACTOR_ALIVE);
    gone(fixture, 9);
    assert_true(outer->state == NODE_ACTOR_DEAD && inner->state == NODE_ACTOR_DEAD);
    assert_int_equal(fixture->actors.holders.count, 0);
}

/* Objects that the arguments need are kept while the actor may be created again, and no longer. */
static void arguments_are_kept_while_it_may_be_created(void **state) {
    fixture *fixture = *state;
    char token;
    struct node_kept *kept = (struct node_kept *)&token; /* passed on, never dereferenced */
    node_actor_plan plan = {.id = first, .class_name = span_of("Counter", 7), .restarts = 1};
    plan.args = fixture->args;
    plan.kept = fixture->kept = kept;
    assert_int_equal(node_actor_create(&fixture->actors, &plan), MR_OK);
    node_actor *actor = node_actor_find(&fixture->actors, first);
    make_alive(fixture, actor, 7);
    assert_ptr_equal(fixture->kept, kept);
    gone(fixture, 7);
    assert_ptr_equal(fixture->kept, kept);
    make_alive(fixture, actor, 8); /* the last restart */
    assert_null(fixture->kept);
    assert_null(actor->args);
    gone(fixture, 8);
    assert_int_equal(actor->state, NODE_ACTOR_DEAD);
    plan.id.word[1] = 2;
    plan.kept = fixture->kept = kept;
    assert_int_equal(node_actor_create(&fixture->actors, &plan), MR_OK);
    node_actor_kill(&fixture->actors, node_actor_find(&fixture->actors, plan.id));
    assert_null(fixture->kept);
}

static void detached_actors_need_no_handle(void **state) {
    fixture *fixture = *state;
    node_actor *actor = created(fixture, 0);
    actor->detached = true;
    make_alive(fixture, actor, 7);
    node_actor_hold(&fixture->actors, actor, 20);
    gone(fixture, 20);
    assert_int_equal(actor->state, NODE_ACTOR_ALIVE);
    node_actor_hold(&fixture->actors, actor, 21); /* holds left at the end are freed */
}

static void a_program_takes_its_actors_along(void **state) {
    fixture *fixture = *state;
    node_actor *actors[3];
    for (uint64_t i = 0; i < 3; i++) {
        assert_int_equal(create(fixture, (mr_actor){{3, i}}, "", 1), MR_OK);
        actors[i] = node_actor_find(&fixture->actors, (mr_actor){{3, i}});
    }
    actors[1]->detached = true;
    actors[2]->program = 5;
    make_alive(fixture, actors[0], 7);
    node_actors_end_program(&fixture->actors, 0);
    assert_int_equal(actors[0]->state, NODE_ACTOR_DEAD);
    assert_true(actors[1]->state == NODE_ACTOR_PENDING && actors[2]->state == NODE_ACTOR_PENDING);
    assert_true(fixture->killed == 7 && fixture->forgets == 0);
    assert_int_equal(node_actors_give_up(&fixture->actors, 5, false, "there is no hope"), 0);
    assert_true(actors[1]->state == NODE_ACTOR_PENDING && actors[2]->state == NODE_ACTOR_DEAD);
}

static void those_with_restarts_left_wait_longer(void **state) {
    fixture *fixture = *state;
    const uint32_t restarts[] = {0, 2, MR_NO_LIMIT};
    node_actor *actors[3];
    for (uint64_t i = 0; i < 3; i++) {
        assert_int_equal(create(fixture, (mr_actor){{3, i}}, "", restarts[i]), MR_OK);
        actors[i] = node_actor_find(&fixture->actors, (mr_actor){{3, i}});
    }
    for (uint32_t i = 1; i <= 100; i++) {
        uint32_t left = node_actors_give_up(&fixture->actors, 0, true, "the machine has no memory");
        assert_int_equal(left, i <= 2 ? 2 : 1);
        assert_int_equal(actors[0]->state, NODE_ACTOR_DEAD);
        assert_int_equal(actors[1]->state, i <= 2 ? NODE_ACTOR_PENDING : NODE_ACTOR_DEAD);
    }
    make_alive(fixture, actors[2], 9);
    assert_int_equal(node_actors_give_up(&fixture->actors, 0, true, "the machine has no memory"), 0);
    for (uint64_t process = 9; process < 100; process++) {
        gone(fixture, process);
        make_alive(fixture, actors[2], process + 1);
    }
}

static void a_worker_that_cannot_be_told_costs_no_restart(void **state) {
    fixture *fixture = *state;
    node_actor *actor = created(fixture, 0);
    for (uint32_t i = 1; i < 100; i++) {
        node_actor_granted(&fixture->actors, actor, 100 + i);
        node_actor_not_told(&fixture->actors, actor->id, actor->starts - 1); /* of an earlier start: no effect */
        assert_int_equal(actor->state, NODE_ACTOR_STARTING);
        node_actor_not_told(&fixture->actors, actor->id, actor->starts);
        assert_int_equal(actor->state, NODE_ACTOR_PENDING);
        assert_int_equal(fixture->killed, 100 + i);
        gone(fixture, 100 + i); /* the process has no actor any more */
    }
    make_alive(fixture, actor, 200);
}

int main(void) {
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(an_actor_comes_to_life),
        TEST(one_that_cannot_be_created_is_dead),
        TEST(a_death_without_restarts_is_the_end),
        TEST(a_death_with_restarts_is_a_new_start),
        TEST(one_can_be_killed_in_every_state),
        TEST(names_are_for_one_that_lives),
        TEST(askers_may_be_left_at_the_end),
        TEST(the_dead_are_remembered_for_a_while),
        TEST(an_actor_ends_with_its_last_handle),
        TEST(an_actor_holds_the_handles_among_its_arguments),
        TEST(arguments_are_kept_while_it_may_be_created),
        TEST(detached_actors_need_no_handle),
        TEST(a_program_takes_its_actors_along),
        TEST(those_with_restarts_left_wait_longer),
        TEST(a_worker_that_cannot_be_told_costs_no_restart),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
