/* user_optimizer.c — see user_optimizer.h. */
#include "kv/engine/user_optimizer.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"

typedef struct user_optimizer_optimizer {
    optim_ops ops; /* its name is in this struct */
    char name[TABLE_SCHEMA_NAME];
    mr_ps_optimizer given;
} user_optimizer_optimizer;

struct user_optimizer {
    engine_host host;
    const optim_ops **list; /* owned; each points into its optimizer */
    uint32_t count;
    user_optimizer_optimizer optimizers[];
};

static void apply(const optim *optim, const optim_moment *moment, const optim_arrays *arrays, size_t count) {
    const user_optimizer_optimizer *own = (const void *)optim->ops; /* `ops` is its first field */
    mr_ps_update update = {.count = count,
                           .from = arrays->from,
                           .to = arrays->to,
                           .state = arrays->state,
                           .gradient = arrays->gradient,
                           .rate = moment->rate,
                           .scale = moment->scale,
#define X(name, ...) .name = optim->settings.name,
                           MR_PS_HYPERPARAMETERS(X)
#undef X
    };
    own->given.update(own->given.context, &update);
}

static mr_status check(const mr_ps_optimizer *optimizers, uint32_t at) {
    const mr_ps_optimizer *given = &optimizers[at];
    const size_t most = TABLE_SCHEMA_NAME - sizeof TABLE_SCHEMA_OWN;
    if (given->name == NULL || given->name[0] == '\0' || strlen(given->name) > most)
        return error_set(MR_INVALID, "optimizer %u: its name must have 1 to %zu bytes", at, most);
    if (given->update == NULL) return error_set(MR_INVALID, "optimizer '%s' has no update function", given->name);
    if (given->states > OPTIM_STATES_MAX)
        return error_set(MR_INVALID, "optimizer '%s' has %u state arrays; the limit is %d", given->name, given->states,
                         OPTIM_STATES_MAX);
    for (uint32_t i = 0; i < at; i++)
        if (strcmp(optimizers[i].name, given->name) == 0)
            return error_set(MR_INVALID, "two optimizers have the name '%s'", given->name);
    return MR_OK;
}

mr_status user_optimizer_create(const mr_ps_optimizer *optimizers, uint32_t count, user_optimizer **out) {
    if (optimizers == NULL && count > 0) return error_set(MR_INVALID, "optimizers is NULL, count is %u", count);
    for (uint32_t i = 0; i < count; i++) MR_TRY(check(optimizers, i));
    user_optimizer *user_optimizer = xcalloc(1, sizeof *user_optimizer + count * sizeof *user_optimizer->optimizers);
    user_optimizer->count = count;
    user_optimizer->list = xcalloc(count + 1, sizeof *user_optimizer->list);
    for (uint32_t i = 0; i < count; i++) {
        user_optimizer_optimizer *optimizer = &user_optimizer->optimizers[i];
        memcpy(optimizer->name, optimizers[i].name, strlen(optimizers[i].name));
        optimizer->given = optimizers[i];
        optimizer->ops = (optim_ops){.name = optimizer->name, .states = optimizers[i].states, .apply = apply};
        user_optimizer->list[i] = &optimizer->ops;
    }
    user_optimizer->host = (engine_host){.optimizers = user_optimizer->list, .optimizer_count = count};
    *out = user_optimizer;
    return MR_OK;
}

void user_optimizer_destroy(user_optimizer *optimizer) {
    if (optimizer == NULL) return;
    free(optimizer->list);
    free(optimizer);
}

const engine_host *user_optimizer_host(const user_optimizer *optimizer) { return &optimizer->host; }

bool user_optimizer_has(const user_optimizer *optimizer, const char *name, size_t size) {
    for (uint32_t i = 0; i < optimizer->count; i++)
        if (strlen(optimizer->optimizers[i].name) == size && memcmp(optimizer->optimizers[i].name, name, size) == 0)
            return true;
    return false;
}
