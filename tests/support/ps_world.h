/* ps_world.h — a parameter server of real processes for tests: a scheduler, servers and workers, all children of it.
 *
 * Workers play a lesson (sim/kv/lesson.h), whose bits at the end are known. (Beside a table with rounds those without
 * have, when a step begins, all that was pushed before it.) The world waits, kills, stops and starts; children assert
 * nothing (child.h), and are forked by a process without threads (nursery.h): so a test may start one beside a
 * connection of its own. */
#pragma once
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "miniray/admin.h"
#include "sim/kv/lesson.h"
#include "tests/support/nursery.h"
#include "tests/support/temp.h"

enum { PS_WORLD_SERVERS_MAX = 8, PS_WORLD_WORKERS_MAX = 4, PS_WORLD_BEGUN = 1 << 18 };
#define PS_WORLD_PATIENCE_US INT64_C(60000000)

typedef struct ps_world {
    bool tcp;
    uint32_t servers, workers, slots, copies;
    uint32_t steps;        /* 0: until ps_world_stop */
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
    char folder[TEMP_FOLDER_MAX], address[MR_PS_ADDRESS_MAX];
    pid_t scheduler, server[PS_WORLD_SERVERS_MAX], worker[PS_WORLD_WORKERS_MAX];
    struct ps_world_page *page; /* shared with the workers */
    uint64_t *progress;         /* of it, by rank: the step that it began last */
    uint32_t killed;            /* processes that could not clean up */
    nursery nursery;            /* whose children all of them are: this process may have threads */
} ps_world;

/* Fills in what is zero, and makes the folder. Before this process has threads. False: it cannot be made. */
bool ps_world_init(ps_world *world);
/* Ends what still runs, as it should end; true: nobody failed, and nothing is left. */
bool ps_world_fini(ps_world *world);

/* The scheduler's coordinator begins with this generation, as if it had run for long. Before it is started. */
bool ps_world_age(ps_world *world, uint64_t generation);
void ps_world_forget(ps_world *world); /* the coordinator's disk is lost; the scheduler is not running */

bool ps_world_start_scheduler(ps_world *world); /* it listens when this returns */
void ps_world_start_server(ps_world *world, uint32_t number);
pid_t ps_world_start_another(ps_world *world); /* a server that is given a number; the caller's to kill */
void ps_world_start_worker(ps_world *world, uint32_t rank);
bool ps_world_start(ps_world *world); /* all of them */

void ps_world_kill(ps_world *world, pid_t *pid); /* -9, and reaped */
bool ps_world_terminate(pid_t *pid);             /* SIGTERM, and reaped; false: its exit status is not 0 */

/* A process of a server, as a chart names it: each server counts its own. */
mr_ps_replica ps_world_process(ps_world *world, uint32_t server); /* incarnation 0: it is in no chart */

/* Waits until all slots have all their copies, in another generation than `past` (0: in any), and none of them with the
 * process `dead` (NULL: nobody is). False: not in time. */
bool ps_world_full(ps_world *world, uint64_t past, const mr_ps_replica *dead);
uint64_t ps_world_generation(ps_world *world);
uint64_t ps_world_checkpoint(const ps_world *world);      /* the newest that is whole; 0: none, or nobody answers */
mr_ps *ps_world_connect(const ps_world *world, int rank); /* NULL: stderr says why not */
bool ps_world_reaches(ps_world *world, uint64_t step);    /* every rank has begun it */
/* While nobody trains: what somebody sees who comes as rank 0. */
bool ps_world_weights(ps_world *world, lesson_weights out);
/* Outside BSP, while nobody trains: as many steps are in every weight. */
bool ps_world_even(ps_world *world);
void ps_world_stop(ps_world *world);    /* all end with the same step, soon */
bool ps_world_trained(ps_world *world); /* every worker has ended, with the right weights */

/* What `miniray ps status` says, with more arguments. False: it fails, and stderr has what it says. */
bool ps_world_status(const ps_world *world, const char *arguments, char *text, size_t room);

/* When a rank began a step, of the last PS_WORLD_BEGUN; 0: it has not. */
int64_t ps_world_begun_us(const ps_world *world, uint32_t rank, uint64_t step);
