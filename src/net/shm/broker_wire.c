/* broker_wire.c — see broker_wire.h. */
#include "net/shm/broker_wire.h"

#include <inttypes.h>
#include <string.h>

#include "base/assert.h"
#include "base/error.h"
#include "net/shm/extent_allocator.h"

static const uint16_t sizes[UINT8_MAX + 1] = {
    /* by kind; 0: unknown kind */
    [BROKER_WIRE_HELLO] = sizeof(broker_wire_hello),     [BROKER_WIRE_CONNECT] = sizeof(broker_wire_connect),
    [BROKER_WIRE_RESIZE] = sizeof(broker_wire_resize),   [BROKER_WIRE_RELEASE] = sizeof(broker_wire_ring),
    [BROKER_WIRE_CLOSE] = sizeof(broker_wire_close),     [BROKER_WIRE_BYE] = sizeof(broker_wire_head),
    [BROKER_WIRE_WELCOME] = sizeof(broker_wire_welcome), [BROKER_WIRE_LINK] = sizeof(broker_wire_link),
    [BROKER_WIRE_RESIZED] = sizeof(broker_wire_ring),    [BROKER_WIRE_REFUSED] = sizeof(broker_wire_cause),
    [BROKER_WIRE_GONE] = sizeof(broker_wire_cause),      [BROKER_WIRE_END] = sizeof(broker_wire_cause),
};

broker_wire broker_wire_of(broker_wire_kind kind, uint32_t subject) {
    MR_ASSERT(sizes[kind] != 0);
    broker_wire message;
    memset(&message, 0, sizeof message);
    message.head = (broker_wire_head){
        .version = BROKER_WIRE_VERSION, .kind = (uint8_t)kind, .size = sizes[kind], .subject = subject};
    return message;
}

/* ---- Checks. */

static mr_status bad(const broker_wire *message, const char *what) {
    return error_set(MR_CORRUPT, "message kind %u has %s", message->head.kind, what);
}

static bool ended(const char *text, size_t size) { return memchr(text, '\0', size) != NULL; }

static bool printable(const char *text) {
    for (; *text != '\0'; text++)
        if ((unsigned char)*text < 0x20 || *text == 0x7f) return false;
    return true;
}

static bool extent_ok(extent extent) {
    return extent.size > 0 && extent.size % EXTENT_UNIT == 0 && extent.offset % EXTENT_UNIT == 0 &&
           extent.offset >= ARENA_EXTENTS_OFFSET && extent.size <= UINT64_MAX - extent.offset;
}

static bool overlap(extent a, extent b) { return a.offset < b.offset + b.size && b.offset < a.offset + a.size; }

static mr_status check_name_field(const broker_wire *message, const char *name) {
    if (!ended(name, PEER_NAME_MAX) || !printable(name)) return bad(message, "a malformed name");
    return MR_OK;
}

static mr_status check_cause(const broker_wire *message) {
    const broker_wire_cause *cause = &message->cause;
    if (!ended(cause->text, sizeof cause->text)) return bad(message, "a text without a terminating zero");
    if (cause->status == MR_OK || strcmp(mr_status_name((mr_status)cause->status), "UNKNOWN") == 0)
        return bad(message, "an unknown status");
    if (cause->pid > INT32_MAX || cause->signal > 128 || cause->exit_code < -1 || cause->exit_code > 255)
        return bad(message, "a pid, signal or exit code out of range");
    return MR_OK;
}

static mr_status check_link(const broker_wire *message) {
    const broker_wire_link *link = &message->link;
    if (link->process_block >= PROCESS_BLOCKS_MAX) return bad(message, "a process block out of range");
    if (link->process == 0 || link->pid > INT32_MAX || link->zero != 0) return bad(message, "a malformed peer");
    if (!extent_ok(link->send) || !extent_ok(link->receive) || overlap(link->send, link->receive))
        return bad(message, "rings that overlap or are misaligned");
    return check_name_field(message, link->name);
}

static mr_status check_subject(const broker_wire *message) {
    uint32_t subject = message->head.subject;
    switch (message->head.kind) {
    case BROKER_WIRE_HELLO:
    case BROKER_WIRE_BYE:
    case BROKER_WIRE_END: return subject == 0 ? MR_OK : bad(message, "a link number, which this kind must not have");
    case BROKER_WIRE_WELCOME:
        return subject < PROCESS_BLOCKS_MAX ? MR_OK : bad(message, "a process block out of range");
    default: return subject != 0 ? MR_OK : bad(message, "no link number");
    }
}

static mr_status check_fields(const broker_wire *message) {
    switch (message->head.kind) {
    case BROKER_WIRE_HELLO:
        if (message->hello.magic != BROKER_WIRE_MAGIC) return bad(message, "the wrong magic number");
        return check_name_field(message, message->hello.name);
    case BROKER_WIRE_CONNECT:
        if ((message->connect.process == 0) == (message->connect.name[0] == '\0'))
            return bad(message, "not exactly one of process id and name");
        return check_name_field(message, message->connect.name);
    case BROKER_WIRE_RESIZE: return message->resize.bytes > 0 ? MR_OK : bad(message, "no size");
    case BROKER_WIRE_CLOSE:
        return message->close.no_descriptor <= 1 && message->close.zero == 0 ? MR_OK
                                                                             : bad(message, "an unknown reason");
    case BROKER_WIRE_RELEASE: return extent_ok(message->ring.ring) ? MR_OK : bad(message, "a misaligned ring");
    case BROKER_WIRE_RESIZED:
        return message->ring.ring.size == 0 || extent_ok(message->ring.ring) ? MR_OK
                                                                             : bad(message, "a misaligned ring");
    case BROKER_WIRE_WELCOME:
        if (message->welcome.magic != BROKER_WIRE_MAGIC) return bad(message, "the wrong magic number");
        return message->welcome.process != 0 ? MR_OK : bad(message, "process id 0");
    case BROKER_WIRE_LINK: return check_link(message);
    case BROKER_WIRE_REFUSED:
    case BROKER_WIRE_GONE:
    case BROKER_WIRE_END: return check_cause(message);
    default: return MR_OK;
    }
}

mr_status broker_wire_decode(bool from_broker, const void *data, size_t size, broker_wire *out) {
    broker_wire message = {0};
    if (size < sizeof message.head || size > sizeof message)
        return error_set(MR_CORRUPT, "malformed message of %zu bytes", size);
    memcpy(&message, data, size);
    if (message.head.version != BROKER_WIRE_VERSION)
        return error_set(MR_CORRUPT, "message version %u, this program speaks %d: use the same release everywhere",
                         message.head.version, BROKER_WIRE_VERSION);
    if ((message.head.kind >= BROKER_WIRE_WELCOME) != from_broker || sizes[message.head.kind] == 0)
        return bad(&message, "an unknown kind, or the wrong direction");
    if (message.head.size != size || size != sizes[message.head.kind]) return bad(&message, "the wrong size");
    MR_TRY(check_subject(&message));
    MR_TRY(check_fields(&message));
    *out = message;
    return MR_OK;
}

/* ---- Causes and names. */

broker_wire broker_wire_of_cause(broker_wire_kind kind, uint32_t subject, const cause *why) {
    MR_ASSERT(why->status != MR_OK);
    broker_wire message = broker_wire_of(kind, subject);
    message.cause.status = (uint32_t)why->status;
    message.cause.pid = (uint32_t)why->pid;
    message.cause.signal = (uint32_t)why->signal;
    message.cause.exit_code = why->exit_code;
    memcpy(message.cause.text, why->text, sizeof message.cause.text - 1);
    return message;
}

void broker_wire_get_cause(const broker_wire *message, cause *why) {
    cause_set(why, (mr_status)message->cause.status, "%s", message->cause.text);
    why->pid = (int)message->cause.pid;
    why->signal = (int)message->cause.signal;
    why->exit_code = message->cause.exit_code;
}

mr_status broker_wire_check_name(const char *name) {
    if (strlen(name) >= PEER_NAME_MAX)
        return error_set(MR_INVALID, "the name '%.80s' is longer than %d bytes", name, PEER_NAME_MAX - 1);
    if (!printable(name)) return error_set(MR_INVALID, "the name '%.80s' has control characters", name);
    return MR_OK;
}
