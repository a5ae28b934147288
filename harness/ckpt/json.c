/* What is said of files, for programs: "ddprove.ckpt/1". Texts that are not UTF-8 become null. */
#include <math.h>
#include <string.h>

#include "harness/ckpt/parts.h"

#define SCHEMA "ddprove.ckpt/1"

/* Takes over value; false: no memory, or no value. */
static bool put(json_t *object, const char *key, json_t *value)
{
    return json_object_set_new(object, key, value) == 0;
}

static json_t *text_of(const char *text)
{
    json_t *value = text != NULL ? json_string(text) : NULL;

    return value != NULL ? value : json_null();
}

static json_t *lines_json(const struct harness_ckpt_lines *lines)
{
    json_t *array = json_array();

    for (size_t i = 0; i < lines->count && i < HARNESS_CKPT_LINES_MAX; i++) {
        if (json_array_append_new(array, text_of(lines->line[i])) != 0) {
            json_decref(array);
            return NULL;
        }
    }
    return array;
}

static bool put_form(json_t *object, const struct harness_ckpt_tensor *tensor)
{
    json_t *shape = json_array();
    bool is_made = put(object, "dtype", json_string(harness_ckpt_dtype_said(tensor->dtype)));

    for (uint32_t i = 0; i < tensor->ndim; i++) {
        is_made = json_array_append_new(shape, json_integer((json_int_t)tensor->shape[i])) == 0 &&
                  is_made;
    }
    return put(object, "shape", shape) && is_made;
}

static json_t *tensors_json(const struct harness_ckpt_tensor *tensors, size_t count)
{
    json_t *array = json_array();

    for (size_t i = 0; i < count; i++) {
        json_t *object = json_object();
        size_t first = 0;
        const size_t not_finite = harness_ckpt_not_finite(tensors[i].dtype, tensors[i].data,
                                                          tensors[i].elem_count, &first);
        const bool is_made =
            put(object, "name", text_of(tensors[i].name)) && put_form(object, &tensors[i]) &&
            put(object, "bytes", json_integer((json_int_t)tensors[i].size_bytes)) &&
            put(object, "not_finite",
                harness_ckpt_dtype_is_float(tensors[i].dtype) ? json_integer((json_int_t)not_finite)
                                                              : json_null());

        if (json_array_append_new(array, object) != 0 || !is_made) {
            json_decref(array);
            return NULL;
        }
    }
    return array;
}

static json_t *meta_json(const struct harness_ckpt *ckpt)
{
    json_t *object = json_object();

    for (size_t i = 0; i < ckpt->meta_count; i++) {
        (void)put(object, ckpt->meta[i].key, text_of(ckpt->meta[i].value));
    }
    return object;
}

static json_t *prefix_json(const struct harness_ckpt *ckpt)
{
    struct harness_ckpt_prefix prefix;

    harness_ckpt_prefix_of(ckpt, &prefix);
    return json_pack("{s:I, s:I, s:i, s:i}", "keys", (json_int_t)prefix.key_count, "with_module",
                     (json_int_t)prefix.with_count, "depth_min", (int)prefix.depth_min, "depth_max",
                     (int)prefix.depth_max);
}

json_t *harness_ckpt_json(const struct harness_ckpt *ckpt, const char *path)
{
    static const char *const checksums[] = {"none", "holds", "broken"};
    json_t *root = json_object();
    const bool is_made =
        put(root, "schema", json_string(SCHEMA)) && put(root, "file", text_of(path)) &&
        put(root, "kind", json_string(harness_ckpt_kind_name(ckpt->kind))) &&
        put(root, "bytes", json_integer((json_int_t)ckpt->file_bytes)) &&
        put(root, "is_sound",
            ckpt->is_verified ? json_boolean(ckpt->faults.count == 0) : json_null()) &&
        put(root, "fault_count", json_integer((json_int_t)ckpt->faults.count)) &&
        put(root, "faults", lines_json(&ckpt->faults)) &&
        put(root, "checksum", json_string(checksums[ckpt->checksum])) &&
        put(root, "taken", text_of(ckpt->taken)) &&
        put(root, "left_out", text_of(ckpt->left_out)) && put(root, "metadata", meta_json(ckpt)) &&
        put(root, "prefix", prefix_json(ckpt)) &&
        put(root, "tensors", tensors_json(ckpt->tensors, ckpt->tensor_count)) &&
        put(root, "others", tensors_json(ckpt->others, ckpt->other_count));

    if (!is_made) {
        json_decref(root);
        return NULL;
    }
    return root;
}

static json_t *change_json(const struct harness_ckpt_change *change)
{
    const struct harness_ckpt_tensor *either = change->a != NULL ? change->a : change->b;
    json_t *object = json_object();
    bool is_made = put(object, "name", text_of(either->name));

    if (change->a == NULL || change->b == NULL) {
        is_made = put(object, "only_in", json_string(change->a != NULL ? "a" : "b")) && is_made;
    } else if (change->is_other_form) {
        json_t *a = json_object(), *b = json_object();

        is_made = put_form(a, change->a) && put_form(b, change->b) && is_made;
        is_made = put(object, "a", a) && is_made;
        is_made = put(object, "b", b) && is_made;
    } else {
        const bool is_float = harness_ckpt_dtype_is_float(either->dtype);

        is_made = put(object, "elements", json_integer((json_int_t)change->elem_count)) &&
                  put(object, "of", json_integer((json_int_t)either->elem_count)) &&
                  put(object, "first", json_integer((json_int_t)change->first)) &&
                  put(object, "not_finite", json_integer((json_int_t)change->not_finite_count)) &&
                  put(object, "abs_max",
                      isfinite(change->abs_max) ? json_real(change->abs_max) : json_null()) &&
                  put(object, "ulps_max",
                      is_float ? json_integer((json_int_t)change->distance_max) : json_null()) &&
                  is_made;
    }
    if (!is_made) {
        json_decref(object);
        return NULL;
    }
    return object;
}

json_t *harness_ckpt_diff_json(const struct harness_ckpt_diff *diff, const char *path_a,
                               const char *path_b)
{
    json_t *root = json_object(), *changes = json_array();
    bool is_made = true;

    for (size_t i = 0; is_made && i < diff->change_count; i++) {
        is_made = json_array_append_new(changes, change_json(&diff->changes[i])) == 0;
    }
    is_made = put(root, "changes", changes) && is_made;
    is_made = put(root, "schema", json_string(SCHEMA)) && put(root, "a", text_of(path_a)) &&
              put(root, "b", text_of(path_b)) &&
              put(root, "is_equal", json_boolean(diff->change_count == 0)) &&
              put(root, "equal", json_integer((json_int_t)diff->equal_count)) &&
              put(root, "prefix_shift", json_integer(diff->shift)) &&
              put(root, "metadata", lines_json(&diff->meta)) && is_made;
    if (!is_made) {
        json_decref(root);
        return NULL;
    }
    return root;
}
