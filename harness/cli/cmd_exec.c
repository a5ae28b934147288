/* exec: somebody else's program, watched. */
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "ddpcore/base/clock.h"
#include "ddpcore/base/file.h"
#include "harness/cli/cli.h"
#include "harness/exec/launcher.h"
#include "harness/launch/launch.h"

enum { LIMIT_DEFAULT_S = 60 };

/* One line, at once: what is wrong, and whose fault it is. */
static void print_finding(void *context, const struct harness_finding *finding)
{
    char ranks[HARNESS_RANKS_TEXT_BYTES];

    (void)context;
    (void)fprintf(stderr, "ddprove: %s, rank %s: %s", harness_verdict_name(finding->verdict),
                  harness_rank_set_text(&finding->culprits, ranks), finding->text);
    if (finding->detect_ns >= 0) {
        (void)fprintf(stderr, " [after %.1f ms]", (double)finding->detect_ns / 1e6);
    }
    (void)fputc('\n', stderr);
}

/* The verdict was said; now it is known which call the rank owes. */
static void print_owed(void *context, const struct harness_finding *finding)
{
    (void)context;
    (void)fprintf(stderr, "ddprove: %s\n", finding->text);
}

/* Nothing is wrong so far: whoever looks on sees where the job stands. */
static void print_late(void *context, const char *text)
{
    (void)context;
    (void)fprintf(stderr, "ddprove: note: %s\n", text);
}

/* The innermost calls of its first thread. */
static void print_stack(void *context, uint32_t rank, const char *text)
{
    enum { LINES_MAX = 14 };

    (void)context;
    (void)fprintf(stderr, "ddprove: rank %u stands at:\n", rank);
    for (int i = 0; i < LINES_MAX && *text != '\0'; i++) {
        const size_t size = strcspn(text, "\n");

        (void)fprintf(stderr, "    %.*s\n", (int)size, text);
        text += size + (text[size] == '\n');
    }
}

/* How many results were judged, and why others were not. */
static void print_tally(const struct harness_watch_tally *tally)
{
    static const char *const reasons[HARNESS_WATCH_UNJUDGED_COUNT] = {
#define X(id, words) words,
        HARNESS_WATCH_UNJUDGED_TABLE(X)
#undef X
    };

    (void)fprintf(stderr, "ddprove: results of %" PRIu64 " calls judged", tally->judged);
    if (tally->bitwise > 0) {
        (void)fprintf(stderr, ", %" PRIu64 " bit for bit", tally->bitwise);
    }
    if (tally->compared > 0) {
        (void)fprintf(stderr, ", %" PRIu64 " (no sums) only for being the same on all ranks",
                      tally->compared);
    }
    for (int i = 0; i < HARNESS_WATCH_UNJUDGED_COUNT; i++) {
        if (tally->unjudged[i] > 0) {
            (void)fprintf(stderr, "; %" PRIu64 " not judged: %s", tally->unjudged[i], reasons[i]);
        }
    }
    (void)fprintf(stderr, "%s\n", tally->has_lost ? "; some of what ranks reported was lost" : "");
}

/* What of the program was not compared with the record. */
static void print_lacks(const struct harness_watch_accounts *accounts)
{
    for (size_t i = 0; i < accounts->lack_count; i++) {
        const struct harness_watch_lack *lack = &accounts->lacks[i];

        if (lack->oracle == HARNESS_ORACLE_PROGRAM && lack->count > 0) {
            (void)fprintf(stderr, "ddprove: %" PRIu64 " calls were not compared: %s\n", lack->count,
                          lack->why);
        }
    }
}

static int exit_code_of(const struct harness_exec_result *result, bool is_proving)
{
    if (result->interrupt != 0) {
        return 128 + result->interrupt;
    }
    if (result->record.findings.count > 0) {
        return harness_outcome_exit_code(HARNESS_OUTCOME_FAIL);
    }
    /* To have proved nothing, or not to know what, is no success. */
    if (result->record.exit_code == 0 && is_proving &&
        (result->tally.judged == 0 || result->tally.has_lost)) {
        return harness_outcome_exit_code(HARNESS_OUTCOME_INCONCLUSIVE);
    }
    return result->record.exit_code;
}

/* Another override; its text lives as long as the options. Returns 0, or an exit code. */
static int add_set(struct cli_options *options, char *set)
{
    if (options->set_count == CLI_SETS_MAX) {
        return cli_usage_error("exec: more than %d overrides", CLI_SETS_MAX);
    }
    options->sets[options->set_count++] = set;
    return 0;
}

static int refuse_against(ddp_status status, const struct ddp_err *err)
{
    if (status == DDP_E_NOMEM) {
        (void)fprintf(stderr, "ddprove: --against: %s\n", ddp_status_text(status));
        return harness_outcome_exit_code(HARNESS_OUTCOME_ERROR);
    }
    return cli_usage_error("--against: %s; name a folder that --record wrote", err->text);
}

/* A folder without a learned program is a wrong command, said once and not for each cell. */
static int check_against(const char *folder)
{
    struct harness_learned learned;
    struct ddp_mem_pool *pool;
    struct ddp_err err = {{0}};
    ddp_status status = ddp_mem_pool_create(&pool);

    if (status == DDP_OK) {
        status = harness_exec_read_learned(ddp_mem_pool_mem(pool), folder, &learned, &err);
        ddp_mem_pool_destroy(pool);
    }
    return status == DDP_OK ? 0 : refuse_against(status, &err);
}

/* The scenarios' guest is this command: as `ddprove run` of them. */
static int run_scenarios(const struct cli_options *options)
{
    struct cli_options run = *options;
    char ranks[32];
    char adapter[48];
    char timeout[48];
    char folder[PATH_MAX];
    char against[PATH_MAX + 32];
    char launcher[48];
    int code = 0;

    if (options->record_dir != NULL) {
        return cli_usage_error("exec: --record learns from a job without faults; name no scenario");
    }
    if (options->is_left) {
        return cli_usage_error("exec: a scenario's job always ends; leave out --on-failure leave");
    }
    if (options->ranks != 0) {
        (void)snprintf(ranks, sizeof ranks, "job.ranks=%llu", (unsigned long long)options->ranks);
        code = add_set(&run, ranks);
    }
    if (code == 0 && options->limit_s != 0) {
        (void)snprintf(timeout, sizeof timeout, "job.timeout_ms=%llu",
                       (unsigned long long)options->limit_s * 1000);
        code = add_set(&run, timeout);
    }
    if (code == 0 && options->adapter != HARNESS_GUEST_ADAPTER_NONE) {
        (void)snprintf(adapter, sizeof adapter, "job.guest.adapter=%s",
                       harness_guest_adapter_name(options->adapter));
        code = add_set(&run, adapter);
    }
    if (code == 0 && options->against_dir != NULL) {
        if (realpath(options->against_dir, folder) == NULL) {
            return cli_usage_error("--against: %s: %s", options->against_dir, strerror(errno));
        }
        code = check_against(folder);
        (void)snprintf(against, sizeof against, "job.guest.against=%s", folder);
        code = code == 0 ? add_set(&run, against) : code;
    }
    if (code == 0 && options->has_guest_launcher) {
        (void)snprintf(launcher, sizeof launcher, "job.guest.launcher=%s",
                       harness_guest_launcher_name(options->guest_launcher));
        code = add_set(&run, launcher);
    }
    return code != 0 ? code : cli_run(&run);
}

/* What was learned, into the folder. Returns an exit code. */
static int record(const struct harness_exec_result *result, const char *folder)
{
    struct ddp_err err = {{0}};

    if (result->learned == NULL) {
        (void)fprintf(stderr, "ddprove: nothing was recorded: no rank posted a collective, or not "
                              "all of them are known\n");
        return harness_outcome_exit_code(HARNESS_OUTCOME_INCONCLUSIVE);
    }
    if (harness_exec_write_learned(result->learned, folder, &err) != DDP_OK) {
        (void)fprintf(stderr, "ddprove: %s\n", err.text);
        return harness_outcome_exit_code(HARNESS_OUTCOME_ERROR);
    }
    return 0;
}

/* "5" or "5-8". Returns 0, or an exit code; its error was printed. */
static int parse_steps(const char *text, struct harness_exec_config *config)
{
    const char *dash = strchr(text, '-');
    char first[24];
    int code;

    (void)snprintf(first, sizeof first, "%.*s",
                   dash != NULL && dash - text < 23 ? (int)(dash - text) : 23, text);
    code = cli_parse_number("--steps", first, 0, UINT32_MAX - 1, &config->keep_first);
    code = code == 0 ? cli_parse_number("--steps", dash != NULL ? dash + 1 : first,
                                        config->keep_first, UINT32_MAX - 1, &config->keep_end)
                     : code;
    config->keep_end++;
    return code;
}

/* What --prove, --steps and --out mean together. Returns 0, or an exit code. */
static int set_proof(const struct cli_options *options, struct harness_exec_config *config,
                     struct cli_proof *proof)
{
    struct ddp_err err = {{0}};
    int code;

    config->is_observed = options->is_proving;
    config->observed_every = options->sums_every;
    if (options->sums_every != 0 && !options->is_proving) {
        return cli_usage_error("--sums-every needs --prove sums");
    }
    if (options->is_equivalence) {
        return cli_prove_begin(options, proof);
    }
    if (options->steps == NULL) {
        return 0;
    }
    code = parse_steps(options->steps, config);
    if (code != 0) {
        return code;
    }
    if (!options->is_proving || options->out_dir == NULL) {
        return cli_usage_error("--steps needs --prove sums, and --out, a folder for these steps' "
                               "data");
    }
    if (ddp_files_make_dirs(options->out_dir, &err) != DDP_OK ||
        realpath(options->out_dir, proof->folder) == NULL) {
        return cli_usage_error("--out: %s: %s", options->out_dir,
                               err.text[0] != '\0' ? err.text : strerror(errno));
    }
    config->keep_folder = proof->folder;
    return 0;
}

/* What is said of a job that has ended. Returns its exit code. */
static int conclude(const struct cli_options *options, const struct harness_exec_result *result)
{
    int code = exit_code_of(result, options->is_proving);

    code = code == 0 && options->record_dir != NULL ? record(result, options->record_dir) : code;
    if (options->is_proving) {
        print_tally(&result->tally);
    }
    if (options->against_dir != NULL && result->record.findings.count == 0) {
        print_lacks(&result->record.accounts);
    }
    if (result->seen_count == 0 && !options->is_equivalence) {
        (void)fprintf(stderr, "ddprove: no rank has shown itself: the program does not use the "
                              "guest library, or an adapter that does; nothing was judged "
                              "(PyTorch's is found by PYTHONPATH, which whatever starts the ranks "
                              "must hand on)\n");
        /* A job that nobody saw is no job that was found healthy. */
        code = code == 0 ? harness_outcome_exit_code(HARNESS_OUTCOME_INCONCLUSIVE) : code;
    } else if (result->lost_comms > 0) {
        (void)fprintf(stderr,
                      "ddprove: %llu communicators could not be shown (too many, or one process "
                      "drives several ranks); their calls were not judged\n",
                      (unsigned long long)result->lost_comms);
    }
    return code;
}

/* Who starts how many ranks. Without --launcher: ddprove the --ranks copies, or the command what it
 * likes. Returns 0, or an exit code. */
static int set_launch(const struct cli_options *options, struct harness_exec_launch *launch,
                      struct harness_exec_config *config)
{
    const enum harness_guest_launcher launcher = options->has_guest_launcher
                                                     ? options->guest_launcher
                                                 : options->ranks != 0 ? HARNESS_GUEST_LAUNCHER_OWN
                                                                       : HARNESS_GUEST_LAUNCHER_ENV;
    size_t count = 0;

    if (launcher != HARNESS_GUEST_LAUNCHER_ENV && options->ranks == 0) {
        return cli_usage_error("--launcher %s needs --ranks N",
                               harness_guest_launcher_name(launcher));
    }
    if (launcher == HARNESS_GUEST_LAUNCHER_OWN &&
        harness_exec_launch_is_launcher((const char *const *)options->command)) {
        return cli_usage_error(
            "exec: %s starts the ranks itself, and --ranks %llu would start it as "
            "often, as so many jobs; leave --ranks out",
            options->command[0], (unsigned long long)options->ranks);
    }
    while (options->command[count] != NULL) {
        count++;
    }
    harness_exec_launch_prepare(launcher, (uint32_t)options->ranks, options->command[0], NULL,
                                launch);
    config->command = harness_exec_launch_words(launch, config->mem,
                                                (const char *const *)options->command, count);
    config->ranks = launcher == HARNESS_GUEST_LAUNCHER_OWN ? (uint32_t)options->ranks : 0;
    config->world_size = (uint32_t)options->ranks;
    config->variables = launch->variables;
    config->variable_count = launch->variable_count;
    return config->command != NULL ? 0 : harness_outcome_exit_code(HARNESS_OUTCOME_ERROR);
}

/* What the job is to be compared with. Returns 0, or an exit code: a program of other ranks is a
 * wrong command, too. */
static int read_against(const char *folder, struct harness_exec_config *config,
                        struct harness_learned *out)
{
    const uint32_t told = config->ranks > 0 ? config->ranks : config->world_size;
    struct ddp_err err = {{0}};
    const ddp_status status = harness_exec_read_learned(config->mem, folder, out, &err);

    if (status != DDP_OK) {
        return refuse_against(status, &err);
    }
    if (told != 0 && out->world_size != told) {
        return cli_usage_error(
            "--against: %s was learned of %u ranks, and the job has %u; name one "
            "of as many",
            folder, out->world_size, told);
    }
    config->against = out;
    return 0;
}

/* Watch the job until it has ended. Returns the exit code. */
static int watch(const struct cli_options *options, const struct harness_exec_config *given)
{
    struct harness_exec_config config = *given; /* what is added lives as long as this call */
    struct harness_exec_result result;
    struct harness_exec_launch launch;
    struct harness_learned learned; /* while config.against is set */
    struct ddp_err err = {{0}};
    const int refused = set_launch(options, &launch, &config);
    ddp_status status;

    if (refused != 0) {
        return refused;
    }
    config.is_learning = options->record_dir != NULL;
    if (options->against_dir != NULL) {
        const int unfit = read_against(options->against_dir, &config, &learned);

        if (unfit != 0) {
            return unfit;
        }
    }
    status = harness_exec_run(&config, &result, &err);
    if (status != DDP_OK) {
        (void)fprintf(stderr, "ddprove: %s\n",
                      err.text[0] != '\0' ? err.text : ddp_status_text(status));
        return harness_outcome_exit_code(HARNESS_OUTCOME_ERROR);
    }
    return conclude(options, &result);
}

int cli_exec(const struct cli_options *options)
{
    const uint64_t limit_s = options->limit_s != 0 ? options->limit_s : LIMIT_DEFAULT_S;
    struct harness_exec_config config = {.is_left = options->is_left,
                                         .limits = harness_exec_limits(limit_s * DDP_NS_PER_S),
                                         .on_finding = print_finding,
                                         .on_owed = print_owed,
                                         .on_late = print_late,
                                         .on_stack = print_stack};
    struct ddp_err err = {{0}};
    struct ddp_mem_pool *pool;
    struct cli_proof proof = {.folder = ""};
    char adapter[4096];
    int code;

    if (options->limit_s == 0) { /* nobody has said that a job may not do nothing for long */
        config.limits.still_ns = 0;
    }
    if (options->command == NULL || options->command[0] == NULL) {
        return cli_usage_error(
            "exec: no command; write it behind \"--\": ddprove exec --ranks 4 -- ./train");
    }
    if (options->path_count > 0) {
        return run_scenarios(options);
    }
    if (options->set_count > 0 || options->json != NULL || options->junit != NULL ||
        (options->out_dir != NULL && options->steps == NULL && !options->is_equivalence)) {
        return cli_usage_error("exec: --set, --out (but for --steps and --prove equivalence), "
                               "--json and --junit are of "
                               "scenarios; name one in front of \"--\"");
    }
    /* A record that cannot be written is an error before the job, not after it. */
    if (options->record_dir != NULL && (ddp_files_make_dirs(options->record_dir, &err) != DDP_OK ||
                                        access(options->record_dir, W_OK) != 0)) {
        return cli_usage_error("--record %s: %s; name a folder that can be written",
                               options->record_dir,
                               err.text[0] != '\0' ? err.text : strerror(errno));
    }
    /* The proof lies within PyTorch's adapter, whatever program starts the ranks. */
    if (harness_exec_load_adapter(
            &config, options->is_equivalence ? HARNESS_GUEST_ADAPTER_TORCH : options->adapter,
            harness_launch_self_path(), adapter, sizeof adapter, &err) != DDP_OK) {
        return cli_usage_error("--%s", err.text);
    }
    code = set_proof(options, &config, &proof);
    if (code != 0) {
        return code;
    }
    if (ddp_mem_pool_create(&pool) != DDP_OK) {
        return harness_outcome_exit_code(HARNESS_OUTCOME_ERROR);
    }
    config.mem = ddp_mem_pool_mem(pool);
    code = watch(options, &config);
    code = options->is_equivalence ? cli_prove_conclude(options, &proof, code) : code;
    ddp_mem_pool_destroy(pool);
    return code;
}
