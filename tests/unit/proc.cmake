# Real processes. The ranks are started from a small program that is nothing but a rank.
if(TARGET harness_proc)
    add_executable(proc_rank "${PROJECT_SOURCE_DIR}/tests/unit/proc/proc_rank.c")
    target_link_libraries(proc_rank PRIVATE harness_proc)
endif()
ddprove_add_unit(NAME proc
    SOURCES proc/test_proc.c proc/test_lag.c proc/test_proc_launcher.c proc/test_proc_mpirun.c
        proc/test_proc_guard_events.c proc/test_proc_linger.c proc/proc_job.c proc/proc_load.c
        proc/proc_tree.c sim/sim_job.c
    LIBS harness_sim harness_proc)
if(TARGET unit_proc)
    target_compile_definitions(unit_proc PRIVATE PROC_RANK_PATH="$<TARGET_FILE:proc_rank>")
    add_dependencies(unit_proc proc_rank)
endif()
# The job's memory between threads, under ThreadSanitizer.
ddprove_add_unit(NAME proc_threads SHARED SOURCES proc/test_proc_threads.c monitor/monitor_cut.c
    LIBS harness_sim harness_proc)

# How soon a culprit is named: bench_detect [RANK_PROGRAM [RUNS]].
if(TARGET proc_rank)
    add_executable(bench_detect "${PROJECT_SOURCE_DIR}/tests/bench/bench_detect.c")
    target_link_libraries(bench_detect PRIVATE harness_proc harness_scenario)
    target_compile_definitions(bench_detect PRIVATE BENCH_RANK_PATH="$<TARGET_FILE:proc_rank>")
    add_dependencies(bench_detect proc_rank)
endif()
