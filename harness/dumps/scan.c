#include "harness/dumps/scan.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

static void skip_space(const char **at)
{
    while (isspace((unsigned char)**at) != 0) {
        (*at)++;
    }
}

bool harness_scan_text(const char **at, const char *text)
{
    for (; *text != '\0'; text++) {
        if (*text == ' ') {
            skip_space(at);
        } else if (**at == *text) {
            (*at)++;
        } else {
            return false;
        }
    }
    return true;
}

bool harness_scan_i64(const char **at, int64_t *out)
{
    char *end = NULL;
    long long number;

    errno = 0;
    number = strtoll(*at, &end, 10);
    if (end == *at || errno != 0) {
        return false;
    }
    *at = end;
    *out = number;
    return true;
}

/* strtoull takes a sign, and wraps around. */
static bool scan_digits(const char **at, int base, uint64_t *out)
{
    char *end = NULL;
    unsigned long long number;

    errno = 0;
    number = strtoull(*at, &end, base);
    if (end == *at || errno != 0) {
        return false;
    }
    *at = end;
    *out = number;
    return true;
}

bool harness_scan_u64(const char **at, uint64_t *out)
{
    skip_space(at);
    return isdigit((unsigned char)**at) != 0 && scan_digits(at, 10, out);
}

bool harness_scan_hex(const char **at, uint64_t *out)
{
    return isxdigit((unsigned char)**at) != 0 && scan_digits(at, 16, out);
}

static bool take(const char **at, size_t size, char *out, size_t out_bytes)
{
    if (size == 0 || size >= out_bytes) {
        return false;
    }
    memcpy(out, *at, size);
    out[size] = '\0';
    *at += size;
    return true;
}

bool harness_scan_of(const char **at, const char *letters, char *out, size_t out_bytes)
{
    return take(at, strspn(*at, letters), out, out_bytes);
}

bool harness_scan_until(const char **at, const char *stops, char *out, size_t out_bytes)
{
    return take(at, strcspn(*at, stops), out, out_bytes);
}

bool harness_scan_skip_word(const char **at)
{
    const char *word;

    skip_space(at);
    word = *at;
    while (**at != '\0' && isspace((unsigned char)**at) == 0) {
        (*at)++;
    }
    return *at > word;
}
