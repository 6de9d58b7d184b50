/* model_session_test.c — sessions of a model on a parameter server of processes: weights equal a twin's, bit by bit,
 * through deaths of ranks and servers. */
#include "miniray/model.h"

#include <math.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "tests/support/ps_fixture.h"
#include "tests/support/status_assert.h"
#include "tests/support/test_child.h"

enum { RANKS = 2, TENSORS = 4, WEIGHTS = 6, OTHERS = 3, STEPS = 24, PATIENCE_MS = 60000, DIES_EVERY = 5 };

#define PATIENCE_US (INT64_C(1000) * PATIENCE_MS)

static const char long_name[] = "transformer.encoder.layer.11.attention.output.LayerNorm.weight_of_a_very_deep_model";

typedef struct model { /* of a rank: two tensors to optimize, one that is frozen, one without items */
    float weights[WEIGHTS], bias[1], frozen[OTHERS];
    mr_model_tensor tensors[TENSORS];
} model;

/* Each rank begins with other weights. All numbers of these tests are exact in float32. */
static void make(model *model, uint32_t rank) {
    for (int i = 0; i < WEIGHTS; i++) model->weights[i] = (float)(100 * (int)rank + i);
    for (int i = 0; i < OTHERS; i++) model->frozen[i] = (float)(7 + (int)rank);
    model->bias[0] = (float)rank - 3;
    const mr_model_tensor tensors[TENSORS] = {
        {.name = long_name, .dtype = MR_F32, .dims = 2, .shape = {2, WEIGHTS / 2}, .data = model->weights},
        {.name = "frozen", .dtype = MR_F32, .dims = 1, .shape = {OTHERS}, .data = model->frozen, .frozen = 1},
        {.name = "empty", .dtype = MR_F32, .dims = 2, .shape = {0, 4}},
        {.name = "bias", .dtype = MR_F32, .data = model->bias}};
    memcpy(model->tensors, tensors, sizeof tensors);
}

static float gradient_of(uint32_t rank, uint64_t step, int item) {
    return (float)((rank + 1) * (step % 4 + 1)) + (float)item;
}

#define RATE 0.25f

enum { INFINITE = 9 }; /* in this step rank 1 has an infinite gradient, if `leaves_out` */

/* What the servers hold after `steps` steps of all ranks; in BSP the mean of the gradients counts, otherwise each. */
static void train_twin(model *twin, uint64_t steps, float mean, bool leaves_out) {
    make(twin, 0);
    for (uint64_t step = 0; step < steps; step++)
        for (uint32_t rank = 0; rank < RANKS; rank++) {
            bool alone = leaves_out && step == INFINITE;
            float share = !alone ? mean : rank == 0 ? 1 : 0;
            for (int i = 0; i < WEIGHTS; i++) twin->weights[i] -= RATE * share * gradient_of(rank, step, i);
            twin->bias[0] -= RATE * share * gradient_of(rank, step, 0);
        }
}

static bool same(const model *one, const model *other) {
    return memcmp(one->weights, other->weights, sizeof one->weights) == 0 && one->bias[0] == other->bias[0] &&
           memcmp(one->frozen, other->frozen, sizeof one->frozen) == 0;
}

static const mr_ps_table_options table = {.size = sizeof table, .optimizer = "sgd", .rate = RATE};

static const char about_text[] = "a model of four tensors";

static mr_status open_session(mr_ps *ps, const model *model, mr_model_session **out) {
    const mr_span about = {about_text, sizeof about_text};
    return mr_model_session_open(ps, model->tensors, TENSORS,
                                 &MR_OPTIONS(mr_model_session_options, .table = &table, .about = about), PATIENCE_US,
                                 out);
}

static mr_status push(mr_model_session *session, uint32_t rank, uint64_t step, bool finite) {
    static float weights[WEIGHTS], bias;
    const void *const gradients[TENSORS] = {weights, NULL, NULL, &bias};
    for (int i = 0; i < WEIGHTS; i++) weights[i] = gradient_of(rank, step, i);
    bias = finite ? gradient_of(rank, step, 0) : INFINITY;
    return mr_model_session_push(session, gradients, NULL, PATIENCE_US);
}

/* ---- A rank. */

typedef struct part {
    ps_fixture *fixture;
    uint32_t rank;
    uint64_t steps;
    uint64_t dies; /* in this step, before its push; UINT64_MAX: never */
    bool leaves;   /* before the others have ended */
    bool leaves_out;
} part;

static mr_status train(const part *part, mr_model_session *session) {
    mr_status status;
    uint64_t step;
    while ((status = mr_model_session_begin(session, PATIENCE_US, &step)) == MR_OK && step < part->steps) {
        MR_TRY(mr_model_session_pull(session, NULL, PATIENCE_US));
        __atomic_store_n(&part->fixture->progress[part->rank], step + 1, __ATOMIC_RELEASE);
        if (step == part->dies) kill(getpid(), SIGKILL);
        MR_TRY(push(session, part->rank, step, !part->leaves_out || part->rank == 0 || step != INFINITE));
    }
    return status == MR_OK ? mr_model_session_pull(session, NULL, PATIENCE_US) : status;
}

static int work(void *argument) {
    const part *part = argument;
    mr_ps *ps;
    mr_model_session *session;
    model model, twin;
    make(&model, part->rank);
    TEST_CHILD_CHECK(mr_ps_connect(part->fixture->address, (int)part->rank, PS_FIXTURE_PATIENCE_US, &ps) == MR_OK);
    mr_status status = open_session(ps, &model, &session);
    if (status == MR_OK) status = train(part, session);
    if (status == MR_OK && part->leaves) status = mr_model_session_leave(session, PATIENCE_US);
    if (status != MR_OK) fprintf(stderr, "rank %u: %s\n", part->rank, mr_last_error());
    TEST_CHILD_CHECK(status == MR_OK);
    train_twin(&twin, part->steps, 0.5f, part->leaves_out);
    TEST_CHILD_CHECK(mr_model_session_skipped(session) == (part->leaves_out && part->rank == 1));
    if (part->fixture->consistency == MR_PS_BSP && !part->leaves && part->steps == STEPS) {
        for (int i = 0; i < WEIGHTS && !same(&model, &twin); i++)
            fprintf(stderr, "%g, not %g\n", model.weights[i], twin.weights[i]);
        TEST_CHILD_CHECK(same(&model, &twin));
    }
    mr_model_session_close(session, PATIENCE_US);
    mr_ps_close(ps);
    return 0;
}

static void start(ps_fixture *fixture) {
    assert_true(ps_fixture_init(fixture));
    assert_true(ps_fixture_start_scheduler(fixture));
    for (uint32_t i = 0; i < fixture->servers; i++) ps_fixture_start_server(fixture, i);
}

static void train_together(bool leaves_out) {
    ps_fixture fixture = {.servers = 2, .workers = RANKS, .slots = 4, .copies = 1, .consistency = MR_PS_BSP};
    start(&fixture);
    part parts[RANKS];
    for (uint32_t i = 0; i < RANKS; i++) {
        parts[i] = (part){&fixture, i, STEPS, UINT64_MAX, false, leaves_out};
        fixture.worker[i] = test_child_start(work, &parts[i]);
    }
    for (uint32_t i = 0; i < RANKS; i++) assert_int_equal(test_child_wait(fixture.worker[i], PATIENCE_MS), 0);
    memset(fixture.worker, 0, sizeof fixture.worker);
    assert_true(ps_fixture_fini(&fixture));
}

static void the_ranks_train_one_model(void **state) { train_together(false); }
static void a_rank_with_an_infinite_gradient_is_left_out(void **state) { train_together(true); }

/* Rank 1 dies in every fifth step, and another process continues in that step. */
static void a_killed_rank_changes_no_bit(void **state) {
    ps_fixture fixture = {.servers = 2, .workers = RANKS, .slots = 4, .copies = 1, .consistency = MR_PS_BSP};
    start(&fixture);
    part stays = {&fixture, 0, STEPS, UINT64_MAX, false, false}, dies = {&fixture, 1, STEPS, 0, false, false};
    fixture.worker[0] = test_child_start(work, &stays);
    for (; dies.dies < STEPS; dies.dies += DIES_EVERY) {
        assert_int_equal(test_child_run(work, &dies, PATIENCE_MS), -SIGKILL);
        assert_int_equal(fixture.progress[1], dies.dies + 1);
        fixture.killed++;
    }
    dies.dies = UINT64_MAX;
    assert_int_equal(test_child_run(work, &dies, PATIENCE_MS), 0);
    assert_int_equal(test_child_wait(fixture.worker[0], PATIENCE_MS), 0);
    fixture.worker[0] = 0;
    assert_true(ps_fixture_fini(&fixture));
}

static void a_rank_with_fewer_steps_leaves(void **state) {
    ps_fixture fixture = {.servers = 1, .workers = RANKS, .slots = 4, .copies = 1, .consistency = MR_PS_BSP};
    start(&fixture);
    part stays = {&fixture, 0, STEPS, UINT64_MAX, true, false},
         goes = {&fixture, 1, STEPS / 4, UINT64_MAX, true, false};
    fixture.worker[0] = test_child_start(work, &stays);
    assert_int_equal(test_child_run(work, &goes, PATIENCE_MS), 0);
    assert_int_equal(test_child_wait(fixture.worker[0], PATIENCE_MS), 0);
    fixture.worker[0] = 0;
    assert_true(ps_fixture_fini(&fixture));
}

/* ---- Without rounds, in this process. */

typedef struct world {
    ps_fixture fixture;
    mr_ps *ps;
} world;

static int setup(void **state) {
    static world world;
    world.fixture = (ps_fixture){.servers = 1, .workers = RANKS, .slots = 4, .copies = 1, .consistency = MR_PS_ASP};
    *state = &world;
    if (!ps_fixture_init(&world.fixture) || !ps_fixture_start_scheduler(&world.fixture)) return -1;
    ps_fixture_start_server(&world.fixture, 0);
    world.ps = ps_fixture_connect(&world.fixture, 0);
    return world.ps == NULL ? -1 : 0;
}

static int teardown(void **state) {
    world *world = *state;
    mr_ps_close(world->ps);
    return ps_fixture_fini(&world->fixture) ? 0 : -1;
}

static void each_push_counts_without_rounds(void **state) {
    world *world = *state;
    mr_ps *other = ps_fixture_connect(&world->fixture, 1);
    mr_model_session *sessions[RANKS];
    model models[RANKS], twin;
    uint64_t step;
    for (uint32_t i = 0; i < RANKS; i++) {
        make(&models[i], i);
        must(open_session(i == 0 ? world->ps : other, &models[i], &sessions[i]));
    }
    for (uint32_t i = 0; i < RANKS; i++) must(mr_model_session_begin(sessions[i], PATIENCE_US, &step));
    train_twin(&twin, 0, 1, false);
    assert_true(same(&models[1], &twin)); /* rank 0's weights, the frozen ones too */
    for (uint64_t i = 0; i < STEPS; i++)
        for (uint32_t rank = 0; rank < RANKS; rank++) {
            must(mr_model_session_begin(sessions[rank], PATIENCE_US, &step));
            assert_int_equal(step, i);
            must(mr_model_session_pull(sessions[rank], NULL, PATIENCE_US));
            must(push(sessions[rank], rank, step, true));
        }
    train_twin(&twin, STEPS, 1, false);
    for (uint32_t rank = 0; rank < RANKS; rank++) must(mr_model_session_begin(sessions[rank], PATIENCE_US, &step));
    for (uint32_t rank = 0; rank < RANKS; rank++) {
        must(mr_model_session_pull(sessions[rank], NULL, PATIENCE_US));
        assert_true(same(&models[rank], &twin));
    }
    must(mr_model_session_leave(sessions[1], PATIENCE_US)); /* the open step is not ended */
    must(mr_model_session_begin(sessions[1], PATIENCE_US, &step));
    assert_int_equal(step, STEPS);
    must(mr_model_session_leave(sessions[1], PATIENCE_US));
    mr_model_session_close(sessions[1], PATIENCE_US);
    mr_ps_close(other);
    assert_int_equal(push(sessions[0], 0, step, true), MR_OK);
    assert_int_equal(push(sessions[0], 0, step, true), MR_STALE); /* no step is open */
    assert_int_equal(mr_model_session_pull(sessions[0], NULL, PATIENCE_US), MR_STALE);
    assert_non_null(strstr(mr_last_error(), "no step of model 'model' is open"));
    mr_model_session_close(sessions[0], PATIENCE_US);
}

/* All servers die without a checkpoint: the session returns MR_STALE, and training continues with the weights of rank
 * 0. */
static void a_loss_is_reported_and_training_continues(void **state) {
    world *world = *state;
    mr_model_session *session;
    model model, before;
    uint64_t step;
    make(&model, 0);
    must(open_session(world->ps, &model, &session));
    must(mr_model_session_begin(session, PATIENCE_US, &step));
    must(push(session, 0, step, true));
    must(mr_model_session_begin(session, PATIENCE_US, &step));
    must(mr_model_session_pull(session, NULL, PATIENCE_US));
    before = model;
    ps_fixture_kill(&world->fixture, &world->fixture.server[0]);
    ps_fixture_start_server(&world->fixture, 0);
    mr_status status;
    while ((status = mr_model_session_pull(session, NULL, PATIENCE_US)) == MR_OK) usleep(1000);
    assert_int_equal(status, MR_STALE);
    must(mr_model_session_begin(session, PATIENCE_US, &step));
    assert_true(same(&model, &before));
    must(push(session, 0, 1, true));
    must(mr_model_session_begin(session, PATIENCE_US, &step));
    must(mr_model_session_pull(session, NULL, PATIENCE_US));
    for (int i = 0; i < WEIGHTS; i++) assert_true(model.weights[i] == before.weights[i] - RATE * gradient_of(0, 1, i));
    mr_model_session_close(session, PATIENCE_US);
}

/* A model in bfloat16 on servers that hold float32, and a gradient that is not finite: the other tensor of that step
 * does not learn from it either. */
static void a_model_may_be_in_half_precision(void **state) {
    world *world = *state;
    uint16_t weights[2] = {0x3f80, 0xc000}, gradient[2] = {0x3f80, 0x4000}; /* 1 and -2; 1 and 2 */
    float bias = 4, by_bias = 1;
    const mr_model_tensor tensors[] = {{.name = "bias", .dtype = MR_F32, .data = &bias},
                                       {.name = "w", .dtype = MR_BF16, .dims = 1, .shape = {2}, .data = weights}};
    const void *const gradients[] = {&by_bias, gradient};
    const mr_ps_table_options half =
        MR_OPTIONS(mr_ps_table_options, .optimizer = "sgd", .rate = RATE, .precision = "bf16");
    mr_model_session *session;
    uint64_t step;
    must(mr_model_session_open(world->ps, tensors, 2, &MR_OPTIONS(mr_model_session_options, .table = &half),
                               PATIENCE_US, &session));
    for (int i = 0; i < 2; i++) {
        must(mr_model_session_begin(session, PATIENCE_US, &step));
        must(mr_model_session_push(session, gradients, NULL, PATIENCE_US));
        must(mr_model_session_begin(session, PATIENCE_US, &step));
        gradient[0] = 0x7f80; /* infinity, in the second push */
    }
    must(mr_model_session_pull(session, NULL, PATIENCE_US));
    assert_int_equal(weights[0], 0x3f40); /* 0.75 */
    assert_int_equal(weights[1], 0xc020); /* -2.5 */
    assert_true(bias == 3.75f);
    assert_int_equal(mr_model_session_skipped(session), 1);
    mr_model_session_close(session, PATIENCE_US);
}

static void expect_version(mr_model_session *session, uint64_t wanted) {
    uint64_t step, version;
    must(mr_model_session_begin(session, PATIENCE_US, &step));
    must(mr_model_session_version(session, PATIENCE_US, &version));
    assert_int_equal(version, wanted);
}

/* The pulls of one step go into other memory, frozen weights too, and back; a skipped step is none of the version. */
static void a_pull_may_change_the_memory(void **state) {
    world *world = *state;
    mr_model_session *session;
    model model, other, twin;
    uint64_t step;
    make(&model, 0);
    make(&other, 1);
    must(open_session(world->ps, &model, &session));
    expect_version(session, 0);
    must(push(session, 0, 0, true));
    expect_version(session, 1);
    void *const out[TENSORS] = {other.weights, other.frozen, NULL, other.bias};
    must(mr_model_session_pull(session, out, PATIENCE_US));
    mr_ps_table *state_table;
    int64_t about[1 + sizeof about_text / sizeof(int64_t)];
    const uint64_t key = 2;
    const uint32_t length = sizeof about / sizeof *about;
    must(mr_ps_table_open(world->ps, "model.state", PATIENCE_US, &state_table));
    must(mr_ps_pull(state_table, &key, 1, about, &length, NULL, NULL));
    mr_ps_table_free(state_table);
    assert_int_equal(about[0], sizeof about_text);
    assert_memory_equal(about + 1, about_text, sizeof about_text);
    make(&twin, 0);
    assert_true(same(&model, &twin)); /* not written to any more */
    for (int i = 0; i < WEIGHTS; i++) twin.weights[i] -= RATE * gradient_of(0, 0, i);
    twin.bias[0] -= RATE * gradient_of(0, 0, 0);
    assert_true(same(&other, &twin));
    must(mr_model_session_skip(session, PATIENCE_US));
    assert_int_equal(mr_model_session_skipped(session), 1);
    expect_version(session, 1);
    /* a push with a learning rate of its own, of which only the bias has a gradient */
    const float by_bias = 8;
    const void *const gradients[TENSORS] = {NULL, NULL, NULL, &by_bias};
    must(mr_model_session_push(session, gradients, &MR_OPTIONS(mr_model_push_options, .rate = 2 * RATE), PATIENCE_US));
    expect_version(session, 2);
    void *const none[TENSORS] = {NULL};
    must(mr_model_session_pull(session, none, PATIENCE_US));
    assert_true(same(&other, &twin));
    mr_model_session_close(session, PATIENCE_US);
    assert_int_equal(mr_model_session_open(world->ps, model.tensors, TENSORS, NULL, PATIENCE_US, &session), MR_EXISTS);
    must(open_session(world->ps, &model, &session)); /* another session of the same rank */
    must(mr_model_session_begin(session, PATIENCE_US, &step));
    assert_true(model.bias[0] == twin.bias[0] - 2 * RATE * by_bias);
    mr_model_session_close(session, PATIENCE_US);
}

/* Calls with short timeouts, made again, do what one call does; rank 1 waits for rank 0, which has no weights at first.
 */
static void a_call_continues_after_a_timeout(void **state) {
    world *world = *state;
    enum { SHORT_US = 300 };
    mr_ps *other = ps_fixture_connect(&world->fixture, 1);
    mr_model_session *sessions[RANKS];
    mr_status status;
    model models[RANKS], empty, twin;
    uint64_t step;
    make(&empty, 0);
    for (int i = 0; i < TENSORS; i++) empty.tensors[i].data = NULL;
    for (uint32_t i = 0; i < RANKS; i++) make(&models[i], i);
    must(open_session(other, &models[1], &sessions[1]));
    for (int i = 0; i < 20; i++) assert_int_equal(mr_model_session_begin(sessions[1], SHORT_US, &step), MR_TIMEOUT);
    do assert_int_equal(mr_model_session_begin(sessions[1], 100 * SHORT_US, &step), MR_TIMEOUT);
    while (strstr(mr_last_error(), "rank 0 has not set the weights of model 'model'") == NULL); /* or a pull is late */
    must(open_session(world->ps, &empty, &sessions[0]));
    assert_int_equal(mr_model_session_begin(sessions[0], PATIENCE_US, &step), MR_DENIED);
    assert_non_null(strstr(mr_last_error(), "rank 0 has no memory with weights of tensor 0"));
    mr_model_session_close(sessions[0], PATIENCE_US);
    must(open_session(world->ps, &models[0], &sessions[0]));
    train_twin(&twin, 0, 1, false);
    for (uint32_t i = 0; i < RANKS; i++) {
        while ((status = mr_model_session_begin(sessions[i], SHORT_US, &step)) == MR_TIMEOUT) continue;
        must(status);
        assert_int_equal(step, 0);
        assert_true(same(&models[i], &twin));
        while ((status = mr_model_session_pull(sessions[i], NULL, SHORT_US)) == MR_TIMEOUT) continue;
        must(status);
    }
    for (uint32_t i = 0; i < RANKS; i++) mr_model_session_close(sessions[i], PATIENCE_US);
    mr_ps_close(other);
}

/* ---- Wrong arguments. */

static void refused(const world *world, const mr_model_tensor *tensors, size_t count,
                    const mr_ps_table_options *options, const char *text) {
    mr_model_session *session;
    assert_int_equal(mr_model_session_open(world->ps, tensors, count,
                                           &MR_OPTIONS(mr_model_session_options, .table = options), PATIENCE_US,
                                           &session),
                     MR_INVALID);
    assert_null(session);
    if (strstr(mr_last_error(), text) == NULL) fail_msg("%s", mr_last_error());
}

static void wrong_arguments_are_refused(void **state) {
    const world *world = *state;
    model model;
    make(&model, 0);
    mr_model_tensor bad = model.tensors[0];
    refused(world, model.tensors, 0, NULL, "a model of 0 tensors: it must have 1 to 1000000");
    refused(world, &model.tensors[1], 2, NULL, "no tensor to optimize");
    bad.name = NULL;
    refused(world, &bad, 1, NULL, "tensor 0 has no name");
    bad = (mr_model_tensor){.name = "counts", .dtype = MR_I64, .data = model.bias};
    refused(world, &bad, 1, NULL, "tensor 'counts' is not float32, float16 or bfloat16");
    refused(world, model.tensors, TENSORS, &MR_OPTIONS(mr_ps_table_options, .initializer = "normal:0:1"), "of rank 0");
    bad = (mr_model_tensor){.name = "w", .dtype = MR_F32, .dims = 1, .shape = {-1}, .data = model.bias};
    refused(world, &bad, 1, NULL, "dimension 0 is -1");
    bad = (mr_model_tensor){.name = "w", .dtype = MR_F32, .dims = MR_TENSOR_DIMS_MAX + 1, .data = model.bias};
    refused(world, &bad, 1, NULL, "at most 8");
    bad = (mr_model_tensor){.name = "w", .dtype = MR_F32, .dims = 2, .shape = {INT64_MAX, 4}, .data = model.bias};
    refused(world, &bad, 1, NULL, "more items than memory");
    refused(world, model.tensors, TENSORS, &MR_OPTIONS(mr_ps_table_options, .kind = MR_PS_VECTORS),
            "must not set kind");
    refused(world, model.tensors, TENSORS, &MR_OPTIONS(mr_ps_table_options, .optimizer = "adma"), "did you mean adam");
    refused(world, (mr_model_tensor[]){model.tensors[3], model.tensors[3]}, 2, NULL, "bias");
    mr_model_session *session;
    uint64_t step;
    must(open_session(world->ps, &model, &session));
    must(mr_model_session_begin(session, PATIENCE_US, &step));
    const void *const gradients[TENSORS] = {NULL, model.frozen, NULL, NULL};
    assert_int_equal(mr_model_session_push(session, gradients, NULL, PATIENCE_US), MR_INVALID);
    assert_non_null(strstr(mr_last_error(), "tensor 1 is frozen"));
    must(push(session, 0, step, true)); /* the step is still open */
    mr_model_session_close(session, PATIENCE_US);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_ranks_train_one_model),
        cmocka_unit_test(a_rank_with_an_infinite_gradient_is_left_out),
        cmocka_unit_test(a_killed_rank_changes_no_bit),
        cmocka_unit_test(a_rank_with_fewer_steps_leaves),
        cmocka_unit_test_setup_teardown(each_push_counts_without_rounds, setup, teardown),
        cmocka_unit_test_setup_teardown(a_loss_is_reported_and_training_continues, setup, teardown),
        cmocka_unit_test_setup_teardown(a_model_may_be_in_half_precision, setup, teardown),
        cmocka_unit_test_setup_teardown(a_pull_may_change_the_memory, setup, teardown),
        cmocka_unit_test_setup_teardown(a_call_continues_after_a_timeout, setup, teardown),
        cmocka_unit_test_setup_teardown(wrong_arguments_are_refused, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
