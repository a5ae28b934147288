/* In the place of torch_zip.c, where libzip is not there. */
#include "harness/ckpt/torch.h"

bool harness_ckpt_reads_torch(void)
{
    return false;
}

ddp_status harness_ckpt_unzip(struct harness_ckpt *ckpt, const uint8_t *data, size_t size_bytes,
                              struct harness_ckpt_entries *out, bool *out_is_read,
                              struct ddp_err *err)
{
    (void)ckpt;
    (void)data;
    (void)size_bytes;
    (void)out;
    *out_is_read = false;
    return ddp_err_set(err, DDP_E_UNSUPPORTED,
                       "is a zip archive, as torch.save writes it, and ddprove was built without "
                       "libzip; install libzip-dev and build again");
}
