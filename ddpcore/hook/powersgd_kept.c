/* PowerSGD's state, parameter by parameter. */
#include "ddpcore/hook/powersgd_kept.h"

#include <stdio.h>
#include <string.h>

static const char *const state_names[2] = {"error", "q"};

static size_t smallest(size_t a, size_t b)
{
    return a < b ? a : b;
}

/* Compressed only if that saves enough: PyTorch's _should_compress. */
static struct ddp_powersgd_part measure(const struct ddp_powersgd_config *config,
                                        const struct ddp_param *param)
{
    struct ddp_powersgd_part out = {.elem_count = param->elem_count};

    out.n = param->ndim > 0 ? param->shape[0] : 1;
    out.m = out.n > 0 ? param->elem_count / out.n : 0;
    out.rank = smallest(smallest(out.n, out.m), config->rank);
    if (!((double)(out.n + out.m) * (double)out.rank * config->min_compression_rate <
          (double)param->elem_count)) {
        out.rank = 0;
    }
    return out;
}

static bool is_fitting(const struct ddp_powersgd_kept *kept,
                       const struct ddp_powersgd_config *config, const struct ddp_param *params,
                       size_t param_count)
{
    bool is_equal = kept->parts != NULL && kept->param_count == param_count;

    for (size_t i = 0; is_equal && i < param_count; i++) {
        const struct ddp_powersgd_part part = measure(config, &params[i]);

        is_equal = part.n == kept->parts[i].n && part.elem_count == kept->parts[i].elem_count;
    }
    return is_equal;
}

static size_t name_bytes(const struct ddp_param *param)
{
    return sizeof("powersgd.error.") + strlen(param->name);
}

static ddp_status allocate(struct ddp_powersgd_kept *kept, const struct ddp_powersgd_config *config,
                           const struct ddp_param *params)
{
    size_t block_count = 1;
    size_t names_bytes = sizeof("powersgd.iteration");

    kept->state_count = 1 + 2 * kept->param_count;
    kept->parts = ddp_mem_array(kept->mem, kept->param_count + 1, sizeof(*kept->parts));
    kept->state = ddp_mem_array(kept->mem, kept->state_count, sizeof(*kept->state));
    if (kept->parts == NULL || kept->state == NULL) {
        return DDP_E_NOMEM;
    }
    for (size_t i = 0; i < kept->param_count; i++) {
        kept->parts[i] = measure(config, &params[i]);
        block_count += kept->parts[i].elem_count + kept->parts[i].m * kept->parts[i].rank;
        names_bytes += 2 * name_bytes(&params[i]);
    }
    kept->block = ddp_mem_array(kept->mem, block_count, sizeof(*kept->block));
    kept->names = ddp_mem_array(kept->mem, names_bytes, 1);
    return kept->block == NULL || kept->names == NULL ? DDP_E_NOMEM : DDP_OK;
}

static struct ddp_param tensor(const char *name, enum ddp_dtype dtype, void *data,
                               size_t elem_count)
{
    return (struct ddp_param){.name = name,
                              .dtype = dtype,
                              .data = data,
                              .elem_count = elem_count,
                              .ndim = 1,
                              .shape = {elem_count}};
}

static void list_state(struct ddp_powersgd_kept *kept, const struct ddp_param *params,
                       uint64_t *iteration)
{
    char *name = kept->names;
    float *data = kept->block;

    (void)snprintf(name, sizeof("powersgd.iteration"), "powersgd.iteration");
    kept->state[0] = tensor(name, DDP_DTYPE_I64, iteration, 1);
    name += sizeof("powersgd.iteration");
    for (size_t i = 0; i < kept->param_count; i++) {
        struct ddp_powersgd_part *part = &kept->parts[i];
        const size_t counts[2] = {part->elem_count, part->m * part->rank};

        part->error = data;
        part->q = data + part->elem_count;
        for (size_t k = 0; k < 2; k++) {
            (void)snprintf(name, name_bytes(&params[i]), "powersgd.%s.%s", state_names[k],
                           params[i].name);
            kept->state[1 + 2 * i + k] = tensor(name, DDP_DTYPE_F32, data, counts[k]);
            name += name_bytes(&params[i]);
            data += counts[k];
        }
    }
}

ddp_status ddp_powersgd_kept_open(struct ddp_powersgd_kept *kept, struct ddp_mem *mem,
                                  const struct ddp_powersgd_config *config,
                                  const struct ddp_param *params, size_t param_count,
                                  uint64_t *iteration)
{
    ddp_status status;

    if (is_fitting(kept, config, params, param_count)) {
        return DDP_OK;
    }
    ddp_powersgd_kept_close(kept);
    kept->mem = mem;
    kept->param_count = param_count;
    status = allocate(kept, config, params);
    if (status != DDP_OK) {
        ddp_powersgd_kept_close(kept);
        return status;
    }
    list_state(kept, params, iteration);
    return DDP_OK;
}

void ddp_powersgd_kept_close(struct ddp_powersgd_kept *kept)
{
    if (kept->mem != NULL) {
        ddp_mem_free(kept->mem, kept->parts);
        ddp_mem_free(kept->mem, kept->state);
        ddp_mem_free(kept->mem, kept->block);
        ddp_mem_free(kept->mem, kept->names);
    }
    memset(kept, 0, sizeof(*kept));
}
