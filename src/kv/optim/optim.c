/* optim.c — which optimizers there are, and how they meet rows. See optim.h. */
#include "kv/optim/optim.h"

#include <math.h>
#include <string.h>

#include "base/assert.h"
#include "base/error.h"
#include "base/real.h"
#include "base/vector.h"
#include "kv/optim/norm.h"
#include "kv/optim/rules.h"

enum { LINE = 64, LINES_MAX = 4, BIASES = 64, FEW = 16 };

/* ---- Settings. */

static mr_status within(const char *name, float value, float least, float below) {
    if (value >= least && value < below) return MR_OK;
    return error_set(MR_INVALID, "%s = %g: at least %g and below %g", name, (double)value, (double)least,
                     (double)below);
}

static mr_status check_plain(const optim_settings *s) { return within("decay", s->decay, 0, 1e9f); }

static mr_status check_momentum(const optim_settings *s) {
    MR_TRY(within("momentum", s->momentum, 0, 1));
    return check_plain(s);
}

static mr_status check_squares(const optim_settings *s) { /* what divides by a root */
    MR_TRY(within("epsilon", s->epsilon, 0x1p-100f, 1e9f));
    return check_plain(s);
}

static mr_status check_rmsprop(const optim_settings *s) {
    MR_TRY(within("beta2", s->beta2, 0, 1));
    return check_squares(s);
}

static mr_status check_adam(const optim_settings *s) {
    MR_TRY(within("beta1", s->beta1, 0, 1));
    return check_rmsprop(s);
}

static mr_status check_ftrl(const optim_settings *s) {
    MR_TRY(within("beta", s->beta, 0x1p-100f, 1e9f));
    MR_TRY(within("l1", s->l1, 0, 1e9f));
    MR_TRY(within("l2", s->l2, 0, 1e9f));
    return check_plain(s);
}

enum {
    PLAIN = OPTIM_RATE | OPTIM_DECAY,
    SPEED = PLAIN | OPTIM_MOMENTUM,
    SQUARES = PLAIN | OPTIM_EPSILON,
    ADAM = SQUARES | OPTIM_BETA1 | OPTIM_BETA2
};

static const optim_ops table[] = {
    {"add", 0, false, 0, check_plain, rules_add, NULL},
    {"sgd", 0, false, PLAIN, check_plain, rules_sgd, NULL},
    {"momentum", 1, false, SPEED, check_momentum, rules_momentum, NULL},
    {"nesterov", 1, false, SPEED, check_momentum, rules_nesterov, NULL},
    {"adagrad", 1, false, SQUARES, check_squares, rules_adagrad, NULL},
    {"rmsprop", 1, false, SQUARES | OPTIM_BETA2, check_rmsprop, rules_rmsprop, NULL},
    {"adam", 2, true, ADAM, check_adam, rules_adam, NULL},
    {"adamw", 2, true, ADAM, check_adam, rules_adamw, NULL},
    {"lamb", 2, true, ADAM, check_adam, rules_lamb, rules_measure_lamb},
    {"ftrl", 2, false, PLAIN | OPTIM_FTRL, check_ftrl, rules_ftrl, NULL},
};
enum { COUNT = sizeof table / sizeof *table };

void optim_users(unsigned use, char *out, size_t room) {
    out[0] = 0;
    for (size_t i = 0; i < COUNT; i++) {
        if ((table[i].uses & use) != use) continue;
        strncat(out, out[0] == 0 ? "" : ", ", room - strlen(out) - 1);
        strncat(out, table[i].name, room - strlen(out) - 1);
    }
}

mr_status optim_find(const char *name, const optim_ops **out) {
    char names[256];
    for (size_t i = 0; i < COUNT; i++) {
        if (strcmp(table[i].name, name) != 0) continue;
        *out = &table[i];
        return MR_OK;
    }
    optim_users(0, names, sizeof names);
    return error_set(MR_NOT_FOUND, "no optimizer is called '%s'; there are %s", name, names);
}

optim_settings optim_defaults(const optim_ops *ops) {
    float beta2 = strcmp(ops->name, "rmsprop") == 0 ? 0.99f : 0.999f;
    float epsilon = strcmp(ops->name, "lamb") == 0 ? 1e-6f : 1e-8f;
    return (optim_settings){.momentum = (ops->uses & OPTIM_MOMENTUM) != 0 ? 0.9f : 0,
                            .beta1 = (ops->uses & OPTIM_BETA1) != 0 ? 0.9f : 0,
                            .beta2 = (ops->uses & OPTIM_BETA2) != 0 ? beta2 : 0,
                            .epsilon = (ops->uses & OPTIM_EPSILON) != 0 ? epsilon : 0,
                            .beta = (ops->uses & OPTIM_FTRL) != 0 ? 1 : 0};
}

mr_status optim_init(optim *optim, const optim_ops *ops, const optim_settings *settings) {
    MR_ASSERT(ops->states <= OPTIM_STATES_MAX);
    if (ops->check != NULL) {
        mr_status status = ops->check(settings);
        if (status != MR_OK) return error_wrap(status, "%s", ops->name);
    }
    *optim = (struct optim){ops, *settings};
    return MR_OK;
}

/* ---- Arrays. */

optim_moment optim_at(const optim *optim, uint64_t t, float rate, float scale) {
    optim_moment moment = {rate, scale, 1, 1, 1};
    MR_ASSERT(t >= 1);
    if (!optim->ops->counts) return moment;
    moment.first = (float)(1 / (1 - real_power((double)optim->settings.beta1, t)));
    moment.second = (float)(1 / sqrt(1 - real_power((double)optim->settings.beta2, t)));
    return moment;
}

void optim_apply(const optim *optim, const optim_moment *moment, const optim_arrays *arrays, size_t count) {
    optim->ops->apply(optim, moment, arrays, count);
}

bool optim_measures(const optim *optim) { return optim->ops->measure != NULL; }

void optim_measure(const optim *optim, const optim_moment *moment, const optim_arrays *arrays, size_t count,
                   double squares[2]) {
    MR_ASSERT(optim_measures(optim));
    optim->ops->measure(optim, moment, arrays, count, squares);
}

/* ---- Rows. */

uint32_t optim_row_state(const optim *optim, uint32_t dim) {
    return (optim->ops->states * dim + (optim->ops->counts ? 1 : 0)) * (uint32_t)sizeof(float);
}

typedef struct moments { /* of rows, whose t differ: those made lately are kept */
    float rate, scale;
    uint32_t t[BIASES]; /* 0: none */
    optim_moment of[BIASES];
} moments;

static optim_moment *moment_of(moments *moments, const optim *optim, uint32_t t) {
    size_t at = t % BIASES;
    if (moments->t[at] != t) moments->of[at] = optim_at(optim, t, moments->rate, moments->scale);
    moments->t[at] = t;
    return &moments->of[at];
}

/* The count of a row, with this update; it stops where it would begin anew. */
static uint32_t count_on(uint8_t *place) {
    uint32_t t;
    memcpy(&t, place, sizeof t);
    if (t < UINT32_MAX) t++;
    memcpy(place, &t, sizeof t);
    return t;
}

static void update_row(const optim *optim, moments *moments, float *row, uint32_t dim, const float *gradient) {
    const optim_ops *ops = optim->ops;
    optim_arrays arrays = {.from = row, .to = row, .gradient = gradient};
    for (uint32_t k = 0; k < ops->states; k++) arrays.state[k] = row + (size_t)(k + 1) * dim;
    uint32_t t = ops->counts ? count_on((uint8_t *)(row + (size_t)(ops->states + 1) * dim)) : 1;
    optim_moment *moment = moment_of(moments, optim, t);
    if (ops->measure != NULL) {
        double squares[2];
        ops->measure(optim, moment, &arrays, dim, squares);
        moment->trust = norm_trust(squares[0], squares[1]);
    }
    ops->apply(optim, moment, &arrays, dim);
}

static void fetch(const void *row, size_t lines) {
    for (size_t i = 0; row != NULL && i < lines; i++) __builtin_prefetch((const uint8_t *)row + i * LINE, 1);
}

/* Rows of a few values without state: what an update of one does is less than a call. The arithmetic is that of
 * rules.c. Sizes that are usual are a few instructions: such a row is written when all of it is known. */
#define EACH_ROW(size, how)                                           \
    for (size_t i = 0; i < count; i++) {                              \
        if (i + OPTIM_AHEAD < count) fetch(rows[i + OPTIM_AHEAD], 1); \
        const float *gradient = gradients + i * (size);               \
        float *row = rows[i];                                         \
        if (row == NULL) continue;                                    \
        how                                                           \
    }
#define AT_ONCE(size, update)                                    \
    float becomes[size];                                         \
    for (uint32_t k = 0; k < (size); k++) becomes[k] = (update); \
    for (uint32_t k = 0; k < (size); k++) row[k] = becomes[k];
#define EACH_FEW(update)                                                                 \
    switch (dim) {                                                                       \
    case 4: EACH_ROW(4, AT_ONCE(4, update)) break;                                       \
    case 8: EACH_ROW(8, AT_ONCE(8, update)) break;                                       \
    case 16: EACH_ROW(16, AT_ONCE(16, update)) break;                                    \
    default: EACH_ROW(dim, for (uint32_t k = 0; k < dim; k++) row[k] = (update);) break; \
    }

VECTOR_CLONES static void few_rows_added(void *const *rows, size_t count, uint32_t dim, const float *gradients,
                                         float scale){EACH_FEW(row[k] + scale * gradient[k])}

VECTOR_CLONES static void few_rows_descended(void *const *rows, size_t count, uint32_t dim, const float *gradients,
                                             float rate, float scale, float decay) {
    EACH_FEW(row[k] - rate * (scale * gradient[k] + decay * row[k]))
}

static void update_few(const optim *optim, void *const *rows, size_t count, uint32_t dim, const float *gradients,
                       float rate, float scale) {
    for (size_t i = 0; i < OPTIM_AHEAD && i < count; i++) fetch(rows[i], 1);
    if (optim->ops->apply == rules_add)
        few_rows_added(rows, count, dim, gradients, scale);
    else
        few_rows_descended(rows, count, dim, gradients, rate, scale, optim->settings.decay);
}

void optim_rows(const optim *optim, void *const *rows, size_t count, uint32_t dim, const float *gradients, float rate,
                float scale) {
    if (dim <= FEW && (optim->ops->apply == rules_add || optim->ops->apply == rules_sgd)) {
        update_few(optim, rows, count, dim, gradients, rate, scale);
        return;
    }
    moments moments;
    moments.rate = rate;
    moments.scale = scale;
    memset(moments.t, 0, sizeof moments.t);
    size_t bytes = dim * sizeof(float) + optim_row_state(optim, dim);
    size_t lines = (bytes + LINE - 1) / LINE < LINES_MAX ? (bytes + LINE - 1) / LINE : LINES_MAX;
    for (size_t i = 0; i < OPTIM_AHEAD && i < count; i++) fetch(rows[i], lines);
    for (size_t i = 0; i < count; i++) {
        if (i + OPTIM_AHEAD < count) fetch(rows[i + OPTIM_AHEAD], lines);
        if (rows[i] != NULL) update_row(optim, &moments, rows[i], dim, gradients + i * dim);
    }
}

void optim_count_rows(void *const *rows, size_t count, uint32_t dim, const int64_t *more) {
    for (size_t i = 0; i < count; i++) {
        if (i + OPTIM_AHEAD < count) fetch(rows[i + OPTIM_AHEAD], 1);
        uint64_t *row = rows[i];
        for (uint32_t k = 0; row != NULL && k < dim; k++) row[k] += (uint64_t)more[i * dim + k];
    }
}
