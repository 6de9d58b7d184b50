/* larder.c — see larder.h. */
#include "kv/office/larder.h"

#include <stdlib.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "kv/corpus.h"

_Static_assert((int)LETTER_ROSTER < (int)DESK_SEAT, "kinds of letters are apart");

struct larder {
    larder_options options;
    corpus corpus;
    marshal *marshal; /* NULL: nobody has cut the data, or wanted any since */
};

larder *larder_create(const larder_options *options) {
    larder *larder = xcalloc(1, sizeof *larder);
    larder->options = *options;
    return larder;
}

void larder_destroy(larder *larder) {
    if (larder == NULL) return;
    if (larder->marshal != NULL) marshal_destroy(larder->marshal);
    corpus_fini(&larder->corpus);
    free(larder);
}

static void send_letter(void *context, const char *address, const letter *letter) {
    van_send_letter(((larder *)context)->options.van, address, letter);
}

/* When somebody wants data for the first time, of this process. */
static void open_marshal(larder *larder) {
    span value = keeper_value(larder->options.keeper, CORPUS_KEY);
    if (value.size == 0 || corpus_decode(value, &larder->corpus) != MR_OK) return;
    marshal_options options = {.coordinator = larder->options.coordinator,
                               .sizes = larder->corpus.sizes,
                               .part_count = larder->corpus.count,
                               .send = send_letter,
                               .context = larder};
    larder->marshal = marshal_create(&options, van_now_us(larder->options.van));
}

/* Nobody is told of a bound while that is not known, or speaks of another generation: it asks again. */
static void answer_mark(larder *larder, link_id link, const letter *question) {
    const larder_options *options = &larder->options;
    uint64_t bound;
    if (question->stamp.view != options->chart(options->context)->birth || !options->bound(options->context, &bound))
        return;
    stamp stamp = {.view = bound, .id = question->stamp.id, .incarnation = options->oldest(options->context)};
    van_answer_letter(options->van, link, &(letter){.kind = DESK_MARKED, .stamp = stamp});
}

bool larder_take(larder *larder, link_id link, const letter *letter) {
    if (letter->kind == DESK_MARK) answer_mark(larder, link, letter);
    if (letter->kind == DESK_MARK) return true;
    if (letter->kind != LETTER_ATTEND) return false;
    if (larder->marshal == NULL) open_marshal(larder);
    return larder->marshal == NULL || marshal_take(larder->marshal, letter, van_now_us(larder->options.van));
}

int64_t larder_next_us(const larder *larder) {
    return larder->marshal == NULL ? CLOCK_NEVER_US : marshal_next_us(larder->marshal);
}

void larder_tick(larder *larder, int64_t now_us) {
    if (larder->marshal == NULL) return;
    const chart *chart = larder->options.chart(larder->options.context);
    if (chart->number != 0 && chart->origin == 0) marshal_restart(larder->marshal, chart->birth);
    marshal_tick(larder->marshal, now_us);
}
