/* A team's own trainer, shown to ddprove: ranks of one host that add their gradients in shared
 * memory. It is built against the installed package alone. */
#include <ddprove_guest.h>
#include <fcntl.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

enum { WEIGHTS = 32, RANKS_MAX = 16, STEPS = 25 };

/* Each rank writes its own row; a round ends when all have come. */
struct board {
    atomic_uint arrived;
    float row[RANKS_MAX][WEIGHTS];
};

static unsigned rank, world_size;
static struct board *board;

static unsigned number(const char *name)
{
    const char *text = getenv(name);

    return text != NULL ? (unsigned)strtoul(text, NULL, 10) : 0;
}

static void wait_for_all(void)
{
    const unsigned before = atomic_fetch_add(&board->arrived, 1);
    const unsigned end = (before / world_size + 1) * world_size;

    while (atomic_load(&board->arrived) < end) {
        (void)sched_yield();
    }
}

static void all_reduce(const float *in, float *out, uint64_t count)
{
    for (uint64_t i = 0; i < count; i++) {
        board->row[rank][i] = in[i];
    }
    wait_for_all();
    for (uint64_t i = 0; i < count; i++) {
        float sum = 0;

        for (unsigned r = 0; r < world_size; r++) {
            sum += board->row[r][i];
        }
        out[i] = sum;
    }
    wait_for_all(); /* nobody overwrites what others still read */
}

static void open_board(void)
{
    char name[64];
    int fd;

    (void)snprintf(name, sizeof name, "/consumer-trainer-%u", number("MASTER_PORT"));
    fd = shm_open(name, O_RDWR | O_CREAT, 0600);
    if (fd < 0 || ftruncate(fd, sizeof *board) != 0) {
        perror(name);
        exit(1);
    }
    board = mmap(NULL, sizeof *board, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    (void)close(fd);
    wait_for_all();
    (void)shm_unlink(name);
}

int main(void)
{
    float weights[WEIGHTS] = {0};
    uint32_t comm;

    rank = number("RANK");
    world_size = number("WORLD_SIZE");
    open_board();
    (void)ddprove_guest_attach((int)rank, (int)world_size);
    comm = ddprove_guest_comm_create(1, rank, world_size, "team");
    for (unsigned step = 0; step < STEPS; step++) {
        float gradient[WEIGHTS];
        float sum[WEIGHTS] = {0};
        struct ddprove_guest_call call = {.size_bytes = sizeof call,
                                          .comm = comm,
                                          .kind = DDPROVE_GUEST_ALL_REDUCE,
                                          .dtype = DDPROVE_GUEST_F32,
                                          .redop = DDPROVE_GUEST_SUM,
                                          .elem_count = WEIGHTS,
                                          .in = gradient,
                                          .out = sum};

        ddprove_guest_step(step);
        for (unsigned i = 0; i < WEIGHTS; i++) {
            gradient[i] = weights[i] - (float)((i + rank) % WEIGHTS);
        }
        for (int times = ddprove_guest_call_begin(&call); times > 0; times--) {
            all_reduce(call.in, sum, call.elem_count);
        }
        ddprove_guest_call_end(&call);
        for (unsigned i = 0; i < WEIGHTS; i++) {
            weights[i] -= 0.1F * sum[i] / (float)world_size;
        }
    }
    ddprove_guest_detach();
    return 0;
}
