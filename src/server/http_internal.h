/* What the files of the HTTP codec share.
 *
 *     http_field.c    bytes, lines, one header
 *     http_scan.c     a head as it comes in, and the headers that say where a body ends
 *     http_head.c     requests
 *     http_answer.c   answers, for clients
 *     http_body.c     lengths, chunks, trailers, and bodies that end with the connection
 *     http_write.c    writing both */
#ifndef LW_SERVER_HTTP_INTERNAL_H
#define LW_SERVER_HTTP_INTERNAL_H

#include "server/http.h"

#include <legwork/api.h>

/* The phases of a parser:
 *
 *     HEAD --> BODY ----------------------------------------+--> HEAD
 *        |                                                  |
 *        +---> CHUNK_SIZE <--> CHUNK_DATA, CHUNK_END        |      any --> REFUSED
 *        |         |                                        |
 *        |         +--> TRAILERS ---------------------------+
 *        +---> REST (an answer's; the connection ends it) */
enum {
    LW__HTTP_IN_HEAD,
    LW__HTTP_IN_BODY,
    LW__HTTP_IN_CHUNK_SIZE,
    LW__HTTP_IN_CHUNK_DATA,
    LW__HTTP_IN_CHUNK_END,
    LW__HTTP_IN_TRAILERS,
    LW__HTTP_IN_REST,
    LW__HTTP_IS_REFUSED
};

/* What a byte may be a part of. */
enum {
    LW__HTTP_TOKEN = 1,  /* a method, the name of a header */
    LW__HTTP_TARGET = 2, /* a path or query, % included */
    LW__HTTP_VALUE = 4,  /* the value of a header */
    LW__HTTP_HEX = 8,
    LW__HTTP_HOST = 16 /* the name of a host */
};

/* The first byte that is not of this class, or `end`. */
const char *lw__http_span(const char *at, const char *end, int class);

int lw__http_hex(char digit); /* its value; -1 if it is none */

/* Remembers why; always returns LW__HTTP_REFUSED. */
LW_PRINTF(3, 4)
enum lw__http_event lw__http_refuse(struct lw__http_parser *parser, int status, const char *format,
                                    ...);

/* How long a line may be, and what is said if it is longer: "a header has more than 8192 bytes". */
struct lw__http_bound {
    size_t max; /* bytes of the line */
    int status;
    const char *what; /* has more than `limit` bytes, if the line is longer than `max` */
    size_t limit;
};

/* Finds the next line of data, from parser->line on; at DONE parser->line is behind it. */
enum lw__http_event lw__http_line(struct lw__http_parser *parser, const char *data, size_t size,
                                  const struct lw__http_bound *bound, struct lw__slice *line);

/* What requests and answers have of their own: the first line, read as soon as it is there, and the
 * whole head, from behind its first line to behind its empty one. */
struct lw__http_kind {
    enum lw__http_event (*read_first)(struct lw__http_parser *parser, struct lw__slice line,
                                      void *message);
    enum lw__http_event (*understand)(struct lw__http_parser *parser, const char *at,
                                      const char *end, void *message);
};

/* Reads a head; returns as lw__http_head. */
enum lw__http_event lw__http_scan(struct lw__http_parser *parser, const char *data, size_t size,
                                  const struct lw__http_kind *kind, void *message, size_t *used);

struct lw__slice lw__http_cut_line(const char **at,
                                   const char *end); /* the next, of a whole head */

enum lw__http_event lw__http_version(struct lw__http_parser *parser, struct lw__slice text,
                                     unsigned char *minor);

bool lw__http_is_host(struct lw__slice host); /* a name or address, and perhaps a port */

bool lw__http_find_among(const struct lw__http_field *fields, size_t count, const char *name,
                         struct lw__slice *value);

/* What is noted of the headers that the codec itself heeds. */
struct lw__http_notes {
    unsigned hosts, lengths, codings; /* how many there are */
    uint64_t length;
    bool says_close, says_keep_alive;
};

/* Takes note of Content-Length, Transfer-Encoding and Connection. */
enum lw__http_event lw__http_note(struct lw__http_parser *parser,
                                  const struct lw__http_field *field, struct lw__http_notes *notes);

/* Refuses what they may not be together. */
enum lw__http_event lw__http_check_notes(struct lw__http_parser *parser,
                                         const struct lw__http_notes *notes, unsigned minor);
bool lw__http_keeps_alive(const struct lw__http_notes *notes, unsigned minor);

/* Parts a header line or trailer; the name and value point into it. DONE or REFUSED. */
enum lw__http_event lw__http_split(struct lw__http_parser *parser, struct lw__slice line,
                                   struct lw__http_field *field);

#endif
