/* hold_process.h — the processes of the hold scenario: they make objects, hand them on, view them, let them go.
 *
 * There are two kinds. A *store* process uses store/store_client.h as it is: each of its operations is one event,
 * inside which, between any two of its steps, the store server may go on, or the process be killed. A *bare* process
 * does with store/hold_table.h and store/object_header.h what a store does inside store_client_take and
 * store_client_view, but one step at a time, so that others come in between, too:
 *
 *   take:  ADDED (entry written) ──confirm──► HELD, or the object is gone
 *   view:  HELD ──entry pinned──► PINNING ──confirm──► VIEWED, or it is spilled (RESTORING), or it is lost
 *
 * A reference travels in a message; its sender keeps a hold for it until the receiver says that it has its own, or is
 * known to be dead. A process dies by kill: nothing of it is closed, its table stays as it was, and the store server is
 * told later. */
#pragma once
#include <setjmp.h>

#include "sim/runtime/hold_checker.h"
#include "sim/runtime/hold_server.h"
#include "store/hold_table.h"

enum { HOLD_HANDS_MAX = 12, HOLD_KNOWN_MAX = 4 };

typedef enum hand_state {
    HAND_NONE,
    HAND_CREATING,
    HAND_ADDED,
    HAND_HELD,
    HAND_PINNING,
    HAND_RESTORING,
    HAND_VIEWED
} hand_state;

typedef struct hand { /* what a process has of an object */
    hand_state state;
    hold_object *object;
    store_client_object *stored; /* of a store process */
    hold_entry *entry;           /* of a bare one */
    void *data;                  /* while it is created or viewed */
    uint32_t holds;              /* of which in_messages belong to messages on their way */
    uint32_t in_messages;
    size_t from; /* while it is ADDED: who keeps a hold for it meanwhile; from_process 0: nobody */
    uint64_t from_process;
} hand;

typedef enum place_state { PLACE_EMPTY, PLACE_JOINING, PLACE_ALIVE, PLACE_DEAD } place_state;

typedef struct hold_place { /* room for one process at a time */
    struct hold_processes *all;
    size_t index;
    place_state state;
    uint64_t process;
    bool bare;
    uint64_t wants; /* the size of an object that it tries to make; 0: none */
    store_client *store;
    store_client_ops ops;
    hold_table holds;
    hand hands[HOLD_HANDS_MAX];
    hold_object *known[HOLD_KNOWN_MAX]; /* objects that it has seen: a ref may be tried again, long after */
} hold_place;

typedef struct hold_processes {
    sim *sim;
    hold_server *server;
    hold_checker *checker;
    hold_place places[HOLD_PLACES_MAX];
    size_t place_count;
    uint64_t next_process;
    list notes;    /* owned: what is on its way to processes */
    bool draining; /* nothing new is begun */
    double bare;   /* share of bare processes */
    double deaths; /* per act, and less inside one */
    jmp_buf die;   /* out of an operation in which a process is killed */
    hold_place *dying;
    uint64_t small; /* how many of ten objects are small */
} hold_processes;

void hold_processes_init(hold_processes *all, sim *sim, hold_server *server, hold_checker *checker, size_t place_count);
void hold_processes_fini(hold_processes *all);

void hold_place_join(hold_place *place); /* a new process comes to this empty place */
void hold_place_kill(hold_place *place);
void hold_place_leave(hold_place *place); /* politely */
void hold_place_act(hold_place *place);   /* does some one thing; may die in it */

/* For hold_server_events.answered. */
void hold_processes_answered(hold_processes *all, uint64_t process, const store_client_request *request,
                             mr_status status, extent extent, int64_t retry_us);
bool hold_processes_are_done(const hold_processes *all); /* no process has anything, and nothing is on its way */
void hold_processes_complain(const hold_processes *all); /* a violation: who still has something */
