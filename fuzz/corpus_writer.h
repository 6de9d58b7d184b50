/* corpus_writer.h — where seeds of fuzz targets are put, or compared with what is there. */
#pragma once
#include <stdbool.h>
#include <stddef.h>

enum { SEED_SIZE_MAX = 16384 };

typedef struct corpus_writer {
    const char *folder;
    bool check; /* nothing is written: what is there has to be the same */
    int wrong;  /* files that are not, or could not be written */
} corpus_writer;

/* into kind/name */
void seed(corpus_writer *writer, const char *kind, const char *name, const void *data, size_t size);
void seed_ps(corpus_writer *writer); /* corpus_seeds_ps.c */
