/* Which algorithm, and which messages, a member's cache makes a schedule with. */
#include "ddpcore/collective/cache.h"
#include "tests/ct.h"

struct made {
    struct ddp_cached base;
    enum ddp_algorithm_id algorithm;
    size_t segment_elem_count;
};

static ddp_status make(struct ddp_cache *cache, const struct ddp_schedule_params *params,
                       struct ddp_cached **out, struct ddp_err *err)
{
    struct made *made = ddp_mem_array(cache->mem, 1, sizeof(*made));

    (void)err;
    if (made == NULL) {
        return DDP_E_NOMEM;
    }
    made->algorithm = cache->present->id;
    made->segment_elem_count = params->segment_elem_count;
    *out = &made->base;
    return DDP_OK;
}

static void unmake(struct ddp_cache *cache, struct ddp_cached *cached)
{
    ddp_mem_free(cache->mem, cached);
}

static const struct made *take(struct ddp_cache *cache, enum ddp_coll_kind kind, size_t elem_count)
{
    const struct ddp_cache_key key = {
        .kind = kind, .dtype = DDP_DTYPE_F32, .elem_count = elem_count};
    struct ddp_cached *cached = NULL;

    CT_CHECK_OK(ddp_cache_take(cache, &key, &cached, NULL));
    ddp_cache_give_back(cached);
    return (const struct made *)cached;
}

CT_TEST(cache, an_all_reduce_is_done_as_its_size_was_chosen)
{
    static const struct ddp_cache_ops ops = {make, unmake};
    static const struct ddp_coll_choice choices[] = {{40, DDP_ALGORITHM_ONE_SHOT, 0},
                                                     {80, DDP_ALGORITHM_RING, 16}};
    struct ddp_cache cache = {
        .ops = &ops,
        .mem = ddp_mem_system(),
        .member_count = 2,
        .choices = choices,
        .choice_count = 2,
        .algorithm = {[DDP_COLL_BROADCAST] = ddp_algorithm_find(DDP_COLL_BROADCAST, 0)}};

    CT_CHECK(take(&cache, DDP_COLL_ALL_REDUCE, 10)->algorithm == DDP_ALGORITHM_ONE_SHOT);
    CT_CHECK(take(&cache, DDP_COLL_ALL_REDUCE, 11)->algorithm == DDP_ALGORITHM_RING);
    CT_CHECK(take(&cache, DDP_COLL_ALL_REDUCE, 20)->segment_elem_count == 4);
    CT_CHECK(take(&cache, DDP_COLL_ALL_REDUCE, 1000)->algorithm == DDP_ALGORITHM_RING);
    CT_CHECK(take(&cache, DDP_COLL_BROADCAST, 1000)->algorithm ==
             cache.algorithm[DDP_COLL_BROADCAST]->id);
    ddp_cache_fini(&cache);
}
