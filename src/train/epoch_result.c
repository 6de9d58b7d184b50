/* epoch_result.c — see epoch_result.h. */
#include "train/epoch_result.h"

#include "base/error.h"
#include "base/half.h"
#include "train/weight_tree.h"

/* ---- Numbers. */

static double item_of(const mr_tensor *tensor) {
    const void *data = tensor->data;
    switch (tensor->dtype) {
    case MR_I8: return *(const int8_t *)data;
    case MR_I16: return *(const int16_t *)data;
    case MR_I32: return *(const int32_t *)data;
    case MR_I64: return (double)*(const int64_t *)data;
    case MR_BOOL:
    case MR_U8: return *(const uint8_t *)data;
    case MR_U16: return *(const uint16_t *)data;
    case MR_U32: return *(const uint32_t *)data;
    case MR_U64: return (double)*(const uint64_t *)data;
    case MR_F16: return half_from_fp16(*(const uint16_t *)data);
    case MR_BF16: return half_from_bf16(*(const uint16_t *)data);
    case MR_F32: return *(const float *)data;
    case MR_F64: return *(const double *)data;
    }
    return 0;
}

bool epoch_result_number(const mr_value *value, double *out) {
    mr_tensor tensor;
    int64_t number;
    switch (mr_value_kind(value)) {
    case MR_KIND_FLOAT: return mr_value_float(value, out) == MR_OK;
    case MR_KIND_INT:
        if (mr_value_int(value, &number) != MR_OK) return false;
        *out = (double)number;
        return true;
    case MR_KIND_TENSOR:
        if (mr_value_tensor(value, &tensor) != MR_OK || tensor.dtype == MR_BOOL) return false;
        if (tensor.bytes != mr_dtype_size(tensor.dtype)) return false;
        *out = item_of(&tensor);
        return true;
    default: return false;
    }
}

/* ---- Fields. */

/* Whether two keys are equal. Tuples and floats never are: fields with such keys are those of the first worker. */
static bool same_key(const mr_value *a, const mr_value *b) {
    mr_kind kind = mr_value_kind(a);
    bool looked_for = kind == MR_KIND_STR || kind == MR_KIND_BYTES || kind == MR_KIND_INT || kind == MR_KIND_BOOL ||
                      kind == MR_KIND_NIL;
    return looked_for && weight_tree_same_key(a, b);
}

static bool field(const mr_value *map, const mr_value *key, mr_value *out) {
    mr_iter iter = mr_value_iter(map);
    for (mr_value at; mr_iter_next(&iter, &at);) {
        if (!mr_iter_next(&iter, out)) return false;
        if (same_key(&at, key)) return true;
    }
    return false;
}

/* ---- Averages. */

static mr_arg maps(report *report, const mr_value *results, size_t count);

static mr_arg pass(report *report, const mr_value *value) {
    mr_value *kept = report_alloc(report, sizeof *kept);
    *kept = *value;
    return mr_value_arg(kept);
}

/* The average of one field: `first` is its value in the first worker that has it, `rest` are the workers after that. */
static mr_arg fields(report *report, const mr_value *key, const mr_value *first, const mr_value *rest, size_t count) {
    mr_kind kind = mr_value_kind(first);
    double sum, number;
    if (epoch_result_number(first, &sum)) {
        size_t numbers = 1;
        for (size_t i = 0; i < count; i++) {
            mr_value other;
            if (!field(&rest[i], key, &other) || !epoch_result_number(&other, &number)) continue;
            sum += number;
            numbers++;
        }
        return mr_float(sum / (double)numbers);
    }
    if (kind != MR_KIND_MAP) return pass(report, first);
    mr_value *inner = report_alloc(report, (count + 1) * sizeof *inner);
    size_t found = 0;
    inner[found++] = *first;
    for (size_t i = 0; i < count; i++)
        if (field(&rest[i], key, &inner[found]) && mr_value_kind(&inner[found]) == MR_KIND_MAP) found++;
    return maps(report, inner, found);
}

static bool is_known(const mr_value *results, size_t before, const mr_value *key) {
    mr_value ignored;
    for (size_t i = 0; i < before; i++)
        if (field(&results[i], key, &ignored)) return true;
    return false;
}

/* The average of maps, field by field. The recursion is bounded by the depth of values. */
static mr_arg maps(report *report, const mr_value *results, size_t count) {
    report_list items = {.limit = SIZE_MAX};
    for (size_t i = 0; i < count; i++) {
        mr_iter iter = mr_value_iter(&results[i]);
        for (mr_value key, value; mr_iter_next(&iter, &key) && mr_iter_next(&iter, &value);) {
            if (is_known(results, i, &key)) continue;
            report_add(report, &items, pass(report, &key));
            report_add(report, &items, fields(report, &key, &value, results + i + 1, count - i - 1));
        }
    }
    return mr_map(items.items, items.count / 2);
}

mr_status epoch_result_average(report *report, const mr_value *results, size_t count, mr_arg *out) {
    for (size_t i = 0; i < count; i++) {
        mr_kind kind = mr_value_kind(&results[i]);
        if (kind != MR_KIND_MAP && kind != MR_KIND_NIL)
            return error_set(MR_INVALID, "train_epoch of worker %zu returned a %s; expected a map of names to numbers",
                             i, mr_kind_name(kind));
    }
    *out = maps(report, results, count);
    return MR_OK;
}
