/* Files in shared memory that an MPI makes for a job, and removes as its ranks end by themselves.
 * Ranks that are killed leave them there, and whoever ends a job cleans up behind it. Which they
 * are, the ranks' mappings say; only names are taken that MPIs give to what is one job's alone. */
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "harness/exec/job.h"

/* One file of an MPI's. */
struct exec_shared {
    struct exec_shared *next;
    uint64_t inode; /* another job may have made another one of that name since */
    char path[];
};

/* MPICH; Open MPI 4 and 5, unless it was told another folder. */
static const char *const prefixes[] = {"/dev/shm/mpich_shm_", "/dev/shm/vader_segment.",
                                       "/dev/shm/sm_segment."};

static bool is_of_mpi(const char *path)
{
    for (size_t i = 0; i < sizeof prefixes / sizeof prefixes[0]; i++) {
        if (strncmp(path, prefixes[i], strlen(prefixes[i])) == 0 &&
            strchr(path + strlen("/dev/shm/"), '/') == NULL && strstr(path, " (deleted)") == NULL) {
            return true;
        }
    }
    return false;
}

static void add(struct exec_job *job, uint64_t inode, const char *path)
{
    struct exec_shared *shared;

    for (shared = job->shared; shared != NULL; shared = shared->next) {
        if (shared->inode == inode && strcmp(shared->path, path) == 0) {
            return;
        }
    }
    shared = ddp_mem_array(job->config->mem, 1, sizeof *shared + strlen(path) + 1);
    if (shared != NULL) { /* without memory it is left behind, as it would be without us */
        shared->inode = inode;
        memcpy(shared->path, path, strlen(path) + 1);
        shared->next = job->shared;
        job->shared = shared;
        harness_exec_guard_note(job, inode, path);
    }
}

void harness_exec_note_shared(struct exec_job *job, pid_t pid)
{
    char line[PATH_MAX + 128];
    FILE *file;

    (void)snprintf(line, sizeof line, "/proc/%ld/maps", (long)pid);
    file = fopen(line, "re");
    while (file != NULL && fgets(line, sizeof line, file) != NULL) {
        char *path = strchr(line, '/');
        const char *word = line;

        line[strcspn(line, "\n")] = '\0';
        if (path == NULL || !is_of_mpi(path)) {
            continue;
        }
        for (int i = 0; i < 4 && word != NULL; i++) { /* range, rights, offset, device; the inode */
            word = strchr(word, ' ');
            word = word != NULL ? word + 1 : NULL;
        }
        if (word != NULL) {
            add(job, strtoull(word, NULL, 10), path);
        }
    }
    if (file != NULL) {
        (void)fclose(file);
    }
}

void harness_exec_remove_shared(struct exec_job *job)
{
    while (job->shared != NULL) {
        struct exec_shared *shared = job->shared;
        struct stat now;

        if (lstat(shared->path, &now) == 0 && S_ISREG(now.st_mode) && now.st_ino == shared->inode) {
            (void)unlink(shared->path);
        }
        job->shared = shared->next;
        ddp_mem_free(job->config->mem, shared);
    }
}
