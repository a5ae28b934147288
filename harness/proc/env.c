/* What a rank starts with: environment, descriptors, signals, process group. */
#include "harness/proc/env.h"

#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "harness/proc/shared.h"

enum { ENV_OWN_MAX = 32 };

ddp_status harness_proc_env_init(struct harness_proc_env *env, struct ddp_mem *mem)
{
    size_t inherited = 0;

    while (environ[inherited] != NULL) {
        inherited++;
    }
    *env = (struct harness_proc_env){.mem = mem, .capacity = inherited + ENV_OWN_MAX};
    env->items = ddp_mem_array(mem, env->capacity + 1, sizeof(*env->items));
    return env->items != NULL ? DDP_OK : DDP_E_NOMEM;
}

const char *harness_proc_env_lookup(void *context, const char *name)
{
    (void)context;
    return getenv(name);
}

void harness_proc_env_add(struct harness_proc_env *env, const char *format, ...)
{
    struct ddp_text text;
    va_list args;
    char line[4352]; /* a path and its name */

    DDP_ASSERT(env->count < ENV_OWN_MAX);
    va_start(args, format);
    if (vsnprintf(line, sizeof(line), format, args) >= (int)sizeof(line)) {
        env->is_failed = true;
    }
    va_end(args);
    ddp_text_init(&text, env->mem);
    ddp_text_add(&text, "%s", line);
    env->is_failed = env->is_failed || text.is_failed;
    env->items[env->count++] = text.data;
    env->own_count = env->count;
}

void harness_proc_env_add_job(struct harness_proc_env *env,
                              const struct harness_launch_config *config, uint16_t store_port)
{
    const struct harness_rank_options *options = &config->rank;

    harness_proc_env_add(env, "MASTER_ADDR=127.0.0.1");
    harness_proc_env_add(env, "MASTER_PORT=%u", (unsigned)store_port);
    harness_proc_env_add(env, "TORCHELASTIC_USE_AGENT_STORE=%s",
                         config->plan->job.store == HARNESS_STORE_LAUNCHER ? "True" : "False");
    harness_proc_env_add(env, "OPENBLAS_NUM_THREADS=1");
    harness_proc_env_add(env, "DDPROVE_PLAN=%s", config->plan_path);
    harness_proc_env_add(env, "DDPROVE_RUN_DIR=%s", options->run_dir);
    harness_proc_env_add(env, "DDPROVE_CHECKPOINT=%s",
                         options->checkpoint_path != NULL ? options->checkpoint_path : "");
    harness_proc_env_add(env, "DDPROVE_HASHING=%d", options->is_hashing ? 1 : 0);
    harness_proc_env_add(env, "DDPROVE_RESTORING=%d", options->is_restoring ? 1 : 0);
    if (options->wanted_count > 0) {
        harness_proc_env_add(env, "DDPROVE_WANTED=%s/payload/wanted", options->run_dir);
    }
    harness_proc_env_add(env, "DDPROVE_PROGRAM_HASH=%" PRIu64, config->program->hash);
}

static bool is_own(const struct harness_proc_env *env, const char *item)
{
    size_t size = strcspn(item, "=");

    for (size_t i = 0; i < env->own_count; i++) {
        if (env->items[i] != NULL && strncmp(env->items[i], item, size + 1) == 0) {
            return true;
        }
    }
    return false;
}

ddp_status harness_proc_env_inherit(struct harness_proc_env *env,
                                    bool (*is_dropped)(const char *item), struct ddp_err *err)
{
    if (env->is_failed) {
        return ddp_err_set(err, DDP_E_NOMEM, "the environment of the ranks does not fit");
    }
    for (size_t i = 0; environ[i] != NULL && env->count < env->capacity; i++) {
        if (!is_own(env, environ[i]) && (is_dropped == NULL || !is_dropped(environ[i]))) {
            env->items[env->count++] = environ[i];
        }
    }
    return DDP_OK;
}

/* Returns an errno value. */
static int set_attributes(posix_spawnattr_t *attributes)
{
    sigset_t none;
    sigset_t all;
    int error;

    (void)sigemptyset(&none);
    (void)sigfillset(&all);
    error = posix_spawnattr_setflags(attributes, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK |
                                                     POSIX_SPAWN_SETSIGDEF);
    error = error != 0 ? error : posix_spawnattr_setpgroup(attributes, 0);
    error = error != 0 ? error : posix_spawnattr_setsigmask(attributes, &none);
    return error != 0 ? error : posix_spawnattr_setsigdefault(attributes, &all);
}

/* Returns an errno value. */
static int set_files(posix_spawn_file_actions_t *files, int job_fd, const char *log_path)
{
    int error = posix_spawn_file_actions_addopen(files, 0, "/dev/null", O_RDONLY, 0);

    error = error != 0 ? error
                       : posix_spawn_file_actions_addopen(files, 1, log_path,
                                                          O_WRONLY | O_CREAT | O_TRUNC, 0644);
    error = error != 0 ? error : posix_spawn_file_actions_adddup2(files, 1, 2);
    return error != 0 ? error
                      : posix_spawn_file_actions_adddup2(files, job_fd, HARNESS_PROC_JOB_FD);
}

int harness_proc_rank_spawn(const char *path, char **environment, const char *run_dir,
                            uint32_t rank, int job_fd, pid_t *out_pid)
{
    char name[] = "ddprove";
    char command[] = "rank";
    char *argv[] = {name, command, NULL};
    char log_path[4352];
    posix_spawn_file_actions_t files;
    posix_spawnattr_t attributes;
    int error = posix_spawn_file_actions_init(&files);

    if (error != 0) {
        return error;
    }
    error = posix_spawnattr_init(&attributes);
    if (error != 0) {
        (void)posix_spawn_file_actions_destroy(&files);
        return error;
    }
    (void)snprintf(log_path, sizeof(log_path), "%s/rank%" PRIu32 ".log", run_dir, rank);
    error = set_attributes(&attributes);
    error = error != 0 ? error : set_files(&files, job_fd, log_path);
    error = error != 0 ? error : posix_spawn(out_pid, path, &files, &attributes, argv, environment);
    (void)posix_spawnattr_destroy(&attributes);
    (void)posix_spawn_file_actions_destroy(&files);
    return error;
}
