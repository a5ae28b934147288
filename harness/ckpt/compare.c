/* What differs between two files: keys, then dtypes and shapes, then values bit for bit. */
#include <math.h>
#include <string.h>

#include "ddpcore/checkpoint/state_dict.h"
#include "harness/ckpt/parts.h"

/* The keys of a file, to be looked up. */
struct names {
    struct ddp_state_dict counted; /* those that the prefix concerns, without what is left out */
    struct ddp_state_dict state;   /* the optimizer's and a hook's, compared as they are */
    size_t *index, *state_index;   /* of entries in the file */
    bool has_state;                /* one of the two files is ddprove's own */
    uint32_t strip;                /* so many "module." of counted keys are left out */
};

static bool is_state(const struct names *names, const char *name)
{
    return names->has_state && harness_ckpt_is_state_name(name);
}

/* What a key of this file is called where both are compared. */
static const char *key_of(const struct names *names, const char *name)
{
    return is_state(names, name) ? name : name + names->strip * strlen(DDP_PREFIX_MODULE);
}

static ddp_status names_init(struct names *names, const struct harness_ckpt *ckpt, bool has_state,
                             uint32_t strip, struct ddp_mem *mem)
{
    static const uint64_t none = 0;

    *names = (struct names){.has_state = has_state, .strip = strip};
    ddp_state_dict_init(&names->counted, mem);
    ddp_state_dict_init(&names->state, mem);
    names->index = ddp_mem_array(mem, ckpt->tensor_count, sizeof *names->index);
    names->state_index = ddp_mem_array(mem, ckpt->tensor_count, sizeof *names->state_index);
    if (names->index == NULL || names->state_index == NULL) {
        return DDP_E_NOMEM;
    }
    for (size_t i = 0; i < ckpt->tensor_count; i++) {
        const char *name = ckpt->tensors[i].name;
        struct ddp_state_dict *dict = is_state(names, name) ? &names->state : &names->counted;

        (dict == &names->state ? names->state_index : names->index)[dict->entry_count] = i;
        DDP_TRY(ddp_state_dict_add(dict, key_of(names, name), DDP_DTYPE_U8, 1, &none, NULL));
    }
    return DDP_OK;
}

/* The tensor that both files call so, in the file of names; false: there is none. */
static bool find(const struct names *names, const char *key, size_t *out)
{
    const bool is_state_key = is_state(names, key);
    const struct ddp_state_dict *dict = is_state_key ? &names->state : &names->counted;
    const struct ddp_tensor_entry *entry = ddp_state_dict_find(dict, key);

    if (entry == NULL) {
        return false;
    }
    *out = (is_state_key ? names->state_index : names->index)[entry - dict->entries];
    return true;
}

/* The reading under which most keys are the same, if one side has the prefix throughout. */
static ddp_status find_shift(struct harness_ckpt_diff *diff, const struct names *a,
                             const struct names *b, struct ddp_mem *mem)
{
    const size_t count = b->counted.entry_count;
    const char **expected = ddp_mem_array(mem, count, sizeof *expected);
    const struct ddp_state_dict *longer;
    struct ddp_prefix_finding finding;

    DDP_TRY(expected != NULL ? DDP_OK : DDP_E_NOMEM);
    for (size_t i = 0; i < count; i++) {
        expected[i] = b->counted.entries[i].name;
    }
    ddp_prefix_analyse(&a->counted, expected, count, &finding);
    if (finding.relation == DDP_PREFIX_MIXED || finding.relation == DDP_PREFIX_AMBIGUOUS) {
        return DDP_OK;
    }
    longer = finding.best_shift > 0 ? &a->counted : &b->counted;
    for (size_t i = 0; i < longer->entry_count; i++) {
        const char *name = longer->entries[i].name;

        if (harness_ckpt_depth(name) < finding.depth ||
            name[finding.depth * strlen(DDP_PREFIX_MODULE)] == '\0') {
            return DDP_OK;
        }
    }
    diff->shift = finding.best_shift;
    return DDP_OK;
}

static ddp_status add_change(struct harness_ckpt_diff *diff, struct ddp_mem *mem,
                             const struct harness_ckpt_change *change)
{
    struct harness_ckpt_change *grown =
        ddp_mem_grow(mem, diff->changes, diff->change_count, &diff->change_capacity, sizeof *grown);

    if (grown == NULL) {
        return DDP_E_NOMEM;
    }
    diff->changes = grown;
    grown[diff->change_count++] = *change;
    return DDP_OK;
}

static bool has_same_form(const struct harness_ckpt_tensor *a, const struct harness_ckpt_tensor *b)
{
    bool is_same = a->dtype == b->dtype && a->ndim == b->ndim;

    for (uint32_t i = 0; is_same && i < a->ndim; i++) {
        is_same = a->shape[i] == b->shape[i];
    }
    return is_same;
}

/* Whole numbers differ by up to 2^64 - 1, which the distance has exactly. */
static double absolute_difference(enum harness_ckpt_dtype dtype, uint64_t a, uint64_t b)
{
    return harness_ckpt_dtype_is_float(dtype)
               ? fabs(harness_ckpt_value(dtype, a) - harness_ckpt_value(dtype, b))
               : (double)harness_ckpt_distance(dtype, a, b);
}

static void compare_values(struct harness_ckpt_change *change)
{
    const enum harness_ckpt_dtype dtype = change->a->dtype;

    for (size_t i = 0; i < change->a->elem_count; i++) {
        const uint64_t a = harness_ckpt_bits(dtype, change->a->data, i);
        const uint64_t b = harness_ckpt_bits(dtype, change->b->data, i);

        if (a == b) {
            continue;
        }
        change->first = change->elem_count == 0 ? i : change->first;
        change->elem_count++;
        if (!harness_ckpt_is_finite(dtype, a) || !harness_ckpt_is_finite(dtype, b)) {
            change->not_finite_count++;
            continue;
        }
        change->abs_max = fmax(change->abs_max, absolute_difference(dtype, a, b));
        if (harness_ckpt_distance(dtype, a, b) > change->distance_max) {
            change->distance_max = harness_ckpt_distance(dtype, a, b);
        }
    }
}

static ddp_status compare_tensors(struct harness_ckpt_diff *diff, struct ddp_mem *mem,
                                  const struct harness_ckpt_tensor *a,
                                  const struct harness_ckpt_tensor *b)
{
    struct harness_ckpt_change change = {.a = a, .b = b};

    diff->compared_count++;
    if (!has_same_form(a, b)) {
        change.is_other_form = true;
        return add_change(diff, mem, &change);
    }
    if (a->size_bytes == 0 || memcmp(a->data, b->data, a->size_bytes) == 0) {
        diff->equal_count++;
        return DDP_OK;
    }
    compare_values(&change);
    DDP_ASSERT(change.elem_count > 0);
    return add_change(diff, mem, &change);
}

/* Keys of a in its order, with those of b that they are; then what b has more. */
static ddp_status compare_names(struct harness_ckpt_diff *diff, const struct names *a,
                                const struct names *b, struct ddp_mem *mem)
{
    struct harness_ckpt_change change;
    size_t at = 0;

    for (size_t i = 0; i < diff->a->tensor_count; i++) {
        const struct harness_ckpt_tensor *tensor = &diff->a->tensors[i];

        if (find(b, key_of(a, tensor->name), &at)) {
            DDP_TRY(compare_tensors(diff, mem, tensor, &diff->b->tensors[at]));
        } else {
            change = (struct harness_ckpt_change){.a = tensor};
            DDP_TRY(add_change(diff, mem, &change));
        }
    }
    for (size_t i = 0; i < diff->b->tensor_count; i++) {
        const struct harness_ckpt_tensor *tensor = &diff->b->tensors[i];

        if (!find(a, key_of(b, tensor->name), &at)) {
            change = (struct harness_ckpt_change){.b = tensor};
            DDP_TRY(add_change(diff, mem, &change));
        }
    }
    return DDP_OK;
}

static const char *meta_of(const struct harness_ckpt *ckpt, const char *key)
{
    for (size_t i = 0; i < ckpt->meta_count; i++) {
        if (strcmp(ckpt->meta[i].key, key) == 0) {
            return ckpt->meta[i].value;
        }
    }
    return NULL;
}

static ddp_status compare_meta(struct harness_ckpt_diff *diff, struct ddp_mem *mem)
{
    for (size_t i = 0; i < diff->a->meta_count; i++) {
        const struct harness_ckpt_meta *meta = &diff->a->meta[i];
        const char *other = meta_of(diff->b, meta->key);

        if (other == NULL ? !harness_ckpt_say(mem, &diff->meta, "%s = %.200s only in the first",
                                              meta->key, meta->value)
                          : strcmp(other, meta->value) != 0 &&
                                !harness_ckpt_say(mem, &diff->meta, "%s = %.200s, and %.200s",
                                                  meta->key, meta->value, other)) {
            return DDP_E_NOMEM;
        }
    }
    for (size_t i = 0; i < diff->b->meta_count; i++) {
        const struct harness_ckpt_meta *meta = &diff->b->meta[i];

        if (meta_of(diff->a, meta->key) == NULL &&
            !harness_ckpt_say(mem, &diff->meta, "%s = %.200s only in the second", meta->key,
                              meta->value)) {
            return DDP_E_NOMEM;
        }
    }
    return DDP_OK;
}

ddp_status harness_ckpt_compare(const struct harness_ckpt *a, const struct harness_ckpt *b,
                                struct harness_ckpt_diff *out)
{
    const bool has_state = harness_ckpt_is_own(a) || harness_ckpt_is_own(b);
    struct names of_a, of_b;

    DDP_ASSERT(a->is_whole && b->is_whole);
    *out = (struct harness_ckpt_diff){.a = a, .b = b};
    DDP_TRY(names_init(&of_a, a, has_state, 0, a->mem));
    DDP_TRY(names_init(&of_b, b, has_state, 0, a->mem));
    DDP_TRY(find_shift(out, &of_a, &of_b, a->mem));
    if (out->shift > 0) {
        DDP_TRY(names_init(&of_a, a, has_state, (uint32_t)out->shift, a->mem));
    } else if (out->shift < 0) {
        DDP_TRY(names_init(&of_b, b, has_state, (uint32_t)-out->shift, a->mem));
    }
    DDP_TRY(compare_names(out, &of_a, &of_b, a->mem));
    return compare_meta(out, a->mem);
}
