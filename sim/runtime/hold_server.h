/* hold_server.h — the store server of the hold scenario: a real store server over a real arena, with a disk in memory.
 *
 * Requests of processes to the store server wait in a queue, in order, and are served later, as in the event loop of a
 * node. Rounds (collecting, spilling) are split into their steps, with time in between, in which processes use the
 * shared memory; during a round the store server does nothing else, as in a node. The disk does one operation at a
 * time, takes time, fails, and loses files. Freed memory is overwritten at once, so that a late reader gets wrong
 * bytes. */
#pragma once
#include "net/shm/extent_allocator.h"
#include "sim/sim.h"
#include "store/store_client.h"

typedef enum server_message_kind { MESSAGE_ASK, MESSAGE_JOIN, MESSAGE_LEAVE } server_message_kind;

typedef struct hold_server hold_server;

typedef struct hold_server_events {
    /* The store server has answered a request for an extent or a restore; LEASE_DESK: the process has joined. The
     * process may be dead by now. */
    void (*answered)(void *context, uint64_t process, const store_client_request *request, mr_status status,
                     extent extent, int64_t retry_us);
    void (*file_lost)(void *context, uint64_t slot); /* the file of the object with this header cannot be read */
    void (*changed)(void *context);                  /* the store server has changed something: checks run */
} hold_server_events;

struct hold_server {
    sim *sim;
    const hold_server_events *events;
    void *context;
    arena arena;
    extent_allocator *allocator;
    store_server *server;
    virtual_clock clock;
    list messages, jobs, files; /* owned */
    int round;                  /* step of the current round; 0: none */
    bool spilling;              /* kind of the round */
    bool serving, stopped;
    double disk_errors, files_lost;
    uint64_t saves_left; /* saves until the disk is full */
};

void hold_server_init(hold_server *server, sim *sim, uint64_t bytes, const hold_server_events *events, void *context);
void hold_server_close(hold_server *server); /* checks that nothing is left, and frees everything */

void hold_server_join(hold_server *server, uint64_t process);
void hold_server_ask(hold_server *server, uint64_t process, const store_client_request *request);
void hold_server_leave(hold_server *server, uint64_t process);

void hold_server_step(hold_server *server);        /* the next step of a round, between steps of a process */
void hold_server_collect_now(hold_server *server); /* a whole round; no round may be in progress */
bool hold_server_is_quiet(const hold_server *server);
size_t hold_server_file_count(const hold_server *server);
