ddprove_add_unit(NAME schedule SOURCES schedule/schedule_checker.c schedule/test_schedule.c LIBS ddp_schedule)
ddprove_add_unit(NAME collective
    SOURCES collective/coll_world.c collective/test_collective.c
        collective/test_collective_agreement.c collective/test_collective_failure.c
    LIBS ddp_collective ddp_device)
if(TARGET ddp_collective AND TARGET ddp_device)
    add_executable(bench_allreduce "${PROJECT_SOURCE_DIR}/tests/bench/bench_allreduce.c")
    target_link_libraries(bench_allreduce PRIVATE ddp_collective ddp_device)
    foreach(algorithm IN ITEMS ring recursive_doubling)
        add_test(NAME bench_allreduce_check_${algorithm}
            COMMAND bench_allreduce --check --ranks 3 --max 1048576 --algorithm ${algorithm})
        set_tests_properties(bench_allreduce_check_${algorithm} PROPERTIES
            LABELS unit TIMEOUT 60)
    endforeach()
endif()
include("${CMAKE_CURRENT_LIST_DIR}/nccl.cmake")
include("${CMAKE_CURRENT_LIST_DIR}/mpi.cmake")
