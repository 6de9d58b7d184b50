/* optim_rules.h — built-in optimizers: their list and their loops. optim.h has the formulas. */
#pragma once
#include "kv/optim/optim.h"

#define OPTIM_RULES(X) \
    X(add)             \
    X(sgd)             \
    X(momentum)        \
    X(nesterov)        \
    X(adagrad)         \
    X(rmsprop)         \
    X(adam)            \
    X(adamw)           \
    X(lamb)            \
    X(ftrl)

enum { OPTIM_RULES_COUNT = 10 };
extern const optim_ops optim_rules_table[OPTIM_RULES_COUNT];

#define X(name) \
    void optim_rules_##name(const optim *optim, const optim_moment *moment, const optim_arrays *arrays, size_t count);
OPTIM_RULES(X)
#undef X
