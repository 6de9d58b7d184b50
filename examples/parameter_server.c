/* parameter_server.c — a sharded parameter server as an application: each of two servers keeps half of the parameters,
 * two workers pull them and push gradients, and the driver prints them.
 *
 *     cc parameter_server.c $(pkg-config --cflags --libs miniray) -o parameter_server && ./parameter_server */
#include <miniray/runtime.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { SERVERS = 2, WORKERS = 2, SHARD = 5, DIM = SERVERS * SHARD };

MR_CREATE(ParameterServer) { return mr_set_self(call, calloc(SHARD, sizeof(float)), free); }

MR_METHOD(ParameterServer, get_params) { return mr_return(call, mr_vector(mr_self(call), SHARD)); }

MR_METHOD(ParameterServer, update_params) {
    float *params = mr_self(call);
    mr_tensor gradient;
    MR_TRY(mr_arg_tensor(call, 0, &gradient));
    if (gradient.bytes != SHARD * sizeof *params) return mr_fail(call, "a gradient of %zu bytes", gradient.bytes);
    for (int i = 0; i < SHARD; i++) params[i] += ((const float *)gradient.data)[i];
    return MR_OK;
}

/* Sends the calls to all servers before it waits for the first result. */
static mr_status pull(mr_context *mr, const mr_actor *servers, float *params) {
    mr_ref refs[SERVERS];
    mr_value value;
    mr_tensor shard;
    for (int i = 0; i < SERVERS; i++) MR_TRY(mr_call_actor(mr, servers[i], "get_params", &refs[i]));
    for (int i = 0; i < SERVERS; i++) {
        MR_TRY(mr_get(mr, refs[i], MR_FOREVER, &value));
        MR_TRY(mr_value_tensor(&value, &shard));
        memcpy(params + i * SHARD, shard.data, shard.bytes);
        mr_value_release(&value);
        mr_release(mr, refs[i]);
    }
    return MR_OK;
}

MR_TASK(worker) {
    mr_context *mr = mr_call_context(call);
    mr_actor servers[SERVERS];
    float params[DIM], gradient[DIM] = {1, 1, 1, 1, 1, 1, 1, 1, 1, 1};
    for (int i = 0; i < SERVERS; i++) MR_TRY(mr_arg_actor(call, i, &servers[i]));
    for (int step = 0; step < 100; step++) {
        MR_TRY(pull(mr, servers, params));
        usleep(20 * 1000); /* a model would compute the gradient here */
        for (int i = 0; i < SERVERS; i++)
            MR_TRY(mr_call_actor(mr, servers[i], "update_params", NULL, mr_vector(gradient + i * SHARD, SHARD)));
    }
    return MR_OK;
}

static mr_status watch(mr_context *mr) {
    mr_actor servers[SERVERS];
    float params[DIM];
    for (int i = 0; i < SERVERS; i++) MR_TRY(mr_new_actor(mr, "ParameterServer", &servers[i]));
    for (int i = 0; i < WORKERS; i++)
        MR_TRY(mr_call_task(mr, "worker", NULL, mr_handle(servers[0]), mr_handle(servers[1])));
    for (int look = 0; look < 5; look++) {
        usleep(200 * 1000);
        MR_TRY(pull(mr, servers, params));
        for (int i = 0; i < DIM; i++) printf("%g%c", params[i], i < DIM - 1 ? ' ' : '\n');
    }
    return MR_OK;
}

int main(void) {
    mr_context *mr;
    if (mr_init(NULL, &mr) != MR_OK) return fprintf(stderr, "%s\n", mr_last_error()), 1;
    mr_status status = watch(mr);
    if (status != MR_OK) fprintf(stderr, "%s\n", mr_last_error());
    mr_shutdown(mr); /* ends the workers, which still run */
    return status != MR_OK;
}
