/* State dicts: adding, finding, metadata, PyTorch's prefix helper. */
#include <stdio.h>
#include <string.h>

#include "ddpcore/checkpoint/state_dict.h"
#include "tests/ct.h"

static const uint64_t shape_one[1] = {1};
static const float values[4] = {1, 2, 3, 4};

static void add(struct ddp_state_dict *dict, const char *name, const float *value)
{
    CT_REQUIRE_OK(ddp_state_dict_add(dict, name, DDP_DTYPE_F32, 1, shape_one, value));
}

/* Every name that was added is found, others are not, and a name is taken only once. */
CT_TEST(state_dict, finds_what_was_added)
{
    struct ddp_state_dict dict;
    char name[32];

    ddp_state_dict_init(&dict, ddp_mem_system());
    CT_CHECK(ddp_state_dict_find(&dict, "w0") == NULL);
    for (int i = 0; i < 300; i++) {
        (void)snprintf(name, sizeof(name), "w%d", i);
        add(&dict, name, &values[0]);
    }
    for (int i = 0; i < 300; i++) {
        (void)snprintf(name, sizeof(name), "w%d", i);
        CT_CHECK(ddp_state_dict_find(&dict, name) == &dict.entries[i]);
    }
    CT_CHECK(ddp_state_dict_find(&dict, "w300") == NULL);
    CT_CHECK_STATUS(ddp_state_dict_add(&dict, "w7", DDP_DTYPE_F32, 1, shape_one, values),
                    DDP_E_KEYS);
    CT_CHECK_STATUS(ddp_state_dict_add(&dict, "", DDP_DTYPE_F32, 1, shape_one, values), DDP_E_KEYS);
    ddp_state_dict_fini(&dict);
}

/* A tensor whose size does not fit, or with too many dimensions, is refused. */
CT_TEST(state_dict, refuses_impossible_shapes)
{
    const uint64_t huge[2] = {UINT64_MAX / 2, 16};
    const uint64_t nine[9] = {1, 1, 1, 1, 1, 1, 1, 1, 1};
    struct ddp_state_dict dict;

    ddp_state_dict_init(&dict, ddp_mem_system());
    CT_CHECK_STATUS(ddp_state_dict_add(&dict, "a", DDP_DTYPE_F32, 2, huge, values), DDP_E_INVALID);
    CT_CHECK_STATUS(ddp_state_dict_add(&dict, "a", DDP_DTYPE_F32, 9, nine, values), DDP_E_INVALID);
    CT_CHECK_EQ_U64(dict.entry_count, 0);
    ddp_state_dict_fini(&dict);
}

/* Metadata is set, replaced and looked up by key. */
CT_TEST(state_dict, keeps_metadata)
{
    struct ddp_state_dict dict;

    ddp_state_dict_init(&dict, ddp_mem_system());
    CT_REQUIRE_OK(ddp_state_dict_set_meta(&dict, "steps_done", "4"));
    CT_REQUIRE_OK(ddp_state_dict_set_meta(&dict, "model", "mlp"));
    CT_REQUIRE_OK(ddp_state_dict_set_meta(&dict, "steps_done", "6"));
    CT_CHECK_EQ_U64(dict.meta_count, 2);
    CT_CHECK_STR(ddp_state_dict_meta(&dict, "steps_done"), "6");
    CT_CHECK(ddp_state_dict_meta(&dict, "absent") == NULL);
    ddp_state_dict_fini(&dict);
}

/* PyTorch's helper strips one level, moves renamed keys to the end, and a collision keeps the place
 * of the old key with the value of the renamed one. */
CT_TEST(state_dict, consumes_prefix_like_pytorch)
{
    const char *expected[] = {"w", "modulex.c", "a", "module.b"};
    struct ddp_state_dict dict;

    ddp_state_dict_init(&dict, ddp_mem_system());
    add(&dict, "module.a", &values[0]);
    add(&dict, "w", &values[1]);
    add(&dict, "module.w", &values[2]);
    add(&dict, "module.module.b", &values[3]);
    add(&dict, "modulex.c", &values[0]);
    CT_REQUIRE_OK(ddp_state_dict_consume_prefix(&dict, "module."));
    CT_CHECK_EQ_U64(dict.entry_count, 4);
    for (size_t i = 0; i < 4 && i < dict.entry_count; i++) {
        CT_CHECK_STR(dict.entries[i].name, expected[i]);
        CT_CHECK(ddp_state_dict_find(&dict, expected[i]) == &dict.entries[i]);
    }
    CT_CHECK(dict.entries[0].data == &values[2]);
    CT_CHECK(ddp_state_dict_find(&dict, "module.a") == NULL);
    ddp_state_dict_fini(&dict);
}

/* When stripping makes a key that is itself still to be stripped, the values follow PyTorch's order
 * of assignments. */
CT_TEST(state_dict, consumes_chained_prefixes_in_order)
{
    struct ddp_state_dict dict;

    ddp_state_dict_init(&dict, ddp_mem_system());
    add(&dict, "module.module.x", &values[0]);
    add(&dict, "module.x", &values[1]);
    CT_REQUIRE_OK(ddp_state_dict_consume_prefix(&dict, "module."));
    CT_CHECK_EQ_U64(dict.entry_count, 1);
    CT_CHECK_STR(dict.entries[0].name, "x");
    CT_CHECK(dict.entries[0].data == &values[0]);
    ddp_state_dict_fini(&dict);

    add(&dict, "module.x", &values[1]);
    add(&dict, "module.module.x", &values[0]);
    CT_REQUIRE_OK(ddp_state_dict_consume_prefix(&dict, "module."));
    CT_CHECK_EQ_U64(dict.entry_count, 2);
    CT_CHECK_STR(dict.entries[0].name, "x");
    CT_CHECK(dict.entries[0].data == &values[1]);
    CT_CHECK_STR(dict.entries[1].name, "module.x");
    CT_REQUIRE_OK(ddp_state_dict_consume_prefix(&dict, ""));
    CT_CHECK_STR(dict.entries[1].name, "module.x");
    ddp_state_dict_fini(&dict);
}

/* When memory runs out at any allocation, adding, prefixing and consuming fail cleanly. */
CT_TEST(state_dict, survives_exhaustion)
{
    for (uint64_t n = 0; n < 40; n++) {
        struct ddp_mem_pool *pool = NULL;
        struct ddp_state_dict dict;

        CT_REQUIRE_OK(ddp_mem_pool_create(&pool));
        ddp_state_dict_init(&dict, ddp_mem_pool_mem(pool));
        ddp_mem_pool_fail_after(pool, n, 1);
        for (int i = 0; i < 20; i++) {
            char name[32];

            (void)snprintf(name, sizeof(name), "w%d", i);
            if (ddp_state_dict_add(&dict, name, DDP_DTYPE_F32, 1, shape_one, values) != DDP_OK) {
                CT_CHECK(ddp_state_dict_find(&dict, name) == NULL);
                add(&dict, name, values);
            }
        }
        if (ddp_state_dict_add_prefix(&dict, "module.") != DDP_OK) {
            CT_CHECK(ddp_state_dict_find(&dict, "w19") != NULL);
            CT_REQUIRE_OK(ddp_state_dict_add_prefix(&dict, "module."));
        }
        CT_CHECK(ddp_state_dict_find(&dict, "module.w19") != NULL);
        ddp_state_dict_fini(&dict);
        CT_CHECK_EQ_U64(ddp_mem_pool_block_count(pool), 0);
        ddp_mem_pool_destroy(pool);
    }
}
