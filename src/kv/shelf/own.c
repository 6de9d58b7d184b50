/* own.c — see own.h. */
#include "kv/shelf/own.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/list.h"

typedef struct own_optimizer {
    optim_ops ops; /* its name is the one here */
    char name[DEFINITION_NAME];
    mr_ps_optimizer given;
} own_optimizer;

struct own {
    shelf_host host;
    const optim_ops **list; /* owned, each in its optimizer */
    uint32_t count;
    own_optimizer optimizers[];
};

static void apply(const optim *optim, const optim_moment *moment, const optim_arrays *arrays, size_t count) {
    const own_optimizer *own =
        (const own_optimizer *)(const void *)((const char *)optim->ops - offsetof(own_optimizer, ops));
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
    const size_t most = DEFINITION_NAME - sizeof DEFINITION_OWN;
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

mr_status own_create(const mr_ps_optimizer *optimizers, uint32_t count, own **out) {
    if (optimizers == NULL && count > 0) return error_set(MR_INVALID, "optimizers is NULL, count is %u", count);
    for (uint32_t i = 0; i < count; i++) MR_TRY(check(optimizers, i));
    own *own = xcalloc(1, sizeof *own + count * sizeof *own->optimizers);
    own->count = count;
    own->list = xcalloc(count + 1, sizeof *own->list);
    for (uint32_t i = 0; i < count; i++) {
        own_optimizer *optimizer = &own->optimizers[i];
        memcpy(optimizer->name, optimizers[i].name, strlen(optimizers[i].name));
        optimizer->given = optimizers[i];
        optimizer->ops = (optim_ops){.name = optimizer->name, .states = optimizers[i].states, .apply = apply};
        own->list[i] = &optimizer->ops;
    }
    own->host = (shelf_host){.optimizers = own->list, .optimizer_count = count};
    *out = own;
    return MR_OK;
}

void own_destroy(own *own) {
    if (own == NULL) return;
    free(own->list);
    free(own);
}

const shelf_host *own_host(const own *own) { return &own->host; }

bool own_has(const own *own, const char *name, size_t size) {
    for (uint32_t i = 0; i < own->count; i++)
        if (strlen(own->optimizers[i].name) == size && memcmp(own->optimizers[i].name, name, size) == 0) return true;
    return false;
}
