/* Modules that are none: without the table (VERSION undefined), or with one of another version. */
#include "ddpcore/mpi/abi.h"

#ifdef VERSION
ddp_mpi_module_fn ddp_mpi_module;

const struct ddp_mpi_module *ddp_mpi_module(void)
{
    static const struct ddp_mpi_module module = {.abi = VERSION};

    return &module;
}
#else
extern const int ddp_mpi_nothing;
const int ddp_mpi_nothing = 1;
#endif
