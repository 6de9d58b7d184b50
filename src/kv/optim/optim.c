/* optim.c — list of the optimizers, and their application to rows. See optim.h. */
#include "kv/optim/optim.h"

#include <math.h>
#include <string.h>

#include "base/assert.h"
#include "base/error.h"
#include "base/nearest_name.h"
#include "base/portable_math.h"
#include "base/simd.h"
#include "kv/optim/l2_norm.h"
#include "kv/optim/optim_rules.h"

enum { LINE = 64, LINES_MAX = 4, BIASES = 64, FEW = 16 };

/* ---- Settings. */

static mr_status within(const char *name, float value, float least, float below) {
    if (value >= least && value < below) return MR_OK;
    return error_set(MR_INVALID, "%s is %g; expected at least %g and below %g", name, (double)value, (double)least,
                     (double)below);
}

void optim_users(unsigned use, char *out, size_t room) {
    out[0] = 0;
    for (size_t i = 0; i < OPTIM_RULES_COUNT; i++) {
        if ((optim_rules_table[i].uses & use) != use) continue;
        strncat(out, out[0] == 0 ? "" : ", ", room - strlen(out) - 1);
        strncat(out, optim_rules_table[i].name, room - strlen(out) - 1);
    }
}

mr_status optim_find(const char *name, const optim_ops **out) {
    char names[256], hint[NEAREST_NAME_HINT_MAX];
    for (size_t i = 0; i < OPTIM_RULES_COUNT; i++) {
        if (strcmp(optim_rules_table[i].name, name) != 0) continue;
        *out = &optim_rules_table[i];
        return MR_OK;
    }
    optim_users(0, names, sizeof names);
    return error_set(MR_NOT_FOUND, "unknown optimizer '%s'; expected one of %s%s", name, names,
                     nearest_name_among(name, names, hint));
}

optim_settings optim_defaults(const optim_ops *ops) {
    optim_settings settings = {0};
#define X(name, least, below, initial, text)      \
    if (ops == NULL)                              \
        settings.name = initial;                  \
    else if ((ops->uses & OPTIM_HAS_##name) != 0) \
        settings.name = ops->defaults.name != 0 ? ops->defaults.name : initial;
    MR_PS_HYPERPARAMETERS(X)
#undef X
    return settings;
}

mr_status optim_init(optim *optim, const optim_ops *ops, const optim_settings *settings) {
    MR_ASSERT(ops->states <= OPTIM_STATES_MAX);
#define X(setting, least, below, ...)                                                                         \
    if ((ops->uses & OPTIM_HAS_##setting) != 0 && within(#setting, settings->setting, least, below) != MR_OK) \
        return error_wrap(MR_INVALID, "%s", ops->name);
    MR_PS_HYPERPARAMETERS(X)
#undef X
    *optim = (struct optim){ops, *settings};
    return MR_OK;
}

/* ---- Arrays. */

optim_moment optim_at(const optim *optim, uint64_t t, float rate, float scale) {
    optim_moment moment = {rate, scale, 1, 1, 1};
    MR_ASSERT(t >= 1);
    if (!optim->ops->counts) return moment;
    moment.first = (float)(1 / (1 - math_power((double)optim->settings.beta1, t)));
    moment.second = (float)(1 / sqrt(1 - math_power((double)optim->settings.beta2, t)));
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

typedef struct moments { /* bias corrections of rows with different t; recent ones are cached */
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

/* Increments the update count of a row; it saturates. */
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
        moment->trust = l2_norm_trust(squares[0], squares[1]);
    }
    ops->apply(optim, moment, &arrays, dim);
}

static void fetch(const void *row, size_t lines) {
    for (size_t i = 0; row != NULL && i < lines; i++) __builtin_prefetch((const uint8_t *)row + i * LINE, 1);
}

/* Rows of a few values without state: the loop is inlined, since an update costs less than a call. Same arithmetic as
 * optim_rules.c. Usual sizes take a few instructions: a row is stored after all of it is computed. */
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

SIMD_CLONES static void few_rows_added(void *const *rows, size_t count, uint32_t dim, const float *gradients,
                                       float scale){EACH_FEW(row[k] + scale * gradient[k])}

SIMD_CLONES static void few_rows_descended(void *const *rows, size_t count, uint32_t dim, const float *gradients,
                                           float rate, float scale, float decay) {
    EACH_FEW(row[k] - rate * (scale * gradient[k] + decay * row[k]))
}

static void update_few(const optim *optim, void *const *rows, size_t count, uint32_t dim, const float *gradients,
                       float rate, float scale) {
    for (size_t i = 0; i < OPTIM_AHEAD && i < count; i++) fetch(rows[i], 1);
    if (optim->ops->apply == optim_rules_add)
        few_rows_added(rows, count, dim, gradients, scale);
    else
        few_rows_descended(rows, count, dim, gradients, rate, scale, optim->settings.decay);
}

void optim_rows(const optim *optim, void *const *rows, size_t count, uint32_t dim, const float *gradients, float rate,
                float scale) {
    if (dim <= FEW && (optim->ops->apply == optim_rules_add || optim->ops->apply == optim_rules_sgd)) {
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
