/* parameter_server.c — a sharded parameter server as an application: two servers keep half of the parameters each, two
 * workers push gradients, the program looks on.
 *
 *     cc parameter_server.c $(pkg-config --cflags --libs miniray) -o parameter_server && ./parameter_server */
#include <miniray/runtime.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { SERVERS = 2, WORKERS = 2, DIM = 5 };

typedef struct server {
    size_t dim;
    float params[];
} server;

MR_CREATE(ParameterServer) {
    int64_t dim;
    MR_TRY(mr_arg_int(call, 0, &dim));
    server *self = calloc(1, sizeof *self + (size_t)dim * sizeof(float));
    if (self != NULL) self->dim = (size_t)dim;
    return mr_set_self(call, self, free);
}

MR_METHOD(ParameterServer, get_params) {
    server *self = mr_self(call);
    return mr_return(call, mr_vector(self->params, self->dim));
}

MR_METHOD(ParameterServer, update_params) {
    server *self = mr_self(call);
    mr_tensor gradient;
    MR_TRY(mr_arg_tensor(call, 0, &gradient));
    for (size_t i = 0; i < self->dim; i++) self->params[i] += ((const float *)gradient.data)[i];
    return MR_OK;
}

MR_TASK(worker) {
    mr_context *mr = mr_call_context(call);
    float gradient[DIM] = {1, 1, 1, 1, 1};
    for (int step = 0; step < 100; step++) {
        usleep(20 * 1000); /* where a model would compute */
        for (size_t i = 0; i < mr_arg_count(call); i++) {
            mr_actor ps;
            MR_TRY(mr_arg_actor(call, i, &ps));
            MR_TRY(mr_call_actor(mr, ps, "update_params", NULL, mr_vector(gradient, DIM)));
        }
    }
    return MR_OK;
}

static mr_status watch(mr_context *mr) {
    mr_actor ps[SERVERS];
    for (int i = 0; i < SERVERS; i++) MR_TRY(mr_new_actor(mr, "ParameterServer", &ps[i], mr_int(DIM)));
    for (int i = 0; i < WORKERS; i++) MR_TRY(mr_call_task(mr, "worker", NULL, mr_handle(ps[0]), mr_handle(ps[1])));
    for (int i = 0; i < 5; i++) {
        usleep(200 * 1000);
        mr_ref ref;
        mr_value value;
        mr_tensor params;
        MR_TRY(mr_call_actor(mr, ps[0], "get_params", &ref));
        MR_TRY(mr_get(mr, ref, MR_FOREVER, &value));
        MR_TRY(mr_value_tensor(&value, &params));
        printf("%g\n", ((const float *)params.data)[0]);
        mr_value_release(&value);
        mr_release(mr, ref);
    }
    return MR_OK;
}

int main(void) {
    mr_context *mr;
    if (mr_init(NULL, &mr) != MR_OK) return fprintf(stderr, "%s\n", mr_last_error()), 1;
    mr_status status = watch(mr);
    if (status != MR_OK) fprintf(stderr, "%s\n", mr_last_error());
    mr_shutdown(mr);
    return status != MR_OK;
}
