/* driver_output.c — see driver_output.h. */
#include "runtime/process/driver_output.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "runtime/process/callback.h"

typedef struct driver_output {
    callback callback;
    mr_context *mr;
    rpc_call_token token;
    std_stream std_stream;
    size_t size;
    char text[];
} driver_output;

/* Writes the whole text to the program's own stream, after the program's own output. */
static void write_out(std_stream std_stream, const char *text, size_t size) {
    FILE *file = std_stream == STD_STREAM_OUT ? stdout : stderr;
    while (size > 0) {
        errno = 0;
        size_t wrote = fwrite(text, 1, size, file);
        if (wrote < size && errno != EINTR) break;
        if (wrote < size) clearerr(file);
        text += wrote;
        size -= wrote;
    }
    fflush(file);
}

static void tell(callback *callback) {
    driver_output *output = container_of(callback, struct driver_output, callback);
    mr_context *mr = output->mr;
    if (mr->print != NULL)
        mr->print(mr->print_user, std_stream_fd(output->std_stream), output->text, output->size);
    else
        write_out(output->std_stream, output->text, output->size);
    context_lock(mr);
    mr_status status = wire_answer(mr->worker.rpc, output->token, (span){0});
    context_unlock(mr);
    free(output);
    (void)status; /* the node is gone: no answer is needed */
}

void driver_output_post(void *context, std_stream std_stream, span text, rpc_call_token token) {
    driver_output *made = xmalloc(sizeof *made + text.size);
    *made = (driver_output){
        .callback.tell = tell, .mr = context, .token = token, .std_stream = std_stream, .size = text.size};
    if (text.size > 0) memcpy(made->text, text.data, text.size);
    callback_post(context, &made->callback);
}
