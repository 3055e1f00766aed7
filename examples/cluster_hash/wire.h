/* SPDX-License-Identifier: BSD-2-Clause */
/* The messages between coordinators and servers, as values and as bytes (README.md, "Protocol").
 *
 * Input is not trusted: message_decode accepts a frame only if its fields take exactly its bytes,
 * and a frame_reader allocates memory only for bytes that have arrived, not for an announced
 * length. No function here does I/O. */
#ifndef CLUSTER_HASH_WIRE_H
#define CLUSTER_HASH_WIRE_H
#include <lladd/error.h>

#define WIRE_VERSION 2u
#define WIRE_MAGIC UINT32_C(0x48434c4c) /* "LLCH" */
#define WIRE_LENGTH 4u                  /* the length field of a frame; counts the bytes after it */
#define WIRE_HEAD 20u                   /* type, three zeros, number, session: in every frame */
#define WIRE_FRAME_MAX (UINT32_C(1) << 20)
#define WIRE_KEY_MAX 1000u
#define WIRE_VALUE_MAX (UINT32_C(512) << 10)
#define WIRE_TEXT_MAX 200u

/* The fields after a message's head, in this order. */
enum wire_field {
    WIRE_HELLO = 1,     /* u32 magic, u32 version, uuid, u64 incarnation, instance */
    WIRE_SERVER = 2,    /* uuid of the server's database */
    WIRE_ATTEMPT = 4,   /* u64: matches a WELCOME with its HELLO */
    WIRE_TXN = 8,       /* u64 incarnation, u64 sequence */
    WIRE_REQUEST = 16,  /* u32: matches a RESULT with its GET */
    WIRE_OPS = 32,      /* u32: number of GETs, PUTs, DELETEs and ADDs sent before */
    WIRE_UPDATE = 64,   /* u8: 1 if the key is read for update */
    WIRE_VERDICT = 128, /* u8: enum verdict */
    WIRE_CODE = 256,    /* i32: 0 or a code of lladd/error_list.h */
    WIRE_KEY = 512,     /* u16 length, 1 to WIRE_KEY_MAX; bytes */
    WIRE_VALUE = 1024,  /* u32 length, at most WIRE_VALUE_MAX; bytes */
    WIRE_DELTA = 4096,  /* i64 */
    WIRE_TEXT = 2048,   /* u32 length, at most WIRE_TEXT_MAX; a line of text for the user */
    WIRE_TIMELINE = 8192 /* u32: a timeline of the server's database (lladd_db_timeline) */
};

/* X(name, number, fields). Numbers never change. */
#define MESSAGES_TO_SERVER(X) \
    X(HELLO, 1, WIRE_HELLO | WIRE_ATTEMPT) \
    X(PING, 2, 0) \
    X(GET, 3, WIRE_TXN | WIRE_REQUEST | WIRE_UPDATE | WIRE_KEY) \
    X(PUT, 4, WIRE_TXN | WIRE_KEY | WIRE_VALUE) \
    X(DELETE, 5, WIRE_TXN | WIRE_KEY) \
    X(PREPARE, 6, WIRE_TXN | WIRE_OPS) \
    X(COMMIT_ONE, 7, WIRE_TXN | WIRE_OPS) \
    X(COMMIT, 8, WIRE_TXN) \
    X(ABORT, 9, WIRE_TXN) \
    X(ADD, 10, WIRE_TXN | WIRE_KEY | WIRE_DELTA)
#define MESSAGES_TO_COORDINATOR(X) \
    X(WELCOME, 65, WIRE_SERVER | WIRE_ATTEMPT | WIRE_TIMELINE) \
    X(REFUSED, 66, WIRE_CODE | WIRE_TEXT) \
    X(PONG, 67, 0) \
    X(RESULT, 68, WIRE_TXN | WIRE_REQUEST | WIRE_CODE | WIRE_VALUE) \
    X(VOTE, 69, WIRE_TXN | WIRE_VERDICT | WIRE_CODE) \
    X(ACK, 70, WIRE_TXN) \
    X(INQUIRE, 71, WIRE_TXN | WIRE_TIMELINE)

#define MESSAGE_ENUM(name, number, fields) MESSAGE_##name = number,
enum message_type { MESSAGES_TO_SERVER(MESSAGE_ENUM) MESSAGES_TO_COORDINATOR(MESSAGE_ENUM) };
#undef MESSAGE_ENUM

/* A server's answer about a transaction. */
enum verdict {
    VERDICT_NO = 0,        /* rolled back at this server; `code` is the reason */
    VERDICT_YES = 1,       /* prepared at this server, durably */
    VERDICT_READ_ONLY = 2, /* the branch has written nothing at this server, and has ended */
    VERDICT_COMMITTED = 3  /* committed at this server, durably: an answer to COMMIT_ONE */
};

struct txn_id {
    uint64_t incarnation; /* incarnation of the coordinator that began the transaction */
    uint64_t sequence;    /* from 1, in that incarnation */
};

/* The spans of a decoded message point into the frame. */
struct message {
    enum message_type type;
    uint64_t number;  /* of the frame, from 1 in each direction of a session */
    uint64_t session; /* 0 in HELLO; WELCOME gives the session, which all later frames carry */
    unsigned char uuid[16];
    uint64_t incarnation, instance, attempt;
    struct txn_id txn;
    uint32_t version, request, ops, timeline;
    bool update;
    enum verdict verdict;
    int32_t code;
    int64_t delta;
    struct lladd_span key, value, text;
};

/* "GET", or NULL for an unknown type. */
const char *message_name(unsigned type);
bool message_is_for_server(enum message_type);

/* The length of the frame, including its length field. */
size_t message_size(const struct message *);
/* Writes message_size bytes. */
void message_encode(const struct message *, unsigned char *out);
/* Reads a frame, without its length field. LLADD_BAD_ARGUMENT: not a message of this version. */
int message_decode(const unsigned char *frame, size_t len, struct message *out);

/* Splits a stream into frames. Initialise it with zeros. */
struct frame_reader {
    unsigned char *bytes;
    size_t len, capacity;
};
/* `frame` is without its length field. If it does not return 0, frame_reader_feed stops and returns
 * that value. */
typedef int frame_fn(void *ctx, const unsigned char *frame, size_t len);
/* Calls fn for every complete frame. LLADD_TOO_LARGE for an invalid length, LLADD_NO_MEMORY; after
 * either error, nothing more can be read. */
int frame_reader_feed(struct frame_reader *, const unsigned char *bytes, size_t len, frame_fn *fn,
                      void *ctx);
void frame_reader_free(struct frame_reader *);

/* One end of a session: the frame numbers in both directions. */
struct channel {
    uint64_t session, sent, received;
};
enum channel_verdict {
    CHANNEL_NEXT = 0,     /* the expected frame */
    CHANNEL_REPEATED = 1, /* received before, or of another session: ignore it */
    CHANNEL_GAP = 2       /* an earlier frame is missing: the session must end */
};
enum channel_verdict channel_receive(struct channel *, const struct message *);
/* Sets the message's number and session. */
void channel_stamp(struct channel *, struct message *);
#endif
