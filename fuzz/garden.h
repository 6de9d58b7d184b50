/* garden.h — where seeds of fuzz targets are put, or compared with what is there. */
#pragma once
#include <stdbool.h>
#include <stddef.h>

enum { SEED_SIZE_MAX = 16384 };

typedef struct garden {
    const char *folder;
    bool check; /* nothing is written: what is there has to be the same */
    int wrong;  /* files that are not, or could not be written */
} garden;

void seed(garden *garden, const char *kind, const char *name, const void *data, size_t size); /* into kind/name */
void seed_ps(garden *garden);                                                                 /* seeds_ps.c */
