/* inspect_json.c — see inspect.h. */

#include "base/error.h"
#include "base/json.h"
#include "runtime/inspect/inspect.h"

enum { JSON_BYTES_MAX = 256 * 1024 * 1024 };

static void put(json *json, const mr_value *value, int depth);

static void put_text(json *json, const mr_value *value) {
    mr_span text = {0};
    mr_status status = mr_value_kind(value) == MR_KIND_STR ? mr_value_str(value, &text) : mr_value_bytes(value, &text);
    json_text(json, status == MR_OK ? span_of(text.data, text.size) : (span){0});
}

static void put_map(json *json, const mr_value *map, int depth) {
    mr_iter iter = mr_value_iter(map);
    json_object_begin(json);
    for (mr_value key, value; mr_iter_next(&iter, &key) && mr_iter_next(&iter, &value);) {
        mr_span text = {0};
        if (mr_value_kind(&key) != MR_KIND_STR || mr_value_str(&key, &text) != MR_OK) continue; /* text keys only */
        char name[64];
        size_t size = text.size < sizeof name - 1 ? text.size : sizeof name - 1;
        if (size > 0) memcpy(name, text.data, size);
        name[size] = '\0';
        json_key(json, name);
        put(json, &value, depth + 1);
    }
    json_object_end(json);
}

static void put_list(json *json, const mr_value *list, int depth) {
    mr_iter iter = mr_value_iter(list);
    json_array_begin(json);
    for (mr_value item; mr_iter_next(&iter, &item);) put(json, &item, depth + 1);
    json_array_end(json);
}

static void put_number(json *json, const mr_value *value) {
    int64_t number = 0;
    double real = 0;
    bool truth = false;
    if (mr_value_kind(value) == MR_KIND_INT && mr_value_int(value, &number) == MR_OK)
        json_int(json, number);
    else if (mr_value_kind(value) == MR_KIND_BOOL && mr_value_bool(value, &truth) == MR_OK)
        json_bool(json, truth);
    else
        json_double(json, mr_value_float(value, &real) == MR_OK ? real : 0);
}

static void put(json *json, const mr_value *value, int depth) {
    if (depth >= JSON_DEPTH_MAX) {
        json_string(json, "…");
        return;
    }
    switch (mr_value_kind(value)) {
    case MR_KIND_NIL: json_null(json); return;
    case MR_KIND_BOOL:
    case MR_KIND_INT:
    case MR_KIND_FLOAT: put_number(json, value); return;
    case MR_KIND_STR:
    case MR_KIND_BYTES: put_text(json, value); return;
    case MR_KIND_LIST:
    case MR_KIND_TUPLE: put_list(json, value, depth); return;
    case MR_KIND_MAP: put_map(json, value, depth); return;
    default: json_string(json, mr_kind_name(mr_value_kind(value))); return;
    }
}

mr_status mr_inspect_json(mr_arg value, char **out) {
    mr_value packed;
    if (out == NULL) return error_set(MR_INVALID, "mr_inspect_json: `out` is NULL");
    MR_TRY(inspect_value(&value, &packed));
    buffer text;
    buffer_init(&text, JSON_BYTES_MAX);
    json json = json_of(&text);
    put(&json, &packed, 0);
    mr_value_release(&packed);
    mr_status status = json_done(&json);
    if (status == MR_OK) status = buffer_append(&text, "", 1);
    if (status != MR_OK) {
        buffer_fini(&text);
        return status;
    }
    *out = (char *)text.data;
    return MR_OK;
}
