/* model_session.c — sessions of a model on a parameter server (miniray/model.h).
 *
 * The model is a table of arrays, one for each tensor. A second table, NAME.state, has vectors of int64:
 *
 *   READY     0 until rank 0 has set the weights, and then the number of the step in which it did so, plus one
 *   VERSION   number of steps that the weights contain: in BSP of all ranks together, otherwise of each rank. In BSP a
 *             rank that joins continues with the step of this number: rounds that all ranks left do not count
 *   ABOUT     the caller's description of the model: its size in bytes, then the bytes
 *
 * A process that joins sees in READY:
 *
 *   0, or it is in step 0     this step is for the weights: rank 0 sets them, READY last, and all ranks end the step
 *   the open step plus one    the step for the weights is repeated after a death: it is ended
 *   another number            the model has its weights: they are pulled, and training continues with the open step
 *
 * Each call may end with MR_TIMEOUT at any wait; the next one continues there. Tested by tests/model_session_test.c. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/option_struct.h"
#include "base/plural.h"
#include "miniray/model.h"
#include "net/dtype_convert.h"

static const char state_suffix[] = ".state";
enum { READY, VERSION, ABOUT, VECTORS }; /* keys of the table NAME.state */
enum {
    POLL_US = 2000,
    NAME_MAX_BYTES = MR_PS_NAME_MAX - 1,
    NAME_KEPT_BYTES = 48,
    MODEL_NAME_MAX_BYTES = NAME_MAX_BYTES - (int)sizeof state_suffix + 1
};

typedef struct tensor {
    void *data; /* borrowed from the caller; NULL: this process has no memory for it */
    mr_dtype dtype;
    size_t items; /* 0: it is not in the table */
    bool frozen;
} tensor;

struct mr_model_session {
    mr_ps *ps;
    mr_ps_table *table, *state;
    tensor *tensors;
    size_t count;
    mr_ps_ticket *tickets; /* requests under way: their memory is borrowed */
    size_t ticket_count;
    int64_t until_us;              /* when the running call times out */
    int64_t timeout_us;            /* of the running call */
    uint64_t step;                 /* that is open, or was open last */
    uint64_t number;               /* of the step in the training: without those for the weights, and for leaving */
    int64_t counters[VERSION + 1]; /* while they are pushed */
    int64_t *about;                /* owned, as the vector of ABOUT; NULL: none */
    uint32_t about_items;
    bool joined, open;
    bool has_pushed; /* the open step has pushes: the first weights, or a push that failed in the middle */
    bool waits;      /* until rank 0 has set the weights: the step for them is ended */
    bool pulling;    /* all pulls of a call are under way */
    bool rounds;
    mr_dtype precision; /* of the table */
    uint32_t rank;
    uint64_t skipped; /* steps that this rank was left out of */
    char name[MR_PS_NAME_MAX];
};

/* ---- Requests. */

static void begin_call(mr_model_session *session, int64_t timeout_us) {
    session->timeout_us = timeout_us;
    session->until_us = clock_deadline_us(clock_now_us(clock_real()), timeout_us);
}

static int64_t left_us(const mr_model_session *session) {
    int64_t now_us = clock_now_us(clock_real());
    return session->until_us > now_us ? session->until_us - now_us : 0;
}

/* MR_STALE: the state of the servers is another one; the session joins again. */
static mr_status noted(mr_model_session *session, mr_status status) {
    if (status == MR_STALE)
        session->joined = session->open = session->pulling = session->waits = session->has_pushed = false;
    return status;
}

/* Waits for all requests under way. MR_TIMEOUT, MR_NOMEM: those that are left stay under way. */
static mr_status settle(mr_model_session *session) {
    mr_status worst = MR_OK;
    char text[ERROR_TEXT_MAX] = "";
    size_t left = 0;
    for (size_t i = 0; i < session->ticket_count; i++) {
        mr_status status = mr_ps_wait(session->ps, session->tickets[i], left_us(session));
        if (status == MR_TIMEOUT || status == MR_NOMEM) session->tickets[left++] = session->tickets[i];
        if (status == MR_OK || worst == MR_TIMEOUT || worst == MR_NOMEM) continue;
        if (worst == MR_OK || status == MR_TIMEOUT || status == MR_NOMEM)
            snprintf(text, sizeof text, "%s", mr_last_error()), worst = status;
    }
    session->ticket_count = left;
    session->pulling = session->pulling && left != 0;
    return worst == MR_OK ? MR_OK : noted(session, error_set(worst, "%s", text));
}

static mr_ps_ticket *next_ticket(mr_model_session *session) { return &session->tickets[session->ticket_count]; }

static mr_status pull_tensor(mr_model_session *session, size_t i) {
    const tensor *tensor = &session->tensors[i];
    mr_ps_request_options options =
        MR_OPTIONS(mr_ps_request_options, .dtype = tensor->dtype,
                   .priority = (uint8_t)(UINT8_MAX - UINT8_MAX * i / session->count)); /* first layers first */
    mr_status status =
        mr_ps_pull_array(session->table, (uint32_t)i, tensor->data, 0, tensor->items, &options, next_ticket(session));
    session->ticket_count += status == MR_OK;
    return status;
}

static mr_status push_tensor(mr_model_session *session, size_t i, const void *values, bool set, float rate) {
    const mr_ps_request_options options =
        MR_OPTIONS(mr_ps_request_options, .dtype = session->tensors[i].dtype, .set = set, .rate = rate,
                   .skip_nonfinite = !set && session->rounds); /* without rounds: are_finite */
    mr_status status = mr_ps_push_array(session->table, (uint32_t)i, values, 0, session->tensors[i].items, &options,
                                        next_ticket(session));
    session->ticket_count += status == MR_OK;
    return status;
}

/* The values are used until the request is settled. */
static mr_status push_vector(mr_model_session *session, uint64_t key, const int64_t *values, uint32_t length,
                             bool set) {
    const mr_ps_request_options options = MR_OPTIONS(mr_ps_request_options, .set = set);
    mr_status status = mr_ps_push(session->state, &key, 1, values, &length, &options, next_ticket(session));
    session->ticket_count += status == MR_OK;
    return status;
}

static mr_status push_counter(mr_model_session *session, int counter, uint64_t value, bool set) {
    session->counters[counter] = (int64_t)value;
    return push_vector(session, (uint64_t)counter, &session->counters[counter], 1, set);
}

static mr_status pull_counter(mr_model_session *session, int counter, uint64_t *out) {
    const mr_ps_request_options options = MR_OPTIONS(mr_ps_request_options, .timeout_us = left_us(session) + 1);
    const uint64_t key = (uint64_t)counter;
    const uint32_t one = 1;
    int64_t value;
    MR_TRY(noted(session, mr_ps_pull(session->state, &key, 1, &value, &one, &options, NULL)));
    *out = (uint64_t)value;
    return MR_OK;
}

/* Begins the pulls of the tensors that are not frozen, and of those that `also` selects; NULL: of all. */
static mr_status begin_pulls(mr_model_session *session, const bool *also) {
    for (size_t i = 0; i < session->count; i++) {
        const tensor *tensor = &session->tensors[i];
        if (tensor->items == 0 || tensor->data == NULL || (tensor->frozen && also != NULL && !also[i])) continue;
        MR_TRY(noted(session, pull_tensor(session, i)));
    }
    session->pulling = session->ticket_count != 0;
    return MR_OK;
}

/* ---- Joining. */

static mr_status begin_step(mr_model_session *session) {
    mr_status status = mr_ps_begin(session->ps, left_us(session), &session->step);
    session->open = status == MR_OK;
    return noted(session, status);
}

static mr_status end_step(mr_model_session *session) {
    session->open = session->has_pushed = false;
    session->number++;
    return noted(session, mr_ps_end(session->ps));
}

static uint64_t ready_here(const mr_model_session *session) { return session->step + 1; } /* READY of the open step */

/* Sets the weights and their description, then READY. In BSP all take effect at the end of the step; otherwise READY is
 * set when the servers have the rest. */
static mr_status set_all(mr_model_session *session) {
    for (size_t i = 0; i < session->count; i++)
        if (session->tensors[i].items != 0 && session->tensors[i].data == NULL)
            return error_set(MR_DENIED,
                             "model '%s' has no weights yet, and rank 0 has no memory with weights of tensor %zu",
                             session->name, i);
    if (!session->has_pushed) {
        MR_TRY(settle(session));
        for (size_t i = 0; i < session->count; i++)
            if (session->tensors[i].items != 0) MR_TRY(push_tensor(session, i, session->tensors[i].data, true, 0));
        if (session->about != NULL) MR_TRY(push_vector(session, ABOUT, session->about, session->about_items, true));
        session->has_pushed = true; /* a call that continues does not push them again */
    }
    if (!session->rounds) MR_TRY(settle(session));
    return push_counter(session, READY, ready_here(session), true);
}

static mr_status next_step(mr_model_session *session) {
    MR_TRY(end_step(session));
    MR_TRY(settle(session));
    return begin_step(session);
}

/* Waits until rank 0 has set the weights. */
static mr_status await_ready(mr_model_session *session, uint64_t *ready) {
    for (;; usleep(POLL_US)) {
        MR_TRY(pull_counter(session, READY, ready));
        if (*ready != 0) return MR_OK;
        if (left_us(session) == 0)
            return error_set(
                MR_TIMEOUT,
                "timed out after %.3g s: rank 0 has not set the weights of model '%s'; start rank 0, which "
                "opens the model with its own weights",
                (double)session->timeout_us / 1e6, session->name);
        if (session->rounds) MR_TRY(next_step(session));
    }
}

/* Begins a step in which the model has its weights. */
static mr_status find_weights(mr_model_session *session) {
    uint64_t ready = 0;
    if (!session->open) MR_TRY(begin_step(session));
    if (session->step != 0 || session->waits) MR_TRY(pull_counter(session, READY, &ready));
    if (ready == 0 && session->rank == 0) MR_TRY(noted(session, set_all(session)));
    if ((ready == 0 && !session->waits) || ready == ready_here(session)) {
        session->waits = ready == 0 && session->rank != 0;
        MR_TRY(next_step(session));
    }
    return ready == 0 ? await_ready(session, &ready) : MR_OK;
}

/* Begins a step in which the model has its weights, and pulls them. */
static mr_status join(mr_model_session *session) {
    if (!session->pulling) {
        MR_TRY(find_weights(session));
        session->number = session->step - 1; /* the first step was for the weights */
        if (session->rounds) MR_TRY(pull_counter(session, VERSION, &session->number));
        MR_TRY(begin_pulls(session, NULL));
    }
    MR_TRY(settle(session));
    session->waits = false;
    session->joined = true;
    return MR_OK;
}

/* ---- Opening. */

static mr_status count_items(const mr_model_tensor *tensor, size_t *items) {
    *items = 1;
    if (tensor->dims < 0 || tensor->dims > MR_TENSOR_DIMS_MAX)
        return error_set(MR_INVALID, "tensor '%.60s' has %d dimensions: at most %d", tensor->name, tensor->dims,
                         MR_TENSOR_DIMS_MAX);
    for (int i = 0; i < tensor->dims; i++) {
        if (tensor->shape[i] < 0)
            return error_set(MR_INVALID, "tensor '%.60s': dimension %d is %lld", tensor->name, i,
                             (long long)tensor->shape[i]);
        if (__builtin_mul_overflow(*items, (size_t)tensor->shape[i], items))
            return error_set(MR_INVALID, "tensor '%.60s' has more items than memory can hold", tensor->name);
    }
    return MR_OK;
}

static mr_status check_tensor(const mr_model_tensor *tensor, size_t number, size_t *items) {
    if (tensor->name == NULL || tensor->name[0] == '\0') return error_set(MR_INVALID, "tensor %zu has no name", number);
    if (tensor->dtype != MR_F32 && tensor->dtype != MR_F16 && tensor->dtype != MR_BF16)
        return error_set(MR_INVALID, "tensor '%.60s' is not float32, float16 or bfloat16: leave it out, or convert it",
                         tensor->name);
    MR_TRY(count_items(tensor, items));
    return MR_OK;
}

/* The name of the tensor's array: a long name is replaced by its number and its last characters. */
static void short_name(const char *name, size_t number, char out[MR_PS_NAME_MAX]) {
    size_t size = strlen(name);
    const char *tail = name + (size > NAME_KEPT_BYTES ? size - NAME_KEPT_BYTES : 0);
    while (((unsigned char)*tail & 0xc0) == 0x80) tail++; /* not inside a character */
    if (size <= NAME_MAX_BYTES)
        memcpy(out, name, size + 1);
    else
        snprintf(out, MR_PS_NAME_MAX, "%zu:%s", number, tail);
}

static mr_status check_options(const char *name, const mr_ps_table_options *table) {
    if (table->initializer != NULL)
        return error_set(MR_INVALID,
                         "model '%s': the options of its table have the initializer '%.40s', but the weights "
                         "are those of rank 0",
                         name, table->initializer);
    if (table->kind != 0 || table->arrays != NULL || table->array_count != 0 || table->dtype != 0 ||
        table->average != 0)
        return error_set(MR_INVALID,
                         "model '%s': the options of its table must not set kind, dtype, arrays or average, which "
                         "follow from the tensors and the consistency",
                         name);
    return MR_OK;
}

/* Whether steps are rounds: the table's consistency, or else the deployment's. */
static bool has_rounds(mr_ps *ps, const mr_ps_table_options *table) {
    mr_ps_info info;
    mr_ps_info_get(ps, &info);
    return table->consistency != NULL ? strcmp(table->consistency, "bsp") == 0 : info.consistency == MR_PS_BSP;
}

typedef struct arrays {
    mr_ps_array *list;
    char (*names)[MR_PS_NAME_MAX];
} arrays;

/* An empty tensor has an array of one item, which is never read: the index of an array is that of its tensor. */
static mr_status describe(mr_model_session *session, const mr_model_tensor *tensors, arrays *arrays) {
    bool any = false;
    for (size_t i = 0; i < session->count; i++) {
        size_t items = 0;
        MR_TRY(check_tensor(&tensors[i], i, &items));
        session->tensors[i] = (tensor){
            .data = tensors[i].data, .dtype = tensors[i].dtype, .items = items, .frozen = tensors[i].frozen != 0};
        any = any || (items != 0 && !session->tensors[i].frozen);
        short_name(tensors[i].name, i, arrays->names[i]);
        arrays->list[i] = (mr_ps_array){.name = arrays->names[i], .dims = items == 0 ? 0 : tensors[i].dims};
        if (items != 0) memcpy(arrays->list[i].shape, tensors[i].shape, sizeof arrays->list[i].shape);
    }
    if (!any)
        return error_set(MR_INVALID, "model '%s' has no tensor to optimize: all of its %zu are frozen or empty",
                         session->name, session->count);
    return MR_OK;
}

static mr_status create_table(mr_model_session *session, const mr_model_tensor *tensors,
                              const mr_ps_table_options *given) {
    arrays arrays = {0};
    mr_ps_table_options options = *given;
    mr_status status = alloc_try(session->count * sizeof *arrays.list, &arrays.list);
    if (status == MR_OK) status = alloc_try(session->count * sizeof *arrays.names, &arrays.names);
    if (status == MR_OK) status = describe(session, tensors, &arrays);
    options.kind = MR_PS_DENSE;
    options.arrays = arrays.list;
    options.array_count = (uint32_t)session->count;
    options.average = session->rounds;
    if (options.optimizer == NULL) options.optimizer = "sgd";
    if (status == MR_OK)
        status = mr_ps_table_create(session->ps, session->name, &options, left_us(session), &session->table);
    free(arrays.list);
    free(arrays.names);
    return status;
}

static mr_status create_state(mr_model_session *session, const char *consistency) {
    const mr_ps_table_options options =
        MR_OPTIONS(mr_ps_table_options, .kind = MR_PS_VECTORS, .dtype = MR_I64, .consistency = consistency);
    char name[MR_PS_NAME_MAX];
    snprintf(name, sizeof name, "%.*s%s", MODEL_NAME_MAX_BYTES, session->name, state_suffix);
    return mr_ps_table_create(session->ps, name, &options, left_us(session), &session->state);
}

/* mr_ps_table_create rejects unknown names. */
static mr_dtype precision_of(const char *name) {
    if (name != NULL && strcmp(name, "fp16") == 0) return MR_F16;
    return name != NULL && strcmp(name, "bf16") == 0 ? MR_BF16 : MR_F32;
}

static mr_status open_model(mr_model_session *session, const mr_model_tensor *tensors,
                            const mr_ps_table_options *given) {
    mr_ps_table_options table = MR_OPTIONS(mr_ps_table_options, .optimizer = NULL), copy;
    mr_ps_info info;
    OPTION_STRUCT_READ(mr_ps_table_options, admit, given, copy);
    if (given != NULL) table = *given;
    MR_TRY(check_options(session->name, &table));
    mr_ps_info_get(session->ps, &info);
    session->rank = info.rank;
    session->precision = precision_of(table.precision);
    session->rounds = has_rounds(session->ps, &table);
    MR_TRY(alloc_try(session->count * sizeof *session->tensors, &session->tensors));
    MR_TRY(alloc_try((session->count + VECTORS) * sizeof *session->tickets, &session->tickets));
    MR_TRY(create_table(session, tensors, &table));
    return create_state(session, table.consistency);
}

/* Copies the description as the vector that the servers hold. */
static mr_status copy_about(mr_model_session *session, mr_span about) {
    if (about.size == 0) return MR_OK;
    if (about.size > MR_MODEL_ABOUT_MAX)
        return error_set(MR_TOO_LARGE, "the description of model '%s' has %zu bytes: at most %d", session->name,
                         about.size, MR_MODEL_ABOUT_MAX);
    session->about_items = 1 + (uint32_t)((about.size + sizeof *session->about - 1) / sizeof *session->about);
    MR_TRY(alloc_try(session->about_items * sizeof *session->about, &session->about));
    session->about[session->about_items - 1] = 0;
    session->about[0] = (int64_t)about.size;
    memcpy(session->about + 1, about.data, about.size);
    return MR_OK;
}

mr_status mr_model_session_open(mr_ps *ps, const mr_model_tensor *tensors, size_t count,
                                const mr_model_session_options *options, int64_t timeout_us, mr_model_session **out) {
    static const mr_model_session_options none = {.size = sizeof none};
    mr_model_session_options copy;
    *out = NULL;
    OPTION_STRUCT_READ(mr_model_session_options, table, options, copy);
    if (options == NULL) options = &none;
    const char *name = options->name == NULL ? "model" : options->name;
    if (count == 0 || count > MR_PS_ARRAYS_MAX)
        return error_set(MR_INVALID, "a model of %zu tensor%s: it must have 1 to %d", count, plural(count),
                         MR_PS_ARRAYS_MAX);
    if (strlen(name) > MODEL_NAME_MAX_BYTES)
        return error_set(MR_INVALID, "the name of the model, '%.20s…', has %zu bytes: at most %d", name, strlen(name),
                         MODEL_NAME_MAX_BYTES);
    mr_model_session *session;
    MR_TRY(alloc_try(sizeof *session, &session));
    *session = (mr_model_session){.ps = ps, .count = count};
    begin_call(session, timeout_us);
    memcpy(session->name, name, strlen(name) + 1);
    mr_status status = copy_about(session, options->about);
    if (status == MR_OK) status = open_model(session, tensors, options->table);
    if (status == MR_OK)
        *out = session;
    else
        mr_model_session_close(session, 0);
    return status;
}

/* ---- Steps. */

mr_status mr_model_session_begin(mr_model_session *session, int64_t timeout_us, uint64_t *step) {
    begin_call(session, timeout_us);
    if (!session->joined) {
        if (!session->pulling) (void)settle(session); /* requests of the state that was lost */
        MR_TRY(join(session));
    } else if (!session->open) {
        MR_TRY(settle(session));
        MR_TRY(begin_step(session));
    }
    *step = session->number;
    return MR_OK;
}

static mr_status check_open(const mr_model_session *session) {
    if (session->open && session->joined) return MR_OK;
    return error_set(MR_STALE, "no step of model '%s' is open: call mr_model_session_begin", session->name);
}

/* Marks in `moved` the tensors whose memory changes to another one. */
static void adopt(mr_model_session *session, void *const *out, bool *moved) {
    for (size_t i = 0; i < session->count; i++) {
        moved[i] = out[i] != session->tensors[i].data;
        session->tensors[i].data = out[i];
    }
}

static mr_status pull_into(mr_model_session *session, void *const *out) {
    bool *moved;
    MR_TRY(settle(session));
    MR_TRY(alloc_try(session->count * sizeof *moved, &moved));
    memset(moved, 0, session->count * sizeof *moved);
    if (out != NULL) adopt(session, out, moved);
    mr_status status = begin_pulls(session, moved);
    free(moved);
    return status;
}

mr_status mr_model_session_pull(mr_model_session *session, void *const *out, int64_t timeout_us) {
    begin_call(session, timeout_us);
    MR_TRY(check_open(session));
    if (!session->pulling) MR_TRY(pull_into(session, out));
    return settle(session);
}

/* Whether all gradients are finite as they would be sent. In BSP the pushes look for such values, and the servers leave
 * out all of them. In the other modes a push may be applied before the next tensor is looked at, so all are looked at
 * first. */
static bool are_finite(const mr_model_session *session, const void *const *gradients) {
    for (size_t i = 0; i < session->count && !session->rounds; i++) {
        const tensor *tensor = &session->tensors[i];
        if (gradients[i] != NULL && dtype_convert_first_infinite(tensor->dtype, gradients[i], session->precision,
                                                                 tensor->items) < tensor->items)
            return false;
    }
    return true;
}

/* Pushes the gradients, and counts the step. In BSP all ranks set the counter to the same number. */
static mr_status push_step(mr_model_session *session, const void *const *gradients, float rate) {
    session->has_pushed = true;
    for (size_t i = 0; i < session->count; i++)
        if (gradients[i] != NULL && session->tensors[i].items != 0)
            MR_TRY(push_tensor(session, i, gradients[i], false, rate));
    return push_counter(session, VERSION, session->rounds ? session->number + 1 : 1, session->rounds);
}

mr_status mr_model_session_push(mr_model_session *session, const void *const *gradients,
                                const mr_model_push_options *options, int64_t timeout_us) {
    static const mr_model_push_options none = {.size = sizeof none};
    mr_model_push_options copy;
    OPTION_STRUCT_READ(mr_model_push_options, rate, options, copy);
    if (options == NULL) options = &none;
    begin_call(session, timeout_us);
    MR_TRY(check_open(session));
    MR_TRY(settle(session));
    for (size_t i = 0; i < session->count; i++)
        if (gradients[i] != NULL && session->tensors[i].frozen)
            return error_set(MR_INVALID, "tensor %zu is frozen, and has a gradient: pass NULL for it", i);
    uint64_t before = mr_ps_skipped(session->ps);
    bool finite = are_finite(session, gradients);
    if (finite) MR_TRY(noted(session, push_step(session, gradients, options->rate)));
    mr_status status = end_step(session);
    session->skipped += !finite || mr_ps_skipped(session->ps) != before;
    return status;
}

mr_status mr_model_session_skip(mr_model_session *session, int64_t timeout_us) {
    begin_call(session, timeout_us);
    MR_TRY(check_open(session));
    MR_TRY(settle(session));
    MR_TRY(noted(session, mr_ps_skip(session->ps)));
    session->skipped++;
    return end_step(session);
}

uint64_t mr_model_session_skipped(const mr_model_session *session) { return session->skipped; }

mr_status mr_model_session_version(mr_model_session *session, int64_t timeout_us, uint64_t *version) {
    begin_call(session, timeout_us);
    MR_TRY(check_open(session));
    MR_TRY(settle(session));
    return pull_counter(session, VERSION, version);
}

mr_status mr_model_session_leave(mr_model_session *session, int64_t timeout_us) {
    begin_call(session, timeout_us);
    if (session->open && (session->rounds || session->has_pushed)) {
        MR_TRY(noted(session, mr_ps_skip(session->ps)));
        MR_TRY(end_step(session));
    }
    MR_TRY(settle(session));
    mr_status status = mr_ps_leave(session->ps, left_us(session));
    session->open = false;
    session->joined = session->joined && status == MR_OK;
    return status == MR_DENIED ? MR_OK : noted(session, status); /* denied: no other rank is there to wait */
}

void mr_model_session_close(mr_model_session *session, int64_t timeout_us) {
    if (session == NULL) return;
    begin_call(session, timeout_us);
    (void)settle(session);
    mr_ps_table_free(session->table);
    mr_ps_table_free(session->state);
    free(session->tensors);
    free(session->tickets);
    free(session->about);
    free(session);
}
