/* log_test.c — each message is one line in both formats, whatever its bytes. */
#include "base/log.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <regex.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/error.h"

static int fd; /* receives the log lines */

static int start(void **state) {
    fd = memfd_create("log", MFD_CLOEXEC);
    fcntl(fd, F_SETFL, O_APPEND); /* as for a log file: threads do not overwrite each other's lines */
    log_set_fd(fd);
    log_set_level(LOG_DEBUG);
    log_set_json(false);
    return fd < 0;
}

static int stop(void **state) {
    close(fd);
    log_set_fd(STDERR_FILENO);
    return 0;
}

/* Everything logged since the last call, read up to the file's size. */
static const char *logged(void) {
    static char text[16 * LOG_LINE_MAX];
    ssize_t size = pread(fd, text, sizeof text - 1, 0);
    assert_true(size >= 0);
    text[size] = '\0';
    assert_int_equal(ftruncate(fd, 0), 0);
    lseek(fd, 0, SEEK_SET);
    return text;
}

static void assert_matches(const char *text, const char *pattern) {
    regex_t regex;
    assert_int_equal(regcomp(&regex, pattern, REG_EXTENDED | REG_NOSUB), 0);
    int found = regexec(&regex, text, 0, NULL, 0);
    regfree(&regex);
    if (found != 0) print_error("'%s' does not match '%s'\n", text, pattern);
    assert_int_equal(found, 0);
}

#define TIME "20[0-9]{2}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}[.][0-9]{3}Z"

static void a_line_tells_when_what_and_who(void **state) {
    char pattern[256];
    log_warn("queue %d is full", 7);
    snprintf(pattern, sizeof pattern, "^" TIME " WARN  base/log_test: queue 7 is full \\(pid %d\\)\n$", (int)getpid());
    assert_matches(logged(), pattern);
    log_error("e");
    log_info("i");
    log_debug("d");
    assert_matches(logged(), "^[^\n]* ERROR [^\n]*: e [^\n]*\n[^\n]* INFO  [^\n]*: i [^\n]*\n[^\n]* DEBUG [^\n]*\n$");
}

static void json_tells_the_same(void **state) {
    char pattern[256];
    log_set_json(true);
    log_info("say \"%s\"", "hi\\");
    snprintf(pattern, sizeof pattern,
             "^[{]\"time\":\"" TIME "\",\"level\":\"info\",\"module\":\"base/log_test\",\"pid\":%d,"
             "\"message\":\"say \\\\\"hi\\\\\\\\\\\\\"\"[}]\n$",
             (int)getpid());
    assert_matches(logged(), pattern);
}

static void levels_are_kept(void **state) {
    int evaluated = 0;
    log_set_level(LOG_WARN);
    log_info("%d", ++evaluated);
    log_debug("%d", ++evaluated);
    assert_string_equal(logged(), "");
    assert_int_equal(evaluated, 0);
    log_warn("%d", ++evaluated);
    log_error("%d", ++evaluated);
    assert_matches(logged(), "WARN .*: 1 .*ERROR .*: 2 ");
    log_set_level(LOG_ERROR);
    log_warn("no");
    assert_string_equal(logged(), "");
}

static void a_message_stays_one_line(void **state) {
    for (int json = 0; json <= 1; json++) {
        log_set_json(json);
        log_error("a\nb\tc\x1b[31m\x7f\xff\xc2\x9b");
        const char *text = logged();
        assert_ptr_equal(strchr(text, '\n'), text + strlen(text) - 1);
        assert_non_null(strstr(text, "a\\nb\\tc\\u001b[31m\\u007f\xef\xbf\xbd\\u009b"));
    }
    log_set_json(false);
    log_error("plain \"text\" stays \\ as it is");
    assert_non_null(strstr(logged(), "plain \"text\" stays \\ as it is"));
}

static void check_cut(const char *unit) {
    char message[3 * LOG_LINE_MAX] = "";
    for (char *at = message; at < message + sizeof message - 8;) at = stpcpy(at, unit);
    for (int json = 0; json <= 1; json++) {
        log_set_json(json);
        log_error("%s", message);
        const char *text = logged();
        size_t length = strlen(text);
        assert_in_range(length, LOG_LINE_MAX - 300, LOG_LINE_MAX);
        assert_int_equal(text[length - 1], '\n');
        assert_non_null(strstr(text, json ? "… (cut)\"}\n" : "… (cut) (pid "));
    }
}

static void long_messages_are_cut_and_say_so(void **state) {
    check_cut("a");
    check_cut("€");
    check_cut("\x01"); /* six bytes each when escaped */
    char message[LOG_LINE_MAX - 300];
    memset(message, 'b', sizeof message);
    message[sizeof message - 1] = '\0';
    log_set_json(false);
    log_error("%s", message);
    assert_null(strstr(logged(), "cut"));
}

static void logging_disturbs_nothing(void **state) {
    error_set(MR_IO, "kept");
    errno = EXDEV;
    log_error("%s", mr_last_error());
    assert_int_equal(errno, EXDEV);
    assert_string_equal(mr_last_error(), "kept");
    log_set_fd(-1); /* an invalid descriptor */
    errno = EXDEV;
    log_error("lost");
    assert_int_equal(errno, EXDEV);
}

enum { THREADS = 4, LINES = 40 };

static void *logs_often(void *number) {
    for (int i = 0; i < LINES; i++) log_info("thread %d line %d", *(int *)number, i);
    return NULL;
}

/* Logs through a pipe, which keeps writes of this size apart and has room for all lines. */
static void lines_of_threads_do_not_mix(void **state) {
    pthread_t threads[THREADS];
    int numbers[THREADS], ends[2];
    assert_int_equal(pipe(ends), 0);
    log_set_fd(ends[1]);
    for (int i = 0; i < THREADS; i++) {
        numbers[i] = i;
        assert_int_equal(pthread_create(&threads[i], NULL, logs_often, &numbers[i]), 0);
    }
    for (int i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
    static char text[65536];
    close(ends[1]);
    size_t size = 0, lines = 0;
    for (ssize_t part; (part = read(ends[0], text + size, sizeof text - 1 - size)) > 0;) size += (size_t)part;
    text[size] = '\0';
    close(ends[0]);
    for (const char *at = text, *end; (end = strchr(at, '\n')) != NULL; at = end + 1) {
        char line[LOG_LINE_MAX];
        snprintf(line, sizeof line, "%.*s\n", (int)(end - at), at);
        assert_matches(line, "^" TIME " INFO  base/log_test: thread [0-3] line [0-9]+ \\(pid [0-9]+\\)\n$");
        lines++;
    }
    assert_int_equal(lines, THREADS * LINES);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_line_tells_when_what_and_who, start, stop),
        cmocka_unit_test_setup_teardown(json_tells_the_same, start, stop),
        cmocka_unit_test_setup_teardown(levels_are_kept, start, stop),
        cmocka_unit_test_setup_teardown(a_message_stays_one_line, start, stop),
        cmocka_unit_test_setup_teardown(long_messages_are_cut_and_say_so, start, stop),
        cmocka_unit_test_setup_teardown(logging_disturbs_nothing, start, stop),
        cmocka_unit_test_setup_teardown(lines_of_threads_do_not_mix, start, stop),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
