/* glass_test.c — memory that others look at: what they see, what they notice, what they cannot do. */
#include "net/shm/glass.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

enum { SIZE = GLASS_FRONT + (1 << 20), STRETCH = 8192 };

static glass *made(void) {
    glass *glass = NULL;
    assert_int_equal(glass_create(SIZE, &glass), MR_OK);
    return glass;
}

static uint64_t offset_of(const glass *glass, const void *memory) {
    uint64_t offset = 0;
    assert_true(glass_holds(glass, memory, 1, &offset));
    return offset;
}

static void others_see_what_is_written(void **state) {
    glass *glass = made();
    glass_view view;
    void *memory;
    assert_int_equal(glass_look(glass_fd(glass), &view), MR_OK);
    assert_int_equal(glass_take(glass, STRETCH, &memory), MR_OK);
    memset(memory, 7, STRETCH);
    const uint8_t *seen = glass_at(&view, offset_of(glass, memory), STRETCH);
    assert_non_null(seen);
    assert_memory_equal(seen, memory, STRETCH);
    glass_view own = glass_own_view(glass);
    assert_ptr_equal(glass_at(&own, offset_of(glass, memory), STRETCH), memory);
    glass_destroy(glass); /* whoever looks still sees it */
    assert_int_equal(seen[STRETCH - 1], 7);
    glass_look_away(&view);
}

static void who_looks_cannot_write(void **state) {
    glass *glass = made();
    errno = 0;
    assert_ptr_equal(mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, glass_fd(glass), 0), MAP_FAILED);
    assert_int_equal(errno, EACCES);
    assert_int_equal(ftruncate(glass_fd(glass), 0), -1); /* nor make it shorter */
    glass_destroy(glass);
}

static void what_was_given_back_is_zero_again(void **state) {
    glass *glass = made();
    static const uint8_t zeros[STRETCH];
    void *memory, *again;
    assert_int_equal(glass_take(glass, STRETCH, &memory), MR_OK);
    assert_memory_equal(memory, zeros, STRETCH);
    memset(memory, 7, STRETCH);
    assert_true(glass_owns(glass, memory));
    assert_false(glass_owns(glass, (uint8_t *)memory + 4096));
    assert_int_equal(glass_used(glass), STRETCH);
    glass_give(glass, memory);
    glass_give(glass, NULL);
    assert_false(glass_owns(glass, memory));
    assert_int_equal(glass_used(glass), 0);
    assert_int_equal(glass_take(glass, STRETCH, &again), MR_OK);
    assert_ptr_equal(again, memory);
    assert_memory_equal(again, zeros, STRETCH);
    glass_destroy(glass);
}

static void there_is_so_much_and_no_more(void **state) {
    glass *glass = made();
    void *memory;
    assert_int_equal(glass_take(glass, 0, &memory), MR_INVALID);
    assert_int_equal(glass_take(glass, SIZE, &memory), MR_NOMEM);
    assert_int_equal(glass_take(glass, SIZE_MAX, &memory), MR_NOMEM);
    assert_int_equal(glass_take(glass, SIZE - GLASS_FRONT, &memory), MR_OK);
    assert_int_equal(glass_take(glass, 1, &memory), MR_NOMEM);
    glass_destroy(glass);
    assert_int_equal(glass_create(GLASS_FRONT, &glass), MR_INVALID);
}

static void nothing_beside_it_is_seen(void **state) {
    glass *glass = made();
    glass_view view, none = {0};
    uint8_t byte;
    uint64_t offset;
    assert_int_equal(glass_look(glass_fd(glass), &view), MR_OK);
    assert_null(glass_at(&view, 0, 8)); /* its front */
    assert_null(glass_at(&view, GLASS_FRONT - 1, 1));
    assert_null(glass_at(&view, SIZE - 4, 5));
    assert_null(glass_at(&view, SIZE + 1, 0));
    assert_null(glass_at(&view, UINT64_MAX, 2));
    assert_null(glass_at(&none, GLASS_FRONT, 1));
    assert_non_null(glass_at(&view, SIZE - 4, 4));
    assert_false(glass_copy(&view, 1, 0, SIZE, 1, false, &byte));
    assert_false(glass_copy(&view, 0, 0, GLASS_FRONT, 1, false, &byte));
    assert_false(glass_copy(&view, GLASS_WORDS, 0, GLASS_FRONT, 1, false, &byte));
    assert_false(glass_copy(&view, 1, 0, SIZE, 1, true, &byte));
    assert_false(glass_copy(&view, 0, 0, GLASS_FRONT, 1, true, &byte));
    assert_false(glass_holds(glass, &byte, 1, &offset));
    assert_false(glass_holds(glass, view.base, 1, &offset)); /* another mapping of the same */
    glass_look_away(&view);
    glass_destroy(glass);
}

static void a_copy_knows_whether_it_is_old(void **state) {
    glass *glass = made();
    glass_view view;
    void *memory;
    uint8_t copy[STRETCH];
    assert_int_equal(glass_look(glass_fd(glass), &view), MR_OK);
    assert_int_equal(glass_take(glass, STRETCH, &memory), MR_OK);
    uint32_t word = glass_word_take(glass), other = glass_word_take(glass);
    uint64_t offset = offset_of(glass, memory), value = glass_word(glass, word);
    assert_true(word != 0 && other != 0 && word != other);
    memset(memory, 3, STRETCH);
    assert_true(glass_copy(&view, word, value, offset, STRETCH, false, copy));
    assert_memory_equal(copy, memory, STRETCH);
    memset(copy, 0, STRETCH);
    assert_true(glass_copy(&view, word, value, offset, STRETCH, true, copy));
    assert_memory_equal(copy, memory, STRETCH);
    glass_change(glass, other);
    assert_true(glass_copy(&view, word, value, offset, STRETCH, false, copy));
    glass_change(glass, word);
    assert_false(glass_copy(&view, word, value, offset, STRETCH, false, copy));
    assert_false(glass_copy(&view, word, value, offset, STRETCH, true, copy));
    assert_false(glass_copy(&view, word, glass_word(glass, word), offset, STRETCH, false, copy)); /* under way */
    glass_changed(glass, word);
    assert_false(glass_copy(&view, word, value, offset, STRETCH, false, copy));
    value = glass_word(glass, word);
    assert_true(glass_copy(&view, word, value, offset, STRETCH, false, copy));
    glass_change(glass, word); /* it goes, and stands for something else later */
    glass_changed(glass, word);
    glass_word_give(glass, word);
    assert_int_equal(glass_word_take(glass), word);
    assert_false(glass_copy(&view, word, value, offset, STRETCH, false, copy));
    glass_look_away(&view);
    glass_destroy(glass);
}

static void words_come_to_an_end(void **state) {
    glass *glass = made();
    for (uint32_t i = 1; i < GLASS_WORDS; i++) assert_int_not_equal(glass_word_take(glass), 0);
    assert_int_equal(glass_word_take(glass), 0);
    glass_word_give(glass, 5);
    glass_word_give(glass, 0);
    assert_int_equal(glass_word_take(glass), 5);
    assert_int_equal(glass_word_take(glass), 0);
    glass_destroy(glass);
}

typedef struct writer {
    glass *glass;
    uint8_t *memory;
    uint32_t word;
    atomic_bool over;
} writer;

/* Each time all bytes become the next number. Atomic stores: what is torn is thrown away, and that is no mistake. */
static void *write_on(void *argument) {
    writer *writer = argument;
    for (uint8_t number = 1; !atomic_load(&writer->over); number++) {
        glass_change(writer->glass, writer->word);
        for (size_t i = 0; i < STRETCH; i++) __atomic_store_n(&writer->memory[i], number, __ATOMIC_RELAXED);
        glass_changed(writer->glass, writer->word);
    }
    return NULL;
}

static void what_is_torn_is_not_taken(void **state) {
    enum { COPIES = 3000 };
    writer writer = {.glass = made()};
    glass_view view;
    void *memory;
    pthread_t thread;
    int good = 0;
    assert_int_equal(glass_take(writer.glass, STRETCH, &memory), MR_OK);
    writer.memory = memory;
    writer.word = glass_word_take(writer.glass);
    assert_int_equal(glass_look(glass_fd(writer.glass), &view), MR_OK);
    assert_int_equal(pthread_create(&thread, NULL, write_on, &writer), 0);
    for (int i = 0; i < COPIES; i++) {
        uint8_t copy[STRETCH];
        uint64_t value = glass_word(writer.glass, writer.word);
        if (!glass_copy(&view, writer.word, value, offset_of(writer.glass, memory), STRETCH, false, copy)) continue;
        good++;
        for (size_t k = 1; k < STRETCH; k++) assert_int_equal(copy[k], copy[0]);
    }
    atomic_store(&writer.over, true);
    assert_int_equal(pthread_join(thread, NULL), 0);
    uint8_t copy[STRETCH];
    assert_true(glass_copy(&view, writer.word, glass_word(writer.glass, writer.word), offset_of(writer.glass, memory),
                           STRETCH, false, copy));
    print_message("%d of %d copies were whole\n", good, COPIES);
    glass_look_away(&view);
    glass_destroy(writer.glass);
}

static void what_is_no_glass_is_refused(void **state) {
    glass_view view;
    int pipes[2];
    assert_int_equal(pipe(pipes), 0);
    assert_int_equal(glass_look(pipes[0], &view), MR_CORRUPT);
    close(pipes[0]);
    close(pipes[1]);
    int fd = memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    assert_int_equal(ftruncate(fd, SIZE), 0);
    assert_int_equal(glass_look(fd, &view), MR_CORRUPT); /* it could shrink */
    assert_int_equal(fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL), 0);
    assert_int_equal(glass_look(fd, &view), MR_CORRUPT); /* nobody has written what it is */
    close(fd);
}

/* Around what was left everything is unmapped: a page that is there again was not. */
static void what_was_left_outlives_it(void **state) {
    enum { PAGE = 4096 };
    glass *glass = made();
    void *memory[4];
    for (int i = 0; i < 4; i++) {
        assert_int_equal(glass_take(glass, STRETCH, &memory[i]), MR_OK);
        memset(memory[i], i + 1, STRETCH);
    }
    glass_leave(glass, memory[3]);
    glass_leave(glass, memory[1]);
    assert_true(glass_owns(glass, memory[0]) && !glass_owns(glass, memory[1]));
    glass_destroy(glass);
    for (int i = 0; i < 4; i++) {
        void *hole = mmap(memory[i], PAGE, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
        assert_true((hole == MAP_FAILED) == (i % 2 == 1));
        if (hole != MAP_FAILED) munmap(hole, PAGE);
    }
    for (int i = 1; i < 4; i += 2) {
        uint8_t wanted[STRETCH];
        memset(wanted, i + 1, sizeof wanted);
        assert_memory_equal(memory[i], wanted, STRETCH);
        memset(memory[i], 0, STRETCH);
        assert_int_equal(munmap(memory[i], STRETCH), 0);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(others_see_what_is_written),        cmocka_unit_test(who_looks_cannot_write),
        cmocka_unit_test(what_was_given_back_is_zero_again), cmocka_unit_test(there_is_so_much_and_no_more),
        cmocka_unit_test(what_was_left_outlives_it),         cmocka_unit_test(nothing_beside_it_is_seen),
        cmocka_unit_test(a_copy_knows_whether_it_is_old),    cmocka_unit_test(words_come_to_an_end),
        cmocka_unit_test(what_is_torn_is_not_taken),         cmocka_unit_test(what_is_no_glass_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
