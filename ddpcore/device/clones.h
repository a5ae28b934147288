/* DDP_CLONES compiles a function once for each vector width and picks one when the program starts.
 * Only for loops whose bits do not depend on the width: elementwise work, never sums across
 * elements. Off under sanitizers, whose runtime is not up yet when the choice is made. */
#ifndef DDPCORE_DEVICE_CLONES_H
#define DDPCORE_DEVICE_CLONES_H

#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && !defined(__cplusplus) && \
    !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__) && defined(__OPTIMIZE__)
#define DDP_CLONES __attribute__((target_clones("avx512f", "avx2", "default")))
#else
#define DDP_CLONES
#endif

#endif
