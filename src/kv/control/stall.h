/* stall.h — stall diagnosis: the cause that stops a deployment, its start, and the command that resolves it.
 *
 *   kind         condition                                                   remedy
 *   -----------  ----------------------------------------------------------  -----------------------------------
 *   SERVERS      no generation has begun, or a slot is lost, and fewer       so many more servers
 *                servers are alive than a generation begins with
 *   RETURN       every replica of a slot is on a server that is gone, but    a server with that number: the same
 *                may return; another process with its number shows that it   process if it was only silent; with
 *                will not (ps/map_planner.h)                                 another one all tables go back. If its
 *                                                                            link is open: wait
 *   CHECKPOINT   a generation could begin, or has begun, but the checkpoint  check the folder
 *                in the folder cannot be read
 *   DISK         nothing can be decided: the disk rejects writes             free space on the disk
 *
 * A stall watch is called periodically. It records the start of the stall, and decides when to log it: first after
 * STALL_PATIENCE_US, since servers that are just starting are no stall; then every STALL_AGAIN_US, and when other
 * servers are missing.
 *
 * Bounds      STALL_NAMED servers and slots are named; of the others only the count is given.
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
    uint32_t server_count; /* servers with which a generation begins */
    uint64_t checkpoint;   /* the checkpoint with which it would begin; 0: none */
    const char *scheduler; /* address */
    const char *folder;    /* folder of the checkpoints */
    const char *trouble;   /* error of checkpoints; "": none */
    bool stuck;            /* a needed checkpoint cannot be read, and there is no earlier one */
    const char *undecided; /* error that prevents decisions from being written; "": none */
    int64_t now_us;
} stall_facts;

typedef struct stall {
    stall_kind kind;
    uint32_t here;                 /* live servers */
    bool silent;                   /* RETURN: the links of all missing servers are open: they may be only slow */
    int64_t gone_us;               /* last message of the server that has been missing longest; 0: there was none */
    uint32_t server_count;         /* RETURN: number of missing servers */
    uint32_t servers[STALL_NAMED]; /* the first missing servers, ascending */
    uint32_t slot_count;           /* slots without a server; 0: no generation has begun */
    uint32_t slots[STALL_NAMED];
} stall;

stall stall_look(const stall_facts *facts);

/* Writes a sentence without a full stop: what is missing, and what follows when it is there. STALL_NOTHING: "". */
void stall_say(const stall *stall, const stall_facts *facts, char *text, size_t room);
/* Writes the commands that help, one per line, without a final newline. STALL_NOTHING: "". */
void stall_help(const stall *stall, const stall_facts *facts, char *text, size_t room);

/* Writes the first STALL_NAMED numbers with their noun, "servers 0, 1 and 2", and the count of the others; `numbers`
 * has no more than that. */
void stall_list(const char *noun, const uint32_t *numbers, uint32_t count, char *text, size_t room);

/* ---- Watch. */

typedef struct stall_watch { /* zero-initialized: no stall */
    stall now;
    int64_t since_us, said_us; /* said_us 0: not logged yet */
} stall_watch;

typedef enum stall_news { STALL_NO_NEWS, STALL_SAY, STALL_OVER } stall_news;
/* Whether to log now: the stall, or its end if the stall was logged. */
stall_news stall_watch_look(stall_watch *watch, const stall_facts *facts);

/* Writes the whole diagnosis with its duration, in at most `room` bytes. "": no stall. */
void stall_watch_say(const stall_watch *watch, const stall_facts *facts, char *text, size_t room);
