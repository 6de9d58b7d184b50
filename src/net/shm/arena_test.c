/* arena_test.c — arenas are sealed and shared, received ones are checked, and memory is not promised twice. */
#include "net/shm/arena.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/failpoint.h"
#include "base/futex.h"
#include "net/shm/memory_headroom.h"
#include "tests/support/test_child.h"

#define SIZE (ARENA_SIZE_MIN + (4u << 20))

static uint64_t blocks_of(const arena *arena) {
    struct stat stat;
    assert_int_equal(fstat(arena->fd, &stat), 0);
    return (uint64_t)stat.st_blocks * 512;
}

static void it_is_sealed_zeroed_and_named(void **state) {
    arena arena;
    assert_int_equal(arena_create(SIZE + 1, &arena), MR_OK);
    assert_int_equal(arena.size % (uint64_t)sysconf(_SC_PAGESIZE), 0);
    assert_true(arena.size > SIZE);
    assert_true(fcntl(arena.fd, F_GETFD) & FD_CLOEXEC);
    assert_int_not_equal(ftruncate(arena.fd, 4096), 0);
    assert_int_equal(errno, EPERM);
    assert_int_not_equal(ftruncate(arena.fd, (off_t)arena.size * 2), 0);
    assert_int_not_equal(fcntl(arena.fd, F_ADD_SEALS, F_SEAL_WRITE), 0);
    const arena_header *header = (void *)arena.base;
    assert_int_equal(header->magic, ARENA_MAGIC);
    assert_int_equal(header->size, arena.size);
    for (uint32_t i = 0; i < PROCESS_BLOCKS_MAX; i++)
        assert_int_equal(arena_process_block(&arena, i)->state, PROCESS_BLOCK_FREE);
    assert_true(blocks_of(&arena) < SIZE); /* the extents are not backed yet */
    arena_unmap(&arena);
    arena_unmap(&arena); /* no effect */
}

static void two_arenas_live_side_by_side(void **state) {
    arena one, two;
    assert_int_equal(arena_create(SIZE, &one), MR_OK);
    assert_int_equal(arena_create(SIZE, &two), MR_OK);
    assert_int_equal(arena_back(&one, 0, SIZE), MR_OK);
    assert_int_equal(arena_back(&two, 0, SIZE), MR_OK);
    memset(arena_at(&one, ARENA_EXTENTS_OFFSET), 1, 4096);
    memset(arena_at(&two, ARENA_EXTENTS_OFFSET), 2, 4096);
    assert_int_equal(*(uint8_t *)arena_at(&one, ARENA_EXTENTS_OFFSET), 1);
    assert_true(((arena_header *)(void *)one.base)->generation != ((arena_header *)(void *)two.base)->generation);
    arena_unmap(&one);
    assert_int_equal(*(uint8_t *)arena_at(&two, ARENA_EXTENTS_OFFSET), 2);
    arena_unmap(&two);
}

static void a_second_mapping_sees_the_same(void **state) {
    arena owner, peer;
    assert_int_equal(arena_create(SIZE, &owner), MR_OK);
    assert_int_equal(arena_map(dup(owner.fd), owner.size, &peer), MR_OK);
    assert_int_equal(arena_back(&owner, ARENA_EXTENTS_OFFSET, SIZE), MR_OK);
    assert_int_equal(arena_populate(&peer, ARENA_EXTENTS_OFFSET, SIZE), MR_OK);
    strcpy(arena_at(&owner, SIZE - 64), "hello");
    assert_string_equal(arena_at(&peer, SIZE - 64), "hello");
    arena_unmap(&owner);
    assert_string_equal(arena_at(&peer, SIZE - 64), "hello"); /* the memory exists as long as any process maps it */
    arena_unmap(&peer);
}

typedef struct writing {
    arena *arena;
    uint64_t offset;
} writing;

static int write_there(void *argument) {
    const writing *writing = argument;
    signal(SIGSEGV, SIG_DFL);
    *(volatile char *)arena_at(writing->arena, writing->offset) = 'x';
    return 0;
}

static bool can_write(arena *arena, uint64_t offset) {
    int code = test_child_run(write_there, &(writing){arena, offset}, 60000);
    assert_true(code == 0 || code == -SIGSEGV);
    assert_int_equal(arena_allows(arena, offset), code == 0);
    return code == 0;
}

static void a_client_writes_only_where_it_is_allowed(void **state) {
    arena owner, peer;
    uint64_t at = ARENA_EXTENTS_OFFSET, page = (uint64_t)sysconf(_SC_PAGESIZE);
    assert_int_equal(arena_create(SIZE, &owner), MR_OK);
    assert_int_equal(arena_back(&owner, at, SIZE), MR_OK);
    assert_int_equal(arena_map(dup(owner.fd), owner.size, &peer), MR_OK);
    assert_true(can_write(&owner, at) && can_write(&owner, SIZE - 1));
    assert_true(can_write(&peer, at - 1)); /* a process block */
    assert_false(can_write(&peer, at) || can_write(&peer, SIZE - 1));
    arena_allow(&peer, (extent){at + 3 * page + 64, page}); /* parts of two pages */
    assert_true(can_write(&peer, at + 3 * page) && can_write(&peer, at + 5 * page - 1));
    assert_false(can_write(&peer, at + 3 * page - 1) || can_write(&peer, at + 5 * page));
    assert_int_equal(arena_populate(&peer, at + 5 * page, at + 200 * page), MR_OK);
    assert_true(can_write(&peer, at + 5 * page) && can_write(&peer, at + 200 * page - 1));
    assert_false(can_write(&peer, at + 200 * page));
    if (failpoint_count() > 0) { /* the limit of mappings is reached */
        assert_int_equal(failpoint_arm("arena.allow=error"), MR_OK);
        arena_allow(&peer, (extent){at + 300 * page, page});
        failpoint_disarm_all();
        assert_true(can_write(&peer, at + 300 * page) && can_write(&peer, at) && can_write(&peer, SIZE - 1));
    }
    arena_unmap(&peer);
    arena_unmap(&owner);
}

static void extents_are_checked_against_the_arena(void **state) {
    arena arena;
    assert_int_equal(arena_create(SIZE, &arena), MR_OK);
    uint64_t from = ARENA_EXTENTS_OFFSET, size = arena.size;
    assert_true(arena_holds(&arena, (extent){from, 4096}));
    assert_true(arena_holds(&arena, (extent){from, size - from}));
    assert_false(arena_holds(&arena, (extent){from, size - from + 1}));
    assert_false(arena_holds(&arena, (extent){from, 0}));
    assert_false(arena_holds(&arena, (extent){from - 64, 4096}));
    assert_false(arena_holds(&arena, (extent){from + 32, 4096}));
    assert_false(arena_holds(&arena, (extent){size, 64}));
    assert_false(arena_holds(&arena, (extent){size + 64, UINT64_MAX - 64}));
    assert_false(arena_holds(&arena, (extent){from, UINT64_MAX}));
    arena_unmap(&arena);
}

static void a_received_arena_is_checked(void **state) {
    arena made, out;
    assert_int_equal(arena_create(SIZE, &made), MR_OK);
    assert_int_equal(arena_map(dup(made.fd), made.size * 2, &out), MR_CORRUPT);
    assert_int_equal(arena_map(dup(made.fd), 4096, &out), MR_CORRUPT);
    arena_header *header = (void *)made.base;
    header->version++;
    assert_int_equal(arena_map(dup(made.fd), made.size, &out), MR_CORRUPT);
    header->version--;
    header->size++;
    assert_int_equal(arena_map(dup(made.fd), made.size, &out), MR_CORRUPT);
    header->size--;
    header->magic++;
    assert_int_equal(arena_map(dup(made.fd), made.size, &out), MR_CORRUPT);
    header->magic--;
    assert_int_equal(arena_map(dup(made.fd), made.size, &out), MR_OK);
    arena_unmap(&out);
    int unsealed = memfd_create("unsealed", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    assert_int_equal(ftruncate(unsealed, SIZE), 0);
    assert_int_equal(pwrite(unsealed, header, sizeof *header, 0), sizeof *header);
    int kept = dup(unsealed);
    assert_int_equal(arena_map(unsealed, SIZE, &out), MR_CORRUPT);
    assert_int_equal(fcntl(unsealed, F_GETFD), -1); /* moved: closed on failure too */
    close(kept);
    int pipes[2];
    assert_int_equal(pipe(pipes), 0);
    assert_int_equal(arena_map(pipes[0], SIZE, &out), MR_CORRUPT);
    close(pipes[1]);
    arena_unmap(&made);
}

static void sizes_that_make_no_sense_are_refused(void **state) {
    arena out;
    assert_int_equal(arena_create(0, &out), MR_INVALID);
    assert_int_equal(arena_create(ARENA_SIZE_MIN - 1, &out), MR_INVALID);
    assert_int_equal(arena_create(UINT64_MAX, &out), MR_INVALID);
    assert_int_equal(arena_create(UINT64_C(1) << 60, &out), MR_NOMEM);
    assert_int_equal(arena_create(memory_headroom_bytes() + (UINT64_C(1) << 30), &out), MR_NOMEM);
}

static void pages_come_and_go(void **state) {
    arena arena;
    assert_int_equal(arena_create(SIZE, &arena), MR_OK);
    uint64_t before = blocks_of(&arena), from = ARENA_EXTENTS_OFFSET;
    assert_int_equal(arena_back(&arena, from, arena.size), MR_OK);
    assert_int_equal(blocks_of(&arena), arena.size);
    unsigned char resident;
    assert_int_equal(mincore(arena.base + arena.size - 4096, 4096, &resident), 0);
    assert_true(resident & 1);
    memset(arena_at(&arena, from), 7, 8192);
    assert_int_equal(arena_punch(&arena, from + 4096, arena.size), MR_OK);
    assert_true(blocks_of(&arena) <= before + (uint64_t)sysconf(_SC_PAGESIZE));
    assert_int_equal(*(uint8_t *)arena_at(&arena, from), 7);
    assert_int_equal(*(uint8_t *)arena_at(&arena, from + (uint64_t)sysconf(_SC_PAGESIZE)), 0);
    arena_unmap(&arena);
}

/* Each system call of the owner fails once; no descriptor stays open. */
static void failures_are_clean(void **state) {
    if (failpoint_count() == 0) skip();
    static const struct {
        const char *arm;
        mr_status status;
    } cases[] = {{"arena.memfd=error", MR_IO},        {"arena.truncate=error", MR_NOMEM},
                 {"arena.seal=error", MR_DENIED},     {"arena.mmap=error", MR_NOMEM},
                 {"arena.fallocate=error", MR_NOMEM}, {"arena.populate=error", MR_NOMEM},
                 {"arena.fallocate=error@2", MR_OK}};
    int lowest = open("/dev/null", O_RDONLY | O_CLOEXEC);
    close(lowest);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        arena arena;
        assert_int_equal(failpoint_arm(cases[i].arm), MR_OK);
        mr_status status = arena_create(SIZE, &arena);
        assert_int_equal(status, cases[i].status);
        if (status == MR_OK) {
            assert_int_equal(arena_back(&arena, ARENA_EXTENTS_OFFSET, arena.size), MR_NOMEM);
            assert_int_equal(arena_back(&arena, ARENA_EXTENTS_OFFSET, arena.size), MR_OK);
            assert_int_equal(failpoint_arm("arena.punch=error"), MR_OK);
            assert_int_equal(arena_punch(&arena, ARENA_EXTENTS_OFFSET, arena.size), MR_NOMEM);
            arena_unmap(&arena);
        }
        failpoint_disarm_all();
        int now = open("/dev/null", O_RDONLY | O_CLOEXEC);
        assert_int_equal(now, lowest);
        close(now);
    }
}

/* ---- Two threads, for ThreadSanitizer: one backs, allocates and frees ranges, the other uses them. */

enum { STRETCHES = 200, STRETCH = 64 * 1024 };

typedef struct handing {
    arena arena;
    _Atomic uint32_t given, used; /* numbers of ranges; both only grow */
    unsigned wrong;
} handing;

static uint8_t *stretch_at(handing *handing, uint32_t number) {
    return arena_at(&handing->arena, ARENA_EXTENTS_OFFSET + number % 4 * STRETCH);
}

static void tell(_Atomic uint32_t *count) {
    atomic_fetch_add(count, 1);
    futex_wake(count, FUTEX_WITHIN);
}

static void await_more(_Atomic uint32_t *count, uint32_t than) {
    while (atomic_load(count) <= than) futex_wait(count, than, -1, FUTEX_WITHIN);
}

static void *use_stretches(void *argument) {
    handing *handing = argument;
    for (uint32_t i = 0; i < STRETCHES; i++) {
        await_more(&handing->given, i);
        uint8_t *bytes = stretch_at(handing, i);
        handing->wrong += bytes[0] != 0 || bytes[STRETCH - 1] != 0;
        memset(bytes, (int)(i % 255 + 1), STRETCH);
        tell(&handing->used);
    }
    return NULL;
}

static void memory_of_one_thread_is_usable_by_another(void **state) {
    handing handing = {.wrong = 0};
    pthread_t user;
    assert_int_equal(arena_create(SIZE, &handing.arena), MR_OK);
    assert_int_equal(pthread_create(&user, NULL, use_stretches, &handing), 0);
    for (uint32_t i = 0; i < STRETCHES; i++) {
        uint64_t from = (uint64_t)(stretch_at(&handing, i) - handing.arena.base);
        assert_int_equal(arena_back(&handing.arena, from, from + STRETCH), MR_OK);
        tell(&handing.given);
        await_more(&handing.used, i);
        uint8_t *bytes = stretch_at(&handing, i);
        assert_true(bytes[0] == i % 255 + 1 && bytes[STRETCH - 1] == i % 255 + 1);
        assert_int_equal(arena_punch(&handing.arena, from, from + STRETCH), MR_OK);
    }
    pthread_join(user, NULL);
    assert_int_equal(handing.wrong, 0);
    arena_unmap(&handing.arena);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(it_is_sealed_zeroed_and_named),
        cmocka_unit_test(two_arenas_live_side_by_side),
        cmocka_unit_test(a_client_writes_only_where_it_is_allowed),
        cmocka_unit_test(a_second_mapping_sees_the_same),
        cmocka_unit_test(extents_are_checked_against_the_arena),
        cmocka_unit_test(a_received_arena_is_checked),
        cmocka_unit_test(sizes_that_make_no_sense_are_refused),
        cmocka_unit_test(pages_come_and_go),
        cmocka_unit_test(failures_are_clean),
        cmocka_unit_test(memory_of_one_thread_is_usable_by_another),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
