/* frame.c — see frame.h.
 *
 * The hot path is frame_decode of a complete header and head: a few comparisons that all hold and, without FRAME_PLAIN,
 * two short hashes. Error texts are made in cold functions. */
#include "net/frame.h"

#include <string.h>

/* xxhash copies words with this function. As a call it costs more than the copy, and gcc does not always inline it. */
static inline __attribute__((always_inline)) void *XXH_memcpy(void *to, const void *from, size_t size);
#define XXH_INLINE_ALL
#include <xxhash.h>

#include "base/assert.h"
#include "base/error.h"
#include "base/format.h"
#include "net/transport.h"

#define COLD __attribute__((cold, noinline))

_Static_assert(sizeof(frame_body_sum) == sizeof(XXH3_state_t), "room for the hash's state");
_Static_assert(_Alignof(frame_body_sum) >= _Alignof(XXH3_state_t), "and its alignment");

const char *frame_kind_name(frame_kind kind) {
    switch (kind) {
#define X(name, number, body) \
    case FRAME_##name: return #name;
        FRAME_KIND_LIST(X)
#undef X
    }
    return "UNKNOWN";
}

/* Bit n is set if kind n exists, or exists and may have a body. */
#define X(name, number, body) | UINT64_C(1) << (number)
static const uint64_t kinds_known = 0 FRAME_KIND_LIST(X);
#undef X
#define X(name, number, body) | UINT64_C(body) << (number)
static const uint64_t kinds_with_body = 0 FRAME_KIND_LIST(X);
#undef X

static inline uint32_t strange_flags(const frame_header *h, const frame_limits *limits) {
    return h->flags & ~(uint32_t)(limits->plain ? FRAME_FLAGS_KNOWN : FRAME_FLAGS_KNOWN & ~FRAME_PLAIN);
}

static inline bool has_kind(uint64_t kinds, unsigned kind) { return kind < 64 && (kinds >> kind & 1) != 0; }

/* A checksum requires a body, and a body checksum that is not 0 requires FRAME_BODY_CHECKED. */
static inline bool body_fields_agree(const frame_header *h) {
    if (h->flags & FRAME_BODY_CHECKED) return h->body_size != 0;
    return h->body_checksum == 0;
}

/* The header is hashed and stored in words that are assembled in registers: a wide load of bytes just stored in smaller
 * parts stalls. */
static inline uint64_t word_0(const frame_header *h) {
    return h->magic | (uint64_t)h->version << 32 | (uint64_t)h->kind << 40 | (uint64_t)h->flags << 48;
}

static inline void store_word(uint8_t *out, size_t index, uint64_t word) {
    memcpy(out + 8 * index, &word, sizeof word);
}

/* The head is hashed separately, because a sender's head need not follow the header in memory; its hash is part of the
 * hashed words. */
static inline uint32_t checksum_of(const frame_header *h, span head) {
    if ((h->flags & FRAME_PLAIN) != 0) return 0;
    const uint64_t words[5] = {word_0(h), h->head_size, h->body_size, h->body_checksum,
                               XXH3_64bits(head.data, head.size)};
    return (uint32_t)XXH3_64bits(words, sizeof words);
}

uint32_t frame_checksum(const frame_header *header, span head) { return checksum_of(header, head); }

void frame_encode_header(uint8_t out[FRAME_HEADER_SIZE], const frame *frame) {
    const frame_header h = {
        .magic = FRAME_MAGIC,
        .version = FRAME_VERSION,
        .kind = (uint8_t)frame->kind,
        .flags = frame->flags,
        .head_size = (uint32_t)frame->head.size,
        .body_size = frame->body_size,
        .body_checksum = frame->body_checksum,
    };
    MR_ASSERT(has_kind(frame->body_size ? kinds_with_body : kinds_known, (unsigned)frame->kind));
    MR_ASSERT(frame->head.size <= MESSAGE_HEAD_MAX);
    MR_ASSERT((frame->flags & ~FRAME_FLAGS_KNOWN) == 0 && body_fields_agree(&h));
    store_word(out, 0, word_0(&h));
    store_word(out, 1, h.head_size | (uint64_t)checksum_of(&h, frame->head) << 32);
    store_word(out, 2, h.body_size);
    store_word(out, 3, h.body_checksum);
}

static const uint64_t plain_word =
    FRAME_MAGIC | (uint64_t)FRAME_VERSION << 32 | (uint64_t)FRAME_MESSAGE << 40 | (uint64_t)FRAME_PLAIN << 48;

void frame_encode_plain(uint8_t out[FRAME_HEADER_SIZE], size_t head_size) {
    MR_ASSERT(head_size <= MESSAGE_HEAD_MAX);
    store_word(out, 0, plain_word);
    store_word(out, 1, head_size);
    store_word(out, 2, 0);
    store_word(out, 3, 0);
}

COLD static mr_status refuse_version(unsigned version) {
    return format_reject("the frame", version, FRAME_VERSION, FORMAT_USE_SAME);
}

/* Names the first invalid field, in the order of the table. */
COLD static mr_status refuse_header(const frame_header *h, const frame_limits *limits, uint32_t head_max) {
    const char *kind = frame_kind_name((frame_kind)h->kind);
    if (h->magic != FRAME_MAGIC) {
        uint8_t b[4];
        memcpy(b, &h->magic, sizeof b);
        return error_set(MR_CORRUPT, "not a frame: it begins with the bytes %02x %02x %02x %02x", b[0], b[1], b[2],
                         b[3]);
    }
    if (h->version != FRAME_VERSION) return refuse_version(h->version);
    if (!has_kind(kinds_known, h->kind)) return error_set(MR_CORRUPT, "a frame of unknown kind %u", h->kind);
    if (strange_flags(h, limits) != 0)
        return error_set(MR_CORRUPT, "a %s frame with unknown flags 0x%04x", kind, strange_flags(h, limits));
    if (h->head_size > head_max)
        return error_set(MR_TOO_LARGE, "a %s frame with a head of %u bytes: the limit is %u", kind, h->head_size,
                         head_max);
    if (h->body_size != 0 && !has_kind(kinds_with_body, h->kind))
        return error_set(MR_CORRUPT, "a %s frame with a body of %llu bytes: this kind has none", kind,
                         (unsigned long long)h->body_size);
    if (h->body_size > limits->body_max)
        return error_set(MR_TOO_LARGE, "a %s frame with a body of %llu bytes: the limit is %llu", kind,
                         (unsigned long long)h->body_size, (unsigned long long)limits->body_max);
    MR_ASSERT(!body_fields_agree(h));
    return error_set(MR_CORRUPT, "a %s frame with body checksum %016llx, flags 0x%04x and a body of %llu bytes", kind,
                     (unsigned long long)h->body_checksum, h->flags, (unsigned long long)h->body_size);
}

COLD static mr_status refuse_checksum(const frame_header *h, uint32_t computed) {
    return error_set(MR_CORRUPT, "a %s frame with checksum %08x: its %u bytes of head and its header have %08x",
                     frame_kind_name((frame_kind)h->kind), h->checksum, h->head_size, computed);
}

/* Fewer bytes than a header are available. Another protocol is refused at its first bytes, without waiting for more. */
COLD static mr_status decode_start(span available, size_t *need) {
    const uint32_t magic = FRAME_MAGIC;
    uint8_t expected[sizeof magic];
    memcpy(expected, &magic, sizeof magic);
    for (size_t i = 0; i < available.size && i < sizeof magic; i++)
        if (available.data[i] != expected[i])
            return error_set(MR_CORRUPT, "not a frame: its byte %zu is %02x", i, available.data[i]);
    const size_t version = offsetof(frame_header, version);
    if (available.size > version && available.data[version] != FRAME_VERSION)
        return refuse_version(available.data[version]);
    *need = FRAME_HEADER_SIZE;
    return MR_OK;
}

/* Decodes a complete FRAME_PLAIN message without a body, the most common frame: only the head size varies in its
 * header. Returns false for any other or incomplete frame. */
static inline bool decode_plain(span available, const frame_limits *limits, frame *out) {
    uint64_t words[FRAME_HEADER_SIZE / 8];
    memcpy(words, available.data, sizeof words);
    if (!limits->plain || words[0] != plain_word || words[1] > MESSAGE_HEAD_MAX || (words[2] | words[3]) != 0)
        return false;
    if (words[1] > limits->head_max || available.size - FRAME_HEADER_SIZE < words[1]) return false;
    *out = (frame){.kind = FRAME_MESSAGE,
                   .flags = FRAME_PLAIN,
                   .head = span_of(available.data + FRAME_HEADER_SIZE, (size_t)words[1])};
    return true;
}

mr_status frame_decode(span available, const frame_limits *limits, frame *out, size_t *need) {
    *need = 0;
    if (available.size < FRAME_HEADER_SIZE) return decode_start(available, need);
    if (decode_plain(available, limits, out)) return MR_OK;
    frame_header h;
    memcpy(&h, available.data, sizeof h);
    uint32_t head_max = limits->head_max < MESSAGE_HEAD_MAX ? limits->head_max : MESSAGE_HEAD_MAX;
    bool fine = h.magic == FRAME_MAGIC && h.version == FRAME_VERSION && strange_flags(&h, limits) == 0 &&
                has_kind(h.body_size ? kinds_with_body : kinds_known, h.kind) && h.head_size <= head_max &&
                h.body_size <= limits->body_max && body_fields_agree(&h);
    if (__builtin_expect(!fine, 0)) return refuse_header(&h, limits, head_max);
    size_t size = FRAME_HEADER_SIZE + (size_t)h.head_size;
    if (available.size < size) {
        *need = size;
        return MR_OK;
    }
    span head = span_of(available.data + FRAME_HEADER_SIZE, h.head_size);
    uint32_t checksum = checksum_of(&h, head);
    if (__builtin_expect(checksum != h.checksum, 0)) return refuse_checksum(&h, checksum);
    *out = (frame){.kind = (frame_kind)h.kind,
                   .flags = h.flags,
                   .head = head,
                   .body_size = h.body_size,
                   .body_checksum = h.body_checksum};
    return MR_OK;
}

uint64_t frame_body_checksum(span body) { return XXH3_64bits(body.data, body.size); }

static XXH3_state_t *state_of(frame_body_sum *sum) { return (XXH3_state_t *)(void *)sum->state; }

void frame_body_sum_init(frame_body_sum *sum) {
    memset(sum, 0, sizeof *sum);
    XXH3_64bits_reset(state_of(sum));
}

void frame_body_sum_add(frame_body_sum *sum, span piece) {
    if (piece.size != 0) XXH3_64bits_update(state_of(sum), piece.data, piece.size);
}

uint64_t frame_body_sum_get(const frame_body_sum *sum) {
    return XXH3_64bits_digest((const XXH3_state_t *)(const void *)sum->state);
}

mr_status frame_body_sum_check(const frame_body_sum *sum, const frame *frame) {
    uint64_t computed = frame_body_sum_get(sum);
    if ((frame->flags & FRAME_BODY_CHECKED) == 0 || computed == frame->body_checksum) return MR_OK;
    return error_set(MR_CORRUPT, "a body of %llu bytes with checksum %016llx: its bytes have %016llx",
                     (unsigned long long)frame->body_size, (unsigned long long)frame->body_checksum,
                     (unsigned long long)computed);
}
