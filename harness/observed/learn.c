/* Purpose: learn the program of a running job. Idea: calls that all members have posted alike are
 * taken down step by step; a step like the one before only makes that one longer. */
#include <string.h>

#include "harness/observed/learned.h"
#include "harness/watch/analyse.h"

/* A communicator of the watch: it is the learned one with the same number. */
struct harness_learner {
    const struct harness_watch *watch;
    struct harness_learned learned;
    uint64_t *seq; /* [learned.capacity]: up to here it was taken down */
    size_t seq_capacity;
    bool is_lost;
};

ddp_status harness_learner_create(struct ddp_mem *mem, const struct harness_watch *watch,
                                  struct harness_learner **out)
{
    struct harness_learner *learner = ddp_mem_array(mem, 1, sizeof *learner);

    *out = learner;
    if (learner == NULL) {
        return DDP_E_NOMEM;
    }
    learner->watch = watch;
    learner->learned.mem = mem;
    learner->learned.world_size = watch->world_size;
    return DDP_OK;
}

static bool is_like(const struct harness_learned_steps *a, const struct harness_learned_steps *b)
{
    return a->count == b->count && memcmp(a->calls, b->calls, a->count * sizeof *a->calls) == 0;
}

/* The last steps, if the ones before are like them, become one with these. */
static void close_step(struct harness_learned_comm *comm)
{
    if (comm->count >= 2) {
        struct harness_learned_steps *last = &comm->steps[comm->count - 1];
        struct harness_learned_steps *before = last - 1;

        if (is_like(before, last) && before->last + 1 == last->first) {
            before->last = last->last;
            last->count = 0;
            comm->count--;
        }
    }
}

/* The steps that a call of this step belongs to; NULL: out of memory. */
static struct harness_learned_steps *open_step(struct ddp_mem *mem,
                                               struct harness_learned_comm *comm, uint32_t step)
{
    struct harness_learned_steps *steps;

    if (comm->count > 0 && comm->steps[comm->count - 1].last == step) {
        return &comm->steps[comm->count - 1];
    }
    close_step(comm);
    steps = ddp_mem_grow(mem, comm->steps, comm->count, &comm->capacity, sizeof *steps);
    if (steps == NULL) {
        return NULL;
    }
    comm->steps = steps;
    steps = &steps[comm->count++];
    steps->first = step;
    steps->last = step;
    steps->count = 0; /* it may have been one that was joined with another: its memory is kept */
    return steps;
}

static ddp_status take(struct harness_learner *learner, struct harness_learned_comm *comm,
                       const struct harness_watch_call *call)
{
    struct harness_learned *learned = &learner->learned;
    struct harness_learned_steps *steps;
    struct harness_learned_call *calls;

    if (comm->count > 0 && call->step < comm->steps[comm->count - 1].last) {
        learner->is_lost = true; /* steps that fall: nothing that this could tell */
        return DDP_OK;
    }
    steps = open_step(learned->mem, comm, call->step);
    if (steps == NULL) {
        return DDP_E_NOMEM;
    }
    calls = ddp_mem_grow(learned->mem, steps->calls, steps->count, &steps->capacity, sizeof *calls);
    if (calls == NULL) {
        return DDP_E_NOMEM;
    }
    steps->calls = calls;
    calls[steps->count++] = (struct harness_learned_call){call->op, call->elem_count, call->bucket};
    return DDP_OK;
}

/* Room for what the watch has come to know. */
static ddp_status grow(struct harness_learner *learner)
{
    struct harness_learned *learned = &learner->learned;

    while (learned->count < learner->watch->group_count) {
        struct harness_learned_comm *comms = ddp_mem_grow(
            learned->mem, learned->comms, learned->count, &learned->capacity, sizeof *comms);
        uint64_t *seq = ddp_mem_grow(learned->mem, learner->seq, learned->count,
                                     &learner->seq_capacity, sizeof *seq);

        learned->comms = comms != NULL ? comms : learned->comms;
        learner->seq = seq != NULL ? seq : learner->seq;
        if (comms == NULL || seq == NULL) {
            return DDP_E_NOMEM;
        }
        learned->count++;
    }
    return DDP_OK;
}

ddp_status harness_learner_look(struct harness_learner *learner)
{
    const struct harness_watch *watch = learner->watch;

    DDP_TRY(grow(learner));
    for (size_t g = 0; g < watch->group_count; g++) {
        const struct harness_watch_group *group = &watch->groups[g];

        for (; learner->seq[g] < group->checked_seq; learner->seq[g]++) {
            const struct harness_watch_call *call =
                harness_watch_any_call(watch, group, learner->seq[g] + 1);

            if (call == NULL) {
                learner->is_lost = true;
                continue;
            }
            DDP_TRY(take(learner, &learner->learned.comms[g], call));
        }
    }
    return DDP_OK;
}

static bool is_same_comm(const struct harness_learned_comm *a, const struct harness_learned_comm *b)
{
    return strcmp(a->name, b->name) == 0 && a->rank_count == b->rank_count &&
           memcmp(a->ranks, b->ranks, a->rank_count * sizeof *a->ranks) == 0;
}

/* Who it is. False: out of memory. */
static bool identify(struct harness_learner *learner, size_t number)
{
    const struct harness_watch *watch = learner->watch;
    const struct harness_watch_group *group = &watch->groups[number];
    struct harness_learned_comm *comm = &learner->learned.comms[number];

    comm->ranks = ddp_mem_array(learner->learned.mem, watch->world_size, sizeof *comm->ranks);
    if (comm->ranks == NULL) {
        return false;
    }
    memcpy(comm->name, group->name, sizeof comm->name);
    for (uint32_t r = 0; r < watch->world_size; r++) {
        if (group->members[r].is_there) {
            comm->ranks[comm->rank_count++] = r;
        }
    }
    for (size_t c = 0; c < number; c++) {
        comm->nth += is_same_comm(&learner->learned.comms[c], comm);
    }
    return true;
}

const struct harness_learned *harness_learner_end(struct harness_learner *learner)
{
    const struct harness_watch *watch = learner->watch;
    struct harness_learned *learned = &learner->learned;
    bool has_calls = false;

    if (harness_learner_look(learner) != DDP_OK || learner->is_lost) {
        return NULL;
    }
    learned->world_size = 0;
    learned->step_count = 1;
    for (uint32_t r = 0; r < watch->world_size; r++) {
        learned->world_size += watch->ranks[r].is_attached;
        if (watch->ranks[r].lost_count > 0) {
            return NULL;
        }
        if (watch->ranks[r].step_count > learned->step_count) {
            learned->step_count = (uint32_t)watch->ranks[r].step_count;
        }
    }
    for (size_t g = 0; g < watch->group_count; g++) {
        if (!identify(learner, g)) {
            return NULL;
        }
        close_step(&learned->comms[g]);
        has_calls = has_calls || learned->comms[g].count > 0;
    }
    return has_calls ? learned : NULL;
}
