/* model_server.c — see model_server.h. Tested by tests/model_sync_test.c. */
#include "train/model_server.h"

#include <inttypes.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/failpoint.h"
#include "base/log.h"
#include "base/plural.h"
#include "miniray/model.h"
#include "miniray/runtime.h"
#include "runtime/refs/failure.h"
#include "train/model_checkpoint.h"
#include "train/model_state.h"
#include "train/sync_inputs.h"
#include "train/weight_merge.h"

enum { NAME_MAX_BYTES = 32 };

typedef struct model_server {
    mr_sync_strategy strategy; /* strategy.name points to `name` */
    char name[NAME_MAX_BYTES];
    bool warned;           /* about weights that are set for some workers only, or for missing ones */
    model_state state;     /* what the next process continues from */
    mr_model_saver *saver; /* owned; NULL: no checkpoints at intervals */
} model_server;

static const char *const labels[][2] = {{"average", "AverageStrategy"},          {"weighted", "WeightedStrategy"},
                                        {"momentum", "MomentumStrategy"},        {"median", "MedianStrategy"},
                                        {"trimmed_mean", "TrimmedMeanStrategy"}, {"max", "MaxStrategy"}};

const char *model_server_class(void) { return MODEL_SERVER_CLASS; }

static const char *label(const model_server *server) {
    for (size_t i = 0; i < sizeof labels / sizeof *labels; i++)
        if (strcmp(server->name, labels[i][0]) == 0) return labels[i][1];
    return server->name;
}

static int64_t now_us(void) { return clock_now_us(clock_real()); }

static void destroy(void *self) {
    model_server *server = self;
    mr_model_saver_close(server->saver);
    model_state_fini(&server->state);
    free(server);
}

/* ---- Checkpoints. */

static mr_model_checkpoint checkpoint_of(const model_server *server) {
    const model_state *state = &server->state;
    const mr_sync_strategy *strategy = &server->strategy;
    mr_model_checkpoint made = {.momentum = strategy->momentum == 0 ? 0.9 : fmax(strategy->momentum, 0),
                                .trim = strategy->trim == 0 ? 0.1 : fmax(strategy->trim, 0),
                                .version = state->version,
                                .num_syncs = state->syncs,
                                .weights = state->weights,
                                .weight_count = state->weight_count};
    snprintf(made.strategy, sizeof made.strategy, "%s", server->name);
    return made;
}

/* Offers the state to the thread that writes checkpoints. It has a view of its own of the model. */
static mr_status offer(mr_call *call, const model_server *server) {
    mr_value model;
    if (server->saver == NULL) return MR_OK;
    MR_TRY(model_state_view(call, &model));
    const mr_model_checkpoint made = checkpoint_of(server);
    return mr_model_saver_offer(server->saver, &made, model);
}

static mr_status take_lists(const model_checkpoint_file *file, model_state *state) {
    const mr_model_checkpoint *facts = &file->facts;
    if (facts->weight_count > MODEL_STATE_WEIGHTS_MAX)
        return error_set(MR_CORRUPT, "the checkpoint has weights of %zu workers; the limit is %d", facts->weight_count,
                         MODEL_STATE_WEIGHTS_MAX);
    MR_TRY(model_state_room(state, facts->weight_count));
    if (facts->weight_count > 0) memcpy(state->weights, facts->weights, facts->weight_count * sizeof *state->weights);
    state->version = facts->version;
    state->syncs = facts->num_syncs;
    for (size_t i = 0; i < file->tensors.count; i++) state->bytes += file->tensors.tensors[i].bytes;
    return MR_OK;
}

/* Puts the model into an object, of which the state holds a view. */
static mr_status take_model(mr_context *mr, mr_arg model, mr_value *out) {
    mr_ref ref;
    if (model.kind == MR_KIND_NIL && !model.received) return MR_OK;
    MR_TRY(mr_put(mr, model, &ref));
    mr_status status = mr_get(mr, ref, MR_FOREVER, out);
    mr_release(mr, ref);
    return status;
}

/* The state is kept at once: the next process does not read the checkpoint again. */
static mr_status restore(mr_call *call, const char *folder, model_state *state) {
    model_checkpoint_file file;
    MR_TRY(model_checkpoint_open(folder, &file));
    mr_status status = take_lists(&file, state);
    if (status == MR_OK) status = take_model(mr_call_context(call), file.model, &state->model);
    model_checkpoint_close(&file);
    return status == MR_OK ? model_state_keep(call, state) : status;
}

static mr_status read_path(mr_call *call, size_t index, char *out, size_t size) {
    mr_span text;
    MR_TRY(mr_arg_str(call, index, &text));
    int length = snprintf(out, size, "%.*s", (int)text.size, (const char *)text.data);
    if (length >= 0 && (size_t)length < size) return MR_OK;
    return error_set(MR_TOO_LARGE, "the path of a checkpoint has %zu bytes; the limit is %zu", text.size, size - 1);
}

/* Begins with the state of the server's last process, else with a checkpoint, else anew. */
static mr_status begin(mr_call *call, model_server *server) {
    char source[PATH_MAX], folder[PATH_MAX];
    double every;
    int64_t sets_aside;
    MR_TRY(read_path(call, MODEL_SERVER_RESTORE, source, sizeof source));
    MR_TRY(read_path(call, MODEL_SERVER_FOLDER, folder, sizeof folder));
    MR_TRY(mr_arg_float(call, MODEL_SERVER_EVERY, &every));
    MR_TRY(mr_arg_int(call, MODEL_SERVER_SETS_ASIDE, &sets_aside));
    mr_status status = model_state_recall(call, &server->state);
    if (status == MR_NOT_FOUND) {
        status = sets_aside != 0 ? mr_model_checkpoint_set_aside(folder) : MR_OK;
        if (status == MR_OK && source[0] != '\0') status = restore(call, source, &server->state);
    }
    MR_TRY(status);
    if (folder[0] == '\0') return MR_OK;
    MR_TRY(mr_model_saver_open(folder, every, &server->saver));
    return server->state.version > 0 ? offer(call, server) : MR_OK;
}

static mr_status save(mr_call *call) {
    const model_server *server = mr_self(call);
    char folder[PATH_MAX];
    MR_TRY(read_path(call, 0, folder, sizeof folder));
    const mr_model_checkpoint made = checkpoint_of(server);
    MR_TRY(mr_model_checkpoint_write(folder, &made, &server->state.model));
    return mr_return(call, mr_str(folder));
}

/* ---- Creation. */

static mr_status set_weight(mr_call *call, model_state *state, int64_t worker, double weight) {
    if (worker < 0 || worker >= MODEL_SERVER_WORKERS_MAX)
        return error_set(MR_INVALID, "no worker %" PRId64 ": workers are 0 to %d, in the order of the list", worker,
                         MODEL_SERVER_WORKERS_MAX - 1);
    if (weight != weight || weight - weight != 0)
        return error_set(MR_INVALID, "the weight of worker %" PRId64 " is %g; it must be finite", worker, weight);
    MR_TRY(model_state_room(state, (size_t)worker + 1));
    double before = state->weights[worker];
    state->weights[worker] = weight;
    mr_status status = model_state_keep(call, state);
    if (status != MR_OK) state->weights[worker] = before;
    return status;
}

static mr_status read_strategy(mr_call *call, model_server *server) {
    mr_span name;
    MR_TRY(mr_arg_str(call, 0, &name));
    MR_TRY(mr_arg_float(call, 1, &server->strategy.momentum));
    MR_TRY(mr_arg_float(call, 2, &server->strategy.trim));
    snprintf(server->name, sizeof server->name, "%.*s", (int)name.size, (const char *)name.data);
    server->strategy.name = server->name;
    return MR_OK;
}

static mr_status create(mr_call *call) {
    model_server *server;
    MR_TRY(alloc_try(sizeof *server, &server));
    mr_status status = read_strategy(call, server);
    if (status == MR_OK) status = begin(call, server);
    if (status == MR_OK) return mr_set_self(call, server, destroy);
    destroy(server);
    return status;
}

/* ---- Aggregation. */

/* Warns once, with the strategy "weighted", if weights are set for some workers only, or for missing workers. */
static void warn_of_weights(model_server *server, const sync_inputs *inputs, size_t set) {
    size_t last = server->state.weight_count;
    while (last > 0 && isnan(server->state.weights[last - 1])) last--;
    bool some = set > 0 && set != inputs->count, beyond = last > inputs->all;
    if ((!some && !beyond) || server->warned || strcmp(server->name, "weighted") != 0) return;
    server->warned = true;
    if (beyond)
        log_warn("a weight is set for worker %zu, but there %s only %zu worker%s, counted from 0", last - 1,
                 inputs->all == 1 ? "is" : "are", inputs->all, plural(inputs->all));
    else
        log_warn("weights are set for only %zu of %zu workers; the others have weight 1", set, inputs->count);
}

static void choose_weights(model_server *server, sync_inputs *inputs, mr_sync_strategy *strategy) {
    size_t set = 0;
    for (size_t i = 0; i < inputs->count; i++) {
        size_t id = inputs->ids[i];
        bool is_set = id < server->state.weight_count && !isnan(server->state.weights[id]);
        inputs->weights[i] = is_set ? server->state.weights[id] : 1;
        set += is_set;
    }
    strategy->weights = set > 0 ? inputs->weights : NULL;
    warn_of_weights(server, inputs, set);
}

typedef struct filling { /* argument of fill() */
    const weight_merge *merge;
    const mr_sync_strategy *strategy;
    void **places; /* of all tensors; owned; NULL until the result is written */
} filling;

/* The places of all tensors, from those of the tensors that are not empty; NULL for empty tensors. */
static mr_status spread(const weight_merge *merge, void *const *places, void ***out) {
    MR_TRY(alloc_try((merge->count + 1) * sizeof *places, out));
    for (size_t i = 0, at = 0; i < merge->count; i++)
        (*out)[i] = merge->lists[0].tensors[i].bytes == 0 ? NULL : places[at++];
    return MR_OK;
}

static mr_status fill(void *user, void *const *places, size_t count) {
    filling *filling = user;
    MR_TRY(spread(filling->merge, places, &filling->places));
    return weight_merge_run(filling->merge, filling->strategy, filling->places);
}

/* Returns the result with this worker's tensor kinds. The first call computes the result, later ones copy it. */
static mr_status return_as(mr_call *call, filling *filling, size_t worker, size_t index) {
    void *memory;
    mr_arg value;
    MR_TRY(weight_merge_arg(filling->merge, worker, filling->places, &memory, &value));
    mr_status status = filling->places == NULL ? mr_return_filled(call, index, value, fill, filling)
                                               : mr_return_at(call, index, value);
    free(memory);
    return status;
}

/* Returns the answer for a worker whose shared model contains the result. */
static mr_status return_answer(mr_call *call, const model_access *access, size_t index) {
    mr_arg items[SHARED_MODEL_ANSWER_ITEMS] = {mr_bytes(MR_SHARED_MODEL_MARK, sizeof MR_SHARED_MODEL_MARK - 1),
                                               mr_int(access->ticket), mr_int((int64_t)access->offset)};
    return mr_return_at(call, index, mr_tuple(items, SHARED_MODEL_ANSWER_ITEMS));
}

/* Workers with the same tensor kinds get the same object: the model, or the result of an earlier worker that differs
 * from it. */
static mr_status return_to_each(mr_call *call, const sync_inputs *inputs, filling *filling) {
    size_t model = MODEL_SERVER_MODEL(inputs->all), odd = SIZE_MAX;
    for (size_t w = 0; w < inputs->all; w++) {
        size_t mine = inputs->from[w];
        bool in_place = mine != SIZE_MAX && model_access_is_in_place(inputs->sources[mine].access);
        if (mine == SIZE_MAX || (!in_place && weight_merge_same(filling->merge, mine, 0))) {
            MR_TRY(mr_return_same(call, w, model));
        } else if (in_place) {
            MR_TRY(return_answer(call, inputs->sources[mine].access, w));
        } else if (odd != SIZE_MAX && weight_merge_same(filling->merge, mine, inputs->from[odd])) {
            MR_TRY(mr_return_same(call, w, odd));
        } else {
            MR_TRY(return_as(call, filling, mine, w));
            odd = w;
        }
    }
    return MR_OK;
}

static mr_status aggregate_gathered(mr_call *call, model_server *server, sync_inputs *inputs, size_t *bytes) {
    mr_sync_strategy strategy = server->strategy;
    weight_merge merge;
    choose_weights(server, inputs, &strategy);
    bool moves = strcmp(server->name, "momentum") == 0 && server->state.version > 0;
    MR_TRY(weight_merge_open(inputs->sources, inputs->ids, inputs->count, moves ? &server->state.model : NULL,
                             server->state.version, &merge));
    *bytes = merge.bytes;
    filling filling = {.merge = &merge, .strategy = &strategy};
    mr_status status = sync_inputs_begin(inputs);
    if (status == MR_OK) status = return_as(call, &filling, 0, MODEL_SERVER_MODEL(inputs->all));
    if (status == MR_OK) status = sync_inputs_check(inputs);
    sync_inputs_end(inputs, status == MR_OK);
    if (status == MR_OK) status = return_to_each(call, inputs, &filling);
    free(filling.places);
    weight_merge_close(&merge);
    return status;
}

static mr_status aggregate(mr_call *call) {
    int64_t flags, began;
    mr_value owed;
    MR_TRY(mr_arg_int(call, 0, &flags));
    MR_TRY(mr_arg_value(call, 1, &owed));
    MR_TRY(mr_arg_int(call, 2, &began));
    if (mr_value_kind(&owed) == MR_KIND_ERROR) return sync_inputs_raise(&owed, NULL);
    sync_inputs inputs = {0};
    size_t bytes, all = mr_arg_count(call) - MODEL_SERVER_BEFORE_WEIGHTS;
    if (mr_return_count(call) != MODEL_SERVER_RETURNS(all))
        return error_set(MR_INVALID, "a sync of %zu workers returns %zu values", all,
                         (size_t)MODEL_SERVER_RETURNS(all));
    int64_t gathered = now_us();
    MR_TRY(sync_inputs_open(call, MODEL_SERVER_BEFORE_WEIGHTS, (flags & MODEL_SERVER_SKIP_DEAD) != 0, &inputs));
    mr_status status = aggregate_gathered(call, mr_self(call), &inputs, &bytes);
    sync_inputs_close(&inputs);
    FAILPOINT("train.aggregated");
    MR_TRY(status);
    mr_arg facts[] = {mr_int(began), mr_int(gathered), mr_int(now_us()), mr_int((int64_t)bytes)};
    return mr_return_at(call, MODEL_SERVER_FACTS(all), mr_tuple(facts, 4));
}

/* ---- Publication, errors. */

/* Makes the argument the next version, and `next` the server's state. */
static mr_status replace_model(mr_call *call, model_state *next, size_t argument) {
    model_server *server = mr_self(call);
    mr_value model;
    MR_TRY(mr_arg_keep(call, argument, &model));
    mr_status status = model_state_advance(call, next, model);
    if (status != MR_OK) {
        mr_value_release(&model);
        return status;
    }
    server->state = *next;
    MR_TRY(offer(call, server));
    return mr_return(call, mr_int((int64_t)next->version));
}

/* True: this call has changed the model already, but the server's process died before the caller had the answer. */
static bool is_repeated(mr_call *call, mr_status *status) {
    const model_caller *before = model_state_find(&((const model_server *)mr_self(call))->state, call);
    if (before != NULL) *status = mr_return(call, mr_int((int64_t)before->version));
    return before != NULL;
}

static mr_status take_facts(mr_call *call, model_state *state) {
    mr_value facts, item;
    int64_t number[4];
    MR_TRY(mr_arg_value(call, 1, &facts));
    for (size_t i = 0; i < 4; i++) {
        MR_TRY(mr_value_item(&facts, i, &item));
        MR_TRY(mr_value_int(&item, &number[i]));
    }
    state->gather_s = (double)(number[1] - number[0]) * 1e-6;
    state->aggregate_s = (double)(number[2] - number[1]) * 1e-6;
    state->scatter_s = (double)(now_us() - number[2]) * 1e-6;
    state->bytes = (uint64_t)number[3];
    return MR_OK;
}

/* Fails if the argument is an error: with MODEL_SERVER_SKIP_DEAD, deaths arrive as values. */
static mr_status check_arrived(mr_call *call, size_t argument) {
    mr_value value;
    MR_TRY(mr_arg_value(call, argument, &value));
    return mr_value_kind(&value) == MR_KIND_ERROR ? sync_inputs_raise(&value, NULL) : MR_OK;
}

static mr_status publish(mr_call *call) {
    model_state next = ((const model_server *)mr_self(call))->state;
    mr_status status;
    if (is_repeated(call, &status)) return status;
    for (size_t i = 0; i < 3; i++) MR_TRY(check_arrived(call, i));
    MR_TRY(take_facts(call, &next));
    next.syncs++;
    return replace_model(call, &next, 2);
}

/* Whether the argument is an error, except a death if `skips`. */
static mr_status is_fault(mr_call *call, size_t argument, bool skips, mr_value *value, bool *out) {
    mr_error error;
    MR_TRY(mr_arg_value(call, argument, value));
    *out = mr_value_kind(value) == MR_KIND_ERROR;
    if (!*out || !skips) return MR_OK;
    MR_TRY(mr_value_error(value, 0, &error));
    *out = !failure_is_death(error.code);
    return MR_OK;
}

/* Keeps the first error of a sync as last_error; the future of the sync has it, too. */
static mr_status note(mr_call *call) {
    model_server *server = mr_self(call);
    mr_value value;
    int64_t flags;
    bool found;
    char what[64];
    MR_TRY(mr_arg_int(call, 0, &flags));
    MR_TRY(is_fault(call, 1, false, &value, &found));
    char *error = server->state.last_error;
    if (found) sync_inputs_tell(&value, NULL, error);
    for (size_t i = MODEL_SERVER_BEFORE_SET; i < mr_arg_count(call) && !found; i++) {
        MR_TRY(is_fault(call, i, (flags & MODEL_SERVER_SKIP_DEAD) != 0, &value, &found));
        snprintf(what, sizeof what, "set_weights of worker %zu", i - MODEL_SERVER_BEFORE_SET);
        if (found) sync_inputs_tell(&value, what, error);
    }
    return found ? model_state_keep(call, &server->state) : MR_OK;
}

/* ---- Other methods. */

static mr_status pull(mr_call *call) {
    const model_server *server = mr_self(call);
    return mr_return(call, mr_value_arg(&server->state.model));
}

static mr_status push(mr_call *call) {
    model_state next = ((const model_server *)mr_self(call))->state;
    mr_value value;
    weight_tree list;
    mr_status status;
    if (is_repeated(call, &status)) return status;
    MR_TRY(mr_arg_value(call, 0, &value));
    MR_TRY(weight_tree_open(&(weight_tree_source){value}, &list));
    next.bytes = 0;
    for (size_t i = 0; i < list.count; i++) next.bytes += list.tensors[i].bytes;
    weight_tree_close(&list);
    return replace_model(call, &next, 0);
}

static mr_status weigh(mr_call *call) {
    model_server *server = mr_self(call);
    int64_t worker;
    double weight;
    MR_TRY(mr_arg_int(call, 0, &worker));
    MR_TRY(mr_arg_float(call, 1, &weight));
    if (strcmp(server->name, "weighted") != 0)
        log_warn("strategy %s ignores the weight of worker %" PRId64 "; use 'weighted'", label(server), worker);
    return set_weight(call, &server->state, worker, weight);
}

static mr_status stats(mr_call *call) {
    const model_server *server = mr_self(call);
    const model_state *state = &server->state;
    mr_arg fields[] = {
        mr_str("version"),     mr_int((int64_t)state->version),
        mr_str("num_syncs"),   mr_int((int64_t)state->syncs),
        mr_str("strategy"),    mr_str(label(server)),
        mr_str("initialized"), mr_bool(state->version > 0),
        mr_str("bytes"),       mr_int((int64_t)state->bytes),
        mr_str("gather_s"),    mr_float(state->gather_s),
        mr_str("aggregate_s"), mr_float(state->aggregate_s),
        mr_str("scatter_s"),   mr_float(state->scatter_s),
        mr_str("last_error"),  state->last_error[0] == '\0' ? mr_nil() : mr_str(state->last_error),
    };
    return mr_return(call, mr_map(fields, sizeof fields / sizeof *fields / 2));
}

__attribute__((constructor)) static void model_server_register(void) {
    mr_register_method(MODEL_SERVER_CLASS, NULL, create);
    mr_register_method(MODEL_SERVER_CLASS, "aggregate", aggregate);
    mr_register_method(MODEL_SERVER_CLASS, "publish", publish);
    mr_register_method(MODEL_SERVER_CLASS, "note", note);
    mr_register_method(MODEL_SERVER_CLASS, "pull_weights", pull);
    mr_register_method(MODEL_SERVER_CLASS, "push_weights", push);
    mr_register_method(MODEL_SERVER_CLASS, "set_worker_weight", weigh);
    mr_register_method(MODEL_SERVER_CLASS, "get_stats", stats);
    mr_register_method(MODEL_SERVER_CLASS, "save", save);
}
