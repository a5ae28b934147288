/* The wrapper's "module." before keys. */
#include <string.h>

#include "ddpcore/checkpoint/safetensors_keys.h"
#include "ddpcore/checkpoint/state_dict.h"
#include "harness/ckpt/parts.h"

/* Both write "steps_done", and no other program is known to. */
bool harness_ckpt_is_own(const struct harness_ckpt *ckpt)
{
    for (size_t i = 0; i < ckpt->meta_count; i++) {
        if (strcmp(ckpt->meta[i].key, "steps_done") == 0) {
            return ckpt->kind == HARNESS_CKPT_SAFETENSORS;
        }
    }
    return false;
}

bool harness_ckpt_is_state_name(const char *name)
{
    name += harness_ckpt_depth(name) * strlen(DDP_PREFIX_MODULE);
    return strncmp(name, "optim.", 6) == 0 || strncmp(name, "hook.", 5) == 0;
}

void harness_ckpt_prefix_of(const struct harness_ckpt *ckpt, struct harness_ckpt_prefix *out)
{
    const bool has_state = harness_ckpt_is_own(ckpt);

    memset(out, 0, sizeof *out);
    for (size_t i = 0; i < ckpt->tensor_count; i++) {
        const char *name = ckpt->tensors[i].name;
        const uint32_t depth = harness_ckpt_depth(name);

        if (has_state && harness_ckpt_is_state_name(name)) {
            continue;
        }
        out->depth_min = out->key_count == 0 || depth < out->depth_min ? depth : out->depth_min;
        out->depth_max = depth > out->depth_max ? depth : out->depth_max;
        out->key_count++;
        if (depth > 0) {
            out->with_count++;
            out->with = out->with != NULL ? out->with : name;
        } else {
            out->without = out->without != NULL ? out->without : name;
        }
    }
}

bool harness_ckpt_prefix_is_mixed(const struct harness_ckpt_prefix *prefix)
{
    return prefix->with_count > 0 && prefix->with_count < prefix->key_count;
}

/* Whether what is left of a key may stand beside the keys that keep theirs. */
static ddp_status check_rest(const struct ddp_state_dict *kept, const char *name,
                             struct ddp_err *err)
{
    const char *rest = name + strlen(DDP_PREFIX_MODULE);

    if (rest[0] == '\0') {
        return ddp_err_set(err, DDP_E_PREFIX,
                           "key \"%s\" is nothing but the prefix; rename it first", name);
    }
    if (strcmp(rest, DDP_ST_METADATA) == 0) {
        return ddp_err_set(err, DDP_E_PREFIX,
                           "key \"%s\" would become \"%s\", which the format reserves; rename it "
                           "first",
                           name, rest);
    }
    return ddp_state_dict_find(kept, rest) == NULL
               ? DDP_OK
               : ddp_err_set(err, DDP_E_PREFIX,
                             "keys \"%s\" and \"%s\" would become one; remove one of them", name,
                             rest);
}

/* Nothing has changed yet: can every key be stripped? kept: filled with the keys that stay. */
static ddp_status check_all(const struct harness_ckpt *ckpt, struct ddp_state_dict *kept,
                            struct ddp_err *err)
{
    static const uint64_t none = 0;
    const bool has_state = harness_ckpt_is_own(ckpt);
    struct harness_ckpt_prefix prefix;

    harness_ckpt_prefix_of(ckpt, &prefix);
    for (size_t i = 0; i < ckpt->tensor_count; i++) {
        const char *name = ckpt->tensors[i].name;

        if (harness_ckpt_depth(name) == 0 || (has_state && harness_ckpt_is_state_name(name))) {
            DDP_TRY(ddp_state_dict_add(kept, name, DDP_DTYPE_U8, 1, &none, NULL));
        }
    }
    if (prefix.with_count == 0) {
        return ddp_err_set(err, DDP_E_PREFIX,
                           "none of %zu keys begins with \"" DDP_PREFIX_MODULE
                           "\": there is nothing to take away, load the file as it is",
                           prefix.key_count);
    }
    for (size_t i = 0; i < ckpt->tensor_count; i++) {
        const char *name = ckpt->tensors[i].name;

        if (harness_ckpt_depth(name) > 0 && !(has_state && harness_ckpt_is_state_name(name))) {
            DDP_TRY(check_rest(kept, name, err));
        }
    }
    if (harness_ckpt_prefix_is_mixed(&prefix)) {
        return ddp_err_set(err, DDP_E_PREFIX,
                           "%zu of %zu keys begin with \"" DDP_PREFIX_MODULE
                           "\" (\"%s\" does, \"%s\" does not); save the state_dict() of one "
                           "model, model.module's if it is wrapped",
                           prefix.with_count, prefix.key_count, prefix.with, prefix.without);
    }
    return DDP_OK;
}

ddp_status harness_ckpt_strip(struct harness_ckpt *ckpt, struct ddp_err *err)
{
    const bool has_state = harness_ckpt_is_own(ckpt);
    struct ddp_state_dict kept;
    ddp_status status;

    DDP_ASSERT(ckpt->is_whole);
    ddp_state_dict_init(&kept, ckpt->mem);
    (void)ddp_err_set(err, DDP_OK, "no memory for its keys");
    status = check_all(ckpt, &kept, err);
    ddp_state_dict_fini(&kept);
    if (status != DDP_OK && err != NULL) {
        harness_ckpt_clean(err->text);
    }
    for (size_t i = 0; status == DDP_OK && i < ckpt->tensor_count; i++) {
        struct harness_ckpt_tensor *tensor = &ckpt->tensors[i];

        if (!(has_state && harness_ckpt_is_state_name(tensor->name))) {
            tensor->name += strlen(DDP_PREFIX_MODULE);
        }
    }
    return status;
}
