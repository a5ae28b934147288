/* The proof of a guest's kept steps (harness/guest/torch, proof.json), as findings and accounts of
 * the run's record: who checks the record later sees them as everything else. */
#include <jansson.h>
#include <stdio.h>
#include <string.h>

#include "harness/cell/stage.h"

enum { PROOF_SCHEMA = 1, WHY_BYTES = HARNESS_WATCH_WHY_BYTES };

/* What is not judged of the kept steps begins so: a proof with gaps is none. */
static const char of_proof[] = "proof: ";

/* Whose part of the truth one of the proof's is. */
static enum harness_oracle_id oracle_of(const char *name)
{
    static const struct {
        const char *name;
        enum harness_oracle_id oracle;
    } rows[] = {
        {"gradient", HARNESS_ORACLE_GRADIENT},   {"loss", HARNESS_ORACLE_GRADIENT},
        {"randomness", HARNESS_ORACLE_GRADIENT}, {"reduction", HARNESS_ORACLE_REDUCTION},
        {"clipping", HARNESS_ORACLE_UPDATE},     {"update", HARNESS_ORACLE_UPDATE},
        {"replicas", HARNESS_ORACLE_REPLICAS},   {"buffers", HARNESS_ORACLE_REPLICAS},
        {"data", HARNESS_ORACLE_LEDGER},         {"inputs", HARNESS_ORACLE_LEDGER},
        {"samplers", HARNESS_ORACLE_LEDGER},     {"checkpoint", HARNESS_ORACLE_CHECKPOINT},
    };

    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        if (strcmp(rows[i].name, name) == 0) {
            return rows[i].oracle;
        }
    }
    return HARNESS_ORACLE_NONE;
}

static bool add_ranks(const json_t *ranks, uint32_t world_size, struct harness_rank_set *out)
{
    size_t index;
    json_t *item;

    json_array_foreach(ranks, index, item)
    {
        if (!json_is_integer(item) || json_integer_value(item) < 0 ||
            json_integer_value(item) >= (json_int_t)world_size) {
            return false;
        }
        harness_rank_set_add(out, (uint32_t)json_integer_value(item));
    }
    return json_is_array(ranks);
}

/* One line of the record. */
static void copy_line(const char *text, char *out, size_t size_bytes)
{
    const size_t length = strlen(text) < size_bytes - 1 ? strlen(text) : size_bytes - 1;

    memcpy(out, text, length);
    out[length] = '\0';
    for (char *c = out; *c != '\0'; c++) {
        if (*c == '\n' || *c == '\t') {
            *c = ' ';
        }
    }
}

/* It follows from one that stands before it; so of each chain the first one is kept. */
static bool is_explained(const json_t *cause, size_t number)
{
    return json_is_integer(cause) && json_integer_value(cause) >= 0 &&
           json_integer_value(cause) < (json_int_t)number;
}

/* The finding of that number. False: it is none. */
static bool add_finding(struct harness_watch_record *record, json_t *item, size_t number)
{
    const char *verdict, *text, *oracle;
    json_t *ranks, *names, *cause, *steps, *name;
    json_int_t step;
    enum harness_verdict known;
    struct harness_finding finding;
    json_error_t error;
    size_t index;

    if (json_unpack_ex(item, &error, JSON_STRICT, "{s:s, s:s, s:s, s:o, s:o, s:o, s:I, s:o}",
                       "verdict", &verdict, "text", &text, "oracle", &oracle, "ranks", &ranks,
                       "parameters", &names, "steps", &steps, "step", &step, "explained_by",
                       &cause) != 0 ||
        harness_verdict_parse(verdict, &known) != DDP_OK || known == HARNESS_VERDICT_NONE ||
        oracle_of(oracle) == HARNESS_ORACLE_NONE || step < 0 || step > INT32_MAX) {
        return false;
    }
    if (!json_is_null(cause)) {
        return is_explained(cause, number);
    }
    harness_finding_init(&finding, record->findings.mem, known, oracle_of(oracle),
                         HARNESS_MODE_BITWISE);
    if (!add_ranks(ranks, record->watch.world_size, &finding.culprits)) {
        return false;
    }
    json_array_foreach(names, index, name)
    {
        uint32_t param = 0;

        if (!json_is_string(name) || json_string_value(name)[0] == '\0' ||
            !harness_watch_name(&record->watch, json_string_value(name), &param)) {
            return false;
        }
        harness_finding_add_param(&finding, param);
    }
    finding.step = (int32_t)step;
    copy_line(text, finding.text, sizeof finding.text);
    harness_findings_add(&record->findings, &finding);
    return true;
}

/* What was said of an oracle before is out of date. */
static void take_lacks(struct harness_watch_accounts *accounts, enum harness_oracle_id oracle)
{
    size_t kept = 0;

    for (size_t i = 0; i < accounts->lack_count; i++) {
        if (accounts->lacks[i].oracle != oracle || accounts->lacks[i].count > 0) {
            accounts->lacks[kept++] = accounts->lacks[i];
        }
    }
    accounts->lack_count = kept;
}

static bool add_judged(struct harness_watch_accounts *accounts, json_t *judged)
{
    const char *name;
    json_t *count;

    json_object_foreach(judged, name, count)
    {
        const enum harness_oracle_id oracle = oracle_of(name);

        if (oracle == HARNESS_ORACLE_NONE || !json_is_integer(count) ||
            json_integer_value(count) < 0) {
            return false;
        }
        if (json_integer_value(count) > 0) {
            take_lacks(accounts, oracle);
            accounts->of[oracle].judged += (uint64_t)json_integer_value(count);
            accounts->of[oracle].bitwise += (uint64_t)json_integer_value(count);
        }
    }
    return json_is_object(judged);
}

static bool add_unjudged(struct harness_watch_accounts *accounts, const json_t *list)
{
    size_t index;
    json_t *item;

    json_array_foreach(list, index, item)
    {
        const char *name = json_string_value(json_object_get(item, "oracle"));
        const char *why = json_string_value(json_object_get(item, "why"));
        const enum harness_oracle_id oracle = name != NULL ? oracle_of(name) : HARNESS_ORACLE_NONE;
        char line[WHY_BYTES];

        if (oracle == HARNESS_ORACLE_NONE || why == NULL) {
            return false;
        }
        memcpy(line, of_proof, sizeof of_proof);
        copy_line(why, line + sizeof of_proof - 1, sizeof line - (sizeof of_proof - 1));
        harness_watch_add_lack(accounts, oracle, json_array_size(json_object_get(item, "steps")),
                               line);
    }
    return json_is_array(list);
}

static bool add_proof(struct harness_watch_record *record, json_t *proof)
{
    const char *outcome, *verdict;
    json_t *steps, *judged, *passed_over, *notes, *lacking, *findings, *table, *item;
    const size_t found_before = record->findings.count;
    enum harness_outcome stated;
    json_int_t schema, world;
    json_error_t error;
    size_t index;

    if (json_unpack_ex(proof, &error, JSON_STRICT,
                       "{s:I, s:I, s:s, s:s, s:o, s:o, s:o, s:o, s:o, s:o, s:o}", "schema", &schema,
                       "world", &world, "outcome", &outcome, "verdict", &verdict, "steps", &steps,
                       "judged", &judged, "not_judged", &passed_over, "notes", &notes, "lacking",
                       &lacking, "findings", &findings, "table", &table) != 0 ||
        schema != PROOF_SCHEMA || world != (json_int_t)record->watch.world_size ||
        harness_outcome_parse(outcome, &stated) != DDP_OK || !json_is_array(findings)) {
        return false;
    }
    json_array_foreach(findings, index, item)
    {
        if (!add_finding(record, item, index)) {
            return false;
        }
    }
    /* What was found decides; a file that states something else has lost some of it. */
    if ((stated == HARNESS_OUTCOME_FAIL) != (record->findings.count > found_before)) {
        return false;
    }
    return add_judged(&record->accounts, judged) && add_unjudged(&record->accounts, passed_over);
}

ddp_status harness_stage_add_proof(const struct harness_cell *cell,
                                   struct harness_watch_record *record, struct ddp_err *err)
{
    const char *path =
        harness_stage_path(cell->mem, cell->run_dir, HARNESS_STAGE_PROOF "/proof.json");
    json_error_t error;
    json_t *proof;
    void *text = NULL;
    size_t size_bytes = 0;
    bool is_good;

    if (cell->plan.job.guest.prove.count == 0) {
        return DDP_OK;
    }
    if (path == NULL) {
        return DDP_E_NOMEM;
    }
    if (harness_stage_read(cell, cell->run_dir, HARNESS_STAGE_PROOF "/proof.json", &text,
                           &size_bytes, NULL) != DDP_OK) {
        harness_watch_add_lack(&record->accounts, HARNESS_ORACLE_GRADIENT, 0,
                               "proof: not every rank came to a good end with DDP in it");
        return DDP_OK;
    }
    proof = json_loadb(text, size_bytes, JSON_REJECT_DUPLICATES, &error);
    is_good = proof != NULL && add_proof(record, proof);
    json_decref(proof);
    return is_good ? DDP_OK
                   : ddp_err_set(err, DDP_E_PARSE, "%s: this is no proof%s%s", path,
                                 error.text[0] != '\0' ? ": " : "", error.text);
}

void harness_stage_ask_for_proof(const struct harness_plan *plan,
                                 const struct harness_watch_accounts *accounts,
                                 struct harness_findings *findings)
{
    static const enum harness_oracle_id needed[] = {HARNESS_ORACLE_GRADIENT,
                                                    HARNESS_ORACLE_REDUCTION, HARNESS_ORACLE_UPDATE,
                                                    HARNESS_ORACLE_REPLICAS};

    for (size_t n = 0; plan->job.guest.prove.count > 0 && n < sizeof needed / sizeof needed[0];
         n++) {
        const char *why = NULL;

        for (size_t i = 0; i < accounts->lack_count; i++) {
            const struct harness_watch_lack *lack = &accounts->lacks[i];

            if (why == NULL && lack->oracle == needed[n] &&
                strncmp(lack->why, of_proof, sizeof of_proof - 1) == 0) {
                why = lack->why;
            }
        }
        if (why == NULL && accounts->of[needed[n]].judged == 0) {
            why = "proof: it judged nothing";
        }
        if (why != NULL && !findings->is_evidence_lost) {
            findings->is_evidence_lost = true;
            (void)snprintf(findings->lost_text, sizeof findings->lost_text,
                           "the kept steps are not proved (%s): %s", harness_oracle_name(needed[n]),
                           why + sizeof of_proof - 1);
        }
    }
}
