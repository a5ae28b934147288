/* Plans whose collectives are MPI's: what they need, and where it is. */
#ifndef HARNESS_LAUNCH_MPI_H
#define HARNESS_LAUNCH_MPI_H

#include "harness/launch/launch.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The module for MPI: the environment's DDPROVE_MPI, else ../lib/libddp_mpi.so beside the folder of
 * this program. Static storage. */
const char *harness_mpi_path(void);
/* What MPI says it is ("Open MPI v4.1.4"). Errors: those of ddp_mpi_library_open. */
DDP_MUST_USE ddp_status harness_mpi_describe(char *out, size_t size_bytes, struct ddp_err *err);
/* Whether a plan's collectives can run with ranks that this launcher starts; err says what to do.
 * OK for plans without MPI. Errors: E_UNSUPPORTED (ranks that MPI does not know), and those of
 * ddp_mpi_library_open. */
DDP_MUST_USE ddp_status harness_mpi_check(const struct harness_plan *plan,
                                          enum harness_launcher launcher, struct ddp_err *err);

/* The settings ("NAME=value") with which Open MPI leaves no file outside of a folder and no
 * connection outside of this host. */
#define HARNESS_MPI_SETTINGS_MAX 3u
struct harness_mpi_setting {
    const char *name, *value;
};
/* files_path: an existing folder, borrowed. Fills out[HARNESS_MPI_SETTINGS_MAX]. */
void harness_mpi_settings(const char *files_path, struct harness_mpi_setting *out);

#ifdef __cplusplus
}
#endif
#endif
