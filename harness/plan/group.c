/* See the header. */
#include "harness/plan/group.h"

#include <stdio.h>
#include <string.h>

#include "ddpcore/base/hash.h"
#include "ddpcore/base/text.h"

static ddp_status refuse(const char *text, const char *why, struct ddp_err *err)
{
    return ddp_err_set(err, DDP_E_PARSE,
                       "\"%.80s\": %s; a name and the ranks, rising, as in \"pair 0 2\"", text,
                       why);
}

static bool is_name_char(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_';
}

/* The next word of *at, which goes behind it; false: there is none, or it is too long. */
static bool take(const char **at, char *out, size_t out_bytes)
{
    size_t size_bytes;

    *at += strspn(*at, " ");
    size_bytes = strcspn(*at, " ");
    if (size_bytes == 0 || size_bytes >= out_bytes) {
        return false;
    }
    memcpy(out, *at, size_bytes);
    out[size_bytes] = '\0';
    *at += size_bytes;
    return true;
}

ddp_status harness_group_parse(const char *text, struct harness_group *out, struct ddp_err *err)
{
    const char *at = text;
    char word[HARNESS_GROUP_NAME_BYTES];
    char whole[HARNESS_GROUP_NAME_BYTES + 16];

    memset(out, 0, sizeof *out);
    if (!take(&at, out->name, sizeof out->name)) {
        return refuse(text, "the name is missing or too long", err);
    }
    for (const char *c = out->name; *c != '\0'; c++) {
        if (!is_name_char(*c)) {
            return refuse(text, "a name has letters a to z, digits and _", err);
        }
    }
    while (*(at += strspn(at, " ")) != '\0') {
        uint64_t rank = 0;

        if (out->rank_count == HARNESS_GROUP_RANKS_MAX) {
            return refuse(text, "at most 64 ranks", err);
        }
        if (!take(&at, word, sizeof word) || ddp_text_parse_u64(word, &rank) != DDP_OK ||
            rank > UINT32_MAX) {
            return refuse(text, "a rank is a number", err);
        }
        if (out->rank_count > 0 && rank <= out->ranks[out->rank_count - 1]) {
            return refuse(text, "ranks must rise", err);
        }
        out->ranks[out->rank_count++] = (uint32_t)rank;
    }
    if (out->rank_count == 0) {
        return refuse(text, "no ranks", err);
    }
    (void)snprintf(whole, sizeof whole, "group/%s", out->name);
    out->comm = ddp_hash_text(whole) | 1;
    return DDP_OK;
}

uint32_t harness_group_member(const struct harness_group *group, uint32_t rank)
{
    for (uint32_t i = 0; i < group->rank_count; i++) {
        if (group->ranks[i] == rank) {
            return i;
        }
    }
    return group->rank_count;
}
