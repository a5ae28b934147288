/* safetensors files: 8-byte little-endian header length, JSON header, tensor bytes.
 * Source: the safetensors format description (huggingface/safetensors README). Files carry a
 * checksum of the tensor bytes in __metadata__ ("ddprove.xxh3"), checked when present. */
#ifndef DDPCORE_CHECKPOINT_SAFETENSORS_H
#define DDPCORE_CHECKPOINT_SAFETENSORS_H

#include "ddpcore/base/file.h"
#include "ddpcore/checkpoint/state_dict.h"
#include "ddpcore/seam/env.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Write atomically through env->files: "<path>.tmp", sync, rename. Passes checkpoint/write (half
 * written), checkpoint/fsync, checkpoint/rename. The previous file survives any failure. */
DDP_MUST_USE ddp_status ddp_safetensors_save(struct ddp_env *env, const char *path,
                                             const struct ddp_state_dict *dict,
                                             struct ddp_err *err);
/* Read a whole file into dict (initialised, empty). Errors: E_NOT_FOUND; E_CORRUPT with the name
 * and place of the damage (header length, JSON line:column, tensor name, offsets, checksum). */
DDP_MUST_USE ddp_status ddp_safetensors_load(struct ddp_files *files, const char *path,
                                             struct ddp_state_dict *dict, struct ddp_err *err);
/* Same from memory, for the fuzzer; data is borrowed while dict is used. */
DDP_MUST_USE ddp_status ddp_safetensors_parse(const void *data, size_t size_bytes,
                                              struct ddp_state_dict *dict, struct ddp_err *err);

#ifdef __cplusplus
}
#endif
#endif
