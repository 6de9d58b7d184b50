/* chaos_expect.c — see chaos_expect.h. */
#include "tests/support/chaos_expect.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "miniray/admin.h"

static bool names_the_node(mr_status status, const char *text) {
    return (status == MR_CLOSED || status == MR_PEER_DIED || status == MR_WORKER_DIED || status == MR_ACTOR_DIED ||
            status == MR_OBJECT_LOST || status == MR_IO) &&
           strstr(text, "node") != NULL;
}

/* Prints the reports of the node and the processes when a result is missing. */
static void look(chaos_load *load) {
    static const char *const questions[] = {"status", "tasks", "actors", "objects"};
    mr_inspect *inspect;
    mr_value answer;
    char *json;
    if (mr_inspect_within(load->mr, &inspect) != MR_OK) return;
    for (size_t i = 0; i < sizeof questions / sizeof questions[0]; i++) {
        if (mr_inspect_ask(inspect, questions[i], NULL, 100, &answer) != MR_OK) continue;
        if (mr_inspect_json(mr_value_arg(&answer), &json) == MR_OK) {
            fprintf(stderr, "%s: %s\n", questions[i], json);
            free(json);
        }
        mr_value_release(&answer);
    }
    mr_inspect_close(inspect);
}

bool chaos_is_named(chaos_load *load, mr_status status) {
    const char *text = mr_last_error();
    load->lost++;
    if ((status == MR_WORKER_DIED || status == MR_ACTOR_DIED || status == MR_OBJECT_LOST) &&
        strstr(text, "SIGKILL") != NULL)
        return true;
    if (strstr(text, "the process that owns the object has ended") != NULL ||
        strstr(text, "was lost with the process") != NULL)
        return true;
    if (load->node_may_die && names_the_node(status, text)) return load->node_gone = true;
    fprintf(stderr, "no cause that may be: %s: %s\n", mr_status_name(status), text);
    if (status == MR_TIMEOUT) look(load);
    return false;
}

bool chaos_is_begun(chaos_load *load, mr_status status) { return status == MR_OK || chaos_is_named(load, status); }

bool chaos_take_int(chaos_load *load, mr_ref ref, int64_t *number, bool *got) {
    mr_value value;
    mr_status status = mr_get(load->mr, ref, CHAOS_PATIENCE_US, &value);
    bool fine = true;
    *got = status == MR_OK;
    if (*got) {
        fine = mr_value_int(&value, number) == MR_OK;
        mr_value_release(&value);
        load->right++;
    } else {
        fine = chaos_is_named(load, status);
    }
    mr_release(load->mr, ref);
    return fine;
}

bool chaos_expect_int(chaos_load *load, mr_ref ref, int64_t expected) {
    int64_t number = 0;
    bool got;
    if (!chaos_take_int(load, ref, &number, &got)) return false;
    if (got && number != expected) fprintf(stderr, "%lld, not %lld\n", (long long)number, (long long)expected);
    return !got || number == expected;
}

bool chaos_is_filled(const mr_value *value, float start, size_t count) {
    mr_tensor tensor;
    bool fine = mr_value_tensor(value, &tensor) == MR_OK && tensor.bytes == count * sizeof(float);
    for (size_t i = 0; fine && i < count; i++) fine = ((const float *)tensor.data)[i] == start + (float)(i % 7);
    if (!fine) fprintf(stderr, "a large value of %zu items is not what it was\n", count);
    return fine;
}

bool chaos_expect_filled(chaos_load *load, mr_ref ref, float start, size_t count) {
    mr_value value;
    mr_status status = mr_get(load->mr, ref, CHAOS_PATIENCE_US, &value);
    bool fine = status == MR_OK ? chaos_is_filled(&value, start, count) : chaos_is_named(load, status);
    if (status == MR_OK) {
        mr_value_release(&value);
        load->right++;
    }
    mr_release(load->mr, ref);
    return fine;
}
