/* Who goes on after a loss. Each rank that lives counts itself in the store. The first one to ask
 * for it decides: it looks who has come, until nobody is missing who may still come, and writes the
 * list that all take. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "ddpcore/world/subgroup.h"

/* The one who decides looks again after so long: nothing wakes it when others come. */
#define LOOK_NS DDP_NS_PER_MS

enum { RANKS_MAX = DDP_STORE_VALUE_BYTES_MAX / sizeof(uint32_t), KEY_BYTES = 128 };

/* One agreement, on this rank. */
struct place {
    struct ddp_env *env;
    struct ddp_store *store;
    uint64_t timeout_ns;
    const struct ddp_lost_group *loss;
};

/* A counter of the store that is added to. */
struct addition {
    struct ddp_store *store;
    char key[KEY_BYTES];
    int64_t amount, sum;
};

static ddp_status addition_poll(void *self)
{
    struct addition *addition = self;

    return addition->store->ops->add(addition->store, addition->key, addition->amount,
                                     &addition->sum);
}

static void addition_hint(void *self, struct ddp_idle_hint *hint)
{
    const struct addition *addition = self;

    addition->store->ops->hint(addition->store, hint);
}

static ddp_status add(const struct place *place, struct addition *addition, uint64_t deadline_ns)
{
    const struct ddp_pollable pollable = {addition_poll, addition_hint, addition};

    return ddp_wait(place->env->idle, place->env->clock, &pollable, deadline_ns);
}

/* Waiting for all who may still come. One counter after the other is read. */
struct gathering {
    struct addition looking;
    const struct ddp_lost_group *loss;
    uint32_t next;   /* whose counter is read */
    bool *has_come;  /* [rank_count] */
    int32_t dead;    /* the rank that is known to be dead, or -1 */
    bool is_missing; /* somebody, in this round */
};

static void name_counter(struct gathering *gathering)
{
    (void)snprintf(gathering->looking.key, KEY_BYTES, "loss/%s/came/%" PRIu32,
                   gathering->loss->name, gathering->loss->ranks[gathering->next]);
}

/* OK once nobody is missing; PENDING after each round, so that the wait passes some time. */
static ddp_status gathering_poll(void *self)
{
    struct gathering *gathering = self;
    struct ddp_coll *coll = gathering->loss->group->coll;

    if (gathering->dead < 0) {
        gathering->dead = coll->ops->dead_rank(coll);
    }
    while (gathering->next < gathering->loss->rank_count) {
        const uint32_t rank = gathering->loss->ranks[gathering->next];
        ddp_status status = DDP_OK;

        if (!gathering->has_come[gathering->next]) {
            name_counter(gathering);
            status = addition_poll(&gathering->looking);
        }
        if (status != DDP_OK) {
            return status;
        }
        gathering->has_come[gathering->next] =
            gathering->has_come[gathering->next] || gathering->looking.sum > 0;
        gathering->is_missing = gathering->is_missing || (!gathering->has_come[gathering->next] &&
                                                          gathering->dead != (int32_t)rank);
        gathering->next++;
    }
    if (!gathering->is_missing) {
        return DDP_OK;
    }
    gathering->next = 0;
    gathering->is_missing = false;
    return DDP_PENDING;
}

/* Until nobody is missing, or the time to settle is over. */
static ddp_status gather(const struct place *place, struct gathering *gathering)
{
    const struct ddp_pollable pollable = {gathering_poll, NULL, gathering};
    struct ddp_clock *clock = place->env->clock;
    const uint64_t end_ns = ddp_clock_deadline_ns(clock, place->loss->settle_ns);
    ddp_status status;

    do {
        const uint64_t look_ns = ddp_clock_deadline_ns(clock, LOOK_NS);

        status = ddp_wait(place->env->idle, clock, &pollable, look_ns < end_ns ? look_ns : end_ns);
    } while (status == DDP_E_TIMEOUT && ddp_clock_now_ns(clock) < end_ns);
    return status;
}

/* out_ranks: those that have come. */
static ddp_status decide(const struct place *place, struct gathering *gathering,
                         const char *members_key, uint64_t deadline_ns, uint32_t *out_ranks,
                         uint32_t *out_count)
{
    ddp_status status = gather(place, gathering);

    if (status == DDP_E_TIMEOUT && gathering->next < gathering->loss->rank_count &&
        !gathering->has_come[gathering->next]) {
        /* A call to the store may be open, which takes no other before. */
        status = add(place, &gathering->looking, deadline_ns);
    }
    if (status != DDP_OK && status != DDP_E_TIMEOUT) {
        return status;
    }
    *out_count = 0;
    for (uint32_t i = 0; i < gathering->loss->rank_count; i++) {
        if (gathering->has_come[i]) {
            out_ranks[(*out_count)++] = gathering->loss->ranks[i];
        }
    }
    return ddp_store_set(place->env, place->store, members_key, out_ranks,
                         *out_count * sizeof(*out_ranks), deadline_ns);
}

static ddp_status adopt(const struct place *place, const char *members_key, uint64_t deadline_ns,
                        uint32_t *out_ranks, uint32_t *out_count)
{
    uint8_t value[DDP_STORE_VALUE_BYTES_MAX];
    size_t value_bytes = 0;

    DDP_TRY(ddp_store_get(place->env, place->store, members_key, value, &value_bytes, deadline_ns));
    if (value_bytes > place->loss->rank_count * sizeof(*out_ranks)) {
        return DDP_E_CORRUPT; /* the others' loss is of a larger group */
    }
    memcpy(out_ranks, value, value_bytes);
    *out_count = (uint32_t)(value_bytes / sizeof(*out_ranks));
    return DDP_OK;
}

/* What each of those that go on brought: it counted itself with one more. */
static ddp_status take_values(const struct place *place, uint64_t deadline_ns,
                              const uint32_t *ranks, uint32_t count, uint64_t *out_values)
{
    for (uint32_t i = 0; i < count; i++) {
        struct addition looking = {.store = place->store};

        (void)snprintf(looking.key, KEY_BYTES, "loss/%s/came/%" PRIu32, place->loss->name,
                       ranks[i]);
        DDP_TRY(add(place, &looking, deadline_ns));
        if (looking.sum <= 0) {
            return DDP_E_CORRUPT;
        }
        out_values[i] = (uint64_t)looking.sum - 1;
    }
    return DDP_OK;
}

static ddp_status agree(const struct place *place, struct gathering *gathering, uint32_t *out_ranks,
                        uint64_t *out_values, uint32_t *out_count)
{
    const struct ddp_lost_group *loss = place->loss;
    /* 0: a call may take for ever, and what is left of the wait is no time-out of its own. */
    const uint64_t deadline_ns = ddp_clock_deadline_ns(
        place->env->clock, place->timeout_ns == 0 ? 0 : loss->settle_ns + place->timeout_ns);
    struct addition own = {.store = place->store, .amount = 1 + (int64_t)loss->value};
    char members_key[KEY_BYTES];

    (void)snprintf(own.key, KEY_BYTES, "loss/%s/came/%" PRIu32, loss->name, place->env->rank);
    DDP_TRY(add(place, &own, deadline_ns));
    own.amount = 1;
    (void)snprintf(own.key, KEY_BYTES, "loss/%s/decider", loss->name);
    DDP_TRY(add(place, &own, deadline_ns));
    (void)snprintf(members_key, KEY_BYTES, "loss/%s/members", loss->name);
    DDP_TRY(own.sum == 1 ? decide(place, gathering, members_key, deadline_ns, out_ranks, out_count)
                         : adopt(place, members_key, deadline_ns, out_ranks, out_count));
    return out_values == NULL ? DDP_OK
                              : take_values(place, deadline_ns, out_ranks, *out_count, out_values);
}

static bool is_in(const uint32_t *ranks, uint32_t count, uint32_t rank)
{
    for (uint32_t i = 0; i < count; i++) {
        if (ranks[i] == rank) {
            return true;
        }
    }
    return false;
}

ddp_status ddp_survivors_agree(struct ddp_env *env, struct ddp_store *store, uint64_t timeout_ns,
                               const struct ddp_lost_group *loss, uint32_t *out_ranks,
                               uint64_t *out_values, uint32_t *out_count, struct ddp_err *err)
{
    const struct place place = {env, store, timeout_ns, loss};
    struct gathering gathering = {.looking = {.store = store}, .loss = loss, .dead = -1};
    ddp_status status;

    if (loss->group->failure.status == DDP_OK) {
        return ddp_err_set(err, DDP_E_STATE, "the group has not failed: nobody is lost");
    }
    if (loss->rank_count > RANKS_MAX || strlen(loss->name) > KEY_BYTES / 2 ||
        loss->value >> 62 != 0 || !is_in(loss->ranks, loss->rank_count, env->rank)) {
        return ddp_err_set(err, DDP_E_INVALID,
                           "the members of the lost group: at most %d, this rank among them; and a "
                           "name of at most %d characters",
                           (int)RANKS_MAX, KEY_BYTES / 2);
    }
    gathering.has_come = ddp_mem_array(env->mem, loss->rank_count, sizeof(bool));
    if (gathering.has_come == NULL) {
        return DDP_E_NOMEM;
    }
    /* Others may still wait in the lost group for members that come here: they must come, too. */
    ddp_group_pass_on(loss->group);
    ddp_recorder_wait_begin(env->recorder, DDP_WAIT_STORE, 0);
    status = agree(&place, &gathering, out_ranks, out_values, out_count);
    ddp_recorder_wait_end(env->recorder);
    ddp_mem_free(env->mem, gathering.has_come);
    if (status == DDP_OK && !is_in(out_ranks, *out_count, env->rank)) {
        status = DDP_E_MEMBER;
    }
    return status == DDP_OK
               ? DDP_OK
               : ddp_err_set(err, status, "who goes on after %s: %s", loss->name,
                             status == DDP_E_MEMBER
                                 ? "this rank came too late, the others have left it out"
                                 : ddp_store_error_text(store, status));
}

ddp_status ddp_world_survivors(struct ddp_world *world, const struct ddp_lost_group *loss,
                               uint32_t *out_ranks, uint32_t *out_count, struct ddp_err *err)
{
    return ddp_survivors_agree(&world->env, world->store, world->timeout_ns, loss, out_ranks, NULL,
                               out_count, err);
}
