/* metric_logger_tb.c — metric logger for TensorBoard event files.
 *
 * The file is a sequence of TFRecords. Each contains an Event message of protocol buffers, with four fields:
 *
 *   TFRecord   length u64 · masked crc32c of it u32 · data · masked crc32c of that u32
 *   Event      1: wall_time double · 2: step int64 · 3: file_version string (the first one) · 5: summary
 *   Summary    1: value, repeated          Value   1: tag string · 2: simple_value float
 */
#include <errno.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/varint.h"
#include "train/epoch_result.h"
#include "train/metric_logger.h"

enum { VARINT = 0, FIXED64 = 1, BYTES = 2, FIXED32 = 5 }; /* wire types of fields */

/* Castagnoli's polynomial, reflected, one bit at a time: records are short. */
static uint32_t crc32c(const uint8_t *data, size_t size) {
    uint32_t crc = UINT32_MAX;
    for (size_t i = 0; i < size; i++) {
        crc ^= data[i];
        for (int bit = 0; bit < 8; bit++) crc = crc >> 1 ^ (crc & 1 ? UINT32_C(0x82f63b78) : 0);
    }
    return ~crc;
}

static uint32_t masked_crc(const void *data, size_t size) {
    uint32_t crc = crc32c(data, size);
    return (crc >> 15 | crc << 17) + UINT32_C(0xa282ead8);
}

/* ---- Protocol buffers. */

static mr_status put_varint(buffer *out, uint64_t number) {
    uint8_t bytes[VARINT_SIZE_MAX];
    writer writer = writer_of(bytes, sizeof bytes);
    writer_varint(&writer, number);
    return buffer_append(out, bytes, writer_size(&writer));
}

static mr_status put_key(buffer *out, unsigned field, unsigned kind) { return put_varint(out, field << 3 | kind); }

static mr_status put_bytes(buffer *out, unsigned field, const void *data, size_t size) {
    MR_TRY(put_key(out, field, BYTES));
    MR_TRY(put_varint(out, size));
    return buffer_append(out, data, size);
}

static mr_status put_fixed(buffer *out, unsigned field, const void *number, size_t size) {
    MR_TRY(put_key(out, field, size == 8 ? FIXED64 : FIXED32));
    return buffer_append(out, number, size);
}

/* ---- Records. */

static mr_status write_record(mr_metric_logger *logger, const buffer *event) {
    buffer *record = &logger->record;
    uint64_t length = event->size;
    uint32_t length_crc = masked_crc(&length, sizeof length), crc = masked_crc(event->data, event->size);
    MR_TRY(buffer_append(record, &length, sizeof length));
    MR_TRY(buffer_append(record, &length_crc, sizeof length_crc));
    MR_TRY(buffer_append(record, event->data, event->size));
    MR_TRY(buffer_append(record, &crc, sizeof crc));
    return metric_logger_flush(logger);
}

static double now_s(void) { return (double)clock_wall_us(clock_real()) / 1e6; }

/* Writes an event with `data` as field 3 (the first event) or field 5 (all others). */
static mr_status write_event(mr_metric_logger *logger, int64_t step, unsigned field, const void *data, size_t size) {
    buffer event;
    double now = now_s();
    buffer_init(&event, METRIC_LOGGER_SIZE_MAX);
    mr_status status = put_fixed(&event, 1, &now, sizeof now);
    if (status == MR_OK) status = put_key(&event, 2, VARINT);
    if (status == MR_OK) status = put_varint(&event, (uint64_t)step);
    if (status == MR_OK) status = put_bytes(&event, field, data, size);
    if (status == MR_OK) status = write_record(logger, &event);
    buffer_fini(&event);
    return status;
}

static mr_status add_scalar(void *user, const char *name, const mr_value *value) {
    buffer *summary = user, one;
    double number;
    if (!epoch_result_number(value, &number)) return MR_OK;
    float scalar = (float)number;
    buffer_init(&one, METRIC_LOGGER_SIZE_MAX);
    mr_status status = put_bytes(&one, 1, name, strlen(name));
    if (status == MR_OK) status = put_fixed(&one, 2, &scalar, sizeof scalar);
    if (status == MR_OK) status = put_bytes(summary, 1, one.data, one.size);
    buffer_fini(&one);
    return status;
}

static mr_status write_scalars(mr_metric_logger *logger, int64_t epoch, const mr_value *result) {
    buffer summary;
    buffer_init(&summary, METRIC_LOGGER_SIZE_MAX);
    mr_status status = metric_logger_walk(result, add_scalar, &summary);
    if (status == MR_OK) status = write_event(logger, epoch, 5, summary.data, summary.size);
    buffer_fini(&summary);
    return status;
}

static mr_status open_events(mr_metric_logger *logger, const char *folder) {
    char path[4096], host[256] = "";
    if (mkdir(folder, 0777) != 0 && errno != EEXIST) return error_errno("cannot create the directory %s", folder);
    if (gethostname(host, sizeof host - 1) != 0) host[0] = '\0';
    int size = snprintf(path, sizeof path, "%s/events.out.tfevents.%010lld.%s.%d.%lld", folder, (long long)now_s(),
                        host, (int)getpid(), (long long)clock_ns());
    if (size < 0 || (size_t)size >= sizeof path)
        return error_set(MR_TOO_LARGE, "the path '%.60s…' is too long", folder);
    MR_TRY(metric_logger_create_file(logger, path));
    return write_event(logger, 0, 3, "brain.Event:2", strlen("brain.Event:2"));
}

const metric_logger_ops metric_logger_events = {.kind = "tensorboard", .open = open_events, .write = write_scalars};
