/* error_test.c — statuses as data, and the thread's last error. */
#include "base/error.h"

#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>

#include <cmocka.h>

static void every_status_has_a_name_and_a_text(void **state) {
    const struct {
        mr_status status;
        const char *name, *text;
    } all[] = {
#define X(name, number, text) {(mr_status)(number), #name, text},
        MR_STATUS_LIST(X)
#undef X
    };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        assert_string_equal(mr_status_name(all[i].status), all[i].name);
        assert_string_equal(mr_status_text(all[i].status), all[i].text);
        for (size_t j = 0; j < i; j++) assert_int_not_equal(all[i].status, all[j].status);
    }
    assert_string_equal(mr_status_name((mr_status)4711), "UNKNOWN");
    assert_non_null(strstr(mr_status_text((mr_status)4711), "does not know"));
    assert_int_equal(MR_OK, 0);
}

static void the_version_is_the_projects(void **state) { assert_string_equal(mr_version(), MR_VERSION); }

static void set_keeps_the_text_and_errno(void **state) {
    errno = EINTR;
    assert_int_equal(error_set(MR_BUSY, "queue %d of %s", 7, "x"), MR_BUSY);
    assert_int_equal(errno, EINTR);
    assert_string_equal(mr_last_error(), "queue 7 of x");
    assert_int_equal(error_set(MR_TIMEOUT, "not there in time"), MR_TIMEOUT);
    assert_int_equal(errno, EINTR);
    assert_string_equal(mr_last_error(), "not there in time");
    assert_int_equal(error_set(MR_BUSY, "100 %% of it"), MR_BUSY);
    assert_string_equal(mr_last_error(), "100 % of it");
    error_clear();
    assert_string_equal(mr_last_error(), "");
}

static void errno_becomes_a_status_and_a_reason(void **state) {
    const struct {
        int number;
        mr_status status;
    } all[] = {{ENOMEM, MR_NOMEM}, {ENOSPC, MR_NOMEM}, {EACCES, MR_DENIED}, {EPERM, MR_DENIED}, {ENOENT, MR_IO}};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        errno = all[i].number;
        assert_int_equal(error_errno("open %s", "f"), all[i].status);
        assert_int_equal(errno, all[i].number);
        assert_memory_equal(mr_last_error(), "open f: ", 8);
        assert_string_equal(mr_last_error() + 8, strerror(all[i].number));
    }
}

/* The error of a process that cannot start more processes states the limit. */
static void a_limit_is_named(void **state) {
    struct rlimit limit;
    assert_int_equal(getrlimit(RLIMIT_NPROC, &limit), 0);
    if (limit.rlim_max != RLIM_INFINITY && limit.rlim_max < 1000) skip();
    limit.rlim_cur = 1000;
    assert_int_equal(setrlimit(RLIMIT_NPROC, &limit), 0);
    errno = EAGAIN;
    assert_int_equal(error_errno("no thread"), MR_IO);
    assert_non_null(strstr(mr_last_error(), "at most 1000 processes and threads of this user; ulimit -u"));
}

static void wrap_puts_what_in_front(void **state) {
    error_set(MR_IO, "inner");
    assert_int_equal(error_wrap(MR_IO, "outer %d", 1), MR_IO);
    assert_string_equal(mr_last_error(), "outer 1: inner");
    error_clear();
    error_wrap(MR_TIMEOUT, "join");
    assert_string_equal(mr_last_error(), "join: not done in time");
}

/* The last error may be an argument of the error that replaces it. */
static void the_last_error_may_be_an_argument(void **state) {
    error_set(MR_IO, "disk full");
    error_set(MR_IO, "cannot write: %s (%s)", mr_last_error(), mr_last_error());
    assert_string_equal(mr_last_error(), "cannot write: disk full (disk full)");
    errno = ENOENT;
    error_errno("again: %s", mr_last_error());
    assert_non_null(strstr(mr_last_error(), "again: cannot write: disk full (disk full): "));
}

static void long_texts_are_cut(void **state) {
    char text[2 * ERROR_TEXT_MAX];
    memset(text, 'a', sizeof text);
    text[sizeof text - 1] = '\0';
    error_set(MR_IO, "%s", text);
    assert_int_equal(strlen(mr_last_error()), ERROR_TEXT_MAX - 1);

    errno = ENOENT; /* the reason is kept when the text is too long */
    error_errno("%s", text);
    assert_int_equal(strlen(mr_last_error()), ERROR_TEXT_MAX - 1);
    assert_string_equal(strchr(mr_last_error(), ':'), ": No such file or directory");

    error_set(MR_IO, "%s", text); /* of two texts that are too long each gets half */
    error_wrap(MR_IO, "b%s", text);
    const char *colon = strchr(mr_last_error(), ':');
    assert_int_equal(strlen(mr_last_error()), ERROR_TEXT_MAX - 1);
    assert_in_range(colon - mr_last_error(), ERROR_TEXT_MAX / 2 - 3, ERROR_TEXT_MAX / 2 + 3);

    error_set(MR_IO, "%s", text); /* a short text leaves its unused half to the other */
    error_wrap(MR_IO, "c");
    assert_memory_equal(mr_last_error(), "c: aaa", 6);
    assert_int_equal(strlen(mr_last_error()), ERROR_TEXT_MAX - 1);
}

static void a_cut_leaves_whole_characters(void **state) {
    for (size_t shift = 0; shift < 3; shift++) {
        char text[2 * ERROR_TEXT_MAX] = "", *at = text;
        at += sprintf(at, "%.*s", (int)shift, "xx");
        while (at < text + sizeof text - 8) at = stpcpy(at, "€"); /* three bytes */
        error_set(MR_IO, "%s", text);
        size_t length = strlen(mr_last_error());
        const char *mark = strstr(mr_last_error(), " ... ");
        assert_in_range(length, ERROR_TEXT_MAX - 5, ERROR_TEXT_MAX - 1);
        assert_non_null(mark);
        assert_int_equal(((size_t)(mark - mr_last_error()) - shift) % 3, 0);
        assert_int_equal(strlen(mark + 5) % 3, 0);
    }
}

/* An error that is wrapped again and again keeps its first cause. */
static void the_first_cause_survives_any_number_of_wraps(void **state) {
    error_set(MR_IO, "cannot write block 17 of 'x': no space left");
    for (int i = 0; i < 5000; i++) error_wrap(MR_IO, "level %d of a long chain of calls", i);
    const char *cause = strstr(mr_last_error(), "cannot write block 17 of 'x': no space left");
    assert_non_null(cause);
    assert_int_equal(cause[strlen("cannot write block 17 of 'x': no space left")], '\0');
    assert_memory_equal(mr_last_error(), "level 4999 of a long chain of calls: level 4998", 47);
}

static void *fail_elsewhere(void *argument) {
    error_set(MR_IO, "of the other thread");
    return NULL;
}

static void each_thread_has_its_own(void **state) {
    error_set(MR_IO, "mine");
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, fail_elsewhere, NULL), 0);
    pthread_join(thread, NULL);
    assert_string_equal(mr_last_error(), "mine");
}

static mr_status passes_on(mr_status status, int *reached) {
    MR_TRY(status);
    *reached = 1;
    return MR_OK;
}

static void try_passes_failures_on(void **state) {
    int reached = 0;
    assert_int_equal(passes_on(MR_STALE, &reached), MR_STALE);
    assert_false(reached);
    assert_int_equal(passes_on(MR_OK, &reached), MR_OK);
    assert_true(reached);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_status_has_a_name_and_a_text),
        cmocka_unit_test(the_version_is_the_projects),
        cmocka_unit_test(set_keeps_the_text_and_errno),
        cmocka_unit_test(errno_becomes_a_status_and_a_reason),
        cmocka_unit_test(a_limit_is_named),
        cmocka_unit_test(wrap_puts_what_in_front),
        cmocka_unit_test(the_last_error_may_be_an_argument),
        cmocka_unit_test(long_texts_are_cut),
        cmocka_unit_test(a_cut_leaves_whole_characters),
        cmocka_unit_test(the_first_cause_survives_any_number_of_wraps),
        cmocka_unit_test(each_thread_has_its_own),
        cmocka_unit_test(try_passes_failures_on),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
