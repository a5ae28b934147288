/* Where the library of an adapter is looked for. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ddpcore/base/file.h"
#include "harness/exec/exec.h"
#include "tests/ct.h"

enum { PATH_BYTES = 512 };

/* In lib, beside the folder of the program. */
CT_TEST(adapter, lies_beside_the_programs_folder)
{
    char folder[] = "/tmp/ddprove-adapter-XXXXXX";
    char self[PATH_BYTES];
    char library[PATH_BYTES];
    char path[PATH_BYTES];
    struct ddp_err err = {{0}};

    CT_REQUIRE(mkdtemp(folder) != NULL);
    (void)snprintf(self, sizeof self, "%s/bin/ddprove", folder);
    (void)snprintf(library, sizeof library, "%s/lib/libddprove_guest_mpi.so", folder);
    CT_CHECK_STATUS(
        harness_exec_adapter_path(HARNESS_GUEST_ADAPTER_MPI, self, path, sizeof path, &err),
        DDP_E_NOT_FOUND);
    CT_CHECK(strstr(err.text, library) != NULL && strstr(err.text, "No such file") != NULL &&
             strstr(err.text, "it is built where an mpi.h is found") != NULL);
    CT_CHECK_OK(ddp_files_make_dirs(library, &err)); /* whatever can be read is there */
    CT_CHECK_OK(
        harness_exec_adapter_path(HARNESS_GUEST_ADAPTER_MPI, self, path, sizeof path, &err));
    CT_CHECK_STR(path, library);
    CT_CHECK_OK(ddp_files_remove_tree(folder, &err));
}

/* Each adapter's library has its name in it, and whoever lacks it is told when it is built. */
CT_TEST(adapter, each_has_a_library)
{
    for (int i = HARNESS_GUEST_ADAPTER_NONE + 1; i < HARNESS_GUEST_ADAPTER_COUNT; i++) {
        const enum harness_guest_adapter adapter = (enum harness_guest_adapter)i;
        char path[PATH_BYTES];
        char library[64];
        struct ddp_err err = {{0}};

        (void)snprintf(library, sizeof library, "/no/such/lib/libddprove_guest_%s.so: ",
                       harness_guest_adapter_name(adapter));
        if (adapter ==
            HARNESS_GUEST_ADAPTER_TORCH) { /* no library, but what Python loads one from */
            (void)snprintf(library, sizeof library, "/no/such/lib/ddprove/python: ");
        }
        CT_CHECK_STATUS(
            harness_exec_adapter_path(adapter, "/no/such/bin/ddprove", path, sizeof path, &err),
            DDP_E_NOT_FOUND);
        CT_CHECK(strstr(err.text, library) != NULL && strstr(err.text, "it is built w") != NULL);
    }
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
