/* hold_process.h — the processes of the hold scenario: they create objects, pass references on, view objects and drop
 * them.
 *
 * There are two kinds. A *store* process uses store/store_client.h as it is: each of its operations is one event;
 * between any two steps of the operation the store server may run, or the process may be killed. A *bare* process uses
 * store/hold_table.h and store/object_header.h to do the work of store_client_take and store_client_view one step at a
 * time, so that other processes run in between, too:
 *
 *   take:  ADDED (entry written) ──confirm──► HELD, or the object is gone
 *   view:  HELD ──entry pinned──► PINNING ──confirm──► VIEWED, or it is spilled (RESTORING), or it is lost
 *
 * A reference travels in a message; its sender keeps a hold for it until the receiver confirms its own hold, or is
 * known to be dead. A process dies by kill: it closes nothing, its table stays as it was, and the store server learns
 * of the death later. */
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

typedef struct hand { /* state of an object in a process */
    hand_state state;
    hold_object *object;
    store_client_object *stored; /* of a store process */
    hold_entry *entry;           /* of a bare process */
    void *data;                  /* while the object is created or viewed */
    uint32_t holds;              /* of which in_messages belong to messages in flight */
    uint32_t in_messages;
    size_t from; /* while ADDED: the process that keeps a hold for it; from_process 0: none */
    uint64_t from_process;
} hand;

typedef enum place_state { PLACE_EMPTY, PLACE_JOINING, PLACE_ALIVE, PLACE_DEAD } place_state;

typedef struct hold_place { /* place for one process at a time */
    struct hold_processes *all;
    size_t index;
    place_state state;
    uint64_t process;
    bool bare;
    uint64_t wants; /* size of an object that it tries to create; 0: none */
    store_client *store;
    store_client_ops ops;
    hold_table holds;
    hand hands[HOLD_HANDS_MAX];
    hold_object *known[HOLD_KNOWN_MAX]; /* objects seen before: an old reference may be tried again */
} hold_place;

typedef struct hold_processes {
    sim *sim;
    hold_server *server;
    hold_checker *checker;
    hold_place places[HOLD_PLACES_MAX];
    size_t place_count;
    uint64_t next_process;
    list notes;    /* owned: messages in flight */
    bool draining; /* no new actions begin */
    double bare;   /* share of bare processes */
    double deaths; /* probability per action; lower inside one */
    jmp_buf die;   /* jump out of an operation in which a process is killed */
    hold_place *dying;
    uint64_t small; /* number of small ones among ten objects */
} hold_processes;

void hold_processes_init(hold_processes *all, sim *sim, hold_server *server, hold_checker *checker, size_t place_count);
void hold_processes_fini(hold_processes *all);

void hold_place_join(hold_place *place); /* starts a new process in this empty place */
void hold_place_kill(hold_place *place);
void hold_place_leave(hold_place *place); /* the process closes its store */
void hold_place_act(hold_place *place);   /* performs one action; the process may die in it */

/* For hold_server_events.answered. */
void hold_processes_answered(hold_processes *all, uint64_t process, const store_client_request *request,
                             mr_status status, extent extent, int64_t retry_us);
bool hold_processes_are_done(const hold_processes *all); /* no process has an object, and no message is in flight */
void hold_processes_complain(const hold_processes *all); /* reports a violation that names a process with an object */
