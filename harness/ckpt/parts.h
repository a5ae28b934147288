/* What the files of this folder share. */
#ifndef HARNESS_CKPT_PARTS_H
#define HARNESS_CKPT_PARTS_H

#include "harness/ckpt/ckpt.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Lines beyond so many are counted, and not kept. */
enum { HARNESS_CKPT_LINES_MAX = 1000 };

/* What a file calls something may hold anything: what would leave its line becomes '?'. */
void harness_ckpt_clean(char *text);
/* One more line, cleaned. False: no memory. */
bool harness_ckpt_say(struct ddp_mem *mem, struct harness_ckpt_lines *lines, const char *format,
                      ...) DDP_PRINTF(3, 4);
/* One more tensor, name and shape are copied; its sizes are worked out from dtype and shape.
 * E_OVERFLOW: they do not fit; E_NOMEM. is_other: not of the state dict. */
DDP_MUST_USE ddp_status harness_ckpt_add(struct harness_ckpt *ckpt, bool is_other,
                                         const struct harness_ckpt_tensor *tensor);
DDP_MUST_USE ddp_status harness_ckpt_add_meta(struct harness_ckpt *ckpt, const char *key,
                                              const char *value);
/* "[2,5]": the place of an element; "[]" of a tensor without dimensions. */
void harness_ckpt_say_place(struct ddp_text *out, const struct harness_ckpt_tensor *tensor,
                            size_t elem);
/* "f32 [64,10]" */
void harness_ckpt_say_form(struct ddp_text *out, const struct harness_ckpt_tensor *tensor);
/* Shortest decimal that is this value again, or nan, inf. */
void harness_ckpt_say_value(struct ddp_text *out, enum harness_ckpt_dtype dtype, uint64_t bits);
/* How many times a name begins with "module.". */
uint32_t harness_ckpt_depth(const char *name);
/* Whether a file was written by ddprove's own ranks, or by ddp_world_save; and whether a key in
 * such a file is of the optimizer or of a hook. */
bool harness_ckpt_is_own(const struct harness_ckpt *ckpt);
bool harness_ckpt_is_state_name(const char *name);

/* The readers, of ckpt->mem's own bytes. */
DDP_MUST_USE ddp_status harness_ckpt_read_safetensors(struct harness_ckpt *ckpt,
                                                      const uint8_t *data, size_t size_bytes);
DDP_MUST_USE ddp_status harness_ckpt_read_torch(struct harness_ckpt *ckpt, const uint8_t *data,
                                                size_t size_bytes, const char *key,
                                                struct ddp_err *err);

#ifdef __cplusplus
}
#endif
#endif
