/* What only the stand-ins can be asked, for nccl_program.c on a real card: it captures no graph
 * there, and nobody counts. */
#include <cuda_runtime_api.h>
#include <ddp_standin.h>
#include <string.h>

#include "ddpcore/base/status.h"

void ddp_standin_stream_capture(cudaStream_t stream, bool is_on)
{
    (void)stream;
    DDP_ASSERT(!is_on);
}

void ddp_standin_report_get(struct ddp_standin_report *out)
{
    memset(out, 0, sizeof *out);
}
