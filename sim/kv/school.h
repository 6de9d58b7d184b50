/* school.h — a parameter server as it runs on machines, on simulated ones: its scheduler, its servers and its workers
 * are the processes of src/kv, from their postoffices to their files; a van carries their letters over the simulator's
 * network instead of sockets, and what the scheduler keeps lies on a simulated disk. Workers play a lesson. */
#pragma once
#include "kv/scheduler.h"
#include "sim/kv/diet.h"
#include "sim/kv/lesson.h"
#include "sim/sim.h"

enum { SCHOOL_SERVERS_MAX = 5, SCHOOL_WORKERS_MAX = DIET_RANKS };
#define SCHOOL_SCHEDULER "tcp:10.0.0.1:1"

struct school;

typedef struct school_seat { /* the argument of a program */
    struct school *school;
    uint32_t number; /* of a server, a rank */
    sim_node *node;
} school_seat;

typedef struct school {
    sim *sim;
    scheduler_options scheduler; /* but for its env, and where it is */
    uint32_t servers, workers;   /* processes */
    uint64_t steps;
    int64_t step_us;     /* that a rank computes in one, at most */
    double hurry_chance; /* without rounds: that a step is neither looked at first nor waited for */
    double leave_chance; /* that a rank leaves its data to others behind a step, and comes back */
    lesson lesson;
    diet diet;
    school_seat scheduler_seat, server_seats[SCHOOL_SERVERS_MAX], worker_seats[SCHOOL_WORKERS_MAX];
    bool done[SCHOOL_WORKERS_MAX]; /* the rank has seen the right weights at the end */
    lesson_weights end;            /* that were seen */
} school;

void school_build(school *school); /* adds and starts all nodes, for what is filled in up to the lesson */
bool school_is_done(const school *school);
uint32_t school_why(const school *school, char *text, size_t size); /* the first rank that is not done, and why not */
void school_pupil_why(const school_seat *seat, char *text, size_t size);

extern const sim_program school_scheduler_program, school_server_program, school_worker_program;
