/* Names and limits that the reader and the writer of safetensors files share. */
#ifndef DDPCORE_CHECKPOINT_SAFETENSORS_KEYS_H
#define DDPCORE_CHECKPOINT_SAFETENSORS_KEYS_H

#define DDP_ST_METADATA         "__metadata__"
#define DDP_ST_CHECKSUM         "ddprove.xxh3"
#define DDP_ST_TENSOR_CHECKSUMS "ddprove.xxh3.tensors"
/* The format's own limit. */
#define DDP_ST_HEADER_BYTES_MAX 100000000u

#endif
