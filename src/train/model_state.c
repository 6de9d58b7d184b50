/* model_state.c — see model_state.h. Tested by tests/model_server_test.c. */
#include "train/model_state.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/failpoint.h"

enum { PART_FACTS, PART_MODEL, PARTS };
enum { FACT_FORMAT, FACT_COUNTS, FACT_TIMES, FACT_ERROR, FACT_WEIGHTS, FACT_CALLERS, FACTS };

typedef struct counts {
    uint64_t version, syncs, bytes;
} counts;
typedef struct times {
    double gather_s, aggregate_s, scatter_s;
} times;

void model_state_fini(model_state *state) {
    mr_value_release(&state->model);
    free(state->weights);
    *state = (struct model_state){0};
}

mr_status model_state_room(model_state *state, size_t count) {
    if (count <= state->weight_count) return MR_OK;
    MR_TRY(alloc_try_resize(&state->weights, count * sizeof *state->weights));
    while (state->weight_count < count) state->weights[state->weight_count++] = NAN;
    return MR_OK;
}

/* ---- Keeping. */

mr_status model_state_keep(mr_call *call, const model_state *state) {
    const counts counts = {state->version, state->syncs, state->bytes};
    const times times = {state->gather_s, state->aggregate_s, state->scatter_s};
    const mr_arg facts[FACTS] = {
        [FACT_FORMAT] = mr_int(MODEL_STATE_FORMAT),
        [FACT_COUNTS] = mr_bytes(&counts, sizeof counts),
        [FACT_TIMES] = mr_bytes(&times, sizeof times),
        [FACT_ERROR] = mr_str(state->last_error),
        [FACT_WEIGHTS] = mr_bytes(state->weights, state->weight_count * sizeof *state->weights),
        [FACT_CALLERS] = mr_bytes(state->callers, state->caller_count * sizeof *state->callers)};
    const mr_arg parts[PARTS] = {[PART_FACTS] = mr_tuple(facts, FACTS), [PART_MODEL] = mr_value_arg(&state->model)};
    return mr_state_set(call, parts, PARTS);
}

mr_status model_state_view(mr_call *call, mr_value *model) { return mr_state_get(call, PART_MODEL, model); }

/* ---- Recalling. */

static mr_status malformed(size_t fact, size_t size) {
    return error_set(MR_CORRUPT, "malformed state of a model server: fact %zu has %zu bytes", fact, size);
}

static mr_status read_bytes(const mr_value *facts, size_t fact, mr_span *out) {
    mr_value item;
    MR_TRY(mr_value_item(facts, fact, &item));
    return mr_value_bytes(&item, out);
}

static mr_status read_exactly(const mr_value *facts, size_t fact, void *out, size_t size) {
    mr_span bytes;
    MR_TRY(read_bytes(facts, fact, &bytes));
    if (bytes.size != size) return malformed(fact, bytes.size);
    memcpy(out, bytes.data, size);
    return MR_OK;
}

/* Items of `each` bytes, at most `most`. */
static mr_status read_items(const mr_value *facts, size_t fact, size_t each, size_t most, mr_span *out) {
    MR_TRY(read_bytes(facts, fact, out));
    return out->size % each != 0 || out->size / each > most ? malformed(fact, out->size) : MR_OK;
}

static mr_status read_lists(const mr_value *facts, model_state *state) {
    mr_span bytes;
    MR_TRY(read_items(facts, FACT_WEIGHTS, sizeof *state->weights, MODEL_STATE_WEIGHTS_MAX, &bytes));
    MR_TRY(model_state_room(state, bytes.size / sizeof *state->weights));
    if (bytes.size > 0) memcpy(state->weights, bytes.data, bytes.size);
    MR_TRY(read_items(facts, FACT_CALLERS, sizeof *state->callers, MODEL_STATE_CALLERS_MAX, &bytes));
    if (bytes.size > 0) memcpy(state->callers, bytes.data, bytes.size);
    state->caller_count = bytes.size / sizeof *state->callers;
    return MR_OK;
}

static mr_status read_facts(const mr_value *facts, model_state *state) {
    counts counts;
    times times;
    mr_value item;
    mr_span text;
    int64_t format;
    MR_TRY(mr_value_item(facts, FACT_FORMAT, &item));
    MR_TRY(mr_value_int(&item, &format));
    if (format != MODEL_STATE_FORMAT || mr_value_count(facts) != FACTS)
        return error_set(MR_CORRUPT, "the state of a model server has format %lld and %zu facts, not %d and %d",
                         (long long)format, mr_value_count(facts), MODEL_STATE_FORMAT, FACTS);
    MR_TRY(read_exactly(facts, FACT_COUNTS, &counts, sizeof counts));
    MR_TRY(read_exactly(facts, FACT_TIMES, &times, sizeof times));
    MR_TRY(mr_value_item(facts, FACT_ERROR, &item));
    MR_TRY(mr_value_str(&item, &text));
    if (text.size >= sizeof state->last_error) return malformed(FACT_ERROR, text.size);
    memcpy(state->last_error, text.data, text.size);
    state->last_error[text.size] = '\0';
    state->version = counts.version;
    state->syncs = counts.syncs;
    state->bytes = counts.bytes;
    state->gather_s = times.gather_s;
    state->aggregate_s = times.aggregate_s;
    state->scatter_s = times.scatter_s;
    return read_lists(facts, state);
}

mr_status model_state_recall(mr_call *call, model_state *state) {
    mr_value facts;
    *state = (struct model_state){0};
    MR_TRY(mr_state_get(call, PART_FACTS, &facts));
    mr_status status = read_facts(&facts, state);
    mr_value_release(&facts);
    if (status == MR_OK) status = mr_state_get(call, PART_MODEL, &state->model);
    if (status != MR_OK) model_state_fini(state);
    return status;
}

/* ---- Changes of the model. */

static size_t index_of(const model_state *state, uint64_t process) {
    size_t at = 0;
    while (at < state->caller_count && state->callers[at].process != process) at++;
    return at;
}

const model_caller *model_state_find(const model_state *state, const mr_call *call) {
    uint64_t process, number = mr_call_number(call, &process);
    size_t at = index_of(state, process);
    bool is_known = number > 0 && at < state->caller_count && number <= state->callers[at].number;
    return is_known ? &state->callers[at] : NULL;
}

static void note_caller(model_state *state, const mr_call *call) {
    uint64_t process, number = mr_call_number(call, &process);
    if (number == 0) return; /* the call is never sent again */
    size_t at = index_of(state, process);
    if (at == MODEL_STATE_CALLERS_MAX) at = 0;
    if (at < state->caller_count) {
        size_t after = --state->caller_count - at;
        memmove(&state->callers[at], &state->callers[at + 1], after * sizeof *state->callers);
    }
    state->callers[state->caller_count++] = (model_caller){process, number, state->version};
}

mr_status model_state_advance(mr_call *call, model_state *state, mr_value model) {
    model_state next = *state;
    next.model = model;
    next.version++;
    note_caller(&next, call);
    MR_TRY(model_state_keep(call, &next));
    FAILPOINT("train.published");
    mr_value_release(&state->model);
    *state = next;
    return MR_OK;
}
