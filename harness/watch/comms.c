/* Communicators: which rank's handle is whose member. */
#include <string.h>

#include "harness/watch/read.h"

static struct harness_watch_group *add_group(struct harness_watch *watch, uint64_t key,
                                             uint64_t size)
{
    struct harness_watch_group *groups = ddp_mem_grow(watch->mem, watch->groups, watch->group_count,
                                                      &watch->group_capacity, sizeof *groups);
    struct harness_watch_group *group;

    if (groups == NULL) {
        watch->is_failed = true;
        return NULL;
    }
    watch->groups = groups;
    group = &groups[watch->group_count];
    *group = (struct harness_watch_group){.key = key, .size = size};
    group->members = ddp_mem_array(watch->mem, watch->world_size, sizeof *group->members);
    if (group->members == NULL) {
        watch->is_failed = true;
        return NULL;
    }
    watch->group_count++;
    return group;
}

/* The n-th communicator of a key on one rank is the n-th of that key on every other one. */
static struct harness_watch_group *find_group(struct harness_watch *watch, uint64_t key,
                                              uint64_t size, uint32_t rank)
{
    for (size_t g = 0; g < watch->group_count; g++) {
        if (watch->groups[g].key == key && !watch->groups[g].members[rank].is_there) {
            return &watch->groups[g];
        }
    }
    return add_group(watch, key, size);
}

/* The name is only on the page, which may be a moment ahead of the ring. */
static void copy_name(const struct harness_watch *watch, uint32_t rank, uint32_t handle,
                      struct harness_watch_group *group)
{
    const struct guest_comm *comm =
        &guest_arena_page(watch->arena, rank)->comms[(handle - 1) % GUEST_COMMS_MAX];
    uint64_t words[GUEST_NAME_BYTES / 8];

    for (unsigned i = 0; i < GUEST_NAME_BYTES / 8; i++) {
        words[i] = harness_watch_load(&comm->name[i]);
    }
    if (harness_watch_load(&comm->handle) == handle) {
        memcpy(group->name, words, sizeof words);
        group->name[sizeof group->name - 1] = '\0';
        for (char *letter = group->name; *letter != '\0'; letter++) {
            if ((unsigned char)*letter < ' ') {
                *letter = '?'; /* a line of a record has it */
            }
        }
    }
}

/* Who belongs to a pair is known from its first message on, on either side. */
static void take_peer(const struct harness_watch *watch, uint32_t rank, uint64_t told,
                      struct harness_watch_group *group)
{
    const int place = guest_pair_place(told);
    const int peer = guest_pair_peer(told);

    if (!group->is_pair || watch->ranks[rank].lost_count > 0 || place < 0 ||
        place >= GUEST_COMMS_MAX || peer < 0 || watch->ranks[rank].comms[place].handle == 0) {
        return;
    }
    group->parent = (uint32_t)watch->ranks[rank].comms[place].group + 1;
    group->peer = (uint32_t)peer;
}

void harness_watch_take_comm(struct harness_watch *watch, uint32_t rank,
                             const uint64_t arg[GUEST_ARG_COUNT])
{
    const uint32_t handle = (uint32_t)arg[0];
    const bool is_of_device = arg[4] == GUEST_COMM_DEVICE || arg[4] == GUEST_COMM_PAIR;
    struct harness_watch_rank *self = &watch->ranks[rank];
    struct harness_watch_group *group = find_group(watch, arg[1], arg[3], rank);
    const size_t place = (handle - 1) % GUEST_COMMS_MAX;

    if (group == NULL) {
        return;
    }
    group->is_pair = arg[4] == GUEST_COMM_PAIR || arg[4] == GUEST_COMM_HOST_PAIR;
    take_peer(watch, rank, arg[2], group);
    self->has_device = self->has_device || is_of_device;
    if (group->name[0] == '\0') {
        copy_name(watch, rank, handle, group);
    }
    group->members[rank] = (struct harness_watch_member){.is_there = true,
                                                         .is_of_device = is_of_device,
                                                         .handle = handle,
                                                         .rank = (uint32_t)arg[2],
                                                         .kept_seq = 1};
    self->comms[place].handle = handle;
    self->comms[place].group = (size_t)(group - watch->groups);
}

struct harness_watch_member *harness_watch_member_of(struct harness_watch *watch, uint32_t rank,
                                                     uint64_t handle, size_t *out_group)
{
    const struct harness_watch_rank *self = &watch->ranks[rank];
    const size_t place = (size_t)((handle - 1) % GUEST_COMMS_MAX);

    if (handle == 0 || self->comms[place].handle != handle) {
        return NULL;
    }
    *out_group = self->comms[place].group;
    return &watch->groups[*out_group].members[rank];
}

void harness_watch_take_free(struct harness_watch *watch, uint32_t rank,
                             const uint64_t arg[GUEST_ARG_COUNT])
{
    size_t group = 0;
    struct harness_watch_member *member = harness_watch_member_of(watch, rank, arg[0], &group);

    if (member != NULL) {
        const bool is_aborted = arg[2] == GUEST_FREE_ABORTED;

        member->is_freed = true;
        member->is_unshown = arg[2] == GUEST_FREE_UNSHOWN || arg[2] == GUEST_FREE_UNMADE;
        watch->groups[group].is_wrong =
            watch->groups[group].is_wrong || arg[2] == GUEST_FREE_UNMADE;
        member->has_broken = member->has_broken || is_aborted;
        watch->ranks[rank].has_broken = watch->ranks[rank].has_broken || is_aborted;
    }
}

void harness_watch_take_near(struct harness_watch *watch, uint32_t rank,
                             const uint64_t arg[GUEST_ARG_COUNT])
{
    size_t group = 0;
    struct harness_watch_member *member = harness_watch_member_of(watch, rank, arg[0], &group);

    if (member == NULL) {
        return;
    }
    for (unsigned i = 1; i <= GUEST_NEAR_MAX && arg[i] != 0; i++) {
        uint64_t *near = ddp_mem_grow(watch->mem, member->near, member->near_count,
                                      &member->near_capacity, sizeof *near);

        if (near == NULL) {
            watch->is_failed = true;
            return;
        }
        member->near = near;
        member->near[member->near_count++] = arg[i];
    }
    member->has_near = true;
}
