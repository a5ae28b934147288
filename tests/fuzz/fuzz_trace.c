/* Fuzz target: any bytes as a trace. The reader may refuse them, in one line; what it accepts must
 * print as a trace that reads back as the same text, and the order of its first rank's device work
 * can be judged. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "harness/order/order.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size_bytes);

static void check(int condition)
{
    if (!condition) {
        abort();
    }
}

static void check_round_trip(const struct harness_trace *trace)
{
    struct harness_trace again;
    struct ddp_text first;
    struct ddp_text second;
    struct ddp_err err;

    ddp_text_init(&first, ddp_mem_system());
    ddp_text_init(&second, ddp_mem_system());
    harness_trace_print(trace, &first);
    check(harness_trace_parse(ddp_mem_system(), ddp_text_str(&first), &again, &err) == DDP_OK);
    harness_trace_print(&again, &second);
    check(strcmp(ddp_text_str(&first), ddp_text_str(&second)) == 0);
    harness_trace_fini(&again);
    ddp_text_fini(&first);
    ddp_text_fini(&second);
}

static void check_order(const struct harness_trace *trace)
{
    struct ddp_mem *mem = ddp_mem_system();
    const struct harness_trace_event **list = ddp_mem_array(mem, trace->event_count, sizeof(*list));
    struct harness_order_facts facts;
    struct ddp_err err = {{0}};
    size_t count = 0;
    ddp_status status;

    check(list != NULL);
    for (size_t i = 0; i < trace->event_count; i++) {
        if (trace->events[i].rank == 0) {
            list[count++] = &trace->events[i];
        }
    }
    status = harness_order_check(list, count, NULL, 0, mem, &facts, &err);
    check(status == DDP_OK || (status == DDP_E_OVERFLOW && err.text[0] != '\0'));
    check(facts.disorder.is_set == (facts.disorder.text[0] != '\0'));
    ddp_mem_free(mem, list);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size_bytes)
{
    struct harness_trace trace;
    struct ddp_err err = {{0}};
    char *text = malloc(size_bytes + 1);

    check(text != NULL);
    memcpy(text, data, size_bytes);
    text[size_bytes] = '\0';
    if (harness_trace_parse(ddp_mem_system(), text, &trace, &err) == DDP_OK) {
        check_round_trip(&trace);
        check_order(&trace);
        harness_trace_fini(&trace);
    } else {
        check(err.text[0] != '\0' && strchr(err.text, '\n') == NULL);
    }
    free(text);
    return 0;
}
