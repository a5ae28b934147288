# Libraries of others. Required ones become targets ddp_dep_<name>; optional ones set
# DDPROVE_HAVE_<NAME>. OpenBLAS is loaded at run time and is not looked for here.

find_package(PkgConfig REQUIRED)
find_package(Threads REQUIRED)

# ddp_dep_<name> from a pkg-config module.
function(ddprove_require_module name module debian_package)
    pkg_check_modules(ddp_pc_${name} QUIET IMPORTED_TARGET ${module})
    if(NOT ddp_pc_${name}_FOUND)
        message(FATAL_ERROR "${module} was not found; on Debian: apt install ${debian_package}")
    endif()
    add_library(ddp_dep_${name} INTERFACE)
    if(DDPROVE_STATIC_DEPS)
        list(GET ddp_pc_${name}_STATIC_LIBRARIES 0 library)
        find_library(DDPROVE_STATIC_${name} NAMES lib${library}.a HINTS ${ddp_pc_${name}_LIBDIR}
            REQUIRED)
        target_include_directories(ddp_dep_${name} SYSTEM INTERFACE ${ddp_pc_${name}_INCLUDE_DIRS})
        target_link_libraries(ddp_dep_${name} INTERFACE "${DDPROVE_STATIC_${name}}" Threads::Threads)
    else()
        target_link_libraries(ddp_dep_${name} INTERFACE PkgConfig::ddp_pc_${name})
    endif()
    set_property(GLOBAL APPEND PROPERTY DDPROVE_SUMMARY "${name} ${ddp_pc_${name}_VERSION}")
endfunction()

ddprove_require_module(fyaml libfyaml libfyaml-dev)
ddprove_require_module(jansson jansson libjansson-dev)
ddprove_require_module(xxhash libxxhash libxxhash-dev)
if(DDPROVE_STATIC_DEPS)
    # libfyaml.a holds another copy of xxHash under the same names; a linker takes one.
    set_target_properties(ddp_dep_xxhash PROPERTIES INTERFACE_LINK_LIBRARIES ""
        INTERFACE_COMPILE_DEFINITIONS XXH_INLINE_ALL)
endif()

find_path(DDPROVE_FIU_INCLUDE fiu-control.h)
if(DDPROVE_STATIC_DEPS)
    find_library(DDPROVE_FIU_LIBRARY libfiu.a)
else()
    find_library(DDPROVE_FIU_LIBRARY fiu)
endif()
if(NOT DDPROVE_FIU_INCLUDE OR NOT DDPROVE_FIU_LIBRARY)
    message(FATAL_ERROR "libfiu was not found; on Debian: apt install libfiu-dev")
endif()
add_library(ddp_dep_fiu INTERFACE)
target_include_directories(ddp_dep_fiu SYSTEM INTERFACE "${DDPROVE_FIU_INCLUDE}")
target_link_libraries(ddp_dep_fiu INTERFACE "${DDPROVE_FIU_LIBRARY}" ${CMAKE_DL_LIBS})
set_property(GLOBAL APPEND PROPERTY DDPROVE_SUMMARY "fiu ${DDPROVE_FIU_LIBRARY}")

# Record whether an optional dependency is in: ON and absent is an error, AUTO decides.
function(ddprove_optional name is_found detail)
    set(have OFF)
    if(DDPROVE_WITH_${name} STREQUAL "OFF")
        set(detail "switched off")
    elseif(is_found)
        set(have ON)
    elseif(DDPROVE_WITH_${name} STREQUAL "ON")
        message(FATAL_ERROR "DDPROVE_WITH_${name}=ON, but ${name} was not found")
    else()
        set(detail "not found")
    endif()
    set(DDPROVE_HAVE_${name} ${have} PARENT_SCOPE)
    set_property(GLOBAL APPEND PROPERTY DDPROVE_SUMMARY "${name} ${have} (${detail})")
endfunction()

if(NOT DDPROVE_WITH_CUDA STREQUAL "OFF")
    find_package(CUDAToolkit QUIET)
endif()
ddprove_optional(CUDA "${CUDAToolkit_FOUND}" "toolkit ${CUDAToolkit_VERSION}")

# DDPROVE_CUDA_DEVICE: kernels are compiled. Not in instrumented builds: nvcc's host code would have
# to be instrumented by the same compiler, and no kernel would be.
set(DDPROVE_CUDA_DEVICE OFF)
if(DDPROVE_HAVE_CUDA AND NOT DDPROVE_SANITIZE AND NOT DDPROVE_COVERAGE AND NOT DDPROVE_FUZZ)
    if(NOT CMAKE_CUDA_COMPILER AND NOT DEFINED ENV{CUDACXX})
        set(ENV{CUDACXX} "${CUDAToolkit_NVCC_EXECUTABLE}")
    endif()
    include(CheckLanguage)
    check_language(CUDA)
    if(CMAKE_CUDA_COMPILER)
        enable_language(CUDA)
        set(DDPROVE_CUDA_DEVICE ON)
    elseif(DDPROVE_WITH_CUDA STREQUAL "ON")
        message(FATAL_ERROR "DDPROVE_WITH_CUDA=ON, but ${CUDAToolkit_NVCC_EXECUTABLE} does not "
            "compile; see CMakeFiles/CMakeError.log")
    endif()
endif()
set_property(GLOBAL APPEND PROPERTY DDPROVE_SUMMARY
    "CUDA device ${DDPROVE_CUDA_DEVICE} (${CMAKE_CUDA_COMPILER} ${CMAKE_CUDA_COMPILER_VERSION})")

if(NOT DDPROVE_WITH_NCCL STREQUAL "OFF")
    find_path(DDPROVE_NCCL_INCLUDE nccl.h HINTS ${CUDAToolkit_INCLUDE_DIRS})
endif()
ddprove_optional(NCCL "${DDPROVE_NCCL_INCLUDE}" "${DDPROVE_NCCL_INCLUDE}")

if(NOT DDPROVE_WITH_MPI STREQUAL "OFF")
    find_package(MPI QUIET COMPONENTS C)
endif()
ddprove_optional(MPI "${MPI_C_FOUND}" "MPI ${MPI_C_VERSION}")

# Not where others are linked statically: libzip needs libraries for compression and encryption.
if(NOT DDPROVE_WITH_ZIP STREQUAL "OFF" AND NOT DDPROVE_STATIC_DEPS)
    pkg_check_modules(ddp_pc_zip QUIET IMPORTED_TARGET libzip)
endif()
ddprove_optional(ZIP "${ddp_pc_zip_FOUND}" "libzip ${ddp_pc_zip_VERSION}")
if(DDPROVE_HAVE_ZIP)
    add_library(ddp_dep_zip INTERFACE)
    target_link_libraries(ddp_dep_zip INTERFACE PkgConfig::ddp_pc_zip)
endif()

if(DDPROVE_BUILD_TESTS)
    enable_language(CXX)
    find_package(GTest REQUIRED)
endif()

function(ddprove_print_summary)
    get_property(lines GLOBAL PROPERTY DDPROVE_SUMMARY)
    message(STATUS "ddprove ${PROJECT_VERSION}, ${CMAKE_BUILD_TYPE}, sanitize: "
        "${DDPROVE_SANITIZE}, tests: ${DDPROVE_BUILD_TESTS}")
    foreach(line IN LISTS lines)
        message(STATUS "  ${line}")
    endforeach()
endfunction()
