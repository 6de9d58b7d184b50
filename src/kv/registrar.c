/* registrar.c — see registrar.h. */
#include "kv/registrar.h"

#include "base/alloc.h"

static ballot_bytes encode(const catalogue *catalogue) {
    ballot_bytes bytes = {.size = catalogue_size(catalogue)};
    bytes.data = xmalloc(bytes.size);
    writer writer = writer_of(bytes.data, bytes.size);
    catalogue_encode(catalogue, &writer);
    return bytes;
}

static mr_status edit(void *argument, span value, ballot_bytes *out) {
    const registrar_ask *ask = argument;
    catalogue catalogue = {0};
    bool changed = false;
    mr_status status = catalogue_decode(value, &catalogue);
    if (status == MR_OK) status = ask->edit(ask->argument, &catalogue, &changed);
    if (status == MR_OK && changed) *out = encode(&catalogue);
    catalogue_fini(&catalogue);
    return status;
}

ballot *registrar_begin(coordinator coordinator, registrar_ask *ask) {
    return ballot_begin(coordinator, CATALOGUE_KEY, edit, ask);
}
