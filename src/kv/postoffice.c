/* postoffice.c — see postoffice.h. Tested by tests/ps_process_test.c. */
#include "kv/postoffice.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/log.h"
#include "cluster/enrol.h"
#include "cluster/remote.h"
#include "kv/office/seats.h"
#include "net/stream/address.h"
#include "ps/part.h"

struct postoffice {
    const postoffice_host *host;
    void *context;
    van *van;
    remote *remote;
    enrol *enrol; /* NULL: it has no number yet */
    office *office;
    uint8_t role;
    uint32_t number, wanted; /* wanted: POSTOFFICE_ANY: any */
    uint64_t token;
    int64_t ask_us; /* when it asks for a number again; CLOCK_NEVER_US: it has one */
    int64_t say_us; /* when the log says what it waits for; CLOCK_NEVER_US: for nothing, or it is a worker */
    bool heard;
    uint64_t breaks;
    char scheduler[PART_ADDRESS_MAX], depot[PART_ADDRESS_MAX];
};

/* ---- A number, then an incarnation. */

static void on_enrolled(void *context, uint64_t incarnation) {
    postoffice *postoffice = context;
    postoffice->host->on_here(postoffice->context, incarnation);
    office_begin(postoffice->office, postoffice->number, incarnation);
}

static void sit_down(postoffice *postoffice, uint32_t number) {
    const env *env = van_env(postoffice->van);
    postoffice->number = number;
    postoffice->ask_us = postoffice->say_us = CLOCK_NEVER_US;
    postoffice->enrol = enrol_create(remote_coordinator(postoffice->remote), env->rng, number,
                                     van_now_us(postoffice->van), on_enrolled, postoffice);
}

void postoffice_enrol_again(postoffice *postoffice, uint64_t known) {
    enrol_again(postoffice->enrol, known, van_now_us(postoffice->van));
}

/* A server's log says what it waits for, first after a while, and then now and then: it asks many times a second. */
static void begin_waiting(postoffice *postoffice) {
    if (postoffice->role == DESK_SERVER && postoffice->say_us == CLOCK_NEVER_US)
        postoffice->say_us = van_now_us(postoffice->van) + POSTOFFICE_ALONE_US;
}

static void say_waiting(postoffice *postoffice, int64_t now_us) {
    postoffice->say_us = now_us + POSTOFFICE_AGAIN_US;
    if (!postoffice->heard)
        log_warn("waiting for the scheduler at %s: no answer; is it running?", postoffice->scheduler);
    else
        log_warn("waiting: another process is server %u; start this one without --number, or with another",
                 postoffice->wanted);
}

static void take_seated(postoffice *postoffice, const letter *letter) {
    if (letter->stamp.id != postoffice->token || postoffice->enrol != NULL) return;
    if (letter->stamp.view < SEATS_MAX) {
        sit_down(postoffice, (uint32_t)letter->stamp.view);
        return;
    }
    begin_waiting(postoffice);
    if (postoffice->host->on_full != NULL) postoffice->host->on_full(postoffice->context);
}

/* ---- As the van's host. */

static void take(void *context, link_id link, span bytes, bale *bale) {
    postoffice *postoffice = context;
    uint32_t magic = 0;
    letter letter;
    if (!postoffice->heard) postoffice->say_us = CLOCK_NEVER_US;
    postoffice->heard = true;
    if (bytes.size >= sizeof magic) memcpy(&magic, bytes.data, sizeof magic);
    if (magic == PART_MAGIC)
        postoffice->host->take(postoffice->context, bytes, bale);
    else if (letter_decode(bytes, &letter) == MR_OK && letter.kind == DESK_SEATED)
        take_seated(postoffice, &letter);
    else if (letter_decode(bytes, &letter) == MR_OK && !office_take(postoffice->office, &letter) &&
             !remote_take(postoffice->remote, &letter) && postoffice->host->take_letter != NULL)
        postoffice->host->take_letter(postoffice->context, &letter);
}

static void broken(void *context, const char *address, bool silent) {
    postoffice *postoffice = context;
    postoffice->breaks++;
    if (postoffice->host->alone != NULL && strcmp(address, postoffice->scheduler) == 0)
        postoffice->host->alone(postoffice->context);
}

static void flush(void *context) {
    postoffice *postoffice = context;
    if (postoffice->host->flush != NULL) postoffice->host->flush(postoffice->context);
}

static int64_t next_us(void *context) {
    postoffice *postoffice = context;
    int64_t next_us = clock_earlier_us(postoffice->ask_us, remote_next_us(postoffice->remote));
    next_us = clock_earlier_us(next_us, postoffice->say_us);
    if (postoffice->enrol != NULL) next_us = clock_earlier_us(next_us, enrol_next_us(postoffice->enrol));
    next_us = clock_earlier_us(next_us, office_next_us(postoffice->office));
    return clock_earlier_us(next_us, postoffice->host->next_us(postoffice->context));
}

static void ask(postoffice *postoffice, int64_t now_us) {
    postoffice->ask_us = now_us + POSTOFFICE_ASK_US;
    van_send_letter(
        postoffice->van, postoffice->scheduler,
        &(letter){.kind = DESK_SEAT,
                  .stamp = {.view = postoffice->role,
                            .id = postoffice->token,
                            .incarnation = postoffice->wanted == POSTOFFICE_ANY ? 0 : 1 + postoffice->wanted}});
}

static void tick(void *context, int64_t now_us) {
    postoffice *postoffice = context;
    if (now_us >= postoffice->say_us) say_waiting(postoffice, now_us);
    if (now_us >= postoffice->ask_us) ask(postoffice, now_us);
    remote_tick(postoffice->remote, now_us);
    if (postoffice->enrol != NULL) enrol_tick(postoffice->enrol, now_us);
    if (now_us >= office_next_us(postoffice->office)) office_tick(postoffice->office, now_us);
    if (now_us >= postoffice->host->next_us(postoffice->context)) postoffice->host->tick(postoffice->context, now_us);
}

/* ---- Life. */

/* Where nothing else is said a process is reached the way the scheduler is. */
static mr_status choose_address(const char *scheduler, uint64_t token, char out[PART_ADDRESS_MAX]) {
    address address;
    MR_TRY(address_parse(scheduler, &address));
    const char *free_port = "tcp:127.0.0.1:0";
    if (!address_is_unix(&address)) return strcpy(out, free_port), MR_OK;
    int size = snprintf(out, PART_ADDRESS_MAX, "%s.%06x", scheduler, (unsigned)(token & 0xffffff));
    if (size >= PART_ADDRESS_MAX - VAN_DESK_ROOM)
        return error_set(MR_INVALID, "the path of '%s' is too long for a socket beside it", scheduler);
    return MR_OK;
}

mr_status postoffice_open(const postoffice_options *options, const postoffice_host *host, void *context,
                          postoffice **out) {
    static const van_host van_host = {.take = take, .broken = broken, .flush = flush, .next_us = next_us, .tick = tick};
    MR_TRY(van_check_address(options->scheduler));
    postoffice *postoffice = xcalloc(1, sizeof *postoffice);
    *postoffice = (struct postoffice){.host = host, .context = context, .role = options->role};
    do postoffice->token = options->env == NULL ? rng_system_seed() : rng_next(options->env->rng);
    while (postoffice->token == 0);
    snprintf(postoffice->scheduler, sizeof postoffice->scheduler, "%s", options->scheduler);
    snprintf(postoffice->depot, sizeof postoffice->depot, "%s" DESK_DEPOT, options->scheduler);
    char listen[PART_ADDRESS_MAX];
    mr_status status = choose_address(options->scheduler, postoffice->token, listen);
    van_options van_options = {.listen = options->listen != NULL ? options->listen : listen,
                               .beyond_this_machine = options->beyond_this_machine,
                               .shown = options->shown,
                               .env = options->env};
    if (status == MR_OK || options->listen != NULL)
        status = van_open(&van_options, &van_host, postoffice, &postoffice->van);
    if (status != MR_OK) {
        free(postoffice);
        return status;
    }
    postoffice->remote = remote_create(van_env(postoffice->van), van_mail(postoffice->van), postoffice->scheduler);
    postoffice->office = office_create(
        postoffice->van, options->role == DESK_SERVER ? MR_PS_SERVERS : MR_PS_WORKERS, postoffice->scheduler,
        &(office_host){.describe = host->describe, .count = host->count, .context = context});
    postoffice->number = POSTOFFICE_ANY;
    postoffice->ask_us = van_now_us(postoffice->van);
    postoffice->say_us = CLOCK_NEVER_US;
    begin_waiting(postoffice);
    postoffice->wanted = options->number;
    if (options->number != POSTOFFICE_ANY && options->role == DESK_WORKER) sit_down(postoffice, options->number);
    *out = postoffice;
    return MR_OK;
}

void postoffice_close(postoffice *postoffice) {
    if (postoffice == NULL) return;
    remote_destroy(postoffice->remote);
    if (postoffice->enrol != NULL) enrol_destroy(postoffice->enrol);
    office_destroy(postoffice->office);
    van_close(postoffice->van);
    free(postoffice);
}

office *postoffice_office(const postoffice *postoffice) { return postoffice->office; }
van *postoffice_van(const postoffice *postoffice) { return postoffice->van; }
uint32_t postoffice_number(const postoffice *postoffice) { return postoffice->number; }
uint64_t postoffice_breaks(const postoffice *postoffice) { return postoffice->breaks; }
bool postoffice_heard(const postoffice *postoffice) { return postoffice->heard; }
coordinator postoffice_coordinator(const postoffice *postoffice) { return remote_coordinator(postoffice->remote); }
const char *postoffice_scheduler(const postoffice *postoffice) { return postoffice->scheduler; }
const char *postoffice_depot(const postoffice *postoffice) { return postoffice->depot; }
