/* stall.c — see stall.h. */
#include "kv/control/stall.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/plural.h"

/* ---- Diagnosis. */

typedef enum fate { HERE, GONE, REPLACED } fate;

static fate fate_of(const stall_facts *facts, const cluster_map_member *copy) {
    const process_table_row *row = process_table_find(facts->table, MR_PS_SERVERS, copy->server);
    if (row == NULL) return GONE;
    if (row->now.incarnation > copy->incarnation) return REPLACED;
    return row->now.incarnation == copy->incarnation && process_table_is_here(row, facts->now_us) ? HERE : GONE;
}

static void name_server(const stall_facts *facts, stall *stall, bool *seen, uint32_t server) {
    const process_table_row *row = process_table_find(facts->table, MR_PS_SERVERS, server);
    if (server >= CLUSTER_MAP_SERVERS_MAX || seen[server]) return;
    seen[server] = true;
    stall->silent = (stall->server_count++ == 0 || stall->silent) && row != NULL && row->broken_us == 0;
    if (row != NULL && (stall->gone_us == 0 || row->heard_us < stall->gone_us)) stall->gone_us = row->heard_us;
}

static void look_at_slot(const stall_facts *facts, uint32_t number, stall *stall, bool *seen, bool *lost) {
    const cluster_map_slot *slot = &facts->map->slots[number];
    uint32_t gone = 0;
    for (size_t i = 0; i < slot->count; i++) {
        fate fate = fate_of(facts, &slot->chain[i]);
        if (fate == HERE) return;
        gone += fate == GONE;
    }
    for (size_t i = 0; i < slot->count; i++)
        if (fate_of(facts, &slot->chain[i]) == GONE) name_server(facts, stall, seen, slot->chain[i].server);
    if (stall->slot_count < STALL_NAMED) stall->slots[stall->slot_count] = number;
    stall->slot_count++;
    *lost = *lost || gone == 0;
}

stall stall_look(const stall_facts *facts) {
    bool seen[CLUSTER_MAP_SERVERS_MAX] = {0}, lost = facts->map->number == 0;
    stall stall = {.here = process_table_servers_here(facts->table, facts->now_us)};
    for (uint32_t i = 0; i < facts->map->slot_count; i++) look_at_slot(facts, i, &stall, seen, &lost);
    uint32_t named = 0;
    for (uint32_t i = 0; i < CLUSTER_MAP_SERVERS_MAX && named < STALL_NAMED; i++)
        if (seen[i]) stall.servers[named++] = i;
    if (facts->undecided[0] != '\0')
        stall.kind = STALL_DISK;
    else if (!lost && stall.slot_count != 0)
        stall.kind = STALL_RETURN;
    else if (lost && stall.here < facts->server_count)
        stall.kind = STALL_SERVERS;
    else if ((lost || facts->stuck) && facts->trouble[0] != '\0')
        stall.kind = STALL_CHECKPOINT;
    return stall;
}

/* ---- Texts. */

typedef struct words {
    char *text;
    size_t room, size;
} words;

static void add(words *words, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void add(words *words, const char *format, ...) {
    va_list list;
    if (words->size + 1 >= words->room) return;
    va_start(list, format);
    int more = vsnprintf(words->text + words->size, words->room - words->size, format, list);
    va_end(list);
    size_t left = words->room - words->size - 1, size = more < 0 ? 0 : (size_t)more;
    words->size += size < left ? size : left;
}

/* "slot 3"; "slots 1, 2 and 3"; "slots 0, 1, 2, 3, 4, 5, 6, 7 and 12 more" */
static void add_numbers(words *words, const char *noun, const uint32_t *numbers, uint32_t count) {
    uint32_t named = count < STALL_NAMED ? count : STALL_NAMED;
    add(words, "%s%s ", noun, plural(count));
    for (uint32_t i = 0; i < named; i++) add(words, "%s%u", i == 0 ? "" : i + 1 == count ? " and " : ", ", numbers[i]);
    if (count > named) add(words, " and %u more", count - named);
}

void stall_list(const char *noun, const uint32_t *numbers, uint32_t count, char *text, size_t room) {
    words words = {.text = text, .room = room};
    text[0] = '\0';
    add_numbers(&words, noun, numbers, count);
}

/* The state from which the deployment continues. */
static void add_origin(words *words, const stall_facts *facts) {
    if (facts->checkpoint != 0)
        add(words, "all tables go back to checkpoint %" PRIu64, facts->checkpoint);
    else
        add(words, "all tables begin empty: there is no checkpoint");
}

void stall_say(const stall *stall, const stall_facts *facts, char *text, size_t room) {
    words words = {.text = text, .room = room};
    bool one = stall->server_count == 1;
    text[0] = '\0';
    switch (stall->kind) {
    case STALL_NOTHING: return;
    case STALL_SERVERS:
        add(&words, "%u of %u servers %s connected", stall->here, facts->server_count, stall->here == 1 ? "is" : "are");
        if (stall->slot_count == 0) {
            add(&words, "; tables begin when all are");
            return;
        }
        add(&words, ", and ");
        add_numbers(&words, "slot", stall->slots, stall->slot_count);
        add(&words, " lost all replicas: when all servers are connected ");
        add_origin(&words, facts);
        return;
    case STALL_RETURN:
        add_numbers(&words, "server", stall->servers, stall->server_count);
        if (stall->silent) {
            add(&words, " %s silent, with %s open, and %s the only replicas of ", one ? "is" : "are",
                one ? "its connection" : "their connections", one ? "has" : "have");
            add_numbers(&words, "slot", stall->slots, stall->slot_count);
            add(&words, ": the machine may be overloaded; nothing is lost when %s heard again",
                one ? "it is" : "they are");
            return;
        }
        add(&words, " %s gone with the only replicas of ", one ? "is" : "are");
        add_numbers(&words, "slot", stall->slots, stall->slot_count);
        add(&words, ": when %s back as %s, ", one ? "it is" : "they are", one ? "another process" : "other processes");
        add_origin(&words, facts);
        return;
    case STALL_DISK:
        add(&words, "no process can be replaced or added: decisions cannot be written to %s: %s", facts->folder,
            facts->undecided);
        return;
    case STALL_CHECKPOINT:
        add(&words, "tables cannot start from the checkpoints in %s: %s", facts->folder, facts->trouble);
        return;
    }
}

void stall_help(const stall *stall, const stall_facts *facts, char *text, size_t room) {
    words words = {.text = text, .room = room};
    uint32_t named = stall->server_count < STALL_NAMED ? stall->server_count : STALL_NAMED;
    text[0] = '\0';
    if (stall->kind == STALL_SERVERS) add(&words, "miniray ps server --scheduler %s", facts->scheduler);
    if (stall->kind == STALL_RETURN && stall->silent) add(&words, "miniray ps status --scheduler %s", facts->scheduler);
    for (uint32_t i = 0; stall->kind == STALL_RETURN && !stall->silent && i < named; i++)
        add(&words, "%sminiray ps server --scheduler %s --id %u", i == 0 ? "" : "\n", facts->scheduler,
            stall->servers[i]);
    if (stall->kind == STALL_DISK) add(&words, "df %s", facts->folder);
    if (stall->kind == STALL_CHECKPOINT) add(&words, "miniray ps checkpoint list --checkpoint-dir %s", facts->folder);
}

/* ---- Watch. */

static bool same(const stall *a, const stall *b) {
    return a->kind == b->kind && a->server_count == b->server_count &&
           memcmp(a->servers, b->servers, sizeof a->servers) == 0;
}

stall_news stall_watch_look(stall_watch *watch, const stall_facts *facts) {
    stall now = stall_look(facts);
    bool news = !same(&now, &watch->now), said = watch->said_us != 0;
    if (now.kind != watch->now.kind) watch->since_us = now.gone_us != 0 ? now.gone_us : facts->now_us;
    watch->now = now;
    if (now.kind == STALL_NOTHING) {
        watch->said_us = 0;
        return said ? STALL_OVER : STALL_NO_NEWS;
    }
    if (said ? !news && facts->now_us - watch->said_us < STALL_AGAIN_US
             : facts->now_us - watch->since_us < STALL_PATIENCE_US)
        return STALL_NO_NEWS;
    watch->said_us = facts->now_us;
    return STALL_SAY;
}

void stall_watch_say(const stall_watch *watch, const stall_facts *facts, char *text, size_t room) {
    words words = {.text = text, .room = room};
    char why[ERROR_TEXT_MAX], help[ERROR_TEXT_MAX];
    text[0] = '\0';
    if (watch->now.kind == STALL_NOTHING) return;
    stall_say(&watch->now, facts, why, sizeof why);
    stall_help(&watch->now, facts, help, sizeof help);
    char *rest = strchr(help, '\n');
    if (rest != NULL) *rest = '\0';
    add(&words, "%s (for %" PRId64 " s; try: `%s`", why, (facts->now_us - watch->since_us) / 1000000, help);
    if (watch->now.kind == STALL_SERVERS && facts->server_count - watch->now.here > 1)
        add(&words, ", %u of them", facts->server_count - watch->now.here);
    else if (rest != NULL)
        add(&words, ", and likewise for the others");
    add(&words, ")");
}
