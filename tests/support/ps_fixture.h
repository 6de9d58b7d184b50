/* ps_fixture.h — a parameter server of real processes for tests: a scheduler, servers and workers, all children of it.
 *
 * Workers play a lesson (sim/kv/kv_workload.h), whose bits at the end are known. (Beside a table with rounds those
 * without have, when a step begins, all that was pushed before it.) The world waits, kills, stops and starts; children
 * assert nothing (test_child.h), and are forked by a process without threads (fork_server.h): so a test may start one
 * beside a connection of its own. */
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
    int64_t step_us;       /* that a step takes, about */
    int64_t gap_us;        /* between its pushes to one table and to the next */
    int64_t checkpoint_us; /* 0: none */
    int64_t balance_us;    /* how often; 0: never */
    bool exact;            /* and all slots are cut after the same steps */
    mr_ps_consistency consistency;
    bool mixed;            /* each of the tables has its own: that one, ssp:1, asp */
    uint32_t backup;       /* ranks that a round does not wait for */
    int64_t deadline_us;   /* nor longer than that; 0: it does */
    uint64_t memory;       /* of a server; 0: the default */
    const mr_ps_app *apps; /* that servers and the scheduler handle */
    uint32_t app_count;
    const mr_ps_optimizer *optimizers; /* that servers have of their own */
    uint32_t optimizer_count;
    char folder[TEMP_DIR_FOLDER_MAX], address[MR_PS_ADDRESS_MAX];
    pid_t scheduler, server[PS_FIXTURE_SERVERS_MAX], worker[PS_FIXTURE_WORKERS_MAX];
    struct ps_fixture_page *page; /* shared with the workers */
    uint64_t *progress;           /* of it, by rank: the step that it began last */
    uint32_t killed;              /* processes that could not clean up */
    fork_server fork_server;      /* whose children all of them are: this process may have threads */
} ps_fixture;

/* Fills in what is zero, and makes the folder. Before this process has threads. False: it cannot be made. */
bool ps_fixture_init(ps_fixture *fixture);
/* Ends what still runs, as it should end; true: nobody failed, and nothing is left. */
bool ps_fixture_fini(ps_fixture *fixture);

/* The scheduler's metadata store begins with this generation, as if it had run for long. Before it is started. */
bool ps_fixture_age(ps_fixture *fixture, uint64_t generation);
void ps_fixture_forget(ps_fixture *fixture); /* the metadata store's disk is lost; the scheduler is not running */

bool ps_fixture_start_scheduler(ps_fixture *fixture); /* it listens when this returns */
void ps_fixture_start_server(ps_fixture *fixture, uint32_t number);
pid_t ps_fixture_start_another(ps_fixture *fixture); /* a server that is given a number; the caller's to kill */
void ps_fixture_start_worker(ps_fixture *fixture, uint32_t rank);
bool ps_fixture_start(ps_fixture *fixture); /* all of them */

void ps_fixture_kill(ps_fixture *fixture, pid_t *pid); /* -9, and reaped */
bool ps_fixture_terminate(pid_t *pid);                 /* SIGTERM, and reaped; false: its exit status is not 0 */

/* A process of a server, as a cluster map names it: each server counts its own. */
mr_ps_replica ps_fixture_process(ps_fixture *fixture, uint32_t server); /* incarnation 0: it is in no cluster map */

/* Waits until all slots have all their copies, in another generation than `past` (0: in any), and none of them with the
 * process `dead` (NULL: nobody is). False: not in time. */
bool ps_fixture_full(ps_fixture *fixture, uint64_t past, const mr_ps_replica *dead);
uint64_t ps_fixture_generation(ps_fixture *fixture);
/* the newest that is whole; 0: none, or nobody answers */
uint64_t ps_fixture_checkpoint(const ps_fixture *fixture);
mr_ps *ps_fixture_connect(const ps_fixture *fixture, int rank); /* NULL: stderr says why not */
bool ps_fixture_reaches(ps_fixture *fixture, uint64_t step);    /* every rank has begun it */
/* While nobody trains: what somebody sees who comes as rank 0. */
bool ps_fixture_weights(ps_fixture *fixture, kv_workload_weights out);
/* Outside BSP, while nobody trains: as many steps are in every weight. */
bool ps_fixture_even(ps_fixture *fixture);
void ps_fixture_stop(ps_fixture *fixture);    /* all end with the same step, soon */
bool ps_fixture_trained(ps_fixture *fixture); /* every worker has ended, with the right weights */

/* What `miniray ps status` says, with more arguments. False: it fails, and stderr has what it says. */
bool ps_fixture_status(const ps_fixture *fixture, const char *arguments, char *text, size_t room);

/* When a rank began a step, of the last PS_FIXTURE_BEGUN; 0: it has not. */
int64_t ps_fixture_begun_us(const ps_fixture *fixture, uint32_t rank, uint64_t step);
