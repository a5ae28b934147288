# cmake --install: the program, and ddpcore as one static library with its public headers, a CMake package
# (targets ddprove::ddpcore, ddprove::ddpcore_cuda and ddprove::guest_ddpcore, function ddprove_add_scenarios)
# and files for pkg-config (ddpcore, ddpcore_cuda, ddprove_ddpcore).

set(package_layers base seam device store transport schedule collective nccl mpi ddp hook checkpoint world)
set(package_objects "")
foreach(layer IN LISTS package_layers)
    if(NOT TARGET ddp_${layer})
        message(STATUS "no package: ddpcore/${layer} is not configured")
        return()
    endif()
    list(APPEND package_objects $<TARGET_OBJECTS:ddp_${layer}>)
endforeach()

# Public headers. The others are shared by the files of one folder only.
set(package_headers
    base/clock.h base/dtype.h base/file.h base/hash.h base/idle.h base/mem.h base/param.h
    base/prng.h base/status.h base/text.h
    seam/access.h seam/env.h seam/event.def seam/fault_point.def seam/fault_point.h seam/link.h seam/option.h
    seam/phase.h
    seam/progress.h seam/links.h seam/recorder.h
    device/device.h device/layers.h device/math.h device/transfer.h
    cuda/cuda.h
    store/store.h
    transport/shm.h transport/tcp.h transport/transport.h
    schedule/algorithm.def schedule/algorithm.h schedule/schedule.h
    collective/collective.h collective/tuned.h
    mpi/mpi.h nccl/nccl.h
    ddp/average.h ddp/batch_norm.h ddp/clip.h ddp/ddp.h ddp/drift.h ddp/group.h ddp/hook.h ddp/loader.h ddp/logging.h ddp/permutation.h ddp/sampler.h ddp/scaler.h
    hook/hooks.h
    checkpoint/safetensors.h checkpoint/state_dict.h
    world/state.h world/subgroup.h world/survivors.h world/world.h)

include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

add_library(ddpcore STATIC ${package_objects})
set_target_properties(ddpcore PROPERTIES LINKER_LANGUAGE C)

set(package_dir "${CMAKE_INSTALL_LIBDIR}/cmake/ddprove")
configure_package_config_file(ci/cmake/ddproveConfig.cmake.in
    "${CMAKE_BINARY_DIR}/package/ddproveConfig.cmake" INSTALL_DESTINATION "${package_dir}"
    PATH_VARS CMAKE_INSTALL_BINDIR CMAKE_INSTALL_LIBDIR CMAKE_INSTALL_INCLUDEDIR)
write_basic_package_version_file("${CMAKE_BINARY_DIR}/package/ddproveConfigVersion.cmake"
    COMPATIBILITY SameMinorVersion)

# The CUDA device is an archive of its own, so that who has no use for it needs no CUDA runtime.
set_target_properties(ddp_cuda PROPERTIES OUTPUT_NAME ddpcore_cuda)
install(TARGETS ddpcore ddp_cuda ARCHIVE DESTINATION "${CMAKE_INSTALL_LIBDIR}")
foreach(header IN LISTS package_headers)
    get_filename_component(folder "${header}" DIRECTORY)
    install(FILES "ddpcore/${header}" DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}/ddpcore/${folder}")
endforeach()
install(FILES "${CMAKE_BINARY_DIR}/package/ddproveConfig.cmake"
    "${CMAKE_BINARY_DIR}/package/ddproveConfigVersion.cmake" ci/cmake/ddprove_scenarios.cmake
    ci/cmake/ddprove_write_tests.cmake
    DESTINATION "${package_dir}")

# How a trainer on ddpcore shows itself to `ddprove exec`, and an example of one.
if(TARGET ddprove_ddpcore)
    install(TARGETS ddprove_ddpcore ARCHIVE DESTINATION "${CMAKE_INSTALL_LIBDIR}")
    install(FILES harness/guest/ddpcore/ddprove_ddpcore.h DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}")
    install(FILES harness/guest/example/core_trainer.c harness/guest/example/core_model.c
        harness/guest/example/core_model.h DESTINATION "${CMAKE_INSTALL_DOCDIR}/examples")
endif()

# For pkg-config, wherever the prefix is moved to.
file(RELATIVE_PATH package_include "/${CMAKE_INSTALL_LIBDIR}/pkgconfig" "/${CMAKE_INSTALL_INCLUDEDIR}")
set(package_cudart "")
if(DDPROVE_CUDA_DEVICE)
    set(package_cudart "-L${CUDAToolkit_LIBRARY_DIR} -lcudart_static -lrt -ldl -lpthread")
endif()
foreach(name IN ITEMS ddpcore ddpcore_cuda ddprove_ddpcore)
    configure_file("ci/cmake/${name}.pc.in" "${CMAKE_BINARY_DIR}/package/${name}.pc" @ONLY)
    install(FILES "${CMAKE_BINARY_DIR}/package/${name}.pc"
        DESTINATION "${CMAKE_INSTALL_LIBDIR}/pkgconfig")
endforeach()
