/* The file, by way of inih.
 *
 * inih cuts lines that are longer than its buffer (200 bytes in Debian) into two, takes " ;" for
 * the beginning of a comment even within a command, and reads "a: b" as "a = b", so that a name
 * with a colon in it falls apart. So it gets its lines one by one from read_line, which has looked
 * at each and refuses what would be read otherwise than it was meant. */
#include "server/config_internal.h"

#include "server/nearest.h"
#include "server/refuse.h"

#include <errno.h>
#include <fcntl.h>
#include <ini.h>
#include <stdarg.h>
#include <stdio.h>
#include <unistd.h>

#define KNOWN_MAX 144 /* bytes of a list of names in a sentence */

struct file {
    struct lw__config *config;
    const char *name;
    const char *at, *end; /* what was not read yet */
    unsigned line;
    int status; /* of the first thing that was refused */
    lw_error *err;

    /* The present key, which the next line may continue. */
    const struct lw__config_row *row;
    unsigned row_line;
    bool is_indented; /* the present line */
    size_t size;
    char value[LW__CONFIG_TEXT_MAX + 1];

    bool is_given[LW__CONFIG_ROWS_MAX];
};

LW_PRINTF(2, 3) static bool refuse(struct file *file, const char *format, ...) {
    char sentence[LW_ERROR_MESSAGE_MAX];
    va_list args;
    va_start(args, format);
    vsnprintf(sentence, sizeof sentence, format, args);
    va_end(args);
    file->status = lw__refuse(file->err, LW_EINVAL, "%s:%u: %s", file->name, file->line, sentence);
    return false;
}

/* ---- keys and sections ---------------------------------------------------------------------- */

/* Sets the value that is whole now. */
static bool finish_value(struct file *file) {
    char where[LW_ERROR_MESSAGE_MAX / 2];
    const struct lw__config_row *row = file->row;
    if (!row)
        return true;
    file->row = NULL;
    snprintf(where, sizeof where, "%s:%u: %s", file->name, file->row_line, row->name);
    file->status = lw__config_set(file->config, row, LW__CONFIG_FILE,
                                  (struct lw__slice){file->value, file->size}, where, file->err);
    return file->status == LW_OK;
}

/* The keys of a section (NULL: the sections), as many as there is room for: "a, b, ...". */
static const char *list_known(const struct lw__config_table *table, const char *section,
                              char known[KNOWN_MAX]) {
    const char *last = "";
    size_t size = 0;
    known[0] = 0;
    for (size_t i = 0; i < table->count; i++) {
        const struct lw__config_row *row = &table->rows[i];
        bool is_one = row->section && (!section || strcmp(row->section, section) == 0);
        const char *name = section ? row->name : row->section;
        if (!is_one || strcmp(name, last) == 0)
            continue;
        bool has_room = size + strlen(name) + sizeof ", , ..." < KNOWN_MAX;
        size += (size_t)snprintf(known + size, KNOWN_MAX - size, "%s%s", size > 0 ? ", " : "",
                                 has_room ? name : "...");
        if (!has_room)
            break;
        last = name;
    }
    return known;
}

static bool refuse_key(struct file *file, const char *section, const char *name) {
    const struct lw__config_table *table = file->config->table;
    struct lw__nearest nearest;
    char known[KNOWN_MAX];
    lw__nearest_init(&nearest, lw__slice_of(name));
    for (size_t i = 0; i < table->count; i++)
        if (table->rows[i].section)
            lw__nearest_offer(&nearest, table->rows[i].name);
    if (nearest.name)
        return refuse(file, "the key \"%s\" is not known; did you mean \"%s\"?",
                      lw__slice_show(lw__slice_of(name)).text, nearest.name);
    if (list_known(table, section, known)[0])
        return refuse(file, "the key \"%s\" is not known; [%s] has %s",
                      lw__slice_show(lw__slice_of(name)).text, section, known);
    return refuse(file, "the key \"%s\" is not known", lw__slice_show(lw__slice_of(name)).text);
}

static bool add_to_value(struct file *file, const char *text) {
    size_t size = strlen(text), space = file->size > 0;
    if (file->size + space + size > LW__CONFIG_TEXT_MAX)
        return refuse(file, "the value has more than %d bytes", LW__CONFIG_TEXT_MAX);
    if (space)
        file->value[file->size++] = ' ';
    memcpy(file->value + file->size, text, size);
    file->size += size;
    return true;
}

static bool begin_value(struct file *file, const char *section, const char *name) {
    const struct lw__config_table *table = file->config->table;
    const struct lw__config_row *row = lw__config_find(table, lw__slice_of(name));
    if (!row || !row->section)
        return refuse_key(file, section, name);
    if (strcmp(section, row->section) != 0)
        return refuse(file, "\"%s\" belongs into the section [%s]", row->name, row->section);
    bool *is_given = &file->is_given[row - table->rows];
    if (*is_given && row->type != LW__CONFIG_LIST)
        return refuse(file, "\"%s\" is there twice", row->name);
    *is_given = true;
    file->row = row;
    file->row_line = file->line;
    file->size = 0;
    return true;
}

/* Called by inih for every key, and for every line that goes on with one. 0 is an error. */
static int take_pair(void *user, const char *section, const char *name, const char *value) {
    struct file *file = user;
    if (file->status < 0)
        return 0;
    if (file->is_indented)
        return add_to_value(file, value);
    return finish_value(file) && begin_value(file, section, name) && add_to_value(file, value);
}

static bool check_section(struct file *file, struct lw__slice line) {
    const struct lw__config_table *table = file->config->table;
    struct lw__slice name = {line.data + 1, line.size - 1};
    struct lw__nearest nearest;
    char known[KNOWN_MAX];
    if (name.size == 0 || name.data[name.size - 1] != ']')
        return refuse(file, "a section is written as [name]");
    name.size--;
    lw__nearest_init(&nearest, name);
    for (size_t i = 0; i < table->count; i++) {
        const char *section = table->rows[i].section;
        if (section && lw__slice_is(name, section))
            return true;
        if (section)
            lw__nearest_offer(&nearest, section);
    }
    if (nearest.name)
        return refuse(file, "the section [%s] is not known; did you mean [%s]?",
                      lw__slice_show(name).text, nearest.name);
    return refuse(file, "the section [%s] is not known; there are %s", lw__slice_show(name).text,
                  list_known(table, NULL, known));
}

/* ---- lines ---------------------------------------------------------------------------------- */

static bool is_blank(char c) {
    return c == ' ' || c == '\t';
}

/* Bytes that inih would stop at or show to nobody. */
static bool check_bytes(struct file *file, struct lw__slice line) {
    for (size_t i = 0; i < line.size; i++) {
        unsigned char byte = (unsigned char)line.data[i];
        if ((byte < 0x20 && byte != '\t') || byte == 0x7f)
            return refuse(file, "there is the control byte 0x%02x", byte);
        if (byte == ';' && i > 0 && is_blank(line.data[i - 1]))
            return refuse(file, "\" ;\" would begin a comment; those stand on lines of their own");
    }
    return true;
}

static bool check_key(struct file *file, struct lw__slice line) {
    const char *mark = memchr(line.data, '=', line.size);
    if (!mark || memchr(line.data, ':', (size_t)(mark - line.data)))
        return refuse(file, "\"%s\" is not written as key = value", lw__slice_show(line).text);
    return true;
}

/* Whether inih will read this line, given without its end, as it is meant. */
static bool check_line(struct file *file, struct lw__slice line) {
    while (line.size > 0 && is_blank(line.data[line.size - 1]))
        line.size--;
    const char *first = line.data, *end = lw__slice_end(line);
    while (first < end && is_blank(*first))
        first++;
    file->is_indented = first > line.data;
    if (first == end || *first == '#' || *first == ';')
        return true;
    if (!check_bytes(file, line))
        return false;
    if (file->is_indented)
        return file->row || refuse(file, "an indented line has no key before it to go on with");
    if (*first == '[')
        return finish_value(file) && check_section(file, line);
    return check_key(file, line);
}

/* inih's reader, in the manner of fgets. NULL is the end, of the file or of reading it. */
static char *read_line(char *into, int room, void *stream) {
    struct file *file = stream;
    if (file->status < 0 || file->at == file->end)
        return NULL;
    const char *stop = memchr(file->at, '\n', (size_t)(file->end - file->at));
    const char *next = stop ? stop + 1 : file->end;
    struct lw__slice line = lw__slice_between(file->at, stop ? stop : next);
    file->line++;
    if (line.size > 0 && line.data[line.size - 1] == '\r')
        line.size--;
    if (line.size > 0 && memchr(line.data, 0, line.size)) {
        refuse(file, "there is the control byte 0x00");
        return NULL;
    }
    if (line.size + 2 > (size_t)room) {
        refuse(file, "the line has more than %d bytes; go on in an indented line", room - 2);
        return NULL;
    }
    if (!check_line(file, line))
        return NULL;
    memcpy(into, line.data, line.size);
    memcpy(into + line.size, "\n", 2);
    file->at = next;
    return into;
}

int lw__config_text(struct lw__config *config, const char *name, struct lw__slice text,
                    lw_error *err) {
    struct file file;
    memset(&file, 0, sizeof file);
    file.config = config;
    file.name = name;
    file.at = text.data;
    file.end = lw__slice_end(text);
    file.err = err;
    if (text.size > LW__CONFIG_FILE_MAX)
        return lw__refuse(err, LW_EINVAL, "%s has more than %d bytes", name, LW__CONFIG_FILE_MAX);
    if (text.size >= 3 && memcmp(text.data, "\xef\xbb\xbf", 3) == 0)
        file.at += 3;
    int failed = ini_parse_stream(read_line, &file, take_pair, &file);
    if (file.status == LW_OK && failed)
        refuse(&file, "inih cannot read line %d", failed);
    if (file.status == LW_OK)
        finish_value(&file);
    return file.status;
}

/* ---- files ---------------------------------------------------------------------------------- */

/* All of a file, or its errno. */
static int read_all(int descriptor, struct lw__buffer *into) {
    for (;;) {
        char piece[4096];
        ssize_t count = read(descriptor, piece, sizeof piece);
        if (count < 0 && errno == EINTR)
            continue;
        if (count <= 0)
            return count < 0 ? errno : 0;
        if (lw__buffer_put(into, (struct lw__slice){piece, (size_t)count}) < 0)
            return into->status == LW_ENOMEM ? ENOMEM : EFBIG;
    }
}

int lw__config_file(struct lw__config *config, const char *path, lw_error *err) {
    struct lw__buffer text;
    int descriptor = open(path, O_RDONLY | O_CLOEXEC);
    int failed = descriptor < 0 ? errno : 0;
    lw__buffer_init(&text, config->allocator, LW__CONFIG_FILE_MAX);
    if (!failed)
        failed = read_all(descriptor, &text);
    if (descriptor >= 0)
        close(descriptor);
    int status = LW_OK;
    if (failed) {
        status = lw__refuse(err, LW_ESYSTEM, "%s cannot be read: %s", path, strerror(failed));
        if (err)
            err->native = failed;
    } else {
        status = lw__config_text(config, path, lw__buffer_slice(&text), err);
    }
    lw__buffer_clear(&text);
    return status;
}
