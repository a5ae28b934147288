/* The run at hand: its files, and how it is judged. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ddpcore/base/file.h"
#include "tests/suite/evidence.h"

const char *const evidence_ways[WAY_COUNT] = {"deleted everywhere", "deleted once", "doubled",
                                              "swapped", "altered"};

void evidence_die(const char *what, const char *why)
{
    (void)fprintf(stderr, "evidence: %s: %s\n", what, why);
    exit(2);
}

uint64_t evidence_pick(struct sweep *sweep, uint64_t count)
{
    sweep->random = sweep->random * UINT64_C(6364136223846793005) + 1442695040888963407u;
    return (sweep->random >> 33) % count;
}

const char *evidence_path(const struct sweep *sweep, const char *name)
{
    static char path[2 * PATH_BYTES];

    (void)snprintf(path, sizeof path, "%s/%s", sweep->run_dir, name);
    return path;
}

char *evidence_read(const struct sweep *sweep, const char *name, size_t *out_size)
{
    struct ddp_err err = {{0}};
    void *text = NULL;

    if (ddp_files_system()->ops->read_all(ddp_files_system(), evidence_path(sweep, name),
                                          sweep->mem, &text, out_size, &err) != DDP_OK) {
        evidence_die(name, err.text);
    }
    return text;
}

void evidence_write(const struct sweep *sweep, const char *name, const char *text, size_t size)
{
    struct ddp_err err = {{0}};

    if (ddp_files_write_whole(ddp_files_system(), evidence_path(sweep, name), text, size, &err) !=
        DDP_OK) {
        evidence_die(name, err.text);
    }
}

/* The outcome of the run as it lies there. */
const char *evidence_judge(const struct sweep *sweep, char *reason, size_t reason_bytes)
{
    struct ddp_err err = {{0}};
    json_t *verdict = NULL;
    const char *known[] = {"PASS", "FAIL", "INCONCLUSIVE", "ERROR", "SKIP"};
    const char *outcome = "ERROR";

    if (harness_cell_check(sweep->run_dir, false, &verdict, &err) != DDP_OK) {
        (void)snprintf(reason, reason_bytes, "%s", err.text);
        return outcome;
    }
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
        if (strcmp(json_string_value(json_object_get(verdict, "outcome")), known[i]) == 0) {
            outcome = known[i];
        }
    }
    (void)snprintf(reason, reason_bytes, "%s",
                   json_string_value(json_object_get(verdict, "reason")) != NULL
                       ? json_string_value(json_object_get(verdict, "reason"))
                       : "");
    json_decref(verdict);
    return outcome;
}

/* The damage that lies there must be noticed; is_sealed: by the seals. */
void evidence_expect(struct sweep *sweep, const char *what, bool is_sealed)
{
    char reason[1024];
    const char *outcome = evidence_judge(sweep, reason, sizeof reason);
    bool is_right = is_sealed ? strcmp(outcome, "INCONCLUSIVE") == 0 : strcmp(outcome, "PASS") != 0;

    sweep->tried++;
    if (!is_right || sweep->is_verbose) {
        (void)printf("%s %s: %s: %s (%s)\n", is_right ? "ok  " : "MISS", sweep->name, what, outcome,
                     reason);
    }
    sweep->failed += is_right ? 0 : 1;
}

/* Write the trace as it would be if the recorder had written these events. */
void evidence_reseal(struct sweep *sweep, struct harness_trace *trace)
{
    struct ddp_text text;

    harness_trace_merge(trace);
    ddp_text_init(&text, sweep->mem);
    harness_trace_print(trace, &text);
    evidence_write(sweep, "trace.txt", ddp_text_str(&text), text.size_bytes);
    ddp_text_fini(&text);
}

void evidence_parse(struct sweep *sweep, struct harness_trace *out)
{
    struct ddp_err err = {{0}};

    if (harness_trace_parse(sweep->mem, sweep->text, out, &err) != DDP_OK) {
        evidence_die(sweep->name, err.text);
    }
    for (size_t i = 0; i < out->event_count; i++) {
        out->events[i].entry.index *= 2; /* room for a second one behind it */
    }
}
