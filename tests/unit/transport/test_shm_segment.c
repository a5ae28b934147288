/* The parts of the shared segment on their own: layout and heap. */
#include <stdlib.h>
#include <string.h>

#include "ddpcore/transport/shm_segment.h"
#include "tests/ct.h"
#include "tests/unit/transport/transport_ranks.h"

/* Layouts that would overflow or that the ring's index arithmetic cannot serve are refused. */
CT_TEST(shm_segment, refuses_impossible_layouts)
{
    CT_CHECK(ddp_shm_segment_size_bytes(2, 16, 4096) > 0);
    CT_CHECK_EQ_U64(ddp_shm_segment_size_bytes(0, 16, 4096), 0);
    CT_CHECK_EQ_U64(ddp_shm_segment_size_bytes(2, 12, 4096), 0);
    CT_CHECK_EQ_U64(ddp_shm_segment_size_bytes(2, 16, 4097), 0);
    CT_CHECK_EQ_U64(ddp_shm_segment_size_bytes(DDP_SHM_MEMBERS_MAX + 1, 16, 4096), 0);
    CT_CHECK_EQ_U64(ddp_shm_segment_size_bytes(2, 16, SIZE_MAX - 4095), 0);
}

/* Parts of the segment lie inside it, aligned, one behind the other. */
CT_TEST(shm_segment, parts_do_not_overlap)
{
    const size_t size_bytes = ddp_shm_segment_size_bytes(3, 4, 8192);
    void *base = aligned_alloc(4096, (size_bytes + 4095) & ~(size_t)4095);
    struct ddp_shm_segment segment;

    CT_REQUIRE(base != NULL);
    ddp_shm_segment_view(&segment, base, 3, 4, 8192);
    CT_CHECK((uint8_t *)segment.members >= segment.base + sizeof(struct ddp_shm_header));
    CT_CHECK((uint8_t *)segment.streams >= (uint8_t *)(segment.members + 3));
    CT_CHECK((uint8_t *)segment.slots >= (uint8_t *)(segment.streams + 9));
    CT_CHECK(segment.base + segment.heap_first >= (uint8_t *)(segment.slots + 36));
    CT_CHECK_EQ_U64(segment.heap_first + 3 * 8192, size_bytes);
    CT_CHECK_EQ_U64((uintptr_t)segment.slots % 64, 0);
    free(base);
}

/* Freed neighbours merge, so that the whole heap is there again after any order of frees. */
CT_TEST(shm_segment, heap_merges)
{
    enum { HEAP_BYTES = 65536, BLOCKS = 16 };
    static const int order[BLOCKS] = {3, 1, 2, 0, 15, 7, 5, 6, 4, 14, 12, 13, 8, 10, 9, 11};
    uint8_t *memory = aligned_alloc(4096, HEAP_BYTES);
    struct ddp_shm_heap heap;
    void *block[BLOCKS];

    CT_REQUIRE(memory != NULL);
    memset(memory, 0, HEAP_BYTES);
    ddp_shm_heap_init(&heap, memory, HEAP_BYTES);
    for (int round = 0; round < 3; round++) {
        void *all;

        for (int i = 0; i < BLOCKS; i++) {
            block[i] = ddp_shm_heap_alloc(&heap, 1000);
            CT_REQUIRE(block[i] != NULL);
            memset(block[i], 0xff, 1000);
        }
        for (int i = 0; i < BLOCKS; i++) {
            ddp_shm_heap_free(&heap, block[order[i]]);
        }
        all = ddp_shm_heap_alloc(&heap, HEAP_BYTES - 64);
        CT_REQUIRE(all != NULL);
        CT_CHECK(((const uint8_t *)all)[5000] == 0);
        CT_CHECK(ddp_shm_heap_alloc(&heap, 1) == NULL);
        ddp_shm_heap_free(&heap, all);
    }
    free(memory);
}

/* --- a count that cannot be ------------------------------------------------------------------- */

enum { MODEST_BYTES = 1 << 20 };

/* The process heap, for nobody who asks for much. */
static void *modest_alloc(struct ddp_mem *mem, size_t size_bytes)
{
    (void)mem;
    return size_bytes <= MODEST_BYTES ? ddp_mem_system()->alloc(ddp_mem_system(), size_bytes)
                                      : NULL;
}

static void modest_free(struct ddp_mem *mem, void *data)
{
    (void)mem;
    ddp_mem_free(ddp_mem_system(), data);
}

/* A launcher tells a rank of 2147483647 ranks: that is refused before memory is asked for. */
static ddp_status open_in_large_group(struct rank_context *context, uint64_t deadline_ns,
                                      struct ddp_err *err)
{
    struct ddp_mem modest = {modest_alloc, modest_free};
    struct ddp_env env = *context->env;
    const struct ddp_shm_config config = {.group_name = "test", .member_count = INT32_MAX};
    struct ddp_err why = {""};
    ddp_status status;

    env.mem = &modest;
    status = ddp_shm_create(&env, context->store, &config, deadline_ns, &context->transport, &why);
    if (status == DDP_E_INVALID && strstr(why.text, "at most 1024 in memory") != NULL) {
        return DDP_OK;
    }
    return ddp_err_set(err, DDP_E_STATE, "%s: %.200s", ddp_status_name(status), why.text);
}

static void do_nothing(struct rank_context *context)
{
    (void)context;
}

CT_TEST(shm_segment, refuses_a_count_before_it_asks_for_memory)
{
    ranks_run_processes(1, open_in_large_group, do_nothing);
}
