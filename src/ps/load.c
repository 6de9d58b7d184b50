/* load.c — see load.h. */
#include "ps/load.h"

#include <stdlib.h>

#include "base/alloc.h"
#include "base/assert.h"

void load_fini(load *load) {
    free(load->slots);
    *load = (struct load){.terms = load->terms};
}

/* Another generation may have another number of slots. */
static void count_slots(load *load, uint32_t slot_count) {
    if (load->slot_count == slot_count && load->slots != NULL) return;
    load_fini(load);
    load->slot_count = slot_count;
    load->slots = xcalloc(slot_count + 1, sizeof *load->slots);
}

void load_take(load *load, const chart *chart, const part *part) {
    if (part->slot >= chart->slot_count || part->epoch != chart->slots[part->slot].epoch) return;
    count_slots(load, chart->slot_count);
    load->slots[part->slot].count += part->lsn;
    load->slots[part->slot].pulls += part->name;
}

void load_tick(load *load, int64_t now_us) {
    if (now_us < load->next_interval_us) return;
    load->next_interval_us = now_us + load->terms.decide_us / LOAD_INTERVALS;
    for (uint32_t i = 0; i < load->slot_count; i++) {
        load_slot *slot = &load->slots[i];
        slot->rate = balance_smooth(slot->rate, (double)slot->count);
        slot->pull_rate = balance_smooth(slot->pull_rate, (double)slot->pulls);
        slot->count = slot->pulls = 0;
    }
}

/* ---- The balancer's view: servers that are here and stay, and the slots that they lead. */

typedef struct scene {
    balance_server *servers; /* owned, as all */
    uint32_t *ids;
    size_t server_count;
    balance_slot *slots;
    size_t slot_count;
    double all; /* that they carry */
} scene;

static size_t index_of(const scene *scene, uint32_t id) {
    size_t at = 0;
    while (at < scene->server_count && scene->ids[at] != id) at++;
    return at;
}

static void scene_init(scene *scene, const load *load, const chart *chart, const plan_facts *facts, int64_t now_us) {
    MR_ASSERT(load->slot_count == chart->slot_count && load->slots != NULL);
    *scene = (struct scene){.servers = xcalloc(facts->server_count + 1, sizeof *scene->servers),
                            .ids = xcalloc(facts->server_count + 1, sizeof *scene->ids),
                            .slots = xcalloc(chart->slot_count + 1, sizeof *scene->slots)};
    for (size_t i = 0; i < facts->server_count; i++) {
        const plan_server *server = &facts->servers[i];
        if (!server->alive || server->leaves || server->doubted) continue;
        scene->ids[scene->server_count] = server->id;
        scene->servers[scene->server_count++] = (balance_server){server->id, 1};
    }
    for (uint32_t i = 0; i < chart->slot_count; i++) {
        const chart_slot *slot = &chart->slots[i];
        size_t head = slot->count == 0 ? scene->server_count : index_of(scene, slot->chain[0].server);
        if (head == scene->server_count) continue;
        bool movable = now_us >= load->slots[i].rest_us && placement_find(facts->pins, facts->pin_count, i) == NULL;
        scene->slots[scene->slot_count++] = (balance_slot){i, (uint32_t)head, load->slots[i].rate, movable};
        scene->all += load->slots[i].rate;
    }
}

static void scene_fini(scene *scene) {
    free(scene->servers);
    free(scene->ids);
    free(scene->slots);
}

static bool is_read(const load *load, uint32_t slot, double part) {
    return load->slots[slot].pull_rate >= part * load->slots[slot].rate;
}

/* Its head answers a part of the pulls and takes all pushes, so less of what it carries is pulls than before. */
static bool has_cooled(const load *load, const scene *scene, const balance_slot *slot) {
    return slot->load * 4 * (double)scene->server_count < scene->all ||
           !is_read(load, slot->slot, load->terms.reads / 2);
}

/* Hot slots get copies; those that have cooled to a quarter of a share lose them. */
static size_t wish_copies(const load *load, const scene *scene, const chart *chart, plan_wish *wishes) {
    uint32_t hot[LOAD_WISHES_MAX / 2];
    size_t count = 0, most = LOAD_WISHES_MAX / 2;
    size_t found = balance_hot(scene->slots, scene->slot_count, scene->servers, scene->server_count, hot, most);
    for (size_t i = 0; i < found; i++)
        if (chart->slots[hot[i]].more == 0 && is_read(load, hot[i], load->terms.reads))
            wishes[count++] = (plan_wish){hot[i], chart->slots[hot[i]].home, LOAD_MORE};
    for (size_t i = 0; i < scene->slot_count && count < most; i++) {
        const balance_slot *slot = &scene->slots[i];
        const chart_slot *there = &chart->slots[slot->slot];
        if (there->more != 0 && has_cooled(load, scene, slot))
            wishes[count++] = (plan_wish){slot->slot, there->home, 0};
    }
    return count;
}

static size_t wish_moves(load *load, scene *scene, const chart *chart, int64_t now_us, plan_wish *wishes) {
    balance_move moves[LOAD_WISHES_MAX / 2];
    size_t count = balance_decide(scene->slots, scene->slot_count, scene->servers, scene->server_count, moves,
                                  LOAD_WISHES_MAX / 2);
    for (size_t i = 0; i < count; i++) {
        wishes[i] = (plan_wish){moves[i].slot, 1 + scene->ids[moves[i].to], chart->slots[moves[i].slot].more};
        load->slots[moves[i].slot].rest_us = now_us + LOAD_RESTS * load->terms.decide_us;
    }
    return count;
}

size_t load_wishes(load *load, const chart *chart, const plan_facts *facts, int64_t now_us, plan_wish *wishes) {
    count_slots(load, chart->slot_count);
    if (load->next_decide_us == 0)
        load->next_decide_us = now_us + 2 * load->terms.decide_us; /* it has measured nothing yet */
    if (now_us < load->next_decide_us) return 0;
    load->next_decide_us = now_us + load->terms.decide_us;
    scene scene;
    scene_init(&scene, load, chart, facts, now_us);
    bool enough = scene.all >= load->terms.least * (double)scene.server_count;
    size_t count = enough ? wish_copies(load, &scene, chart, wishes) : 0;
    if (enough && count == 0) count = wish_moves(load, &scene, chart, now_us, wishes);
    scene_fini(&scene);
    MR_ASSERT(count <= LOAD_WISHES_MAX);
    return count;
}
