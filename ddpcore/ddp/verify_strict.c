/* Strict verification at construction. All ranks exchange fingerprints. Only if they differ, hashes
 * of each item are exchanged and give the first item that differs and the rank that differs from
 * the majority, if there is one; then descriptions of that item, so that every rank can print both
 * sides. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "ddpcore/base/hash.h"
#include "ddpcore/ddp/core.h"

#define DDP_DESCRIPTION_BYTES 192

/* What every rank sends first. */
struct fingerprint {
    uint64_t hash; /* of everything below and of all items */
    uint64_t param_count;
    uint64_t buffer_count;
};

enum { OPTION_COUNT = 13 };

struct option {
    const char *name;
    uint64_t value;
    const char *text; /* what is shown in the value's place, or NULL */
};

/* mixed: room for what is shown. */
static void list_options(const struct ddp *ddp, char mixed[DDP_MIXED_NAME_BYTES],
                         struct option out[OPTION_COUNT])
{
    const struct ddp_config *config = &ddp->config;
    const struct ddp_hook *hook = config->hook;
    struct option options[OPTION_COUNT] = {
        {.name = "build_id", .value = config->build_id},
        {.name = "semantics", .value = ddp->group->semantics},
        {.name = "bucket_cap_bytes", .value = config->bucket_cap_bytes},
        {.name = "first_bucket_cap_bytes", .value = config->first_bucket_cap_bytes},
        {.name = "bucket_order", .value = config->bucket_order},
        {.name = "gradient_scale", .value = config->gradient_scale},
        {.name = "find_unused_parameters", .value = config->find_unused_parameters},
        {.name = "is_static_graph", .value = config->is_static_graph},
        {.name = "broadcast_buffers", .value = config->broadcast_buffers},
        {.name = "is_init_sync_skipped", .value = config->is_init_sync_skipped},
        {.name = "gradient_as_bucket_view", .value = config->gradient_as_bucket_view},
        {.name = "hook",
         .value = hook == NULL ? 0 : hook->ops->identity(hook),
         .text = hook == NULL ? "none" : hook->ops->name},
        {.name = "mixed_precision", .text = "none"},
    };

    if (config->mixed != NULL) {
        ddp_mixed_name(ddp, mixed);
        options[OPTION_COUNT - 1].value = ddp_hash_text(mixed);
        options[OPTION_COUNT - 1].text = mixed;
    }
    memcpy(out, options, sizeof(options));
}

/* Items in order: options; parameters, as many as the rank with most has; buffers likewise. An item
 * that this rank does not have hashes as 0. */
struct item_table {
    const struct ddp *ddp;
    struct option options[OPTION_COUNT];
    char mixed[DDP_MIXED_NAME_BYTES]; /* of one of them */
    size_t param_slots, buffer_slots;
};

static size_t item_count(const struct item_table *table)
{
    return OPTION_COUNT + table->param_slots + table->buffer_slots;
}

static uint64_t param_hash(const struct ddp_param *param)
{
    uint64_t hash = ddp_hash_combine(ddp_hash_text(param->name), param->elem_count);

    hash = ddp_hash_combine(hash, param->dtype);
    hash = ddp_hash_combine(hash, param->ndim);
    for (uint32_t i = 0; i < param->ndim; i++) {
        hash = ddp_hash_combine(hash, param->shape[i]);
    }
    return hash | 1;
}

static uint64_t item_hash(const struct item_table *table, size_t item)
{
    const struct ddp *ddp = table->ddp;

    DDP_ASSERT(item < item_count(table));
    if (item < OPTION_COUNT) {
        return table->options[item].value;
    }
    item -= OPTION_COUNT;
    if (item < table->param_slots) {
        return item < ddp->param_count ? param_hash(&ddp->params[item]) : 0;
    }
    item -= table->param_slots;
    if (item < ddp->buffer_count) {
        const struct ddp_buffer *buffer = &ddp->buffers[item];

        return ddp_hash_combine(ddp_hash_combine(ddp_hash_text(buffer->name), buffer->dtype),
                                buffer->elem_count) |
               1;
    }
    return 0;
}

static void describe_param(const struct ddp *ddp, size_t index, char *out)
{
    const struct ddp_param *param;
    int length;

    if (index >= ddp->param_count) {
        (void)snprintf(out, DDP_DESCRIPTION_BYTES, "no parameter %zu (it has %zu)", index,
                       ddp->param_count);
        return;
    }
    param = &ddp->params[index];
    length = snprintf(out, DDP_DESCRIPTION_BYTES, "parameter %zu \"%.100s\" %s[", index,
                      param->name, ddp_dtype_name(param->dtype));
    for (uint32_t i = 0; i < param->ndim; i++) {
        length += snprintf(out + length, DDP_DESCRIPTION_BYTES - (size_t)length, "%s%zu",
                           i == 0 ? "" : ",", param->shape[i]);
        if (length >= DDP_DESCRIPTION_BYTES) {
            return;
        }
    }
    (void)snprintf(out + length, DDP_DESCRIPTION_BYTES - (size_t)length, "]");
}

static void describe_item(const struct item_table *table, size_t item, char *out)
{
    const struct ddp *ddp = table->ddp;

    DDP_ASSERT(item < item_count(table));
    memset(out, 0, DDP_DESCRIPTION_BYTES);
    if (item < OPTION_COUNT) {
        const struct option *option = &table->options[item];

        (void)(option->text != NULL ? snprintf(out, DDP_DESCRIPTION_BYTES, "option %s = %s",
                                               option->name, option->text)
                                    : snprintf(out, DDP_DESCRIPTION_BYTES, "option %s = %" PRIu64,
                                               option->name, option->value));
        return;
    }
    item -= OPTION_COUNT;
    if (item < table->param_slots) {
        describe_param(ddp, item, out);
        return;
    }
    item -= table->param_slots;
    if (item < ddp->buffer_count) {
        (void)snprintf(out, DDP_DESCRIPTION_BYTES, "buffer %zu \"%.100s\" %s[%zu]", item,
                       ddp->buffers[item].name, ddp_dtype_name(ddp->buffers[item].dtype),
                       ddp->buffers[item].elem_count);
    } else {
        (void)snprintf(out, DDP_DESCRIPTION_BYTES, "no buffer %zu (it has %zu)", item,
                       ddp->buffer_count);
    }
}

/* How many ranks hold what a rank holds; item i of rank r is at r*stride + i. */
static uint32_t camp_size(const uint64_t *hashes, size_t stride, size_t item, uint32_t rank_count,
                          uint32_t rank)
{
    uint32_t count = 0;

    for (uint32_t k = 0; k < rank_count; k++) {
        count += hashes[k * stride + item] == hashes[rank * stride + item] ? 1 : 0;
    }
    return count;
}

/* The first rank that holds the value most ranks hold. */
static uint32_t majority_rank(const uint64_t *hashes, size_t stride, size_t item,
                              uint32_t rank_count)
{
    uint32_t best = 0, best_count = 0;

    for (uint32_t r = 0; r < rank_count; r++) {
        uint32_t count = camp_size(hashes, stride, item, rank_count, r);

        if (count > best_count) {
            best = r;
            best_count = count;
        }
    }
    DDP_ASSERT(best_count > 0);
    return best;
}

struct difference {
    size_t item;
    uint32_t member, other; /* the lowest that differs from the majority, one of the majority */
    bool is_tied; /* there is none: as many hold what `member` holds as what `other` does */
};

/* The first item that not all ranks hold alike. */
static bool find_difference(const uint64_t *hashes, size_t count, uint32_t rank_count,
                            struct difference *out)
{
    for (size_t item = 0; item < count; item++) {
        bool is_equal = true;

        for (uint32_t r = 1; r < rank_count && is_equal; r++) {
            is_equal = hashes[r * count + item] == hashes[item];
        }
        if (is_equal) {
            continue;
        }
        *out = (struct difference){.item = item};
        out->other = majority_rank(hashes, count, item, rank_count);
        for (uint32_t r = rank_count; r-- > 0;) {
            if (hashes[r * count + item] != hashes[out->other * count + item]) {
                out->member = r;
                out->is_tied =
                    out->is_tied || camp_size(hashes, count, item, rank_count, r) ==
                                        camp_size(hashes, count, item, rank_count, out->other);
            }
        }
        DDP_ASSERT(out->member != out->other);
        return true;
    }
    return false;
}

/* What a rank described. It came from there, so it may be anything: it is ended, and no control
 * character of it reaches a terminal. */
static const char *readable(char *texts, uint32_t rank)
{
    char *text = texts + rank * (size_t)DDP_DESCRIPTION_BYTES;

    text[DDP_DESCRIPTION_BYTES - 1] = '\0';
    for (char *c = text; *c != '\0'; c++) {
        if ((unsigned char)*c < ' ' || *c == 0x7f) {
            *c = '?';
        }
    }
    return text;
}

/* Exchange item hashes and name the first difference. Every rank comes to the same result. */
static ddp_status explain(struct ddp *ddp, struct item_table *table, struct ddp_err *err)
{
    struct ddp_mem *mem = ddp->group->env->mem;
    const uint32_t rank_count = ddp->group->coll->member_count;
    const size_t count = item_count(table);
    uint64_t *own = ddp_mem_array(mem, count, sizeof(*own));
    uint64_t *all = ddp_mem_array(mem, count * rank_count, sizeof(*all));
    char *texts = ddp_mem_array(mem, rank_count, DDP_DESCRIPTION_BYTES);
    char text[DDP_DESCRIPTION_BYTES];
    struct difference found = {.item = 0};
    ddp_status status = own == NULL || all == NULL || texts == NULL ? DDP_E_NOMEM : DDP_OK;

    for (size_t i = 0; status == DDP_OK && i < count; i++) {
        own[i] = item_hash(table, i);
    }
    if (status == DDP_OK) {
        status = ddp_verify_gather(ddp, 1, own, count * sizeof(*own), all);
    }
    if (status == DDP_OK && !find_difference(all, count, rank_count, &found)) {
        /* Fingerprints differ, but no item does: a message was damaged. */
        status = ddp_core_fail(ddp, DDP_E_MODEL, 0);
    } else if (status == DDP_OK) {
        describe_item(table, found.item, text);
        status = ddp_verify_gather(ddp, 2, text, sizeof(text), texts);
    }
    if (status == DDP_OK) {
        status = ddp_verify_fail(ddp, found.is_tied ? -1 : (int32_t)found.member);
        (void)ddp_err_set(
            err, status, "ranks hold different models%s: rank %u has %s, rank %u has %s",
            found.is_tied ? ", in camps of equal size" : "",
            ddp_coll_rank_of(ddp->group->coll, found.member), readable(texts, found.member),
            ddp_coll_rank_of(ddp->group->coll, found.other), readable(texts, found.other));
    }
    ddp_mem_free(mem, own);
    ddp_mem_free(mem, all);
    ddp_mem_free(mem, texts);
    return status;
}

static struct fingerprint make_fingerprint(const struct item_table *table)
{
    struct fingerprint out = {0, table->ddp->param_count, table->ddp->buffer_count};

    out.hash = ddp_hash_combine(out.param_count, out.buffer_count);
    for (size_t i = 0; i < item_count(table); i++) {
        out.hash = ddp_hash_combine(out.hash, item_hash(table, i));
    }
    return out;
}

ddp_status ddp_verify_strict(struct ddp *ddp, struct ddp_err *err)
{
    struct ddp_mem *mem = ddp->group->env->mem;
    const uint32_t rank_count = ddp->group->coll->member_count;
    struct item_table table = {
        .ddp = ddp, .param_slots = ddp->param_count, .buffer_slots = ddp->buffer_count};
    struct fingerprint own;
    struct fingerprint *all = ddp_mem_array(mem, rank_count, sizeof(*all));
    bool is_equal = true;
    ddp_status status;

    if (all == NULL) {
        return ddp_core_fail(ddp, DDP_E_NOMEM, 0);
    }
    list_options(ddp, table.mixed, table.options);
    own = make_fingerprint(&table);
    status = ddp_verify_gather(ddp, 0, &own, sizeof(own), all);
    for (uint32_t r = 0; status == DDP_OK && r < rank_count; r++) {
        is_equal = is_equal && all[r].hash == own.hash;
        if (all[r].param_count > table.param_slots) {
            table.param_slots = (size_t)all[r].param_count;
        }
        if (all[r].buffer_count > table.buffer_slots) {
            table.buffer_slots = (size_t)all[r].buffer_count;
        }
    }
    ddp_mem_free(mem, all);
    if (status != DDP_OK) {
        return ddp_err_set(err, status, "the models could not be compared: %s",
                           ddp_status_text(status));
    }
    return is_equal ? DDP_OK : explain(ddp, &table, err);
}
