/* ps_fixture.h — a parameter server of real processes for tests: a scheduler, servers and workers, all children of the
 * test.
 *
 * Workers run a workload (sim/kv/kv_workload.h), whose bits at the end are known. (With a table with rounds, tables
 * without rounds have, when a step begins, all pushes of the steps before it.) The fixture waits, kills, stops and
 * starts; children assert nothing (test_child.h), and are forked by a process without threads (fork_server.h): so a
 * test may start a child while it has a connection of its own. */
#pragma once
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "miniray/admin.h"
#include "sim/kv/kv_workload.h"
#include "tests/support/fork_server.h"
#include "tests/support/temp_dir.h"

enum { PS_FIXTURE_SERVERS_MAX = 8, PS_FIXTURE_WORKERS_MAX = 4, PS_FIXTURE_BEGUN = 1 << 18 };
#define PS_FIXTURE_PATIENCE_US INT64_C(60000000)

typedef struct ps_fixture {
    bool tcp;
    uint32_t servers, workers, slots, copies;
    uint32_t steps;        /* 0: until ps_fixture_stop */
    int64_t step_us;       /* approximate duration of a step */
    int64_t gap_us;        /* pause between pushes to one table and to the next */
    int64_t checkpoint_us; /* interval of checkpoints; 0: none */
    int64_t balance_us;    /* interval of load balancing; 0: never */
    bool exact;            /* checkpoints have all slots after the same steps */
    mr_ps_consistency consistency;
    bool mixed;            /* each table has a consistency of its own: `consistency`, ssp:1, asp */
    uint32_t backup;       /* number of ranks that a round does not wait for */
    int64_t deadline_us;   /* maximal duration of a round; 0: no limit */
    uint64_t memory;       /* of a server; 0: the default */
    const mr_ps_app *apps; /* apps of servers and the scheduler */
    uint32_t app_count;
    const mr_ps_optimizer *optimizers; /* user optimizers of servers */
    uint32_t optimizer_count;
    char folder[TEMP_DIR_FOLDER_MAX], address[MR_PS_ADDRESS_MAX];
    pid_t scheduler, server[PS_FIXTURE_SERVERS_MAX], worker[PS_FIXTURE_WORKERS_MAX];
    struct ps_fixture_page *page; /* shared with the workers */
    uint64_t *progress;           /* part of `page`: per rank, the step it began last */
    uint32_t killed;              /* number of processes that could not clean up */
    fork_server fork_server;      /* starts all children: this process may have threads */
} ps_fixture;

/* Fills in defaults, and creates the folder. Call it before this process has threads. False: the folder cannot be
 * created. */
bool ps_fixture_init(ps_fixture *fixture);
/* Ends all running processes in the normal way; true: none failed, and nothing is left. */
bool ps_fixture_fini(ps_fixture *fixture);

/* The scheduler's metadata store begins with this generation, as after a long history. Call it before the scheduler
 * starts. */
bool ps_fixture_age(ps_fixture *fixture, uint64_t generation);
void ps_fixture_forget(ps_fixture *fixture); /* the metadata store's disk is lost; the scheduler must not run */

bool ps_fixture_start_scheduler(ps_fixture *fixture); /* returns when the scheduler listens */
void ps_fixture_start_server(ps_fixture *fixture, uint32_t number);
pid_t ps_fixture_start_another(ps_fixture *fixture); /* the scheduler assigns its number; the caller kills it */
void ps_fixture_start_worker(ps_fixture *fixture, uint32_t rank);
bool ps_fixture_start(ps_fixture *fixture); /* all processes */

void ps_fixture_kill(ps_fixture *fixture, pid_t *pid); /* SIGKILL, and reaped */
bool ps_fixture_terminate(pid_t *pid);                 /* SIGTERM, and reaped; false: its exit status is not 0 */

/* A process of a server, as a cluster map names it: each server counts its own incarnations. */
mr_ps_replica ps_fixture_process(ps_fixture *fixture, uint32_t server); /* incarnation 0: in no cluster map */

/* Waits until all slots have all their replicas, in another generation than `past` (0: in any), and none of them on the
 * process `dead` (NULL: none is). False: not in time. */
bool ps_fixture_full(ps_fixture *fixture, uint64_t past, const mr_ps_replica *dead);
uint64_t ps_fixture_generation(ps_fixture *fixture);
/* the newest complete checkpoint; 0: none, or no answer */
uint64_t ps_fixture_checkpoint(const ps_fixture *fixture);
mr_ps *ps_fixture_connect(const ps_fixture *fixture, int rank); /* NULL: an error, printed on stderr */
bool ps_fixture_reaches(ps_fixture *fixture, uint64_t step);    /* waits until every rank has begun the step */
/* While no rank trains: the weights that a new process of rank 0 pulls. */
bool ps_fixture_weights(ps_fixture *fixture, kv_workload_weights out);
/* Outside BSP, while no rank trains: every weight contains the same number of steps. */
bool ps_fixture_even(ps_fixture *fixture);
void ps_fixture_stop(ps_fixture *fixture);    /* all ranks end with the same step, soon */
bool ps_fixture_trained(ps_fixture *fixture); /* every worker has ended, with the right weights */

/* Output of `miniray ps status` with more arguments. False: it fails, and its output is on stderr. */
bool ps_fixture_status(const ps_fixture *fixture, const char *arguments, char *text, size_t room);

/* Start time of a step of a rank, for the last PS_FIXTURE_BEGUN steps; 0: not begun. */
int64_t ps_fixture_begun_us(const ps_fixture *fixture, uint32_t rank, uint64_t step);
