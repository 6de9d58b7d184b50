/* data_service.c — see data_service.h. */
#include "kv/control/data_service.h"

#include <stdlib.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/mutation.h"
#include "kv/control/dataset_spec.h"

_Static_assert((int)MESSAGE_GROUP < (int)CONTROL_REGISTER, "kinds of letters are apart");

struct data_service {
    data_service_options options;
    dataset_spec spec;
    group_leader *leader; /* NULL: there is no dataset, or no worker has asked for data yet */
};

data_service *data_service_create(const data_service_options *options) {
    data_service *service = xcalloc(1, sizeof *service);
    service->options = *options;
    return service;
}

void data_service_destroy(data_service *service) {
    if (service == NULL) return;
    if (service->leader != NULL) group_leader_destroy(service->leader);
    dataset_spec_fini(&service->spec);
    free(service);
}

/* Opens the group leader at the first message of a data client to this process. */
static void open_leader(data_service *service) {
    span value = metadata_db_value(service->options.db, DATASET_SPEC_KEY);
    if (value.size == 0 || dataset_spec_decode(value, &service->spec) != MR_OK) return;
    group_leader_options options = {.store = service->options.store,
                                    .sizes = service->spec.sizes,
                                    .part_count = service->spec.count,
                                    .send = van_send_message,
                                    .context = service->options.van};
    service->leader = group_leader_create(&options, van_now_us(service->options.van));
}

/* Sends no answer while the bound is unknown or of another generation; the worker asks again. */
static void answer_mark(data_service *service, link_id link, const control_message *question) {
    const data_service_options *options = &service->options;
    uint64_t bound, version;
    if (question->stamp.view != controller_map(options->controller)->birth ||
        !controller_bound(options->controller, &bound))
        return;
    uint64_t oldest = options->oldest(options->context, &version);
    van_answer_value(options->van, link, CONTROL_MARKED, (stamp){bound, question->stamp.id, oldest},
                     span_of(&version, sizeof version));
}

bool data_service_take(data_service *service, link_id link, const control_message *message) {
    if (message->kind == CONTROL_MARK) answer_mark(service, link, message);
    if (message->kind == CONTROL_MARK) return true;
    if (message->kind != MESSAGE_ATTEND) return false;
    if (service->leader == NULL) open_leader(service);
    return service->leader == NULL || group_leader_take(service->leader, message, van_now_us(service->options.van));
}

int64_t data_service_next_us(const data_service *service) {
    return service->leader == NULL ? CLOCK_NEVER_US : group_leader_next_us(service->leader);
}

void data_service_tick(data_service *service, int64_t now_us) {
    if (service->leader == NULL) return;
    const cluster_map *map = controller_map(service->options.controller);
    if (map->origin == 0 || !MUTATED("late-restart")) group_leader_restart(service->leader, map->empty_since);
    group_leader_tick(service->leader, now_us);
}
