/* A program that is inside of the guest library nearly all of its time: each rank shows calls of a
 * communicator of its own, with much data and nothing to do, and needs nobody. Whoever is killed in
 * there is missed by nobody; what it leaves behind in memory that all share must harm nobody.
 *
 * Usage: inside CALLS, with torchrun's variables */
#include <ddprove_guest.h>
#include <stdio.h>
#include <stdlib.h>

enum { ELEMS = 1 << 16 };

static float zeros[ELEMS];

static uint32_t number(const char *text)
{
    return text != NULL ? (uint32_t)strtoul(text, NULL, 10) : 0;
}

int main(int argc, char **argv)
{
    const uint32_t rank = number(getenv("RANK"));
    const uint32_t calls = argc > 1 ? number(argv[1]) : 100;
    uint32_t own;

    (void)ddprove_guest_attach((int)rank, (int)number(getenv("WORLD_SIZE")));
    own = ddprove_guest_comm_create(1 + rank, 0, 1, "own");
    for (uint32_t i = 0; i < calls; i++) {
        struct ddprove_guest_call call = {.size_bytes = sizeof call,
                                          .comm = own,
                                          .kind = DDPROVE_GUEST_ALL_REDUCE,
                                          .dtype = DDPROVE_GUEST_F32,
                                          .redop = DDPROVE_GUEST_SUM,
                                          .elem_count = ELEMS,
                                          .in = zeros,
                                          .out = zeros};

        (void)ddprove_guest_call_begin(&call);
        ddprove_guest_call_end(&call);
    }
    ddprove_guest_detach();
    (void)printf("rank %u went on\n", rank);
    return 0;
}
