#!/bin/sh
# Follows CONTRIBUTING's recipes for an all-reduce algorithm, a key of the job and a fault action to
# the letter, in a copy of the tree: three files each. Then the algorithm must be listed, proven by
# the unit test, checked by the benchmark and run bit-exact in a scenario; campaigns must draw the
# key; and the scenario with the action must pass.
# usage: recipes.sh SOURCE_DIR WORK_DIR CMAKE GENERATOR C_COMPILER CXX_COMPILER [LAUNCHER]
set -eu
source_dir=$1
work_dir=$2
cmake=$3
generator=$4
c_compiler=$5
cxx_compiler=$6
launcher=${7-}

skip() {
    echo "skipped: $1"
    exit 77
}

fail() {
    echo "$1"
    exit 1
}

[ -w "$(dirname "$work_dir")" ] || skip "$(dirname "$work_dir") cannot be written"
"$cmake" --version >/dev/null 2>&1 || skip "there is no cmake"
rm -rf "$work_dir"
mkdir "$work_dir"
for part in CMakeLists.txt CMakePresets.json ci ddpcore harness reference scenarios tests; do
    cp -r "$source_dir/$part" "$work_dir/" || skip "$source_dir/$part cannot be copied"
done
cd "$work_dir"

# An algorithm. 1. Its own file, with one pure emit function.
cat >ddpcore/schedule/relay.c <<'END'
/* Relay all-reduce: the last rank gives its data to the one before, which adds its own and passes
 * the sum on; from rank 0 the result comes back the same way. Segments follow each other. */
#include "ddpcore/schedule/emit.h"

static void emit_segment(struct ddp_schedule *schedule, struct ddp_part part)
{
    const struct ddp_schedule_params *params = &schedule->params;
    struct ddp_range output = ddp_emit_range(DDP_BUFFER_OUTPUT, part);
    uint32_t below = params->size - 1 - params->rank; /* ranks that give before this one */
    uint32_t dep[2] = {DDP_STEP_NONE, DDP_STEP_NONE};

    if (!params->is_in_place) {
        dep[0] = ddp_emit_copy(schedule, 0, output, ddp_emit_range(DDP_BUFFER_INPUT, part), dep);
    }
    if (params->rank + 1 < params->size) {
        dep[0] = ddp_emit_recv(schedule, DDP_STEP_RECV_REDUCE, below - 1, params->rank + 1, output,
                               dep);
    }
    if (params->rank > 0) {
        dep[1] = ddp_emit_send(schedule, below, params->rank - 1, output, dep);
        dep[0] = ddp_emit_recv(schedule, DDP_STEP_RECV, params->size - 1 + params->rank - 1,
                               params->rank - 1, output, dep);
        dep[1] = DDP_STEP_NONE;
    }
    if (params->rank + 1 < params->size) {
        (void)ddp_emit_send(schedule, params->size - 1 + params->rank, params->rank + 1, output,
                            dep);
    }
}

void ddp_emit_relay(struct ddp_schedule *schedule)
{
    const struct ddp_schedule_params *params = &schedule->params;
    const struct ddp_part whole = {0, params->elem_count};
    size_t segment_count = ddp_emit_segment_count(params->elem_count, params->segment_elem_count);

    for (size_t i = 0; i < segment_count; i++) {
        emit_segment(schedule, ddp_emit_segment(whole, params->segment_elem_count, i));
    }
}
END

# 2. Its row in the table.
cat >>ddpcore/schedule/algorithm.def <<'END'
X(RELAY, ALL_REDUCE, "relay", ddp_emit_relay, 1 << 20,
  "from the last rank to rank 0 and back, each adding its own")
END

# 3. Its line among the folder's sources.
sed -i 's/^    recursive_doubling\.c$/&\n    relay.c/' ddpcore/schedule/CMakeLists.txt
grep -q '^    relay\.c$' ddpcore/schedule/CMakeLists.txt ||
    fail "the list of sources has no recursive_doubling.c"

# put FILE BEFORE: a block of lines from standard input, before the only line that begins so.
put() {
    [ "$(grep -c "^$2" "$1")" = 1 ] || fail "$1 has not one line that begins with $2"
    block=$(cat)
    awk -v before="$2" -v block="$block" 'index($0, before) == 1 { print block } { print }' "$1" >put.tmp
    cat put.tmp >"$1"
    rm put.tmp
}

# A key of the job. 1. Its row.
put harness/plan/key.def 'JOB(checkpoint_every, ' <<'END'
JOB(zero_after, bool, zeroes_after, BOOL, NONE, 0, 0, "false", "gradients are zeroed after a step as well as before")
END
# 2. The code that uses it.
put harness/rank/step.c '    session->steps_done = step + 1;' <<'END'
    if (session->plan->job.zeroes_after) {
        ref_model_zero_grad(session->model);
    }
END

# A fault action. 1. Its row. 2. Its case.
put harness/plan/key.def 'ACTION_PLAIN(HANG, ' <<'END'
ACTION_PLAIN(SEGFAULT, "", ANYWHERE, segfault, "what a write to address 0 does")
END
put harness/inject/action.c '    case HARNESS_ACTION_DELAY:' <<'END'
    case HARNESS_ACTION_SEGFAULT:
        victim->kill(victim->context, SIGSEGV);
        break;
END

# 3. The scenario of both.
cat >scenarios/crash/recipe.yaml <<'END'
# A write to address 0 ends a rank.
id: crash.recipe
job: {ranks: 3, steps: 3, model: mlp, batch_per_rank: 4, zero_after: true}
faults: [{at: {rank: 1, step: 1}, point: backward/grad_ready, do: {segfault: true}}]
expect: {verdict: CRASH.SIGNALED, culprit: injected, step: 1}
END

"$cmake" -S . -B build -G "$generator" -DCMAKE_BUILD_TYPE=Debug -DCMAKE_C_FLAGS_DEBUG=-O0 \
    -DCMAKE_CXX_FLAGS_DEBUG=-O0 -DCMAKE_C_COMPILER="$c_compiler" \
    -DCMAKE_CXX_COMPILER="$cxx_compiler" -DCMAKE_C_COMPILER_LAUNCHER="$launcher" \
    -DCMAKE_CXX_COMPILER_LAUNCHER="$launcher" -DDDPROVE_WITH_CUDA=OFF -DDDPROVE_WITH_NCCL=OFF \
    -DDDPROVE_WITH_MPI=OFF >configure.log 2>&1 || { cat configure.log; fail "cannot be configured"; }
"$cmake" --build build --target unit_coll unit_scenario bench_allreduce ddprove >build.log 2>&1 ||
    { cat build.log; fail "cannot be built"; }

build/bin/ddprove list collectives >list.log
grep -q '^all_reduce *relay ' list.log || { cat list.log; fail "it is not listed"; }

build/bin/ddprove coll check relay >check.log || { cat check.log; fail "not proven"; }
build/bin/unit_coll --gtest_filter='coll_mutants.RELAY' >unit.log || { cat unit.log; fail "a mutant lives"; }
grep -q 'OK.*coll_mutants\.RELAY' unit.log || { cat unit.log; fail "no test makes mutants of it"; }

(cd build && ctest -N) >tests.log
grep -q 'bench_allreduce_check_relay$' tests.log || fail "no benchmark checks it"
build/bin/bench_allreduce --check --ranks 3 --max 65536 --algorithm relay

for driver in sim proc; do
    build/bin/ddprove run scenarios/equivalence/mlp_w4.yaml --driver $driver --collective relay \
        --out runs/$driver >run.log || { cat run.log; fail "the scenario fails on $driver"; }
    grep -q '^PASS ' run.log || { cat run.log; fail "the scenario does not pass on $driver"; }
    grep -rq 'algorithm=relay' runs/$driver || fail "the scenario on $driver ran another algorithm"
done

build/bin/unit_scenario --gtest_filter='keys.*' >keys.log || { cat keys.log; fail "keys"; }
build/bin/ddprove run scenarios/crash/recipe.yaml --out runs/recipe >run.log ||
    { cat run.log; fail "the scenario of key and action fails"; }
printf '# With the key.\ncampaign: recipe\ncases: 100\nodds: {job.zero_after: 100}\n' >recipe.yaml
build/bin/ddprove campaign recipe.yaml --driver sim --out runs/campaign >campaign.log ||
    { cat campaign.log; fail "the campaign with the key fails"; }
echo "an algorithm, a key and an action: three files each, proven and run on sim and proc"
rm -rf "$work_dir"
