/* shm_export_test.c — exported memory: readers see its content, detect changes, and cannot write. */
#include "net/shm/shm_export.h"

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

enum { SIZE = SHM_EXPORT_FRONT + (1 << 20), STRETCH = 8192 };

static shm_export *made(void) {
    shm_export *export = NULL;
    assert_int_equal(shm_export_create(SIZE, &export), MR_OK);
    return export;
}

static uint64_t offset_of(const shm_export *export, const void *memory) {
    uint64_t offset = 0;
    assert_true(shm_export_holds(export, memory, 1, &offset));
    return offset;
}

static void others_see_what_is_written(void **state) {
    shm_export *export = made();
    shm_import import;
    void *memory;
    assert_int_equal(shm_import_open(shm_export_fd(export), &import), MR_OK);
    assert_int_equal(shm_export_take(export, STRETCH, &memory), MR_OK);
    memset(memory, 7, STRETCH);
    const uint8_t *seen = shm_import_at(&import, offset_of(export, memory), STRETCH);
    assert_non_null(seen);
    assert_memory_equal(seen, memory, STRETCH);
    shm_import own = shm_export_import(export);
    assert_ptr_equal(shm_import_at(&own, offset_of(export, memory), STRETCH), memory);
    shm_export_destroy(export); /* readers still see the content */
    assert_int_equal(seen[STRETCH - 1], 7);
    shm_import_close(&import);
}

static void an_import_is_read_only(void **state) {
    shm_export *export = made();
    errno = 0;
    assert_ptr_equal(mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, shm_export_fd(export), 0), MAP_FAILED);
    assert_int_equal(errno, EACCES);
    assert_int_equal(ftruncate(shm_export_fd(export), 0), -1); /* readers cannot shrink the file */
    shm_export_destroy(export);
}

static void returned_memory_is_zeroed(void **state) {
    shm_export *export = made();
    static const uint8_t zeros[STRETCH];
    void *memory, *again;
    assert_int_equal(shm_export_take(export, STRETCH, &memory), MR_OK);
    assert_memory_equal(memory, zeros, STRETCH);
    memset(memory, 7, STRETCH);
    assert_true(shm_export_owns(export, memory));
    assert_false(shm_export_owns(export, (uint8_t *)memory + 4096));
    assert_int_equal(shm_export_used(export), STRETCH);
    shm_export_give(export, memory);
    shm_export_give(export, NULL);
    assert_false(shm_export_owns(export, memory));
    assert_int_equal(shm_export_used(export), 0);
    assert_int_equal(shm_export_take(export, STRETCH, &again), MR_OK);
    assert_ptr_equal(again, memory);
    assert_memory_equal(again, zeros, STRETCH);
    shm_export_destroy(export);
}

static void there_is_so_much_and_no_more(void **state) {
    shm_export *export = made();
    void *memory;
    assert_int_equal(shm_export_take(export, 0, &memory), MR_INVALID);
    assert_int_equal(shm_export_take(export, SIZE, &memory), MR_NOMEM);
    assert_int_equal(shm_export_take(export, SIZE_MAX, &memory), MR_NOMEM);
    assert_int_equal(shm_export_take(export, SIZE - SHM_EXPORT_FRONT, &memory), MR_OK);
    assert_int_equal(shm_export_take(export, 1, &memory), MR_NOMEM);
    shm_export_destroy(export);
    assert_int_equal(shm_export_create(SHM_EXPORT_FRONT, &export), MR_INVALID);
}

static void nothing_beside_it_is_seen(void **state) {
    shm_export *export = made();
    shm_import import, none = {0};
    uint8_t byte;
    uint64_t offset;
    assert_int_equal(shm_import_open(shm_export_fd(export), &import), MR_OK);
    assert_null(shm_import_at(&import, 0, 8)); /* the header */
    assert_null(shm_import_at(&import, SHM_EXPORT_FRONT - 1, 1));
    assert_null(shm_import_at(&import, SIZE - 4, 5));
    assert_null(shm_import_at(&import, SIZE + 1, 0));
    assert_null(shm_import_at(&import, UINT64_MAX, 2));
    assert_null(shm_import_at(&none, SHM_EXPORT_FRONT, 1));
    assert_non_null(shm_import_at(&import, SIZE - 4, 4));
    assert_false(shm_import_copy(&import, 1, 0, SIZE, 1, false, &byte));
    assert_false(shm_import_copy(&import, 0, 0, SHM_EXPORT_FRONT, 1, false, &byte));
    assert_false(shm_import_copy(&import, SHM_EXPORT_WORDS, 0, SHM_EXPORT_FRONT, 1, false, &byte));
    assert_false(shm_import_copy(&import, 1, 0, SIZE, 1, true, &byte));
    assert_false(shm_import_copy(&import, 0, 0, SHM_EXPORT_FRONT, 1, true, &byte));
    assert_false(shm_export_holds(export, &byte, 1, &offset));
    assert_false(shm_export_holds(export, import.base, 1, &offset)); /* another mapping of the same memory */
    shm_import_close(&import);
    shm_export_destroy(export);
}

static void a_copy_knows_whether_it_is_old(void **state) {
    shm_export *export = made();
    shm_import import;
    void *memory;
    uint8_t copy[STRETCH];
    assert_int_equal(shm_import_open(shm_export_fd(export), &import), MR_OK);
    assert_int_equal(shm_export_take(export, STRETCH, &memory), MR_OK);
    uint32_t word = shm_export_word_take(export), other = shm_export_word_take(export);
    uint64_t offset = offset_of(export, memory), value = shm_export_word(export, word);
    assert_true(word != 0 && other != 0 && word != other);
    memset(memory, 3, STRETCH);
    assert_true(shm_import_copy(&import, word, value, offset, STRETCH, false, copy));
    assert_memory_equal(copy, memory, STRETCH);
    memset(copy, 0, STRETCH);
    assert_true(shm_import_copy(&import, word, value, offset, STRETCH, true, copy));
    assert_memory_equal(copy, memory, STRETCH);
    shm_export_change(export, other);
    assert_true(shm_import_copy(&import, word, value, offset, STRETCH, false, copy));
    shm_export_change(export, word);
    assert_false(shm_import_copy(&import, word, value, offset, STRETCH, false, copy));
    assert_false(shm_import_copy(&import, word, value, offset, STRETCH, true, copy));
    /* During a change. */
    assert_false(shm_import_copy(&import, word, shm_export_word(export, word), offset, STRETCH, false, copy));
    shm_export_changed(export, word);
    assert_false(shm_import_copy(&import, word, value, offset, STRETCH, false, copy));
    value = shm_export_word(export, word);
    assert_true(shm_import_copy(&import, word, value, offset, STRETCH, false, copy));
    shm_export_change(export, word); /* the data is freed, and the word is used for other data later */
    shm_export_changed(export, word);
    shm_export_word_give(export, word);
    assert_int_equal(shm_export_word_take(export), word);
    assert_false(shm_import_copy(&import, word, value, offset, STRETCH, false, copy));
    shm_import_close(&import);
    shm_export_destroy(export);
}

static void words_come_to_an_end(void **state) {
    shm_export *export = made();
    for (uint32_t i = 1; i < SHM_EXPORT_WORDS; i++) assert_int_not_equal(shm_export_word_take(export), 0);
    assert_int_equal(shm_export_word_take(export), 0);
    shm_export_word_give(export, 5);
    shm_export_word_give(export, 0);
    assert_int_equal(shm_export_word_take(export), 5);
    assert_int_equal(shm_export_word_take(export), 0);
    shm_export_destroy(export);
}

typedef struct writer {
    shm_export *export;
    uint8_t *memory;
    uint32_t word;
    atomic_bool over;
} writer;

/* Each change sets all bytes to the next number. Atomic stores: torn copies are discarded and are no error. */
static void *write_on(void *argument) {
    writer *writer = argument;
    for (uint8_t number = 1; !atomic_load(&writer->over); number++) {
        shm_export_change(writer->export, writer->word);
        for (size_t i = 0; i < STRETCH; i++) __atomic_store_n(&writer->memory[i], number, __ATOMIC_RELAXED);
        shm_export_changed(writer->export, writer->word);
    }
    return NULL;
}

static void a_torn_reference_is_refused(void **state) {
    enum { COPIES = 3000 };
    writer writer = {.export = made()};
    shm_import import;
    void *memory;
    pthread_t thread;
    int good = 0;
    assert_int_equal(shm_export_take(writer.export, STRETCH, &memory), MR_OK);
    writer.memory = memory;
    writer.word = shm_export_word_take(writer.export);
    assert_int_equal(shm_import_open(shm_export_fd(writer.export), &import), MR_OK);
    assert_int_equal(pthread_create(&thread, NULL, write_on, &writer), 0);
    for (int i = 0; i < COPIES; i++) {
        uint8_t copy[STRETCH];
        uint64_t value = shm_export_word(writer.export, writer.word);
        if (!shm_import_copy(&import, writer.word, value, offset_of(writer.export, memory), STRETCH, false, copy))
            continue;
        good++;
        for (size_t k = 1; k < STRETCH; k++) assert_int_equal(copy[k], copy[0]);
    }
    atomic_store(&writer.over, true);
    assert_int_equal(pthread_join(thread, NULL), 0);
    uint8_t copy[STRETCH];
    assert_true(shm_import_copy(&import, writer.word, shm_export_word(writer.export, writer.word),
                                offset_of(writer.export, memory), STRETCH, false, copy));
    print_message("%d of %d copies were whole\n", good, COPIES);
    shm_import_close(&import);
    shm_export_destroy(writer.export);
}

static void a_descriptor_that_is_no_export_is_refused(void **state) {
    shm_import import;
    int pipes[2];
    assert_int_equal(pipe(pipes), 0);
    assert_int_equal(shm_import_open(pipes[0], &import), MR_CORRUPT);
    close(pipes[0]);
    close(pipes[1]);
    int fd = memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    assert_int_equal(ftruncate(fd, SIZE), 0);
    assert_int_equal(shm_import_open(fd, &import), MR_CORRUPT); /* the file could shrink */
    assert_int_equal(fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL), 0);
    assert_int_equal(shm_import_open(fd, &import), MR_CORRUPT); /* the magic is missing */
    close(fd);
}

/* Everything around the left extents is unmapped: a page can be mapped exactly where no extent was left. */
static void a_mapping_outlives_its_export(void **state) {
    enum { PAGE = 4096 };
    shm_export *export = made();
    void *memory[4];
    for (int i = 0; i < 4; i++) {
        assert_int_equal(shm_export_take(export, STRETCH, &memory[i]), MR_OK);
        memset(memory[i], i + 1, STRETCH);
    }
    shm_export_leave(export, memory[3]);
    shm_export_leave(export, memory[1]);
    assert_true(shm_export_owns(export, memory[0]) && !shm_export_owns(export, memory[1]));
    shm_export_destroy(export);
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
        cmocka_unit_test(others_see_what_is_written),     cmocka_unit_test(an_import_is_read_only),
        cmocka_unit_test(returned_memory_is_zeroed),      cmocka_unit_test(there_is_so_much_and_no_more),
        cmocka_unit_test(a_mapping_outlives_its_export),  cmocka_unit_test(nothing_beside_it_is_seen),
        cmocka_unit_test(a_copy_knows_whether_it_is_old), cmocka_unit_test(words_come_to_an_end),
        cmocka_unit_test(a_torn_reference_is_refused),    cmocka_unit_test(a_descriptor_that_is_no_export_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
