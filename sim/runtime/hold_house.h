/* hold_house.h — the vault's side of the hold scenario: a real vault over a real arena, with a disk of memory.
 *
 * What processes ask of the vault waits in a line, in order, and is served a while later, as by the loop of a node.
 * Rounds (collecting, spilling) are split into their steps, with time in between, in which processes go on in the
 * shared memory; nothing else of the vault's runs during a round, as in a node. The disk does one thing after the
 * other, takes its time, fails, and loses files. Freed memory is overwritten at once: whoever still reads it notices.
 */
#pragma once
#include "net/shm/extents.h"
#include "sim/sim.h"
#include "store/store.h"

typedef enum house_letter_kind { LETTER_ASK, LETTER_JOIN, LETTER_LEAVE } house_letter_kind;

typedef struct hold_house hold_house;

typedef struct hold_house_events {
    /* The vault has answered: a lease, a restore; LEASE_DESK: the process has joined. It may be dead by now. */
    void (*answered)(void *context, uint64_t process, const store_request *request, mr_status status, extent extent,
                     int64_t retry_us);
    void (*file_lost)(void *context, uint64_t slot); /* the file of the object with this slot cannot be read */
    void (*changed)(void *context);                  /* the vault has done something: look whether all is well */
} hold_house_events;

struct hold_house {
    sim *sim;
    const hold_house_events *events;
    void *context;
    arena arena;
    extents *extents;
    vault *vault;
    virtual_clock clock;
    list letters, jobs, files; /* owned */
    int round;                 /* step of the round that is under way; 0: none */
    bool spilling;             /* of the round */
    bool serving, stopped;
    double disk_errors, files_lost;
    uint64_t saves_left; /* then the disk is full; counts down */
};

void hold_house_init(hold_house *house, sim *sim, uint64_t bytes, const hold_house_events *events, void *context);
void hold_house_close(hold_house *house); /* checks that nothing is left, and frees everything */

void hold_house_join(hold_house *house, uint64_t process);
void hold_house_ask(hold_house *house, uint64_t process, const store_request *request);
void hold_house_leave(hold_house *house, uint64_t process);

void hold_house_step(hold_house *house);        /* the next step of a round, in between whatever a process does */
void hold_house_collect_now(hold_house *house); /* a whole round; nothing is under way */
bool hold_house_is_quiet(const hold_house *house);
size_t hold_house_file_count(const hold_house *house);
