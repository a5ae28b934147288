/* Finds the program's MPI. */
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "harness/guest/mpi/adapter.h"

static struct guest_mpi table;
static void *library; /* of dlopen, or RTLD_NEXT */
static pthread_once_t once = PTHREAD_ONCE_INIT;

/* A program that loads MPI itself, as Python does, keeps it out of the global scope: then its name
 * finds it. */
static void find_library(void)
{
    static const char *const names[] = {"libmpi.so.40", "libmpi.so.12", "libmpich.so.12",
                                        "libmpi.so"};

    library = RTLD_NEXT;
    for (size_t i = 0; dlsym(library, "PMPI_Init") == NULL && i < sizeof names / sizeof names[0];
         i++) {
        void *found = dlopen(names[i], RTLD_NOLOAD | RTLD_NOW);

        library = found != NULL ? found : library;
    }
}

/* A program may hold a copy of its own of the library's data (a copy relocation), which the library
 * uses too: so the global scope comes first. */
void *guest_mpi_symbol(const char *name)
{
    void *address = dlsym(RTLD_DEFAULT, name);

    (void)guest_mpi();
    return address != NULL ? address : dlsym(library, name);
}

static void resolve(const char *name, void *out_function, size_t size_bytes)
{
    void *address = dlsym(library, name);

    memcpy(out_function, &address, size_bytes);
}

static void fill(void)
{
    find_library();
#define X(name) resolve("PMPI_" #name, &table.name, sizeof table.name);
#include "harness/guest/mpi/function.def"
#undef X
    if (table.Init == NULL) {
        (void)fputs("ddprove: the MPI adapter was called, and no MPI is loaded\n", stderr);
        abort();
    }
}

const struct guest_mpi *guest_mpi(void)
{
    (void)pthread_once(&once, fill);
    return &table;
}
