/* sender_table.h — the process that speaks for a server, a worker or a rank.
 *
 * A slot packet names its sender: a number, and its incarnation or term (ps/slot_message.h). One process at most has
 * both, so the first process that speaks as such a sender is the only one that may: a process with the token of the
 * deployment cannot push for the rank of another one, or report as another server. The process is the one that the
 * handshake of the link has shown (transport.h, peer).
 *
 * A host that knows more than the first word, as a worker that has linked to the server's address itself, says so
 * (`vouch`).
 *
 * Bounds     SENDER_TABLE_MAX senders; one more, and all are forgotten and learned again.
 * Threads     none: pure data. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "base/bytes.h"
#include "base/map.h"

enum { SENDER_TABLE_MAX = 8192 };

typedef enum sender_verdict {
    SENDER_REFUSED,   /* another process is this sender, or the packet is malformed */
    SENDER_ADMITTED,  /* the process may speak as this sender */
    SENDER_SCHEDULER, /* the packet speaks for the controller or the checkpoint store: only the scheduler may send it */
    SENDER_UNSURE, /* not known yet whether the process is this sender: the packet is lost, and its sender repeats it */
} sender_verdict;

typedef struct sender_table { /* empty with any seed */
    uint64_t seed;            /* random, so that no peer can choose senders with equal hashes */
    map senders;              /* hash of sender and incarnation → owned record */
    /* Whether an unknown sender is this process: REFUSED, ADMITTED or UNSURE. NULL: the first process is. */
    sender_verdict (*vouch)(void *context, uint32_t who, uint64_t incarnation, uint64_t process);
    void *context;
} sender_table;

void sender_table_fini(sender_table *table);

sender_verdict sender_table_judge(sender_table *table, span packet, uint64_t process);
/* The same for a control message whose sender has this role (MR_PS_WORKERS, …), number and incarnation; a sender that
 * nobody vouches for yet is admitted, and not learned. */
sender_verdict sender_table_judge_role(sender_table *table, uint8_t role, uint64_t number, uint64_t incarnation,
                                       uint64_t process);
/* The same for a sender; learns an unknown one that is admitted. incarnation 0: not known yet, no sender. */
sender_verdict sender_table_admit(sender_table *table, uint32_t who, uint64_t incarnation, uint64_t process);
