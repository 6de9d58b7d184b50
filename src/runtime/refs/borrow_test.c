/* borrow_test.c — three processes that pass references on, in every order that links allow: no object is freed while it
 * is referenced, and no hold remains at the end. */
#include "runtime/refs/borrow.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { PROCESSES = 3, SERIAL = 7, MESSAGES_MAX = 64 };

/* Process 0 owns one object. The others borrow it and send it to each other inside messages ("carriers"); the sender of
 * a carrier keeps the reference until the answer, as the caller of a call does. */

typedef enum message_kind {
    MESSAGE_BORROW,
    MESSAGE_RETURN,
    MESSAGE_WORD,
    MESSAGE_CARRIER,
    MESSAGE_ANSWER
} message_kind;

typedef struct sent_message {
    message_kind kind;
    borrow_message *message; /* the message, or the one that is answered; NULL: none */
} sent_message;

typedef struct channel { /* link from one process to another: keeps the order */
    sent_message messages[MESSAGES_MAX];
    unsigned first, last;
} channel;

typedef struct process process;

typedef struct keeping { /* receipt of a carrier: its answer waits for this gate */
    borrow_gate gate;
    process *process;
    int from;
} keeping;

struct process {
    struct world *world;
    int id;
    borrow borrow;
    bool dead;
    borrowed_ref ref; /* state of the one reference; valid while refs > 0 */
    unsigned refs;    /* references of the program, and of sent carriers without an answer */
    unsigned wanted;  /* those of `refs` that the program has */
};

typedef struct world {
    process all[PROCESSES];
    channel channels[PROCESSES][PROCESSES];
    unsigned holds; /* holds on the owner's object: of its program, its carriers, its borrowers */
    bool freed;
} world;

static void post(world *world, int from, int to, message_kind kind, borrow_message *message) {
    channel *channel = &world->channels[from][to];
    assert_true(channel->last - channel->first < MESSAGES_MAX);
    channel->messages[channel->last++ % MESSAGES_MAX] = (sent_message){kind, message};
}

static mr_status send_message(void *host, borrow_message *message) {
    process *process = host;
    assert_int_equal(message->owner, 0);
    post(process->world, process->id, 0, message->verb == BORROW ? MESSAGE_BORROW : MESSAGE_RETURN, message);
    return MR_OK;
}

static borrowed_ref *find(void *host, uint64_t owner, uint64_t serial) {
    process *process = host;
    return process->refs > 0 ? &process->ref : NULL;
}

static void drop_object(world *world) {
    assert_true(world->holds > 0);
    world->freed |= --world->holds == 0;
}

static void *hold(void *host, uint64_t serial) {
    world *world = ((process *)host)->world;
    assert_int_equal(serial, SERIAL);
    assert_false(world->freed); /* a BORROW arrives before the object is freed */
    world->holds++;
    return world;
}

static void drop(void *host, void *object) { drop_object(object); }

static const borrow_ops ops = {send_message, find, hold, drop};

static void world_open(world *world) {
    memset(world, 0, sizeof *world);
    for (int i = 0; i < PROCESSES; i++) {
        world->all[i] = (process){.world = world, .id = i};
        borrow_init(&world->all[i].borrow, &ops, &world->all[i]);
    }
    world->holds = 1;
    world->all[0].refs = world->all[0].wanted = 1;
}

static void let_go(process *process) {
    assert_true(process->refs > 0);
    process->refs--;
    if (process->id == 0)
        drop_object(process->world);
    else if (process->refs == 0)
        borrow_let_go(&process->borrow, &process->ref);
}

static void answer(borrow_gate *gate) {
    keeping *keeping = container_of(gate, struct keeping, gate);
    process *process = keeping->process;
    if (!process->dead) post(process->world, process->id, keeping->from, MESSAGE_ANSWER, NULL);
    free(keeping);
}

/* A carrier arrives; `keep`: the program keeps the reference. */
static void carrier_came(process *process, int from, bool keep) {
    keeping *keeping = calloc(1, sizeof *keeping);
    *keeping = (struct keeping){.gate.open = answer, .process = process, .from = from};
    assert_false(process->world->freed);
    if (process->id != 0 && process->refs == 0) process->ref = (borrowed_ref){.owner = 0, .serial = SERIAL};
    if (keep) {
        process->refs++;
        process->wanted++;
        if (process->id == 0)
            process->world->holds++;
        else
            borrow_keep(&process->borrow, &process->ref, &keeping->gate);
    }
    if (borrow_through(&process->borrow, &keeping->gate)) answer(&keeping->gate);
}

static void deliver(world *world, int from, int to, bool keep) {
    channel *channel = &world->channels[from][to];
    sent_message sent_message = channel->messages[channel->first++ % MESSAGES_MAX];
    process *process = &world->all[to];
    if (process->dead) return;
    switch (sent_message.kind) {
    case MESSAGE_BORROW:
        borrow_lend(&process->borrow, (uint64_t)from, sent_message.message->serials, sent_message.message->count);
        post(world, to, from, MESSAGE_WORD, sent_message.message);
        break;
    case MESSAGE_RETURN:
        borrow_take_back(&process->borrow, (uint64_t)from, sent_message.message->serials, sent_message.message->count);
        post(world, to, from, MESSAGE_WORD, sent_message.message);
        break;
    case MESSAGE_WORD: borrow_answered(&process->borrow, sent_message.message); break;
    case MESSAGE_CARRIER: carrier_came(process, from, keep); break;
    case MESSAGE_ANSWER: let_go(process); break;
    }
}

static void send_carrier(process *from, int to) {
    from->refs++; /* until the carrier is answered */
    if (from->id == 0) from->world->holds++;
    post(from->world, from->id, to, MESSAGE_CARRIER, NULL);
}

/* ---- Enumeration of the next events: the chosen one is found by counting the possible ones. */

typedef struct course {
    unsigned choice;  /* number of the chosen event */
    unsigned options; /* number of possible events, counted so far */
    unsigned sends;   /* carriers that may still be sent */
} course;

static bool chosen(course *course) { return course->options++ == course->choice; }

static void may_deliver(world *world, int from, int to, course *course) {
    channel *channel = &world->channels[from][to];
    if (channel->first == channel->last) return;
    bool carrier = channel->messages[channel->first % MESSAGES_MAX].kind == MESSAGE_CARRIER;
    bool plainly = chosen(course), keeping = carrier && chosen(course);
    if (plainly || keeping) deliver(world, from, to, keeping);
}

static void may_act(world *world, int id, course *course) {
    process *process = &world->all[id];
    if (process->dead || process->wanted == 0) return;
    bool leaves = chosen(course), sends[PROCESSES] = {false};
    for (int to = 0; to < PROCESSES && course->sends > 0; to++) sends[to] = to != id && chosen(course);
    if (leaves) {
        process->wanted--;
        let_go(process);
    }
    for (int to = 0; to < PROCESSES; to++) {
        if (!sends[to]) continue;
        course->sends--;
        send_carrier(process, to);
    }
}

/* Executes the chosen event. All options at a place are counted before one of them is executed, so that its effects are
 * not counted. */
static void step(world *world, course *course) {
    course->options = 0;
    for (int from = 0; from < PROCESSES && course->options <= course->choice; from++) {
        for (int to = 0; to < PROCESSES && course->options <= course->choice; to++)
            may_deliver(world, from, to, course);
        if (course->options <= course->choice) may_act(world, from, course);
    }
    for (int i = 0; i < PROCESSES; i++) (void)borrow_feed(&world->all[i].borrow);
}

static unsigned count_options(world *world, unsigned sends) {
    unsigned count = 0;
    for (int from = 0; from < PROCESSES; from++) {
        for (int to = 0; to < PROCESSES; to++) {
            channel *channel = &world->channels[from][to];
            if (channel->first == channel->last) continue;
            count += channel->messages[channel->first % MESSAGES_MAX].kind == MESSAGE_CARRIER ? 2 : 1;
        }
        if (!world->all[from].dead && world->all[from].wanted > 0) count += sends > 0 ? PROCESSES : 1;
    }
    return count;
}

static void world_close(world *world) {
    assert_true(world->freed);
    for (int i = 0; i < PROCESSES; i++) {
        assert_int_equal(world->all[i].borrow.borrowed, 0);
        if (!world->all[i].dead) assert_int_equal(world->all[i].refs, 0);
        borrow_fini(&world->all[i].borrow);
    }
}

static void every_order_of_events(void **state) {
    enum { STEPS_MAX = 200, SENDS = 3 };
    static unsigned choices[STEPS_MAX], options[STEPS_MAX];
    unsigned long courses = 0;
    memset(choices, 0, sizeof choices);
    for (;;) {
        static world world;
        unsigned length = 0;
        course course = {.sends = SENDS};
        world_open(&world);
        while ((options[length] = count_options(&world, course.sends)) > 0) {
            course.choice = choices[length];
            step(&world, &course);
            assert_true(++length < STEPS_MAX);
        }
        world_close(&world);
        courses++;
        while (length > 0 && choices[length - 1] + 1 >= options[length - 1]) choices[--length] = 0;
        if (length == 0 || courses == 100000) break; /* the other courses begin with other events */
        choices[length - 1]++;
    }
    assert_true(courses > 10000);
}

/* ---- Deaths: of a borrower, of an owner. The owner keeps no hold for a dead borrower. */

static void die(world *world, int id) {
    process *process = &world->all[id];
    process->dead = true;
    for (int other = 0; other < PROCESSES; other++) {
        channel *out = &world->channels[id][other], *in = &world->channels[other][id];
        out->first = out->last; /* the link is closed */
        in->first = in->last;
    }
    borrow_fini(&process->borrow);
    borrow_init(&process->borrow, &ops, process);
    borrow_borrower_gone(&world->all[0].borrow, (uint64_t)id);
}

static void a_borrower_that_dies_keeps_nothing(void **state) {
    static world world;
    course course = {.sends = 0};
    world_open(&world);
    send_carrier(&world.all[0], 1);
    deliver(&world, 0, 1, true); /* kept: a BORROW is sent before the answer */
    assert_int_equal(world.channels[1][0].last - world.channels[1][0].first, 1);
    deliver(&world, 1, 0, false); /* the owner holds the object for the borrower */
    assert_int_equal(world.all[0].borrow.borrowed, 1);
    deliver(&world, 0, 1, false); /* the answer to BORROW opens the gate: the carrier is answered */
    assert_int_equal(world.all[1].ref.state, BORROWED_REF_HELD);
    deliver(&world, 1, 0, false);
    world.all[0].wanted--;
    let_go(&world.all[0]);
    assert_false(world.freed); /* the borrower's hold */
    die(&world, 1);
    assert_true(world.freed);
    assert_int_equal(count_options(&world, course.sends), 0);
    world_close(&world);
}

static void opened(borrow_gate *gate) { gate->open = NULL; }

static void an_owner_that_dies_opens_the_gates(void **state) {
    static world world;
    borrow_gate gate = {.open = opened};
    world_open(&world);
    process *process = &world.all[1];
    process->refs = 1;
    process->ref = (borrowed_ref){.owner = 0, .serial = SERIAL};
    borrow_keep(&process->borrow, &process->ref, &gate);
    assert_false(borrow_through(&process->borrow, &gate));
    borrow_owner_gone(&process->borrow, 0);
    assert_null(gate.open);
    assert_int_equal(gate.left, 0);
    for (int i = 0; i < PROCESSES; i++) borrow_fini(&world.all[i].borrow);
}

static void many_go_in_few_messages(void **state) {
    static world world;
    enum { COUNT = 1000 };
    world_open(&world);
    process *process = &world.all[2];
    process->refs = 1;
    for (int i = 0; i < COUNT; i++) {
        borrowed_ref ref = {.owner = 0, .serial = SERIAL, .state = BORROWED_REF_HELD};
        borrow_let_go(&process->borrow, &ref);
    }
    assert_true(borrow_feed(&process->borrow));
    assert_int_equal(world.channels[2][0].last, (COUNT + BORROW_BATCH - 1) / BORROW_BATCH);
    for (int i = 0; i < PROCESSES; i++) borrow_fini(&world.all[i].borrow);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_order_of_events),
        cmocka_unit_test(a_borrower_that_dies_keeps_nothing),
        cmocka_unit_test(an_owner_that_dies_opens_the_gates),
        cmocka_unit_test(many_go_in_few_messages),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
