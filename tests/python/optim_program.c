/* optim_program.c — runs the optimizers for tests/python/test_optim.py.
 *
 * Arguments: the optimizer, dense or rows, dim, count of rows, steps, rate, scale, then name=value settings. Standard
 * input has the values, then one array of gradients for each step, all fp32; standard output gets the final values and
 * state: for `dense` the arrays one after another, for `rows` each row as it is stored. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "kv/optim/l2_norm.h"
#include "kv/optim/optim.h"

static void must(bool good, const char *what) {
    if (good) return;
    fprintf(stderr, "%s: %s\n", what, mr_last_error());
    exit(1);
}

static void set(optim_settings *settings, const char *text) {
    const struct {
        const char *name;
        float *value;
    } all[] = {
#define X(name, ...) {#name, &settings->name},
        MR_PS_HYPERPARAMETERS(X)
#undef X
    };
    size_t length = strcspn(text, "=");
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (strlen(all[i].name) == length && memcmp(all[i].name, text, length) == 0 && text[length] == '=') {
            *all[i].value = strtof(text + length + 1, NULL);
            return;
        }
    must(false, text);
}

typedef struct work {
    optim optim;
    size_t dim, count, steps;
    float rate, scale;
} work;

static void read_floats(float *out, size_t count) { must(fread(out, sizeof *out, count, stdin) == count, "input"); }
static void write_floats(const float *from, size_t count) {
    must(fwrite(from, sizeof *from, count, stdout) == count, "output");
}

static void run_dense(const work *work) {
    size_t items = work->dim * work->count, states = work->optim.ops->states;
    float *memory = xcalloc((states + 3) * items, sizeof *memory), *gradient = memory + (states + 2) * items;
    float *turns[2] = {memory, memory + (states + 1) * items}; /* two versions, used in turn */
    read_floats(turns[0], items);
    for (size_t step = 0; step < work->steps; step++) {
        read_floats(gradient, items);
        optim_arrays arrays = {.from = turns[step % 2], .to = turns[(step + 1) % 2], .gradient = gradient};
        for (size_t k = 0; k < states; k++) arrays.state[k] = memory + (k + 1) * items;
        optim_moment moment = optim_at(&work->optim, step + 1, work->rate, work->scale);
        if (optim_measures(&work->optim)) {
            double squares[2];
            optim_measure(&work->optim, &moment, &arrays, items, squares);
            moment.trust = l2_norm_trust(squares[0], squares[1]);
        }
        optim_apply(&work->optim, &moment, &arrays, items);
    }
    write_floats(turns[work->steps % 2], items);
    write_floats(memory + items, states * items);
    free(memory);
}

static void run_rows(const work *work) {
    uint32_t dim = (uint32_t)work->dim, width = dim + optim_row_state(&work->optim, dim) / (uint32_t)sizeof(float);
    float *memory = xcalloc(work->count * width, sizeof *memory);
    float *gradients = xcalloc(work->count * dim, sizeof *gradients);
    void **rows = xcalloc(work->count, sizeof *rows);
    for (size_t i = 0; i < work->count; i++) read_floats(memory + i * width, dim);
    for (size_t step = 0; step < work->steps; step++) {
        read_floats(gradients, work->count * dim);
        for (size_t i = 0; i < work->count; i++) /* row i is left out of every step that i + 2 divides */
            rows[i] = (step + 1) % (i + 2) == 0 ? NULL : memory + i * width;
        optim_rows(&work->optim, rows, work->count, dim, gradients, work->rate, work->scale);
    }
    write_floats(memory, work->count * width);
    free(memory);
    free(gradients);
    free(rows);
}

int main(int argc, char **argv) {
    must(argc >= 8, "arguments");
    const optim_ops *ops;
    must(optim_find(argv[1], &ops) == MR_OK, "find");
    optim_settings settings = optim_defaults(ops);
    for (int i = 8; i < argc; i++) set(&settings, argv[i]);
    work work = {.dim = strtoul(argv[3], NULL, 10),
                 .count = strtoul(argv[4], NULL, 10),
                 .steps = strtoul(argv[5], NULL, 10),
                 .rate = strtof(argv[6], NULL),
                 .scale = strtof(argv[7], NULL)};
    must(optim_init(&work.optim, ops, &settings) == MR_OK, "init");
    if (strcmp(argv[2], "dense") == 0)
        run_dense(&work);
    else
        run_rows(&work);
    return 0;
}
