/* shelves.h — shelves for tests: their bytes, and that two have the same. */
#pragma once
#include "kv/shelf/shelf.h"

bale *shelves_bytes(void *shelf);           /* its whole state; the caller's */
void shelves_assert_same(void *a, void *b); /* else the test has failed */
