/* What the names in a pickle of torch.save stand for. A name that is not in the table is refused:
 * nothing is looked up, imported or called. */
#include <string.h>

#include "harness/ckpt/torch.h"
#include "harness/dumps/pickle.h"

/* Keys of the objects that are built here, which no pickle can make. */
#define GLOBAL_KEY  HARNESS_PICKLE_OWN "global"
#define STORAGE_KEY HARNESS_PICKLE_OWN "storage"
#define TENSOR_KEY  HARNESS_PICKLE_OWN "tensor"

enum role {
    ORDERED_DICT,
    TENSOR,          /* of a storage with a type */
    TENSOR_OF_DTYPE, /* of bytes; the type is an argument */
    PARAMETER,
    STORAGE,
    DTYPE
};

static const struct global {
    const char *module, *name;
    enum role role;
    enum harness_ckpt_dtype dtype; /* of STORAGE and DTYPE */
} globals[] = {
    {"collections", "OrderedDict", ORDERED_DICT, HARNESS_CKPT_U8},
    {"torch._utils", "_rebuild_tensor_v2", TENSOR, HARNESS_CKPT_U8},
    {"torch._utils", "_rebuild_tensor_v3", TENSOR_OF_DTYPE, HARNESS_CKPT_U8},
    {"torch._utils", "_rebuild_parameter", PARAMETER, HARNESS_CKPT_U8},
    {"torch", "DoubleStorage", STORAGE, HARNESS_CKPT_F64},
    {"torch", "FloatStorage", STORAGE, HARNESS_CKPT_F32},
    {"torch", "HalfStorage", STORAGE, HARNESS_CKPT_F16},
    {"torch", "BFloat16Storage", STORAGE, HARNESS_CKPT_BF16},
    {"torch", "LongStorage", STORAGE, HARNESS_CKPT_I64},
    {"torch", "IntStorage", STORAGE, HARNESS_CKPT_I32},
    {"torch", "ShortStorage", STORAGE, HARNESS_CKPT_I16},
    {"torch", "CharStorage", STORAGE, HARNESS_CKPT_I8},
    {"torch", "ByteStorage", STORAGE, HARNESS_CKPT_U8},
    {"torch", "BoolStorage", STORAGE, HARNESS_CKPT_BOOL},
    {"torch.storage", "UntypedStorage", STORAGE, HARNESS_CKPT_U8},
    {"torch", "float64", DTYPE, HARNESS_CKPT_F64},
    {"torch", "float32", DTYPE, HARNESS_CKPT_F32},
    {"torch", "float16", DTYPE, HARNESS_CKPT_F16},
    {"torch", "bfloat16", DTYPE, HARNESS_CKPT_BF16},
    {"torch", "float8_e5m2", DTYPE, HARNESS_CKPT_F8_E5M2},
    {"torch", "float8_e4m3fn", DTYPE, HARNESS_CKPT_F8_E4M3},
    {"torch", "int64", DTYPE, HARNESS_CKPT_I64},
    {"torch", "int32", DTYPE, HARNESS_CKPT_I32},
    {"torch", "int16", DTYPE, HARNESS_CKPT_I16},
    {"torch", "int8", DTYPE, HARNESS_CKPT_I8},
    {"torch", "uint64", DTYPE, HARNESS_CKPT_U64},
    {"torch", "uint32", DTYPE, HARNESS_CKPT_U32},
    {"torch", "uint16", DTYPE, HARNESS_CKPT_U16},
    {"torch", "uint8", DTYPE, HARNESS_CKPT_U8},
    {"torch", "bool", DTYPE, HARNESS_CKPT_BOOL},
};

/* {key: number}; NULL: no memory. */
static json_t *built(const char *key, size_t number)
{
    json_t *object = json_object();

    if (json_object_set_new_nocheck(object, key, json_integer((json_int_t)number)) != 0) {
        json_decref(object);
        return NULL;
    }
    return object;
}

/* The number in such an object; false: it is another value. */
static bool number_in(const json_t *value, const char *key, size_t *out)
{
    const json_t *number = json_object_get(value, key);

    if (number == NULL) {
        return false;
    }
    *out = (size_t)json_integer_value(number);
    return true;
}

static const struct global *global_of(const json_t *value)
{
    size_t number = 0;

    return number_in(value, GLOBAL_KEY, &number) ? &globals[number] : NULL;
}

static ddp_status give(json_t *value, json_t **out, struct ddp_err *err)
{
    *out = value;
    return value != NULL ? DDP_OK : ddp_err_set(err, DDP_E_NOMEM, "memory is out");
}

static ddp_status name_global(void *context, const char *module, const char *name, json_t **out,
                              struct ddp_err *err)
{
    (void)context;
    for (size_t i = 0; i < sizeof globals / sizeof globals[0]; i++) {
        if (strcmp(globals[i].module, module) == 0 && strcmp(globals[i].name, name) == 0) {
            return give(built(GLOBAL_KEY, i), out, err);
        }
    }
    return ddp_err_set(err, DDP_E_UNSUPPORTED,
                       "it needs %s.%s, and only tensors, texts, numbers, lists and dicts are "
                       "read; save the state_dict() alone",
                       module, name);
}

static ddp_status bad_call(struct ddp_err *err, const char *what)
{
    return ddp_err_set(err, DDP_E_PARSE, "%s", what);
}

/* A list of sizes or strides. NULL: it is none, or there is no memory. */
static const uint64_t *numbers_of(struct ddp_mem *mem, const json_t *list, size_t count)
{
    uint64_t *numbers = ddp_mem_array(mem, count, sizeof *numbers);

    for (size_t i = 0; numbers != NULL && i < count; i++) {
        const json_t *number = json_array_get(list, i);

        if (!json_is_integer(number) || json_integer_value(number) < 0) {
            return NULL;
        }
        numbers[i] = (uint64_t)json_integer_value(number);
    }
    return numbers;
}

/* (storage, offset, sizes, strides, requires_grad, hooks[, dtype][, metadata]) */
static ddp_status build_tensor(struct harness_ckpt_pickle *pickle, const json_t *arguments,
                               bool has_dtype, json_t **out, struct ddp_err *err)
{
    const json_t *offset = json_array_get(arguments, 1), *sizes = json_array_get(arguments, 2);
    const struct global *dtype = global_of(json_array_get(arguments, 6));
    struct harness_ckpt_view view = {.ndim = 0};
    struct harness_ckpt_view *grown;

    if (!number_in(json_array_get(arguments, 0), STORAGE_KEY, &view.storage) ||
        !json_is_integer(offset) || json_integer_value(offset) < 0 || !json_is_array(sizes) ||
        json_array_size(sizes) != json_array_size(json_array_get(arguments, 3)) ||
        json_array_size(sizes) > HARNESS_CKPT_NDIM_MAX) {
        return bad_call(err, "a tensor of what is no storage, offset, sizes and strides");
    }
    if (has_dtype && (dtype == NULL || dtype->role != DTYPE)) {
        return bad_call(err, "a tensor without a type");
    }
    view.dtype = has_dtype ? dtype->dtype : pickle->storages[view.storage].dtype;
    view.offset = (uint64_t)json_integer_value(offset);
    view.ndim = (uint32_t)json_array_size(sizes);
    view.shape = numbers_of(pickle->mem, sizes, view.ndim);
    view.stride = numbers_of(pickle->mem, json_array_get(arguments, 3), view.ndim);
    if (view.shape == NULL || view.stride == NULL) {
        return bad_call(err, "sizes or strides that are no numbers from 0 on");
    }
    grown = ddp_mem_grow(pickle->mem, pickle->views, pickle->view_count, &pickle->view_capacity,
                         sizeof *grown);
    if (grown == NULL) {
        return ddp_err_set(err, DDP_E_NOMEM, "memory is out");
    }
    pickle->views = grown;
    grown[pickle->view_count] = view;
    return give(built(TENSOR_KEY, pickle->view_count++), out, err);
}

static ddp_status call_global(void *context, const json_t *callee, json_t *arguments, json_t **out,
                              struct ddp_err *err)
{
    const struct global *global = global_of(callee);
    json_t *first = json_array_get(arguments, 0);

    if (global == NULL) {
        return bad_call(err, "a call of what is no name");
    }
    switch (global->role) {
    case ORDERED_DICT:
        return json_array_size(arguments) == 0
                   ? give(json_object(), out, err)
                   : bad_call(err, "an OrderedDict that is made of something");
    case TENSOR:
        return build_tensor(context, arguments, false, out, err);
    case TENSOR_OF_DTYPE:
        return build_tensor(context, arguments, true, out, err);
    case PARAMETER: /* the tensor itself */
        return harness_ckpt_view_of(context, first) != NULL
                   ? give(json_incref(first), out, err)
                   : bad_call(err, "a parameter of what is no tensor");
    case STORAGE:
    case DTYPE:
        break;
    }
    return ddp_err_set(err, DDP_E_UNSUPPORTED, "%s.%s is called; that is refused", global->module,
                       global->name);
}

/* ('storage', type, key, location, elements[, view]) */
static ddp_status find_storage(void *context, const json_t *id, json_t **out, struct ddp_err *err)
{
    struct harness_ckpt_pickle *pickle = context;
    const struct global *type = global_of(json_array_get(id, 1));
    const char *what = json_string_value(json_array_get(id, 0));
    const json_t *key = json_array_get(id, 2), *count = json_array_get(id, 4);
    struct harness_ckpt_storage storage;
    struct harness_ckpt_storage *grown;

    if (what == NULL || strcmp(what, "storage") != 0 || type == NULL || type->role != STORAGE ||
        !json_is_string(key) || strlen(json_string_value(key)) != json_string_length(key) ||
        !json_is_integer(count) || json_integer_value(count) < 0) {
        return bad_call(err, "a persistent id that is no storage");
    }
    if (json_array_size(id) > 5 && !json_is_null(json_array_get(id, 5))) {
        return ddp_err_set(err, DDP_E_UNSUPPORTED,
                           "a storage within a storage, as before PyTorch 0.4; save it anew");
    }
    storage.key = ddp_mem_strdup(pickle->mem, json_string_value(key));
    storage.dtype = type->dtype;
    storage.elem_count = (uint64_t)json_integer_value(count);
    grown = ddp_mem_grow(pickle->mem, pickle->storages, pickle->storage_count,
                         &pickle->storage_capacity, sizeof *grown);
    if (storage.key == NULL || grown == NULL) {
        return ddp_err_set(err, DDP_E_NOMEM, "memory is out");
    }
    pickle->storages = grown;
    grown[pickle->storage_count] = storage;
    return give(built(STORAGE_KEY, pickle->storage_count++), out, err);
}

ddp_status harness_ckpt_unpickle(struct ddp_mem *mem, const uint8_t *data, size_t size_bytes,
                                 struct harness_ckpt_pickle *out, size_t *out_used,
                                 struct ddp_err *err)
{
    static const struct harness_pickle_rules rules = {
        .what = "a state dict",
        .name = name_global,
        .call = call_global,
        .persistent = find_storage,
    };

    *out = (struct harness_ckpt_pickle){.mem = mem};
    return harness_pickle_read_named(data, size_bytes, &rules, out, &out->root, out_used, err);
}

void harness_ckpt_pickle_fini(struct harness_ckpt_pickle *pickle)
{
    json_decref(pickle->root);
    pickle->root = NULL;
}

const struct harness_ckpt_view *harness_ckpt_view_of(const struct harness_ckpt_pickle *pickle,
                                                     const json_t *value)
{
    size_t number = 0;

    return number_in(value, TENSOR_KEY, &number) ? &pickle->views[number] : NULL;
}

bool harness_ckpt_is_map(const json_t *value)
{
    return json_is_object(value) && json_object_get(value, TENSOR_KEY) == NULL &&
           json_object_get(value, STORAGE_KEY) == NULL &&
           json_object_get(value, GLOBAL_KEY) == NULL;
}
