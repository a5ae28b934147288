/* Collectives of a program of one's own: nothing here knows of ddprove. A call ends when this
 * rank's part is done; one that fails ends the process. */
#ifndef STAR_H
#define STAR_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum { STAR_COUNT_MAX = 64 }; /* elements of a call */

/* First of all: who of how many this process is, as whatever started it says. */
void star_begin(int *own_rank, int *size);
/* Once, before any call. port: on this host, where rank 0 listens, if it does. */
void star_connect(int own_rank, int size, int port);
/* The sum of all ranks' values; in and out may be the same. */
void star_all_reduce(const float *in, float *out, size_t count);
/* The root's values for everybody. */
void star_broadcast(float *values, size_t count, uint32_t root);
/* After all calls. */
void star_end(void);

#ifdef __cplusplus
}
#endif
#endif
