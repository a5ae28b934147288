/* Finds the program's NCCL and the CUDA driver's functions. */
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "harness/guest/nccl/adapter.h"

static struct guest_nccl table;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static _Thread_local int is_inside;

/* Behind this library, or of a program that loads NCCL itself, as Python does, by its name. */
static void *find_library(void)
{
    void *found = NULL;

    if (dlsym(RTLD_NEXT, "ncclGetVersion") == NULL) {
        found = dlopen("libnccl.so.2", RTLD_NOLOAD | RTLD_NOW);
    }
    return found != NULL ? found : RTLD_NEXT;
}

/* NCCL has a second name of each function for tools like this one; a library in its place may not.
 */
static void resolve(void *library, const char *name, void *out_function, size_t size_bytes)
{
    void *address = dlsym(library, name);

    address = address != NULL ? address : dlsym(library, name + 1);
    memcpy(out_function, &address, size_bytes);
}

static void fill(void)
{
    void *library = find_library();

#define X(name, parameters) resolve(library, "pnccl" #name, &table.name, sizeof table.name);
#include "harness/guest/nccl/function.def"
#undef X
    resolve(library, "pncclCommCount", &table.CommCount, sizeof table.CommCount);
    resolve(library, "pncclCommUserRank", &table.CommUserRank, sizeof table.CommUserRank);
    if (table.CommCount == NULL || table.CommUserRank == NULL) {
        (void)fputs("ddprove: the NCCL adapter was called, and no NCCL is loaded\n", stderr);
        abort();
    }
}

const struct guest_nccl *guest_nccl(void)
{
    (void)pthread_once(&once, fill);
    return &table;
}

int guest_nccl_enter(void)
{
    return is_inside++ == 0 && ddprove_guest_is_watched();
}

int guest_nccl_is_inside(void)
{
    return is_inside > 0;
}

void guest_nccl_leave(void)
{
    is_inside--;
}

void *guest_nccl_driver_symbol(const char *name)
{
    void *address = dlsym(RTLD_DEFAULT, name);

    if (address == NULL) {
        void *driver = dlopen("libcuda.so.1", RTLD_NOLOAD | RTLD_LAZY);

        address = driver != NULL ? dlsym(driver, name) : NULL;
    }
    return address;
}
