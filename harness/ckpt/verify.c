/* What only the whole of a file tells. */
#include "ddpcore/checkpoint/state_dict.h"
#include "harness/ckpt/parts.h"

static ddp_status verify_values(struct harness_ckpt *ckpt, const struct harness_ckpt_tensor *tensor)
{
    struct ddp_text text;
    size_t first = 0;
    const size_t count =
        harness_ckpt_not_finite(tensor->dtype, tensor->data, tensor->elem_count, &first);
    bool is_said;

    if (count == 0) {
        return DDP_OK;
    }
    ddp_text_init(&text, ckpt->mem);
    harness_ckpt_say_place(&text, tensor, first);
    ddp_text_add(&text, ", ");
    harness_ckpt_say_value(&text, tensor->dtype,
                           harness_ckpt_bits(tensor->dtype, tensor->data, first));
    is_said = !text.is_failed &&
              harness_ckpt_say(ckpt->mem, &ckpt->faults,
                               "tensor \"%s\": %zu of %zu values are not finite, the first at %s",
                               tensor->name, count, tensor->elem_count, ddp_text_str(&text));
    ddp_text_fini(&text);
    return is_said ? DDP_OK : DDP_E_NOMEM;
}

ddp_status harness_ckpt_verify(struct harness_ckpt *ckpt)
{
    struct harness_ckpt_prefix prefix;

    ckpt->is_verified = true;
    if (!ckpt->is_whole) {
        return DDP_OK;
    }
    harness_ckpt_prefix_of(ckpt, &prefix);
    if (harness_ckpt_prefix_is_mixed(&prefix) &&
        !harness_ckpt_say(ckpt->mem, &ckpt->faults,
                          "keys: %zu of %zu begin with \"" DDP_PREFIX_MODULE
                          "\" (\"%s\" does, \"%s\" does not); save the state_dict() of one model",
                          prefix.with_count, prefix.key_count, prefix.with, prefix.without)) {
        return DDP_E_NOMEM;
    }
    for (size_t i = 0; i < ckpt->tensor_count; i++) {
        DDP_TRY(verify_values(ckpt, &ckpt->tensors[i]));
    }
    for (size_t i = 0; i < ckpt->other_count; i++) {
        DDP_TRY(verify_values(ckpt, &ckpt->others[i]));
    }
    return DDP_OK;
}
