/* What DDP's "module." prefix does to keys: tells whether two sets of keys are the same, the same
 * with a prefix removed or added, mixed, or unrelated; renames keys to the expected names; and
 * PyTorch's own helper with its known problems.
 *
 * Removing the same prefix from every key cannot make two keys equal; treating keys differently
 * can, and is refused. */
#include <string.h>

#include "ddpcore/base/text.h"
#include "ddpcore/checkpoint/names.h"
#include "ddpcore/checkpoint/state_dict.h"

#define DDP_KEYS_NAMED_MAX 3

static size_t module_length(void)
{
    return strlen(DDP_PREFIX_MODULE);
}

/* How many times a name starts with "module.". */
static uint32_t prefix_depth(const char *name)
{
    uint32_t depth = 0;

    while (strncmp(name, DDP_PREFIX_MODULE, module_length()) == 0) {
        name += module_length();
        depth++;
    }
    return depth;
}

/* Key of the dict that a reading maps to an expected name: shift prefixes are taken from the
 * dict's keys (shift > 0), or put before them (shift < 0). */
static const struct ddp_tensor_entry *shifted_find(const struct ddp_state_dict *dict, int32_t shift,
                                                   const char *expected)
{
    if (shift >= 0) {
        return ddp_state_dict_find_prefixed(dict, (uint32_t)shift, expected);
    }
    if (prefix_depth(expected) < (uint32_t)-shift) {
        return NULL;
    }
    return ddp_state_dict_find(dict, expected + (size_t)-shift * module_length());
}

static size_t shifted_match_count(const struct ddp_state_dict *dict, int32_t shift,
                                  const char *const *expected, size_t expected_count)
{
    size_t matched_count = 0;

    for (size_t i = 0; i < expected_count; i++) {
        matched_count += shifted_find(dict, shift, expected[i]) != NULL ? 1 : 0;
    }
    return matched_count;
}

/* Does "key, shifted" equal expected? */
static bool is_shifted(const char *key, int32_t shift, const char *expected)
{
    const size_t length = module_length();

    if (shift >= 0) {
        return prefix_depth(key) >= (uint32_t)shift &&
               strcmp(key + (size_t)shift * length, expected) == 0;
    }
    return prefix_depth(expected) >= (uint32_t)-shift &&
           strcmp(expected + (size_t)-shift * length, key) == 0;
}

/* The n-th shift in order of preference: 0, 1, -1, 2, -2, ... */
static int32_t shift_candidate(uint32_t n)
{
    const int32_t magnitude = (int32_t)((n + 1) / 2);

    return n % 2 == 1 ? magnitude : -magnitude;
}

struct shift_range {
    uint32_t strip_max, add_max; /* prefixes that some key of one side carries, at most */
};

static struct shift_range shift_range_of(const struct ddp_state_dict *dict,
                                         const char *const *expected, size_t expected_count)
{
    struct shift_range range = {0};

    for (size_t i = 0; i < dict->entry_count; i++) {
        const uint32_t depth = prefix_depth(dict->entries[i].name);

        range.strip_max = depth > range.strip_max ? depth : range.strip_max;
    }
    for (size_t i = 0; i < expected_count; i++) {
        const uint32_t depth = prefix_depth(expected[i]);

        range.add_max = depth > range.add_max ? depth : range.add_max;
    }
    return range;
}

/* The expected name that a key reaches with the fewest prefixes changed, or expected_count. */
static size_t key_reach(const char *key, const struct shift_range *range,
                        const char *const *expected, size_t expected_count, int32_t *out_shift)
{
    const uint32_t magnitude =
        range->strip_max > range->add_max ? range->strip_max : range->add_max;

    for (uint32_t n = 0; n <= 2 * magnitude; n++) {
        const int32_t shift = shift_candidate(n);

        for (size_t i = 0; i < expected_count; i++) {
            if (is_shifted(key, shift, expected[i])) {
                *out_shift = shift;
                return i;
            }
        }
    }
    return expected_count;
}

/* Does another key than `key` reach expected[target] too? */
static bool is_reached_twice(const struct ddp_state_dict *dict, const char *key, size_t target,
                             const struct shift_range *range, const char *const *expected,
                             size_t expected_count)
{
    for (int32_t shift = -(int32_t)range->add_max; shift <= (int32_t)range->strip_max; shift++) {
        const struct ddp_tensor_entry *other = shifted_find(dict, shift, expected[target]);
        int32_t other_shift = 0;

        if (other != NULL && strcmp(other->name, key) != 0 &&
            key_reach(other->name, range, expected, expected_count, &other_shift) == target) {
            return true;
        }
    }
    return false;
}

/* No uniform reading makes the key sets equal: do the keys need different numbers of prefixes? */
static enum ddp_prefix_relation disagreement(const struct ddp_state_dict *dict,
                                             const struct shift_range *range,
                                             const char *const *expected, size_t expected_count)
{
    bool is_first = true, is_mixed = false;
    int32_t first_shift = 0;

    for (size_t i = 0; i < dict->entry_count; i++) {
        const char *key = dict->entries[i].name;
        int32_t shift = 0;
        const size_t target = key_reach(key, range, expected, expected_count, &shift);

        if (target == expected_count) {
            continue;
        }
        if (is_reached_twice(dict, key, target, range, expected, expected_count)) {
            return DDP_PREFIX_AMBIGUOUS;
        }
        is_mixed = is_mixed || (!is_first && shift != first_shift);
        first_shift = is_first ? shift : first_shift;
        is_first = false;
    }
    return is_mixed ? DDP_PREFIX_MIXED : DDP_PREFIX_UNRELATED;
}

void ddp_prefix_analyse(const struct ddp_state_dict *dict, const char *const *expected,
                        size_t expected_count, struct ddp_prefix_finding *out)
{
    const struct shift_range range = shift_range_of(dict, expected, expected_count);
    bool is_tied = false;

    memset(out, 0, sizeof(*out));
    for (size_t i = 0; i < dict->entry_count; i++) {
        out->with_prefix_count += prefix_depth(dict->entries[i].name) > 0 ? 1 : 0;
    }
    out->matched_count = shifted_match_count(dict, 0, expected, expected_count);
    for (int32_t shift = -(int32_t)range.add_max; shift <= (int32_t)range.strip_max; shift++) {
        const size_t matched_count =
            shift == 0 ? 0 : shifted_match_count(dict, shift, expected, expected_count);

        if (matched_count > 0 && matched_count == out->matched_count) {
            is_tied = true;
        } else if (matched_count > out->matched_count) {
            is_tied = false;
            out->matched_count = matched_count;
            out->best_shift = shift;
        }
    }
    out->missing_count = expected_count - out->matched_count;
    out->unexpected_count = dict->entry_count - out->matched_count;
    out->depth = (uint32_t)(out->best_shift < 0 ? -out->best_shift : out->best_shift);
    if (out->missing_count == 0 && out->unexpected_count == 0) {
        out->relation = out->best_shift == 0  ? DDP_PREFIX_SAME
                        : out->best_shift > 0 ? DDP_PREFIX_STRIP
                                              : DDP_PREFIX_ADD;
        return;
    }
    out->relation = disagreement(dict, &range, expected, expected_count);
    if (out->relation == DDP_PREFIX_UNRELATED && is_tied) {
        out->relation = DDP_PREFIX_AMBIGUOUS;
    }
}

/* prefix * prefix_count + tail, which is not empty; NULL: no memory. */
static char *make_name(struct ddp_mem *mem, const char *prefix, uint32_t prefix_count,
                       const char *tail)
{
    struct ddp_text text;

    ddp_text_init(&text, mem);
    for (uint32_t i = 0; i < prefix_count; i++) {
        ddp_text_add_str(&text, prefix, 0);
    }
    ddp_text_add_str(&text, tail, 0);
    if (text.is_failed) {
        ddp_text_fini(&text);
    }
    return text.data;
}

/* Rename every key; nothing changes unless all new names could be made. */
static ddp_status rename_all(struct ddp_state_dict *dict, size_t strip_length, const char *prefix,
                             uint32_t prefix_count)
{
    ddp_status status = DDP_E_NOMEM;
    char **names = ddp_mem_array(dict->mem, dict->entry_count, sizeof(*names));

    if (names == NULL) {
        return DDP_E_NOMEM;
    }
    for (size_t i = 0; i < dict->entry_count; i++) {
        names[i] = make_name(dict->mem, prefix, prefix_count, dict->entries[i].name + strip_length);
        if (names[i] == NULL) {
            goto out;
        }
    }
    status = ddp_state_dict_reserve(dict, dict->entry_count);
    for (size_t i = 0; status == DDP_OK && i < dict->entry_count; i++) {
        ddp_state_dict_rename(dict, i, names[i]);
        names[i] = NULL;
    }
out:
    for (size_t i = 0; i < dict->entry_count; i++) {
        ddp_mem_free(dict->mem, names[i]);
    }
    ddp_mem_free(dict->mem, names);
    return status;
}

ddp_status ddp_state_dict_add_prefix(struct ddp_state_dict *dict, const char *prefix)
{
    return rename_all(dict, 0, prefix, 1);
}

/* How the keys were read: `stripping "module." 2 times`. */
static void say_reading(struct ddp_text *text, const struct ddp_prefix_finding *finding)
{
    ddp_text_add(text, "%s \"" DDP_PREFIX_MODULE "\" %u time%s",
                 finding->best_shift > 0 ? "stripping" : "adding", finding->depth,
                 finding->depth == 1 ? "" : "s");
}

/* ` "a", "b", ...`: the first few keys of one kind. */
static void name_keys(struct ddp_text *text, size_t *named_count, size_t total, const char *name)
{
    if (*named_count < DDP_KEYS_NAMED_MAX) {
        ddp_text_add(text, "%s\"%s\"", *named_count == 0 ? " " : ", ", name);
    } else if (*named_count == DDP_KEYS_NAMED_MAX) {
        ddp_text_add(text, " and %zu more", total - *named_count);
    }
    (*named_count)++;
}

static ddp_status refuse_prefix(const struct ddp_state_dict *dict, size_t expected_count,
                                const struct ddp_prefix_finding *finding, struct ddp_err *err)
{
    struct ddp_text text;

    ddp_text_init(&text, dict->mem);
    say_reading(&text, finding);
    (void)ddp_err_set(err, DDP_E_PREFIX, "keys differ by a prefix: %s would match %zu/%zu",
                      ddp_text_str(&text), finding->matched_count, expected_count);
    ddp_text_fini(&text);
    return DDP_E_PREFIX;
}

static ddp_status refuse_keys(const struct ddp_state_dict *dict, const char *const *expected,
                              size_t expected_count, const struct ddp_prefix_finding *finding,
                              struct ddp_err *err)
{
    struct ddp_text text;
    size_t named_count = 0;

    ddp_text_init(&text, dict->mem);
    if (finding->best_shift != 0) {
        ddp_text_add(&text, " after ");
        say_reading(&text, finding);
    }
    ddp_text_add(&text, ": %zu missing", finding->missing_count);
    for (size_t i = 0; i < expected_count; i++) {
        if (shifted_find(dict, finding->best_shift, expected[i]) == NULL) {
            name_keys(&text, &named_count, finding->missing_count, expected[i]);
        }
    }
    ddp_text_add(&text, "; %zu unexpected", finding->unexpected_count);
    named_count = 0;
    for (size_t i = 0; i < dict->entry_count; i++) {
        bool is_known = false;

        for (size_t k = 0; k < expected_count && !is_known; k++) {
            is_known = is_shifted(dict->entries[i].name, finding->best_shift, expected[k]);
        }
        if (!is_known) {
            name_keys(&text, &named_count, finding->unexpected_count, dict->entries[i].name);
        }
    }
    (void)ddp_err_set(err, DDP_E_KEYS,
                      "state dict matches %zu of %zu expected keys%s; load the file of this model",
                      finding->matched_count, expected_count, ddp_text_str(&text));
    ddp_text_fini(&text);
    return DDP_E_KEYS;
}

ddp_status ddp_state_dict_resolve(struct ddp_state_dict *dict, const char *const *expected,
                                  size_t expected_count, enum ddp_prefix_policy policy,
                                  struct ddp_err *err)
{
    struct ddp_prefix_finding finding;

    ddp_prefix_analyse(dict, expected, expected_count, &finding);
    switch (finding.relation) {
    case DDP_PREFIX_SAME:
        return DDP_OK;
    case DDP_PREFIX_STRIP:
    case DDP_PREFIX_ADD:
        break;
    case DDP_PREFIX_MIXED:
        return ddp_err_set(err, DDP_E_PREFIX,
                           "keys carry \"" DDP_PREFIX_MODULE
                           "\" unequally often (%zu of %zu start with it); save the dict from "
                           "one model",
                           finding.with_prefix_count, dict->entry_count);
    case DDP_PREFIX_AMBIGUOUS:
        return ddp_err_set(err, DDP_E_PREFIX,
                           "keys with and without \"" DDP_PREFIX_MODULE
                           "\" would stand for the same parameter; remove one of each pair");
    case DDP_PREFIX_UNRELATED:
        return refuse_keys(dict, expected, expected_count, &finding, err);
    }
    if (policy == DDP_PREFIX_POLICY_EXACT) {
        return refuse_prefix(dict, expected_count, &finding, err);
    }
    if (finding.relation == DDP_PREFIX_STRIP) {
        return rename_all(dict, finding.depth * module_length(), "", 0);
    }
    return rename_all(dict, 0, DDP_PREFIX_MODULE, finding.depth);
}

/* One key of PyTorch's loop: pop it, assign to the key without prefix. An existing key keeps its
 * place and takes the value; a new one goes to the end. */
struct consume {
    struct ddp_state_dict *dict;
    size_t *moved; /* entries that went to the end, in that order */
    size_t moved_count;
    bool *is_gone; /* whether it left its place: moved to the end, or overwritten by another
                    * entry */
};

static ddp_status consume_key(struct consume *consume, size_t index, const char *new_name)
{
    struct ddp_state_dict *dict = consume->dict;
    struct ddp_tensor_entry *source = &dict->entries[index];
    const struct ddp_tensor_entry *present = ddp_state_dict_find(dict, new_name);
    struct ddp_tensor_entry *target;

    consume->is_gone[index] = true;
    if (present == NULL) {
        char *name = ddp_mem_strdup(dict->mem, new_name);

        if (name == NULL) {
            return DDP_E_NOMEM;
        }
        ddp_state_dict_rename(dict, index, name);
        consume->moved[consume->moved_count++] = index;
        return DDP_OK;
    }
    target = &dict->entries[present - dict->entries];
    target->dtype = source->dtype;
    target->ndim = source->ndim;
    memcpy(target->shape, source->shape, sizeof(target->shape));
    target->data = source->data;
    target->size_bytes = source->size_bytes;
    ddp_mem_free(dict->mem, source->name);
    source->name = NULL;
    return DDP_OK;
}

/* Entries that kept their place first, then those that moved; sorted has room for all. */
static void consume_reorder(struct consume *consume, struct ddp_tensor_entry *sorted)
{
    struct ddp_state_dict *dict = consume->dict;
    size_t count = 0;

    for (size_t i = 0; i < dict->entry_count; i++) {
        if (!consume->is_gone[i]) {
            sorted[count++] = dict->entries[i];
        }
    }
    for (size_t i = 0; i < consume->moved_count; i++) {
        sorted[count++] = dict->entries[consume->moved[i]];
    }
    if (count > 0) {
        memcpy(dict->entries, sorted, count * sizeof(*sorted));
    }
    dict->entry_count = count;
}

ddp_status ddp_state_dict_consume_prefix(struct ddp_state_dict *dict, const char *prefix)
{
    const size_t count = dict->entry_count;
    const size_t prefix_length = strlen(prefix);
    struct ddp_mem *mem = dict->mem;
    struct ddp_tensor_entry *sorted = ddp_mem_array(mem, count, sizeof(*sorted));
    struct consume consume = {.dict = dict,
                              .moved = ddp_mem_array(mem, count, sizeof(size_t)),
                              .is_gone = ddp_mem_array(mem, count, sizeof(bool))};
    ddp_status status = DDP_E_NOMEM;

    if (sorted == NULL || consume.moved == NULL || consume.is_gone == NULL) {
        goto out;
    }
    status = ddp_state_dict_reserve(dict, count);
    for (size_t i = 0; status == DDP_OK && i < count; i++) {
        const char *name = dict->entries[i].name;

        if (prefix_length > 0 && strncmp(name, prefix, prefix_length) == 0) {
            status = consume_key(&consume, i, name + prefix_length);
        }
    }
    if (status == DDP_OK) {
        consume_reorder(&consume, sorted);
        status = ddp_state_dict_reserve(dict, 0);
    }
out:
    ddp_mem_free(mem, consume.is_gone);
    ddp_mem_free(mem, consume.moved);
    ddp_mem_free(mem, sorted);
    return status;
}
