#include "tests/unit/device/device_bench.h"

ddp_status bench_create_device(struct ddp_mem *mem, struct ddp_device **out, struct ddp_err *err)
{
    DDP_TRY(ddp_blas_open(NULL, err));
    return ddp_device_cpu_create(mem, out);
}
