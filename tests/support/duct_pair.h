/* duct_pair.h — both ends of a duct in one process, and its shared memory as a stranger sees it. */
#pragma once
#include "net/stream/duct.h"

typedef struct duct_pair {
    duct *made, *joined;
    uint64_t *words;
} duct_pair;

void duct_pair_start(duct_pair *pair);
void duct_pair_stop(duct_pair *pair);

/* How many bytes were moved. */
size_t duct_put(duct *duct, const void *bytes, size_t size, bool *wake);
size_t duct_get(duct *duct, void *bytes, size_t size, bool *wake);
