/* Purpose: what each rank reports of its model, update by update, kept until it has been judged. */
#include <string.h>

#include "harness/guest/ddprove_guest.h"
#include "harness/observed/internal.h"
#include "harness/watch/analyse.h"

static void take_tensor(struct harness_observed *observed, struct observed_model *model,
                        const struct guest_entry *entry)
{
    const uint64_t index = entry->arg[0];
    const uint64_t count = entry->arg[4];
    struct observed_table *table = model->table;

    if (index == 0 && count > 0 && count <= OBSERVED_TENSORS_MAX) {
        table = ddp_mem_array(observed->mem, 1, sizeof *table);
        if (table != NULL) {
            table->tensors = ddp_mem_array(observed->mem, count, sizeof *table->tensors);
            table->count = (uint32_t)count;
            table->next = observed->tables;
            observed->tables = table;
        }
        if (table == NULL || table->tensors == NULL) {
            observed->is_failed = true;
            model->table = NULL;
            return;
        }
        model->table = table;
    }
    if (table == NULL || index >= table->count || count != table->count) {
        observed->is_model_strange = true;
        return;
    }
    table->tensors[index].role = entry->arg[1];
    table->tensors[index].dtype = entry->arg[2];
    table->tensors[index].elem_count = entry->arg[3];
}

static void take_name(struct harness_observed *observed, struct observed_model *model,
                      const struct guest_entry *entry)
{
    const uint32_t index = (uint32_t)entry->arg[0];

    if (model->table == NULL || index >= model->table->count) {
        observed->is_model_strange = true;
        return;
    }
    harness_watch_add_part(model->table->tensors[index].name, entry->arg[0] >> 32, &entry->arg[1]);
}

/* The update that the rank is reporting; NULL: it cannot be kept. */
static struct observed_update *open_update(struct harness_observed *observed,
                                           struct observed_model *model, uint32_t step)
{
    struct observed_update *update = model->count > 0 ? &model->updates[model->count - 1] : NULL;
    struct observed_update *updates;

    if (model->table == NULL) {
        observed->is_model_strange = true;
        return NULL;
    }
    if (update != NULL && !update->is_closed) {
        observed->is_model_strange = observed->is_model_strange || update->table != model->table;
        return update->table == model->table ? update : NULL;
    }
    updates = ddp_mem_grow(observed->mem, model->updates, model->count, &model->capacity,
                           sizeof *updates);
    if (updates == NULL) {
        observed->is_failed = true;
        return NULL;
    }
    model->updates = updates;
    update = &updates[model->count];
    *update = (struct observed_update){.step = step, .table = model->table};
    update->parts = ddp_mem_array(observed->mem, (size_t)model->table->count * OBSERVED_PARTS,
                                  sizeof *update->parts);
    update->options = ddp_mem_array(observed->mem, model->table->count, sizeof *update->options);
    model->count++;
    if (update->parts == NULL || update->options == NULL) {
        observed->is_failed = true;
        return NULL;
    }
    return update;
}

static double value_of(uint64_t bits)
{
    double value;

    memcpy(&value, &bits, sizeof value);
    return value;
}

static void take_option(struct observed_options *options, const struct guest_entry *entry)
{
    if ((enum guest_event)(entry->place >> 56) == GUEST_EVENT_OPTION) {
        options->kind = (uint32_t)(entry->arg[1] & 0xff);
        options->is_nesterov = entry->arg[1] >> 8 != 0;
        options->lr = value_of(entry->arg[2]);
        options->decay = value_of(entry->arg[3]);
        options->updates = entry->arg[4];
    } else {
        options->first = value_of(entry->arg[1]);
        options->second = value_of(entry->arg[2]);
        options->eps = value_of(entry->arg[3]);
        options->is_there = true;
    }
}

/* Of the update that is under way. */
static void take_update(struct harness_observed *observed, uint32_t rank,
                        const struct guest_entry *entry)
{
    struct observed_model *model = &observed->models[rank];
    struct observed_update *update;

    /* An update of a model that has shown no tensors, such as those of a device. */
    if (model->table == NULL && (enum guest_event)(entry->place >> 56) == GUEST_EVENT_UPDATED &&
        entry->arg[1] == 0) {
        return;
    }
    update = open_update(observed, model, (uint32_t)entry->place);
    if (update == NULL) {
        return;
    }
    if ((enum guest_event)(entry->place >> 56) == GUEST_EVENT_UPDATED) {
        update->is_closed = true;
        update->step = (uint32_t)entry->place;
        observed->is_model_strange = observed->is_model_strange ||
                                     entry->arg[0] != model->first + model->count - 1 ||
                                     entry->arg[1] != update->table->count;
        return;
    }
    if (entry->arg[0] >= update->table->count) {
        observed->is_model_strange = true;
    } else if ((enum guest_event)(entry->place >> 56) != GUEST_EVENT_STATE) {
        take_option(&update->options[entry->arg[0]], entry);
    } else if (entry->arg[1] < OBSERVED_PARTS) {
        update->parts[entry->arg[0] * OBSERVED_PARTS + entry->arg[1]] =
            (struct observed_part){true, entry->arg[2]};
    }
}

void observed_take_model(struct harness_observed *observed, uint32_t rank,
                         const struct guest_entry *entry)
{
    /* What is not judged any more is not kept: a job may be left to go on. */
    if (observed->is_failed || observed->is_model_wrong || observed->is_model_strange) {
        return;
    }
    switch ((enum guest_event)(entry->place >> 56)) {
    case GUEST_EVENT_TENSOR:
        take_tensor(observed, &observed->models[rank], entry);
        break;
    case GUEST_EVENT_TENSOR_NAME:
        take_name(observed, &observed->models[rank], entry);
        break;
    default:
        take_update(observed, rank, entry);
        break;
    }
}

static void free_update(const struct harness_observed *observed, struct observed_update *update)
{
    ddp_mem_free(observed->mem, update->parts);
    ddp_mem_free(observed->mem, update->options);
}

/* Updates are few: all ranks come to them at about the same time. */
void observed_forget_update(struct harness_observed *observed, uint64_t number)
{
    for (uint32_t r = 0; r < observed->watch->world_size; r++) {
        struct observed_model *model = &observed->models[r];

        if (model->count > 0 && model->first == number) {
            free_update(observed, &model->before);
            model->before = model->updates[0];
            model->count--;
            memmove(model->updates, model->updates + 1, model->count * sizeof *model->updates);
        }
        model->first = number + 1;
    }
}

void observed_free_model(struct harness_observed *observed)
{
    for (uint32_t r = 0; r < observed->watch->world_size; r++) {
        struct observed_model *model = &observed->models[r];

        for (size_t i = 0; i < model->count; i++) {
            free_update(observed, &model->updates[i]);
        }
        free_update(observed, &model->before);
        ddp_mem_free(observed->mem, model->updates);
    }
    while (observed->tables != NULL) {
        struct observed_table *table = observed->tables;

        observed->tables = table->next;
        ddp_mem_free(observed->mem, table->tensors);
        ddp_mem_free(observed->mem, table);
    }
}
