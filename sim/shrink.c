/* shrink.c — see shrink.h. */
#include "sim/shrink.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "sim/runner.h"

enum { FAULTS_MOST = 4096, MASKED = 64, LINE_MAX_BYTES = 2048 };

/* Runs the seed in a process of its own, whose output goes to `fd`. True: the seed fails. */
static bool fails(const scenario *scenario, const scenario_options *options, int fd) {
    fflush(NULL);
    pid_t pid = fork();
    MR_ASSERT(pid >= 0);
    if (pid == 0) {
        dup2(fd, STDOUT_FILENO);
        dup2(fd, STDERR_FILENO);
        alarm(RUNNER_SEED_SECONDS_MAX);
        bool good = runner_show(scenario, options);
        fflush(NULL);
        _exit(good ? 0 : 1);
    }
    int status;
    MR_ASSERT(waitpid(pid, &status, 0) == pid);
    return !WIFEXITED(status) || WEXITSTATUS(status) != 0;
}

/* The smallest number of first faults that the search finds; failure is not monotonic in this number. */
static uint64_t cut_plan(const scenario *scenario, scenario_options options, int fd) {
    uint64_t good = 0, bad = 1;
    options.faults_max = 0;
    if (fails(scenario, &options, fd)) return 0;
    for (;; bad *= 2) {
        options.faults_max = bad;
        if (fails(scenario, &options, fd)) break;
        good = bad;
        if (bad >= FAULTS_MOST) return UINT64_MAX; /* the seed needs all faults, or has none */
    }
    while (bad - good > 1) {
        options.faults_max = good + (bad - good) / 2;
        if (fails(scenario, &options, fd))
            bad = options.faults_max;
        else
            good = options.faults_max;
    }
    return bad;
}

static uint64_t leave_out(const scenario *scenario, scenario_options options, int fd) {
    uint64_t count = options.faults_max < MASKED ? options.faults_max : MASKED;
    for (uint64_t i = 0; i < count; i++) {
        uint64_t before = options.faults_skipped;
        options.faults_skipped |= UINT64_C(1) << i;
        if (!fails(scenario, &options, fd)) options.faults_skipped = before;
    }
    return options.faults_skipped;
}

/* The last lines of the trace. */
static void tell(const scenario *scenario, const scenario_options *options, unsigned lines) {
    FILE *story = tmpfile();
    MR_ASSERT(story != NULL);
    (void)fails(scenario, options, fileno(story));
    char(*kept)[LINE_MAX_BYTES] = xcalloc(lines, sizeof *kept);
    unsigned count = 0;
    rewind(story);
    while (lines > 0 && fgets(kept[count % lines], LINE_MAX_BYTES, story) != NULL) count++;
    if (count > lines) printf("… %u lines before\n", count - lines);
    for (unsigned i = count > lines ? count - lines : 0; i < count; i++) fputs(kept[i % lines], stdout);
    free(kept);
    fclose(story);
}

bool shrink_run(const scenario *scenario, const scenario_options *options, const char *command, unsigned lines) {
    scenario_options least = *options;
    int fd = open("/dev/null", O_WRONLY | O_CLOEXEC);
    MR_ASSERT(fd >= 0);
    least.verbose = false;
    bool failing = fails(scenario, &least, fd);
    if (failing) {
        least.faults_max = cut_plan(scenario, least, fd);
        if (least.faults_max != UINT64_MAX) least.faults_skipped = leave_out(scenario, least, fd);
    }
    close(fd);
    if (!failing) {
        printf("%s, seed %" PRIu64 ": no violation, there is nothing to shrink\n", scenario->name, options->seed);
        return false;
    }
    least.verbose = true;
    tell(scenario, &least, lines);
    printf("again: %s --scenario %s --seed %" PRIu64, command, scenario->name, least.seed);
    if (least.mutation != NULL) printf(" --mutate %s", least.mutation);
    if (least.faults_max != UINT64_MAX)
        printf(" --faults %" PRIu64 " --skip-faults 0x%" PRIx64, least.faults_max, least.faults_skipped);
    printf(" --verbose\n");
    if (least.faults_max != UINT64_MAX)
        printf("it needs %" PRIu64 " of the first %" PRIu64 " faults\n",
               least.faults_max - (uint64_t)__builtin_popcountll(least.faults_skipped), least.faults_max);
    return true;
}
