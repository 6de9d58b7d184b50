/* sender_table.h — the process that speaks for a server, a worker or a rank.
 *
 * A slot packet names its sender: a number, and its incarnation or term (ps/slot_message.h). One process at most has
 * both, so the first process that speaks as such a sender is the only one that may: a process with the token of the
 * deployment cannot push for the rank of another one, or report as another server. The process is the one that the
 * handshake of the link has shown (transport.h, peer).
 *
 * Bounds     SENDER_TABLE_MAX senders; one more, and all are forgotten and learned again.
 * Threads     none: pure data. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "base/bytes.h"
#include "base/map.h"

enum { SENDER_TABLE_MAX = 8192 };

typedef struct sender_table { /* empty with any seed */
    uint64_t seed;            /* random, so that no peer can choose senders with equal hashes */
    map senders;              /* hash of sender and incarnation → owned record */
} sender_table;

void sender_table_fini(sender_table *table);
typedef enum sender_verdict {
    SENDER_REFUSED,   /* another process is this sender, or the packet is malformed */
    SENDER_ADMITTED,  /* as sender_table_admits */
    SENDER_SCHEDULER, /* the packet speaks for the controller or the checkpoint store: only the scheduler may send it */
} sender_verdict;

sender_verdict sender_table_judge(sender_table *table, span packet, uint64_t process);
/* The same for a control message whose sender has this role (MR_PS_WORKERS, …), number and incarnation. */
sender_verdict sender_table_judge_role(sender_table *table, uint8_t role, uint64_t number, uint64_t incarnation,
                                       uint64_t process);
/* Whether the process may speak as this sender; learns an unknown sender. incarnation 0: not known yet, no sender. */
bool sender_table_admits(sender_table *table, uint32_t who, uint64_t incarnation, uint64_t process);
