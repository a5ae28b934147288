/* ddprove campaign: run a shard and show how far it is; merge shards. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "ddpcore/base/clock.h"
#include "ddpcore/base/file.h"
#include "ddpcore/base/text.h"
#include "harness/campaign/campaign.h"
#include "harness/cli/cli.h"

/* Whoever starts several copies of a command says which copy this is. */
static const struct {
    const char *index, *count;
} environments[] = {
    {"SLURM_ARRAY_TASK_ID", "SLURM_ARRAY_TASK_COUNT"},
    {"SLURM_PROCID", "SLURM_NTASKS"},
    {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"},
    {"JOB_COMPLETION_INDEX", "JOB_COMPLETION_COUNT"},
    {"GTEST_SHARD_INDEX", "GTEST_TOTAL_SHARDS"},
};

static bool read_number(const char *name, uint64_t *out)
{
    const char *text = getenv(name);

    return text != NULL && ddp_text_parse_u64(text, out) == DDP_OK;
}

/* Slurm's arrays may start anywhere; SLURM_ARRAY_TASK_MIN says where. */
static void choose_shard(const struct cli_options *options, struct harness_campaign_config *out)
{
    out->shard = options->shard;
    out->shard_count = options->shard_count;
    for (size_t i = 0; out->shard_count == 0 && i < sizeof environments / sizeof environments[0];
         i++) {
        uint64_t index = 0;
        uint64_t count = 0;
        uint64_t first = 0;

        if (!read_number(environments[i].index, &index) ||
            !read_number(environments[i].count, &count)) {
            continue;
        }
        if (i == 0 && read_number("SLURM_ARRAY_TASK_MIN", &first) && first <= index) {
            index -= first;
        }
        if (count > 0 && index < count && count <= 1000000) {
            out->shard = (uint32_t)index;
            out->shard_count = (uint32_t)count;
        }
    }
    if (out->shard_count == 0) {
        out->shard_count = 1;
    }
}

/* What the terminal shows. */
struct show {
    bool is_live;
    uint64_t drawn_ns;
    uint64_t ran; /* cases, in this process's time */
};

static void draw_live(struct show *show, const struct harness_campaign_progress *progress)
{
    uint64_t now_ns = ddp_clock_now_ns(ddp_clock_monotonic());
    double seconds = (double)(now_ns - progress->started_ns) / (double)DDP_NS_PER_S;
    double rate = seconds > 0 ? (double)show->ran / seconds : 0;

    if (!show->is_live || now_ns - show->drawn_ns < DDP_NS_PER_S / 10) {
        return;
    }
    show->drawn_ns = now_ns;
    (void)fprintf(stderr, "\r%llu/%llu cases, %llu failed, %.0f/s, %.0f s left\033[K",
                  (unsigned long long)progress->done, (unsigned long long)progress->total,
                  (unsigned long long)progress->failed, rate,
                  rate > 0 ? (double)(progress->total - progress->done) / rate : 0);
    (void)fflush(stderr);
}

static void take_progress(void *context, const struct harness_campaign_progress *progress)
{
    struct show *show = context;

    show->ran = progress->done - progress->resumed;
    draw_live(show, progress);
}

/* By the clock, and by the time that the workers had a core, which a busy machine does not change.
 */
static void print_rate(const struct show *show, uint64_t started_ns)
{
    double seconds =
        (double)(ddp_clock_now_ns(ddp_clock_monotonic()) - started_ns) / (double)DDP_NS_PER_S;
    struct rusage used;
    double cpu;

    memset(&used, 0, sizeof used);
    (void)getrusage(RUSAGE_CHILDREN, &used);
    cpu = (double)(used.ru_utime.tv_sec + used.ru_stime.tv_sec) +
          (double)(used.ru_utime.tv_usec + used.ru_stime.tv_usec) / 1e6;
    (void)printf("%.1f s, %.0f cases/s; %.1f s of cores, %.0f cases/s of one core\n", seconds,
                 seconds > 0 ? (double)show->ran / seconds : 0, cpu,
                 cpu > 0 ? (double)show->ran / cpu : 0);
}

static int load(const struct cli_options *options, struct harness_campaign *out)
{
    struct ddp_files *files = ddp_files_system();
    struct ddp_err err = {{0}};
    void *text = NULL;
    size_t size_bytes = 0;
    ddp_status status =
        files->ops->read_all(files, options->paths[0], ddp_mem_system(), &text, &size_bytes, &err);

    if (status == DDP_OK) {
        status = harness_campaign_parse(text, size_bytes, options->paths[0], out, &err);
        ddp_mem_free(ddp_mem_system(), text);
    }
    if (status != DDP_OK) {
        return cli_usage_error("%s", err.text);
    }
    out->case_count = options->case_count > 0 ? options->case_count : out->case_count;
    out->seed = options->has_seed ? options->seed : out->seed;
    for (unsigned d = 0; d < HARNESS_DRIVER_COUNT; d++) {
        if (options->is_on_both || options->has_driver) {
            out->is_driver[d] = options->is_on_both || options->driver == (enum harness_driver)d;
        }
    }
    return 0;
}

/* Merge and print what came out. *out_missing: answers that are not there. */
static int conclude(const char *const *dirs, size_t dir_count, const char *out_dir,
                    uint64_t *out_missing)
{
    struct harness_campaign_summary summary;
    struct ddp_err err = {{0}};
    struct ddp_text text;
    int code;

    ddp_text_init(&text, ddp_mem_system());
    if (harness_campaign_merge(dirs, dir_count, out_dir, &summary, &text, &err) != DDP_OK) {
        ddp_text_fini(&text);
        return cli_usage_error("%s", err.text);
    }
    (void)fputs(ddp_text_str(&text), stdout);
    if (summary.counts[HARNESS_OUTCOME_SKIP] > 0) {
        (void)printf("%llu left out: what the campaign sets does not fit them\n",
                     (unsigned long long)summary.counts[HARNESS_OUTCOME_SKIP]);
    }
    (void)printf("%llu passed, %llu failed, %llu inconclusive, %llu errors: %s%s\n",
                 (unsigned long long)summary.counts[HARNESS_OUTCOME_PASS],
                 (unsigned long long)summary.counts[HARNESS_OUTCOME_FAIL],
                 (unsigned long long)summary.counts[HARNESS_OUTCOME_INCONCLUSIVE],
                 (unsigned long long)summary.counts[HARNESS_OUTCOME_ERROR],
                 out_dir != NULL ? out_dir : "ddprove campaign merge puts the shards together",
                 out_dir != NULL ? "/results.txt" : "");
    code = harness_outcome_exit_code(summary.outcome);
    *out_missing = summary.missing_count;
    ddp_text_fini(&text);
    return code;
}

/* A shard that was lost on its way is no success of the whole. */
static int merge(const struct cli_options *options)
{
    uint64_t missing = 0;
    int code;

    if (options->path_count < 2) {
        return cli_usage_error("campaign merge: name the folders of the shards");
    }
    code = conclude((const char *const *)options->paths + 1, (size_t)options->path_count - 1,
                    options->out_dir != NULL ? options->out_dir : options->paths[1], &missing);
    return code == 0 && missing > 0 ? harness_outcome_exit_code(HARNESS_OUTCOME_INCONCLUSIVE)
                                    : code;
}

/* Where results go if nobody says: a folder of this second. */
static void name_folder(const struct harness_campaign *campaign, char *out, size_t size_bytes)
{
    struct timespec now = {0, 0};
    struct tm parts;
    char stamp[32];

    (void)clock_gettime(CLOCK_REALTIME, &now);
    (void)localtime_r(&now.tv_sec, &parts);
    (void)strftime(stamp, sizeof stamp, "%Y%m%d-%H%M%S", &parts);
    (void)snprintf(out, size_bytes, "runs/%s-%s", stamp, campaign->name);
}

static int run(const struct cli_options *options)
{
    struct show show = {.is_live = isatty(STDERR_FILENO) != 0};
    struct harness_campaign campaign;
    struct harness_campaign_config config = {.campaign = &campaign,
                                             .budget_ns = options->budget_s * DDP_NS_PER_S,
                                             .jobs = options->jobs,
                                             .self_path = harness_launch_self_path(),
                                             .is_resumed = options->is_resumed,
                                             .context = &show,
                                             .progress = take_progress};
    uint64_t started_ns = ddp_clock_now_ns(ddp_clock_monotonic());
    struct ddp_err err = {{0}};
    char out_dir[256];
    uint64_t missing = 0; /* as --budget, --fail-fast or a signal has it */
    int signal_number = 0;
    int code = load(options, &campaign);

    if (code != 0) {
        return code;
    }
    name_folder(&campaign, out_dir, sizeof out_dir);
    config.is_fail_fast = options->is_fail_fast;
    config.out_dir = options->out_dir != NULL ? options->out_dir : out_dir;
    if (config.jobs == 0) {
        long cores = sysconf(_SC_NPROCESSORS_ONLN);

        config.jobs = cores > 0 ? (unsigned)cores : 1;
    }
    choose_shard(options, &config);
    if (harness_campaign_run(&config, &signal_number, &err) != DDP_OK) {
        return cli_usage_error("%s", err.text);
    }
    if (show.is_live) {
        (void)fputs("\r\033[K", stderr);
    }
    /* Other shards may be at work in the same folder: putting them together is merge's. */
    code = conclude(&config.out_dir, 1, config.shard_count == 1 ? config.out_dir : NULL, &missing);
    print_rate(&show, started_ns);
    return signal_number != 0 ? 128 + signal_number : code;
}

int cli_campaign(const struct cli_options *options)
{
    if (options->path_count > 0 && strcmp(options->paths[0], "merge") == 0) {
        return merge(options);
    }
    if (options->path_count != 1) {
        return cli_usage_error("campaign: name one campaign's file, as ci/campaigns/healthy.yaml");
    }
    return run(options);
}
