#include "harness/results/kept.h"

#include <stdio.h>
#include <string.h>

#include "ddpcore/base/dtype.h"
#include "ddpcore/base/file.h"
#include "harness/guest/observe/keep.h"

static uint32_t elem_bytes_of(uint32_t dtype)
{
    switch ((enum ddprove_guest_dtype)dtype) {
    case DDPROVE_GUEST_F16:
    case DDPROVE_GUEST_BF16:
        return 2;
    case DDPROVE_GUEST_F32:
        return 4;
    default:
        return 8;
    }
}

double harness_kept_decode(uint32_t dtype, uint64_t bits)
{
    const uint32_t low = (uint32_t)bits;
    float narrow;
    double value;

    switch ((enum ddprove_guest_dtype)dtype) {
    case DDPROVE_GUEST_F16:
        return (double)ddp_f16_to_f32((uint16_t)bits);
    case DDPROVE_GUEST_BF16:
        return (double)ddp_bf16_to_f32((uint16_t)bits);
    case DDPROVE_GUEST_F32:
        memcpy(&narrow, &low, sizeof narrow);
        return (double)narrow;
    default:
        memcpy(&value, &bits, sizeof value);
        return value;
    }
}

uint64_t harness_kept_bits(const struct harness_kept *kept, const unsigned char *raw, uint64_t elem)
{
    uint64_t bits = 0;

    memcpy(&bits, raw + sizeof(struct guest_kept_head) + elem * kept->elem_bytes, kept->elem_bytes);
    return bits;
}

/* --- files
 * --------------------------------------------------------------------------------------------------------
 */

/* NULL: it is not there, or is not of the call that was reported. */
static unsigned char *read_file(const struct harness_kept *kept,
                                const struct harness_sums_member *member, const char *suffix,
                                const struct harness_watch_value *value)
{
    const struct guest_value reported = {value->sum, value->magnitude, value->hash};
    const struct harness_sums_case *the = kept->the;
    struct guest_kept_head head;
    struct ddp_err err = {{0}};
    char path[GUEST_FOLDER_BYTES + GUEST_KEPT_NAME_BYTES];
    size_t size_bytes = 0;
    void *data = NULL;
    int used;

    used = snprintf(path, sizeof path, "%.*s/", GUEST_FOLDER_BYTES - 1,
                    the->watch->arena->keep_folder);
    (void)snprintf(path + used, sizeof path - (size_t)used, GUEST_KEPT_NAME, member->rank,
                   (unsigned long long)the->group->key, member->handle,
                   (unsigned long long)the->seq, suffix);
    if (ddp_files_system()->ops->read_all(ddp_files_system(), path, kept->mem, &data, &size_bytes,
                                          &err) != DDP_OK) {
        return NULL;
    }
    if (size_bytes == sizeof head + kept->count * kept->elem_bytes) {
        memcpy(&head, data, sizeof head);
        if (head.magic == GUEST_KEPT_MAGIC && head.size_bytes == size_bytes - sizeof head &&
            memcmp(&head.value, &reported, sizeof reported) == 0) {
            return data;
        }
    }
    ddp_mem_free(kept->mem, data);
    return NULL;
}

void harness_kept_close(struct harness_kept *kept)
{
    for (uint32_t i = 0; kept->raw_in != NULL && i < kept->the->size; i++) {
        ddp_mem_free(kept->mem, kept->raw_in[i]);
    }
    ddp_mem_free(kept->mem, kept->raw_in);
    ddp_mem_free(kept->mem, kept->raw_out);
    ddp_mem_free(kept->mem, kept->in);
    ddp_mem_free(kept->mem, kept->out);
    harness_orders_destroy(kept->orders);
}

bool harness_kept_open(const struct harness_sums_case *the, struct harness_kept *kept)
{
    const struct harness_sums_member *holder =
        &the->members[the->kind == DDPROVE_GUEST_REDUCE ? the->root : 0];

    *kept = (struct harness_kept){.the = the,
                                  .mem = ddp_mem_system(),
                                  .count = the->call->elem_count,
                                  .elem_bytes = elem_bytes_of(the->dtype)};
    kept->raw_in = ddp_mem_array(kept->mem, the->size, sizeof *kept->raw_in);
    kept->in = ddp_mem_array(kept->mem, the->size * kept->count, sizeof *kept->in);
    kept->out = ddp_mem_array(kept->mem, kept->count, sizeof *kept->out);
    if (kept->raw_in == NULL || kept->in == NULL || kept->out == NULL) {
        return false;
    }
    for (uint32_t i = 0; i < the->size; i++) {
        kept->has_changed = kept->has_changed || the->members[i].call->has_changed;
        kept->raw_in[i] = read_file(kept, &the->members[i], "in", &the->members[i].call->in);
        if (kept->raw_in[i] == NULL) {
            return false;
        }
        for (uint64_t e = 0; e < kept->count; e++) {
            kept->in[i * kept->count + e] =
                harness_kept_decode(the->dtype, harness_kept_bits(kept, kept->raw_in[i], e));
        }
    }
    kept->raw_out = read_file(kept, holder, "out", &holder->call->out);
    for (uint64_t e = 0; kept->raw_out != NULL && e < kept->count; e++) {
        kept->out[e] = harness_kept_decode(the->dtype, harness_kept_bits(kept, kept->raw_out, e));
    }
    return kept->raw_out != NULL &&
           harness_orders_create(
               &(struct harness_orders_sum){.dtype = the->dtype,
                                            .is_average = the->redop == DDPROVE_GUEST_AVG,
                                            .size = the->size,
                                            .count = kept->count,
                                            .in = kept->in,
                                            .out = kept->out},
               kept->mem, &kept->orders) == DDP_OK;
}
