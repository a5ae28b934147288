/* The files that fill the table of layers.h. */
#ifndef DDPCORE_CUDA_LAYERS_CUH
#define DDPCORE_CUDA_LAYERS_CUH

#include "ddpcore/cuda/state.cuh"
#include "ddpcore/device/layers.h"

/* layers.cu */
const struct ddp_layer_ops *ddp_cuda_layers();
ddp_status ddp_cuda_layers_preload(ddp_cuda_device *cuda);
/* moves.cu */
void ddp_cuda_moves_fill_ops(struct ddp_layer_ops *ops);
ddp_status ddp_cuda_moves_preload(ddp_cuda_device *cuda);

#endif
