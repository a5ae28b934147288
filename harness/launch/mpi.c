/* Where the MPI module is, whether it can be used, and settings for Open MPI. */
#include "harness/launch/mpi.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ddpcore/mpi/mpi.h"
#include "harness/plugin/plugin.h"

const char *harness_mpi_path(void)
{
    static const char beside[] = "/../lib/libddp_mpi.so";
    static char path[4096 + sizeof(beside)];
    const char *given = getenv("DDPROVE_MPI");
    const char *self = harness_launch_self_path();
    const char *slash = strrchr(self, '/');

    if (given != NULL && given[0] != '\0') {
        return given;
    }
    DDP_ASSERT(slash != NULL);
    (void)snprintf(path, sizeof(path), "%.*s%s", (int)(slash - self), self, beside);
    return path;
}

ddp_status harness_mpi_describe(char *out, size_t size_bytes, struct ddp_err *err)
{
    struct ddp_mpi_library *library = NULL;

    out[0] = '\0';
    DDP_TRY(ddp_mpi_library_open(harness_mpi_path(), &library, err));
    (void)snprintf(out, size_bytes, "%s", ddp_mpi_library_version(library));
    ddp_mpi_library_close(library);
    return DDP_OK;
}

ddp_status harness_mpi_check(const struct harness_plan *plan, enum harness_launcher launcher,
                             struct ddp_err *err)
{
    char version[128];
    bool is_needed = harness_plan_is_mpi(plan);

    if (plan->job.collective.engine == HARNESS_ENGINE_OPAQUE) {
        struct harness_plugin_about about;

        /* What is wrong with it, ranks say. */
        is_needed = harness_plugin_describe("/proc/self/exe", plan->job.collective.plugin, &about,
                                            err) == DDP_OK &&
                    (about.needs & DDPROVE_COLL_BY_MPIRUN) != 0;
        if (is_needed && launcher == HARNESS_LAUNCHER_MPIRUN) {
            return DDP_OK; /* it is linked with an MPI of its own */
        }
    }
    if (!is_needed) {
        return DDP_OK;
    }
    if (launcher != HARNESS_LAUNCHER_MPIRUN) {
        /* MPI would take each rank for a job of one. */
        return ddp_err_set(err, DDP_E_UNSUPPORTED,
                           "MPI knows only ranks that mpirun has started: --launcher mpirun");
    }
    return harness_mpi_describe(version, sizeof(version), err);
}

/* Ranks of one host need shared memory only. With connections, Open MPI would end a process when a
 * connection fails, and a crash would make its victims crash too. */
void harness_mpi_settings(const char *files_path, struct harness_mpi_setting *out)
{
    out[0] = (struct harness_mpi_setting){"OMPI_MCA_pml", "ob1"};
    out[1] = (struct harness_mpi_setting){"OMPI_MCA_btl", "self,vader"};
    out[2] = (struct harness_mpi_setting){"OMPI_MCA_btl_vader_backing_directory", files_path};
}
