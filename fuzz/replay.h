/* replay.h — runs the fuzz targets on the files of their corpora, as plain tests: `replay TARGET FOLDER`.
 * tools/test-programs writes the table of targets. */
#pragma once
#include <stddef.h>
#include <stdint.h>

typedef int replay_fn(const uint8_t *data, size_t size);

typedef struct replay_target {
    const char *name; /* NULL: end of the table */
    replay_fn *input;
} replay_target;

extern const replay_target replay_targets[];
