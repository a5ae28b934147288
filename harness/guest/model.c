/* What the program tells of its model: which tensors there are, and what they come to. */
#include <string.h>

#include "harness/guest/ddprove_guest.h"
#include "harness/guest/fault.h"
#include "harness/guest/observe/keep.h"
#include "harness/guest/observe/project.h"
#include "harness/guest/self.h"

/* The i-th of structs that may be longer, or shorter, than this library's. */
static struct ddprove_guest_tensor tensor_at(const struct ddprove_guest_tensor *tensors, uint32_t i)
{
    struct ddprove_guest_tensor tensor;
    const size_t stride = tensors->size_bytes;

    memset(&tensor, 0, sizeof tensor);
    memcpy(&tensor, (const char *)tensors + i * stride,
           stride < sizeof tensor ? stride : sizeof tensor);
    return tensor;
}

/* Of all that the table shows. */
static uint64_t hash_of_table(const struct ddprove_guest_tensor *tensors, uint32_t count)
{
    uint64_t hash = guest_mix(1 + (uint64_t)count);

    for (uint32_t i = 0; i < count; i++) {
        const struct ddprove_guest_tensor tensor = tensor_at(tensors, i);

        hash = guest_mix(hash + tensor.elem_count);
        hash = guest_mix(hash + (tensor.role | (uint64_t)tensor.dtype << 32));
        hash = guest_mix(hash + guest_name_hash(tensor.name != NULL ? tensor.name : ""));
    }
    return hash;
}

/* The table, whenever it is another one. */
static void show_table(struct guest_page *page, const struct ddprove_guest_tensor *tensors,
                       uint32_t count)
{
    const uint64_t hash = hash_of_table(tensors, count);

    if (guest_load(&page->model_shown) == hash) {
        return;
    }
    guest_store(&page->model_shown, hash);
    for (uint32_t i = 0; i < count; i++) {
        const struct ddprove_guest_tensor tensor = tensor_at(tensors, i);

        guest_self_record(page, GUEST_EVENT_TENSOR,
                          (const uint64_t[GUEST_ARG_COUNT]){i, tensor.role, tensor.dtype,
                                                            tensor.elem_count, count});
        guest_self_record_name(page, GUEST_EVENT_TENSOR_NAME, i, tensor.name);
    }
}

static void show_part(struct guest_page *page, const struct ddprove_guest_tensor *tensor,
                      uint32_t index, unsigned part, const void *data)
{
    const uint64_t size_bytes = tensor->elem_count * guest_dtype_size_bytes(tensor->dtype);
    struct guest_projection of = {.hash = 0};

    if (!guest_is_readable(data, size_bytes)) {
        return;
    }
    guest_project(data, tensor->elem_count, tensor->dtype, guest_mix(index), GUEST_PROJECT_HASH,
                  &of);
    guest_self_record(page, GUEST_EVENT_STATE,
                      (const uint64_t[GUEST_ARG_COUNT]){index, part, of.hash});
    guest_keep_tensor(page, guest_load(&page->update_count) + 1, index, part, data, size_bytes,
                      of.hash);
}

static void show_tensor(struct guest_page *page, const struct ddprove_guest_tensor *tensor,
                        uint32_t index, unsigned before)
{
    show_part(page, tensor, index, before + GUEST_PART_DATA, tensor->data);
    show_part(page, tensor, index, before + GUEST_PART_FIRST, tensor->state[0]);
    show_part(page, tensor, index, before + GUEST_PART_SECOND, tensor->state[1]);
    if (before != 0) {
        show_part(page, tensor, index, before + GUEST_PART_GRADIENT, tensor->gradient);
    }
}

static uint64_t bits_of(double value)
{
    uint64_t bits;

    memcpy(&bits, &value, sizeof bits);
    return bits;
}

static void show_options(struct guest_page *page, const struct ddprove_guest_tensor *tensor,
                         uint32_t index)
{
    struct ddprove_guest_optimizer options;
    int is_sgd;

    if (tensor->optimizer == NULL) {
        return;
    }
    memset(&options, 0, sizeof options);
    memcpy(&options, tensor->optimizer,
           tensor->optimizer->size_bytes < sizeof options ? tensor->optimizer->size_bytes
                                                          : sizeof options);
    is_sgd = options.kind == DDPROVE_GUEST_SGD;
    guest_self_record(page, GUEST_EVENT_OPTION,
                      (const uint64_t[GUEST_ARG_COUNT]){
                          index, (options.kind & 0xff) | (uint64_t)(options.is_nesterov != 0) << 8,
                          bits_of(options.lr), bits_of(options.weight_decay),
                          tensor->update_count});
    guest_self_record(
        page, GUEST_EVENT_OPTION_MORE,
        (const uint64_t[GUEST_ARG_COUNT]){index, bits_of(is_sgd ? options.momentum : options.beta1),
                                          bits_of(is_sgd ? options.dampening : options.beta2),
                                          bits_of(options.eps)});
}

/* NULL: nobody asks. */
static struct guest_page *asked(const struct ddprove_guest_tensor *tensors, uint32_t count)
{
    struct guest_page *page = guest_self_page();

    return page != NULL && guest_self_arena()->is_observed != 0 && (tensors != NULL || count == 0)
               ? page
               : NULL;
}

int ddprove_guest_asks_updated(void)
{
    return asked(NULL, 0) != NULL || ddprove_guest_wants(DDPROVE_GUEST_POINT_PARAM_UPDATED, NULL);
}

int ddprove_guest_asks_update_begin(void)
{
    struct guest_page *page = asked(NULL, 0);

    return page != NULL && guest_is_kept(page);
}

void ddprove_guest_update_begin(const struct ddprove_guest_tensor *tensors, uint32_t count)
{
    struct guest_page *page = asked(tensors, count);

    if (page == NULL || !guest_is_kept(page)) {
        return;
    }
    show_table(page, tensors, count);
    for (uint32_t i = 0; i < count; i++) {
        const struct ddprove_guest_tensor tensor = tensor_at(tensors, i);

        show_tensor(page, &tensor, i, GUEST_PART_BEFORE);
        show_options(page, &tensor, i);
    }
}

/* Faults may be for a tensor after its update; whether or not anybody judges. */
static void pass_updated(const struct ddprove_guest_tensor *tensors, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        const struct ddprove_guest_tensor tensor = tensor_at(tensors, i);
        struct ddprove_guest_place place = {.size_bytes = sizeof place,
                                            .point = DDPROVE_GUEST_POINT_PARAM_UPDATED,
                                            .name = tensor.name,
                                            .data = (void *)(uintptr_t)tensor.data,
                                            .elem_count = tensor.elem_count,
                                            .dtype = tensor.dtype};

        (void)ddprove_guest_pass(&place);
    }
}

void ddprove_guest_updated(const struct ddprove_guest_tensor *tensors, uint32_t count)
{
    struct guest_page *page = asked(tensors, count);

    if (tensors != NULL && ddprove_guest_wants(DDPROVE_GUEST_POINT_PARAM_UPDATED, NULL)) {
        pass_updated(tensors, count);
    }
    if (page == NULL) {
        return;
    }
    show_table(page, tensors, count);
    for (uint32_t i = 0; i < count; i++) {
        const struct ddprove_guest_tensor tensor = tensor_at(tensors, i);

        show_tensor(page, &tensor, i, 0);
    }
    guest_store(&page->update_count, guest_load(&page->update_count) + 1);
    guest_self_record(page, GUEST_EVENT_UPDATED,
                      (const uint64_t[GUEST_ARG_COUNT]){guest_load(&page->update_count), count});
}
