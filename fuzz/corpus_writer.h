/* corpus_writer.h — writes the seeds of fuzz targets to files, or compares them with the existing files. */
#pragma once
#include <stdbool.h>
#include <stddef.h>

enum { SEED_SIZE_MAX = 16384 };

typedef struct corpus_writer {
    const char *folder;
    bool check; /* compare with the existing files, write nothing */
    int wrong;  /* files that differ, or could not be written */
} corpus_writer;

/* the file is kind/name */
void seed(corpus_writer *writer, const char *kind, const char *name, const void *data, size_t size);
void seed_ps(corpus_writer *writer); /* in corpus_seeds_ps.c */
