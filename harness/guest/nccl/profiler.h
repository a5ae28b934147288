/* NCCL's profiler plug-in interface, versions 4 to 6, as far as it is used: declared here after
 * plugins/profiler/example/nccl/profiler_v{4,5,6}.h of NVIDIA/nccl. Where the versions' structs
 * differ, nothing is read. */
#ifndef HARNESS_GUEST_NCCL_PROFILER_H
#define HARNESS_GUEST_NCCL_PROFILER_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Bits of what a plug-in wants to be told, and kinds of events. */
enum guest_profile {
    GUEST_PROFILE_COLL = 1 << 1,     /* a collective goes to the device */
    GUEST_PROFILE_KERNEL_CH = 1 << 6 /* one channel of its kernel runs */
};

struct guest_profile_event {
    uint8_t type; /* of 8 bytes since version 5, whose first byte holds both of those above */
    uint8_t more[7];
    void *parent; /* of a channel: what its collective's start returned */
    int rank;
    union {
        struct {
            uint64_t number;  /* of its kind in the communicator */
            const char *func; /* "AllReduce" */
            const void *in;
            void *out;
            size_t count;
            int root;
            const char *type; /* "ncclFloat32" */
            uint8_t channel_count;
        } coll;
        struct {
            uint8_t channel;
            uint64_t time;
        } kernel_ch;
        uint64_t room[16]; /* for the greatest of any version */
    };
};

/* ncclProfiler_v4. State and arguments of record are not used. */
struct guest_profiler_v4 {
    const char *name;
    int (*init)(void **context, int *mask, const char *name, uint64_t key, int node_count, int size,
                int rank, void *log);
    int (*start)(void *context, void **handle, const struct guest_profile_event *event);
    int (*stop)(void *handle);
    int (*record)(void *handle, int state, const void *arguments);
    int (*finalize)(void *context);
};
/* ncclProfiler_v5, ncclProfiler_v6 */
struct guest_profiler_v5 {
    const char *name;
    int (*init)(void **context, uint64_t key, int *mask, const char *name, int node_count, int size,
                int rank, void *log);
    int (*start)(void *context, void **handle, const struct guest_profile_event *event);
    int (*stop)(void *handle);
    int (*record)(void *handle, int state, const void *arguments);
    int (*finalize)(void *context);
};

#ifdef __cplusplus
}
#endif
#endif
