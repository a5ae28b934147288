/* Purpose: gather dumps into sets. */
#include "harness/sums/schedule_set.h"

#include <string.h>

#include "harness/sums/arith.h"
#include "harness/sums/schedule_prove.h"

void harness_schedules_init(struct harness_schedules *schedules, struct ddp_mem *mem)
{
    *schedules = (struct harness_schedules){.mem = mem};
}

static void free_buffers(struct harness_schedule_set *set)
{
    for (uint32_t r = 0; set->buffer != NULL && r < set->size; r++) {
        for (size_t k = 2; set->buffer[r] != NULL && k < set->member[r]->buffer_count; k++) {
            ddp_mem_free(set->mem, set->buffer[r][k]);
        }
        ddp_mem_free(set->mem, set->buffer[r]);
    }
    ddp_mem_free(set->mem, set->buffer);
    set->buffer = NULL;
}

void harness_schedules_fini(struct harness_schedules *schedules)
{
    for (size_t s = 0; s < schedules->set_count; s++) {
        struct harness_schedule_set *set = &schedules->sets[s];

        free_buffers(set);
        for (uint32_t r = 0; r < set->size; r++) {
            if (set->member[r] != NULL) {
                harness_schedule_fini(set->member[r]);
                ddp_mem_free(set->mem, set->member[r]);
            }
        }
        ddp_mem_free(set->mem, set->member);
        ddp_mem_free(set->mem, set->events);
    }
    ddp_mem_free(schedules->mem, schedules->sets);
    harness_schedules_init(schedules, schedules->mem);
}

static bool is_same_operation(const struct harness_schedule *a, const struct harness_schedule *b)
{
    return a->kind == b->kind && a->size == b->size && a->elem_count == b->elem_count &&
           a->dtype == b->dtype && a->root == b->root && strcmp(a->algorithm, b->algorithm) == 0;
}

static ddp_status grow_sets(struct harness_schedules *schedules)
{
    struct harness_schedule_set *sets =
        ddp_mem_grow(schedules->mem, schedules->sets, schedules->set_count,
                     &schedules->set_capacity, sizeof(*sets));

    if (sets == NULL) {
        return DDP_E_NOMEM;
    }
    schedules->sets = sets;
    return DDP_OK;
}

static ddp_status find_or_add_set(struct harness_schedules *schedules,
                                  const struct harness_schedule *schedule,
                                  struct harness_schedule_set **out)
{
    for (size_t s = 0; s < schedules->set_count; s++) {
        if (is_same_operation(schedules->sets[s].any, schedule)) {
            *out = &schedules->sets[s];
            return DDP_OK;
        }
    }
    DDP_TRY(grow_sets(schedules));
    *out = &schedules->sets[schedules->set_count];
    **out = (struct harness_schedule_set){.mem = schedules->mem, .size = schedule->size};
    (*out)->member = ddp_mem_array(schedules->mem, schedule->size, sizeof(*(*out)->member));
    return (*out)->member == NULL ? DDP_E_NOMEM : DDP_OK;
}

struct harness_schedule *harness_schedules_member(const struct harness_schedules *schedules,
                                                  const struct harness_schedule *like)
{
    DDP_ASSERT(like->rank < like->size);
    for (size_t s = 0; s < schedules->set_count; s++) {
        if (is_same_operation(schedules->sets[s].any, like)) {
            return schedules->sets[s].member[like->rank];
        }
    }
    return NULL;
}

ddp_status harness_schedules_add(struct harness_schedules *schedules,
                                 const struct harness_schedule *schedule, struct ddp_err *err)
{
    struct harness_schedule_set *set = NULL;
    struct harness_schedule *kept;

    DDP_ASSERT(schedule->rank < schedule->size);
    DDP_TRY(find_or_add_set(schedules, schedule, &set));
    DDP_ASSERT(set->size == schedule->size);
    if (set->member[schedule->rank] != NULL) {
        return ddp_err_set(err, DDP_E_INVALID, "two schedules of rank %u for one operation",
                           schedule->rank);
    }
    kept = ddp_mem_array(schedules->mem, 1, sizeof(*kept));
    if (kept == NULL) {
        if (set->member_count == 0) {
            ddp_mem_free(schedules->mem, set->member);
        }
        return DDP_E_NOMEM;
    }
    *kept = *schedule;
    set->member[schedule->rank] = kept;
    set->any = kept;
    if (set->member_count++ == 0) {
        schedules->set_count++; /* a set is in the list once it has a member */
    }
    DDP_ASSERT(set->member_count <= set->size);
    return DDP_OK;
}

struct harness_schedule_set *harness_schedules_find(const struct harness_schedules *schedules,
                                                    uint32_t size, enum ddp_coll_kind kind,
                                                    const char *algorithm, size_t elem_count,
                                                    enum ddp_dtype dtype, uint32_t root)
{
    struct harness_schedule_set *fallback = NULL;

    for (size_t s = 0; s < schedules->set_count; s++) {
        const struct harness_schedule *member = schedules->sets[s].any;

        if (member->size != size || member->kind != kind || member->elem_count != elem_count ||
            member->dtype != dtype || member->root != root) {
            continue;
        }
        if (algorithm == NULL || strcmp(member->algorithm, algorithm) == 0) {
            return &schedules->sets[s];
        }
        fallback = &schedules->sets[s];
    }
    return fallback;
}

ddp_status harness_schedules_order(struct harness_schedules *schedules)
{
    for (size_t s = 0; s < schedules->set_count; s++) {
        if (!schedules->sets[s].is_ordered && !schedules->sets[s].is_stuck) {
            DDP_TRY(harness_schedule_set_order(&schedules->sets[s]));
        }
    }
    return DDP_OK;
}
