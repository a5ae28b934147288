/* Purpose: when calls go to the device: at once, or together when the outermost group of their
 * thread ends. Idea: NCCL gives a group to the device with its end, so marks on streams are made
 * around that. */
#include "harness/guest/call.h"
#include "harness/guest/lane.h"
#include "harness/guest/nccl/adapter.h"

enum { LAUNCHES_MAX = 64, BIRTHS_MAX = 16 };

/* What the calling thread's group has gathered. */
static _Thread_local struct {
    int depth;
    uint32_t launch_count, birth_count;
    struct guest_nccl_launch launches[LAUNCHES_MAX];
    struct guest_nccl_birth births[BIRTHS_MAX];
} group;

int guest_nccl_is_in_group(void)
{
    return group.depth > 0;
}

/* Calls of a communicator on a stream are one launch. */
static void gather(const struct guest_nccl_launch *launch)
{
    for (uint32_t i = 0; i < group.launch_count; i++) {
        if (group.launches[i].comm == launch->comm && group.launches[i].stream == launch->stream) {
            group.launches[i].last = launch->last;
            return;
        }
    }
    if (group.launch_count < LAUNCHES_MAX) {
        group.launches[group.launch_count++] = *launch;
    } else {
        guest_lane_launch(launch->comm, launch->first, launch->last, 0);
    }
}

static void launch(struct guest_nccl_turn *turn, void *stream, uint64_t times)
{
    const struct ddprove_guest_call *call = turn->call;

    turn->launch = (struct guest_nccl_launch){
        .comm = call->comm, .stream = stream, .first = call->seq + 1 - times, .last = call->seq};
    if (turn->is_grouped) {
        gather(&turn->launch);
    } else {
        /* NCCL may wait here: for the first call ranks connect, and a queue may be full. */
        guest_nccl_launch_begin(&turn->launch);
        ddprove_guest_call_wait_begin(call);
    }
}

static void enter(struct guest_nccl_turn *turn, struct ddprove_guest_call *call)
{
    turn->is_shown = guest_nccl_enter() && call->comm != 0;
    turn->is_grouped = group.depth > 0;
    turn->call = call;
}

int guest_nccl_begin(struct guest_nccl_turn *turn, struct ddprove_guest_call *call, void *stream,
                     int can_hold)
{
    int times = 1;

    enter(turn, call);
    if (!turn->is_shown) {
        return 1;
    }
    times = guest_call_post(call, can_hold);
    if (times <= 0 || call->seq == 0) {
        turn->is_shown = 0;
        return times;
    }
    launch(turn, stream, (uint64_t)times);
    return times;
}

void guest_nccl_begin_held(struct guest_nccl_turn *turn, struct ddprove_guest_call *call,
                           void *stream)
{
    enter(turn, call);
    if (turn->is_shown) {
        guest_call_show(call);
        turn->is_shown = call->seq != 0;
    }
    if (turn->is_shown) {
        launch(turn, stream, 1);
    }
}

int guest_nccl_end(struct guest_nccl_turn *turn, int result)
{
    guest_nccl_leave();
    if (turn->is_shown && turn->is_grouped && result != GUEST_NCCL_SUCCESS &&
        result != GUEST_NCCL_IN_PROGRESS) {
        /* The program may never come to the group's end, which would say so too. */
        guest_lane_launch(turn->launch.comm, turn->launch.first, turn->launch.last,
                          GUEST_LAUNCH_FAILED);
    } else if (turn->is_shown && !turn->is_grouped) {
        ddprove_guest_call_wait_end(turn->call);
        guest_nccl_launch_end(&turn->launch, result);
    }
    return result;
}

void guest_nccl_born(struct guest_nccl_birth *birth, int result)
{
    if (group.depth > 0 && group.birth_count < BIRTHS_MAX && result == GUEST_NCCL_SUCCESS) {
        group.births[group.birth_count++] = *birth;
    } else {
        if (group.depth > 0 && result == GUEST_NCCL_SUCCESS && birth->parent != NULL) {
            guest_comm_lost(); /* it is there at the group's end only */
        }
        birth->end(birth, result);
    }
}

/* Counted whoever watches: the first communicator may be made in a group, and only that shows the
 * process. */
int ncclGroupStart(void)
{
    const int is_program = !guest_nccl_is_inside();
    int result;

    (void)guest_nccl_enter();
    result = guest_nccl()->GroupStart();
    guest_nccl_leave();
    group.depth += is_program && result == GUEST_NCCL_SUCCESS;
    return result;
}

/* The first of its calls stands for the group: the thread may wait for all of them. Not one of a
 * communicator that is watched no more, as this process drives several of its ranks. */
static struct ddprove_guest_call first_call(void)
{
    struct ddprove_guest_call call = {.size_bytes = sizeof call};
    struct guest_page *page = guest_self_page();

    for (uint32_t i = 0; page != NULL && i < group.birth_count; i++) {
        if (guest_comm_of(page, group.births[i].call.comm) != NULL) {
            return group.births[i].call;
        }
    }
    if (group.birth_count == 0 && group.launch_count > 0) {
        call.comm = group.launches[0].comm;
        call.seq = group.launches[0].last;
    }
    return call;
}

static void launch_all(void)
{
    for (uint32_t i = 0; i < group.launch_count; i++) {
        guest_nccl_launch_begin(&group.launches[i]);
    }
}

static void end_all(int result)
{
    for (uint32_t i = 0; i < group.launch_count; i++) {
        guest_nccl_launch_end(&group.launches[i], result);
    }
    for (uint32_t i = 0; i < group.birth_count; i++) {
        group.births[i].end(&group.births[i], result);
    }
    group.launch_count = 0;
    group.birth_count = 0;
}

int ncclGroupEnd(void)
{
    const int is_program = !guest_nccl_is_inside();
    const int is_outermost = guest_nccl_enter() && group.depth == 1;
    const struct ddprove_guest_call call = first_call();
    int result;

    group.depth -= is_program && group.depth > 0;
    if (is_outermost) {
        launch_all();
        ddprove_guest_call_wait_begin(&call);
    }
    result = guest_nccl()->GroupEnd();
    if (is_outermost) {
        ddprove_guest_call_wait_end(&call);
        end_all(result);
    }
    guest_nccl_leave();
    return result;
}

/* Ends a group of which nothing is given to the device. */
int ncclGroupSimulateEnd(void *info)
{
    const int is_program = !guest_nccl_is_inside();
    int is_shown;
    int result;

    if (guest_nccl()->GroupSimulateEnd == NULL) {
        return GUEST_NCCL_INVALID_USAGE;
    }
    is_shown = guest_nccl_enter();
    result = guest_nccl()->GroupSimulateEnd(info);
    if (is_shown && group.depth == 1) {
        for (uint32_t i = 0; i < group.launch_count; i++) {
            guest_nccl_comm_unshow(group.launches[i].comm);
        }
        group.launch_count = 0;
        end_all(result);
    }
    group.depth -= is_program && group.depth > 0;
    guest_nccl_leave();
    return result;
}
