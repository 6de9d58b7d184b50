/* sender_table.c — see sender_table.h. */
#include "kv/control/sender_table.h"

#include <stdlib.h>

#include "base/alloc.h"
#include "miniray/admin.h"
#include "ps/slot_message.h"
#include "ps/stable_hash.h"

typedef struct record {
    uint64_t incarnation, process;
    uint32_t who;
} record;

static void forget(sender_table *table) {
    map_for_each (item, &table->senders) free(item.value);
    map_fini(&table->senders);
    table->senders = (map){0};
}

void sender_table_fini(sender_table *table) { forget(table); }

bool sender_table_admits(sender_table *table, uint32_t who, uint64_t incarnation, uint64_t process) {
    if (incarnation == 0 || process == 0) return true;
    uint64_t key = stable_hash2(incarnation, table->seed ^ who);
    const record *known = map_get(&table->senders, key);
    bool same = known != NULL && known->who == who && known->incarnation == incarnation;
    if (known != NULL) return !same || known->process == process; /* another sender with this hash is not checked */
    if (table->senders.count == SENDER_TABLE_MAX) forget(table);
    map_put(&table->senders, key, XNEW(record, .incarnation = incarnation, .process = process, .who = who));
    return true;
}

sender_verdict sender_table_judge(sender_table *table, span packet, uint64_t process) {
    reader reader = reader_of(packet.data, packet.size);
    slot_message_head head;
    uint32_t count;
    if (slot_message_peek(&reader, &head, &count) != MR_OK) return SENDER_REFUSED;
    if (head.who >= SLOT_MESSAGE_CHECKPOINTS || (head.who & SLOT_MESSAGE_CONTROLLER) != 0) return SENDER_SCHEDULER;
    return sender_table_admits(table, head.who, head.incarnation, process) ? SENDER_ADMITTED : SENDER_REFUSED;
}

sender_verdict sender_table_judge_role(sender_table *table, uint8_t role, uint64_t number, uint64_t incarnation,
                                       uint64_t process) {
    if (role == MR_PS_SCHEDULER) return SENDER_SCHEDULER;
    if ((role != MR_PS_WORKERS && role != MR_PS_SERVERS) || number >= SLOT_MESSAGE_RANK) return SENDER_REFUSED;
    uint32_t who = (uint32_t)number | (role == MR_PS_WORKERS ? (uint32_t)SLOT_MESSAGE_WORKER : 0);
    return sender_table_admits(table, who, incarnation, process) ? SENDER_ADMITTED : SENDER_REFUSED;
}
