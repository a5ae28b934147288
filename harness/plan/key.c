/* key.def as a table, and the choices that decide which keys mean something. */
#include "harness/plan/key.h"

#include <stddef.h>
#include <string.h>

#include "harness/plan/plan.h"

/* The parser sets a section that may be absent through its first member. */
#define FIRST_IS_SET(type) _Static_assert(offsetof(type, is_set) == 0, "is_set comes first")
FIRST_IS_SET(struct harness_guest);
FIRST_IS_SET(struct harness_join);
FIRST_IS_SET(struct harness_mixed);
FIRST_IS_SET(struct harness_restore);
FIRST_IS_SET(struct harness_io_fault);
FIRST_IS_SET(struct harness_expect_op);
FIRST_IS_SET(struct harness_survivors);
FIRST_IS_SET(struct harness_expect_restore);
FIRST_IS_SET(struct harness_canary);

/* `of` is the name of a list or of a section; which, the type says. */
enum {
#define X(id, ...) OF_##id = HARNESS_NAMES_##id,
    HARNESS_NAMES_TABLE(X) HARNESS_KIND_NAMES_TABLE(X)
#undef X
#define X(id, ...) OF_##id = HARNESS_SECTION_##id,
        HARNESS_SECTION_TABLE(X)
#undef X
};

#define X(id, title, kept) typedef kept section_##id;
HARNESS_SECTION_TABLE(X)
#undef X

static const struct harness_key keys[HARNESS_ROW_COUNT] = {
#define KEY(section, key, c_type, member, type, of, lo, hi, fallback, doc) \
    {HARNESS_SECTION_##section,                                            \
     HARNESS_KEY_##type,                                                   \
     OF_##of,                                                              \
     #key,                                                                 \
     offsetof(section_##section, member),                                  \
     sizeof(((section_##section *)0)->member),                             \
     lo,                                                                   \
     hi,                                                                   \
     fallback,                                                             \
     doc},
#define KEY_BARE(section, key, type, doc) \
    {HARNESS_SECTION_##section, HARNESS_KEY_##type, OF_NONE, #key, 0, 0, 0, 0, "", doc},
#include "harness/plan/key.def"
};

const struct harness_key *harness_key(enum harness_row row)
{
    DDP_ASSERT((unsigned)row < HARNESS_ROW_COUNT);
    return &keys[row];
}

const char *harness_section_title(enum harness_section section)
{
    static const char *const titles[HARNESS_SECTION_COUNT] = {
#define X(id, title, kept) title,
        HARNESS_SECTION_TABLE(X)
#undef X
    };

    DDP_ASSERT((unsigned)section < HARNESS_SECTION_COUNT);
    return titles[section];
}

const char *harness_key_type_text(enum harness_key_type type)
{
    static const char *const texts[HARNESS_KEY_TYPE_COUNT] = {
#define X(id, text) text,
        HARNESS_KEY_TYPE_TABLE(X)
#undef X
    };

    DDP_ASSERT((unsigned)type < HARNESS_KEY_TYPE_COUNT);
    return texts[type];
}

#define VARIANT(id, name, takes, meaning) {name, takes, meaning},
static const struct harness_variant optimizers[] = {HARNESS_OPTIMIZER_TABLE(VARIANT)};
static const struct harness_variant corrupts[] = {HARNESS_CORRUPT_TABLE(VARIANT)};
static const struct harness_variant edits[] = {HARNESS_EDIT_TABLE(VARIANT)};
static const struct harness_variant actions[] = {
#define ACTION_PLAIN(id, takes, where, key, meaning) {#key, takes, meaning},
#define ACTION(id, takes, where, key, c_type, member, type, of, lo, hi, meaning) \
    {#key, takes, meaning},
#include "harness/plan/key.def"
};

const struct harness_variant *harness_variants(enum harness_names list, size_t *out_count)
{
#define LIST(id, array)                              \
    case HARNESS_NAMES_##id:                         \
        *out_count = sizeof(array) / sizeof(*array); \
        return array;
    switch (list) {
        LIST(OPTIMIZERS, optimizers)
        LIST(ACTIONS, actions)
        LIST(CORRUPTS, corrupts)
        LIST(EDITS, edits)
    default:
        *out_count = 0;
        return NULL;
    }
#undef LIST
}

static bool has_word(const char *words, const char *word)
{
    size_t size_bytes = strlen(word);

    while (*words != '\0') {
        size_t length = strcspn(words, " ");

        if (length == size_bytes && memcmp(words, word, length) == 0) {
            return true;
        }
        words += length;
        words += strspn(words, " ");
    }
    return false;
}

static bool is_taken_in(enum harness_names list, const char *key)
{
    size_t count;
    const struct harness_variant *variants = harness_variants(list, &count);

    for (size_t i = 0; i < count; i++) {
        if (has_word(variants[i].keys, key)) {
            return true;
        }
    }
    return false;
}

bool harness_key_is_chosen(const struct harness_key *key)
{
    switch (key->section) {
    case HARNESS_SECTION_OPTIMIZER:
        return is_taken_in(HARNESS_NAMES_OPTIMIZERS, key->key);
    case HARNESS_SECTION_RESTORE:
        return is_taken_in(HARNESS_NAMES_EDITS, key->key);
    case HARNESS_SECTION_DO:
        return true;
    default:
        return false;
    }
}

const struct harness_variant *harness_section_variant(enum harness_section section,
                                                      const void *kept,
                                                      enum harness_names *out_list)
{
    const struct harness_action *action = kept;

    switch (section) {
    case HARNESS_SECTION_OPTIMIZER:
        *out_list = HARNESS_NAMES_OPTIMIZERS;
        return &optimizers[((const struct harness_optimizer *)kept)->kind];
    case HARNESS_SECTION_RESTORE:
        *out_list = HARNESS_NAMES_EDITS;
        return &edits[((const struct harness_restore *)kept)->edit];
    case HARNESS_SECTION_DO:
        if (action->kind == HARNESS_ACTION_CORRUPT) {
            *out_list = HARNESS_NAMES_CORRUPTS;
            return &corrupts[action->corrupt];
        }
        *out_list = HARNESS_NAMES_ACTIONS;
        return &actions[action->kind];
    default:
        return NULL;
    }
}

bool harness_key_is_of_guest(const struct harness_key *key)
{
    DDP_ASSERT(key->section == HARNESS_SECTION_JOB);
    return has_word("guest ranks steps timeout_ms", key->key);
}

/* A guest that announces no steps states none. */
static bool applies_to_job(const struct harness_key *key, const struct harness_job *job)
{
    return !job->guest.is_set ||
           (harness_key_is_of_guest(key) && (job->steps > 0 || strcmp(key->key, "steps") != 0));
}

bool harness_key_applies(const struct harness_key *key, const void *kept)
{
    enum harness_names list;

    if (key->section == HARNESS_SECTION_JOB) {
        return applies_to_job(key, kept);
    }

    if (!harness_key_is_chosen(key)) {
        return true;
    }
    if (key->section == HARNESS_SECTION_DO &&
        strcmp(key->key, actions[((const struct harness_action *)kept)->kind].name) == 0) {
        return true; /* the action's own key */
    }
    return has_word(harness_section_variant(key->section, kept, &list)->keys, key->key);
}
