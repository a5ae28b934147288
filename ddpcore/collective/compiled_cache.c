/* Compiled schedules by key, so that steady state neither emits nor allocates. Bounded: a run that
 * uses ever new counts loses those that it used least recently. */
#include "ddpcore/collective/compiled.h"

static bool is_same_key(const struct ddp_compiled_key *a, const struct ddp_compiled_key *b)
{
    return a->kind == b->kind && a->dtype == b->dtype && a->elem_count == b->elem_count &&
           a->root == b->root && a->is_in_place == b->is_in_place;
}

static uint32_t chain_of(const struct ddp_compiled_key *key)
{
    /* Counts of one job differ in their low bits; 0x9e3779b97f4a7c15 is 2^64 / golden ratio. */
    uint64_t mixed = (uint64_t)key->elem_count ^ ((uint64_t)key->kind << 60) ^
                     ((uint64_t)key->dtype << 56) ^ ((uint64_t)key->root << 40);

    return (uint32_t)((mixed * UINT64_C(0x9e3779b97f4a7c15)) >> 58) % DDP_COMPILED_CHAINS;
}

static void evict_one(struct ddp_compiled_cache *cache)
{
    struct ddp_compiled **oldest = NULL;
    struct ddp_compiled *gone;

    for (uint32_t i = 0; i < DDP_COMPILED_CHAINS; i++) {
        for (struct ddp_compiled **link = &cache->chain[i]; *link != NULL; link = &(*link)->chain) {
            if ((*link)->users == 0 && (oldest == NULL || (*link)->used_at < (*oldest)->used_at)) {
                oldest = link;
            }
        }
    }
    if (oldest == NULL) {
        return;
    }
    gone = *oldest;
    *oldest = gone->chain;
    cache->count--;
    ddp_compiled_destroy(cache->source.mem, gone);
}

ddp_status ddp_compiled_cache_take(struct ddp_compiled_cache *cache,
                                   const struct ddp_compiled_key *key, struct ddp_compiled **out)
{
    struct ddp_compiled **first = &cache->chain[chain_of(key)];
    struct ddp_compiled *compiled = *first;

    while (compiled != NULL && !is_same_key(&compiled->key, key)) {
        compiled = compiled->chain;
    }
    if (compiled == NULL) {
        if (cache->count >= DDP_COMPILED_CACHE_MAX) {
            evict_one(cache);
        }
        DDP_TRY(ddp_compiled_create(&cache->source, key, &compiled));
        compiled->chain = *first;
        *first = compiled;
        cache->count++;
    }
    compiled->users++;
    compiled->used_at = ++cache->clock;
    *out = compiled;
    return DDP_OK;
}

static void free_scratch(struct ddp_compiled_cache *cache, struct ddp_compiled_scratch *scratch)
{
    struct ddp_transport *transport = cache->source.transport;

    if (scratch->is_lendable) {
        transport->ops->free(transport, scratch->data);
    } else {
        ddp_mem_free(cache->source.mem, scratch->data);
    }
    scratch->data = NULL;
    scratch->size_bytes = 0;
    scratch->is_lendable = false;
}

static ddp_status grow_scratch(struct ddp_compiled_cache *cache,
                               struct ddp_compiled_scratch *scratch, size_t size_bytes)
{
    struct ddp_transport *transport = cache->source.transport;

    if (size_bytes <= scratch->size_bytes) {
        return DDP_OK;
    }
    free_scratch(cache, scratch);
    scratch->data = transport->ops->alloc(transport, size_bytes);
    scratch->is_lendable = scratch->data != NULL;
    if (scratch->data == NULL) {
        scratch->data = cache->source.mem->alloc(cache->source.mem, size_bytes);
    }
    if (scratch->data == NULL) {
        return DDP_E_NOMEM;
    }
    scratch->size_bytes = size_bytes;
    return DDP_OK;
}

ddp_status ddp_compiled_cache_start(struct ddp_compiled_cache *cache, struct ddp_compiled *compiled,
                                    const void *input, void *output)
{
    /* No step writes to the input; the table holds it without const to be one table. */
    compiled->buffer[0] = (void *)(uintptr_t)input;
    compiled->buffer[1] = output;
    for (uint32_t i = 0; i < compiled->scratch_count; i++) {
        DDP_TRY(grow_scratch(cache, &cache->scratch[i], compiled->scratch_bytes[i]));
        compiled->buffer[2 + i] = cache->scratch[i].data;
    }
    compiled->active_count = 0;
    for (uint32_t i = 0; i < compiled->step_count; i++) {
        compiled->missing[i] = compiled->steps[i].missing;
        compiled->is_posted[i] = false;
        if (compiled->missing[i] == 0) {
            compiled->active[compiled->active_count++] = i;
        }
    }
    return DDP_OK;
}

void ddp_compiled_cache_fini(struct ddp_compiled_cache *cache)
{
    for (uint32_t i = 0; i < DDP_COMPILED_CHAINS; i++) {
        while (cache->chain[i] != NULL) {
            struct ddp_compiled *gone = cache->chain[i];

            cache->chain[i] = gone->chain;
            ddp_compiled_destroy(cache->source.mem, gone);
        }
    }
    cache->count = 0;
    for (uint32_t i = 0; i < DDP_SCHEDULE_SCRATCH_MAX; i++) {
        free_scratch(cache, &cache->scratch[i]);
    }
}
