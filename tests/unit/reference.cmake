add_executable(bench_reference bench/bench_reference.c)
target_link_libraries(bench_reference PRIVATE ref)
