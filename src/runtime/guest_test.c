/* guest_test.c — what a higher layer keeps with a context is found by its kind, and closed with it. */
#include "runtime/guest.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "runtime/context.h"

typedef struct keepsake {
    guest guest;
    int *closed; /* counts */
} keepsake;

static void keepsake_close(mr_context *mr, guest *guest) {
    keepsake *mine = container_of(guest, keepsake, guest);
    (*mine->closed)++;
    free(mine);
}

static void invite(mr_context *mr, const void *kind, int *closed) {
    keepsake *made = xcalloc(1, sizeof *made);
    *made = (keepsake){.guest = {.kind = kind, .close = keepsake_close}, .closed = closed};
    guest_invite(mr, &made->guest);
}

static void guests_are_found_by_their_kind_and_closed_once(void **state) {
    static const char first, second, third;
    int closed[2] = {0};
    mr_context *mr = xcalloc(1, sizeof *mr); /* nothing else of it is looked at */
    list_init(&mr->guests);
    assert_null(guest_find(mr, &first));
    invite(mr, &first, &closed[0]);
    invite(mr, &second, &closed[1]);
    assert_ptr_equal(container_of(guest_find(mr, &first), keepsake, guest)->closed, &closed[0]);
    assert_ptr_equal(container_of(guest_find(mr, &second), keepsake, guest)->closed, &closed[1]);
    assert_null(guest_find(mr, &third));
    guests_close(mr);
    assert_int_equal(closed[0], 1);
    assert_int_equal(closed[1], 1);
    assert_null(guest_find(mr, &first));
    guests_close(mr);
    assert_int_equal(closed[0], 1);
    free(mr);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(guests_are_found_by_their_kind_and_closed_once)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
