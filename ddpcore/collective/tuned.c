/* Purpose: the file of what was learned: read strictly, since a wrong line would make every job
 * slow and nobody would know why.
 * Form: a line that says what it is, one that names the machine, and one for each choice:
 *   ddprove collectives 1
 *   machine AMD EPYC 7B13, 2 cores, L3 32768K, ddprove 0.9
 *   ranks 2 bytes 4096 algorithm recursive_doubling segment 0
 * The last choice of a world holds for all larger sizes. */
#include "ddpcore/collective/tuned.h"

#include <sched.h>
#include <stdio.h>
#include <string.h>

#define HEAD "ddprove collectives 1"
enum { FILE_BYTES_MAX = 1 << 16, LINE_MAX_BYTES = 320 };

/* --- machine ---------------------------------------------------------------------------------- */

/* The rest of the first line that begins with `key`, without what is around it; "unknown": there is
 * none. A comma would end the field it is in. */
static void find_line(const char *path, const char *key, char *out, size_t size_bytes)
{
    FILE *file = fopen(path, "re");
    char line[LINE_MAX_BYTES];

    (void)snprintf(out, size_bytes, "unknown");
    while (file != NULL && fgets(line, sizeof line, file) != NULL) {
        if (strncmp(line, key, strlen(key)) == 0) {
            const char *value = line + strlen(key);

            value += strspn(value, " \t:");
            (void)snprintf(out, size_bytes, "%.*s", (int)strcspn(value, "\n,"), value);
            break;
        }
    }
    if (file != NULL) {
        (void)fclose(file);
    }
}

void ddp_tuned_machine(char *out, size_t size_bytes)
{
    char processor[100], cache[32];
    cpu_set_t cores;
    int core_count = 1;

    find_line("/proc/cpuinfo", "model name", processor, sizeof processor);
    find_line("/sys/devices/system/cpu/cpu0/cache/index3/size", "", cache, sizeof cache);
    if (sched_getaffinity(0, sizeof cores, &cores) == 0) {
        core_count = CPU_COUNT(&cores);
    }
    (void)snprintf(out, size_bytes, "%s, %d cores, L3 %s, ddprove %s", processor, core_count, cache,
                   DDPROVE_VERSION);
}

/* --- text ------------------------------------------------------------------------------------- */

void ddp_tuned_print(const struct ddp_tuned *tuned, struct ddp_text *out)
{
    ddp_text_add(out, HEAD "\nmachine %s\n", tuned->machine);
    for (size_t w = 0; w < tuned->world_count; w++) {
        for (size_t i = 0; i < tuned->world[w].choice_count; i++) {
            const struct ddp_coll_choice *choice = &tuned->world[w].choice[i];

            ddp_text_add(out, "ranks %u bytes %zu algorithm %s segment %zu\n",
                         tuned->world[w].ranks, choice->bytes_max,
                         ddp_algorithm_name(choice->algorithm), choice->segment_bytes);
        }
    }
}

/* The next word of a line, which must be `key` if that is not NULL. NULL: it is not there. */
static char *take_word(char **line, const char *key)
{
    char *word = strsep(line, " ");

    return word != NULL && word[0] != '\0' && (key == NULL || strcmp(word, key) == 0) ? word : NULL;
}

static bool take_number(char **line, const char *key, uint64_t most, uint64_t *out)
{
    const char *word = take_word(line, key) != NULL ? take_word(line, NULL) : NULL;

    return word != NULL && ddp_text_parse_u64(word, out) == DDP_OK && *out <= most;
}

static ddp_status parse_choice(char *line, struct ddp_tuned *out, struct ddp_err *err)
{
    struct ddp_coll_choice choice = {0};
    struct ddp_tuned_world *world = NULL;
    const char *name;
    uint64_t ranks, bytes, segment;

    if (!take_number(&line, "ranks", UINT32_MAX, &ranks) || ranks == 0 ||
        !take_number(&line, "bytes", SIZE_MAX / 2, &bytes) ||
        take_word(&line, "algorithm") == NULL || (name = take_word(&line, NULL)) == NULL ||
        !take_number(&line, "segment", SIZE_MAX / 2, &segment) || line != NULL) {
        return ddp_err_set(err, DDP_E_PARSE,
                           "a choice is \"ranks N bytes N algorithm NAME segment N\"");
    }
    if (ddp_algorithm_parse(name, DDP_COLL_ALL_REDUCE, &choice.algorithm) != DDP_OK) {
        return ddp_err_set(err, DDP_E_PARSE, "there is no all-reduce \"%.40s\"", name);
    }
    choice.bytes_max = (size_t)bytes;
    choice.segment_bytes = (size_t)segment;
    if (out->world_count > 0 && out->world[out->world_count - 1].ranks > ranks) {
        return ddp_err_set(err, DDP_E_PARSE, "choices are in order of ranks");
    }
    if (out->world_count == 0 || out->world[out->world_count - 1].ranks != ranks) {
        if (out->world_count == DDP_TUNED_WORLDS_MAX) {
            return ddp_err_set(err, DDP_E_PARSE, "more than %u worlds", DDP_TUNED_WORLDS_MAX);
        }
        out->world[out->world_count++] = (struct ddp_tuned_world){.ranks = (uint32_t)ranks};
    }
    world = &out->world[out->world_count - 1];
    if (world->choice_count == DDP_TUNED_CHOICES_MAX ||
        (world->choice_count > 0 &&
         world->choice[world->choice_count - 1].bytes_max >= choice.bytes_max)) {
        return ddp_err_set(err, DDP_E_PARSE,
                           "choices are in order of bytes, at most %u for a world",
                           DDP_TUNED_CHOICES_MAX);
    }
    world->choice[world->choice_count++] = choice;
    return DDP_OK;
}

static ddp_status parse_line(size_t number, char *line, struct ddp_tuned *out, struct ddp_err *err)
{
    static const char machine[] = "machine ";

    if (number == 1) {
        return strcmp(line, HEAD) == 0
                   ? DDP_OK
                   : ddp_err_set(err, DDP_E_PARSE, "it does not begin with \"%s\"", HEAD);
    }
    if (number == 2) {
        if (strncmp(line, machine, sizeof machine - 1) != 0 ||
            strlen(line) - (sizeof machine - 1) >= sizeof out->machine) {
            return ddp_err_set(err, DDP_E_PARSE, "the second line names the machine");
        }
        memcpy(out->machine, line + sizeof machine - 1, strlen(line) - (sizeof machine - 1) + 1);
        return DDP_OK;
    }
    return parse_choice(line, out, err);
}

ddp_status ddp_tuned_parse(const char *text, struct ddp_tuned *out, struct ddp_err *err)
{
    char line[LINE_MAX_BYTES];
    size_t number = 0;

    memset(out, 0, sizeof *out);
    while (*text != '\0') {
        size_t size = strcspn(text, "\n");
        ddp_status status = DDP_E_PARSE;

        number++;
        if (text[size] != '\n' || size >= sizeof line) {
            return ddp_err_set(err, DDP_E_PARSE, "line %zu: it %s", number,
                               size >= sizeof line ? "is too long" : "has no end");
        }
        memcpy(line, text, size);
        line[size] = '\0';
        status = parse_line(number, line, out, err);
        if (status != DDP_OK) {
            return ddp_err_wrap(err, status, "line %zu", number);
        }
        text += size + 1;
    }
    return number >= 2 ? DDP_OK : ddp_err_set(err, DDP_E_PARSE, "line %zu: it ends here", number);
}

/* --- file ------------------------------------------------------------------------------------- */

ddp_status ddp_tuned_read(struct ddp_files *files, const char *path, const char *machine,
                          struct ddp_tuned *out, struct ddp_err *err)
{
    void *data = NULL;
    size_t size = 0;
    ddp_status status = files->ops->read_all(files, path, ddp_mem_system(), &data, &size, err);

    if (status == DDP_E_NOT_FOUND) {
        return ddp_err_set(err, status, "%s is not there; ddprove coll tune learns it", path);
    }
    DDP_TRY(status);
    status = strlen(data) == size ? ddp_tuned_parse(data, out, err)
                                  : ddp_err_set(err, DDP_E_PARSE, "it has a zero byte");
    ddp_mem_free(ddp_mem_system(), data);
    if (status != DDP_OK) {
        return ddp_err_wrap(err, status, "%s (ddprove coll tune --anew writes it again)", path);
    }
    if (strcmp(out->machine, machine) != 0) {
        return ddp_err_set(err, DDP_E_STATE,
                           "%s was learned on \"%s\", this is \"%s\"; ddprove coll tune --anew "
                           "learns it here",
                           path, out->machine, machine);
    }
    return DDP_OK;
}

/* --- choices ---------------------------------------------------------------------------------- */

const struct ddp_tuned_world *ddp_tuned_find(const struct ddp_tuned *tuned, uint32_t ranks)
{
    for (size_t i = 0; i < tuned->world_count; i++) {
        if (tuned->world[i].ranks == ranks) {
            return &tuned->world[i];
        }
    }
    return NULL;
}

ddp_status ddp_tuned_put(struct ddp_tuned *tuned, const struct ddp_tuned_world *world)
{
    size_t at = 0;

    while (at < tuned->world_count && tuned->world[at].ranks < world->ranks) {
        at++;
    }
    if (at == tuned->world_count || tuned->world[at].ranks != world->ranks) {
        if (tuned->world_count == DDP_TUNED_WORLDS_MAX) {
            return DDP_E_OVERFLOW;
        }
        memmove(&tuned->world[at + 1], &tuned->world[at],
                (tuned->world_count - at) * sizeof(tuned->world[0]));
        tuned->world_count++;
    }
    tuned->world[at] = *world;
    return DDP_OK;
}
