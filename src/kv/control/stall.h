/* stall.h — stall diagnosis: the cause that stops a deployment, since when, and the command that helps.
 *
 *   kind         condition                                                  remedy
 *   -----------  ---------------------------------------------------------  ----------------------------------
 *   SERVERS      nothing has begun, or a slot is lost, and fewer servers    so many more servers
 *                are here than it begins with
 *   RETURN       every copy of a slot is with servers that are gone, and    a server of that number: the same
 *                perhaps they come back: only another process of that       process if it was only silent, or
 *                number shows that they do not (ps/map_planner.h)           another, and then all goes back
 *   CHECKPOINT   it could begin, or has begun, but the checkpoint in the    a look at the folder
 *                folder cannot be read
 *   DISK         nothing can be decided: the disk rejects writes            room on the disk
 *
 * A stall watch is asked periodically. The watch knows its start and what to log: first after STALL_PATIENCE_US,
 * since servers that are just starting are no stall; then every STALL_AGAIN_US, and when other servers are missing.
 *
 * Bounds      STALL_NAMED servers and slots are named; of the others only the number is told.
 * Pure. */
#pragma once
#include "kv/control/process_table.h"
#include "ps/cluster_map.h"

#define STALL_PATIENCE_US INT64_C(3000000)
#define STALL_AGAIN_US    INT64_C(30000000)
enum { STALL_NAMED = 8 };

typedef enum stall_kind { STALL_NOTHING, STALL_SERVERS, STALL_RETURN, STALL_CHECKPOINT, STALL_DISK } stall_kind;

typedef struct stall_facts { /* all borrowed */
    const cluster_map *map;
    const process_table *table;
    uint32_t server_count; /* with which a generation begins */
    uint64_t checkpoint;   /* from which it would; 0: none */
    const char *scheduler; /* its address */
    const char *folder;    /* where checkpoints lie */
    const char *trouble;   /* error with checkpoints; "": none */
    bool stuck;            /* a needed checkpoint cannot be read, and there is no earlier one */
    const char *undecided; /* why decisions cannot be written; "": they can */
    int64_t now_us;
} stall_facts;

typedef struct stall {
    stall_kind kind;
    uint32_t here;                 /* servers */
    int64_t gone_us;               /* when the first of the missing servers was heard last; 0: none was */
    uint32_t server_count;         /* RETURN: number of missing servers */
    uint32_t servers[STALL_NAMED]; /* the first of them, ascending */
    uint32_t slot_count;           /* slots without a server; 0: nothing has begun yet */
    uint32_t slots[STALL_NAMED];
} stall;

stall stall_look(const stall_facts *facts);

/* A sentence without its end: the missing thing, and what follows when it is there. STALL_NOTHING: "". */
void stall_say(const stall *stall, const stall_facts *facts, char *text, size_t room);
/* Commands that help, one in each line, without the last line's end. STALL_NOTHING: "". */
void stall_help(const stall *stall, const stall_facts *facts, char *text, size_t room);

/* ---- Over time. */

typedef struct stall_watch { /* zero-initialized: no stall */
    stall now;
    int64_t since_us, said_us; /* said_us 0: nothing was logged */
} stall_watch;

typedef enum stall_news { STALL_NO_NEWS, STALL_SAY, STALL_OVER } stall_news;
/* The text to be logged: the stall; or its end, if the stall was logged. */
stall_news stall_watch_look(stall_watch *watch, const stall_facts *facts);

/* The whole diagnosis with its duration, in at most `room` bytes. "": no stall. */
void stall_watch_say(const stall_watch *watch, const stall_facts *facts, char *text, size_t room);
