/* kv_process.c — see kv_process.h. Tested by tests/ps_process_test.c. */
#include "kv/control/kv_process.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/log.h"
#include "base/mutation.h"
#include "cluster/incarnation.h"
#include "cluster/metadata_remote.h"
#include "kv/control/app_message.h"
#include "kv/control/id_allocator.h"
#include "kv/control/sender_table.h"
#include "net/socket/address.h"
#include "ps/slot_message.h"

struct kv_process {
    const kv_process_host *host;
    void *context;
    van *van;
    metadata_remote *remote;
    incarnation_acquire *acquire; /* NULL: no number yet */
    control_client *client;
    catalog_client *catalog;
    uint8_t role;
    uint32_t number, wanted; /* `wanted` KV_PROCESS_ANY: any number */
    uint32_t compressors;
    uint64_t token;
    int64_t ask_us; /* time of the next request for a number; CLOCK_NEVER_US: the process has one */
    int64_t say_us; /* time of the next log line about the wait; CLOCK_NEVER_US: no wait, or a worker */
    bool heard;
    uint64_t breaks;
    sender_table senders;
    char scheduler[SLOT_MESSAGE_ADDRESS_MAX], checkpoints[SLOT_MESSAGE_ADDRESS_MAX];
};

/* ---- A number, then an incarnation. */

static void on_enrolled(void *context, uint64_t incarnation) {
    kv_process *process = context;
    process->host->on_here(process->context, incarnation);
    control_client_begin(process->client, process->number, incarnation);
}

static void sit_down(kv_process *process, uint32_t number) {
    const env *env = van_env(process->van);
    process->number = number;
    process->ask_us = process->say_us = CLOCK_NEVER_US;
    process->acquire = incarnation_acquire_create(metadata_remote_metadata(process->remote), env->rng, number,
                                                  van_now_us(process->van), on_enrolled, process);
}

void kv_process_acquire_again(kv_process *process, uint64_t known) {
    incarnation_acquire_again(process->acquire, known, van_now_us(process->van));
}

/* Logs what a server waits for: first after KV_PROCESS_ALONE_US, then every KV_PROCESS_AGAIN_US. */
static void begin_waiting(kv_process *process) {
    if (process->role == CONTROL_SERVER && process->say_us == CLOCK_NEVER_US)
        process->say_us = van_now_us(process->van) + KV_PROCESS_ALONE_US;
}

static void say_waiting(kv_process *process, int64_t now_us) {
    process->say_us = now_us + KV_PROCESS_AGAIN_US;
    if (!process->heard) {
        const char *trouble = van_trouble(process->van, process->scheduler);
        log_warn("waiting for the scheduler at %s: no answer; is it running?%s%s%s", process->scheduler,
                 trouble[0] == '\0' ? "" : " (", trouble, trouble[0] == '\0' ? "" : ")");
    } else
        log_warn("waiting: another process is server %u; start this one without --id, or with another",
                 process->wanted);
}

static void take_seated(kv_process *process, const control_message *message) {
    if (message->stamp.id != process->token || process->acquire != NULL) return;
    if (message->stamp.view < ID_ALLOCATOR_MAX) {
        sit_down(process, (uint32_t)message->stamp.view);
        return;
    }
    if (message->value.size != 0 && process->host->on_rejected != NULL) {
        process->ask_us = CLOCK_NEVER_US;
        process->host->on_rejected(process->context, message->value);
        return;
    }
    begin_waiting(process);
    if (process->host->on_full != NULL) process->host->on_full(process->context, message->stamp.incarnation);
}

/* ---- Host of the van. */

static sender_verdict judge_note(sender_table *senders, const control_message *message, uint64_t sender) {
    app_message note;
    if (app_message_read(message, &note) != MR_OK) return SENDER_REFUSED;
    return sender_table_judge_role(senders, note.from_role, note.from, note.from_incarnation, sender);
}

static sender_verdict vouch(void *context, uint32_t who, uint64_t incarnation, uint64_t sender) {
    kv_process *process = context;
    if (process->host->server_address == NULL || who >= SLOT_MESSAGE_RANK) return SENDER_ADMITTED;
    const char *address = process->host->server_address(process->context, who, incarnation);
    uint64_t there = address == NULL ? 0 : messenger_process_at(van_messenger(process->van), address);
    return there == 0 ? SENDER_UNSURE : there == sender ? SENDER_ADMITTED : SENDER_REFUSED;
}

/* Whether the process at the other end of the link may send these bytes; otherwise the link is closed. While this
 * process has no link to the scheduler, another process there may be the scheduler: its messages are lost, and repeated
 * when there is a link. */
static bool admit(kv_process *process, link_id link, span bytes, bool is_packet, control_message *message) {
    sender_verdict verdict = SENDER_REFUSED;
    uint64_t sender = van_sender(process->van, link);
    if (is_packet)
        verdict = sender_table_judge(&process->senders, bytes, sender);
    else if (control_message_decode(bytes, message) == MR_OK)
        verdict = message->kind == CONTROL_NOTE ? judge_note(&process->senders, message, sender) : SENDER_SCHEDULER;
    if (verdict == SENDER_ADMITTED || verdict == SENDER_UNSURE) return verdict == SENDER_ADMITTED;
    bool is_forged = verdict == SENDER_SCHEDULER;
    if (is_forged && (van_is_from(process->van, link, process->scheduler) || MUTATED("any-scheduler"))) return true;
    if (!is_forged || messenger_link(van_messenger(process->van), process->scheduler).v != 0)
        van_refuse(process->van, link, "malformed bytes, or a message that only another process may send");
    return false;
}

static void take(void *context, link_id link, span bytes, shared_bytes *shared) {
    kv_process *process = context;
    uint32_t magic = 0;
    control_message message;
    if (bytes.size >= sizeof magic) memcpy(&magic, bytes.data, sizeof magic);
    if (!admit(process, link, bytes, magic == SLOT_MESSAGE_MAGIC, &message)) return;
    if (!process->heard) process->say_us = CLOCK_NEVER_US;
    process->heard = true;
    if (magic == SLOT_MESSAGE_MAGIC)
        process->host->take(process->context, bytes, shared);
    else if (message.kind == CONTROL_SEATED)
        take_seated(process, &message);
    else if (!control_client_take(process->client, &message) && !metadata_remote_take(process->remote, &message) &&
             !catalog_client_take(process->catalog, &message) && process->host->take_message != NULL)
        process->host->take_message(process->context, &message);
}

static void broken(void *context, const char *address, bool silent) {
    kv_process *process = context;
    process->breaks++;
    if (process->host->alone != NULL && strcmp(address, process->scheduler) == 0)
        process->host->alone(process->context);
}

static void flush(void *context) {
    kv_process *process = context;
    if (process->host->flush != NULL) process->host->flush(process->context);
}

static int64_t next_us(void *context) {
    kv_process *process = context;
    int64_t next_us = clock_earlier_us(process->ask_us, metadata_remote_next_us(process->remote));
    next_us = clock_earlier_us(next_us, process->say_us);
    next_us = clock_earlier_us(next_us, catalog_client_next_us(process->catalog));
    if (process->acquire != NULL) next_us = clock_earlier_us(next_us, incarnation_acquire_next_us(process->acquire));
    next_us = clock_earlier_us(next_us, control_client_next_us(process->client));
    return clock_earlier_us(next_us, process->host->next_us(process->context));
}

static void ask(kv_process *process, int64_t now_us) {
    process->ask_us = now_us + KV_PROCESS_ASK_US;
    uint64_t wanted = process->wanted == KV_PROCESS_ANY ? 0 : 1 + process->wanted;
    span compressors = span_of(&process->compressors, sizeof process->compressors);
    van_send_value(process->van, process->scheduler, CONTROL_REGISTER, (stamp){process->role, process->token, wanted},
                   process->role == CONTROL_SERVER ? compressors : (span){0});
}

static void tick(void *context, int64_t now_us) {
    kv_process *process = context;
    if (now_us >= process->say_us) say_waiting(process, now_us);
    if (now_us >= process->ask_us) ask(process, now_us);
    metadata_remote_tick(process->remote, now_us);
    if (now_us >= catalog_client_next_us(process->catalog)) catalog_client_tick(process->catalog, now_us);
    if (process->acquire != NULL) incarnation_acquire_tick(process->acquire, now_us);
    if (now_us >= control_client_next_us(process->client)) control_client_tick(process->client, now_us);
    if (now_us >= process->host->next_us(process->context)) process->host->tick(process->context, now_us);
}

/* ---- Creation and end. */

static void ask_about_tables(void *context, const control_message *question) {
    kv_process *process = context;
    van_send_message(process->van, process->scheduler, question);
}

static int64_t tell_time(void *context) { return van_now_us(((kv_process *)context)->van); }

/* Default address: of the same kind (tcp or unix) as the scheduler's. */
static mr_status choose_address(const char *scheduler, uint64_t token, char out[SLOT_MESSAGE_ADDRESS_MAX]) {
    address address;
    MR_TRY(address_parse(scheduler, &address));
    const char *free_port = "tcp:127.0.0.1:0";
    if (!address_is_unix(&address)) return strcpy(out, free_port), MR_OK;
    int size = snprintf(out, SLOT_MESSAGE_ADDRESS_MAX, "%s.%06x", scheduler, (unsigned)(token & 0xffffff));
    if (size >= SLOT_MESSAGE_ADDRESS_MAX - VAN_SERVICE_ROOM)
        return error_set(MR_INVALID, "the path of '%s' is too long for a socket beside it", scheduler);
    return MR_OK;
}

mr_status kv_process_open(const kv_process_options *options, const kv_process_host *host, void *context,
                          kv_process **out) {
    static const van_host van_host = {.take = take, .broken = broken, .flush = flush, .next_us = next_us, .tick = tick};
    MR_TRY(van_check_address(options->scheduler));
    kv_process *process = xcalloc(1, sizeof *process);
    *process = (struct kv_process){
        .host = host, .context = context, .role = options->role, .compressors = options->compressors};
    do process->token = options->env == NULL ? rng_system_seed() : rng_next(options->env->rng);
    while (process->token == 0);
    snprintf(process->scheduler, sizeof process->scheduler, "%s", options->scheduler);
    snprintf(process->checkpoints, sizeof process->checkpoints, "%s" CONTROL_CHECKPOINTS, options->scheduler);
    char listen[SLOT_MESSAGE_ADDRESS_MAX];
    mr_status status = choose_address(options->scheduler, process->token, listen);
    van_options van_options = {.listen = options->listen != NULL ? options->listen : listen,
                               .scheduler = options->scheduler,
                               .shown = options->shown,
                               .env = options->env};
    if (status == MR_OK || options->listen != NULL) status = van_open(&van_options, &van_host, process, &process->van);
    if (status != MR_OK) {
        free(process);
        return status;
    }
    process->remote = metadata_remote_create(van_env(process->van), van_messenger(process->van), process->scheduler);
    static const uint8_t roles[] = {
        [CONTROL_SERVER] = MR_PS_SERVERS, [CONTROL_WORKER] = MR_PS_WORKERS, [CONTROL_READER] = MR_PS_READERS};
    process->client = control_client_create(
        process->van, roles[options->role], process->scheduler,
        &(control_client_host){.describe = host->describe, .count = host->count, .context = context});
    process->catalog = catalog_client_create(&(catalog_client_host){ask_about_tables, tell_time, process},
                                             rng_next(van_env(process->van)->rng));
    process->senders.vouch = vouch;
    process->senders.context = process;
    if (options->env == NULL) process->senders.seed = rng_system_seed();
    process->number = KV_PROCESS_ANY;
    process->ask_us = van_now_us(process->van);
    process->say_us = CLOCK_NEVER_US;
    begin_waiting(process);
    process->wanted = options->number;
    if (options->number != KV_PROCESS_ANY && options->role == CONTROL_WORKER) sit_down(process, options->number);
    *out = process;
    return MR_OK;
}

void kv_process_close(kv_process *process) {
    if (process == NULL) return;
    metadata_remote_destroy(process->remote);
    if (process->acquire != NULL) incarnation_acquire_destroy(process->acquire);
    control_client_destroy(process->client);
    catalog_client_destroy(process->catalog);
    sender_table_fini(&process->senders);
    van_close(process->van);
    free(process);
}

control_client *kv_process_control(const kv_process *process) { return process->client; }
van *kv_process_van(const kv_process *process) { return process->van; }
uint32_t kv_process_number(const kv_process *process) { return process->number; }
uint64_t kv_process_breaks(const kv_process *process) { return process->breaks; }
bool kv_process_heard(const kv_process *process) { return process->heard; }
mr_status kv_process_say_unheard(const kv_process *process) {
    const char *trouble = van_trouble(process->van, process->scheduler);
    return error_set(MR_BUSY, "no answer from the scheduler at %s%s%s", process->scheduler,
                     trouble[0] == '\0' ? "" : ": ", trouble);
}
metadata_store kv_process_metadata(const kv_process *process) { return metadata_remote_metadata(process->remote); }
catalog_client *kv_process_catalog(const kv_process *process) { return process->catalog; }
const char *kv_process_scheduler(const kv_process *process) { return process->scheduler; }
const char *kv_process_checkpoints(const kv_process *process) { return process->checkpoints; }
