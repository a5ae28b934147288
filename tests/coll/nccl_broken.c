/* A library with NCCL's functions that is wrong in one way; all else is the library's in
 * NCCL_BEHIND. Which way: WHAT. */
#include <dlfcn.h>
#include <stddef.h>
#include <stdlib.h>

enum what {
    TAIL,    /* the last element of more than three is not reduced */
    MAXIMUM, /* is a sum */
    DEAF     /* an abort ends nothing, and the communicator is as before */
};
enum { SUM = 0, MAX = 2 };
struct nccl_id {
    char bytes[128];
};

static void *behind(const char *name)
{
    static void *library;

    if (library == NULL) {
        library = dlopen(getenv("NCCL_BEHIND"), RTLD_NOW | RTLD_LOCAL);
    }
    return library != NULL ? dlsym(library, name) : NULL;
}

#define FORWARD(name, parameters, arguments) \
    int name parameters                      \
    {                                        \
        int(*real) parameters = NULL;        \
        *(void **)&real = behind(#name);     \
        return real arguments;               \
    }

FORWARD(ncclGetUniqueId, (struct nccl_id * out), (out))
FORWARD(ncclCommInitRank, (void **out, int size, struct nccl_id id, int rank),
        (out, size, id, rank))
FORWARD(ncclCommGetAsyncError, (void *comm, int *out), (comm, out))
FORWARD(ncclCommDestroy, (void *comm), (comm))

int ncclCommAbort(void *comm)
{
    int (*real)(void *comm) = NULL;

    *(void **)&real = behind("ncclCommAbort");
    while (WHAT == DEAF) {
    }
    return real(comm);
}

int ncclAllReduce(const void *input, void *output, size_t count, int dtype, int op, void *comm,
                  void *stream)
{
    int (*real)(const void *input, void *output, size_t count, int dtype, int op, void *comm,
                void *stream) = NULL;

    *(void **)&real = behind("ncclAllReduce");
    return real(input, output, WHAT == TAIL && count > 3 ? count - 1 : count, dtype,
                WHAT == MAXIMUM && op == MAX ? SUM : op, comm, stream);
}
