/* Fuzz target: any bytes as a checkpoint, of whichever kind. What is said is one line each; what is
 * sound can be written, is then equal bit for bit, and is loaded by ddpcore where it knows the
 * types. */
#include <stdint.h>
#include <string.h>

#include "ddpcore/checkpoint/safetensors.h"
#include "harness/ckpt/ckpt.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size_bytes);

static void check_said(const struct harness_ckpt *ckpt)
{
    struct ddp_text text;
    const size_t sound_count =
        2 + (ckpt->taken != NULL ? 1U : 0U) + (ckpt->left_out != NULL ? 1U : 0U);
    size_t line_count = 0;
    json_t *root = harness_ckpt_json(ckpt, "x");

    DDP_ASSERT(root != NULL);
    json_decref(root);
    ddp_text_init(&text, ddp_mem_system());
    harness_ckpt_print_verdict(ckpt, "x", &text);
    for (size_t i = 0; i < text.size_bytes; i++) {
        line_count += text.data[i] == '\n' ? 1 : 0;
    }
    DDP_ASSERT(line_count == (ckpt->faults.count > 0 ? ckpt->faults.count + 1 : sound_count) ||
               ckpt->faults.count > 1000);
    harness_ckpt_print(ckpt, "x", &text);
    DDP_ASSERT(!text.is_failed);
    ddp_text_fini(&text);
}

/* Written and read again, it is the same. */
static void check_written(const struct harness_ckpt *ckpt)
{
    struct ddp_files_memory *memory = NULL;
    struct ddp_files *files;
    struct harness_ckpt again;
    struct harness_ckpt_diff diff;
    struct ddp_text text;
    struct ddp_err err = {""};
    ddp_status status;

    DDP_ASSERT(ddp_files_memory_create(&memory) == DDP_OK);
    files = ddp_files_memory_files(memory);
    status = harness_ckpt_write(files, "again", ckpt, &err);
    DDP_ASSERT(status == DDP_OK || (status == DDP_E_KEYS && err.text[0] != '\0'));
    if (status == DDP_OK) {
        DDP_ASSERT(harness_ckpt_load(files, "again", NULL, &again, &err) == DDP_OK);
        DDP_ASSERT(again.faults.count == 0);
        DDP_ASSERT(harness_ckpt_compare(ckpt, &again, &diff) == DDP_OK);
        DDP_ASSERT(diff.change_count == 0 && diff.equal_count == ckpt->tensor_count);
        ddp_text_init(&text, ddp_mem_system());
        harness_ckpt_print_diff(&diff, "a", "b", &text);
        ddp_text_fini(&text);
        harness_ckpt_fini(&again);
    }
    ddp_files_memory_destroy(memory);
}

/* The core refuses at once what it does not know. */
static void check_core(const struct harness_ckpt *ckpt, const uint8_t *data, size_t size_bytes)
{
    struct ddp_state_dict dict;
    struct ddp_err err = {""};

    ddp_state_dict_init(&dict, ddp_mem_system());
    if (ddp_safetensors_parse(data, size_bytes, &dict, &err) == DDP_OK) {
        DDP_ASSERT(ckpt->is_whole && dict.entry_count == ckpt->tensor_count);
    } else {
        DDP_ASSERT(ckpt->faults.count > 0 || strstr(err.text, "supported") != NULL);
    }
    ddp_state_dict_fini(&dict);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size_bytes)
{
    struct harness_ckpt ckpt;
    struct ddp_err err = {""};

    if (harness_ckpt_parse(data, size_bytes, NULL, &ckpt, &err) != DDP_OK) {
        return 0; /* built without libzip */
    }
    DDP_ASSERT(ckpt.is_whole || ckpt.faults.count > 0);
    if (ckpt.kind == HARNESS_CKPT_SAFETENSORS) {
        check_core(&ckpt, data, size_bytes);
    }
    if (ckpt.is_whole && ckpt.faults.count == 0) {
        check_written(&ckpt);
    }
    DDP_ASSERT(harness_ckpt_verify(&ckpt) == DDP_OK);
    check_said(&ckpt);
    if (ckpt.is_whole && harness_ckpt_strip(&ckpt, &err) != DDP_OK) {
        DDP_ASSERT(err.text[0] != '\0');
    }
    harness_ckpt_fini(&ckpt);
    return 0;
}
