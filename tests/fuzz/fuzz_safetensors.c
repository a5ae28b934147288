/* Fuzz target: any bytes either parse or are refused with a reason and leave the dict empty; what
 * parses must save, and load back equal. */
#include <stdint.h>
#include <string.h>

#include "ddpcore/checkpoint/safetensors.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size_bytes);

static void check_equal(const struct ddp_state_dict *a, const struct ddp_state_dict *b)
{
    DDP_ASSERT(a->entry_count == b->entry_count && a->meta_count == b->meta_count);
    for (size_t i = 0; i < a->entry_count; i++) {
        const struct ddp_tensor_entry *left = &a->entries[i], *right = &b->entries[i];

        DDP_ASSERT(strcmp(left->name, right->name) == 0 && left->size_bytes == right->size_bytes);
        DDP_ASSERT(left->ndim == right->ndim && left->dtype == right->dtype);
        DDP_ASSERT(left->size_bytes == 0 || memcmp(left->data, right->data, left->size_bytes) == 0);
    }
}

static void check_round_trip(const struct ddp_state_dict *dict)
{
    struct ddp_files_memory *memory = NULL;
    struct ddp_env env = {.world_size = 1, .mem = ddp_mem_system()};
    struct ddp_state_dict again;
    struct ddp_err err = {""};

    DDP_ASSERT(ddp_files_memory_create(&memory) == DDP_OK);
    env.files = ddp_files_memory_files(memory);
    ddp_state_dict_init(&again, env.mem);
    DDP_ASSERT(ddp_safetensors_save(&env, "again", dict, &err) == DDP_OK);
    DDP_ASSERT(ddp_safetensors_load(env.files, "again", &again, &err) == DDP_OK);
    check_equal(dict, &again);
    ddp_state_dict_fini(&again);
    ddp_files_memory_destroy(memory);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size_bytes)
{
    struct ddp_state_dict dict;
    struct ddp_err err = {""};

    ddp_state_dict_init(&dict, ddp_mem_system());
    if (ddp_safetensors_parse(data, size_bytes, &dict, &err) == DDP_OK) {
        check_round_trip(&dict);
    } else {
        DDP_ASSERT(err.text[0] != '\0' && dict.entry_count == 0 && dict.meta_count == 0);
    }
    ddp_state_dict_fini(&dict);
    return 0;
}
