/* table_schema.c — see table_schema.h. */
#include "kv/payload/table_schema.h"

#include <locale.h>
#include <math.h>
#include <stdlib.h>

#include "base/assert.h"
#include "base/error.h"
#include "base/nearest_name.h"
#include "kv/table/dense_table.h"
#include "kv/table/sparse_table.h"

/* ---- Texts: a word, then numbers, separated by colons. */

enum { WORDS_MAX = 4, TEXT_MAX = 96 };

typedef struct words {
    char text[TEXT_MAX];
    const char *word[WORDS_MAX];
    size_t count;
} words;

static bool split(const char *text, size_t length, words *out) {
    if (length >= sizeof out->text) return false;
    memcpy(out->text, text, length);
    out->text[length] = 0;
    out->count = 0;
    for (char *at = out->text; at != NULL;) {
        if (out->count == WORDS_MAX) return false;
        out->word[out->count++] = at;
        at = strchr(at, ':');
        if (at != NULL) *at++ = 0;
    }
    return true;
}

/* Word i as a number; `otherwise` if there are fewer words. NaN: not a number. The decimal point does not depend on the
 * locale. */
static double number(const words *words, size_t i, double otherwise) {
    if (i >= words->count) return otherwise;
    const char *word = words->word[i];
    size_t length = strlen(word);
    if (length == 0 || strspn(word, "+-.0123456789eE") != length) return NAN;
    locale_t plain = newlocale(LC_ALL_MASK, "C", (locale_t)0);
    if (plain == (locale_t)0) return NAN;
    char *end;
    double value = strtod_l(word, &end, plain);
    freelocale(plain);
    return *end == 0 && isfinite(value) ? value : NAN;
}

/* Word i as a positive integer; 0: another number, or above the exact range of a double. */
static uint64_t whole(const words *words, size_t i) {
    double value = number(words, i, 0);
    return value >= 1 && value <= 0x1p53 && floor(value) == value ? (uint64_t)value : 0;
}

static bool is(const words *words, const char *name, size_t least, size_t most) {
    return strcmp(words->word[0], name) == 0 && words->count - 1 >= least && words->count - 1 <= most;
}

/* `names` are the words with which the forms begin, and `word` is the part of the text that is none of them. */
static mr_status unknown(const char *what, const char *text, const char *forms, const char *word, const char *names) {
    char hint[NEAREST_NAME_HINT_MAX];
    if (nearest_name_is_one(word, names)) /* the parts behind it are wrong */
        return error_set(MR_INVALID, "malformed %s '%s'; expected %s", what, text, forms);
    return error_set(MR_INVALID, "unknown %s '%s'; expected %s%s", what, text, forms,
                     nearest_name_among(word, names, hint));
}

static mr_status parse_schedule(const char *text, lr_schedule *out) {
    static const char forms[] = "constant, step:EVERY:FACTOR, cosine:STEPS[:END] and polynomial:STEPS:POWER[:END], "
                                "each with +warmup:STEPS behind it or not";
    words words, warmup = {.count = 0};
    size_t length = strcspn(text, "+");
    if (!split(text, length, &words))
        return unknown("schedule", text, forms, text, "constant, step, cosine, polynomial");
    if (text[length] == '+') {
        if (!split(text + length + 1, strlen(text + length + 1), &warmup) || !is(&warmup, "warmup", 1, 1) ||
            (out->warmup = whole(&warmup, 1)) == 0)
            return unknown("schedule", text, forms, text, "constant, step, cosine, polynomial");
    }
    if (is(&words, "constant", 0, 0)) {
        out->kind = LR_SCHEDULE_CONSTANT;
    } else if (is(&words, "step", 2, 2)) {
        out->kind = LR_SCHEDULE_STEP;
        out->every = whole(&words, 1);
        out->factor = number(&words, 2, 0);
    } else if (is(&words, "cosine", 1, 2)) {
        out->kind = LR_SCHEDULE_COSINE;
        out->steps = whole(&words, 1);
        out->end = number(&words, 2, 0);
    } else if (is(&words, "polynomial", 2, 3)) {
        out->kind = LR_SCHEDULE_POLYNOMIAL;
        out->steps = whole(&words, 1);
        out->power = number(&words, 2, 0);
        out->end = number(&words, 3, 0);
    } else {
        return unknown("schedule", text, forms, text, "constant, step, cosine, polynomial");
    }
    mr_status status = lr_schedule_check(out);
    return status == MR_OK ? MR_OK : error_wrap(status, "schedule '%s'", text);
}

static mr_status parse_initializer(const char *text, initializer *out) {
    static const char forms[] = "zeros, constant:A, uniform:FROM:TO and normal:MEAN:DEVIATION";
    /* in the order of initializer_kind */
    static const char *const kinds[] = {"zeros", "constant", "uniform", "normal"};
    static const size_t numbers[] = {0, 1, 2, 2};
    size_t kind = 0;
    words words;
    if (!split(text, strlen(text), &words))
        return unknown("initializer", text, forms, text, "zeros, constant, uniform, normal");
    out->a = (float)number(&words, 1, 0);
    out->b = (float)number(&words, 2, 0);
    while (kind <= INITIALIZER_NORMAL && !is(&words, kinds[kind], numbers[kind], numbers[kind])) kind++;
    if (kind > INITIALIZER_NORMAL) return unknown("initializer", text, forms, text, "zeros, constant, uniform, normal");
    out->kind = (initializer_kind)kind;
    mr_status status = initializer_check(out, MR_F32);
    return status == MR_OK ? MR_OK : error_wrap(status, "initializer '%s'", text);
}

static bool parse_press(const char *text, compressor_id *out) {
    if (strcmp(text, "lz4") != 0 && strcmp(text, "zstd") != 0) return false;
    *out = text[0] == 'l' ? COMPRESSOR_LZ4 : COMPRESSOR_ZSTD;
    return true;
}

static mr_status parse_codec(const char *text, table_schema *out) {
    static const char forms[] = "none, fp16, bf16, int8, sign, topk[:PART] and randk[:PART]; lz4 and zstd; or one of "
                                "the former with one of the latter, as in int8+zstd";
    char lossy[TEXT_MAX];
    size_t length = strcspn(text, "+");
    const char *press = text[length] == '+' ? text + length + 1 : text;
    if (parse_press(press, &out->press)) {
        if (press == text) return codec_parse("none", &out->codec);
    } else if (press != text) {
        return unknown("codec", text, forms, press, "lz4, zstd");
    }
    if (length >= sizeof lossy) return error_set(MR_INVALID, "a codec's text is longer than %d bytes", TEXT_MAX - 1);
    memcpy(lossy, text, length);
    lossy[length] = 0;
    mr_status status = codec_parse(lossy, &out->codec);
    return status == MR_NOT_FOUND
               ? unknown("codec", text, forms, text, "none, fp16, bf16, int8, sign, topk, randk, lz4, zstd")
               : status;
}

/* ---- Schema from options. */

static bool is_own(const char *optimizer) {
    return strncmp(optimizer, TABLE_SCHEMA_OWN, strlen(TABLE_SCHEMA_OWN)) == 0 &&
           optimizer[strlen(TABLE_SCHEMA_OWN)] != 0;
}

static float chosen(double number, float otherwise) {
    return number == 0 ? otherwise : number < 0 ? 0 : (float)number; /* NaN stays NaN, and the check rejects it */
}

/* Rejects settings that the optimizer does not have: the user probably means another optimizer. */
static mr_status check_used(const mr_ps_table_options *options, const optim_ops *ops) {
    const struct {
        const char *name;
        double given;
        unsigned use;
    } settings[] = {{"rate", options->rate == 1 ? 0 : options->rate, OPTIM_HAS_RATE}, /* 1 is the default of add */
#define X(name, ...) {#name, options->name, OPTIM_HAS_##name},
                    MR_PS_HYPERPARAMETERS(X)
#undef X
    };
    for (size_t i = 0; i < sizeof settings / sizeof *settings; i++) {
        char users[128];
        if ((ops->uses & settings[i].use) != 0 || chosen(settings[i].given, 0) == 0) continue;
        optim_users(settings[i].use, users, sizeof users);
        return error_set(MR_INVALID, "%s = %g: optimizer '%s' has no %s; these have: %s", settings[i].name,
                         settings[i].given, ops->name, settings[i].name, users);
    }
    if ((ops->uses & OPTIM_HAS_RATE) == 0 && options->schedule != NULL && strcmp(options->schedule, "constant") != 0)
        return error_set(MR_INVALID, "schedule '%s': optimizer '%s' has no rate", options->schedule, ops->name);
    return MR_OK;
}

static float rate_of(const char *optimizer) { /* as of mr_ps_table_options: naming the default makes the same schema */
    bool is_adam = strcmp(optimizer, "adam") == 0 || strcmp(optimizer, "adamw") == 0 || strcmp(optimizer, "lamb") == 0;
    return strcmp(optimizer, "add") == 0 ? 1 : is_adam ? 0.001f : 0.01f;
}

static mr_status make_optimizer(const mr_ps_table_options *options, const char *name, table_schema *out) {
    optim_settings defaults = optim_defaults(NULL);
    if (strlen(name) >= sizeof out->optimizer)
        return error_set(MR_INVALID, "optimizer '%s': the name is longer than %d bytes", name, TABLE_SCHEMA_NAME - 1);
    if (!is_own(name)) {
        const optim_ops *ops;
        mr_status status = optim_find(name, &ops);
        if (status != MR_OK) return error_set(MR_INVALID, "%s", mr_last_error());
        defaults = optim_defaults(ops);
        MR_TRY(check_used(options, ops));
    }
    memcpy(out->optimizer, name, strlen(name) + 1);
#define X(name, ...) out->settings.name = chosen(options->name, defaults.name);
    MR_PS_HYPERPARAMETERS(X)
#undef X
    out->schedule.rate = options->rate != 0 ? options->rate : (double)rate_of(name);
    return MR_OK;
}

static const struct {
    const char *name;
    mr_dtype dtype;
} precisions[] = {{"fp32", MR_F32}, {"bf16", MR_BF16}, {"fp16", MR_F16}};
enum { PRECISIONS = sizeof precisions / sizeof *precisions };

const char *table_schema_precision_name(const table_schema *schema) {
    mr_dtype dtype = table_schema_precision(schema);
    for (size_t i = 0; i < PRECISIONS; i++)
        if (precisions[i].dtype == dtype) return precisions[i].name;
    return NULL;
}

/* Sets the precision; the one that the dtype implies has one encoding, 0. */
static mr_status parse_precision(const char *text, table_schema *out) {
    char hint[NEAREST_NAME_HINT_MAX];
    mr_dtype dtype = 0;
    for (size_t i = 0; i < PRECISIONS; i++)
        if (strcmp(precisions[i].name, text) == 0) dtype = precisions[i].dtype;
    if (dtype == 0)
        return error_set(MR_INVALID, "unknown precision '%s'; expected fp32, bf16 or fp16%s", text,
                         nearest_name_among(text, "fp32, bf16, fp16", hint));
    out->precision = dtype == out->dtype ? 0 : dtype;
    if (out->precision == 0 || out->dtype == MR_F32) return MR_OK;
    return error_set(MR_INVALID, "precision '%s': a table of %s cannot have it; use the dtype float32", text,
                     mr_dtype_name(out->dtype));
}

mr_status table_schema_make(uint32_t id, const mr_ps_table_options *options, table_schema *out) {
    table_schema made = {.id = id,
                         .kind = (table_schema_kind)options->kind,
                         .dtype = options->dtype == 0 ? MR_F32 : options->dtype,
                         .dim = options->kind == MR_PS_SPARSE && options->dim == 0 ? 1 : options->dim,
                         .block =
                             options->kind == MR_PS_DENSE && options->block == 0 ? DENSE_TABLE_BLOCK : options->block,
                         .ordered = options->ordered != 0,
                         .first_key = options->first_key,
                         .last_key = options->ordered != 0 && options->last_key == 0 ? UINT64_MAX : options->last_key,
                         .clip_norm = options->clip_norm,
                         .average = options->average != 0,
                         .refuse_nan = options->refuse_nan != 0,
                         /* 0 and 1 have the same meaning, and one encoding */
                         .admit = options->admit == 1 ? 0 : options->admit,
                         .rows_max = options->rows_max,
                         .age_max = options->age_max};
    MR_TRY(make_optimizer(options, options->optimizer == NULL ? "add" : options->optimizer, &made));
    MR_TRY(parse_schedule(options->schedule == NULL ? "constant" : options->schedule, &made.schedule));
    MR_TRY(parse_initializer(options->initializer == NULL ? "zeros" : options->initializer, &made.init));
    MR_TRY(parse_codec(options->compression == NULL ? "none" : options->compression, &made));
    if (options->precision != NULL) MR_TRY(parse_precision(options->precision, &made));
    made.init.seed = made.codec.seed = options->seed;
    MR_TRY(table_schema_check(&made));
    *out = made;
    return MR_OK;
}

/* ---- Checks. */

static mr_status check_optimizer(const table_schema *d, uint32_t *states) {
    const optim_ops *ops;
    optim optim;
    *states = 0;
    if (memchr(d->optimizer, 0, sizeof d->optimizer) == NULL)
        return error_set(MR_INVALID, "the optimizer's name '%.8s…' has no terminating zero", d->optimizer);
    if (strcmp(d->optimizer, "add") != 0 && (d->kind == TABLE_SCHEMA_VECTORS || d->dtype == MR_I64))
        return error_set(MR_INVALID, "optimizer '%s': tables of %s can only use 'add'", d->optimizer,
                         d->dtype == MR_I64 ? "counters" : "vectors of any length");
    MR_TRY(lr_schedule_check(&d->schedule));
    if (is_own(d->optimizer)) return MR_OK;
    if (optim_find(d->optimizer, &ops) != MR_OK) return error_set(MR_INVALID, "%s", mr_last_error());
    *states = ops->states;
    return optim_init(&optim, ops, &d->settings);
}

static mr_status check_sparse(const table_schema *d) {
    const sparse_table_options options = {.dtype = d->dtype, .dim = d->dim, .init = d->init, .admit = d->admit};
    if (d->block != 0) return error_set(MR_INVALID, "block is %u, but only dense tables have blocks", d->block);
    if (d->age_max > UINT32_MAX / 2 || d->rows_max > UINT32_MAX / 2)
        return error_set(MR_INVALID, "age_max and rows_max: the limit is %u", UINT32_MAX / 2);
    return sparse_table_check(&options);
}

static mr_status check_vectors(const table_schema *d) {
    if (d->dim != 0 || d->block != 0) return error_set(MR_INVALID, "dim and block must be 0 for vectors");
    if (d->init.kind != INITIALIZER_ZEROS) return error_set(MR_INVALID, "the initializer must be 'zeros' for vectors");
    return MR_OK;
}

static mr_status check_dense(const table_schema *d, uint32_t states) {
    const dense_table_options options = {
        .dtype = d->dtype, .dims = 1, .shape = {1}, .block = d->block, .states = states, .init = d->init};
    dense_table_plan plan;
    if (d->dim != 0 || d->ordered) return error_set(MR_INVALID, "dim and ordered must be 0 for a dense table");
    if (d->block == 0) return error_set(MR_INVALID, "block is 0; the minimum is 1 item");
    return dense_table_cut(&options, &plan);
}

static mr_status check_codec(const table_schema *d) {
    if (d->codec.id >= CODEC_IDS || d->press >= COMPRESSOR_IDS)
        return error_set(MR_INVALID, "unknown codec %d or compression %d", (int)d->codec.id, (int)d->press);
    if (!(d->codec.part > 0 && d->codec.part <= 1))
        return error_set(MR_INVALID, "a codec that sends %g of the values: above 0 and at most 1", d->codec.part);
    if (d->dtype == MR_I64 && d->codec.id != CODEC_NONE)
        return error_set(MR_INVALID, "codec '%s': int64 tables can only use none, lz4 or zstd",
                         codec_name(d->codec.id));
    return MR_OK;
}

static mr_status check_dtype(const table_schema *d) {
    if (d->dtype != MR_F32 && d->dtype != MR_F16 && d->dtype != MR_BF16 && d->dtype != MR_I64)
        return error_set(MR_INVALID, "a table of %s: expected float32, float16, bfloat16 or int64",
                         mr_dtype_name(d->dtype));
    if (d->precision != 0 && (d->dtype != MR_F32 || (d->precision != MR_F16 && d->precision != MR_BF16)))
        return error_set(MR_INVALID, "precision %d of a table of %s: only float32 tables have one, bf16 or fp16",
                         (int)d->precision, mr_dtype_name(d->dtype));
    if (d->dtype == MR_I64 && d->average) return error_set(MR_INVALID, "int64 tables have no average");
    return MR_OK;
}

static mr_status check_clip(const table_schema *d) {
    if (!(d->clip_norm >= 0) || !isfinite(d->clip_norm))
        return error_set(MR_INVALID, "clip_norm is %g; expected above 0, or 0 for none", (double)d->clip_norm);
    if (d->clip_norm != 0 && d->dtype == MR_I64)
        return error_set(MR_INVALID, "clip_norm is %g, but int64 tables cannot be clipped", (double)d->clip_norm);
    return MR_OK;
}

bool table_schema_needs_norms(const table_schema *d) {
    return d->clip_norm != 0 || (d->kind == TABLE_SCHEMA_DENSE && strcmp(d->optimizer, "lamb") == 0);
}

mr_status table_schema_check(const table_schema *d) {
    uint32_t states;
    if (d->id == 0) return error_set(MR_INVALID, "table id 0: ids begin with 1");
    if (d->kind != TABLE_SCHEMA_SPARSE && (d->admit != 0 || d->rows_max != 0 || d->age_max != 0))
        return error_set(MR_INVALID, "admit, rows_max and age_max must be 0 except in sparse tables");
    if (d->ordered && d->first_key > d->last_key)
        return error_set(MR_INVALID, "first_key is %llu, above last_key (%llu)", (unsigned long long)d->first_key,
                         (unsigned long long)d->last_key);
    if (!d->ordered && (d->first_key != 0 || d->last_key != 0))
        return error_set(MR_INVALID, "first_key and last_key must be 0 without `ordered`");
    MR_TRY(check_dtype(d));
    MR_TRY(check_codec(d));
    MR_TRY(check_clip(d));
    MR_TRY(check_optimizer(d, &states));
    switch (d->kind) {
    case TABLE_SCHEMA_SPARSE: return check_sparse(d);
    case TABLE_SCHEMA_VECTORS: return check_vectors(d);
    case TABLE_SCHEMA_DENSE: return check_dense(d, states);
    }
    return error_set(MR_INVALID, "unknown kind of table: %d", (int)d->kind);
}

/* ---- Encoding. */

void table_schema_encode(const table_schema *schema, uint8_t out[TABLE_SCHEMA_SIZE]) {
    writer writer = writer_of(out, TABLE_SCHEMA_SIZE);
#define X(field, name) writer_bytes(&writer, &schema->field, sizeof schema->field);
    TABLE_SCHEMA_FIELDS(X)
#undef X
    MR_ASSERT(!writer.failed && writer_size(&writer) == TABLE_SCHEMA_SIZE);
}

/* Reads a field; one of a single byte is a boolean, 0 or 1. */
static void read_field(reader *reader, void *field, size_t size) {
    const uint8_t *bytes = reader_bytes(reader, size);
    if (bytes == NULL) return;
    if (size == 1 && *bytes > 1)
        reader->failed = true;
    else
        memcpy(field, bytes, size);
}

static bool ends_with_zeros(const char *name, size_t size) {
    size_t length = strnlen(name, size);
    for (size_t i = length; i < size; i++)
        if (name[i] != 0) return false;
    return length < size;
}

mr_status table_schema_decode(span bytes, table_schema *out) {
    uint8_t padded[TABLE_SCHEMA_SIZE] = {0};
    bool fits = bytes.size <= sizeof padded && bytes.size >= sizeof padded - TABLE_SCHEMA_SIZE_LATER;
    if (fits) memcpy(padded, bytes.data, bytes.size);
    reader reader = reader_of(padded, sizeof padded);
    table_schema read = {0};
#define X(field, name) read_field(&reader, &read.field, sizeof read.field);
    TABLE_SCHEMA_FIELDS(X)
#undef X
    if (!fits || reader.failed || !ends_with_zeros(read.optimizer, sizeof read.optimizer))
        return error_set(MR_CORRUPT, "malformed table schema of %zu bytes", bytes.size);
    read.codec.seed = read.init.seed;
    if (table_schema_check(&read) != MR_OK) return error_set(MR_CORRUPT, "malformed table schema: %s", mr_last_error());
    *out = read;
    return MR_OK;
}

const char *table_schema_differs(const table_schema *a, const table_schema *b) {
    table_schema same = *b;
    same.id = a->id;
    b = &same;
#define X(field, name) \
    if (memcmp(&a->field, &b->field, sizeof a->field) != 0) return name;
    TABLE_SCHEMA_FIELDS(X)
#undef X
    return NULL;
}
