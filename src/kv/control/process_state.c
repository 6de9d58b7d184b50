/* process_state.c — see process_state.h. */
#include "kv/control/process_state.h"

#include <string.h>

#include "base/assert.h"
#include "base/error.h"

mr_status process_state_check_name(const char *what, const char *name) {
    if (name == NULL || name[0] == '\0') return error_set(MR_INVALID, "the name of %s is NULL or empty", what);
    if (strnlen(name, MR_PS_NAME_MAX) == MR_PS_NAME_MAX)
        return error_set(MR_INVALID, "the name of %s is longer than %d bytes", what, MR_PS_NAME_MAX - 1);
    return MR_OK;
}

mr_status process_state_report_set(process_state *state, const char *key, double value) {
    MR_TRY(process_state_check_name("a metric", key));
    uint32_t at = 0;
    while (at < state->report_count && strcmp(state->reports[at].key, key) != 0) at++;
    if (at == MR_PS_METRICS_MAX)
        return error_set(MR_TOO_LARGE, "cannot report metric '%s': the limit is %d metrics per process", key,
                         MR_PS_METRICS_MAX);
    process_state_report *report = &state->reports[at];
    if (at == state->report_count) {
        *report = (process_state_report){.count = 0};
        memcpy(report->key, key, strlen(key) + 1);
        state->report_count++;
    }
    report->value = value;
    report->count++;
    return MR_OK;
}

bool process_state_is_role(uint8_t role) {
    return role == MR_PS_SCHEDULER || role == MR_PS_SERVERS || role == MR_PS_WORKERS || role == MR_PS_READERS;
}

size_t process_state_encode(const process_state *state, uint8_t *out) {
    writer writer = writer_of(out, PROCESS_STATE_SIZE_MAX);
    writer_u8(&writer, state->role);
    writer_text8(&writer, state->address);
#define X(name) writer_u64(&writer, state->name);
    PROCESS_STATE_NUMBERS(X)
#undef X
    writer_u8(&writer, (uint8_t)state->report_count);
    for (uint32_t i = 0; i < state->report_count; i++) {
        const process_state_report *report = &state->reports[i];
        writer_text8(&writer, report->key);
        writer_f64(&writer, report->value);
        writer_u64(&writer, report->count);
    }
    MR_ASSERT(!writer.failed);
    return writer_size(&writer);
}

static bool read_report(reader *reader, process_state_report *report) {
    bool is_text = reader_text8(reader, report->key, sizeof report->key);
    report->value = reader_f64(reader);
    report->count = reader_u64(reader);
    return is_text && report->key[0] != '\0' && report->count != 0;
}

mr_status process_state_decode(span bytes, process_state *out) {
    reader reader = reader_of(bytes.data, bytes.size);
    process_state read = {.role = reader_u8(&reader)};
    bool good = process_state_is_role(read.role);
    good = reader_text8(&reader, read.address, sizeof read.address) && good;
#define X(name) read.name = reader_u64(&reader);
    PROCESS_STATE_NUMBERS(X)
#undef X
    read.report_count = reader_u8(&reader);
    good = good && read.report_count <= MR_PS_METRICS_MAX;
    for (uint32_t i = 0; good && i < read.report_count; i++) good = read_report(&reader, &read.reports[i]);
    if (!good || reader.failed || reader_left(&reader) != 0)
        return error_set(MR_CORRUPT, "malformed process state of %zu bytes", bytes.size);
    *out = read;
    return MR_OK;
}
