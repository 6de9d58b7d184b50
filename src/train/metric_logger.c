/* metric_logger.c — see metric_logger.h. */
#include "train/metric_logger.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/new_file.h"
#include "miniray/admin.h"
#include "runtime/common/report.h"

mr_status metric_logger_create_file(mr_metric_logger *logger, const char *path) {
    mr_status status = new_file_open(path, 0666, &logger->fd);
    return status == MR_OK ? MR_OK : error_wrap(status, "the metric log %s", path);
}

mr_status metric_logger_flush(mr_metric_logger *logger) {
    const uint8_t *at = logger->record.data;
    for (size_t left = logger->record.size; left > 0;) {
        ssize_t written = write(logger->fd, at, left);
        if (written < 0 && errno == EINTR) continue;
        if (written < 0) return error_errno("cannot write %zu bytes to the metric log (fd %d)", left, logger->fd);
        at += written;
        left -= (size_t)written;
    }
    buffer_clear(&logger->record);
    return MR_OK;
}

/* ---- Fields. */

static mr_status walk(const mr_value *map, char *name, size_t length, metric_logger_field_fn *fn, void *user) {
    mr_iter iter = mr_value_iter(map);
    for (mr_value key, value; mr_iter_next(&iter, &key) && mr_iter_next(&iter, &value);) {
        mr_span text;
        if (mr_value_kind(&key) != MR_KIND_STR || mr_value_str(&key, &text) != MR_OK) continue;
        int more = snprintf(name + length, METRIC_LOGGER_NAME_MAX - length, "%s%.*s", length > 0 ? "/" : "",
                            (int)text.size, (const char *)text.data);
        size_t end = length + (size_t)more;
        if (more < 0 || end >= METRIC_LOGGER_NAME_MAX) continue; /* a field whose name is too long is left out */
        MR_TRY(mr_value_kind(&value) == MR_KIND_MAP ? walk(&value, name, end, fn, user) : fn(user, name, &value));
    }
    return MR_OK;
}

mr_status metric_logger_walk(const mr_value *result, metric_logger_field_fn *fn, void *user) {
    char name[METRIC_LOGGER_NAME_MAX] = "";
    return walk(result, name, 0, fn, user);
}

/* ---- JSON lines, with the runtime's JSON writer. */

static bool is_named(const mr_value *key, const char *name) {
    mr_span text;
    return mr_value_kind(key) == MR_KIND_STR && mr_value_str(key, &text) == MR_OK && text.size == strlen(name) &&
           memcmp(text.data, name, text.size) == 0;
}

static mr_status write_json(mr_metric_logger *logger, int64_t epoch, const mr_value *result) {
    report report;
    report_list items = {0};
    report_init(&report);
    report_add(&report, &items, mr_str("epoch"));
    report_add(&report, &items, mr_int(epoch));
    mr_iter iter = mr_value_iter(result);
    for (mr_value key, value; mr_iter_next(&iter, &key) && mr_iter_next(&iter, &value);) {
        if (is_named(&key, "epoch")) continue;
        mr_value *kept = report_alloc(&report, 2 * sizeof *kept);
        kept[0] = key;
        kept[1] = value;
        report_add(&report, &items, mr_value_arg(&kept[0]));
        report_add(&report, &items, mr_value_arg(&kept[1]));
    }
    char *text;
    mr_status status = mr_inspect_json(mr_map(items.items, items.count / 2), &text);
    report_fini(&report);
    MR_TRY(status);
    status = buffer_append(&logger->record, text, strlen(text));
    if (status == MR_OK) status = buffer_append(&logger->record, "\n", 1);
    free(text);
    return status == MR_OK ? metric_logger_flush(logger) : status;
}

static const metric_logger_ops metric_logger_json = {
    .kind = "jsonl", .open = metric_logger_create_file, .write = write_json};

/* ---- All kinds. */

static const metric_logger_ops *const kinds[] = {&metric_logger_csv, &metric_logger_json, &metric_logger_events};

mr_status mr_metric_logger_open(const char *kind, const char *path, mr_metric_logger **out) {
    const metric_logger_ops *ops = NULL;
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (strcmp(kinds[i]->kind, kind) == 0) ops = kinds[i];
    if (ops == NULL)
        return error_set(MR_INVALID, "unknown kind of metric logger '%s'; expected csv, jsonl or tensorboard", kind);
    mr_metric_logger *logger;
    MR_TRY(alloc_try(sizeof *logger, &logger));
    *logger = (mr_metric_logger){.ops = ops, .fd = -1};
    buffer_init(&logger->record, METRIC_LOGGER_SIZE_MAX);
    mr_status status = ops->open(logger, path);
    if (status != MR_OK)
        mr_metric_logger_close(logger);
    else
        *out = logger;
    return status;
}

mr_status mr_metric_logger_write(mr_metric_logger *logger, int64_t epoch, const mr_value *result) {
    if (mr_value_kind(result) != MR_KIND_MAP)
        return error_set(MR_INVALID, "a metric logger writes maps, not a %s", mr_kind_name(mr_value_kind(result)));
    buffer_clear(&logger->record); /* removes the rest of a record that failed */
    return logger->ops->write(logger, epoch, result);
}

void mr_metric_logger_close(mr_metric_logger *logger) {
    if (logger == NULL) return;
    if (logger->ops->close != NULL) logger->ops->close(logger);
    if (logger->fd >= 0) close(logger->fd);
    buffer_fini(&logger->record);
    free(logger);
}
