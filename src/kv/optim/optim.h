/* optim.h — optimizers: how gradients change values.
 *
 * An optimizer is a table of operations and its settings. It changes arrays (blocks of a dense table) or rows (of a
 * sparse one); items are independent of each other, except in LAMB. All arithmetic is fp32, each operation rounded,
 * without fusing, in this order (w the value, d the incoming gradient; terms in brackets are computed once, in fp64,
 * and rounded):
 *
 *   add        w + scale·d
 *   all others first    g = scale·d + decay·w         (adamw, lamb: g = scale·d)
 *   sgd        w − rate·g
 *   momentum   m = momentum·m + g;  w − rate·m
 *   nesterov   m = momentum·m + g;  w − rate·(g + momentum·m)
 *   adagrad    a = a + g·g;  w − rate·(g / (√a + epsilon))
 *   rmsprop    a = beta2·a + [1−beta2]·(g·g);  w − rate·(g / (√a + epsilon))
 *   adam       m = beta1·m + [1−beta1]·g;  v = beta2·v + [1−beta2]·(g·g);
 *              u = (m·[1/(1−beta1^t)]) / (√v·[1/√(1−beta2^t)] + epsilon);  w − rate·u
 *   adamw      (w − (rate·decay)·w) − rate·u, u as of adam
 *   lamb       u' = u + decay·w;  w − (rate·trust)·u'
 *   ftrl       s = n + g·g;  z = (y + g) − ((√s − √n)·[1/rate])·w;  n = s;
 *              |z| ≤ l1: 0, else (sign(z)·l1 − z) / ((beta + √n)·[1/rate] + l2)
 *              y is the z from which this rate computes w: sign(−w)·l1 − w·((beta + √n)·[1/rate] + l2), or z where w is
 *              0. So assigned values, initial values and changed rates do not change w by themselves. A rate below
 *              2^-64 counts as 0: nothing changes.
 *
 * t counts updates from 1: of the block, or of the row, which then stores t in its state. rate comes from the push or
 * from a schedule (lr_schedule.h), scale from clipping by the global norm (l2_norm.h) or a mean. trust is |w| / |u'|
 * over the whole array: for the blocks of an array, optim_measure returns their parts, which the caller adds in the
 * order of the blocks; each row counts as an array. Weight decay is L2, a part of the gradient, except in adamw and
 * lamb.
 *
 * A row of a sparse table is dim values, then the arrays of state, dim values each, then t as a uint32_t if the
 * optimizer counts. State is initially zero.
 *
 * A user-defined optimizer is another table of operations: its result must depend on its arguments only, on every
 * machine. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "miniray/ps.h"

enum { OPTIM_STATES_MAX = 4, OPTIM_AHEAD = 16 };

/* Bits of an optimizer's hyperparameters, OPTIM_HAS_momentum … (the table is in miniray/ps.h), and of the rate, which
 * comes from a schedule. */
#define X(name, ...) OPTIM_AT_##name,
enum { MR_PS_HYPERPARAMETERS(X) OPTIM_HYPERPARAMETERS };
#undef X
#define X(name, ...) OPTIM_HAS_##name = 1 << OPTIM_AT_##name,
enum { MR_PS_HYPERPARAMETERS(X) OPTIM_HAS_RATE = 1 << OPTIM_HYPERPARAMETERS };
#undef X

typedef struct optim_settings { /* a float per hyperparameter, with its name */
#define X(name, ...) float name;
    MR_PS_HYPERPARAMETERS(X)
#undef X
    const void *own; /* data of a user-defined optimizer; borrowed while it is used */
} optim_settings;

typedef struct optim_moment { /* values of one update; made by optim_at */
    float rate, scale, trust;
    float first, second; /* bias corrections of adam: 1/(1−beta1^t), 1/√(1−beta2^t) */
} optim_moment;

typedef struct optim_arrays { /* of equal lengths; `to` is `from` or does not overlap it */
    const float *from;
    float *to;
    float *state[OPTIM_STATES_MAX];
    const float *gradient;
} optim_arrays;

typedef struct optim optim;

typedef struct optim_ops {
    const char *name;
    uint32_t states; /* number of state arrays */
    bool counts;     /* the update depends on t */
    unsigned uses;   /* bits of the hyperparameters; 0 for user-defined optimizers: their settings are not checked */
    void (*apply)(const optim *optim, const optim_moment *moment, const optim_arrays *arrays, size_t count);
    /* Computes the squares of the values and of the update that apply would make; changes nothing. May be NULL. */
    void (*measure)(const optim *optim, const optim_moment *moment, const optim_arrays *arrays, size_t count,
                    double squares[2]);
    optim_settings defaults; /* defaults that differ from miniray/ps.h; 0: no difference */
} optim_ops;

struct optim {
    const optim_ops *ops;
    optim_settings settings;
};

/* Finds an optimizer by name. MR_NOT_FOUND: the error lists the optimizers. */
MR_MUST mr_status optim_find(const char *name, const optim_ops **out);

/* Lists the names of the optimizers that have a setting (0: all), cut to the room. */
void optim_users(unsigned use, char *out, size_t room);

/* Defaults of the optimizer's hyperparameters, 0 for the others. NULL: defaults of all. */
optim_settings optim_defaults(const optim_ops *ops);

/* MR_INVALID: a setting is out of range; the error names it. */
MR_MUST mr_status optim_init(optim *optim, const optim_ops *ops, const optim_settings *settings);

uint32_t optim_row_state(const optim *optim, uint32_t dim); /* bytes of optimizer state and t per row */

/* Moment of update t ≥ 1. */
optim_moment optim_at(const optim *optim, uint64_t t, float rate, float scale);

/* Makes one update of arrays. For lamb the caller has set moment->trust from the results of optim_measure
 * (l2_norm_trust). */
void optim_apply(const optim *optim, const optim_moment *moment, const optim_arrays *arrays, size_t count);
bool optim_measures(const optim *optim);
void optim_measure(const optim *optim, const optim_moment *moment, const optim_arrays *arrays, size_t count,
                   double squares[2]);

/* Makes one update of each row, in order (rows as from sparse_table_touch; NULL rows are skipped). */
void optim_rows(const optim *optim, void *const *rows, size_t count, uint32_t dim, const float *gradients, float rate,
                float scale);

/* Adds to each item of counter rows, modulo 2^64. */
void optim_count_rows(void *const *rows, size_t count, uint32_t dim, const int64_t *more);
