/* awaited.c — see awaited.h. */
#include "kv/office/awaited.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"

/* ---- What it is. */

typedef enum fate { HERE, GONE, REPLACED } fate;

static fate fate_of(const awaited_facts *facts, const chart_member *copy) {
    const board_row *row = board_find(facts->board, MR_PS_SERVERS, copy->server);
    if (row == NULL) return GONE;
    if (row->now.incarnation > copy->incarnation) return REPLACED;
    return row->now.incarnation == copy->incarnation && board_is_here(row, facts->now_us) ? HERE : GONE;
}

static void name_server(const awaited_facts *facts, awaited *awaited, bool *seen, uint32_t server) {
    const board_row *row = board_find(facts->board, MR_PS_SERVERS, server);
    if (server >= CHART_SERVERS_MAX || seen[server]) return;
    seen[server] = true;
    awaited->server_count++;
    if (row != NULL && (awaited->gone_us == 0 || row->heard_us < awaited->gone_us)) awaited->gone_us = row->heard_us;
}

static void look_at_slot(const awaited_facts *facts, uint32_t number, awaited *awaited, bool *seen, bool *lost) {
    const chart_slot *slot = &facts->chart->slots[number];
    uint32_t gone = 0;
    for (size_t i = 0; i < slot->count; i++) {
        fate fate = fate_of(facts, &slot->chain[i]);
        if (fate == HERE) return;
        gone += fate == GONE;
    }
    for (size_t i = 0; i < slot->count; i++)
        if (fate_of(facts, &slot->chain[i]) == GONE) name_server(facts, awaited, seen, slot->chain[i].server);
    if (awaited->slot_count < AWAITED_NAMED) awaited->slots[awaited->slot_count] = number;
    awaited->slot_count++;
    *lost = *lost || gone == 0;
}

awaited awaited_look(const awaited_facts *facts) {
    bool seen[CHART_SERVERS_MAX] = {0}, lost = facts->chart->number == 0;
    awaited awaited = {.here = board_servers_here(facts->board, facts->now_us)};
    for (uint32_t i = 0; i < facts->chart->slot_count; i++) look_at_slot(facts, i, &awaited, seen, &lost);
    uint32_t named = 0;
    for (uint32_t i = 0; i < CHART_SERVERS_MAX && named < AWAITED_NAMED; i++)
        if (seen[i]) awaited.servers[named++] = i;
    if (facts->undecided[0] != '\0')
        awaited.kind = AWAITED_DISK;
    else if (!lost && awaited.slot_count != 0)
        awaited.kind = AWAITED_RETURN;
    else if (lost && awaited.here < facts->server_count)
        awaited.kind = AWAITED_SERVERS;
    else if ((lost || facts->stuck) && facts->trouble[0] != '\0')
        awaited.kind = AWAITED_CHECKPOINT;
    return awaited;
}

/* ---- In words. */

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
    uint32_t named = count < AWAITED_NAMED ? count : AWAITED_NAMED;
    add(words, "%s%s ", noun, count == 1 ? "" : "s");
    for (uint32_t i = 0; i < named; i++) add(words, "%s%u", i == 0 ? "" : i + 1 == count ? " and " : ", ", numbers[i]);
    if (count > named) add(words, " and %u more", count - named);
}

/* From where all goes on. */
static void add_origin(words *words, const awaited_facts *facts) {
    if (facts->checkpoint != 0)
        add(words, "all tables go back to checkpoint %" PRIu64, facts->checkpoint);
    else
        add(words, "all tables begin empty: there is no checkpoint");
}

void awaited_say(const awaited *awaited, const awaited_facts *facts, char *text, size_t room) {
    words words = {.text = text, .room = room};
    bool one = awaited->server_count == 1;
    text[0] = '\0';
    switch (awaited->kind) {
    case AWAITED_NOTHING: return;
    case AWAITED_SERVERS:
        add(&words, "%u of %u servers %s connected", awaited->here, facts->server_count,
            awaited->here == 1 ? "is" : "are");
        if (awaited->slot_count == 0) {
            add(&words, "; tables begin when all are");
            return;
        }
        add(&words, ", and ");
        add_numbers(&words, "slot", awaited->slots, awaited->slot_count);
        add(&words, " lost all replicas: when all servers are connected ");
        add_origin(&words, facts);
        return;
    case AWAITED_RETURN:
        add_numbers(&words, "server", awaited->servers, awaited->server_count);
        add(&words, " %s gone with the only replicas of ", one ? "is" : "are");
        add_numbers(&words, "slot", awaited->slots, awaited->slot_count);
        add(&words, ": when %s back as %s, ", one ? "it is" : "they are", one ? "another process" : "other processes");
        add_origin(&words, facts);
        return;
    case AWAITED_DISK:
        add(&words, "no process can be replaced or added: decisions cannot be written to %s: %s", facts->folder,
            facts->undecided);
        return;
    case AWAITED_CHECKPOINT:
        add(&words, "tables cannot start from the checkpoints in %s: %s", facts->folder, facts->trouble);
        return;
    }
}

void awaited_help(const awaited *awaited, const awaited_facts *facts, char *text, size_t room) {
    words words = {.text = text, .room = room};
    uint32_t named = awaited->server_count < AWAITED_NAMED ? awaited->server_count : AWAITED_NAMED;
    text[0] = '\0';
    if (awaited->kind == AWAITED_SERVERS) add(&words, "miniray ps server --scheduler %s", facts->scheduler);
    for (uint32_t i = 0; awaited->kind == AWAITED_RETURN && i < named; i++)
        add(&words, "%sminiray ps server --scheduler %s --id %u", i == 0 ? "" : "\n", facts->scheduler,
            awaited->servers[i]);
    if (awaited->kind == AWAITED_DISK) add(&words, "df %s", facts->folder);
    if (awaited->kind == AWAITED_CHECKPOINT)
        add(&words, "miniray ps checkpoint list --checkpoint-dir %s", facts->folder);
}

/* ---- Over time. */

static bool same(const awaited *a, const awaited *b) {
    return a->kind == b->kind && a->server_count == b->server_count &&
           memcmp(a->servers, b->servers, sizeof a->servers) == 0;
}

awaited_news awaited_watch_look(awaited_watch *watch, const awaited_facts *facts) {
    awaited now = awaited_look(facts);
    bool news = !same(&now, &watch->now), said = watch->said_us != 0;
    if (now.kind != watch->now.kind) watch->since_us = now.gone_us != 0 ? now.gone_us : facts->now_us;
    watch->now = now;
    if (now.kind == AWAITED_NOTHING) {
        watch->said_us = 0;
        return said ? AWAITED_OVER : AWAITED_NO_NEWS;
    }
    if (said ? !news && facts->now_us - watch->said_us < AWAITED_AGAIN_US
             : facts->now_us - watch->since_us < AWAITED_PATIENCE_US)
        return AWAITED_NO_NEWS;
    watch->said_us = facts->now_us;
    return AWAITED_SAY;
}

void awaited_watch_say(const awaited_watch *watch, const awaited_facts *facts, char *text, size_t room) {
    words words = {.text = text, .room = room};
    char why[ERROR_TEXT_MAX], help[ERROR_TEXT_MAX];
    text[0] = '\0';
    if (watch->now.kind == AWAITED_NOTHING) return;
    awaited_say(&watch->now, facts, why, sizeof why);
    awaited_help(&watch->now, facts, help, sizeof help);
    char *rest = strchr(help, '\n');
    if (rest != NULL) *rest = '\0';
    add(&words, "%s (for %" PRId64 " s; try: `%s`", why, (facts->now_us - watch->since_us) / 1000000, help);
    if (watch->now.kind == AWAITED_SERVERS && facts->server_count - watch->now.here > 1)
        add(&words, ", %u of them", facts->server_count - watch->now.here);
    else if (rest != NULL)
        add(&words, ", and likewise for the others");
    add(&words, ")");
}
