/* fuzz.h — interface of a fuzz target: one function that accepts any bytes.
 *
 * A target is a file x_fuzz.c with this function in it. It states what must hold with MR_ASSERT, keeps nothing between
 * calls and returns 0. libFuzzer calls it with what it makes up (`make fuzz`), replay.c with the files of corpus/x,
 * as a plain test in every build. */
#pragma once
#include <stddef.h>
#include <stdint.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
