/* Options of the command line: what each of them sets, and their table. */
#include "harness/cli/options.h"

#include <stdio.h>
#include <string.h>

#include "ddpcore/base/text.h"

int cli_options_add_set(struct cli_options *options, const char *prefix, const char *text)
{
    size_t size = strlen(prefix) + strlen(text) + 1;
    char *copy;

    if (options->set_count == CLI_SETS_MAX) {
        return cli_usage_error("--set: at most %d overrides", CLI_SETS_MAX);
    }
    if (prefix[0] == '\0' && strchr(text, '=') == NULL) {
        return cli_usage_error("--set: \"%s\" is not KEY=VALUE; e.g. --set job.ranks=4", text);
    }
    copy = ddp_mem_array(ddp_mem_system(), size, 1);
    if (copy == NULL) {
        return cli_usage_error("out of memory");
    }
    (void)snprintf(copy, size, "%s%s", prefix, text);
    options->sets[options->set_count++] = copy;
    return 0;
}

static int set_driver(struct cli_options *options, const char *text)
{
    options->is_on_both = strcmp(text, "both") == 0;
    if (options->is_on_both) {
        return 0;
    }
    options->has_driver = harness_driver_parse(text, &options->driver) == DDP_OK;
    if (options->has_driver) {
        return 0;
    }
    return cli_usage_error("--driver: unknown driver \"%s\"; known: sim, proc", text);
}

static int set_launcher(struct cli_options *options, const char *text)
{
    options->has_launcher = harness_launcher_parse(text, &options->launcher) == DDP_OK;
    options->has_guest_launcher =
        harness_guest_launcher_parse(text, &options->guest_launcher) == DDP_OK;
    options->launcher_text = text; /* which of them it may be, the command says: settle */
    return 0;
}

static int set_device(struct cli_options *options, const char *text)
{
    options->is_on_cuda = strcmp(text, "cuda") == 0;
    if (!options->is_on_cuda && strcmp(text, "cpu") != 0) {
        return cli_usage_error("--device: unknown device \"%s\"; known: cpu, cuda", text);
    }
    return cli_options_add_set(options, "job.device=", text);
}

static int set_require(struct cli_options *options, const char *text)
{
    bool is_cuda = strcmp(text, "cuda") == 0;

    if (!is_cuda && strcmp(text, "mpi") != 0) {
        return cli_usage_error("--require: \"%s\" is not known; known: cuda, mpi", text);
    }
    options->requires_cuda = options->requires_cuda || is_cuda;
    options->requires_mpi = options->requires_mpi || !is_cuda;
    return 0;
}

static int set_ranks_per_gpu(struct cli_options *options, const char *text)
{
    return cli_options_add_set(options, "job.ranks_per_gpu=", text);
}

static int set_key(struct cli_options *options, const char *text)
{
    return cli_options_add_set(options, "", text);
}

static int set_collective(struct cli_options *options, const char *text)
{
    options->has_collective = true;
    options->collective_set = options->set_count;
    return cli_options_add_set(options, "job.collective=", text);
}

static int set_seed(struct cli_options *options, const char *text)
{
    options->has_seed = true;
    return cli_parse_number("--seed", text, 0, UINT64_MAX, &options->seed);
}

static int set_seeds(struct cli_options *options, const char *text)
{
    return cli_parse_number("--seeds", text, 1, 100000, &options->seed_count);
}

static int set_jobs(struct cli_options *options, const char *text)
{
    uint64_t number = 0;
    int code = cli_parse_number("-j", text, 1, 256, &number);

    options->jobs = (unsigned)number;
    return code;
}

static int set_cases(struct cli_options *options, const char *text)
{
    return cli_parse_number("--cases", text, 1, 1000000000, &options->case_count);
}

static int set_ranks(struct cli_options *options, const char *text)
{
    return cli_parse_number("--ranks", text, 1, 1024, &options->ranks);
}

static int set_adapter(struct cli_options *options, const char *text)
{
    return harness_guest_adapter_parse(text, &options->adapter) == DDP_OK
               ? 0
               : cli_usage_error("--adapter is none, mpi, nccl or torch, not \"%s\"", text);
}

static int set_steps(struct cli_options *options, const char *text)
{
    options->steps = text;
    return 0;
}

static int set_sums_every(struct cli_options *options, const char *text)
{
    return cli_parse_number("--sums-every", text, 1, 1000000000, &options->sums_every);
}

static int set_prove(struct cli_options *options, const char *text)
{
    options->is_proving = strcmp(text, "sums") == 0;
    options->is_equivalence = strcmp(text, "equivalence") == 0;
    return options->is_proving || options->is_equivalence
               ? 0
               : cli_usage_error("--prove is sums or equivalence, not \"%s\"", text);
}

static int set_record(struct cli_options *options, const char *text)
{
    options->record_dir = text;
    return 0;
}

static int set_against(struct cli_options *options, const char *text)
{
    options->against_dir = text;
    return 0;
}

static int set_limit(struct cli_options *options, const char *text)
{
    return cli_parse_number("--limit", text, 1, 1000000, &options->limit_s);
}

static int set_on_failure(struct cli_options *options, const char *text)
{
    options->is_left = strcmp(text, "leave") == 0;
    if (options->is_left || strcmp(text, "end") == 0) {
        return 0;
    }
    return cli_usage_error("--on-failure is end or leave, not \"%s\"", text);
}

/* Seconds, with or without the unit. */
static int set_budget(struct cli_options *options, const char *text)
{
    char number[24];
    size_t size = strlen(text);

    size -= size > 0 && text[size - 1] == 's';
    (void)snprintf(number, sizeof number, "%.*s", (int)(size < 23 ? size : 23), text);
    return cli_parse_number("--budget", number, 1, 1000000, &options->budget_s);
}

static int set_shard(struct cli_options *options, const char *text)
{
    const char *slash = strchr(text, '/');
    char number[24];
    uint64_t shard = 0;
    uint64_t count = 0;
    int code;

    if (slash == NULL || slash - text > 20) {
        return cli_usage_error("--shard: \"%s\" is not i/n, as in 0/4", text);
    }
    (void)snprintf(number, sizeof number, "%.*s", (int)(slash - text), text);
    code = cli_parse_number("--shard", slash + 1, 1, 1000000, &count);
    code = code == 0 ? cli_parse_number("--shard", number, 0, count - 1, &shard) : code;
    options->shard = (uint32_t)shard;
    options->shard_count = (uint32_t)count;
    return code;
}

static int set_parallel(struct cli_options *options, const char *text)
{
    if (strcmp(text, "ddp") != 0 && strcmp(text, "dp") != 0 && strcmp(text, "single") != 0) {
        return cli_usage_error("--parallel is ddp, dp or single, not \"%s\"", text);
    }
    options->parallel = text;
    return 0;
}

static int set_scaling(struct cli_options *options, const char *text)
{
    options->scaling = text;
    return 0;
}

static int set_svg(struct cli_options *options, const char *text)
{
    options->svg = text;
    return 0;
}

static int set_out(struct cli_options *options, const char *text)
{
    options->out_dir = text;
    return 0;
}

static int set_json(struct cli_options *options, const char *text)
{
    options->json = text;
    return 0;
}

static int set_map(struct cli_options *options, const char *text)
{
    options->map = text;
    return 0;
}

static int set_junit(struct cli_options *options, const char *text)
{
    options->junit = text;
    return 0;
}

static int set_scenario(struct cli_options *options, const char *text)
{
    options->scenario = text;
    return 0;
}

static int set_keep(struct cli_options *options, const char *text)
{
    if (strcmp(text, "all") != 0 && strcmp(text, "failed") != 0) {
        return cli_usage_error("--keep is all or failed, not \"%s\"", text);
    }
    options->is_kept_failed = strcmp(text, "failed") == 0;
    return 0;
}

static int set_cells(struct cli_options *options, const char *text)
{
    options->is_covering = strcmp(text, "covering") == 0;
    return options->is_covering || strcmp(text, "all") == 0
               ? 0
               : cli_usage_error("--cells is all or covering, not \"%s\"", text);
}

/* Options without an argument. */
#define FLAG(name, member)                                         \
    static int name(struct cli_options *options, const char *text) \
    {                                                              \
        (void)text;                                                \
        options->member = true;                                    \
        return 0;                                                  \
    }
FLAG(set_resumed, is_resumed)
FLAG(set_time_enforced, is_time_enforced)
FLAG(set_events, has_events)
FLAG(set_fail_fast, is_fail_fast)
FLAG(set_fast, is_fast)
FLAG(set_show_buckets, is_showing_buckets)
FLAG(set_full, is_full)
FLAG(set_anew, is_anew)
FLAG(set_opaque, is_opaque)
FLAG(set_in_place, is_in_place)
FLAG(set_verbose, is_verbose)
FLAG(set_help, is_help)
#undef FLAG

#define LOADS \
    (CLI_RUN | CLI_TRAIN | CLI_PLAN | CLI_LINT | CLI_LIST | CLI_EXPORT) /* they load scenarios */
#define RUNS (CLI_RUN | CLI_TRAIN)

const struct cli_option cli_option_table[] = {
    {"driver", "sim|proc", 0, RUNS | CLI_CAMPAIGN | CLI_SHRINK, set_driver,
     "default: every driver a scenario allows; of a campaign:\nits own, or both"},
    {"cases", "N", 0, CLI_CAMPAIGN, set_cases, "how many (default: the campaign's)"},
    {"budget", "SECONDS", 0, CLI_CAMPAIGN | CLI_COLL, set_budget,
     "begin no case later than that (coll: 60, with --full none)"},
    {"full", NULL, 0, CLI_COLL, set_full,
     "check: worlds 1 to 64 with every count up to 4 * ranks + 3; conform: orders of messages in "
     "worlds up to 16"},
    {"worlds", "N[-M]", 0, CLI_COLL, cli_set_worlds,
     "check: of so many ranks (default: 1 to 16, and some to 64);\nshow: of N (default 4)"},
    {"counts", "N[-M]", 0, CLI_COLL, cli_set_counts,
     "check: of so many elements (default: what lies at the edges);\nshow: of N (default: as many "
     "as ranks)"},
    {"segment", "N", 0, CLI_COLL, cli_set_segment,
     "show: no message is longer than N elements; bench: N bytes"},
    {"minbytes", "SIZE", 'b', CLI_COLL, cli_set_min_bytes, "bench: the smallest size (default 1K)"},
    {"maxbytes", "SIZE", 'e', CLI_COLL, cli_set_max_bytes,
     "bench: the largest size (default 4M, or -b)"},
    {"stepfactor", "N", 'f', CLI_COLL, cli_set_factor,
     "bench: from one size to the next (default 4)"},
    {"iters", "N", 'n', CLI_COLL, cli_set_iters, "bench: calls that are timed (default 20)"},
    {"warmup_iters", "N", 'w', CLI_COLL, cli_set_warmup, "bench: calls before them (default 5)"},
    {"opaque", NULL, 0, CLI_COLL, set_opaque,
     "new: a plug-in that moves the data itself, instead of steps"},
    {"transport", "shm|tcp", 0, CLI_COLL, cli_set_transport,
     "bench, conform: how ranks are connected (default shm)"},
    {"anew", NULL, 0, CLI_COLL, set_anew,
     "tune: forget what was learned, on this machine or another"},
    {"check", "0|1", 'c', CLI_COLL, cli_set_checked,
     "bench: compare what every call leaves behind, outside of the\ntime (default 1)"},
    {"in-place", NULL, 0, CLI_COLL, set_in_place, "show: input and output are one buffer"},
    {"svg", "FILE", 0, CLI_COLL | CLI_TRAIN, set_svg,
     "show, bench: write the picture there; check: that of the first\ncounterexample; train: that "
     "of --scaling"},
    {"parallel", "ddp|dp|single", 0, CLI_TRAIN, set_parallel,
     "ddp: ranks (default); dp: one process, a thread a device, which\ngathers on the first one; "
     "single: the same batches on one device"},
    {"scaling", "N,M,...", 0, CLI_TRAIN, set_scaling, "train with so many ranks each, and compare"},
    {"show-buckets", NULL, 0, CLI_TRAIN, set_show_buckets,
     "say which parameters travel in which bucket"},
    {"shard", "I/N", 0, CLI_CAMPAIGN, set_shard,
     "the cases k with k mod N = I (default: as Slurm, Open MPI,\nKubernetes or GoogleTest say in "
     "the environment, else 0/1)"},
    {"resume", NULL, 0, CLI_CAMPAIGN, set_resumed, "go on with what --out has of this shard"},
    {"ranks", "N", 0, CLI_EXEC | CLI_COLL, set_ranks,
     "start N copies, each told who it is as torchrun would\n(default: one, which starts the "
     "ranks); coll bench: N\nprocesses (default 2)"},
    {"adapter", "none|mpi|nccl|torch", 0, CLI_EXEC, set_adapter,
     "what shows the program's collectives; none: the program itself\n(default); mpi, nccl: a "
     "library that is loaded into it"},
    {"prove", "sums|equivalence", 0, CLI_EXEC, set_prove,
     "sums: judge the result of every collective too;\nequivalence: a PyTorch program computes "
     "what "
     "one device\nwould, bit for bit"},
    {"sums-every", "N", 0, CLI_EXEC, set_sums_every,
     "of --prove sums: judge one call in N of each communicator, which\ncosts less and sees less "
     "(default: 1)"},
    {"steps", "A[-B]|A,B,...", 0, CLI_EXEC, set_steps,
     "of --prove sums: these steps bit for bit, their data go to\nthe folder --out names; of "
     "equivalence: these steps only"},
    {"record", "DIR", 0, CLI_EXEC, set_record,
     "if all is well, write down which collectives were posted"},
    {"against", "DIR", 0, CLI_EXEC, set_against, "they must be those that --record wrote there"},
    {"on-failure", "end|leave", 0, CLI_EXEC, set_on_failure,
     "what becomes of the job once something is wrong (default: end)"},
    {"limit", "SECONDS", 0, CLI_EXEC | CLI_COLL, set_limit,
     "ranks may wait so long for one that is in code of its own\n(default: 60); if it is given, "
     "nothing at all may move for\nten times as long; coll conform: a call that takes longer "
     "hangs\n"
     "(default: 10)"},
    {"launcher", "NAME", 0, RUNS | CLI_EXEC, set_launcher,
     "own, mpirun: who starts the processes of proc (implies\n--driver proc); of exec also "
     "torchrun, "
     "srun and env (the\ncommand itself): who starts the --ranks copies"},
    {"device", "cpu|cuda", 0, LOADS, set_device,
     "same as --set job.device=NAME; cuda implies --collective\nnccl unless one is given"},
    {"require", "cuda|mpi", 0, CLI_RUN, set_require,
     "a cell that is skipped because this is missing, or too\nfew cards are, is an error; may be "
     "repeated"},
    {"ranks-per-gpu", "N", 0, LOADS, set_ranks_per_gpu, "ranks that share a card (default 1)"},
    {"set", "KEY=VALUE", 0, LOADS | CLI_EXEC, set_key,
     "override a scenario's key, e.g. job.ranks=4"},
    {"collective", "NAME", 0, LOADS, set_collective, "same as --set job.collective=NAME"},
    {"seed", "N", 0, RUNS | CLI_CAMPAIGN | CLI_SHRINK, set_seed,
     "of the simulator's scheduler (default 0), or of a campaign"},
    {"seeds", "N", 0, CLI_RUN, set_seeds, "sim: run every cell under N seeds, from --seed on"},
    {NULL, "N", 'j', CLI_RUN | CLI_CAMPAIGN, set_jobs,
     "cells at a time (default: as many as cores)"},
    {"out", "DIR", 0, RUNS | CLI_CAMPAIGN | CLI_SHRINK | CLI_EXEC | CLI_COLL | CLI_EXPORT | CLI_NEW,
     set_out,
     "run folders (default: runs/<time>; train keeps none); of\nexec: for the data of --steps; of "
     "coll tune, bench: where what\nis right is kept (default: ddprove in XDG_CACHE_HOME or\n"
     "~/.cache); of export: its files; of new: all scenarios"},
    {"keep", "all|failed", 0, CLI_RUN, set_keep,
     "failed: of a cell that passes in sim only verdict.json is\nwritten (default: all)"},
    {"cells", "all|covering", 0, CLI_RUN, set_cells,
     "covering: so few cells that each scenario still has every value\nof every axis, and each "
     "family every pair of collective and\nranks (default: all)"},
    {"json", "FILE", 0, CLI_RUN | CLI_EXEC | CLI_DIAGNOSE | CLI_COLL | CLI_CKPT, set_json,
     "write all verdicts, as one JSON object; ckpt: what it found"},
    {"scenario", "FILE", 0, CLI_DIAGNOSE, set_scenario,
     "write a scenario in which ddprove's own ranks go wrong in the\nsame way"},
    {"junit", "FILE", 0, CLI_RUN | CLI_EXEC | CLI_COLL, set_junit,
     "write all verdicts, as JUnit XML"},
    {"enforce-time", NULL, 0, CLI_RUN | CLI_CHECK, set_time_enforced,
     "judge within_ms on real time too"},
    {"events", NULL, 0, CLI_EXPLAIN, set_events,
     "also the faults that fired, what the monitor saw, and the last\nevents of each rank"},
    {"fail-fast", NULL, 0, CLI_RUN | CLI_CAMPAIGN, set_fail_fast,
     "start no other cell or case once one has failed"},
    {"fast", NULL, 0, CLI_TRAIN, set_fast, "on cuda: TF32 and whatever kernels are fastest"},
    {NULL, "FILE", 'o', CLI_CKPT, set_out, "strip, convert: the file that is written"},
    {"key", "NAME", 0, CLI_CKPT, set_map,
     "of a file that torch.save wrote: which map in it is the state\ndict, as ema or ema.model "
     "(default: model_state_dict,\nstate_dict or model, else the whole)"},
    {NULL, NULL, 'v', CLI_RUN | CLI_EXEC, set_verbose, "one line a cell"},
    {"help", NULL, 'h', CLI_EVERY_COMMAND, set_help, "show this"},
};
const size_t cli_option_count = sizeof cli_option_table / sizeof cli_option_table[0];
_Static_assert(sizeof cli_option_table / sizeof cli_option_table[0] <= CLI_OPTIONS_MAX,
               "options.h says how many there may be");
