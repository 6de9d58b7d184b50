/* rules.h — the built-in optimizers: which there are, and their loops. See optim.h for what they compute. */
#pragma once
#include "kv/optim/optim.h"

#define RULES(X) \
    X(add)       \
    X(sgd)       \
    X(momentum)  \
    X(nesterov)  \
    X(adagrad)   \
    X(rmsprop)   \
    X(adam)      \
    X(adamw)     \
    X(lamb)      \
    X(ftrl)

enum { RULES_COUNT = 10 };
extern const optim_ops rules_table[RULES_COUNT];

#define X(name) \
    void rules_##name(const optim *optim, const optim_moment *moment, const optim_arrays *arrays, size_t count);
RULES(X)
#undef X
