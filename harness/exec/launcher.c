/* How launchers of other people are told to start a job's ranks, on this host. */
#include "harness/exec/launcher.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void add_word(struct harness_exec_launch *out, const char *word)
{
    DDP_ASSERT(out->argc < HARNESS_EXEC_LAUNCH_WORDS);
    out->argv[out->argc++] = (char *)(uintptr_t)word;
}

static void add_variable(struct harness_exec_launch *out, const char *name, const char *value)
{
    DDP_ASSERT(out->variable_count < HARNESS_EXEC_LAUNCH_VARIABLES);
    out->variables[out->variable_count++] = (struct harness_exec_variable){name, value};
}

/* Open MPI's mpirun. An MPI that does not know the variables does without them. */
static void prepare_mpirun(const char *folder, struct harness_exec_launch *out)
{
    add_word(out, "-n");
    add_word(out, out->ranks);
    add_variable(out, "OMPI_MCA_rmaps_base_oversubscribe", "1");
    add_variable(out, "PRTE_MCA_rmaps_default_mapping_policy", ":oversubscribe");
    if (folder != NULL) {
        add_variable(out, "OMPI_MCA_orte_tmpdir_base", folder);
        add_variable(out, "PRTE_MCA_prte_tmpdir_base", folder);
        /* ranks that are killed leave their shared memory where it lies */
        add_variable(out, "OMPI_MCA_btl_vader_backing_directory", folder);
        add_variable(out, "OMPI_MCA_btl_sm_backing_directory", folder);
    }
    if (geteuid() == 0) {
        add_variable(out, "OMPI_ALLOW_RUN_AS_ROOT", "1");
        add_variable(out, "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1");
    }
}

/* torchrun takes a program for a Python script, unless it is told that it is none. */
static void prepare_torchrun(const char *program, struct harness_exec_launch *out)
{
    const size_t size = strlen(program);

    add_word(out, "--standalone"); /* a rendezvous of its own, at a port that is free */
    add_word(out, "--nproc_per_node");
    add_word(out, out->ranks);
    if (size < 3 || strcmp(program + size - 3, ".py") != 0) {
        add_word(out, "--no_python");
    }
}

/* A program other than ddprove and the command itself starts the ranks. */
static bool is_other(enum harness_guest_launcher launcher)
{
    return launcher != HARNESS_GUEST_LAUNCHER_OWN && launcher != HARNESS_GUEST_LAUNCHER_ENV;
}

void harness_exec_launch_prepare(enum harness_guest_launcher launcher, uint32_t ranks,
                                 const char *program, const char *folder,
                                 struct harness_exec_launch *out)
{
    memset(out, 0, sizeof *out);
    (void)snprintf(out->ranks, sizeof out->ranks, "%u", ranks);
    if (is_other(launcher)) {
        add_word(out, harness_guest_launcher_name(launcher));
    }
    switch (launcher) {
    case HARNESS_GUEST_LAUNCHER_MPIRUN:
        prepare_mpirun(folder, out);
        break;
    case HARNESS_GUEST_LAUNCHER_TORCHRUN:
        prepare_torchrun(program, out);
        break;
    case HARNESS_GUEST_LAUNCHER_SRUN:
        add_word(out, "-n");
        add_word(out, out->ranks);
        add_word(out, "--overcommit"); /* more ranks than cores are not refused */
        break;
    default:
        break;
    }
}

static bool is_one_of(const char *word, const char *const *words)
{
    while (*words != NULL && strcmp(word, *words) != 0) {
        words++;
    }
    return *words != NULL;
}

bool harness_exec_launch_is_launcher(const char *const *command)
{
    static const char *const names[] = {"torchrun",   "accelerate", "deepspeed", "mpirun",
                                        "mpiexec",    "prterun",    "orterun",   "srun",
                                        "horovodrun", NULL};
    static const char *const modules[] = {"torch.distributed.run", "torch.distributed.launch",
                                          "accelerate.commands.launch", NULL};
    const char *slash = strrchr(command[0], '/');
    const char *name = slash != NULL ? slash + 1 : command[0];
    bool is_launcher = is_one_of(name, names);

    for (size_t i = 1; command[i] != NULL; i++) {
        if (strncmp(name, "python", strlen("python")) == 0 && strcmp(command[i], "-m") == 0 &&
            command[i + 1] != NULL && is_one_of(command[i + 1], modules)) {
            is_launcher = true;
        }
        /* One agent for each of several nodes that are this host: together they are one job. */
        if (strncmp(command[i], "--nnodes", strlen("--nnodes")) == 0) {
            return false;
        }
    }
    return is_launcher;
}

bool harness_exec_is_in_path(const char *program)
{
    const char *folders = getenv("PATH");
    char path[4096];

    while (folders != NULL && *folders != '\0') {
        const size_t size = strcspn(folders, ":");

        if (snprintf(path, sizeof path, "%.*s/%s", (int)size, folders, program) <
                (int)sizeof path &&
            access(path, X_OK) == 0) {
            return true;
        }
        folders += size + (folders[size] == ':');
    }
    return false;
}

bool harness_exec_launch_is_there(enum harness_guest_launcher launcher)
{
    return !is_other(launcher) || harness_exec_is_in_path(harness_guest_launcher_name(launcher));
}

char **harness_exec_launch_words(const struct harness_exec_launch *launch, struct ddp_mem *mem,
                                 const char *const *words, size_t count)
{
    char **command = ddp_mem_array(mem, launch->argc + count + 1, sizeof command[0]);

    for (size_t i = 0; command != NULL && i < launch->argc; i++) {
        command[i] = launch->argv[i];
    }
    for (size_t i = 0; command != NULL && i < count; i++) {
        command[launch->argc + i] = ddp_mem_strdup(mem, words[i]);
    }
    return command;
}
