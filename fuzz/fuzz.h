/* fuzz.h — interface of a fuzz target: one function that accepts any bytes.
 *
 * A target is a file x_fuzz.c with this function. The function asserts its conditions with MR_ASSERT, keeps nothing
 * between calls and returns 0. libFuzzer calls it with generated inputs (`make fuzz`); replay.c calls it with the files
 * of corpus/x, as a plain test in every build. */
#pragma once
#include <stddef.h>
#include <stdint.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
