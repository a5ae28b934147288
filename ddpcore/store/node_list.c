/* One pass over the list; only the first host is kept. */
#include "ddpcore/store/node_list.h"

#include <ctype.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "ddpcore/base/text.h"

/* Digits of a number in brackets; no host has more. */
enum { DIGITS_MAX = 18 };

struct reader {
    const char *list;
    const char *at;
    char *host; /* [size_bytes], of which used_bytes are written */
    size_t size_bytes, used_bytes;
    bool is_first; /* still in the first host */
    struct ddp_err *err;
};

static ddp_status refuse(const struct reader *reader, const char *what)
{
    return ddp_err_set(reader->err, DDP_E_PARSE, "\"%.200s\" at character %zu: %s", reader->list,
                       (size_t)(reader->at - reader->list) + 1, what);
}

static ddp_status keep(struct reader *reader, const char *text, size_t size_bytes)
{
    if (!reader->is_first) {
        return DDP_OK;
    }
    if (reader->used_bytes + size_bytes >= reader->size_bytes) {
        return ddp_err_set(reader->err, DDP_E_OVERFLOW, "the first host is longer than %zu bytes",
                           reader->size_bytes - 1);
    }
    memcpy(reader->host + reader->used_bytes, text, size_bytes);
    reader->used_bytes += size_bytes;
    DDP_ASSERT(reader->used_bytes < reader->size_bytes);
    return DDP_OK;
}

static ddp_status read_number(struct reader *reader, uint64_t *out_value, size_t *out_digits)
{
    *out_value = 0;
    *out_digits = 0;
    while (isdigit((unsigned char)reader->at[*out_digits])) {
        *out_value = *out_value * 10 + (uint64_t)(reader->at[*out_digits] - '0');
        *out_digits += 1;
        if (*out_digits > DIGITS_MAX) {
            return refuse(reader, "the number has too many digits");
        }
    }
    return *out_digits > 0 ? DDP_OK : refuse(reader, "a number is expected");
}

/* "[03-05,9]", from its bracket to behind its bracket. */
static ddp_status read_bracket(struct reader *reader)
{
    bool is_first_number = true;

    DDP_ASSERT(*reader->at == '[');
    do {
        uint64_t low;
        uint64_t high;
        size_t digits;

        reader->at++; /* '[' or ',' */
        DDP_TRY(read_number(reader, &low, &digits));
        if (is_first_number) {
            DDP_TRY(keep(reader, reader->at, digits));
            is_first_number = false;
        }
        reader->at += digits;
        if (*reader->at == '-') {
            reader->at++;
            DDP_TRY(read_number(reader, &high, &digits));
            if (high < low) {
                return refuse(reader, "the range falls");
            }
            reader->at += digits;
        }
    } while (*reader->at == ',');
    if (*reader->at != ']') {
        return refuse(reader, "\",\", \"-\" or \"]\" is expected");
    }
    reader->at++;
    return DDP_OK;
}

static bool is_host_letter(char letter)
{
    return isalnum((unsigned char)letter) || letter == '.' || letter == '_' || letter == '-';
}

static ddp_status read_host(struct reader *reader)
{
    const char *start = reader->at;

    while (*reader->at == '[' || is_host_letter(*reader->at)) {
        if (*reader->at == '[') {
            DDP_TRY(read_bracket(reader));
        } else {
            DDP_TRY(keep(reader, reader->at, 1));
            reader->at++;
        }
    }
    if (*reader->at != ',' && *reader->at != '\0') {
        return refuse(reader, "this does not belong into a host's name");
    }
    return reader->at > start ? DDP_OK : refuse(reader, "a host's name is expected");
}

ddp_status ddp_node_list_first(const char *list, char *host, size_t size_bytes, struct ddp_err *err)
{
    struct reader reader = {.list = list,
                            .at = list,
                            .host = host,
                            .size_bytes = size_bytes,
                            .is_first = true,
                            .err = err};

    DDP_ASSERT(size_bytes > 0);
    DDP_TRY(read_host(&reader));
    host[reader.used_bytes] = '\0';
    reader.is_first = false;
    while (*reader.at == ',') {
        reader.at++;
        DDP_TRY(read_host(&reader));
    }
    return DDP_OK;
}
