/* ps_fixture.h — a parameter server of real processes for tests: a scheduler, servers and workers, all children of the
 * test.
 *
 * Workers run a workload (sim/kv/kv_workload.h), whose bits at the end are known. (Beside a table with rounds, tables
 * without rounds contain, when a step begins, all pushes of the steps before it.) The fixture waits, kills, stops and
 * starts; children assert nothing (test_child.h), and are forked by a process without threads (fork_server.h), so a
 * test may start a child while it has an open connection. */
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
    uint32_t steps;        /* 0: ranks run until ps_fixture_stop */
    int64_t step_us;       /* approximate duration of a step */
    int64_t gap_us;        /* pause between the pushes to two tables */
    int64_t checkpoint_us; /* interval of checkpoints; 0: none */
    int64_t balance_us;    /* interval of load balancing; 0: never */
    bool exact;            /* a checkpoint has all slots after the same steps */
    mr_ps_consistency consistency;
    uint32_t readers;      /* number of readers that may be connected */
    bool mixed;            /* each table has a consistency of its own: `consistency`, ssp:1, asp */
    uint32_t backup;       /* number of ranks that a round does not wait for */
    int64_t deadline_us;   /* maximal duration of a round; 0: no limit */
    uint64_t memory;       /* memory of a server in bytes; 0: the default */
    const mr_ps_app *apps; /* apps of servers and the scheduler */
    uint32_t app_count;
    const mr_ps_optimizer *optimizers; /* user optimizers of the servers */
    uint32_t optimizer_count;
    char folder[TEMP_DIR_FOLDER_MAX], address[MR_PS_ADDRESS_MAX];
    pid_t scheduler, server[PS_FIXTURE_SERVERS_MAX], worker[PS_FIXTURE_WORKERS_MAX];
    struct ps_fixture_page *page; /* shared with the workers */
    uint64_t *progress;           /* part of `page`: per rank, the last begun step */
    uint32_t killed;              /* number of processes that could not clean up */
    fork_server fork_server;      /* starts all children, since this process may have threads */
} ps_fixture;

/* Fills in defaults, and creates the folder. Must be called before this process has threads. False: the folder cannot
 * be created. */
bool ps_fixture_init(ps_fixture *fixture);
/* Ends all running processes normally; true: none failed, and no file is left. */
bool ps_fixture_fini(ps_fixture *fixture);

/* Makes the scheduler's metadata store begin with this generation, as after a long history. Must be called before the
 * scheduler starts. */
bool ps_fixture_age(ps_fixture *fixture, uint64_t generation);
void ps_fixture_forget(ps_fixture *fixture); /* the metadata store loses its disk; the scheduler must not run */

bool ps_fixture_start_scheduler(ps_fixture *fixture); /* returns when the scheduler listens */
void ps_fixture_start_server(ps_fixture *fixture, uint32_t number);
/* A server whose number the scheduler assigns; the caller kills it. */
pid_t ps_fixture_start_another(ps_fixture *fixture);
void ps_fixture_start_worker(ps_fixture *fixture, uint32_t rank);
bool ps_fixture_start(ps_fixture *fixture); /* starts all processes */

void ps_fixture_kill(ps_fixture *fixture, pid_t *pid); /* kills by SIGKILL, and reaps */
bool ps_fixture_terminate(pid_t *pid);                 /* ends by SIGTERM, and reaps; false: its exit status is not 0 */

/* The process of a server, as in the cluster map: each server counts its own incarnations. */
mr_ps_replica ps_fixture_process(ps_fixture *fixture, uint32_t server); /* incarnation 0: in no cluster map */

/* Waits until all slots have all their replicas, in another generation than `past` (0: any generation), and none of
 * them on the process `dead` (NULL: none is). False: timed out. */
bool ps_fixture_full(ps_fixture *fixture, uint64_t past, const mr_ps_replica *dead);
uint64_t ps_fixture_generation(ps_fixture *fixture);
/* the newest complete checkpoint; 0: none, or no answer */
uint64_t ps_fixture_checkpoint(const ps_fixture *fixture);
mr_ps *ps_fixture_connect(const ps_fixture *fixture, int rank); /* NULL: an error, printed on stderr */
bool ps_fixture_reaches(ps_fixture *fixture, uint64_t step);    /* waits until every rank has begun the step */
/* The weights that a new process of rank 0 pulls; no rank may train. */
bool ps_fixture_weights(ps_fixture *fixture, kv_workload_weights out);
/* Whether every weight contains the same number of steps; outside BSP, while no rank trains. */
bool ps_fixture_even(ps_fixture *fixture);
void ps_fixture_stop(ps_fixture *fixture);    /* all ranks end soon, after the same step */
bool ps_fixture_trained(ps_fixture *fixture); /* every worker has ended, with the right weights */

/* Output of `miniray ps status` with further arguments. False: the command failed, and its output is on stderr. */
bool ps_fixture_status(const ps_fixture *fixture, const char *arguments, char *text, size_t room);

/* Start of a rank's step, for the last PS_FIXTURE_BEGUN steps; 0: not begun. */
int64_t ps_fixture_begun_us(const ps_fixture *fixture, uint32_t rank, uint64_t step);
