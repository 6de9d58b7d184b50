/* shelves.c — see shelves.h. */
#include "tests/support/shelves.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

bale *shelves_bytes(void *shelf) {
    bale *bale = bale_new(shelf_ops.size(shelf));
    shelf_ops.write(shelf, bale_room(bale));
    return bale;
}

void shelves_assert_same(void *a, void *b) {
    bale *left = shelves_bytes(a), *right = shelves_bytes(b);
    assert_int_equal(bale_bytes(left).size, bale_bytes(right).size);
    assert_memory_equal(bale_bytes(left).data, bale_bytes(right).data, bale_bytes(left).size);
    bale_unref(left);
    bale_unref(right);
}
