/* Results files: printing, reading, sorting. */
#include "harness/campaign/lines.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ddpcore/base/file.h"
#include "ddpcore/base/hash.h"

void harness_campaign_head_of(const struct harness_campaign_config *config,
                              struct harness_campaign_head *out)
{
    const struct harness_campaign *campaign = config->campaign;

    memset(out, 0, sizeof *out);
    (void)snprintf(out->name, sizeof out->name, "%s", campaign->name);
    out->hash = campaign->hash;
    out->seed = campaign->seed;
    out->case_count = campaign->case_count;
    out->shard = config->shard;
    out->shard_count = config->shard_count;
    for (unsigned driver = 0; driver < HARNESS_DRIVER_COUNT; driver++) {
        size_t used = strlen(out->drivers);

        if (campaign->is_driver[driver]) {
            (void)snprintf(out->drivers + used, sizeof out->drivers - used, "%s%s",
                           used > 0 ? "+" : "", harness_driver_name((enum harness_driver)driver));
        }
    }
}

bool harness_campaign_head_is_same(const struct harness_campaign_head *a,
                                   const struct harness_campaign_head *b)
{
    return strcmp(a->name, b->name) == 0 && a->hash == b->hash && a->seed == b->seed &&
           a->case_count == b->case_count && strcmp(a->drivers, b->drivers) == 0;
}

unsigned harness_campaign_head_drivers(const struct harness_campaign_head *head)
{
    return strchr(head->drivers, '+') != NULL ? 2 : 1;
}

void harness_campaign_head_print(const struct harness_campaign_head *head, struct ddp_text *out)
{
    ddp_text_add(out,
                 "# ddprove campaign 1 name %s file %016" PRIx64 " seed %" PRIu64 " cases %" PRIu64
                 " drivers %s",
                 head->name, head->hash, head->seed, head->case_count, head->drivers);
    if (head->shard_count > 0) {
        ddp_text_add(out, " shard %" PRIu32 "/%" PRIu32, head->shard, head->shard_count);
    }
    ddp_text_add(out, "\n");
}

/* The word behind the label that *rest begins with; *rest goes on behind it, NULL at the line's
 * end. NULL: there is no such label. */
static char *word_after(char **rest, const char *label)
{
    size_t size = strlen(label);

    if (*rest == NULL || strncmp(*rest, label, size) != 0) {
        return NULL;
    }
    *rest += size;
    return strsep(rest, " ");
}

static bool parse_word(const char *word, char *out, size_t size_bytes)
{
    if (word == NULL || *word == '\0' || strlen(word) >= size_bytes) {
        return false;
    }
    (void)snprintf(out, size_bytes, "%s", word);
    return true;
}

static bool parse_u64(const char *word, uint64_t *out)
{
    return word != NULL && ddp_text_parse_u64(word, out) == DDP_OK;
}

static bool parse_hash(const char *word, uint64_t *out)
{
    return word != NULL && ddp_text_parse_hex(word, 16, out) == DDP_OK;
}

/* word: "1/4", or NULL. It is cut at the slash. */
static bool parse_shard(char *word, struct harness_campaign_head *out)
{
    uint64_t shard = 0;
    uint64_t count = 0;

    if (!parse_u64(strsep(&word, "/"), &shard) || !parse_u64(word, &count) || count > UINT32_MAX ||
        shard >= count) {
        return false;
    }
    out->shard = (uint32_t)shard;
    out->shard_count = (uint32_t)count;
    return true;
}

/* line: NUL-terminated, without its newline; it is cut into words. */
static bool parse_head(char *line, struct harness_campaign_head *out)
{
    memset(out, 0, sizeof *out);
    return parse_word(word_after(&line, "# ddprove campaign 1 name "), out->name,
                      sizeof out->name) &&
           parse_hash(word_after(&line, "file "), &out->hash) &&
           parse_u64(word_after(&line, "seed "), &out->seed) &&
           parse_u64(word_after(&line, "cases "), &out->case_count) &&
           parse_word(word_after(&line, "drivers "), out->drivers, sizeof out->drivers) &&
           parse_shard(word_after(&line, "shard "), out) && line == NULL;
}

void harness_campaign_line_print(const struct harness_campaign_result *result, struct ddp_text *out)
{
    char line[HARNESS_CAMPAIGN_LINE_MAX];
    int size = snprintf(line, sizeof line, "%08" PRIu64 " %s %016" PRIx64 " %s %s", result->number,
                        harness_driver_name(result->driver), result->plan_hash,
                        harness_outcome_name(result->outcome), result->text);

    DDP_ASSERT(size > 0 && (size_t)size < sizeof line && strchr(line, '\n') == NULL);
    ddp_text_add(out, "%s #%08" PRIx64 "\n", line,
                 ddp_hash_bytes(line, (size_t)size, 0) & UINT64_C(0xffffffff));
}

/* Cut the checksum off a line. False: it is not the line's. */
static bool take_checksum(char *line)
{
    char *mark = strrchr(line, '#');
    uint64_t sum = 0;

    if (mark == NULL || mark == line || mark[-1] != ' ' ||
        ddp_text_parse_hex(mark + 1, 8, &sum) != DDP_OK) {
        return false;
    }
    mark[-1] = '\0';
    return (ddp_hash_bytes(line, strlen(line), 0) & UINT64_C(0xffffffff)) == sum;
}

/* line: as parse_head's. Its text, behind the last of the words, may be empty. */
static bool parse_line(char *line, struct harness_campaign_result *out)
{
    const char *driver;
    const char *outcome;

    memset(out, 0, sizeof *out);
    if (!take_checksum(line) || !parse_u64(strsep(&line, " "), &out->number)) {
        return false;
    }
    driver = strsep(&line, " ");
    if (driver == NULL || !parse_hash(strsep(&line, " "), &out->plan_hash)) {
        return false;
    }
    outcome = strsep(&line, " ");
    if (outcome == NULL || line == NULL || strlen(line) >= sizeof out->text) {
        return false;
    }
    (void)snprintf(out->text, sizeof out->text, "%s", line);
    return harness_driver_parse(driver, &out->driver) == DDP_OK &&
           harness_outcome_parse(outcome, &out->outcome) == DDP_OK;
}

static ddp_status keep(struct harness_campaign_lines *lines,
                       const struct harness_campaign_result *result)
{
    struct harness_campaign_result *grown = ddp_mem_grow(lines->mem, lines->items, lines->count,
                                                         &lines->capacity, sizeof *lines->items);

    if (grown == NULL) {
        return DDP_E_NOMEM;
    }
    lines->items = grown;
    lines->items[lines->count++] = *result;
    return DDP_OK;
}

ddp_status harness_campaign_lines_read(struct harness_campaign_lines *lines, const char *path,
                                       struct harness_campaign_head *out_head,
                                       size_t *out_good_bytes, struct ddp_err *err)
{
    struct ddp_files *files = ddp_files_system();
    void *data = NULL;
    size_t size_bytes = 0;
    char *text;
    char *end;

    *out_good_bytes = 0;
    DDP_TRY(files->ops->read_all(files, path, lines->mem, &data, &size_bytes, err));
    text = data;
    while ((end = strchr(text, '\n')) != NULL) {
        struct harness_campaign_result result;
        size_t at = (size_t)(text - (char *)data);

        *end = '\0';
        if (at == 0) {
            if (!parse_head(text, out_head)) {
                return ddp_err_set(err, DDP_E_PARSE, "%s:1: not a campaign's results", path);
            }
        } else if (!parse_line(text, &result)) {
            return ddp_err_set(err, DDP_E_PARSE, "%s: byte %zu: the line is damaged", path, at);
        } else {
            DDP_TRY(keep(lines, &result));
        }
        text = end + 1;
        *out_good_bytes = (size_t)(text - (char *)data);
    }
    return *out_good_bytes > 0
               ? DDP_OK
               : ddp_err_set(err, DDP_E_PARSE, "%s:1: not a campaign's results", path);
}

static int compare(const void *left, const void *right)
{
    const struct harness_campaign_result *a = left;
    const struct harness_campaign_result *b = right;

    if (a->number != b->number) {
        return a->number < b->number ? -1 : 1;
    }
    return (int)a->driver - (int)b->driver;
}

static bool is_same_answer(const struct harness_campaign_result *a,
                           const struct harness_campaign_result *b)
{
    return a->plan_hash == b->plan_hash && a->outcome == b->outcome &&
           strcmp(a->text, b->text) == 0;
}

ddp_status harness_campaign_lines_sort(struct harness_campaign_lines *lines, struct ddp_err *err)
{
    size_t kept = 0;

    if (lines->count == 0) {
        return DDP_OK;
    }
    qsort(lines->items, lines->count, sizeof *lines->items, compare);
    for (size_t i = 1; i < lines->count; i++) {
        if (compare(&lines->items[kept], &lines->items[i]) != 0) {
            lines->items[++kept] = lines->items[i];
        } else if (!is_same_answer(&lines->items[kept], &lines->items[i])) {
            return ddp_err_set(err, DDP_E_STATE,
                               "case %" PRIu64 " on %s has two answers: \"%s\" and \"%s\"",
                               lines->items[i].number, harness_driver_name(lines->items[i].driver),
                               lines->items[kept].text, lines->items[i].text);
        }
    }
    lines->count = kept + 1;
    return DDP_OK;
}
