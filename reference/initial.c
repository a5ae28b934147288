/* A reader of safetensors files: eight bytes of length, little end first, a JSON object that says
 * of each tensor its type, shape and place, and the tensors' bytes. */
#include "reference/initial.h"

#include <jansson.h>
#include <string.h>

#include "ddpcore/base/file.h"

struct ref_initial {
    struct ddp_mem *mem;
    void *read; /* the file, if it was read here */
    json_t *header;
    const unsigned char *tensors;
    size_t tensor_bytes;
};

enum { LENGTH_BYTES = 8 };

static uint64_t read_length(const unsigned char *bytes)
{
    uint64_t length = 0;

    for (int i = LENGTH_BYTES; i-- > 0;) {
        length = length << 8 | bytes[i];
    }
    return length;
}

ddp_status ref_initial_parse(struct ddp_mem *mem, const void *data, size_t size_bytes,
                             struct ref_initial **out, struct ddp_err *err)
{
    const unsigned char *bytes = (const unsigned char *)data;
    struct ref_initial *initial;
    json_error_t error;
    uint64_t length;

    *out = NULL;
    if (size_bytes < LENGTH_BYTES || read_length(bytes) > size_bytes - LENGTH_BYTES) {
        return ddp_err_set(err, DDP_E_CORRUPT, "the file ends before its header does");
    }
    length = read_length(bytes);
    initial = (struct ref_initial *)ddp_mem_array(mem, 1, sizeof(*initial));
    if (initial == NULL) {
        return DDP_E_NOMEM;
    }
    initial->mem = mem;
    initial->header = json_loadb((const char *)bytes + LENGTH_BYTES, (size_t)length,
                                 JSON_REJECT_DUPLICATES, &error);
    if (!json_is_object(initial->header)) {
        ref_initial_close(initial);
        return ddp_err_set(err, DDP_E_CORRUPT, "the header is no JSON object: %s", error.text);
    }
    initial->tensors = bytes + LENGTH_BYTES + length;
    initial->tensor_bytes = size_bytes - LENGTH_BYTES - (size_t)length;
    *out = initial;
    return DDP_OK;
}

ddp_status ref_initial_open(struct ddp_mem *mem, const char *path, struct ref_initial **out,
                            struct ddp_err *err)
{
    struct ddp_files *files = ddp_files_system();
    size_t size_bytes;
    void *data;
    ddp_status status;

    *out = NULL;
    DDP_TRY(files->ops->read_all(files, path, mem, &data, &size_bytes, err));
    status = ref_initial_parse(mem, data, size_bytes, out, err);
    if (status != DDP_OK) {
        ddp_mem_free(mem, data);
        return ddp_err_wrap(err, status, "%s", path);
    }
    DDP_ASSERT(*out != NULL);
    (*out)->read = data;
    return DDP_OK;
}

void ref_initial_close(struct ref_initial *initial)
{
    if (initial == NULL) {
        return;
    }
    json_decref(initial->header);
    ddp_mem_free(initial->mem, initial->read);
    ddp_mem_free(initial->mem, initial);
}

/* Element count, or 0: the shape is another one. */
static size_t match_shape(const json_t *shape, uint32_t ndim, const size_t *wanted)
{
    const size_t given = json_array_size(shape);
    size_t count = 1;

    for (uint32_t d = 0; d < ndim; d++) {
        count *= wanted[d];
    }
    if (!json_is_array(shape) || (given == 0 && count == 1)) {
        return json_is_array(shape) ? 1 : 0;
    }
    if (given != ndim) {
        return 0;
    }
    for (uint32_t d = 0; d < ndim; d++) {
        const json_t *size = json_array_get(shape, d);

        if (!json_is_integer(size) || json_integer_value(size) < 0 ||
            (size_t)json_integer_value(size) != wanted[d]) {
            return 0;
        }
    }
    return count;
}

ddp_status ref_initial_find(const struct ref_initial *initial, const char *name,
                            enum ddp_dtype dtype, uint32_t ndim, const size_t *shape,
                            const void **out, struct ddp_err *err)
{
    const json_t *entry = json_object_get(initial->header, name);
    const char *type = json_string_value(json_object_get(entry, "dtype"));
    const json_t *offsets = json_object_get(entry, "data_offsets");
    const json_int_t begin = json_integer_value(json_array_get(offsets, 0));
    const json_int_t end = json_integer_value(json_array_get(offsets, 1));
    size_t count;

    if (entry == NULL) {
        return ddp_err_set(err, DDP_E_KEYS, "there is no tensor %s", name);
    }
    count = match_shape(json_object_get(entry, "shape"), ndim, shape);
    if (type == NULL || strcmp(type, ddp_dtype_safetensors_name(dtype)) != 0 || count == 0) {
        return ddp_err_set(err, DDP_E_SHAPE, "%s is no %s tensor of the model's shape", name,
                           ddp_dtype_safetensors_name(dtype));
    }
    if (begin < 0 || end < begin || (uint64_t)end > initial->tensor_bytes ||
        (uint64_t)(end - begin) != count * ddp_dtype_size_bytes(dtype)) {
        return ddp_err_set(err, DDP_E_CORRUPT, "%s does not lie where its data_offsets say", name);
    }
    *out = initial->tensors + begin;
    return DDP_OK;
}
