/* customer_data.c — dataset and batches of a worker process (feed.h); see customer.h. */
#include "base/error.h"
#include "kv/worker/customer_core.h"

/* What all slots have of this rank. Rounds are acknowledged when they are over; where others went on without it some
 * slots may have to do that yet. */
static uint64_t acknowledged(void *context) {
    const customer *customer = context;
    uint64_t lowest = UINT64_MAX, late = !customer_rounds_rest(customer) || customer->session.jumped;
    if (!customer_is_ready(customer)) return 0;
    for (uint32_t i = 0; i < customer->slot_count; i++) {
        bool rounds = customer->chutes[i].holds;
        uint64_t here = name_ended(rank_clock(customer->rank, i));
        if (rounds) here = customer->session.round > late ? customer->session.round - late : 0;
        if (here < lowest) lowest = here;
    }
    return lowest;
}

static void send_letter(void *context, const char *address, const letter *letter) {
    van_send_letter(customer_van(context), address, letter);
}

void customer_cut(customer *customer, corpus *corpus) {
    if (customer->feed != NULL) {
        corpus_fini(corpus);
        return;
    }
    van *van = customer_van(customer);
    customer->feed = feed_create(&(feed_options){.rank = customer_rank(customer),
                                                 .address = van_address(van),
                                                 .scheduler = postoffice_scheduler(customer->postoffice),
                                                 .coordinator = customer_coordinator(customer),
                                                 .rng = van_env(van)->rng,
                                                 .corpus = *corpus,
                                                 .send = send_letter,
                                                 .acknowledged = acknowledged,
                                                 .context = customer});
    *corpus = (struct corpus){0};
    if (customer->rank != NULL) feed_begin(customer->feed, customer->incarnation, van_now_us(van));
    if (customer_is_ready(customer))
        feed_resume(customer->feed, customer_stage(customer), customer->session.first, customer->session.begun_before);
}

mr_status customer_piece(customer *customer, uint64_t batch, claims_piece *out) {
    if (customer->feed == NULL)
        return error_set(MR_DENIED, "no dataset is defined: define it first (mr_ps_dataset_define)");
    if (!customer_is_open(customer)) return error_set(MR_STALE, "no step is open: begin one first (mr_ps_begin)");
    return feed_piece(customer->feed, customer->session.step, batch, van_now_us(customer_van(customer)), out);
}

void customer_hand_back(customer *customer) {
    if (customer->feed != NULL && customer_is_ready(customer))
        feed_leave(customer->feed, customer->session.step, van_now_us(customer_van(customer)));
}

mr_status customer_handed_back(const customer *customer) {
    return customer->feed == NULL ? MR_OK : feed_left(customer->feed);
}
