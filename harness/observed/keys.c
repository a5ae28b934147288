/* Purpose: the keys of state dicts that are saved and loaded, against the model's own.
 * Idea: DDP puts `module.` in front of every name. A key is one of the model's if it is one of its
 * names behind that, however often it stands there. What is loaded has to have it as often as the
 * module that it is loaded into; what is saved, as often as the model itself, or once more, as the
 * program likes. */
#include <stdlib.h>
#include <string.h>

#include "ddpcore/seam/phase.h"
#include "harness/guest/ddprove_guest.h"
#include "harness/observed/internal.h"
#include "harness/watch/analyse.h"

enum { PREFIXES_MAX = 4 };
static const char prefix[] = "module.";

/* What a rank saved or loaded. */
struct dict {
    uint32_t rank, step;
    enum ddprove_guest_keys_of what;
    const char **keys, **names; /* sorted names: the model's, bare */
    size_t key_count, name_count;
    unsigned wanted; /* how often `module.` stands in front of the names of the module itself */
    unsigned had;    /* and of most of the keys */
    size_t missing, unexpected;
    const char *first_missing, *first_unexpected;
};

static int compare(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static const char *strip(const char *key, unsigned times)
{
    for (; times > 0 && key != NULL; times--) {
        key = strncmp(key, prefix, sizeof prefix - 1) == 0 ? key + sizeof prefix - 1 : NULL;
    }
    return key;
}

static const char *const *find(const struct dict *dict, const char *bare)
{
    return bare != NULL
               ? bsearch(&bare, dict->names, dict->name_count, sizeof *dict->names, compare)
               : NULL;
}

/* How often the prefix stands in front of most keys that are the model's; PREFIXES_MAX: hardly any
 * is. */
static unsigned count_prefixes(const struct dict *dict)
{
    unsigned best = PREFIXES_MAX;
    size_t most = dict->name_count / 2;

    for (unsigned c = 0; c < PREFIXES_MAX; c++) {
        size_t matched = 0;

        for (size_t k = 0; k < dict->key_count; k++) {
            matched += find(dict, strip(dict->keys[k], c)) != NULL;
        }
        if (matched > most) {
            most = matched;
            best = c;
        }
    }
    return best;
}

/* The module's names, from which what all of them begin with is taken away. */
static void strip_names(struct dict *dict)
{
    dict->wanted = 0;
    for (bool is_common = dict->name_count > 0; is_common && dict->wanted < PREFIXES_MAX - 1;) {
        for (size_t n = 0; n < dict->name_count; n++) {
            is_common = is_common && strip(dict->names[n], 1) != NULL;
        }
        for (size_t n = 0; is_common && n < dict->name_count; n++) {
            dict->names[n] = strip(dict->names[n], 1);
        }
        dict->wanted += is_common;
    }
    qsort(dict->names, dict->name_count, sizeof *dict->names, compare);
}

/* Keys that are not the model's, and names that no key is. */
static void match(struct dict *dict, bool *is_met)
{
    for (size_t k = 0; k < dict->key_count; k++) {
        const char *const *name = find(dict, strip(dict->keys[k], dict->had));

        if (name != NULL) {
            is_met[name - dict->names] = true;
        } else {
            dict->first_unexpected = dict->unexpected == 0 ? dict->keys[k] : dict->first_unexpected;
            dict->unexpected++;
        }
    }
    for (size_t n = 0; n < dict->name_count; n++) {
        if (!is_met[n]) {
            dict->first_missing = dict->missing == 0 ? dict->names[n] : dict->first_missing;
            dict->missing++;
        }
    }
}

static void begin(struct harness_observed *observed, const struct dict *dict,
                  enum harness_verdict verdict, struct harness_finding *finding)
{
    observed->are_loaded = observed->are_loaded || dict->what != DDPROVE_GUEST_SAVED;
    harness_finding_init(finding, ddp_mem_pool_mem(observed->pool), verdict,
                         HARNESS_ORACLE_CHECKPOINT, HARNESS_MODE_PROVABLE);
    harness_rank_set_add(&finding->culprits, dict->rank);
    finding->step = (int32_t)dict->step;
    finding->phase = DDP_PHASE_CHECKPOINT;
    harness_watch_say(finding, "rank %u %s keys ", dict->rank,
                      dict->what == DDPROVE_GUEST_SAVED ? "saves" : "loads");
}

static void say_prefix(struct harness_finding *finding, unsigned times)
{
    if (times == 0) {
        harness_watch_say(finding, "no prefix");
    }
    for (unsigned i = 0; i < times; i++) {
        harness_watch_say(finding, "%s", prefix);
    }
}

static void add_prefix(struct harness_observed *observed, const struct dict *dict)
{
    struct harness_finding finding;

    begin(observed, dict, HARNESS_VERDICT_CHECKPOINT_PREFIX, &finding);
    harness_watch_say(&finding, "with ");
    say_prefix(&finding, dict->had);
    harness_watch_say(&finding, " in front of the model's names");
    if (dict->what != DDPROVE_GUEST_SAVED) {
        harness_watch_say(&finding, ", and the module that they are loaded into has them with ");
        say_prefix(&finding, dict->wanted);
    }
    harness_findings_add(&observed->of_keys, &finding);
}

static void add_keys(struct harness_observed *observed, const struct dict *dict)
{
    struct harness_finding finding;

    begin(observed, dict, HARNESS_VERDICT_CHECKPOINT_KEYS, &finding);
    harness_watch_say(&finding, "that are not the model's: ");
    if (dict->missing > 0) {
        harness_watch_say(&finding, "%s%s", dict->first_missing,
                          dict->missing > 1 ? " and others are missing" : " is missing");
        observed_add_param(observed, dict->first_missing, &finding);
    }
    if (dict->unexpected > 0) {
        harness_watch_say(&finding, "%s%s %s", dict->missing > 0 ? "; " : "",
                          dict->first_unexpected,
                          dict->unexpected > 1 ? "and others are none of it" : "is none of it");
    }
    harness_findings_add(&observed->of_keys, &finding);
}

static void judge(struct harness_observed *observed, struct dict *dict, bool *is_met)
{
    strip_names(dict);
    dict->had = count_prefixes(dict);
    if (dict->had == PREFIXES_MAX) {
        observed->foreign_keys++; /* not this model's state */
        return;
    }
    observed->checkpoint.judged++;
    match(dict, is_met);
    if (dict->had < dict->wanted ||
        dict->had > dict->wanted + (dict->what == DDPROVE_GUEST_SAVED ? 1 : 0)) {
        add_prefix(observed, dict);
    } else if (dict->missing + dict->unexpected > 0 && dict->what != DDPROVE_GUEST_LOADED_PART) {
        add_keys(observed, dict);
    }
}

void observed_take_keys(struct harness_observed *observed, uint32_t rank,
                        const struct guest_entry *entry)
{
    const uint64_t key_count = entry->arg[1];
    const uint64_t name_count = entry->arg[2];
    const uint32_t *names = harness_watch_take_names(observed->watch, rank, key_count + name_count);
    struct dict dict = {.rank = rank,
                        .step = (uint32_t)entry->place,
                        .what = (enum ddprove_guest_keys_of)entry->arg[0],
                        .key_count = key_count,
                        .name_count = name_count};
    bool *is_met;

    if (names == NULL) {
        observed->foreign_keys++;
        return;
    }
    dict.keys = ddp_mem_array(observed->mem, key_count + name_count + 1, sizeof *dict.keys);
    is_met = ddp_mem_array(observed->mem, name_count + 1, sizeof *is_met);
    if (dict.keys != NULL && is_met != NULL) {
        dict.names = dict.keys + key_count;
        for (uint64_t i = 0; i < key_count + name_count; i++) {
            dict.keys[i] = observed->watch->names.items[names[i]];
        }
        judge(observed, &dict, is_met);
    } else {
        observed->is_failed = true;
    }
    ddp_mem_free(observed->mem, dict.keys);
    ddp_mem_free(observed->mem, is_met);
}

/* The rank may still come to the same. Whoever waits for a rank that has will not, before that one
 * goes on. */
static bool may_come(const struct harness_observed *observed, uint32_t rank)
{
    const struct harness_watch *watch = observed->watch;
    const struct harness_watch_rank *self = &watch->ranks[rank];
    bool may = self->is_attached && !self->is_detached && !harness_watch_is_gone(watch, rank);

    for (size_t i = 0; i < observed->of_keys.count; i++) {
        const struct harness_rank_set *told = &observed->of_keys.items[i].culprits;

        may = may && !harness_rank_set_has(told, rank) &&
              !harness_watch_needs(watch, rank, harness_rank_set_at(told, 0), NULL);
    }
    return may;
}

/* Ranks that load the same come to it one after the other. */
static bool is_ripe(const struct harness_observed *observed)
{
    for (uint32_t r = 0; observed->are_loaded && r < observed->watch->world_size; r++) {
        if (observed->watch->now_ns - observed->keys_ns < OBSERVED_KEYS_HOLD_NS &&
            may_come(observed, r)) {
            return false;
        }
    }
    return true;
}

void observed_judge_keys(struct harness_observed *observed, struct harness_findings *out)
{
    if (observed->of_keys.count == 0) {
        return;
    }
    observed->keys_ns = observed->keys_ns == 0 ? observed->watch->now_ns : observed->keys_ns;
    if (!is_ripe(observed)) {
        return;
    }
    for (size_t i = 0; i < observed->of_keys.count; i++) {
        struct harness_finding *first = &observed->of_keys.items[i];
        bool is_first = true;

        for (size_t k = 0; k < i; k++) {
            is_first = is_first && observed->of_keys.items[k].verdict != first->verdict;
        }
        for (size_t k = i + 1; is_first && k < observed->of_keys.count; k++) {
            if (observed->of_keys.items[k].verdict == first->verdict) {
                harness_rank_set_add_all(&first->culprits, &observed->of_keys.items[k].culprits);
            }
        }
        if (is_first) {
            harness_findings_add(out, first);
        }
    }
    observed->of_keys.count = 0;
    observed->keys_ns = 0;
    observed->are_loaded = false;
}
