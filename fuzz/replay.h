/* replay.h — every fuzz target over the files of its corpus, as plain tests: `replay TARGET FOLDER`. The table of
 * targets is written by tools/test-programs. */
#pragma once
#include <stddef.h>
#include <stdint.h>

typedef int replay_fn(const uint8_t *data, size_t size);

typedef struct replay_target {
    const char *name; /* NULL behind the last */
    replay_fn *input;
} replay_target;

extern const replay_target replay_targets[];
