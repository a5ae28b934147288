#include "harness/ckpt/parts.h"

bool harness_ckpt_reads_torch(void)
{
    return false;
}

ddp_status harness_ckpt_read_torch(struct harness_ckpt *ckpt, const uint8_t *data,
                                   size_t size_bytes, const char *key, struct ddp_err *err)
{
    (void)ckpt;
    (void)data;
    (void)size_bytes;
    (void)key;
    return ddp_err_set(err, DDP_E_UNSUPPORTED, "x");
}
