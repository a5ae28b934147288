/* Where the libraries lie that are loaded into guests. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "harness/exec/exec.h"
#include "harness/plan/plan.h"

ddp_status harness_exec_adapter_path(enum harness_guest_adapter adapter, const char *self_path,
                                     char *out, size_t size_bytes, struct ddp_err *err)
{
    static const char *const libraries[HARNESS_GUEST_ADAPTER_COUNT] = {
        [HARNESS_GUEST_ADAPTER_MPI] = "libddprove_guest_mpi.so",
        [HARNESS_GUEST_ADAPTER_NCCL] = "libddprove_guest_nccl.so",
        [HARNESS_GUEST_ADAPTER_TORCH] = "ddprove/python"};
    static const char *const built[HARNESS_GUEST_ADAPTER_COUNT] = {
        [HARNESS_GUEST_ADAPTER_MPI] = "where an mpi.h is found",
        [HARNESS_GUEST_ADAPTER_NCCL] = "with ddprove, but not with its instrumented builds",
        [HARNESS_GUEST_ADAPTER_TORCH] = "with ddprove"};
    const char *name = harness_guest_adapter_name(adapter);
    char folder[4096];
    char *slash = NULL;
    bool is_cut;

    DDP_ASSERT(libraries[adapter] != NULL);
    is_cut = snprintf(folder, sizeof folder, "%s", self_path) >= (int)sizeof folder;
    for (int i = 0; i < 2 && (slash = strrchr(folder, '/')) != NULL; i++) {
        *slash = '\0';
    }
    if (is_cut ||
        snprintf(out, size_bytes, "%s/lib/%s", folder, libraries[adapter]) >= (int)size_bytes) {
        return ddp_err_set(err, DDP_E_INVALID, "adapter %s: the path of this program is too long",
                           name);
    }
    if (access(out, R_OK) != 0) {
        return ddp_err_set(err, DDP_E_NOT_FOUND, "adapter %s: %s: %s; it is built %s", name, out,
                           strerror(errno), built[adapter]);
    }
    return DDP_OK;
}

ddp_status harness_exec_load_adapter(struct harness_exec_config *config,
                                     enum harness_guest_adapter adapter, const char *self_path,
                                     char *path, size_t size_bytes, struct ddp_err *err)
{
    struct ddp_err none = {{0}};

    config->preload = NULL;
    config->python_dir = NULL;
    if (adapter == HARNESS_GUEST_ADAPTER_NONE) {
        /* Whatever the command is, it may start Python, which finds the package by a variable that
         * is inherited; and that does nothing before PyTorch loads it. */
        if (harness_exec_adapter_path(HARNESS_GUEST_ADAPTER_TORCH, self_path, path, size_bytes,
                                      &none) == DDP_OK) {
            config->python_dir = path;
        }
        return DDP_OK;
    }
    DDP_TRY(harness_exec_adapter_path(adapter, self_path, path, size_bytes, err));
    if (adapter == HARNESS_GUEST_ADAPTER_TORCH) {
        config->python_dir = path;
    } else {
        config->preload = path;
    }
    return DDP_OK;
}
