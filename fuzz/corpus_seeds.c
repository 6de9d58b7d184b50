/* corpus_seeds.c — writes corpora (corpus_writer.h): frames, values, messages of the broker and steps of a shm pipe;
 * corpus_seeds_ps.c has those of the parameter server. `build/tests/corpus-seeds fuzz/corpus` writes the files. With
 * --check it compares the files with the seeds that it would write, so that a change of a format cannot make the
 * corpora useless unnoticed. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/assert.h"
#include "fuzz/corpus_writer.h"
#include "net/frame.h"
#include "net/shm/broker_wire.h"
#include "tests/support/exact_value.h"

/* ---- Frames. */

static void seed_frame(corpus_writer *writer, const char *name, frame frame) {
    uint8_t bytes[SEED_SIZE_MAX];
    frame_encode_header(bytes, &frame);
    memcpy(bytes + FRAME_HEADER_SIZE, frame.head.data, frame.head.size);
    seed(writer, "frame", name, bytes, FRAME_HEADER_SIZE + frame.head.size);
}

static void seed_frames(corpus_writer *writer) {
    static const char head[100] = "what the message is about";
    const frame message = {.kind = FRAME_MESSAGE, .head = span_of(head, 64)};
    seed_frame(writer, "hello", (frame){.kind = FRAME_HELLO, .head = span_of(head, 25)});
    seed_frame(writer, "message", message);
    seed_frame(writer, "message_long", (frame){.kind = FRAME_MESSAGE, .head = span_of(head, 100)});
    seed_frame(writer, "message_empty", (frame){.kind = FRAME_MESSAGE, .head = span_of(head, 0)});
    seed_frame(writer, "message_body", (frame){.kind = FRAME_MESSAGE, .head = span_of(head, 9), .body_size = 4096});
    seed_frame(writer, "message_checked",
               (frame){.kind = FRAME_MESSAGE,
                       .flags = FRAME_BODY_CHECKED,
                       .head = span_of(head, 9),
                       .body_size = sizeof head,
                       .body_checksum = frame_body_checksum(span_of(head, sizeof head))});
    seed_frame(writer, "message_large", (frame){.kind = FRAME_MESSAGE, .head = span_of(head, 1), .body_size = 1 << 30});
    seed_frame(writer, "ping", (frame){.kind = FRAME_PING, .head = span_of(head, 8)});
    seed_frame(writer, "pong", (frame){.kind = FRAME_PONG, .head = span_of(head, 8)});
    seed_frame(writer, "bye", (frame){.kind = FRAME_BYE, .head = span_of(head, 0)});

    uint8_t bytes[FRAME_HEADER_SIZE + 64];
    frame_encode_header(bytes, &message);
    memcpy(bytes + FRAME_HEADER_SIZE, head, 64);
    seed(writer, "frame", "cut_in_header", bytes, 17);
    seed(writer, "frame", "cut_in_head", bytes, FRAME_HEADER_SIZE + 10);
    bytes[FRAME_HEADER_SIZE] ^= 1;
    seed(writer, "frame", "damaged", bytes, sizeof bytes);
    seed(writer, "frame", "stranger", "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n", 35);
    seed(writer, "frame", "nothing", "", 0);
}

/* ---- Values. */

static void seed_value(corpus_writer *writer, const char *name, mr_arg arg) {
    exact_value value;
    MR_ASSERT(pack(&arg, 48, &value) == MR_OK);
    seed(writer, "value", name, value.payload, value.payload_size);
    exact_value_fini(&value);
}

static void seed_raw(corpus_writer *writer, const char *name, const void *value, size_t size) {
    exact_value exact_value = pack_raw(value, size);
    seed(writer, "value", name, exact_value.payload, exact_value.payload_size);
    exact_value_fini(&exact_value);
}

static void seed_plain(corpus_writer *writer) {
    const mr_arg ints[] = {mr_int(0),      mr_int(-1),         mr_int(127),       mr_int(-33),      mr_int(40000),
                           mr_int(-40000), mr_int(5000000000), mr_int(INT64_MAX), mr_int(INT64_MIN)};
    const mr_arg floats[] = {mr_float(0.0), mr_float(-0.0), mr_float(1.5), mr_float(__builtin_inf()),
                             mr_float(__builtin_nan(""))};
    const mr_arg mixed[] = {mr_nil(), mr_bool(true), mr_bool(false), mr_str("gr\xc3\xbc\xc3\x9f"),
                            mr_bytes("\0\xff", 2)};
    const mr_arg pairs[] = {mr_str("lr"),     mr_float(0.5),      mr_int(7),         mr_list(ints, 3),
                            mr_bytes("k", 1), mr_tuple(mixed, 2), mr_tuple(ints, 2), mr_nil()};
    seed_value(writer, "nil", mr_nil());
    seed_value(writer, "int", mr_int(-70000));
    seed_value(writer, "str", mr_str("a str that is longer than thirty-one bytes"));
    seed_value(writer, "ints", mr_list(ints, 9));
    seed_value(writer, "floats", mr_list(floats, 5));
    seed_value(writer, "tuple", mr_tuple(mixed, 5));
    seed_value(writer, "map", mr_map(pairs, 4));
    seed_value(writer, "empty_list", mr_list(NULL, 0));
    seed_value(writer, "empty_tuple", mr_tuple(NULL, 0));
    seed_value(writer, "empty_map", mr_map(NULL, 0));
    mr_arg nested[60];
    nested[0] = mr_int(1);
    for (int i = 1; i < 60; i++) nested[i] = i % 3 == 0 ? mr_tuple(&nested[i - 1], 1) : mr_list(&nested[i - 1], 1);
    seed_value(writer, "nested", nested[12]);
    mr_arg many[20];
    for (int i = 0; i < 20; i++) many[i] = mr_list(ints, (size_t)(i % 3));
    seed_value(writer, "lists", mr_list(many, 20));
}

static void seed_data(corpus_writer *writer) {
    static const double numbers[8] = {1, 2, 3, 4, 5, 6, 7, 8};
    const mr_span buffers[] = {{numbers, 8}, {numbers, 0}, {numbers, 64}};
    const mr_custom small = {.format = MR_PICKLE, .data = {"\x80\x05N.", 4}, .buffers = buffers, .buffer_count = 3};
    const mr_custom large = {.format = MR_PICKLE, .data = {numbers, 64}, .buffers = buffers, .buffer_count = 1};
    const mr_tensor torch = {
        .dtype = MR_F32, .tensor_kind = MR_TORCH, .dims = 3, .shape = {2, 1, 2}, .data = numbers, .bytes = 16};
    const mr_arg arrays[] = {mr_tensor_of(MR_F64, numbers, 0, NULL), mr_tensor_arg(&torch),
                             mr_vector((const float *)(const void *)numbers, 16), mr_bytes(numbers, 50)};
    seed_value(writer, "scalar_tensor", arrays[0]);
    seed_value(writer, "tensor", arrays[1]);
    seed_value(writer, "tensor_out", arrays[2]);
    seed_value(writer, "empty_tensor", mr_tensor_of(MR_U8, NULL, 2, (int64_t[]){0, 5}));
    seed_value(writer, "bytes_out", arrays[3]);
    seed_value(writer, "tensors", mr_list(arrays, 4));
    seed_value(writer, "ref", mr_future((mr_ref){{1, 2}}));
    seed_value(writer, "actor", mr_handle((mr_actor){{3, 4}}));
    seed_value(writer, "foreign", mr_custom_arg(&small));
    seed_value(writer, "foreign_out", mr_custom_arg(&large));
}

static void seed_values(corpus_writer *writer) {
    seed_plain(writer);
    seed_data(writer);
    seed_raw(writer, "wide_numbers",
             "\x95\xcf\0\0\0\0\0\0\0\1\xd3\xff\xff\xff\xff\xff\xff\xff\xff\xca\x3f\x80\0\0\xdb\0\0\0\1a"
             "\xdd\0\0\0\0",
             34);
    seed_raw(writer, "int_too_large", "\xcf\xff\xff\xff\xff\xff\xff\xff\xff", 9);
    seed_raw(writer, "claims_a_billion", "\xdd\x40\0\0\0\xc0", 6);
    seed_raw(writer, "cut", "\x93\1\2", 3);
    seed_raw(writer, "extra", "\1\2", 2);
    seed_raw(writer, "timestamp", "\xd6\xff\0\0\0\0", 6);
    seed_raw(writer, "key_is_list", "\x81\x90\xc0", 3);
    seed(writer, "value", "nothing", "", 0);
}

/* ---- Messages between a broker and its clients. */

static void seed_message(corpus_writer *writer, const char *name, const broker_wire *message) {
    seed(writer, "broker_protocol", name, message, message->head.size);
}

static void seed_from_peer(corpus_writer *writer) {
    broker_wire message;
    message = broker_wire_of(BROKER_WIRE_HELLO, 0);
    message.hello.magic = BROKER_WIRE_MAGIC;
    strcpy(message.hello.name, "worker-7");
    seed_message(writer, "hello", &message);
    message = broker_wire_of(BROKER_WIRE_CONNECT, 1);
    message.connect.process = 0x1234500000001;
    seed_message(writer, "connect", &message);
    message.connect.process = 0;
    strcpy(message.connect.name, "server");
    seed_message(writer, "connect_name", &message);
    message = broker_wire_of(BROKER_WIRE_RESIZE, 3);
    message.resize.bytes = 65536;
    seed_message(writer, "resize", &message);
    message = broker_wire_of(BROKER_WIRE_RELEASE, 3);
    message.ring.ring = (extent){ARENA_EXTENTS_OFFSET, 16384};
    seed_message(writer, "release", &message);
    message.ring.ring.offset++;
    seed_message(writer, "release_crooked", &message);
    message = broker_wire_of(BROKER_WIRE_CLOSE, 3);
    seed_message(writer, "close", &message);
    message = broker_wire_of(BROKER_WIRE_BYE, 0);
    seed_message(writer, "bye", &message);
}

static void seed_from_broker(corpus_writer *writer) {
    broker_wire message;
    message = broker_wire_of(BROKER_WIRE_WELCOME, 5);
    message.welcome.magic = BROKER_WIRE_MAGIC;
    message.welcome.arena_bytes = 1 << 24;
    message.welcome.generation = 77;
    message.welcome.process = 0x1234500000002;
    seed_message(writer, "welcome", &message);
    message = broker_wire_of(BROKER_WIRE_LINK, 3);
    message.link.tag = 9;
    message.link.process_block = 4;
    message.link.process = 0x1234500000001;
    message.link.pid = 4711;
    message.link.send = (extent){ARENA_EXTENTS_OFFSET, 16384};
    message.link.receive = (extent){ARENA_EXTENTS_OFFSET + 16384, 16384};
    strcpy(message.link.name, "server");
    seed_message(writer, "link", &message);
    message = broker_wire_of(BROKER_WIRE_RESIZED, 3);
    seed_message(writer, "resized_not", &message);
    message.ring.ring = (extent){ARENA_EXTENTS_OFFSET, 65536};
    seed_message(writer, "resized", &message);
    cause why;
    cause_set(&why, MR_PEER_DIED, "process 4711 was killed by signal 9 (SIGKILL)");
    why.pid = 4711;
    why.signal = 9;
    message = broker_wire_of_cause(BROKER_WIRE_GONE, 3, &why);
    seed_message(writer, "gone", &message);
    cause_set(&why, MR_NOT_FOUND, "no process is called 'server' on this machine");
    message = broker_wire_of_cause(BROKER_WIRE_REFUSED, 9, &why);
    seed_message(writer, "refused", &message);
    message = broker_wire_of_cause(BROKER_WIRE_END, 0, &why);
    seed_message(writer, "end", &message);
    memset(message.cause.text, 'x', sizeof message.cause.text);
    seed_message(writer, "end_without_end", &message);
}

static void seed_broker(corpus_writer *writer) {
    seed_from_peer(writer);
    seed_from_broker(writer);
    seed(writer, "broker_protocol", "nothing", "", 0);
}

/* ---- Shm pipes: the steps of shm_pipe_fuzz.c. */

static void seed_pipes(corpus_writer *writer) {
    static const char grows[] = "\0\0\xff\xff"
                                "\2\0"
                                "\3\0"
                                "\0\0\xff\xff"
                                "\0\0\xff\xff"
                                "\1\1\xff\xff"
                                "\1\1\xff\xff"
                                "\1\1\xff\xff"
                                "\0\0\xff\xff"
                                "\3\0"
                                "\0\0\xff\xff"
                                "\1\1\xff\xff"
                                "\5\0"
                                "\x8\1";
    static const char both[] = "\2\0"
                               "\2\1"
                               "\0\0\xff\xff"
                               "\0\1\xff\xff"
                               "\3\0"
                               "\3\1"
                               "\0\1\xff\xff"
                               "\0\0\x10\x10"
                               "\1\0\xff\xff"
                               "\1\1\xff\xff"
                               "\1\0\xff\xff"
                               "\1\1\xff\xff";
    static const char declines[] = "\0\0\xff\xff"
                                   "\7\1"
                                   "\2\0"
                                   "\3\0"
                                   "\1\1\xff\xff"
                                   "\x8\0";
    static const char lies[] = "\2\0"
                               "\0\0\x10\0"
                               "\4\2\0\1\0\0\0\0\0\0"
                               "\x9\0\x70"
                               "\1\1\xff\xff";
    static const char passes[] = "\6\0\0\0\x80\0\1"
                                 "\6\1\0\0\x80\0\0"
                                 "\6\1\0\0\x40\0\1"
                                 "\2\1"
                                 "\0\1\x10\0"
                                 "\1\0\x10\0";
    seed(writer, "shm_pipe", "grows", grows, sizeof grows - 1);
    seed(writer, "shm_pipe", "both_ways", both, sizeof both - 1);
    seed(writer, "shm_pipe", "declines", declines, sizeof declines - 1);
    seed(writer, "shm_pipe", "lies", lies, sizeof lies - 1);
    seed(writer, "shm_pipe", "passes", passes, sizeof passes - 1);
}

void seed(corpus_writer *writer, const char *kind, const char *name, const void *data, size_t size) {
    char path[4096];
    uint8_t there[SEED_SIZE_MAX + 1];
    MR_ASSERT(size <= SEED_SIZE_MAX);
    snprintf(path, sizeof path, "%s/%s/%s", writer->folder, kind, name);
    FILE *file = fopen(path, writer->check ? "rb" : "wb");
    bool good = false;
    if (file != NULL && writer->check)
        good = fread(there, 1, sizeof there, file) == size && memcmp(there, data, size) == 0;
    else if (file != NULL)
        good = fwrite(data, 1, size, file) == size;
    if (file != NULL && fclose(file) != 0) good = false;
    printf("%s - %s/%s\n", good ? "ok" : "not ok", kind, name);
    writer->wrong += !good;
}

int main(int argc, char **argv) {
    corpus_writer writer = {.check = argc == 3 && strcmp(argv[1], "--check") == 0};
    if (argc != (writer.check ? 3 : 2)) {
        fprintf(stderr, "corpus-seeds [--check] CORPUS\n");
        return 2;
    }
    writer.folder = argv[argc - 1];
    seed_frames(&writer);
    seed_values(&writer);
    seed_broker(&writer);
    seed_pipes(&writer);
    seed_ps(&writer);
    return writer.wrong != 0;
}
