/* See the header. */
#include "ddpcore/collective/cache.h"

static bool is_same_key(const struct ddp_cache_key *a, const struct ddp_cache_key *b)
{
    return a->kind == b->kind && a->dtype == b->dtype && a->elem_count == b->elem_count &&
           a->root == b->root && a->is_in_place == b->is_in_place &&
           a->is_monitored == b->is_monitored;
}

static uint32_t chain_of(const struct ddp_cache_key *key)
{
    /* Counts of one job differ in their low bits; 0x9e3779b97f4a7c15 is 2^64 / golden ratio. */
    uint64_t mixed = (uint64_t)key->elem_count ^ ((uint64_t)key->kind << 60) ^
                     ((uint64_t)key->dtype << 56) ^ ((uint64_t)key->root << 40);

    return (uint32_t)((mixed * UINT64_C(0x9e3779b97f4a7c15)) >> 58) % DDP_CACHE_CHAINS;
}

/* Any without users may go. Not the least recently used: of a step's collectives, which come in the
 * same order every time, that is the one needed next. */
static void evict_one(struct ddp_cache *cache)
{
    for (uint32_t first = 0; first < DDP_CACHE_CHAINS; first++) {
        for (struct ddp_cached **link = &cache->chain[first]; *link != NULL;
             link = &(*link)->chain) {
            struct ddp_cached *gone = *link;

            if (gone->users == 0) {
                *link = gone->chain;
                cache->count--;
                cache->ops->destroy(cache, gone);
                return;
            }
        }
    }
}

/* The choice for an all-reduce of that size; NULL: there is none. */
static const struct ddp_coll_choice *choose(const struct ddp_cache *cache, enum ddp_coll_kind kind,
                                            size_t elem_count, enum ddp_dtype dtype)
{
    size_t bytes = elem_count * ddp_dtype_size_bytes(dtype);
    size_t i = 0;

    if (kind != DDP_COLL_ALL_REDUCE || cache->choice_count == 0) {
        return NULL;
    }
    while (i + 1 < cache->choice_count && bytes > cache->choices[i].bytes_max) {
        i++;
    }
    return &cache->choices[i];
}

static const struct ddp_algorithm *algorithm_of(const struct ddp_cache *cache,
                                                enum ddp_coll_kind kind, size_t elem_count,
                                                enum ddp_dtype dtype)
{
    const struct ddp_coll_choice *choice = choose(cache, kind, elem_count, dtype);

    return choice != NULL ? ddp_algorithm_find(kind, choice->algorithm) : cache->algorithm[kind];
}

static ddp_status create(struct ddp_cache *cache, const struct ddp_cache_key *key,
                         struct ddp_cached **out, struct ddp_err *err)
{
    const struct ddp_coll_choice *choice = choose(cache, key->kind, key->elem_count, key->dtype);
    const struct ddp_algorithm *algorithm =
        key->is_monitored ? ddp_algorithm_find(key->kind, DDP_ALGORITHM_DIRECT_BARRIER)
                          : algorithm_of(cache, key->kind, key->elem_count, key->dtype);
    size_t segment_bytes = choice != NULL ? choice->segment_bytes : cache->segment_bytes;
    const struct ddp_schedule_params params = {
        .kind = key->kind,
        .dtype = key->dtype,
        .rank = cache->member,
        .size = cache->member_count,
        .elem_count = key->elem_count,
        .root = key->root,
        .segment_elem_count =
            ddp_algorithm_segment_elem_count(algorithm, segment_bytes, key->dtype),
        .node_of_rank = cache->node_of_rank,
        .is_in_place = key->is_in_place};

    DDP_ASSERT(algorithm != NULL);
    DDP_ASSERT(cache->member < cache->member_count);
    cache->present = algorithm;
    DDP_TRY(cache->ops->create(cache, &params, out, err));
    (*out)->key = *key;
    DDP_ASSERT((*out)->users == 0);
    return DDP_OK;
}

ddp_status ddp_cache_take(struct ddp_cache *cache, const struct ddp_cache_key *key,
                          struct ddp_cached **out, struct ddp_err *err)
{
    struct ddp_cached **first = &cache->chain[chain_of(key)];
    struct ddp_cached *cached = *first;

    while (cached != NULL && !is_same_key(&cached->key, key)) {
        cached = cached->chain;
    }
    if (cached == NULL) {
        if (cache->count >= DDP_CACHE_MAX) {
            evict_one(cache);
        }
        DDP_TRY(create(cache, key, &cached, err));
        cached->chain = *first;
        *first = cached;
        cache->count++;
    }
    cached->users++;
    *out = cached;
    return DDP_OK;
}

void ddp_cache_give_back(struct ddp_cached *cached)
{
    DDP_ASSERT(cached->users > 0);
    cached->users--;
}

void ddp_cache_fini(struct ddp_cache *cache)
{
    for (uint32_t i = 0; i < DDP_CACHE_CHAINS; i++) {
        while (cache->chain[i] != NULL) {
            struct ddp_cached *gone = cache->chain[i];

            DDP_ASSERT(gone->users == 0);
            cache->chain[i] = gone->chain;
            cache->count--;
            cache->ops->destroy(cache, gone);
        }
    }
    DDP_ASSERT(cache->count == 0);
}
