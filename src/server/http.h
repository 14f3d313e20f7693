/* HTTP/1.1 as bytes: strict parsers and writers of requests and answers, without a socket.
 *
 * Reading. The caller keeps a buffer of what came in and has not been used yet. It asks for the
 * head until that is whole, then for the body until that is through, and then for the next head:
 * requests in a row (pipelining) need nothing more. Every call looks at bytes that it has not seen
 * before and says how many to drop from the front; until then the bytes must stay, but may move.
 *
 *     lw__http_head  MORE: read more, and ask again     DONE: the request is filled in
 *     lw__http_body  MORE: as above      PIECE: bytes of the body      DONE: the request is over
 *     both           REFUSED: parser.refusal says why; answer that, and close the connection
 *
 * Strict means that nothing is guessed. Two readings of one request are how a proxy and a server
 * come to disagree about where it ends, so what has two readings is refused: a bare LF or CR, NUL
 * and other control bytes, folded headers, spaces around a header's name, a second Content-Length
 * (even an equal one), Content-Length beside Transfer-Encoding, chunk sizes that are no plain hex
 * numbers, no Host or two. Two things are let through because RFC 9112 wants them so: one empty
 * line before a request, and a target with scheme and host.
 *
 * Nothing here allocates; a parser has no pointers into the caller's memory between two calls. */
#ifndef LW_SERVER_HTTP_H
#define LW_SERVER_HTTP_H

#include "server/buffer.h"
#include "server/slice.h"

#include <stdint.h>

/* ---- words ---------------------------------------------------------------------------------- */

/* The methods that are known; any other one is refused with 501. */
#define LW__HTTP_METHOD_MAP(X) X(GET) X(HEAD) X(POST) X(PUT) X(PATCH) X(DELETE) X(OPTIONS)

enum lw__http_method {
#define LW__HTTP_METHOD_ENUM(name) LW__HTTP_##name,
    LW__HTTP_METHOD_MAP(LW__HTTP_METHOD_ENUM)
#undef LW__HTTP_METHOD_ENUM
        LW__HTTP_METHODS /* how many there are */
};

const char *lw__http_method_name(enum lw__http_method method);

/* The reason phrase of a status, "Unknown" for a number that has none here. */
const char *lw__http_reason(int status);

/* ---- limits --------------------------------------------------------------------------------- */

#define LW__HTTP_FIELDS_MAX 128     /* the most that limits.fields_max can allow */
#define LW__HTTP_CHUNK_LINE_MAX 256 /* bytes of a chunk's size and extensions */

/* All of them are the caller's to give; lengths are without the CR LF at the end. */
struct lw__http_limits {
    size_t line_max;   /* bytes of the request line: 414 */
    size_t field_max;  /* bytes of one header line: 431 */
    size_t head_max;   /* bytes of the head, up to its last header; also of all trailers and of all
                        * chunk extensions: 431 */
    size_t fields_max; /* header lines, and trailers: 431. At most LW__HTTP_FIELDS_MAX */
    uint64_t body_max; /* bytes of the body: 413, when it is announced, or before it is passed on */
};

/* ---- reading -------------------------------------------------------------------------------- */

struct lw__http_field {
    struct lw__slice name;  /* as it came; compare without case */
    struct lw__slice value; /* without the spaces around it */
};

/* What an answer must know of its request, also long after the request's bytes are gone. */
struct lw__http_terms {
    unsigned char minor; /* HTTP/1.minor: 0 or 1 */
    bool keep_alive;     /* whether the client means to use the connection again */
    bool is_head;        /* the answer has a head only */
};

/* All slices point into the caller's buffer, and live until it moves or drops those bytes. */
struct lw__http_request {
    enum lw__http_method method;
    struct lw__http_terms terms;
    struct lw__slice target; /* as it came */
    struct lw__slice path;   /* begins with /, or is *; percent-encoded still, and well-formed */
    struct lw__slice query;  /* what follows the ?, without it */
    bool has_query;          /* there was a ? */
    struct lw__slice host;   /* of the target or else of Host; size 0 in HTTP/1.0 without one */
    bool has_body;           /* a Content-Length that is not 0, or chunks */
    bool is_chunked;
    uint64_t length;       /* Content-Length, 0 if there was none */
    bool expects_continue; /* waits for lw__http_continue before it sends the body */
    size_t field_count;
    struct lw__http_field fields[LW__HTTP_FIELDS_MAX];
};

enum lw__http_event { LW__HTTP_MORE, LW__HTTP_PIECE, LW__HTTP_DONE, LW__HTTP_REFUSED };

/* 400 malformed, 413 body too large, 414 target too long, 417 unknown expectation, 431 head too
 * large, 501 unknown method or coding, 505 other version. The sentence is safe to log and to
 * send. */
struct lw__http_refusal {
    int status;
    char sentence[224];
};

/* The fields are the parser's own, but for refusal. */
struct lw__http_parser {
    const struct lw__http_limits *limits;
    int phase;
    size_t line;        /* where the present line begins, counted from the first byte not dropped */
    size_t seen;        /* up to where its end was looked for */
    size_t lines;       /* header lines or trailers so far */
    size_t extras;      /* bytes of trailers and chunk extensions so far */
    uint64_t left;      /* bytes of the body, or of a chunk, to come */
    uint64_t body_size; /* bytes announced by chunks so far */
    bool is_chunked;
    struct lw__http_refusal refusal;
};

/* The limits must outlive the parser. */
void lw__http_init(struct lw__http_parser *parser, const struct lw__http_limits *limits);

/* Reads a head from data, the bytes not dropped yet. At MORE and REFUSED *used is 0, and what is in
 * *request means nothing; at DONE it is the size of the head. */
enum lw__http_event lw__http_head(struct lw__http_parser *parser, const char *data, size_t size,
                                  struct lw__http_request *request, size_t *used);

/* Reads the body, after a head; of a request without one it is DONE at once. *used is to be dropped
 * at every event; at PIECE, after the piece was taken: it is a part of data, and never empty. */
enum lw__http_event lw__http_body(struct lw__http_parser *parser, const char *data, size_t size,
                                  struct lw__slice *piece, size_t *used);

/* The value of a header, and false if there is none. Of several the first. */
bool lw__http_find(const struct lw__http_request *request, const char *name,
                   struct lw__slice *value);

/* The connection was ended by the other side; is_empty: no bytes are left that were not dropped.
 * DONE: between two messages, or at the end of an answer that ends so. REFUSED: anywhere else. */
enum lw__http_event lw__http_hang_up(struct lw__http_parser *parser, bool is_empty);

/* ---- reading answers ------------------------------------------------------------------------ */

/* As of requests. Of a refusal only the sentence means something to a client. */
struct lw__http_answer {
    int code; /* 100 to 599 */
    unsigned char minor;
    bool keep_alive; /* the connection can be used again after the body */
    bool is_interim; /* 1xx: no body, and the next head follows at once */
    bool has_body;   /* there may be bytes; a body ends by its length, its chunks, or else with the
                      * connection */
    bool is_chunked;
    bool has_length;
    uint64_t length;
    size_t field_count;
    struct lw__http_field fields[LW__HTTP_FIELDS_MAX];
};

/* Reads the head of an answer, as lw__http_head does that of a request; `asked` is what it
 * answers. After an interim one comes another head, otherwise the body: lw__http_body. */
enum lw__http_event lw__http_answer(struct lw__http_parser *parser, const char *data, size_t size,
                                    enum lw__http_method asked, struct lw__http_answer *answer,
                                    size_t *used);

bool lw__http_find_in_answer(const struct lw__http_answer *answer, const char *name,
                             struct lw__slice *value);

/* ---- writing -------------------------------------------------------------------------------- */

extern const char lw__http_continue[]; /* "HTTP/1.1 100 Continue", and an empty line */

/* Writes one answer, or request, into a buffer. What does not fit, or may not be said, is
 * remembered by the buffer and the writer; the buffer is then cut back, so that it never holds half
 * an answer (half a chunk, once a stream has begun). */
struct lw__http_writer {
    struct lw__buffer *out;
    struct lw__http_terms terms;
    int code;          /* the HTTP status; 0: it is a request */
    size_t start;      /* where the answer, or the present chunk, begins in out */
    bool is_chunked;   /* lw__http_stream was called, and the client knows chunks */
    bool is_streaming; /* lw__http_stream was called */
    bool needs_length; /* even for no bytes */
    int status;        /* LW_OK; LW_EINVAL: a header that may not be sent */
};

/* Begins with the status line. terms.keep_alive false makes it say Connection: close. */
void lw__http_start(struct lw__http_writer *writer, struct lw__buffer *out,
                    struct lw__http_terms terms, int code);

/* Begins a request instead; target and host must be as the parser would accept them, or it is
 * LW_EINVAL. What follows is the same; a body of no bytes has a Content-Length if the method is
 * POST, PUT or PATCH. */
void lw__http_ask(struct lw__http_writer *writer, struct lw__buffer *out,
                  enum lw__http_method method, struct lw__slice target, struct lw__slice host);

/* A header. A name that is no token, a value with control bytes (CR, LF, NUL), and the headers that
 * the writer itself decides on (Connection, Content-Length, Transfer-Encoding) are LW_EINVAL. */
int lw__http_put(struct lw__http_writer *writer, const char *name, struct lw__slice value);

/* Ends the head for a body of so many bytes, which the caller sends itself (not if
 * terms.is_head); or sends the body, too. A 204 or 304 has none, and no length.
 * Return LW_OK; LW_EFULL, LW_ENOMEM, LW_EINVAL: nothing is in the buffer. */
int lw__http_announce(struct lw__http_writer *writer, uint64_t length);
int lw__http_finish(struct lw__http_writer *writer, struct lw__slice body);

/* Ends the head for a body of unknown length. To a client of HTTP/1.0 it goes as it is, and ends
 * with the connection: terms.keep_alive is then false. Returns as above. */
int lw__http_stream(struct lw__http_writer *writer);
int lw__http_piece(struct lw__http_writer *writer, struct lw__slice piece); /* may be empty */
int lw__http_end(struct lw__http_writer *writer);

#endif
