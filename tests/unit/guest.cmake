ddprove_add_unit(NAME guest THREADS SOURCES guest/results.c guest/test_guest.c guest/test_moved.c guest/test_project.c
    guest/test_results.c LIBS harness_results harness_guest)

# What being watched and judged costs: bench_guest [RANKS...], which runs the others.
if(NOT DDPROVE_SANITIZE AND NOT DDPROVE_COVERAGE AND TARGET ddprove_guest)
    set(bench_dir "${PROJECT_SOURCE_DIR}/tests/bench")
    add_executable(bench_guest "${bench_dir}/bench_guest.c")
    target_link_libraries(bench_guest PRIVATE ddprove::guest ddp_base)
    add_executable(guest_cost_sockets "${bench_dir}/guest_cost_sockets.c" "${bench_dir}/guest_cost.c")
    target_link_libraries(guest_cost_sockets PRIVATE ddprove::guest ref)
    add_dependencies(bench_guest guest_cost_sockets)
    if(TARGET ddprove_guest_mpi)
        add_executable(guest_cost_mpi "${bench_dir}/guest_cost_mpi.c" "${bench_dir}/guest_cost.c")
        target_include_directories(guest_cost_mpi SYSTEM PRIVATE ${MPI_C_INCLUDE_DIRS})
        target_link_libraries(guest_cost_mpi PRIVATE ${MPI_C_LIBRARIES} ref)
        add_dependencies(bench_guest guest_cost_mpi ddprove_guest_mpi)
    endif()
endif()
