/* Tensors, metadata and lines as they are put together, and how they are written out. */
#include "harness/ckpt/parts.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "ddpcore/checkpoint/state_dict.h"

void harness_ckpt_clean(char *text)
{
    for (; *text != '\0'; text++) {
        if ((unsigned char)*text < 0x20 || *text == 0x7f) {
            *text = '?';
        }
    }
}

bool harness_ckpt_say(struct ddp_mem *mem, struct harness_ckpt_lines *lines, const char *format,
                      ...)
{
    char text[1200];
    va_list args;

    if (lines->count < HARNESS_CKPT_LINES_MAX) {
        char **grown =
            ddp_mem_grow(mem, lines->line, lines->count, &lines->capacity, sizeof *grown);

        if (grown == NULL) {
            return false;
        }
        lines->line = grown;
        va_start(args, format);
        (void)vsnprintf(text, sizeof text, format, args);
        va_end(args);
        harness_ckpt_clean(text);
        grown[lines->count] = ddp_mem_strdup(mem, text);
        if (grown[lines->count] == NULL) {
            return false;
        }
    }
    lines->count++;
    return true;
}

/* Elements and bytes of a shape; false if they do not fit. */
static bool measure(struct harness_ckpt_tensor *tensor)
{
    size_t count = 1;

    for (uint32_t i = 0; i < tensor->ndim; i++) {
        if (__builtin_mul_overflow(count, tensor->shape[i], &count)) {
            return false;
        }
    }
    tensor->elem_count = count;
    return !__builtin_mul_overflow(count, harness_ckpt_dtype_bytes(tensor->dtype),
                                   &tensor->size_bytes);
}

ddp_status harness_ckpt_add(struct harness_ckpt *ckpt, bool is_other,
                            const struct harness_ckpt_tensor *tensor)
{
    struct harness_ckpt_tensor **list = is_other ? &ckpt->others : &ckpt->tensors;
    size_t *count = is_other ? &ckpt->other_count : &ckpt->tensor_count;
    struct harness_ckpt_tensor added = *tensor;
    struct harness_ckpt_tensor *grown;
    uint64_t *shape;

    DDP_ASSERT(tensor->ndim <= HARNESS_CKPT_NDIM_MAX);
    if (!measure(&added)) {
        return DDP_E_OVERFLOW;
    }
    added.name = ddp_mem_strdup(ckpt->mem, tensor->name);
    shape = ddp_mem_array(ckpt->mem, tensor->ndim, sizeof *shape);
    grown = ddp_mem_grow(ckpt->mem, *list, *count,
                         is_other ? &ckpt->other_capacity : &ckpt->tensor_capacity, sizeof *grown);
    if (grown != NULL) {
        *list = grown;
    }
    if (added.name == NULL || shape == NULL || grown == NULL) {
        return DDP_E_NOMEM;
    }
    for (uint32_t i = 0; i < tensor->ndim; i++) {
        shape[i] = tensor->shape[i];
    }
    added.shape = shape;
    grown[(*count)++] = added;
    return DDP_OK;
}

ddp_status harness_ckpt_add_meta(struct harness_ckpt *ckpt, const char *key, const char *value)
{
    struct harness_ckpt_meta added = {ddp_mem_strdup(ckpt->mem, key),
                                      ddp_mem_strdup(ckpt->mem, value)};
    struct harness_ckpt_meta *grown =
        ddp_mem_grow(ckpt->mem, ckpt->meta, ckpt->meta_count, &ckpt->meta_capacity, sizeof *grown);

    if (grown != NULL) {
        ckpt->meta = grown;
    }
    if (added.key == NULL || added.value == NULL || grown == NULL) {
        return DDP_E_NOMEM;
    }
    grown[ckpt->meta_count++] = added;
    return DDP_OK;
}

void harness_ckpt_say_place(struct ddp_text *out, const struct harness_ckpt_tensor *tensor,
                            size_t elem)
{
    size_t below = tensor->elem_count;

    ddp_text_add(out, "[");
    for (uint32_t i = 0; i < tensor->ndim; i++) {
        below /= (size_t)tensor->shape[i]; /* an element is there, so no dimension is zero */
        ddp_text_add(out, "%s%zu", i == 0 ? "" : ",", elem / below);
        elem %= below;
    }
    ddp_text_add(out, "]");
}

void harness_ckpt_say_form(struct ddp_text *out, const struct harness_ckpt_tensor *tensor)
{
    ddp_text_add(out, "%s [", harness_ckpt_dtype_said(tensor->dtype));
    for (uint32_t i = 0; i < tensor->ndim; i++) {
        ddp_text_add(out, "%s%" PRIu64, i == 0 ? "" : ",", tensor->shape[i]);
    }
    ddp_text_add(out, "]");
}

void harness_ckpt_say_value(struct ddp_text *out, enum harness_ckpt_dtype dtype, uint64_t bits)
{
    const double value = harness_ckpt_value(dtype, bits);

    ddp_text_add(out, "%.*g", dtype == HARNESS_CKPT_F64 ? 17 : 9, value);
}

uint32_t harness_ckpt_depth(const char *name)
{
    const size_t length = strlen(DDP_PREFIX_MODULE);
    uint32_t depth = 0;

    while (strncmp(name, DDP_PREFIX_MODULE, length) == 0) {
        name += length;
        depth++;
    }
    return depth;
}
