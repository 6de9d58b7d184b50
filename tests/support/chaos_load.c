/* chaos_load.c — see chaos_load.h. */
#include "tests/support/chaos_load.h"

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/chaos_bodies.h"
#include "tests/support/chaos_expect.h"
#include "tests/support/program_tasks.h"

enum { BATCH = 12, RETURNS = 3, LARGE_MAX = 600 * 1000 };

static size_t draw_count(chaos_load *load) { return (size_t)rng_between(&load->rng, CHAOS_LARGE_MIN, LARGE_MAX); }
static int draw_retries(chaos_load *load) { return rng_chance(&load->rng, 0.3) ? -1 : 0; }

/* ---- Acts. Each returns false on a wrong result or an error without a cause. */

static bool some_tasks(chaos_load *load) {
    mr_context *mr = load->mr;
    mr_ref refs[BATCH], first, second;
    int64_t base = (int64_t)rng_below(&load->rng, 1000);
    int count = 0;
    mr_status status = MR_OK;
    for (; status == MR_OK && count < BATCH; count += status == MR_OK) {
        const char *name = count % 4 == 0 ? "chaos_linger" : "chaos_square";
        mr_task_options options = MR_OPTIONS(mr_task_options, .max_retries = draw_retries(load));
        status = mr_task_submit(mr, name, &options, MR_ARGS(mr_int(base + count)), &refs[count]);
    }
    bool fine = chaos_is_begun(load, status);
    for (int64_t i = 0; i < count; i++)
        fine = chaos_expect_int(load, refs[i], i % 4 == 0 ? base + i : (base + i) * (base + i)) && fine;
    status = mr_call_task(mr, "chaos_square", &first, mr_int(base));
    if (status != MR_OK) return chaos_is_begun(load, status) && fine;
    status = mr_call_task(mr, "chaos_square", &second, mr_future(first));
    mr_release(mr, first);
    return (status == MR_OK ? chaos_expect_int(load, second, base * base * base * base)
                            : chaos_is_begun(load, status)) &&
           fine;
}

static bool some_returns(chaos_load *load) {
    mr_ref refs[RETURNS];
    int64_t number = (int64_t)rng_below(&load->rng, 1000);
    mr_task_options options = MR_OPTIONS(mr_task_options, .num_returns = RETURNS, .max_retries = draw_retries(load));
    mr_status status = mr_task_submit(load->mr, "chaos_split", &options, MR_ARGS(mr_int(number)), refs);
    if (status != MR_OK) return chaos_is_begun(load, status);
    bool fine = chaos_expect_int(load, refs[0], number);
    fine = chaos_expect_int(load, refs[1], number + 1) && fine;
    return chaos_expect_filled(load, refs[2], (float)number, CHAOS_LARGE_MIN) && fine;
}

static bool some_nested(chaos_load *load) {
    mr_ref ref;
    int64_t depth = (int64_t)rng_below(&load->rng, 4);
    mr_status status = mr_call_task(load->mr, "chaos_nested", &ref, mr_int(depth), mr_int(0));
    return status == MR_OK ? chaos_expect_int(load, ref, depth + 1) : chaos_is_begun(load, status);
}

/* Expects the result of a cancelled task. */
static bool expect_cancelled(chaos_load *load, mr_ref ref, int64_t expected) {
    mr_value value;
    mr_status status = mr_get(load->mr, ref, CHAOS_PATIENCE_US, &value);
    if (status == MR_OK) mr_value_release(&value);
    if (status != MR_CANCELLED) return chaos_expect_int(load, ref, expected);
    mr_release(load->mr, ref);
    load->cancelled++;
    return true;
}

static bool some_cancels(chaos_load *load) {
    enum { COUNT = 5 };
    mr_ref refs[COUNT];
    int count = 0;
    mr_status status = MR_OK;
    for (; status == MR_OK && count < COUNT; count += status == MR_OK)
        status = mr_call_task(load->mr, "chaos_nested", &refs[count], mr_int(count % 3), mr_int(count % 2));
    bool fine = chaos_is_begun(load, status);
    if (rng_chance(&load->rng, 0.5)) poll(NULL, 0, (int)rng_below(&load->rng, 5));
    for (int i = 0; i < count; i++) {
        status = rng_chance(&load->rng, 0.6) ? mr_cancel(load->mr, refs[i]) : MR_OK;
        fine = (status == MR_OK || status == MR_NOT_FOUND || chaos_is_named(load, status)) && fine;
    }
    for (int i = 0; i < count; i++) fine = expect_cancelled(load, refs[i], i % 3 + 1) && fine;
    return fine;
}

/* Fails on purpose: a task alone, a failed argument of another task, and a failed input of a join. */
static bool some_failures(chaos_load *load) {
    mr_context *mr = load->mr;
    mr_ref refs[3];
    mr_value value;
    char expected[64];
    int64_t number = (int64_t)rng_below(&load->rng, 1000);
    snprintf(expected, sizeof expected, "on purpose, %lld", (long long)number);
    mr_status status = mr_call_task(mr, "chaos_fail", &refs[0], mr_int(number));
    if (status != MR_OK) return chaos_is_begun(load, status);
    size_t count = 1;
    status = mr_call_task(mr, "chaos_square", &refs[count], mr_future(refs[0]));
    count += status == MR_OK;
    if (status == MR_OK) status = mr_join(mr, refs, 2, &refs[count]);
    count += count == 2 && status == MR_OK;
    bool fine = chaos_is_begun(load, status);
    for (size_t i = 0; i < count; i++) {
        status = mr_get(mr, refs[i], CHAOS_PATIENCE_US, &value);
        bool told = status == MR_TASK_FAILED && strstr(mr_last_error(), expected) != NULL;
        if (status == MR_OK) mr_value_release(&value);
        load->right += told;
        fine = (told || (status != MR_OK && chaos_is_named(load, status))) && fine;
        mr_release(mr, refs[i]);
    }
    return fine;
}

/* Keeps values that exceed the store's memory in total, so that some are spilled. */
static bool some_kept(chaos_load *load) {
    struct chaos_kept *kept = &load->kept[rng_below(&load->rng, CHAOS_KEPT)];
    bool fine = true;
    if (kept->count > 0) {
        mr_ref more;
        mr_status status = mr_call_task(load->mr, "chaos_enlarge", &more, mr_future(kept->ref));
        fine = status == MR_OK ? chaos_expect_filled(load, more, kept->start + 1, kept->count)
                               : chaos_is_begun(load, status);
        fine = chaos_expect_filled(load, kept->ref, kept->start, kept->count) && fine;
    }
    kept->start = (float)rng_below(&load->rng, 1000);
    kept->count = draw_count(load);
    float *data = chaos_filled(kept->start, kept->count);
    mr_status status = mr_put(load->mr, mr_vector(data, kept->count), &kept->ref);
    free(data);
    if (status != MR_OK) kept->count = 0;
    return chaos_is_begun(load, status) && fine;
}

static bool some_large(chaos_load *load) {
    size_t count = draw_count(load);
    float start = (float)rng_below(&load->rng, 1000), *data = chaos_filled(start, count);
    mr_ref one, two;
    mr_status status = mr_call_task(load->mr, "chaos_enlarge", &one, mr_vector(data, count));
    free(data);
    if (status != MR_OK) return chaos_is_begun(load, status);
    status = mr_call_task(load->mr, "chaos_enlarge", &two, mr_future(one));
    bool fine = chaos_expect_filled(load, one, start + 1, count);
    return (status == MR_OK ? chaos_expect_filled(load, two, start + 2, count) : chaos_is_begun(load, status)) && fine;
}

/* Passes references to existing objects, to pending ones, and to objects of workers. */
static bool some_references(chaos_load *load) {
    mr_context *mr = load->mr;
    mr_ref refs[3], list, sum, other;
    mr_arg items[3];
    size_t count = 0;
    int64_t number = (int64_t)rng_below(&load->rng, 1000);
    mr_status status = mr_put(mr, mr_int(number), &refs[0]);
    for (count += status == MR_OK; status == MR_OK && count < 3; count += status == MR_OK)
        status = mr_call_task(mr, "chaos_linger", &refs[count], mr_int(number));
    for (size_t i = 0; i < count; i++) items[i] = mr_future(refs[i]);
    if (status == MR_OK) status = mr_call_task(mr, "chaos_sum", &sum, mr_list(items, count));
    for (size_t i = 0; i < count; i++) mr_release(mr, refs[i]);
    bool fine = status == MR_OK ? chaos_expect_int(load, sum, 3 * number) : chaos_is_begun(load, status);
    status = mr_call_task(mr, "chaos_lend", &list, mr_int(number));
    if (status != MR_OK) return chaos_is_begun(load, status) && fine;
    status = mr_call_task(mr, "chaos_sum", &other, mr_future(list));
    mr_release(mr, list);
    return (status == MR_OK ? chaos_expect_int(load, other, number * number) : chaos_is_begun(load, status)) && fine;
}

/* Submits or drops a batch of two tasks, one of which takes the other's result, and their join. */
static bool some_group(chaos_load *load) {
    mr_batch *group;
    mr_ref one, two, all;
    mr_value value, item;
    int64_t number = (int64_t)rng_below(&load->rng, 1000), result = 0;
    mr_status status = mr_batch_open(load->mr, &group);
    if (status != MR_OK) return chaos_is_begun(load, status);
    bool dropped = rng_chance(&load->rng, 0.2);
    status = mr_batch_task(group, "chaos_linger", NULL, MR_ARGS(mr_int(number)), &one);
    if (status != MR_OK) return mr_batch_cancel(group), chaos_is_begun(load, status);
    status = mr_batch_task(group, "chaos_square", NULL, MR_ARGS(mr_future(one)), &two);
    if (status != MR_OK || dropped) {
        mr_batch_cancel(group);
        if (status == MR_OK) mr_release(load->mr, two);
        bool fine = chaos_is_begun(load, status) && mr_get(load->mr, one, CHAOS_PATIENCE_US, &value) == MR_CANCELLED;
        mr_release(load->mr, one);
        return fine;
    }
    bool fine = chaos_is_begun(load, mr_batch_submit(group));
    mr_ref both[] = {one, two};
    status = mr_join(load->mr, both, 2, &all);
    mr_release(load->mr, one);
    fine = chaos_expect_int(load, two, number * number) && fine;
    if (status != MR_OK) return chaos_is_begun(load, status) && fine;
    status = mr_get(load->mr, all, CHAOS_PATIENCE_US, &value);
    mr_release(load->mr, all);
    if (status != MR_OK) return chaos_is_named(load, status) && fine;
    fine = mr_value_count(&value) == 2 && mr_value_item(&value, 1, &item) == MR_OK &&
           mr_value_int(&item, &result) == MR_OK && result == number * number && fine;
    mr_value_release(&value);
    load->right++;
    return fine;
}

/* ---- Actors. */

/* Expects the number of an earlier call, or 0 because the actor was restarted. Calls that were lost with the actor's
 * process may be missing. */
static bool expect_said(chaos_load *load, mr_ref ref, int64_t number) {
    int64_t before = 0;
    bool got;
    if (!chaos_take_int(load, ref, &before, &got)) return false;
    if (got && before >= number) fprintf(stderr, "before call %lld came %lld\n", (long long)number, (long long)before);
    return !got || before < number;
}

static bool keep_and_show(chaos_load *load, mr_actor actor) {
    size_t count = draw_count(load);
    float start = (float)rng_below(&load->rng, 1000), *data = chaos_filled(start, count);
    mr_ref kept, shown;
    mr_value value;
    mr_status status = mr_call_actor(load->mr, actor, "keep", &kept, mr_vector(data, count));
    free(data);
    if (status != MR_OK) return chaos_is_begun(load, status);
    status = mr_call_actor(load->mr, actor, "show", &shown);
    bool fine = chaos_expect_int(load, kept, 0);
    if (status != MR_OK) return chaos_is_begun(load, status) && fine;
    status = mr_get(load->mr, shown, CHAOS_PATIENCE_US, &value);
    if (status != MR_OK) fine = chaos_is_named(load, status) && fine;
    if (status == MR_OK && mr_value_kind(&value) != MR_KIND_NIL) fine = chaos_is_filled(&value, start, count) && fine;
    if (status == MR_OK) mr_value_release(&value);
    mr_release(load->mr, shown);
    return fine;
}

static bool some_actor(chaos_load *load) {
    mr_context *mr = load->mr;
    mr_actor actor;
    mr_ref refs[BATCH], rung;
    int count = 0;
    mr_actor_options options = MR_OPTIONS(mr_actor_options, .max_restarts = (int)rng_below(&load->rng, 4),
                                          .max_call_retries = (int)rng_below(&load->rng, 3));
    mr_status status = mr_actor_create(mr, "ChaosBook", &options, NULL, 0, &actor);
    if (status != MR_OK) return chaos_is_begun(load, status);
    for (; status == MR_OK && count < BATCH; count += status == MR_OK)
        status = mr_call_actor(mr, actor, "say", &refs[count], mr_int(1), mr_int(count + 1));
    bool fine = chaos_is_begun(load, status);
    for (int i = 0; i < count; i++) fine = expect_said(load, refs[i], i + 1) && fine;
    if (fine && rng_chance(&load->rng, 0.5)) {
        status = mr_call_task(mr, "chaos_ring", &rung, mr_handle(actor));
        fine = status == MR_OK ? chaos_expect_int(load, rung, 42) : chaos_is_begun(load, status);
    }
    if (fine && rng_chance(&load->rng, 0.5)) fine = keep_and_show(load, actor);
    /* Without a kill the actor ends with its last handle. */
    status = rng_chance(&load->rng, 0.5) ? mr_actor_kill(mr, actor) : MR_OK;
    mr_actor_release(mr, actor);
    return chaos_is_begun(load, status) && fine;
}

static bool some_shared(chaos_load *load) {
    enum { CALLS = 4 };
    mr_context *mr = load->mr;
    mr_ref refs[CALLS];
    mr_actor_options options = MR_OPTIONS(mr_actor_options, .name = "chaos", .name_space = "chaos", .detached = 1,
                                          .max_restarts = 1 << 20, .max_call_retries = 2);
    mr_status status = MR_OK;
    int count = 0;
    if (load->shared.word[0] == 0 && mr_actor_find(mr, "chaos", "chaos", &load->shared) != MR_OK) {
        status = mr_actor_create(mr, "ChaosBook", &options, NULL, 0, &load->shared);
        if (status == MR_EXISTS)
            status = mr_actor_find(mr, "chaos", "chaos", &load->shared); /* another thread created the actor first */
        if (status != MR_OK) return chaos_is_begun(load, status);
    }
    for (; status == MR_OK && count < CALLS; count += status == MR_OK)
        status = mr_call_actor(mr, load->shared, "say", &refs[count], mr_int((int64_t)load->caller),
                               mr_int(load->said + count + 1));
    bool fine = chaos_is_begun(load, status);
    for (int i = 0; i < count; i++) fine = expect_said(load, refs[i], load->said + i + 1) && fine;
    load->said += CALLS;
    return fine;
}

/* ---- The load. */

typedef bool act_fn(chaos_load *load);

static act_fn *const acts[] = {some_tasks,    some_tasks, some_returns, some_nested,    some_cancels,
                               some_failures, some_kept,  some_kept,    some_large,     some_group,
                               some_actor,    some_actor, some_shared,  some_references};

void chaos_load_init(chaos_load *load, mr_context *mr, uint64_t seed) {
    *load = (chaos_load){.mr = mr};
    rng_init(&load->rng, seed);
    load->caller = rng_next(&load->rng) >> 2;
}

chaos_end chaos_load_run(chaos_load *load, const _Atomic bool *over) {
    bool fine = true;
    while (fine && !load->node_gone && !atomic_load(over)) {
        size_t act = rng_below(&load->rng, sizeof acts / sizeof acts[0]);
        fine = acts[act](load);
        load->acts++;
        if (!fine) fprintf(stderr, "wrong: act %zu, the %lluth of its load\n", act, (unsigned long long)load->acts);
    }
    for (size_t i = 0; i < CHAOS_KEPT; i++)
        if (load->kept[i].count > 0) mr_release(load->mr, load->kept[i].ref);
    if (load->shared.word[0] != 0) mr_actor_release(load->mr, load->shared);
    return !fine ? CHAOS_WRONG : load->node_gone ? CHAOS_NODE_GONE : CHAOS_DONE;
}
