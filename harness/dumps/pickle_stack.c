#include "harness/dumps/pickle_stack.h"

#include <stdlib.h>
#include <string.h>

#include "harness/dumps/pickle.h"

/* What is fetched from the memo again and again unfolds the file: to no more than so many times its
 * size, and some. */
enum { UNFOLD_TIMES = 16, UNFOLD_MORE = 4096 };

ddp_status harness_pickle_fail(const struct harness_pickle *reader, ddp_status status,
                               const char *what)
{
    return ddp_err_set(reader->err, status, "offset %zu: %s", reader->at, what);
}

/* Takes over value. */
ddp_status harness_pickle_push(struct harness_pickle *reader, enum harness_pickle_form form,
                               json_t *value, unsigned depth)
{
    if (value == NULL && form != PICKLE_MARK) {
        return harness_pickle_fail(reader, DDP_E_PARSE,
                                   "a text that is not UTF-8, or memory is out");
    }
    if (depth > HARNESS_DIAG_PICKLE_DEPTH_MAX) {
        json_decref(value);
        return harness_pickle_fail(reader, DDP_E_PARSE, "nested too deeply");
    }
    if (reader->count == reader->capacity) {
        size_t capacity = reader->capacity == 0 ? 64 : 2 * reader->capacity;
        struct harness_pickle_item *grown = realloc(reader->stack, capacity * sizeof *grown);

        if (grown == NULL) {
            json_decref(value);
            return harness_pickle_fail(reader, DDP_E_NOMEM, "memory is out");
        }
        reader->stack = grown;
        reader->capacity = capacity;
    }
    reader->stack[reader->count++] = (struct harness_pickle_item){form, value, depth, 1, 0, false};
    return DDP_OK;
}

/* Where the items above the last mark begin; 0: there is no mark. */
size_t harness_pickle_above_mark(const struct harness_pickle *reader)
{
    size_t i = reader->count;

    while (i > 0 && reader->stack[i - 1].form != PICKLE_MARK) {
        i--;
    }
    return i;
}

/* Leave only so many items on the stack. */
void harness_pickle_drop_to(struct harness_pickle *reader, size_t count)
{
    while (reader->count > count) {
        json_decref(reader->stack[--reader->count].value);
    }
}

/* It has become a part of something. */
static void close_item(struct harness_pickle *reader, const struct harness_pickle_item *item)
{
    if (item->memo > 0) {
        struct harness_pickle_item *kept = &reader->memo[item->memo - 1];

        kept->is_closed = true;
        kept->depth = item->depth;
        kept->weight = item->weight;
    }
}

/* PyTorch puts a list or map into the memo when it is whole, and asks for it while it still lies on
 * the stack: a frame of a stack trace comes again in the same trace. */
static void hold(struct harness_pickle *reader, uint64_t index)
{
    for (size_t i = reader->count; i > 0; i--) {
        struct harness_pickle_item *item = &reader->stack[i - 1];

        if (item->memo == (size_t)index + 1) {
            item->form = PICKLE_HELD;
            close_item(reader, item);
            return;
        }
    }
}

static ddp_status not_growing(const struct harness_pickle *reader,
                              const struct harness_pickle_item *item, const char *otherwise)
{
    return harness_pickle_fail(
        reader, item != NULL && item->form == PICKLE_HELD ? DDP_E_UNSUPPORTED : DDP_E_PARSE,
        item != NULL && item->form == PICKLE_HELD ? "a list or map within itself is refused"
                                                  : otherwise);
}

/* Move items from first on into the list below `below`. */
ddp_status harness_pickle_append(struct harness_pickle *reader, size_t below, size_t first)
{
    struct harness_pickle_item *list = below > 0 ? &reader->stack[below - 1] : NULL;

    if (list == NULL || list->form != PICKLE_LIST) {
        return not_growing(reader, list, "values are appended to what is no list");
    }
    for (size_t i = first; i < reader->count; i++) {
        struct harness_pickle_item *item = &reader->stack[i];
        unsigned depth = item->depth + 1;

        if (item->form == PICKLE_MARK || depth > HARNESS_DIAG_PICKLE_DEPTH_MAX) {
            return harness_pickle_fail(reader, DDP_E_PARSE,
                                       "nested too deeply, or a mark where a value belongs");
        }
        if (json_array_append(list->value, item->value) != 0) {
            return harness_pickle_fail(reader, DDP_E_NOMEM, "memory is out");
        }
        list->depth = list->depth > depth ? list->depth : depth;
        list->weight += item->weight;
        close_item(reader, item);
    }
    harness_pickle_drop_to(reader, below);
    return DDP_OK;
}

/* A key that is no text, as JSON behind HARNESS_PICKLE_OWN. */
static ddp_status set_odd_item(struct harness_pickle *reader, json_t *map,
                               const struct harness_pickle_item *key, json_t *value)
{
    char name[64] = HARNESS_PICKLE_OWN;
    const size_t own = strlen(name);
    size_t size;

    if (reader->rules == NULL || key->value == NULL) {
        return harness_pickle_fail(reader, DDP_E_PARSE, "a key that is no text");
    }
    size =
        json_dumpb(key->value, name + own, sizeof name - own - 1, JSON_ENCODE_ANY | JSON_COMPACT);
    if (size == 0 || size >= sizeof name - own) {
        return harness_pickle_fail(reader, DDP_E_UNSUPPORTED, "a key that is no text or number");
    }
    name[own + size] = '\0';
    return json_object_set_nocheck(map, name, value) == 0
               ? DDP_OK
               : harness_pickle_fail(reader, DDP_E_NOMEM, "memory is out");
}

static ddp_status set_item(struct harness_pickle *reader, json_t *map,
                           const struct harness_pickle_item *key, json_t *value)
{
    const char *name = json_string_value(key->value);

    if (name == NULL) {
        return set_odd_item(reader, map, key, value);
    }
    if (strlen(name) != json_string_length(key->value)) {
        return harness_pickle_fail(reader, DDP_E_PARSE, "a key with a zero byte");
    }
    return json_object_set(map, name, value) == 0
               ? DDP_OK
               : harness_pickle_fail(reader, DDP_E_PARSE, "a key that cannot be kept");
}

ddp_status harness_pickle_set_items(struct harness_pickle *reader, size_t below, size_t first)
{
    struct harness_pickle_item *map = below > 0 ? &reader->stack[below - 1] : NULL;

    if (map == NULL || map->form != PICKLE_MAP || (reader->count - first) % 2 != 0) {
        return not_growing(reader, map, "keys and values are put into what is no map");
    }
    for (size_t i = first; i < reader->count; i += 2) {
        struct harness_pickle_item *value = &reader->stack[i + 1];
        unsigned depth = value->depth + 1;

        if (value->form == PICKLE_MARK || depth > HARNESS_DIAG_PICKLE_DEPTH_MAX) {
            return harness_pickle_fail(reader, DDP_E_PARSE,
                                       "a mark where a value belongs, or nested too deeply");
        }
        DDP_TRY(set_item(reader, map->value, &reader->stack[i], value->value));
        map->depth = map->depth > depth ? map->depth : depth;
        map->weight += value->weight + 1;
        close_item(reader, value);
    }
    harness_pickle_drop_to(reader, below);
    return DDP_OK;
}

/* The last items become one array. */
ddp_status harness_pickle_make_tuple(struct harness_pickle *reader, size_t first, bool has_mark)
{
    json_t *array = json_array();
    unsigned depth = 0;
    size_t weight = 1;
    ddp_status status;

    for (size_t i = first; i < reader->count; i++) {
        struct harness_pickle_item *item = &reader->stack[i];

        if (item->form == PICKLE_MARK || json_array_append(array, item->value) != 0) {
            json_decref(array);
            return harness_pickle_fail(reader, DDP_E_PARSE,
                                       "a mark where a value belongs, or memory is out");
        }
        close_item(reader, item);
        depth = depth > item->depth + 1 ? depth : item->depth + 1;
        weight += item->weight;
    }
    harness_pickle_drop_to(reader, first - (has_mark ? 1 : 0));
    status = harness_pickle_push(reader, PICKLE_SHARED, array, depth);
    if (status == DDP_OK) {
        reader->stack[reader->count - 1].weight = weight;
    }
    return status;
}

/* Notes the top of the stack. */
ddp_status harness_pickle_put(struct harness_pickle *reader, uint64_t index)
{
    struct harness_pickle_item *top = reader->count > 0 ? &reader->stack[reader->count - 1] : NULL;

    if (top == NULL || top->form == PICKLE_MARK) {
        return harness_pickle_fail(reader, DDP_E_PARSE, "nothing is there to be remembered");
    }
    if (index > reader->size_bytes) {
        return harness_pickle_fail(reader, DDP_E_PARSE,
                                   "a number in the memo beyond the file's size");
    }
    if (index >= reader->memo_count) {
        size_t count = 2 * (size_t)index + 64;
        struct harness_pickle_item *grown = realloc(reader->memo, count * sizeof *grown);

        if (grown == NULL) {
            return harness_pickle_fail(reader, DDP_E_NOMEM, "memory is out");
        }
        memset(grown + reader->memo_count, 0, (count - reader->memo_count) * sizeof *grown);
        reader->memo = grown;
        reader->memo_count = count;
    }
    json_decref(reader->memo[index].value);
    reader->memo[index] = *top;
    reader->memo[index].value = json_incref(top->value);
    reader->memo[index].is_closed = top->form == PICKLE_SHARED;
    top->memo = (size_t)index + 1;
    return DDP_OK;
}

ddp_status harness_pickle_get(struct harness_pickle *reader, uint64_t index)
{
    const struct harness_pickle_item *kept;
    ddp_status status;

    if (index >= reader->memo_count || reader->memo[index].form == PICKLE_MARK) {
        return harness_pickle_fail(reader, DDP_E_PARSE, "the memo has no such number");
    }
    kept = &reader->memo[index];
    if (!kept->is_closed) {
        hold(reader, index);
    }
    reader->unfolded += kept->weight;
    if (reader->unfolded / UNFOLD_TIMES > reader->size_bytes + UNFOLD_MORE) {
        return harness_pickle_fail(reader, DDP_E_UNSUPPORTED, "it unfolds to many times its size");
    }
    status = harness_pickle_push(reader, PICKLE_SHARED, json_incref(kept->value), kept->depth);
    if (status == DDP_OK) {
        reader->stack[reader->count - 1].weight = kept->weight;
    }
    return status;
}
