/* Opening the module, and the thread in which MPI begins and ends. Its memory comes from the
 * process heap, because a thread that hangs in MPI may outlive the rank's own memory. */
#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>

#include "ddpcore/mpi/state.h"

enum order { ORDER_NONE, ORDER_BEGIN, ORDER_END, ORDER_LEAVE };

struct ddp_mpi_library {
    const struct ddp_mpi_module *module;
    char version[128];
    enum ddp_mpi_life life;

    pthread_t thread; /* in which MPI is initialised and finalised */
    bool has_thread;
    pthread_mutex_t lock; /* of what follows */
    pthread_cond_t is_ordered;
    enum order order; /* until it is done */
    bool is_left;     /* the owner is gone: the thread frees the library */
    int result;       /* of the last order */
    int rank, size;
};

static void free_library(struct ddp_mpi_library *library)
{
    (void)pthread_cond_destroy(&library->is_ordered);
    (void)pthread_mutex_destroy(&library->lock);
    ddp_mem_free(ddp_mem_system(), library);
}

static void *obey(void *context)
{
    struct ddp_mpi_library *library = context;
    bool is_left = false;

    (void)pthread_mutex_lock(&library->lock);
    while (library->order != ORDER_LEAVE && !library->is_left) {
        enum order order = library->order;
        int rank = 0;
        int size = 0;
        int result;

        if (order == ORDER_NONE) {
            (void)pthread_cond_wait(&library->is_ordered, &library->lock);
            continue;
        }
        (void)pthread_mutex_unlock(&library->lock);
        DDP_ASSERT(order == ORDER_BEGIN || order == ORDER_END);
        result =
            order == ORDER_BEGIN ? library->module->begin(&rank, &size) : library->module->end();
        (void)pthread_mutex_lock(&library->lock);
        DDP_ASSERT(library->order == order);
        library->result = result;
        library->order = ORDER_NONE;
        if (order == ORDER_BEGIN) {
            library->rank = rank;
            library->size = size;
        }
    }
    is_left = library->is_left;
    (void)pthread_mutex_unlock(&library->lock);
    if (is_left) {
        free_library(library);
    }
    return NULL;
}

/* Signals go to the rank's own thread; MPI's threads inherit the mask of this one. */
static ddp_status start_thread(struct ddp_mpi_library *library)
{
    sigset_t all;
    sigset_t before;
    int result;

    if (library->has_thread) {
        return DDP_OK;
    }
    (void)sigfillset(&all);
    (void)pthread_sigmask(SIG_SETMASK, &all, &before);
    result = pthread_create(&library->thread, NULL, obey, library);
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    library->has_thread = result == 0;
    return library->has_thread ? DDP_OK : DDP_E_SYSTEM;
}

static void give_order(struct ddp_mpi_library *library, enum order order)
{
    DDP_ASSERT(library->has_thread);
    (void)pthread_mutex_lock(&library->lock);
    DDP_ASSERT(library->order == ORDER_NONE && !library->is_left); /* one at a time */
    library->order = order;
    (void)pthread_cond_signal(&library->is_ordered);
    (void)pthread_mutex_unlock(&library->lock);
}

ddp_status ddp_mpi_library_wrap(const struct ddp_mpi_module *module, struct ddp_mpi_library **out,
                                struct ddp_err *err)
{
    struct ddp_mpi_library *library = ddp_mem_array(ddp_mem_system(), 1, sizeof(*library));

    if (library == NULL) {
        return ddp_err_set(err, DDP_E_NOMEM, "no memory for MPI's functions");
    }
    DDP_ASSERT(module->abi == DDP_MPI_ABI);
    library->module = module;
    (void)pthread_mutex_init(&library->lock, NULL);
    (void)pthread_cond_init(&library->is_ordered, NULL);
    module->describe(library->version, sizeof(library->version));
    *out = library;
    return DDP_OK;
}

ddp_status ddp_mpi_library_open(const char *path, struct ddp_mpi_library **out, struct ddp_err *err)
{
    /* Never unmapped: MPI's own threads may still run its code. */
    void *handle = dlopen(path, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    const struct ddp_mpi_module *module;
    ddp_mpi_module_fn *find = NULL;
    void *symbol;

    if (handle == NULL) {
        return ddp_err_set(err, DDP_E_NOT_FOUND,
                           "MPI cannot be loaded: %s; it is built where MPI's development files "
                           "are (Debian: libopenmpi-dev)",
                           dlerror());
    }
    symbol = dlsym(handle, DDP_MPI_SYMBOL);
    if (symbol == NULL) {
        (void)dlclose(handle);
        return ddp_err_set(err, DDP_E_NOT_FOUND, "%s lacks %s: it is not ddprove's module for MPI",
                           path, DDP_MPI_SYMBOL);
    }
    /* dlsym returns functions as data pointers; POSIX guarantees that the conversion works. */
    memcpy(&find, &symbol, sizeof(find));
    module = find();
    if (module->abi != DDP_MPI_ABI) {
        (void)dlclose(handle);
        return ddp_err_set(err, DDP_E_UNSUPPORTED,
                           "%s has version %u, this program needs %u: build them together", path,
                           module->abi, DDP_MPI_ABI);
    }
    return ddp_mpi_library_wrap(module, out, err);
}

void ddp_mpi_library_close(struct ddp_mpi_library *library)
{
    bool is_busy;

    if (library == NULL) {
        return;
    }
    if (!library->has_thread) {
        free_library(library);
        return;
    }
    (void)pthread_mutex_lock(&library->lock);
    is_busy = library->order != ORDER_NONE;
    library->is_left = is_busy;
    library->order = is_busy ? library->order : ORDER_LEAVE;
    (void)pthread_cond_signal(&library->is_ordered);
    if (is_busy) {
        (void)pthread_detach(library->thread);
    }
    (void)pthread_mutex_unlock(&library->lock);
    if (!is_busy) {
        (void)pthread_join(library->thread, NULL);
        free_library(library);
    }
}

const char *ddp_mpi_library_version(const struct ddp_mpi_library *library)
{
    return library->version;
}

const struct ddp_mpi_module *ddp_mpi_library_module(const struct ddp_mpi_library *library)
{
    return library->module;
}

enum ddp_mpi_life ddp_mpi_library_life(const struct ddp_mpi_library *library)
{
    return library->life;
}

ddp_status ddp_mpi_library_begin(struct ddp_mpi_library *library)
{
    if (library->life == DDP_MPI_READY) {
        return DDP_OK;
    }
    if (library->life != DDP_MPI_UNBORN) {
        return DDP_E_STATE;
    }
    DDP_TRY(start_thread(library));
    library->life = DDP_MPI_BEGINNING;
    give_order(library, ORDER_BEGIN);
    return DDP_OK;
}

ddp_status ddp_mpi_library_end(struct ddp_mpi_library *library)
{
    if (library->life != DDP_MPI_READY) {
        return DDP_E_STATE;
    }
    DDP_ASSERT(library->has_thread);
    library->life = DDP_MPI_ENDING;
    give_order(library, ORDER_END);
    return DDP_OK;
}

ddp_status ddp_mpi_library_poll(struct ddp_mpi_library *library, struct ddp_err *err)
{
    bool is_beginning = library->life == DDP_MPI_BEGINNING;
    bool is_done;
    int result;

    if (library->life == DDP_MPI_READY || library->life == DDP_MPI_ENDED) {
        return DDP_OK;
    }
    if (!is_beginning && library->life != DDP_MPI_ENDING) {
        return DDP_E_STATE;
    }
    (void)pthread_mutex_lock(&library->lock);
    is_done = library->order == ORDER_NONE;
    result = library->result;
    (void)pthread_mutex_unlock(&library->lock);
    if (!is_done) {
        return DDP_PENDING;
    }
    if (result != 0) {
        library->life = DDP_MPI_GIVEN_UP;
        return ddp_mpi_err(library, result, is_beginning ? "MPI_Init_thread" : "MPI_Finalize", err);
    }
    library->life = is_beginning ? DDP_MPI_READY : DDP_MPI_ENDED;
    return DDP_OK;
}

void ddp_mpi_library_place(const struct ddp_mpi_library *library, uint32_t *out_rank,
                           uint32_t *out_size)
{
    DDP_ASSERT(library->life == DDP_MPI_READY);
    *out_rank = (uint32_t)library->rank;
    *out_size = (uint32_t)library->size;
}

void ddp_mpi_library_give_up(struct ddp_mpi_library *library)
{
    if (library->life != DDP_MPI_ENDED) {
        library->life = DDP_MPI_GIVEN_UP;
    }
}

ddp_status ddp_mpi_err(const struct ddp_mpi_library *library, int result, const char *what,
                       struct ddp_err *err)
{
    char text[512];

    DDP_ASSERT(result != 0);
    library->module->error_text(result, text, sizeof(text));
    return ddp_err_set(err, DDP_E_SYSTEM, "%s: %s", what, text);
}
