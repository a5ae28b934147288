/* Finds the program's MPI, and what kind it is. */
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "harness/guest/mpi/adapter.h"

static struct guest_mpi table;
static struct guest_mpi_names names;
static void *library; /* of dlopen, or RTLD_NEXT */
static pthread_once_t once = PTHREAD_ONCE_INIT;

/* A program that loads MPI itself, as Python does, keeps it out of the global scope: then its name
 * finds it. */
static void find_library(void)
{
    static const char *const files[] = {"libmpi.so.40",    "libmpi.so.12",    "libmpich.so.12",
                                        "libmpi_abi.so.1", "libmpi_abi.so.0", "libmpi.so"};

    library = RTLD_NEXT;
    for (size_t i = 0; dlsym(library, "PMPI_Init") == NULL && i < sizeof files / sizeof files[0];
         i++) {
        void *found = dlopen(files[i], RTLD_NOLOAD | RTLD_NOW);

        library = found != NULL ? found : library;
    }
}

/* A program may hold a copy of its own of the library's data (a copy relocation), which the library
 * uses too: so the global scope comes first. */
static void *symbol_of(const char *name)
{
    void *address = dlsym(RTLD_DEFAULT, name);

    return address != NULL ? address : dlsym(library, name);
}

/* The standard's ABI has its functions and those of MPICH have the same names: the file tells. */
static enum guest_mpi_family find_family(void)
{
    Dl_info info = {.dli_fname = NULL};
    const char *file;

    if (symbol_of("ompi_mpi_comm_world") != NULL) {
        return GUEST_MPI_OPEN;
    }
    (void)dladdr(dlsym(library, "PMPI_Init"), &info);
    file = info.dli_fname != NULL ? strrchr(info.dli_fname, '/') : NULL;
    return file != NULL && strncmp(file, "/libmpi_abi", 11) == 0 ? GUEST_MPI_STANDARD
                                                                 : GUEST_MPI_MPICH;
}

static uint64_t handle_of(const char *symbol, uint64_t mpich, uint64_t standard)
{
    return names.family == GUEST_MPI_OPEN    ? (uint64_t)(uintptr_t)symbol_of(symbol)
           : names.family == GUEST_MPI_MPICH ? mpich
                                             : standard;
}

static void resolve(const char *name, void *out_function, size_t size_bytes)
{
    void *address = dlsym(library, name);

    memcpy(out_function, &address, size_bytes);
}

static void fill(void)
{
    find_library();
#define X(name, parameters)      resolve("PMPI_" #name, &table.name, sizeof table.name);
#define CALLED(name, parameters) resolve("PMPI_" #name, &table.name, sizeof table.name);
#define MPIX(name, parameters) \
    resolve("PMPIX_" #name, &table.extended_##name, sizeof table.extended_##name);
#include "harness/guest/mpi/every.def"
#undef X
#undef CALLED
#undef MPIX
    if (table.Init == NULL) {
        (void)fputs("ddprove: the MPI adapter was called, and no MPI is loaded\n", stderr);
        abort();
    }
    names.family = find_family();
#define X(name, symbol, mpich, standard) names.name = handle_of(symbol, mpich, standard);
    GUEST_MPI_HANDLE_TABLE(X)
#undef X
#define X(name, open, mpich, standard) \
    names.name = ((const int[GUEST_MPI_FAMILY_COUNT]){open, mpich, standard})[names.family];
    GUEST_MPI_NUMBER_TABLE(X)
#undef X
}

const struct guest_mpi *guest_mpi(void)
{
    (void)pthread_once(&once, fill);
    return &table;
}

const struct guest_mpi_names *guest_mpi_names(void)
{
    (void)pthread_once(&once, fill);
    return &names;
}

int guest_mpi_is_large(void)
{
    return guest_mpi()->Allreduce_c != NULL;
}

uint64_t guest_mpi_handle(const char *symbol, uint64_t mpich, uint64_t standard)
{
    (void)pthread_once(&once, fill);
    return handle_of(symbol, mpich, standard);
}

uint64_t guest_mpi_clean(uint64_t handle)
{
    return guest_mpi_names()->HANDLE_BYTES == 4 ? (uint32_t)handle : handle;
}

uint64_t guest_mpi_load(const void *handles, size_t i)
{
    const size_t size = (size_t)guest_mpi_names()->HANDLE_BYTES;
    uint64_t handle = 0;

    memcpy(&handle, (const char *)handles + i * size, size);
    return handle;
}

void guest_mpi_store(void *handles, size_t i, uint64_t handle)
{
    const size_t size = (size_t)guest_mpi_names()->HANDLE_BYTES;

    memcpy((char *)handles + i * size, &handle, size);
}
