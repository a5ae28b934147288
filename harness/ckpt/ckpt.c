/* A file of whatever kind: read, looked up, given back. */
#include "harness/ckpt/ckpt.h"

#include <string.h>

#include "harness/ckpt/parts.h"

const char *harness_ckpt_kind_name(enum harness_ckpt_kind kind)
{
    return kind == HARNESS_CKPT_TORCH ? "torch.save" : "safetensors";
}

/* Zip files begin so; a pickle alone is what torch.save wrote before 1.6. */
static bool is_torch(const uint8_t *data, size_t size_bytes)
{
    return (size_bytes >= 4 && memcmp(data, "PK\x03\x04", 4) == 0) ||
           (size_bytes >= 2 && data[0] == 0x80 && data[1] >= 2 && data[1] <= 5 &&
            /* A header of less than 16 MiB has zeros in its upper bytes. */
            !(size_bytes >= 8 && memcmp(data + 4, "\0\0\0", 4) == 0));
}

static ddp_status read_bytes(struct harness_ckpt *ckpt, const uint8_t *data, size_t size_bytes,
                             const char *key, struct ddp_err *err)
{
    ckpt->file_bytes = size_bytes;
    if (is_torch(data, size_bytes)) {
        ckpt->kind = HARNESS_CKPT_TORCH;
        return harness_ckpt_read_torch(ckpt, data, size_bytes, key, err);
    }
    return harness_ckpt_read_safetensors(ckpt, data, size_bytes);
}

static ddp_status begin(struct harness_ckpt *ckpt)
{
    memset(ckpt, 0, sizeof *ckpt);
    DDP_TRY(ddp_mem_pool_create(&ckpt->pool));
    ckpt->mem = ddp_mem_pool_mem(ckpt->pool);
    return DDP_OK;
}

ddp_status harness_ckpt_load(struct ddp_files *files, const char *path, const char *key,
                             struct harness_ckpt *out, struct ddp_err *err)
{
    void *data = NULL;
    size_t size_bytes = 0;
    ddp_status status = begin(out);

    if (status != DDP_OK) {
        return ddp_err_set(err, status, "%s: no memory", path);
    }
    status = files->ops->read_all(files, path, out->mem, &data, &size_bytes, err);
    if (status != DDP_OK) {
        harness_ckpt_fini(out);
        return status;
    }
    (void)ddp_err_set(err, DDP_OK, "no memory for its tensors");
    status = read_bytes(out, data, size_bytes, key, err);
    if (status != DDP_OK) {
        harness_ckpt_fini(out);
        return ddp_err_wrap(err, status, "%s", path);
    }
    return DDP_OK;
}

ddp_status harness_ckpt_parse(const void *data, size_t size_bytes, const char *key,
                              struct harness_ckpt *out, struct ddp_err *err)
{
    uint8_t *copy = NULL;
    ddp_status status;

    DDP_TRY(begin(out));
    copy = ddp_mem_array(out->mem, size_bytes, 1);
    status = copy != NULL ? DDP_OK : DDP_E_NOMEM;
    if (status == DDP_OK && size_bytes > 0) {
        memcpy(copy, data, size_bytes);
    }
    if (status == DDP_OK) {
        status = read_bytes(out, copy, size_bytes, key, err);
    }
    if (status != DDP_OK) {
        harness_ckpt_fini(out);
    }
    return status;
}

void harness_ckpt_fini(struct harness_ckpt *ckpt)
{
    ddp_mem_pool_destroy(ckpt->pool);
    memset(ckpt, 0, sizeof *ckpt);
}
