/* What an MPI has left in shared memory goes with its job, and nothing else does. */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "ddpcore/base/mem.h"
#include "harness/exec/job.h"
#include "tests/ct.h"

enum { SIZE = 4096 };

/* A file of this process's in shared memory, mapped as an MPI does. */
static void *map_file(const char *prefix, char path[64])
{
    int fd;
    void *data;

    (void)snprintf(path, 64, "/dev/shm/%s%ld", prefix, (long)getpid());
    fd = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    CT_CHECK(fd >= 0 && ftruncate(fd, SIZE) == 0);
    data = mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    CT_CHECK(data != MAP_FAILED);
    (void)close(fd);
    return data;
}

static bool is_there(const char *path)
{
    return access(path, F_OK) == 0;
}

CT_TEST(shared, only_what_is_an_mpis)
{
    struct ddp_mem_pool *pool;
    struct harness_exec_config config = {.ranks = 0};
    struct exec_job job = {.config = &config};
    char of_mpi[64], of_other_mpi[64], of_user[64];
    void *data[3];

    CT_REQUIRE(ddp_mem_pool_create(&pool) == DDP_OK);
    config.mem = ddp_mem_pool_mem(pool);
    data[0] = map_file("mpich_shm_test_", of_mpi);
    data[1] = map_file("vader_segment.test.", of_other_mpi);
    data[2] = map_file("ddprove_test_", of_user);
    harness_exec_note_shared(&job, getpid());
    harness_exec_note_shared(&job, getpid());
    harness_exec_remove_shared(&job);
    CT_CHECK(!is_there(of_mpi));
    CT_CHECK(!is_there(of_other_mpi));
    CT_CHECK(is_there(of_user));
    (void)unlink(of_user);
    for (int i = 0; i < 3; i++) {
        (void)munmap(data[i], SIZE);
    }
    ddp_mem_pool_destroy(pool);
}

/* The job has removed its file, and another one's has the same name. */
CT_TEST(shared, not_what_took_its_name)
{
    struct ddp_mem_pool *pool;
    struct harness_exec_config config = {.ranks = 0};
    struct exec_job job = {.config = &config};
    char path[64];
    void *first, *second;

    CT_REQUIRE(ddp_mem_pool_create(&pool) == DDP_OK);
    config.mem = ddp_mem_pool_mem(pool);
    first = map_file("mpich_shm_test_", path);
    harness_exec_note_shared(&job, getpid());
    (void)unlink(path);
    second = map_file("mpich_shm_test_", path);
    harness_exec_remove_shared(&job);
    CT_CHECK(is_there(path));
    (void)unlink(path);
    (void)munmap(first, SIZE);
    (void)munmap(second, SIZE);
    ddp_mem_pool_destroy(pool);
}
