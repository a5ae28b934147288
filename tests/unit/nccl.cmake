# NCCL's adapter on the stand-in in turns; aborts run in threads of their own. Included where the
# stand-in is defined.
add_library(nccl_turns OBJECT "${CMAKE_CURRENT_LIST_DIR}/nccl/nccl_turns.c"
    "${CMAKE_CURRENT_LIST_DIR}/nccl/nccl_device.c" "${CMAKE_CURRENT_LIST_DIR}/nccl/nccl_world.c")
target_link_libraries(nccl_turns PUBLIC ddp_nccl ddp_collective ddp_transport ddp_device
    ddp_nccl_standin harness_task)
target_compile_definitions(nccl_turns PRIVATE NCCL_STANDIN="$<TARGET_FILE:ddp_nccl_standin>")
ddprove_add_unit(NAME probe_nccl THREADS
    SOURCES rank/test_probe_nccl.c rank/probe_sums.c
    LIBS harness_sim harness_proc harness_oracle nccl_turns)
ddprove_add_unit(NAME happens_before_core
    SOURCES order/test_happens_before_core.c
    LIBS harness_oracle ddp_ddp nccl_turns)
ddprove_add_unit(NAME nccl THREADS
    SOURCES nccl/nccl_bench.c nccl/test_nccl_coll.c nccl/test_nccl_comm.c nccl/test_nccl_failure.c
        nccl/test_nccl_group.c nccl/test_nccl_library.c nccl/test_nccl_plan.c nccl/test_nccl_shrink.c
    LIBS nccl_turns)
if(NOT TARGET unit_nccl)
    return()
endif()

foreach(part IN ITEMS OLD PARTIAL EMPTY)
    string(TOLOWER "nccl_${part}" name)
    add_library(${name} MODULE "${CMAKE_CURRENT_LIST_DIR}/nccl/nccl_part.c")
    target_compile_definitions(unit_nccl PRIVATE NCCL_${part}_PATH="$<TARGET_FILE:${name}>")
    add_dependencies(unit_nccl ${name})
endforeach()
target_compile_definitions(nccl_old PRIVATE VERSION=21806)
target_compile_definitions(nccl_partial PRIVATE VERSION=22809)

if(DDPROVE_HAVE_NCCL AND DDPROVE_HAVE_CUDA)
    # Compiling it is the test.
    add_library(nccl_abi_check OBJECT "${CMAKE_CURRENT_LIST_DIR}/nccl/nccl_abi_check.c")
    target_include_directories(nccl_abi_check SYSTEM PRIVATE
        "${DDPROVE_NCCL_INCLUDE}" ${CUDAToolkit_INCLUDE_DIRS})
    target_link_libraries(nccl_abi_check PRIVATE ddp_nccl ddp_collective)
    add_dependencies(unit_nccl nccl_abi_check)
endif()

# The real library, which loads without a GPU. A sanitizer's allocator and fiu-run's preload do not
# go together.
add_executable(nccl_real "${CMAKE_CURRENT_LIST_DIR}/nccl/nccl_real.c")
target_link_libraries(nccl_real PRIVATE ddp_nccl ddp_collective)
find_program(DDPROVE_FIU_RUN fiu-run)
if(NOT DDPROVE_SANITIZE)
    add_test(NAME nccl_real.id COMMAND nccl_real id)
    set_tests_properties(nccl_real.id PROPERTIES PASS_REGULAR_EXPRESSION "\nOK: ")
    add_test(NAME nccl_real.init_without_a_device COMMAND nccl_real init)
    set_tests_properties(nccl_real.init_without_a_device PROPERTIES
        PASS_REGULAR_EXPRESSION "\nDEVICE: ncclCommInitRankConfig: .*[Cc]uda failure")
    set(without_sockets sh -c "echo there is no fiu-run here; exit 77")
    if(DDPROVE_FIU_RUN)
        set(without_sockets "${DDPROVE_FIU_RUN}" -x -c "enable name=posix/io/net/socket"
            $<TARGET_FILE:nccl_real> id)
    endif()
    add_test(NAME nccl_real.id_without_sockets COMMAND ${without_sockets})
    set_tests_properties(nccl_real.id_without_sockets PROPERTIES
        PASS_REGULAR_EXPRESSION "\nSYSTEM: ncclGetUniqueId: ")
    set_tests_properties(nccl_real.id nccl_real.init_without_a_device nccl_real.id_without_sockets
        PROPERTIES LABELS unit TIMEOUT ${unit_timeout_s} SKIP_RETURN_CODE 77)
endif()
