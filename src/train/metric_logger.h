/* metric_logger.h — metric loggers: results of epochs in files, one operation table per kind of file (miniray/train.h).
 *
 * Every record is written at once, in one write(2): a reader of the file sees complete epochs, and a program that dies
 * later loses none of them. */
#pragma once
#include "base/bytes.h"
#include "miniray/train.h"

enum { METRIC_LOGGER_SIZE_MAX = 64 * 1024 * 1024, METRIC_LOGGER_NAME_MAX = 256 };

typedef struct metric_logger_ops {
    const char *kind;
    mr_status (*open)(mr_metric_logger *logger, const char *path); /* opens logger->fd */
    mr_status (*write)(mr_metric_logger *logger, int64_t epoch, const mr_value *result);
    void (*close)(mr_metric_logger *logger); /* frees its state; NULL: it has none */
} metric_logger_ops;

struct mr_metric_logger {
    const metric_logger_ops *ops;
    int fd; /* owned; -1: none */
    void *state;
    buffer record; /* the record that is being built */
};

extern const metric_logger_ops metric_logger_csv, metric_logger_events;

MR_MUST mr_status metric_logger_create_file(mr_metric_logger *logger, const char *path);
MR_MUST mr_status metric_logger_flush(mr_metric_logger *logger); /* writes `record` and empties it */

/* Called for every field that is not a map, with its full name: "outer/inner". */
typedef mr_status metric_logger_field_fn(void *user, const char *name, const mr_value *value);
MR_MUST mr_status metric_logger_walk(const mr_value *result, metric_logger_field_fn *fn, void *user);
