/* What a DDP job is, under the field names of PyTorch's DDPLogger (torch/csrc/distributed/c10d/
 * logger.cpp), so that dashboards which read those read these. */
#ifndef DDPCORE_DDP_LOGGING_H
#define DDPCORE_DDP_LOGGING_H

#include "ddpcore/base/text.h"
#include "ddpcore/ddp/ddp.h"

#ifdef __cplusplus
extern "C" {
#endif

/* One JSON object in one line, without a line end: world_size, rank, iteration (the group's step),
 * num_parameter_tensors, total_parameter_size_bytes, dtypes, bucket_sizes (bytes, separated by ",
 * "), bucket_cap_bytes, broadcast_buffers, find_unused_parameters, join_uneven_inputs,
 * unused_parameter_size (bytes, of parameters without a gradient after the last pass), has_error,
 * error. Fields of times and of features that are not here are left out. out: initialised; its
 * is_failed says whether there was memory. */
void ddp_logging_data(const struct ddp *ddp, struct ddp_text *out);

#ifdef __cplusplus
}
#endif
#endif
