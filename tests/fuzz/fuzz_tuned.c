/* Fuzz target: any text as the file of the right algorithms. The reader may refuse it, in one line
 * with its place; what it accepts prints as a text that reads back the same. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ddpcore/collective/tuned.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size_bytes);

static void check(int condition)
{
    if (!condition) {
        abort();
    }
}

static void check_tuned(const struct ddp_tuned *tuned)
{
    static struct ddp_tuned again;
    struct ddp_text first;
    struct ddp_text second;
    struct ddp_err err = {{0}};

    ddp_text_init(&first, ddp_mem_system());
    ddp_text_init(&second, ddp_mem_system());
    ddp_tuned_print(tuned, &first);
    check(ddp_tuned_parse(ddp_text_str(&first), &again, &err) == DDP_OK);
    ddp_tuned_print(&again, &second);
    check(strcmp(ddp_text_str(&first), ddp_text_str(&second)) == 0);
    for (size_t w = 0; w < tuned->world_count; w++) {
        check(ddp_tuned_find(tuned, tuned->world[w].ranks) == &tuned->world[w]);
        check(tuned->world[w].choice_count > 0);
    }
    ddp_text_fini(&first);
    ddp_text_fini(&second);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size_bytes)
{
    static struct ddp_tuned tuned;
    char *text = malloc(size_bytes + 1);
    struct ddp_err err = {{0}};
    unsigned line = 0;

    check(text != NULL);
    memcpy(text, data, size_bytes);
    text[size_bytes] = '\0';
    if (ddp_tuned_parse(text, &tuned, &err) == DDP_OK) {
        check_tuned(&tuned);
    } else {
        check(sscanf(err.text, "line %u: ", &line) == 1);
        check(strchr(err.text, '\n') == NULL);
    }
    free(text);
    return 0;
}
