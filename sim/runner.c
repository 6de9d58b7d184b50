/* runner.c — see runner.h.
 *
 * Units are numbered: unit u is seed first + u / n of scenario u mod n. Job j of k runs the units j, j + k, j + 2k, …
 * and writes the number of its current unit into shared memory, where the parent reads it if the job dies. */
#include "sim/runner.h"

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/assert.h"
#include "base/clock.h"

typedef struct totals { /* findings of a job in one scenario */
    uint64_t seeds, findings, events;
    uint64_t first_finding;
    int64_t virtual_us;
    scenario_counter counters[SCENARIO_COUNTERS_MAX];
    size_t counter_count;
} totals;

enum { SCENARIOS_MAX = 16 };

typedef struct job { /* shared with the parent */
    uint64_t unit;
    totals unit_totals[SCENARIOS_MAX];
} job;

typedef struct runner {
    const runner_options *options;
    size_t scenario_count;
    uint64_t unit_count;
    job *jobs; /* shared memory */
    pid_t pids[RUNNER_JOBS_MAX];
} runner;

static const scenario *scenario_of(const runner *runner, uint64_t unit) {
    return runner->options->scenarios[unit % runner->scenario_count];
}

static uint64_t seed_of(const runner *runner, uint64_t unit) {
    return runner->options->first + unit / runner->scenario_count;
}

/* ---- In a job. */

static void report_finding(const runner *runner, uint64_t unit, totals *totals, const char *text) {
    const runner_options *options = runner->options;
    uint64_t seed = seed_of(runner, unit);
    totals->findings++;
    if (totals->first_finding == 0 || seed < totals->first_finding) totals->first_finding = seed;
    if (options->quiet) return;
    char line[SCENARIO_TEXT_MAX + 300];
    const char *name = scenario_of(runner, unit)->name;
    snprintf(line, sizeof line,
             "%s, seed %" PRIu64 ": %s\n  replay: %s --scenario %s --seed %" PRIu64 "%s%s --verbose\n", name, seed,
             text, options->command, name, seed, options->mutation == NULL ? "" : " --mutate ",
             options->mutation == NULL ? "" : options->mutation);
    fputs(line, stdout); /* one line or one whole finding per call, so that the output of jobs does not mix */
    fflush(stdout);
}

static void add_counters(scenario_counter *sums, size_t *sum_count, const scenario_counter *counters, size_t count) {
    for (size_t i = 0; i < count; i++) {
        size_t at = 0;
        while (at < *sum_count && strcmp(sums[at].name, counters[i].name) != 0) at++;
        if (at == SCENARIO_COUNTERS_MAX) continue;
        if (at == *sum_count) sums[(*sum_count)++].name = counters[i].name;
        sums[at].value += counters[i].value;
    }
}

static void run_unit(const runner *runner, uint64_t unit, totals *totals) {
    const runner_options *options = runner->options;
    const scenario *scenario = scenario_of(runner, unit);
    uint64_t seed = seed_of(runner, unit);
    scenario_options how = scenario_options_of(seed, options->mutation);
    scenario_result result;
    scenario->run(&how, &result);
    totals->seeds++;
    totals->events += result.events;
    totals->virtual_us += result.virtual_us;
    add_counters(totals->counters, &totals->counter_count, result.counters, result.counter_count);
    if (options->check_replay || seed % RUNNER_REPLAY_EVERY == 0) {
        scenario_result again;
        scenario->run(&how, &again);
        if (again.hash != result.hash || strcmp(again.violation, result.violation) != 0)
            report_finding(runner, unit, totals, "a replay of the seed gave another history");
    }
    if (result.violation[0] != '\0') report_finding(runner, unit, totals, result.violation);
}

static bool found_enough(const runner *runner) {
    if (!runner->options->stop_at_first) return false;
    for (unsigned i = 0; i < runner->options->jobs; i++)
        for (size_t j = 0; j < runner->scenario_count; j++)
            if (runner->jobs[i].unit_totals[j].findings != 0) return true;
    return false;
}

static void run_job(const runner *runner, unsigned index) {
    job *job = &runner->jobs[index];
    for (; job->unit < runner->unit_count && !found_enough(runner); job->unit += runner->options->jobs) {
        alarm(RUNNER_SEED_SECONDS_MAX);
        run_unit(runner, job->unit, &job->unit_totals[job->unit % runner->scenario_count]);
    }
}

/* ---- In the parent. */

static void start_job(runner *runner, unsigned index) {
    fflush(NULL);
    pid_t parent = getpid(), pid = fork();
    MR_ASSERT(pid >= 0);
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (getppid() != parent) _exit(1);
        if (runner->options->quiet && freopen("/dev/null", "w", stderr) == NULL) _exit(1);
        run_job(runner, index);
        fflush(NULL);
        _exit(0);
    }
    runner->pids[index] = pid;
}

/* The job's current seed is a finding; the next process of this job continues after it. */
static void job_died(runner *runner, unsigned index, int status) {
    job *job = &runner->jobs[index];
    char text[100];
    if (WIFSIGNALED(status) && WTERMSIG(status) == SIGALRM)
        snprintf(text, sizeof text, "it took more than %d seconds", RUNNER_SEED_SECONDS_MAX);
    else if (WIFSIGNALED(status))
        snprintf(text, sizeof text, "the simulator was ended by signal %d (%s)", WTERMSIG(status),
                 strsignal(WTERMSIG(status)));
    else
        snprintf(text, sizeof text, "the simulator ended with status %d", WEXITSTATUS(status));
    totals *totals = &job->unit_totals[job->unit % runner->scenario_count];
    totals->seeds++;
    report_finding(runner, job->unit, totals, text);
    job->unit += runner->options->jobs;
    start_job(runner, index);
}

static void wait_for_jobs(runner *runner) {
    for (unsigned left = runner->options->jobs; left > 0;) {
        int status;
        pid_t pid;
        do pid = wait(&status);
        while (pid < 0 && errno == EINTR);
        MR_ASSERT(pid > 0);
        for (unsigned i = 0; i < runner->options->jobs; i++) {
            if (runner->pids[i] != pid) continue;
            if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
                left--;
            else
                job_died(runner, i, status);
        }
    }
}

static void print_totals(const char *name, const totals *totals, double seconds) {
    printf("%-8s %8" PRIu64 " seeds  %8.0f seeds/s  %6.0f events a seed  %6.1f s of virtual time a seed  %" PRIu64
           " findings\n",
           name, totals->seeds, (double)totals->seeds / seconds, (double)totals->events / (double)totals->seeds,
           (double)totals->virtual_us / 1e6 / (double)totals->seeds, totals->findings);
    for (size_t i = 0; i < totals->counter_count; i++)
        printf("%s%s %" PRIu64 "%s", i % 8 == 0 ? "         " : "", totals->counters[i].name, totals->counters[i].value,
               i % 8 == 7 || i + 1 == totals->counter_count ? "\n" : ", ");
}

static void sum_up(const runner *runner, runner_report *report) {
    for (size_t j = 0; j < runner->scenario_count; j++) {
        totals sum = {0};
        for (unsigned i = 0; i < runner->options->jobs; i++) {
            const totals *part = &runner->jobs[i].unit_totals[j];
            sum.seeds += part->seeds;
            sum.findings += part->findings;
            sum.events += part->events;
            sum.virtual_us += part->virtual_us;
            if (part->first_finding != 0 && (sum.first_finding == 0 || part->first_finding < sum.first_finding))
                sum.first_finding = part->first_finding;
            add_counters(sum.counters, &sum.counter_count, part->counters, part->counter_count);
        }
        report->seeds += sum.seeds;
        report->findings += sum.findings;
        report->events += sum.events;
        add_counters(report->counters, &report->counter_count, sum.counters, sum.counter_count);
        if (sum.first_finding != 0 && (report->first_finding == 0 || sum.first_finding < report->first_finding)) {
            report->first_finding = sum.first_finding;
            report->scenario = runner->options->scenarios[j];
        }
        if (!runner->options->quiet) print_totals(runner->options->scenarios[j]->name, &sum, report->seconds);
    }
}

void runner_run(const runner_options *options, runner_report *report) {
    MR_ASSERT(options->jobs >= 1 && options->jobs <= RUNNER_JOBS_MAX && options->first <= options->last);
    runner runner = {.options = options};
    while (options->scenarios[runner.scenario_count] != NULL) runner.scenario_count++;
    MR_ASSERT(runner.scenario_count >= 1 && runner.scenario_count <= SCENARIOS_MAX);
    runner.unit_count = (options->last - options->first + 1) * runner.scenario_count;
    size_t size = options->jobs * sizeof *runner.jobs;
    runner.jobs = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    MR_ASSERT(runner.jobs != MAP_FAILED);
    memset(report, 0, sizeof *report);
    int64_t start_ns = clock_ns();
    for (unsigned i = 0; i < options->jobs; i++) {
        runner.jobs[i].unit = i;
        start_job(&runner, i);
    }
    wait_for_jobs(&runner);
    report->seconds = (double)(clock_ns() - start_ns) / 1e9;
    sum_up(&runner, report);
    munmap(runner.jobs, size);
}

uint64_t runner_counted(const runner_report *report, const char *counter) {
    for (size_t i = 0; i < report->counter_count; i++)
        if (strcmp(report->counters[i].name, counter) == 0) return report->counters[i].value;
    return 0;
}

bool runner_show(const scenario *scenario, const scenario_options *options) {
    scenario_result result;
    scenario->run(options, &result);
    printf("%s, seed %" PRIu64 ": %s\n", scenario->name, options->seed,
           result.violation[0] == '\0' ? "no violation" : result.violation);
    printf("hash %016" PRIx64 ", %" PRIu64 " events, %.6f s of virtual time\n", result.hash, result.events,
           (double)result.virtual_us / 1e6);
    return result.violation[0] == '\0';
}
