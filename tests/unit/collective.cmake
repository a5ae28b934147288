ddprove_add_unit(NAME schedule SOURCES schedule/test_schedule.c LIBS ddp_schedule)
ddprove_add_unit(NAME collective
    SOURCES collective/coll_world.c collective/test_collective.c
        collective/test_collective_agreement.c collective/test_collective_failure.c
        collective/test_cache.c collective/test_collective_kinds.c
        collective/test_mover.c
        collective/test_queue.c
    LIBS ddp_collective ddp_device)
if(TARGET ddp_collective AND TARGET ddp_device)
    add_executable(bench_allreduce "${PROJECT_SOURCE_DIR}/tests/bench/bench_allreduce.c")
    target_link_libraries(bench_allreduce PRIVATE ddp_collective ddp_device)
    # One check for each all-reduce in the table of algorithms.
    set(algorithm_table "${PROJECT_SOURCE_DIR}/ddpcore/schedule/algorithm.def")
    set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS "${algorithm_table}")
    file(STRINGS "${algorithm_table}" rows REGEX "^X\\([A-Z0-9_]+, ALL_REDUCE, ")
    list(TRANSFORM rows REPLACE "^X\\([A-Z0-9_]+, ALL_REDUCE, \"([a-z0-9_]+)\".*" "\\1"
        OUTPUT_VARIABLE algorithms)
    foreach(algorithm IN LISTS algorithms)
        add_test(NAME bench_allreduce_check_${algorithm}
            COMMAND bench_allreduce --check --ranks 3 --max 1048576 --algorithm ${algorithm})
        set_tests_properties(bench_allreduce_check_${algorithm} PROPERTIES
            LABELS unit TIMEOUT ${unit_timeout_s})
    endforeach()
endif()
include("${CMAKE_CURRENT_LIST_DIR}/mpi.cmake")
