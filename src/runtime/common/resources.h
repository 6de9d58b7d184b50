/* resources.h — amounts of CPUs, GPUs and custom resources, in exact thousandths. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/bytes.h"
#include "miniray/status.h"

enum {
    RESOURCES_MAX = 100, /* kinds in one amount; on the wire a byte has room for 127 */
    RESOURCE_NAME_MAX = 31,
    RESOURCES_BYTES_MAX = 13 + RESOURCES_MAX * (4 + RESOURCE_NAME_MAX + 8),     /* encoded */
    RESOURCES_TEXT_MAX = 64 + RESOURCES_MAX * (RESOURCE_NAME_MAX + 1 + 20 + 2), /* as text, with its end */
};

typedef struct resource {
    char name[RESOURCE_NAME_MAX + 1];
    int64_t milli;
} resource;

typedef struct resources { /* plain data; zeroed: nothing. Sorted by name, no amount is zero */
    uint64_t group;        /* of a need: its placement group; 0: the machine */
    uint32_t bundle;       /* bundle of that group, from 1; 0: any */
    uint32_t count;
    resource items[RESOURCES_MAX];
} resources;

/* MR_INVALID: a bad name, an amount that is negative, not finite or finer than a thousandth, or too many. */
MR_MUST mr_status resources_set(resources *resources, const char *name, double amount);
MR_MUST mr_status resources_parse(resources *resources, const char *text); /* "name=2,other=0.5"; sets those */
int64_t resources_milli(const resources *resources, const char *name);

bool resources_fit(const resources *need, const resources *have);       /* ignores the placement group */
MR_MUST mr_status resources_add(resources *sum, const resources *more); /* MR_INVALID: too many kinds, or too much */
void resources_take(resources *have, const resources *need); /* may leave negative amounts; every kind must be listed */
void resources_give(resources *have, const resources *back);
bool resources_equal(const resources *a, const resources *b); /* and in the same placement group and bundle */
uint64_t resources_hash(const resources *resources);          /* equal resources have equal hashes */
void resources_text(const resources *resources, char *out, size_t size); /* "cpu=1, gpu=0.5" or "cpu=1 in g2:1" */

void resources_encode(const resources *resources, writer *writer);
MR_MUST mr_status resources_decode(reader *reader, resources *out); /* MR_CORRUPT */
