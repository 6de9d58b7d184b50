/* sender_table.c — see sender_table.h. */
#include "kv/control/sender_table.h"

#include <stdlib.h>

#include "base/alloc.h"
#include "base/mutation.h"
#include "miniray/admin.h"
#include "ps/cluster_map.h"
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

sender_verdict sender_table_admit(sender_table *table, uint32_t who, uint64_t incarnation, uint64_t process) {
    if (incarnation == 0 || process == 0 || MUTATED("any-sender")) return SENDER_ADMITTED;
    uint64_t key = stable_hash2(incarnation, table->seed ^ who);
    const record *known = map_get(&table->senders, key);
    bool same = known != NULL && known->who == who && known->incarnation == incarnation;
    if (same && known->process != process) return SENDER_REFUSED;
    if (known != NULL) return SENDER_ADMITTED; /* another sender with this hash is not checked */
    sender_verdict verdict =
        table->vouch == NULL ? SENDER_ADMITTED : table->vouch(table->context, who, incarnation, process);
    if (verdict != SENDER_ADMITTED) return verdict;
    if (table->senders.count == SENDER_TABLE_MAX) forget(table);
    map_put(&table->senders, key, XNEW(record, .incarnation = incarnation, .process = process, .who = who));
    return SENDER_ADMITTED;
}

sender_verdict sender_table_judge(sender_table *table, span packet, uint64_t process) {
    reader reader = reader_of(packet.data, packet.size);
    slot_message_head head;
    uint32_t count;
    if (slot_message_peek(&reader, &head, &count) != MR_OK) return SENDER_REFUSED;
    if (head.who >= SLOT_MESSAGE_CHECKPOINTS || (head.who & SLOT_MESSAGE_CONTROLLER) != 0) return SENDER_SCHEDULER;
    return sender_table_admit(table, head.who, head.incarnation, process);
}

sender_verdict sender_table_judge_role(sender_table *table, uint8_t role, uint64_t number, uint64_t incarnation,
                                       uint64_t process) {
    if (role == MR_PS_SCHEDULER) return SENDER_SCHEDULER;
    uint64_t first = role == MR_PS_READERS ? CLUSTER_MAP_READER : 0;
    bool serves = role == MR_PS_SERVERS, pulls = role == MR_PS_WORKERS || role == MR_PS_READERS;
    if ((!serves && !pulls) || number >= SLOT_MESSAGE_RANK - first) return SENDER_REFUSED;
    uint32_t who = (uint32_t)(first + number) | (pulls ? (uint32_t)SLOT_MESSAGE_WORKER : 0);
    sender_verdict verdict = sender_table_admit(table, who, incarnation, process);
    return verdict == SENDER_UNSURE ? SENDER_ADMITTED : verdict;
}
