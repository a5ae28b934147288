/* Opening the module for MPI: what is missing or wrong is said, with what to do. */
#include <string.h>

#include "ddpcore/mpi/mpi.h"
#include "tests/ct.h"

CT_TEST(mpi_library, no_module)
{
    struct ddp_mpi_library *library = NULL;
    struct ddp_err err = {""};

    CT_CHECK_STATUS(ddp_mpi_library_open("/nowhere/libddp_mpi.so", &library, &err),
                    DDP_E_NOT_FOUND);
    CT_CHECK(strstr(err.text, "/nowhere/libddp_mpi.so") != NULL);
    CT_CHECK(strstr(err.text, "libopenmpi-dev") != NULL);
    CT_CHECK(library == NULL);
}

CT_TEST(mpi_library, not_a_module)
{
    struct ddp_mpi_library *library = NULL;
    struct ddp_err err = {""};

    CT_CHECK_STATUS(ddp_mpi_library_open(MPI_EMPTY_PATH, &library, &err), DDP_E_NOT_FOUND);
    CT_CHECK(strstr(err.text, "lacks ddp_mpi_module") != NULL);
}

CT_TEST(mpi_library, module_of_another_version)
{
    struct ddp_mpi_library *library = NULL;
    struct ddp_err err = {""};

    CT_CHECK_STATUS(ddp_mpi_library_open(MPI_OTHER_PATH, &library, &err), DDP_E_UNSUPPORTED);
    CT_CHECK(strstr(err.text, "has version 4711, this program needs 1") != NULL);
}
