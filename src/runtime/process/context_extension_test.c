/* context_extension_test.c — extensions are found by their kind, and closed once, with the context. */
#include "runtime/process/context_extension.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "runtime/process/context.h"

typedef struct keepsake {
    context_extension extension;
    int *closed; /* counts the calls of close */
} keepsake;

static void keepsake_close(mr_context *mr, context_extension *extension) {
    keepsake *mine = container_of(extension, keepsake, extension);
    (*mine->closed)++;
    free(mine);
}

static void invite(mr_context *mr, const void *kind, int *closed) {
    keepsake *made = xcalloc(1, sizeof *made);
    *made = (keepsake){.extension = {.kind = kind, .close = keepsake_close}, .closed = closed};
    context_extension_invite(mr, &made->extension);
}

static void context_extensions_are_found_by_their_kind_and_closed_once(void **state) {
    static const char first, second, third;
    int closed[2] = {0};
    mr_context *mr = xcalloc(1, sizeof *mr); /* only `peers` is used */
    list_init(&mr->peers);
    assert_null(context_extension_find(mr, &first));
    invite(mr, &first, &closed[0]);
    invite(mr, &second, &closed[1]);
    assert_ptr_equal(container_of(context_extension_find(mr, &first), keepsake, extension)->closed, &closed[0]);
    assert_ptr_equal(container_of(context_extension_find(mr, &second), keepsake, extension)->closed, &closed[1]);
    assert_null(context_extension_find(mr, &third));
    context_extensions_close(mr);
    assert_int_equal(closed[0], 1);
    assert_int_equal(closed[1], 1);
    assert_null(context_extension_find(mr, &first));
    context_extensions_close(mr);
    assert_int_equal(closed[0], 1);
    free(mr);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(context_extensions_are_found_by_their_kind_and_closed_once)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
