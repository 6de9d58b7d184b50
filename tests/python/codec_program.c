/* codec_program.c — runs the codecs for tests/python/test_codec.py.
 *
 * `codec-program encode CODEC SEED STEP`: fp32 values in, a message out. `codec-program decode COUNT`: the reverse. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "kv/codec/codec.h"

enum { INPUT_MAX = 1 << 20 };

static int refused(void) {
    fprintf(stderr, "%s\n", mr_last_error());
    return 1;
}

static int encode(char **argv, const uint8_t *input, size_t size) {
    codec codec;
    if (codec_parse(argv[2], &codec) != MR_OK) return refused();
    codec.seed = strtoull(argv[3], NULL, 10);
    size_t count = size / sizeof(float), room = codec_bound(&codec, count), written;
    float *values = xmalloc(size);
    uint8_t *message = xmalloc(room);
    memcpy(values, input, count * sizeof *values);
    if (codec_encode(&codec, strtoull(argv[4], NULL, 10), values, count, message, room, &written) != MR_OK)
        return refused();
    bool done = fwrite(message, 1, written, stdout) == written;
    free(values);
    free(message);
    return !done;
}

static int decode(char **argv, const uint8_t *input, size_t size) {
    size_t count = strtoull(argv[2], NULL, 10);
    float *values = xcalloc(count, sizeof *values);
    if (codec_decode(span_of(input, size), values, count) != MR_OK) return refused();
    bool done = fwrite(values, sizeof *values, count, stdout) == count;
    free(values);
    return !done;
}

int main(int argc, char **argv) {
    uint8_t *input = xmalloc(INPUT_MAX);
    size_t size = fread(input, 1, INPUT_MAX, stdin);
    int code = 2;
    if (argc == 5 && strcmp(argv[1], "encode") == 0) code = encode(argv, input, size);
    if (argc == 3 && strcmp(argv[1], "decode") == 0) code = decode(argv, input, size);
    free(input);
    return code;
}
