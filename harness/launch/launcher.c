/* The launchers' names, the versions of their programs, and the path of this program. */
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "harness/launch/launch.h"

const char *harness_launcher_name(enum harness_launcher launcher)
{
    static const char *const names[HARNESS_LAUNCHER_COUNT] = {"own", "mpirun"};

    return names[launcher];
}

ddp_status harness_launcher_parse(const char *name, enum harness_launcher *out)
{
    for (unsigned i = 0; i < HARNESS_LAUNCHER_COUNT; i++) {
        if (strcmp(name, harness_launcher_name((enum harness_launcher)i)) == 0) {
            *out = (enum harness_launcher)i;
            return DDP_OK;
        }
    }
    return DDP_E_NOT_FOUND;
}

ddp_status harness_launcher_describe(enum harness_launcher launcher, char *out, size_t size_bytes,
                                     struct ddp_err *err)
{
    FILE *program;
    bool has_line;
    int code;

    out[0] = '\0';
    if (launcher == HARNESS_LAUNCHER_OWN) {
        return DDP_OK;
    }
    program = popen("exec mpirun --version </dev/null 2>&1", "re");
    if (program == NULL) {
        return ddp_err_set(err, DDP_E_SYSTEM, "mpirun cannot be asked for its version");
    }
    has_line = fgets(out, (int)size_bytes, program) != NULL;
    while (fgetc(program) != EOF) { /* read all, or SIGPIPE would end it */
    }
    code = pclose(program);
    out[strcspn(out, "\n")] = '\0';
    if (!WIFEXITED(code) || WEXITSTATUS(code) != 0 || !has_line) {
        return ddp_err_set(err, DDP_E_NOT_FOUND, "mpirun is not installed; install openmpi-bin");
    }
    if (strstr(out, "Open MPI") == NULL && strstr(out, "Open RTE") == NULL) {
        return ddp_err_set(err, DDP_E_UNSUPPORTED,
                           "mpirun is not Open MPI's but says \"%.100s\"; install openmpi-bin",
                           out);
    }
    return DDP_OK;
}

const char *harness_launch_self_path(void)
{
    static char path[4096];
    ssize_t size = readlink("/proc/self/exe", path, sizeof(path) - 1);

    if (size <= 0) {
        return "/proc/self/exe";
    }
    path[size] = '\0';
    return path;
}
