/* exec --prove equivalence: a PyTorch program computes what one device would.
 *
 * What is kept of the run and played again lies within the program, in Python
 * (harness/guest/torch); here the program is told to do so, and the proof that it leaves is read
 * and said. */
#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "ddpcore/base/file.h"
#include "harness/cli/cli.h"

enum { PROOF_SCHEMA = 1, NAMES_SHOWN = 3, RANKS_TEXT_BYTES = 64 };

/* "all", or numbers with commas between them. */
static bool are_steps(const char *text)
{
    if (strcmp(text, "all") == 0) {
        return true;
    }
    for (;;) {
        char *end = NULL;

        if (*text < '0' || *text > '9') {
            return false;
        }
        (void)strtoul(text, &end, 10);
        if (*end == '\0') {
            return true;
        }
        if (*end != ',') {
            return false;
        }
        text = end + 1;
    }
}

/* A proof is put together of what lies in its folder, so nothing of another run may. */
static bool has_proof(const char *folder)
{
    static const char *const names[] = {"proof.json", "claimed", "judged", "rank0", "rank1"};
    char path[PATH_MAX];
    bool is_so = false;

    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        is_so =
            is_so || (snprintf(path, sizeof path, "%s/%s", folder, names[i]) < (int)sizeof path &&
                      access(path, F_OK) == 0);
    }
    return is_so;
}

/* A folder that was named. Returns 0, or an exit code. */
static int use_folder(const char *name, char folder[PATH_MAX])
{
    struct ddp_err err = {{0}};

    if (ddp_files_make_dirs(name, &err) != DDP_OK) {
        return cli_usage_error("--out: %s", err.text);
    }
    if (has_proof(name)) {
        return cli_usage_error("--out: %s holds what an earlier run kept for its proof; name "
                               "another folder, or remove it",
                               name);
    }
    return realpath(name, folder) != NULL ? 0 : cli_usage_error("--out: %s", strerror(errno));
}

/* One of our own. Returns 0, or an exit code. */
static int make_folder(struct cli_proof *proof)
{
    const char *temporary = getenv("TMPDIR");
    struct ddp_err err = {{0}};
    char name[PATH_MAX];

    (void)snprintf(name, sizeof name, "%s/ddprove-proof-XXXXXX",
                   temporary != NULL && temporary[0] != '\0' ? temporary : "/tmp");
    if (harness_exec_folder_make("DDPROVE_PROVE", name, &proof->made, &err) != DDP_OK) {
        return cli_usage_error("exec: %s; name a folder with --out", err.text);
    }
    memcpy(proof->folder, proof->made.path, sizeof proof->folder);
    return 0;
}

int cli_prove_begin(const struct cli_options *options, struct cli_proof *proof)
{
    const char *steps = options->steps != NULL ? options->steps : "all";
    int code;

    if (!are_steps(steps)) {
        return cli_usage_error("--steps of --prove equivalence is all, or numbers as 0,1,7, not "
                               "\"%s\"",
                               steps);
    }
    code =
        options->out_dir != NULL ? use_folder(options->out_dir, proof->folder) : make_folder(proof);
    if (code == 0 && (setenv("DDPROVE_PROVE", proof->folder, 1) != 0 ||
                      setenv("DDPROVE_PROVE_STEPS", steps, 1) != 0)) {
        code = cli_usage_error("--out: %s", strerror(errno));
    }
    return code;
}

/* "0, 1, 2" */
static const char *list_text(const json_t *list, char out[RANKS_TEXT_BYTES])
{
    size_t size = 0;
    size_t index;
    json_t *item;

    out[0] = '\0';
    json_array_foreach(list, index, item)
    {
        const int more = snprintf(out + size, RANKS_TEXT_BYTES - size, "%s%" JSON_INTEGER_FORMAT,
                                  index > 0 ? ", " : "", json_integer_value(item));

        if (more < 0 || (size_t)more >= RANKS_TEXT_BYTES - size) {
            (void)snprintf(out + RANKS_TEXT_BYTES - 4, 4, "...");
            break;
        }
        size += (size_t)more;
    }
    return out;
}

/* One finding, in a line. Returns false if it is not one. */
static bool print_one(json_t *item)
{
    const char *verdict, *text, *oracle;
    json_t *ranks, *names, *cause, *steps;
    json_int_t step;
    enum harness_verdict known;
    char about[RANKS_TEXT_BYTES];
    json_error_t error;

    if (json_unpack_ex(item, &error, JSON_STRICT, "{s:s, s:s, s:s, s:o, s:o, s:o, s:I, s:o}",
                       "verdict", &verdict, "text", &text, "oracle", &oracle, "ranks", &ranks,
                       "parameters", &names, "steps", &steps, "step", &step, "explained_by",
                       &cause) != 0 ||
        harness_verdict_parse(verdict, &known) != DDP_OK) {
        return false;
    }
    (void)fprintf(stderr, "ddprove: %s, rank %s, step %" JSON_INTEGER_FORMAT, verdict,
                  list_text(ranks, about), step);
    for (size_t i = 0; i < json_array_size(names) && i < NAMES_SHOWN; i++) {
        const char *name = json_string_value(json_array_get(names, i));

        (void)fprintf(stderr, ", %s", name != NULL ? name : "?");
    }
    if (json_array_size(names) > NAMES_SHOWN) {
        (void)fprintf(stderr, " and %zu more", json_array_size(names) - NAMES_SHOWN);
    }
    (void)fprintf(stderr, ": %s%s\n", text,
                  json_is_null(cause) ? "" : " (follows from what is said above)");
    return true;
}

/* Which parameter, on which ranks, since when, how far. */
static bool print_table(const json_t *table)
{
    size_t index;
    json_t *row;

    if (json_array_size(table) > 0) {
        (void)fprintf(stderr, "  %-32s %-18s %-12s %6s %6s %s\n", "parameter", "verdict", "ranks",
                      "since", "steps", "distance");
    }
    json_array_foreach(table, index, row)
    {
        const char *name, *verdict;
        json_t *ranks, *distance;
        json_int_t since, steps;
        json_error_t error;
        char about[RANKS_TEXT_BYTES];

        if (json_unpack_ex(row, &error, JSON_STRICT, "{s:s, s:s, s:o, s:I, s:I, s:o}", "parameter",
                           &name, "verdict", &verdict, "ranks", &ranks, "since", &since, "steps",
                           &steps, "distance", &distance) != 0) {
            return false;
        }
        (void)fprintf(stderr,
                      "  %-32s %-18s %-12s %6" JSON_INTEGER_FORMAT " %6" JSON_INTEGER_FORMAT " ",
                      name, verdict, list_text(ranks, about), since, steps);
        if (json_is_number(distance)) {
            (void)fprintf(stderr, "%.3g\n", json_number_value(distance));
        } else {
            (void)fprintf(stderr, "-\n");
        }
    }
    return true;
}

static void print_rest(json_t *judged, const json_t *passed_over)
{
    const char *oracle;
    size_t index;
    json_t *item;

    (void)fprintf(stderr, "ddprove: judged:");
    json_object_foreach(judged, oracle, item)
    {
        (void)fprintf(stderr, " %s %" JSON_INTEGER_FORMAT, oracle, json_integer_value(item));
    }
    (void)fprintf(stderr, "\n");
    json_array_foreach(passed_over, index, item)
    {
        const char *of = json_string_value(json_object_get(item, "oracle"));
        const char *why = json_string_value(json_object_get(item, "why"));
        char about[RANKS_TEXT_BYTES];

        (void)fprintf(stderr, "ddprove: not judged: %s, rank %s: %s\n", of != NULL ? of : "?",
                      list_text(json_object_get(item, "ranks"), about), why != NULL ? why : "?");
    }
}

/* How it came out. Ranks may prove the steps that they made before the run broke off: that is no
 * PASS. */
static void print_outcome(enum harness_outcome outcome, bool has_run_well, size_t steps,
                          json_int_t world)
{
    if (outcome == HARNESS_OUTCOME_PASS && !has_run_well) {
        (void)fprintf(stderr,
                      "ddprove: INCONCLUSIVE: in the %zu steps before the run went wrong "
                      "%" JSON_INTEGER_FORMAT " ranks compute what one device would\n",
                      steps, world);
        return;
    }
    (void)fprintf(stderr,
                  "ddprove: %s: in %zu steps %" JSON_INTEGER_FORMAT " ranks %s one device would\n",
                  harness_outcome_name(outcome), steps, world,
                  outcome == HARNESS_OUTCOME_PASS   ? "compute what"
                  : outcome == HARNESS_OUTCOME_FAIL ? "do not compute what"
                                                    : "are not proved to compute what");
}

/* Returns false if this is no proof. has_run_well: the run itself. */
static bool print_proof(json_t *proof, bool has_run_well, enum harness_outcome *outcome)
{
    const char *outcome_text, *verdict;
    json_t *steps, *judged, *passed_over, *notes, *lacking, *findings, *table, *item;
    json_int_t schema, world;
    json_error_t error;
    size_t index;

    if (json_unpack_ex(proof, &error, JSON_STRICT,
                       "{s:I, s:I, s:s, s:s, s:o, s:o, s:o, s:o, s:o, s:o, s:o}", "schema", &schema,
                       "world", &world, "outcome", &outcome_text, "verdict", &verdict, "steps",
                       &steps, "judged", &judged, "not_judged", &passed_over, "notes", &notes,
                       "lacking", &lacking, "findings", &findings, "table", &table) != 0 ||
        schema != PROOF_SCHEMA || harness_outcome_parse(outcome_text, outcome) != DDP_OK) {
        return false;
    }
    json_array_foreach(findings, index, item)
    {
        if (!print_one(item)) {
            return false;
        }
    }
    /* What was found decides, whatever the file calls it. */
    *outcome = json_array_size(findings) > 0 ? HARNESS_OUTCOME_FAIL : *outcome;
    if (!print_table(table)) {
        return false;
    }
    print_rest(judged, passed_over);
    print_outcome(*outcome, has_run_well, json_array_size(steps), world);
    return true;
}

/* What the proof in the folder says, printed. has_run_well: the run itself. */
static enum harness_outcome say_proof(const char *folder, bool has_run_well)
{
    enum harness_outcome outcome = HARNESS_OUTCOME_INCONCLUSIVE;
    char path[PATH_MAX + 16];
    json_error_t error;
    json_t *proof;

    (void)snprintf(path, sizeof path, "%s/proof.json", folder);
    proof = json_load_file(path, JSON_REJECT_DUPLICATES, &error);
    if (proof == NULL && access(path, F_OK) != 0) {
        (void)fprintf(stderr, "ddprove: nothing is proved: not every rank came to a good end with "
                              "PyTorch's DistributedDataParallel in it\n");
    } else if (proof == NULL || !print_proof(proof, has_run_well, &outcome)) {
        (void)fprintf(stderr, "ddprove: %s: this is no proof\n", path);
        outcome = HARNESS_OUTCOME_ERROR;
    }
    json_decref(proof);
    return outcome;
}

int cli_prove_conclude(const struct cli_options *options, struct cli_proof *proof, int job_code)
{
    const enum harness_outcome outcome = say_proof(proof->folder, job_code == 0);
    /* What is wrong somebody will look at. What is not is of no use to anybody, and takes several
     * times as much room as the model. */
    const bool is_kept = outcome == HARNESS_OUTCOME_FAIL || outcome == HARNESS_OUTCOME_ERROR;
    struct ddp_err err = {{0}};

    if (options->out_dir != NULL || is_kept) {
        (void)fprintf(stderr, "ddprove: what was kept of the run: %s\n", proof->folder);
    }
    if (harness_exec_folder_end(&proof->made, is_kept, &err) != DDP_OK) {
        (void)fprintf(stderr, "ddprove: %s\n", err.text);
    }
    return job_code != 0 ? job_code : harness_outcome_exit_code(outcome);
}
