ddprove_add_unit(NAME guest THREADS SOURCES guest/results.c guest/test_guest.c guest/test_project.c
    guest/test_results.c LIBS harness_watch harness_guest)

# What judging results costs: bench_results [RANKS [ROUNDS]].
if(NOT DDPROVE_SANITIZE AND NOT DDPROVE_COVERAGE)
    add_executable(bench_results "${PROJECT_SOURCE_DIR}/tests/bench/bench_results.c")
    target_link_libraries(bench_results PRIVATE harness_watch harness_guest)
endif()
