/* actor_checker.h — checkers of the node's actor table: a second record of the life of every actor.
 *
 * The checker stands between the host and node_actor.h, as scheduler_checker.h does for the scheduler. It knows the
 * options of each actor and the events of its processes, and asserts after each event the state of each actor.
 *
 * Checked  states change only as the diagram in node_actor.h shows; DEAD is final;
 *          a process is started once more than it died, at most 1 + restarts times, and never for two actors;
 *          no two living actors have one name, and a name is free when its actor is dead;
 *          an actor that lives in a placement group, or waits for room in it, dies with it;
 *          when an actor dies, its request for a worker is withdrawn, and its process is killed;
 *          a request for an actor's location is answered once: with its process, or its death. */
#pragma once
#include "runtime/node/node_actor.h"
#include "sim/sim.h"

enum { ACTOR_CHECKER_MAX = 24, ACTOR_CHECKER_ASKERS_MAX = 64, ACTOR_CHECKER_NAME_MAX = 8 };

typedef struct actor_entry {
    mr_actor id;
    uint32_t program;
    char name[ACTOR_CHECKER_NAME_MAX]; /* "": none */
    uint32_t restarts;                 /* remaining restarts */
    uint32_t starts;
    node_actor_state state;
    uint64_t ticket, process;
    uint64_t group;      /* placement group of the actor; 0: none */
    bool forgot, killed; /* calls of the host since the last event */
} actor_entry;

typedef struct actor_asker {
    size_t actor;
    bool told;
} actor_asker;

typedef struct actor_checker {
    sim *sim;
    node_actors book;
    node_actor_ops ops; /* the host's operations */
    void *host;
    value_pack *args; /* owned: arguments of all actors */
    actor_entry entries[ACTOR_CHECKER_MAX];
    actor_asker askers[ACTOR_CHECKER_ASKERS_MAX];
    size_t count, asker_count;
} actor_checker;

void actor_checker_init(actor_checker *checker, sim *sim, const node_actor_ops *ops, void *host);
void actor_checker_fini(actor_checker *checker);

/* False: there are enough actors, or the name is taken; the actor table must refuse the actor, too. */
bool actor_checker_create(actor_checker *checker, uint32_t program, const char *name, uint32_t restarts,
                          const resources *need);
void actor_checker_granted(actor_checker *checker, uint64_t ticket, uint64_t process);
void actor_checker_created(actor_checker *checker, size_t index, uint32_t start, bool failed);
void actor_checker_process_gone(actor_checker *checker, uint64_t process);
void actor_checker_kill(actor_checker *checker, size_t index);
void actor_checker_evict(actor_checker *checker, uint64_t group); /* before the group is removed */
void actor_checker_where(actor_checker *checker, size_t index);

size_t actor_checker_index(mr_actor id);                                             /* the actor was created here */
const actor_entry *actor_checker_in(const actor_checker *checker, uint64_t process); /* actor there; NULL: none */
void actor_checker_check_told(actor_checker *checker); /* when all actors are dead: checks that no request waits */
