/* app_message.h — encoding of app messages: requests and responses between programs of a parameter server.
 *
 *   bytes  content behind the stamp of the control message (CONTROL_NOTE)
 *   -------  ----------------------------------------------------------------------------
 *   1  kind: APP_MESSAGE_REQUEST, APP_MESSAGE_RESPONSE
 *   1 1 4    role of the sender; role and number of the receiver
 *   1 + n    address of the sender
 *   8        incarnation of the receiver
 *   8 8      number of the request, counted from 1 per sender and receiver; the lowest unanswered one
 *   4 4      app, head
 *   4        of a response: its status
 *   …        body, to the end
 *
 * The stamp has the sender's newest cluster map, number and incarnation. Pure. */
#pragma once
#include "cluster/control_message.h"
#include "miniray/admin.h"

enum { APP_MESSAGE_REQUEST = 1, APP_MESSAGE_RESPONSE = 2 };
enum { APP_MESSAGE_HEAD_MAX = 1 + 2 + 4 + MR_PS_ADDRESS_MAX + 8 + 16 + 8 + 4 };

typedef struct app_message {
    uint8_t kind;
    uint8_t from_role, to_role;
    uint32_t from, to;
    char address[MR_PS_ADDRESS_MAX]; /* of the sender */
    uint64_t from_incarnation, to_incarnation;
    uint64_t map;
    uint64_t number, oldest;
    int32_t app, head;
    mr_status status;
    span body;
} app_message;

/* Encodes a message into the control message's value; the caller frees the returned bytes. */
uint8_t *app_message_write(const app_message *message, control_message *control_message);
/* MR_CORRUPT. The body is borrowed from the control message. */
MR_MUST mr_status app_message_read(const control_message *message, app_message *out);
