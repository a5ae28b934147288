/* Fuzz target: any bytes as a learned program. The reader may refuse them, in one line with its
 * place; what it accepts prints as a program that reads back as the same text, and says something
 * of every step. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "harness/observed/learned.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size_bytes);

static void check(int condition)
{
    if (!condition) {
        abort();
    }
}

static void check_program(const struct harness_learned *learned)
{
    struct harness_learned again;
    struct ddp_text first;
    struct ddp_text second;
    struct ddp_err err = {{0}};

    ddp_text_init(&first, learned->mem);
    ddp_text_init(&second, learned->mem);
    harness_learned_print(learned, &first);
    check(harness_learned_parse(learned->mem, ddp_text_str(&first), first.size_bytes, &again,
                                &err) == DDP_OK);
    harness_learned_print(&again, &second);
    check(strcmp(ddp_text_str(&first), ddp_text_str(&second)) == 0);
    for (size_t c = 0; c < learned->count; c++) {
        for (uint32_t step = 0; step < 8; step++) {
            size_t count = 0;

            check(harness_learned_step(learned, &learned->comms[c], learned->step_count - 1 + step,
                                       &count) != NULL ||
                  count == 0);
        }
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size_bytes)
{
    struct harness_learned learned;
    struct ddp_mem_pool *pool = NULL;
    struct ddp_err err = {{0}};
    unsigned line = 0;
    unsigned column = 0;

    check(ddp_mem_pool_create(&pool) == DDP_OK);
    if (harness_learned_parse(ddp_mem_pool_mem(pool), (const char *)data, size_bytes, &learned,
                              &err) == DDP_OK) {
        check_program(&learned);
    } else {
        check(sscanf(err.text, "%u:%u: ", &line, &column) == 2);
        check(strchr(err.text, '\n') == NULL);
    }
    ddp_mem_pool_destroy(pool);
    return 0;
}
