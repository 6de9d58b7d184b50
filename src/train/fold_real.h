/* fold_real.h — the body of fold.c, once for each type: REAL is the type, NAME(x) its name for x.
 *
 * Not a header to include elsewhere: it has no guard because fold.c includes it twice. */

VECTOR_CLONES static void NAME(add_two)(REAL *restrict sum, const REAL *restrict a, const REAL *restrict b,
                                        size_t count) {
    for (size_t i = 0; i < count; i++) sum[i] = (sum[i] + a[i]) + b[i];
}

/* Two rows at a time: half as many journeys of the sum through the cache. */
VECTOR_CLONES static void NAME(sum)(const REAL *const *rows, size_t workers, REAL *restrict out, size_t count) {
    if (workers == 1) {
        memcpy(out, rows[0], count * sizeof(REAL));
        return;
    }
    const REAL *first = rows[0], *second = rows[1];
    for (size_t i = 0; i < count; i++) out[i] = first[i] + second[i];
    size_t w = 2;
    for (; w + 1 < workers; w += 2) NAME(add_two)(out, rows[w], rows[w + 1], count);
    if (w == workers) return;
    const REAL *last = rows[w];
    for (size_t i = 0; i < count; i++) out[i] += last[i];
}

/* A division rounds once; by a power of two a multiplication does the same and is faster. */
VECTOR_CLONES static void NAME(divide)(REAL *restrict out, size_t by, size_t count) {
    REAL whole = (REAL)by, part = 1 / whole;
    if (by == 1) return;
    if ((by & (by - 1)) == 0) {
        for (size_t i = 0; i < count; i++) out[i] *= part;
    } else {
        for (size_t i = 0; i < count; i++) out[i] /= whole;
    }
}

VECTOR_CLONES static void NAME(weigh)(const REAL *const *rows, const double *shares, size_t workers, REAL *restrict out,
                                      size_t count) {
    const REAL *row = rows[0];
    REAL share = (REAL)shares[0];
    for (size_t i = 0; i < count; i++) out[i] = share * row[i];
    for (size_t w = 1; w < workers; w++) {
        row = rows[w];
        share = (REAL)shares[w];
        for (size_t i = 0; i < count; i++) out[i] += share * row[i];
    }
}

VECTOR_CLONES static void NAME(largest)(const REAL *const *rows, size_t workers, REAL *restrict out, size_t count) {
    memcpy(out, rows[0], count * sizeof(REAL));
    for (size_t w = 1; w < workers; w++) {
        const REAL *row = rows[w];
        for (size_t i = 0; i < count; i++) out[i] = row[i] > out[i] || row[i] != row[i] ? row[i] : out[i];
    }
}

VECTOR_CLONES static void NAME(exchange)(REAL *restrict low, REAL *restrict high, size_t count) {
    for (size_t i = 0; i < count; i++) {
        REAL a = low[i], b = high[i];
        low[i] = b < a ? b : a;
        high[i] = b < a ? a : b;
    }
}

/* Row r of `sorted` is then the r-th smallest of each item. */
static void NAME(sort)(REAL *sorted, size_t workers, size_t count) {
    size_t top = 1;
    while (top * 2 < workers) top *= 2;
    for (size_t p = top; p > 0; p /= 2) {
        size_t q = top, r = 0;
        for (size_t d = p; d > 0; d = q == p ? 0 : q - p, r = p, q /= 2)
            for (size_t i = 0; i + d < workers; i++)
                if ((i & p) == r) NAME(exchange)(sorted + i * count, sorted + (i + d) * count, count);
    }
}

/* The items in which somebody has a NaN: those, and zero elsewhere. */
VECTOR_CLONES static void NAME(find_nan)(const REAL *const *rows, size_t workers, REAL *restrict found, size_t count) {
    memset(found, 0, count * sizeof(REAL));
    for (size_t w = 0; w < workers; w++) {
        const REAL *row = rows[w];
        for (size_t i = 0; i < count; i++) found[i] = row[i] != row[i] ? row[i] : found[i];
    }
}

/* The mean of the rows from..to of the sorted ones: of one or two of them it is the median. */
static void NAME(middle)(const REAL *const *rows, size_t workers, size_t from, size_t to, REAL *restrict out,
                         size_t count, REAL *scratch) {
    REAL *found = scratch, *sorted = scratch + count;
    NAME(find_nan)(rows, workers, found, count);
    for (size_t w = 0; w < workers; w++) memcpy(sorted + w * count, rows[w], count * sizeof(REAL));
    NAME(sort)(sorted, workers, count);
    memcpy(out, sorted + from * count, count * sizeof(REAL));
    for (size_t w = from + 1; w < to; w++) {
        const REAL *row = sorted + w * count;
        for (size_t i = 0; i < count; i++) out[i] += row[i];
    }
    NAME(divide)(out, to - from, count);
    for (size_t i = 0; i < count; i++) out[i] = found[i] != found[i] ? found[i] : out[i];
}

VECTOR_CLONES static void NAME(move)(REAL *restrict out, const REAL *restrict previous, double kept, size_t count) {
    REAL keep = (REAL)kept, take = (REAL)(1 - kept);
    for (size_t i = 0; i < count; i++) out[i] = keep * previous[i] + take * out[i];
}

void NAME(fold)(const fold *fold, const REAL *const *rows, const REAL *previous, REAL *out, size_t count,
                REAL *scratch) {
    size_t workers = fold->workers;
    switch (fold->kind) {
    case FOLD_AVERAGE:
        NAME(sum)(rows, workers, out, count);
        NAME(divide)(out, workers, count);
        break;
    case FOLD_WEIGHTED: NAME(weigh)(rows, fold->shares, workers, out, count); break;
    case FOLD_MEDIAN: NAME(middle)(rows, workers, (workers - 1) / 2, workers / 2 + 1, out, count, scratch); break;
    case FOLD_TRIMMED: NAME(middle)(rows, workers, fold->trim, workers - fold->trim, out, count, scratch); break;
    case FOLD_MAX: NAME(largest)(rows, workers, out, count); break;
    }
    if (fold->moves) NAME(move)(out, previous, fold->keep, count);
}
