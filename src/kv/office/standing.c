/* standing.c — see standing.h. */
#include "kv/office/standing.h"

#include <string.h>

#include "base/assert.h"
#include "base/error.h"

mr_status standing_check_name(const char *what, const char *name) {
    if (name == NULL || name[0] == '\0') return error_set(MR_INVALID, "the name of %s is NULL or empty", what);
    if (strnlen(name, MR_PS_NAME_MAX) == MR_PS_NAME_MAX)
        return error_set(MR_INVALID, "the name of %s is longer than %d bytes", what, MR_PS_NAME_MAX - 1);
    return MR_OK;
}

mr_status standing_report_set(standing *standing, const char *key, double value) {
    MR_TRY(standing_check_name("a metric", key));
    uint32_t at = 0;
    while (at < standing->report_count && strcmp(standing->reports[at].key, key) != 0) at++;
    if (at == MR_PS_METRICS_MAX)
        return error_set(MR_TOO_LARGE, "cannot report metric '%s': the limit is %d metrics per process", key,
                         MR_PS_METRICS_MAX);
    standing_report *report = &standing->reports[at];
    if (at == standing->report_count) {
        *report = (standing_report){.count = 0};
        memcpy(report->key, key, strlen(key) + 1);
        standing->report_count++;
    }
    report->value = value;
    report->count++;
    return MR_OK;
}

size_t standing_encode(const standing *standing, uint8_t *out) {
    writer writer = writer_of(out, STANDING_SIZE_MAX);
    writer_u8(&writer, standing->role);
    writer_text8(&writer, standing->address);
#define X(name) writer_u64(&writer, standing->name);
    STANDING_NUMBERS(X)
#undef X
    writer_u8(&writer, (uint8_t)standing->report_count);
    for (uint32_t i = 0; i < standing->report_count; i++) {
        const standing_report *report = &standing->reports[i];
        writer_text8(&writer, report->key);
        writer_f64(&writer, report->value);
        writer_u64(&writer, report->count);
    }
    MR_ASSERT(!writer.failed);
    return writer_size(&writer);
}

static bool read_report(reader *reader, standing_report *report) {
    bool is_text = reader_text8(reader, report->key, sizeof report->key);
    report->value = reader_f64(reader);
    report->count = reader_u64(reader);
    return is_text && report->key[0] != '\0' && report->count != 0;
}

mr_status standing_decode(span bytes, standing *out) {
    reader reader = reader_of(bytes.data, bytes.size);
    standing read = {.role = reader_u8(&reader)};
    bool good = read.role == MR_PS_SCHEDULER || read.role == MR_PS_SERVERS || read.role == MR_PS_WORKERS;
    good = reader_text8(&reader, read.address, sizeof read.address) && good;
#define X(name) read.name = reader_u64(&reader);
    STANDING_NUMBERS(X)
#undef X
    read.report_count = reader_u8(&reader);
    good = good && read.report_count <= MR_PS_METRICS_MAX;
    for (uint32_t i = 0; good && i < read.report_count; i++) good = read_report(&reader, &read.reports[i]);
    if (!good || reader.failed || reader_left(&reader) != 0)
        return error_set(MR_CORRUPT, "malformed process state of %zu bytes", bytes.size);
    *out = read;
    return MR_OK;
}
