/* safetensors files: 8-byte little-endian header length, JSON header, tensor bytes.
 * Source: the safetensors format description (huggingface/safetensors README). Files carry a
 * checksum of the tensor bytes in __metadata__ ("ddprove.xxh3") and one of each tensor, in file
 * order ("ddprove.xxh3.tensors"), checked when present. Both keys stay out of the dict's meta. */
#ifndef DDPCORE_CHECKPOINT_SAFETENSORS_H
#define DDPCORE_CHECKPOINT_SAFETENSORS_H

#include "ddpcore/base/file.h"
#include "ddpcore/checkpoint/state_dict.h"
#include "ddpcore/seam/env.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Write atomically through env->files: "<path>.tmp", sync, rename. Passes checkpoint/write (half
 * written; SKIP leaves the second half out), checkpoint/fsync, checkpoint/rename. The previous file
 * survives any failure. Records CHECKPOINT_SAVED with the checksum and the meta entry "steps_done"
 * (0 if absent). Errors: E_INVALID (a name or meta text is not UTF-8), E_KEYS (a name or meta key
 * that the format or the checksum reserves), E_INJECTED, and those of the files. */
DDP_MUST_USE ddp_status ddp_safetensors_save(struct ddp_env *env, const char *path,
                                             const struct ddp_state_dict *dict,
                                             struct ddp_err *err);
/* Read a whole file into dict (initialised, empty). Errors: E_NOT_FOUND; E_CORRUPT with the name
 * and place of the damage (header length, JSON line:column, tensor name, offsets, checksum);
 * E_SHAPE (a dtype or number of dimensions that ddprove lacks). On error dict is empty. */
DDP_MUST_USE ddp_status ddp_safetensors_load(struct ddp_files *files, const char *path,
                                             struct ddp_state_dict *dict, struct ddp_err *err);
/* Same from memory, for the fuzzer; data is borrowed while dict is used. */
DDP_MUST_USE ddp_status ddp_safetensors_parse(const void *data, size_t size_bytes,
                                              struct ddp_state_dict *dict, struct ddp_err *err);

#ifdef __cplusplus
}
#endif
#endif
