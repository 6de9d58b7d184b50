/* optim_rules.c — see optim_rules.h.
 *
 * Plain loops over arrays. The result of an item depends on that item alone, so the loops may be vectorized with any
 * width, also if `to` is `from`; EACH informs the compiler. Tested by src/kv/optim/optim_test.c. */
#include "kv/optim/optim_rules.h"

#include <math.h>
#include <string.h>

#include "base/simd.h"
#include "kv/optim/l2_norm.h"

#if !defined(__clang__)
#define EACH _Pragma("GCC ivdep")
#elif __has_feature(address_sanitizer)
#define EACH /* without optimization there are no vectors, and clang would warn */
#else
#define EACH _Pragma("clang loop vectorize(assume_safety)")
#endif

/* Variables that all loops share. */
#define BEGIN                                                                                          \
    const float *from = arrays->from, *gradient = arrays->gradient;                                    \
    float *to = arrays->to, rate = moment->rate, scale = moment->scale, decay = optim->settings.decay; \
    (void)rate;                                                                                        \
    (void)decay
#define RULE(name)                                                                                                  \
    SIMD_CLONES static void each_##name(const optim *optim, const optim_moment *moment, const optim_arrays *arrays, \
                                        size_t count)

RULE(add) {
    BEGIN;
    EACH for (size_t i = 0; i < count; i++) to[i] = from[i] + scale * gradient[i];
}

RULE(sgd) {
    BEGIN;
    EACH for (size_t i = 0; i < count; i++) {
        float w = from[i], g = scale * gradient[i] + decay * w;
        to[i] = w - rate * g;
    }
}

RULE(momentum) {
    BEGIN;
    float *speed = arrays->state[0], keep = optim->settings.momentum;
    EACH for (size_t i = 0; i < count; i++) {
        float w = from[i], g = scale * gradient[i] + decay * w, m = keep * speed[i] + g;
        speed[i] = m;
        to[i] = w - rate * m;
    }
}

RULE(nesterov) {
    BEGIN;
    float *speed = arrays->state[0], keep = optim->settings.momentum;
    EACH for (size_t i = 0; i < count; i++) {
        float w = from[i], g = scale * gradient[i] + decay * w, m = keep * speed[i] + g;
        speed[i] = m;
        to[i] = w - rate * (g + keep * m);
    }
}

RULE(adagrad) {
    BEGIN;
    float *squares = arrays->state[0], epsilon = optim->settings.epsilon;
    EACH for (size_t i = 0; i < count; i++) {
        float w = from[i], g = scale * gradient[i] + decay * w, a = squares[i] + g * g;
        squares[i] = a;
        to[i] = w - rate * (g / (sqrtf(a) + epsilon));
    }
}

RULE(rmsprop) {
    BEGIN;
    float *squares = arrays->state[0], epsilon = optim->settings.epsilon;
    float keep = optim->settings.beta2, take = (float)(1 - (double)keep);
    EACH for (size_t i = 0; i < count; i++) {
        float w = from[i], g = scale * gradient[i] + decay * w, a = keep * squares[i] + take * (g * g);
        squares[i] = a;
        to[i] = w - rate * (g / (sqrtf(a) + epsilon));
    }
}

/* ---- Adam and its variants. */

typedef struct adam_numbers {
    float keep1, take1, keep2, take2, first, second, epsilon;
} adam_numbers;

static inline adam_numbers adam_of(const optim *optim, const optim_moment *moment) {
    float keep1 = optim->settings.beta1, keep2 = optim->settings.beta2;
    return (adam_numbers){keep1,          (float)(1 - (double)keep1), keep2, (float)(1 - (double)keep2), moment->first,
                          moment->second, optim->settings.epsilon};
}

static inline float adam_update(const adam_numbers *a, float m, float v) {
    return (m * a->first) / (sqrtf(v) * a->second + a->epsilon);
}

RULE(adam) {
    BEGIN;
    adam_numbers a = adam_of(optim, moment);
    float *mean = arrays->state[0], *squares = arrays->state[1];
    EACH for (size_t i = 0; i < count; i++) {
        float w = from[i], g = scale * gradient[i] + decay * w;
        float m = a.keep1 * mean[i] + a.take1 * g, v = a.keep2 * squares[i] + a.take2 * (g * g);
        mean[i] = m;
        squares[i] = v;
        to[i] = w - rate * adam_update(&a, m, v);
    }
}

RULE(adamw) {
    BEGIN;
    adam_numbers a = adam_of(optim, moment);
    float *mean = arrays->state[0], *squares = arrays->state[1], shrink = rate * decay;
    EACH for (size_t i = 0; i < count; i++) {
        float w = from[i], g = scale * gradient[i];
        float m = a.keep1 * mean[i] + a.take1 * g, v = a.keep2 * squares[i] + a.take2 * (g * g);
        mean[i] = m;
        squares[i] = v;
        to[i] = (w - shrink * w) - rate * adam_update(&a, m, v);
    }
}

RULE(lamb) {
    BEGIN;
    adam_numbers a = adam_of(optim, moment);
    float *mean = arrays->state[0], *squares = arrays->state[1], trusted = rate * moment->trust;
    EACH for (size_t i = 0; i < count; i++) {
        float w = from[i], g = scale * gradient[i];
        float m = a.keep1 * mean[i] + a.take1 * g, v = a.keep2 * squares[i] + a.take2 * (g * g);
        mean[i] = m;
        squares[i] = v;
        to[i] = w - trusted * (adam_update(&a, m, v) + decay * w);
    }
}

/* Updates of a stretch, as optim_rules_lamb would make them. */
SIMD_CLONES static void lamb_updates(const optim *optim, const optim_moment *moment, const optim_arrays *arrays,
                                     size_t at, size_t count, float *restrict out) {
    const float *from = arrays->from + at, *gradient = arrays->gradient + at;
    const float *mean = arrays->state[0] + at, *squares = arrays->state[1] + at;
    adam_numbers a = adam_of(optim, moment);
    float scale = moment->scale, decay = optim->settings.decay;
    for (size_t i = 0; i < count; i++) {
        float g = scale * gradient[i];
        float m = a.keep1 * mean[i] + a.take1 * g, v = a.keep2 * squares[i] + a.take2 * (g * g);
        out[i] = adam_update(&a, m, v) + decay * from[i];
    }
}

static void measure_lamb(const optim *optim, const optim_moment *moment, const optim_arrays *arrays, size_t count,
                         double squares[2]) {
    enum { STRETCH = 1024 };
    float updates[STRETCH];
    squares[0] = squares[1] = 0;
    for (size_t at = 0; at < count; at += STRETCH) {
        size_t size = count - at < STRETCH ? count - at : STRETCH;
        lamb_updates(optim, moment, arrays, at, size, updates);
        squares[0] += l2_norm_squares(arrays->from + at, size);
        squares[1] += l2_norm_squares(updates, size);
    }
}

/* The inverse of a smaller rate would be too large; schedules end at 0. */
#define FTRL_RATE_MIN 0x1p-64f

RULE(ftrl) {
    BEGIN;
    float *sums = arrays->state[0], *squares = arrays->state[1], inverse = (float)(1 / (double)rate);
    float beta = optim->settings.beta, l1 = optim->settings.l1, l2 = optim->settings.l2;
    if (rate < FTRL_RATE_MIN) {
        if (to != from) memcpy(to, from, count * sizeof *to);
        return;
    }
    EACH for (size_t i = 0; i < count; i++) {
        float w = from[i], g = scale * gradient[i] + decay * w, n = squares[i], s = n + g * g;
        float root = sqrtf(s), before = sqrtf(n);
        float of_w = copysignf(l1, -w) - w * ((beta + before) * inverse + l2), y = w == 0 ? sums[i] : of_w;
        float z = (y + g) - ((root - before) * inverse) * w;
        sums[i] = z;
        squares[i] = s;
        float moved = (copysignf(l1, z) - z) / ((beta + root) * inverse + l2);
        to[i] = fabsf(z) <= l1 ? 0 : moved;
    }
}

/* ---- Exported functions. clang renames clones that other files can see, so these call them. */

#define X(name)                                                                                         \
    void optim_rules_##name(const optim *optim, const optim_moment *moment, const optim_arrays *arrays, \
                            size_t count) {                                                             \
        each_##name(optim, moment, arrays, count);                                                      \
    }
OPTIM_RULES(X)
#undef X

/* ---- List of the optimizers. */

#define HAS(name) OPTIM_HAS_##name
enum {
    PLAIN = OPTIM_HAS_RATE | HAS(decay),
    SPEED = PLAIN | HAS(momentum),
    SQUARES = PLAIN | HAS(epsilon),
    ADAM = SQUARES | HAS(beta1) | HAS(beta2),
    FTRL = PLAIN | HAS(beta) | HAS(l1) | HAS(l2)
};

const optim_ops optim_rules_table[OPTIM_RULES_COUNT] = {
    {"add", 0, false, 0, optim_rules_add, NULL, {0}},
    {"sgd", 0, false, PLAIN, optim_rules_sgd, NULL, {0}},
    {"momentum", 1, false, SPEED, optim_rules_momentum, NULL, {0}},
    {"nesterov", 1, false, SPEED, optim_rules_nesterov, NULL, {0}},
    {"adagrad", 1, false, SQUARES, optim_rules_adagrad, NULL, {0}},
    {"rmsprop", 1, false, SQUARES | HAS(beta2), optim_rules_rmsprop, NULL, {.beta2 = 0.99f}},
    {"adam", 2, true, ADAM, optim_rules_adam, NULL, {0}},
    {"adamw", 2, true, ADAM, optim_rules_adamw, NULL, {0}},
    {"lamb", 2, true, ADAM, optim_rules_lamb, measure_lamb, {.epsilon = 1e-6f}},
    {"ftrl", 2, false, FTRL, optim_rules_ftrl, NULL, {0}},
};
