/* What each rank says that its buckets hold, and names, which are kept once for all ranks. */
#include <string.h>

#include "ddpcore/base/hash.h"
#include "harness/watch/read.h"

/* More than these are not taken for parameters, buckets and models. */
enum { NAMES_MAX = 1 << 20, MODELS_MAX = 1 << 12 };

/* A bucket of a rank, as it told it last. */
struct bucket {
    uint32_t model, bucket;
    const struct harness_watch_list *list;
};

struct harness_watch_told {
    struct bucket *buckets;
    size_t count, capacity;
    /* Names that were told and belong to nothing yet: indices into watch->names. */
    uint32_t *names;
    size_t name_count, name_capacity;
    char text[GUEST_TEXT_BYTES]; /* the last one, which may go on */
    bool is_open;                /* text is one, and not taken yet */
};

/* --- names and lists of all ranks
 * ------------------------------------------------------------------------------
 */

/* A place in the table of hashes: 1 + the name's index; 0: free. Twice as many as there are names,
 * at least. */
static bool grow_table(struct harness_watch *watch)
{
    struct harness_watch_names *names = &watch->names;
    const size_t size = names->table_size != 0 ? 2 * names->table_size : 64;
    uint32_t *table = ddp_mem_array(watch->mem, size, sizeof *table);

    if (table == NULL) {
        return false;
    }
    for (uint32_t i = 0; i < names->count; i++) {
        size_t at = ddp_hash_text(names->items[i]) & (size - 1);

        while (table[at] != 0) {
            at = (at + 1) & (size - 1);
        }
        table[at] = i + 1;
    }
    ddp_mem_free(watch->mem, names->table);
    names->table = table;
    names->table_size = size;
    return true;
}

bool harness_watch_name(struct harness_watch *watch, const char *text, uint32_t *out)
{
    struct harness_watch_names *names = &watch->names;
    char **items;
    size_t at;

    if (names->table_size < 2 * (size_t)(names->count + 1) && !grow_table(watch)) {
        return false;
    }
    at = ddp_hash_text(text) & (names->table_size - 1);
    while (names->table[at] != 0 && strcmp(names->items[names->table[at] - 1], text) != 0) {
        at = (at + 1) & (names->table_size - 1);
    }
    if (names->table[at] == 0) {
        items =
            ddp_mem_grow(watch->mem, names->items, names->count, &names->capacity, sizeof *items);
        if (items == NULL) {
            return false;
        }
        names->items = items;
        items[names->count] = ddp_mem_strdup(watch->mem, text);
        if (items[names->count] == NULL) {
            return false;
        }
        names->table[at] = ++names->count;
    }
    *out = names->table[at] - 1;
    return true;
}

const struct harness_watch_list *harness_watch_list_of(struct harness_watch *watch,
                                                       const uint32_t *params, uint32_t count)
{
    struct harness_watch_list *list = watch->lists;

    while (list != NULL &&
           (list->count != count || memcmp(list->params, params, count * sizeof *params) != 0)) {
        list = list->next;
    }
    if (list != NULL) {
        return list;
    }
    list = ddp_mem_array(watch->mem, 1, sizeof *list);
    if (list == NULL) {
        return NULL;
    }
    list->params = ddp_mem_array(watch->mem, count + 1, sizeof *list->params);
    list->texts = ddp_mem_array(watch->mem, count + 1, sizeof *list->texts);
    list->next = watch->lists;
    list->number = watch->lists != NULL ? watch->lists->number + 1 : 0;
    watch->lists = list;
    if (list->params == NULL || list->texts == NULL) {
        return NULL;
    }
    list->count = count;
    for (uint32_t i = 0; i < count; i++) {
        list->params[i] = params[i];
        list->texts[i] = watch->names.items[params[i]];
    }
    return list;
}

/* --- what a rank tells
 * -----------------------------------------------------------------------------------------
 */

/* A report of no use: what the rank told before may not be so any more. */
void harness_watch_forget_told(struct harness_watch *watch, uint32_t rank)
{
    struct harness_watch_told *told = watch->ranks[rank].told;

    if (told != NULL) {
        told->count = 0;
        told->name_count = 0;
        told->is_open = false;
    }
}

static struct harness_watch_told *told_of(struct harness_watch *watch, uint32_t rank)
{
    struct harness_watch_rank *self = &watch->ranks[rank];

    if (self->told == NULL) {
        self->told = ddp_mem_array(watch->mem, 1, sizeof *self->told);
        watch->is_failed = watch->is_failed || self->told == NULL;
    }
    return self->told;
}

/* The name that is under way is whole. */
static void take_open(struct harness_watch *watch, struct harness_watch_told *told)
{
    uint32_t *names;

    if (!told->is_open) {
        return;
    }
    told->is_open = false;
    names = ddp_mem_grow(watch->mem, told->names, told->name_count, &told->name_capacity,
                         sizeof *names);
    if (names == NULL) {
        watch->is_failed = true;
        return;
    }
    told->names = names;
    if (told->name_count < NAMES_MAX &&
        harness_watch_name(watch, told->text, &names[told->name_count])) {
        told->name_count++;
    }
}

void harness_watch_add_part(char text[GUEST_TEXT_BYTES], uint64_t part, const uint64_t *words)
{
    if (part == 0) {
        memset(text, 0, GUEST_TEXT_BYTES);
    }
    if (part < GUEST_TEXT_BYTES / GUEST_NAME_BYTES) {
        memcpy(text + part * GUEST_NAME_BYTES, words, GUEST_NAME_BYTES);
    }
    text[GUEST_TEXT_BYTES - 1] = '\0';
    for (char *c = text; *c != '\0'; c++) {
        if (*c == '\n' || *c == '\t') {
            *c = ' '; /* the record has lines */
        }
    }
}

void harness_watch_take_told_name(struct harness_watch *watch, uint32_t rank,
                                  const struct guest_entry *entry)
{
    struct harness_watch_told *told = told_of(watch, rank);
    const uint64_t part = entry->arg[0] >> 32;

    if (told == NULL) {
        return;
    }
    if (part == 0) {
        take_open(watch, told);
        if ((uint32_t)entry->arg[0] != told->name_count) {
            told->name_count = 0; /* some of those before are lost */
        }
        told->is_open = (uint32_t)entry->arg[0] == told->name_count;
    }
    if (told->is_open) {
        harness_watch_add_part(told->text, part, &entry->arg[1]);
    }
}

const uint32_t *harness_watch_take_names(struct harness_watch *watch, uint32_t rank, uint64_t count)
{
    struct harness_watch_told *told = told_of(watch, rank);
    bool is_whole;

    if (told == NULL) {
        return NULL;
    }
    take_open(watch, told);
    is_whole = told->name_count == count;
    told->name_count = 0;
    if (is_whole && told->names == NULL) {
        told->names = ddp_mem_grow(watch->mem, NULL, 0, &told->name_capacity, sizeof *told->names);
    }
    return is_whole ? told->names : NULL;
}

void harness_watch_take_bucket(struct harness_watch *watch, uint32_t rank,
                               const struct guest_entry *entry)
{
    const uint32_t *names = harness_watch_take_names(watch, rank, entry->arg[2]);
    struct harness_watch_told *told = watch->ranks[rank].told;
    const struct bucket bucket = {
        .model = (uint32_t)entry->arg[0],
        .bucket = (uint32_t)entry->arg[1],
        .list =
            names != NULL ? harness_watch_list_of(watch, names, (uint32_t)entry->arg[2]) : NULL};
    struct bucket *buckets;
    size_t i = 0;

    if (told == NULL || entry->arg[0] >= MODELS_MAX || entry->arg[1] >= NAMES_MAX) {
        return;
    }
    while (i < told->count &&
           (told->buckets[i].model != bucket.model || told->buckets[i].bucket != bucket.bucket)) {
        i++;
    }
    if (i == told->count) {
        buckets =
            ddp_mem_grow(watch->mem, told->buckets, told->count, &told->capacity, sizeof *buckets);
        if (buckets == NULL) {
            watch->is_failed = true;
            return;
        }
        told->buckets = buckets;
        told->count++;
    }
    told->buckets[i] = bucket;
}

const struct harness_watch_list *harness_watch_bucket_list(const struct harness_watch *watch,
                                                           uint32_t rank, uint64_t bucket)
{
    const struct harness_watch_told *told = watch->ranks[rank].told;

    for (size_t i = 0; (uint32_t)bucket != 0 && told != NULL && i < told->count; i++) {
        if (told->buckets[i].bucket + 1 == (uint32_t)bucket &&
            told->buckets[i].model == (uint32_t)(bucket >> 32)) {
            return told->buckets[i].list;
        }
    }
    return NULL;
}

void harness_watch_free_told(struct harness_watch *watch)
{
    for (uint32_t r = 0; watch->ranks != NULL && r < watch->world_size; r++) {
        if (watch->ranks[r].told != NULL) {
            ddp_mem_free(watch->mem, watch->ranks[r].told->buckets);
            ddp_mem_free(watch->mem, watch->ranks[r].told->names);
            ddp_mem_free(watch->mem, watch->ranks[r].told);
        }
    }
    while (watch->lists != NULL) {
        struct harness_watch_list *list = watch->lists;

        watch->lists = list->next;
        ddp_mem_free(watch->mem, list->params);
        ddp_mem_free(watch->mem, list->texts);
        ddp_mem_free(watch->mem, list);
    }
    for (uint32_t i = 0; i < watch->names.count; i++) {
        ddp_mem_free(watch->mem, watch->names.items[i]);
    }
    ddp_mem_free(watch->mem, watch->names.items);
    ddp_mem_free(watch->mem, watch->names.table);
}
