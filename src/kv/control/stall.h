/* stall.h — stall diagnosis: the cause that stops a deployment, since when, and the command that helps.
 *
 *   kind         it is so when                                              what helps
 *   -----------  ---------------------------------------------------------  ----------------------------------
 *   SERVERS      nothing has begun, or a slot is lost, and fewer servers    so many more servers
 *                are here than it begins with
 *   RETURN       every copy of a slot is with servers that are gone, and    a server of that number: the same
 *                perhaps they come back: only another process of that       process if it was only silent, or
 *                number shows that they do not (ps/map_planner.h)                  another, and then all goes back
 *   CHECKPOINT   it could begin, or has begun, but what is in the folder    a look at the folder
 *                cannot be read
 *   DISK         nothing can be decided: the disk does not take it          room on the disk
 *
 * A watch asks again and again, and knows since when and what is worth a line of the log: at first after
 * STALL_PATIENCE_US, since servers that are just being started are nothing to speak of; then every STALL_AGAIN_US,
 * and when somebody else is missing.
 *
 * Bounds      STALL_NAMED servers and slots have a name; of the others only the number is told.
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
    const char *trouble;   /* with them; "": none */
    bool stuck;            /* what somebody needs of them cannot be read, and there is none before */
    const char *undecided; /* why nothing that is decided can be written; "": it can */
    int64_t now_us;
} stall_facts;

typedef struct stall {
    stall_kind kind;
    uint32_t here;                 /* servers */
    int64_t gone_us;               /* when one of those was heard that are gone, the first; 0: none was, */
    uint32_t server_count;         /* RETURN: how many they are, */
    uint32_t servers[STALL_NAMED]; /* ascending, the first of them */
    uint32_t slot_count;           /* that nobody has; 0: nothing has begun yet */
    uint32_t slots[STALL_NAMED];
} stall;

stall stall_look(const stall_facts *facts);

/* A sentence without its end: what is awaited, and what follows when it is there. STALL_NOTHING: "". */
void stall_say(const stall *stall, const stall_facts *facts, char *text, size_t room);
/* Commands that help, one in each line, without the last line's end. STALL_NOTHING: "". */
void stall_help(const stall *stall, const stall_facts *facts, char *text, size_t room);

/* ---- Over time. */

typedef struct stall_watch { /* zero-initialized nothing is awaited */
    stall now;
    int64_t since_us, said_us; /* said_us 0: nothing was said */
} stall_watch;

typedef enum stall_news { STALL_NO_NEWS, STALL_SAY, STALL_OVER } stall_news;
/* What there is to be logged: what is awaited; or that nothing is any more, of which something was said. */
stall_news stall_watch_look(stall_watch *watch, const stall_facts *facts);

/* All of it, since when too, in at most `room` bytes. "": nothing is awaited. */
void stall_watch_say(const stall_watch *watch, const stall_facts *facts, char *text, size_t room);
