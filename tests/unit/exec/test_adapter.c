/* Where the library of an adapter is looked for. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "harness/exec/exec.h"
#include "tests/ct.h"

enum { PATH_BYTES = 512 };

static void make(const char *path, const char *name, bool is_dir)
{
    char full[PATH_BYTES];
    char command[2 * PATH_BYTES];

    (void)snprintf(full, sizeof full, "%s/%s", path, name);
    (void)snprintf(command, sizeof command, "%s '%s'", is_dir ? "mkdir" : "touch", full);
    CT_CHECK(system(command) == 0);
}

/* In lib, beside the folder of the program. */
CT_TEST(adapter, lies_beside_the_programs_folder)
{
    char folder[] = "/tmp/ddprove-adapter-XXXXXX";
    char self[PATH_BYTES];
    char expected[PATH_BYTES];
    char path[PATH_BYTES];
    char command[PATH_BYTES];
    struct ddp_err err = {{0}};

    CT_REQUIRE(mkdtemp(folder) != NULL);
    (void)snprintf(self, sizeof self, "%s/bin/ddprove", folder);
    (void)snprintf(expected, sizeof expected, "%s/lib/libddprove_guest_mpi.so", folder);
    make(folder, "bin", true);
    make(folder, "lib", true);
    CT_CHECK_STATUS(
        harness_exec_adapter_path(HARNESS_GUEST_ADAPTER_MPI, self, path, sizeof path, &err),
        DDP_E_NOT_FOUND);
    (void)snprintf(command, sizeof command,
                   "adapter mpi: %.400s: No such file or directory; it is built where an mpi.h is "
                   "found",
                   expected);
    CT_CHECK_STR(err.text, command);
    make(folder, "lib/libddprove_guest_mpi.so", false);
    CT_CHECK_OK(
        harness_exec_adapter_path(HARNESS_GUEST_ADAPTER_MPI, self, path, sizeof path, &err));
    CT_CHECK_STR(path, expected);
    (void)snprintf(command, sizeof command, "rm -r '%s'", folder);
    CT_CHECK(system(command) == 0);
}

/* A path that was cut would be another file's. */
CT_TEST(adapter, no_path_is_cut)
{
    char path[64];
    char self[8192];
    char large[8192];
    struct ddp_err err = {{0}};

    CT_CHECK_STATUS(
        harness_exec_adapter_path(HARNESS_GUEST_ADAPTER_MPI,
                                  "/a/folder/with/a/rather/long/name/of/some/kind/bin/ddprove",
                                  path, sizeof path, &err),
        DDP_E_INVALID);
    CT_CHECK_STR(err.text, "adapter mpi: the path of this program is too long");
    memset(self, 'x', sizeof self);
    memcpy(self, "/lib/", 5);
    memcpy(self + sizeof self - 13, "/bin/ddprove", 13);
    err.text[0] = '\0';
    CT_CHECK_STATUS(
        harness_exec_adapter_path(HARNESS_GUEST_ADAPTER_MPI, self, large, sizeof large, &err),
        DDP_E_INVALID);
    CT_CHECK_STR(err.text, "adapter mpi: the path of this program is too long");
}
