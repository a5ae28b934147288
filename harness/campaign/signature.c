/* Verdicts as one line. */
#include "harness/campaign/signature.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "ddpcore/base/hash.h"

enum { FINDINGS_SHOWN = 5 };

static const char *text_of(const json_t *verdict, const char *key)
{
    const char *text = json_string_value(json_object_get(verdict, key));

    return text != NULL ? text : "";
}

/* One line: no control characters, and a # for each number. */
static void add_masked(struct ddp_text *out, const char *text)
{
    bool was_digit = false;

    for (; *text != '\0'; text++) {
        bool is_digit = isdigit((unsigned char)*text) != 0;

        if (is_digit) {
            ddp_text_add(out, "%s", was_digit ? "" : "#");
        } else {
            ddp_text_add_bytes(out, iscntrl((unsigned char)*text) ? " " : text, 1);
        }
        was_digit = is_digit;
    }
}

void harness_campaign_signature_error(const char *text, bool is_left_out,
                                      struct harness_campaign_result *out)
{
    char cut[300];
    struct ddp_text line;

    out->outcome = is_left_out ? HARNESS_OUTCOME_SKIP : HARNESS_OUTCOME_ERROR;
    (void)snprintf(cut, sizeof cut, "%.299s", text);
    ddp_text_init_fixed(&line, out->text, sizeof out->text);
    ddp_text_add(&line, "%s ", harness_outcome_name(out->outcome));
    add_masked(&line, cut);
}

static void add_ranks(struct ddp_text *out, const json_t *list)
{
    for (size_t i = 0; i < json_array_size(list); i++) {
        ddp_text_add(out, "%s%lld", i == 0 ? "" : ",",
                     (long long)json_integer_value(json_array_get(list, i)));
    }
    ddp_text_add(out, "%s", json_array_size(list) == 0 ? "-" : "");
}

/* Verdict, culprits, step, bucket: of a verdict or of one of its findings. */
static void add_found(struct ddp_text *out, const json_t *verdict)
{
    const json_t *step = json_object_get(verdict, "step");
    const json_t *bucket = json_object_get(json_object_get(verdict, "op"), "bucket");

    ddp_text_add(out, "%s ranks ", text_of(verdict, "verdict"));
    add_ranks(out, json_object_get(verdict, "culprit"));
    if (json_is_integer(step)) {
        ddp_text_add(out, " step %lld", (long long)json_integer_value(step));
    }
    if (json_is_integer(bucket)) {
        ddp_text_add(out, " bucket %lld", (long long)json_integer_value(bucket));
    }
}

/* A hash of whatever a run of the simulator found, but not of its words, which say values that
 * depend on the BLAS. */
static uint64_t hash_findings(const json_t *findings)
{
    static const char *const keys[] = {"verdict", "oracle",    "mode",        "culprit",
                                       "victims", "op",        "step",        "micro",
                                       "phase",   "detect_ms", "follows_from"};
    uint64_t hash = 0;

    for (size_t i = 0; i < json_array_size(findings); i++) {
        for (size_t k = 0; k < sizeof keys / sizeof keys[0]; k++) {
            char *text = json_dumps(json_object_get(json_array_get(findings, i), keys[k]),
                                    JSON_ENCODE_ANY | JSON_COMPACT | JSON_SORT_KEYS);

            hash = ddp_hash_combine(hash, ddp_hash_text(text == NULL ? "" : text));
            free(text);
        }
    }
    return hash;
}

/* How much was found, a hash of all of it, and, as far as there is room, what followed from what.
 */
static void add_others(struct ddp_text *out, const json_t *verdict)
{
    const json_t *findings = json_object_get(verdict, "findings");

    ddp_text_add(out, ", of %zu %08" PRIx64, json_array_size(findings),
                 hash_findings(findings) & UINT64_C(0xffffffff));
    for (size_t i = 1; i < json_array_size(findings) && i < FINDINGS_SHOWN; i++) {
        const json_t *finding = json_array_get(findings, i);
        const json_t *cause = json_object_get(finding, "follows_from");

        ddp_text_add(out, ", ");
        add_found(out, finding);
        if (!json_is_null(cause)) {
            ddp_text_add(out, " after %lld",
                         (long long)json_integer_value(json_object_get(cause, "finding")));
        }
    }
}

/* How the ranks that were named relate to those that faults were drawn for. */
static const char *relation(const struct harness_plan *plan, const json_t *list)
{
    size_t hit = 0;
    size_t missed = 0;

    for (uint32_t f = 0; f < plan->fault_count; f++) {
        bool is_named = false;

        for (size_t i = 0; i < json_array_size(list); i++) {
            is_named =
                is_named || json_integer_value(json_array_get(list, i)) == plan->faults[f].at.rank;
        }
        hit += is_named;
        missed += !is_named;
    }
    if (json_array_size(list) == 0) {
        return "nobody";
    }
    return hit == 0                      ? "innocent"
           : json_array_size(list) > hit ? "too many"
           : missed > 0                  ? "some"
                                         : "all";
}

static void add_faults(struct ddp_text *out, const struct harness_plan *plan)
{
    for (uint32_t i = 0; i < plan->fault_count; i++) {
        const struct harness_fault *fault = &plan->faults[i];

        ddp_text_add(out, " %s@%s", harness_action_name(fault->action.kind),
                     ddp_fault_point_name(fault->point));
        if (fault->action.kind == HARNESS_ACTION_CORRUPT) {
            ddp_text_add(out, ":%s",
                         harness_names_of(HARNESS_NAMES_CORRUPTS, (int)fault->action.corrupt));
        } else if (fault->action.kind == HARNESS_ACTION_ARG) {
            ddp_text_add(out, ":%s", harness_names_of(HARNESS_NAMES_ARGS, (int)fault->action.arg));
        }
    }
    ddp_text_add(out, "%s", plan->fault_count == 0 ? " no fault" : "");
}

/* What else there was that nothing explains, from the judge's reason. */
static void add_reason(struct ddp_text *out, const json_t *verdict)
{
    char reason[161];

    (void)snprintf(reason, sizeof reason, "%.160s", text_of(verdict, "reason"));
    add_masked(out, reason);
}

void harness_campaign_signature(const struct harness_plan *plan, const json_t *verdict,
                                struct harness_campaign_result *out)
{
    struct ddp_text line;

    if (harness_outcome_parse(text_of(verdict, "outcome"), &out->outcome) != DDP_OK ||
        out->outcome == HARNESS_OUTCOME_ERROR || plan == NULL) {
        harness_campaign_signature_error(text_of(verdict, "reason"), false, out);
        return;
    }
    ddp_text_init_fixed(&line, out->text, sizeof out->text);
    if (out->outcome == HARNESS_OUTCOME_PASS) {
        add_found(&line, verdict);
        if (out->driver == HARNESS_DRIVER_SIM) { /* real processes have times of their own */
            add_others(&line, verdict);
        }
        return;
    }
    ddp_text_add(&line, "%s:", harness_outcome_name(out->outcome));
    add_faults(&line, plan);
    ddp_text_add(&line, ": %s, %s named: ", text_of(verdict, "verdict"),
                 relation(plan, json_object_get(verdict, "culprit")));
    add_reason(&line, verdict);
}
