/* What a DDP job is, under the field names of PyTorch's DDPLogger (torch/csrc/distributed/c10d/
 * logger.cpp), so that dashboards which read those read these. */
#ifndef DDPCORE_DDP_LOGGING_H
#define DDPCORE_DDP_LOGGING_H

#include "ddpcore/base/text.h"
#include "ddpcore/ddp/ddp.h"

#ifdef __cplusplus
extern "C" {
#endif

/* One JSON object in one line, without a line end. Of the fields that logger.cpp sets it has
 * world_size, rank, iteration (the group's step), num_parameter_tensors,
 * total_parameter_size_bytes, unused_parameter_size (bytes, of parameters without a gradient after
 * the last pass), bucket_sizes (bytes, of the buckets in force, separated by ", "), dtypes,
 * gradient_as_bucket_view, comm_hook
 * ("": none; of mixed precision its types), bucket_cap_bytes, broadcast_buffers,
 * find_unused_parameters, static_graph, join_uneven_inputs, has_error and error.
 *
 * What it leaves out, and why:
 * - *_time, *_time_start, *_time_end, avg_*: the same job would not log the same text. The recorder
 *   gets the events, with their times.
 * - has_rebuilt_buckets, rebuilt_*, initial_bucket_size_limits,
 *   prev_iteration_grad_ready_order_indices: bucket_sizes is what is in force, and each assignment
 *   is recorded, parameter by parameter.
 * - can_set_static_graph: with static_graph a pass that differs is refused when it comes.
 * - module_name, backend_name, has_sync_bn: DDP is given tensors and a group, and knows neither a
 *   module nor what the group moves data with.
 * - device_ids, output_device, is_multi_device_module: a replica has one device.
 * - master_*, nccl_*, gloo_*, cuda_visible_devices, torch_distributed_debug: these are the
 *   environment, which the core never reads.
 *
 * Every rank may ask, as in PyTorch; what differs between ranks is what a reader looks for. Nothing
 * is printed. out: initialised; its is_failed says whether there was memory. */
void ddp_logging_data(const struct ddp *ddp, struct ddp_text *out);

#ifdef __cplusplus
}
#endif
#endif
