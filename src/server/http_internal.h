/* What the files of the HTTP codec share.
 *
 *     http_head.c    the request line and what the headers mean together
 *     http_field.c   bytes, one header line, its place in the limits
 *     http_body.c    lengths, chunks, trailers
 *     http_write.c   answers */
#ifndef LW_SERVER_HTTP_INTERNAL_H
#define LW_SERVER_HTTP_INTERNAL_H

#include "server/http.h"

#include <legwork/api.h>

/* The phases of a parser:
 *
 *     HEAD --> BODY ----------------------------------------+--> HEAD
 *        |                                                  |
 *        +---> CHUNK_SIZE <--> CHUNK_DATA, CHUNK_END        |
 *                  |                                        |
 *                  +--> TRAILERS ---------------------------+      any --> REFUSED */
enum {
    LW__HTTP_IN_HEAD,
    LW__HTTP_IN_BODY,
    LW__HTTP_IN_CHUNK_SIZE,
    LW__HTTP_IN_CHUNK_DATA,
    LW__HTTP_IN_CHUNK_END,
    LW__HTTP_IN_TRAILERS,
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

/* Parts a header line or trailer; the name and value point into it. DONE or REFUSED. */
enum lw__http_event lw__http_split(struct lw__http_parser *parser, struct lw__slice line,
                                   struct lw__http_field *field);

#endif
