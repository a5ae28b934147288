# Options, build types and the flags that every target gets (interface target ddp_flags).

# Off: a compiler newer than those of CI knows warnings that this code was never held to.
option(DDPROVE_WERROR "Treat compiler warnings as errors; CI does" OFF)
option(DDPROVE_BUILD_TESTS "Build the tests (needs GoogleTest and a C++ compiler)" ON)
option(DDPROVE_COVERAGE "Instrument for gcov" OFF)
option(DDPROVE_STATIC_DEPS "Link YAML, JSON, hashes, libfiu and GoogleTest statically, for machines
without them" OFF)
option(DDPROVE_FUZZ "Build the fuzz targets (needs clang and its libFuzzer)" OFF)
set(DDPROVE_SANITIZE "" CACHE STRING "Sanitizers: empty, address;undefined or thread")
set(CMAKE_CUDA_ARCHITECTURES 80 90 CACHE STRING "Compute capabilities to build kernels for")
set(DDPROVE_FOLDERS "" CACHE STRING "Configure only these folders, e.g. ddpcore/base;ddpcore/seam")
foreach(dep IN ITEMS CUDA NCCL MPI ZIP)
    set(DDPROVE_WITH_${dep} AUTO CACHE STRING "Use ${dep}: AUTO, ON or OFF")
    set_property(CACHE DDPROVE_WITH_${dep} PROPERTY STRINGS AUTO ON OFF)
    if(NOT DDPROVE_WITH_${dep} MATCHES "^(AUTO|ON|OFF)$")
        message(FATAL_ERROR "DDPROVE_WITH_${dep} is AUTO, ON or OFF, not ${DDPROVE_WITH_${dep}}")
    endif()
endforeach()

set(CMAKE_C_STANDARD 17)
set(CMAKE_C_STANDARD_REQUIRED ON)
set(CMAKE_C_EXTENSIONS OFF)
set(CMAKE_CXX_STANDARD 17)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_CUDA_STANDARD 17)
set(CMAKE_CUDA_STANDARD_REQUIRED ON)
set(CMAKE_CUDA_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
set(THREADS_PREFER_PTHREAD_FLAG ON)

if(NOT CMAKE_BUILD_TYPE)
    set(CMAKE_BUILD_TYPE Release CACHE STRING "Build type" FORCE)
endif()
# DDP_ASSERT stays on in every build, so NDEBUG is never defined.
# Sanitized code takes long to compile and hardly gains by being fast; its reports need lines, not
# variables.
set(ddp_dev_flags "-O2 -g")
if(DDPROVE_SANITIZE)
    set(ddp_dev_flags "-Og -g1")
endif()
foreach(lang IN ITEMS C CXX CUDA)
    set(CMAKE_${lang}_FLAGS_RELEASE "-O3 -g")
    set(CMAKE_${lang}_FLAGS_RELWITHDEBINFO "${ddp_dev_flags}")
    set(CMAKE_${lang}_FLAGS_DEBUG "-O0 -g3")
endforeach()
set(CMAKE_CUDA_FLAGS_DEBUG "-O0 -g")

add_library(ddp_flags INTERFACE)
target_include_directories(ddp_flags INTERFACE "${PROJECT_SOURCE_DIR}")
target_compile_definitions(ddp_flags INTERFACE _GNU_SOURCE)

set(ddp_warnings -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wsign-conversion
    -Wdouble-promotion -Wcast-qual -Wwrite-strings -Wundef -Wvla -Wformat=2 -Wnull-dereference)
set(ddp_warnings_c ${ddp_warnings} -Wstrict-prototypes -Wmissing-prototypes)
# What nvcc generates and its headers do not pass these two.
set(ddp_warnings_cuda ${ddp_warnings})
list(REMOVE_ITEM ddp_warnings_cuda -Wpedantic -Wundef)
set(ddp_flags_cuda --fmad=false)
if(DDPROVE_WERROR)
    list(APPEND ddp_warnings_c -Werror)
    list(APPEND ddp_warnings -Werror)
    list(APPEND ddp_warnings_cuda -Werror)
    list(APPEND ddp_flags_cuda --Werror=all-warnings)
endif()
# No exceptions, no type information, no guards: so C programs link kernels without a C++ runtime.
list(APPEND ddp_warnings_cuda -ffp-contract=off -fno-exceptions -fno-rtti -fno-threadsafe-statics)
list(JOIN ddp_warnings_cuda "," ddp_host_flags_cuda)
# -ffp-contract=off, --fmad=false: a fused multiply-add rounds once where the reference rounds twice.
target_compile_options(ddp_flags INTERFACE
    "$<$<COMPILE_LANGUAGE:C>:${ddp_warnings_c};-ffp-contract=off>"
    "$<$<COMPILE_LANGUAGE:CXX>:${ddp_warnings};-ffp-contract=off>"
    "$<$<COMPILE_LANGUAGE:CUDA>:${ddp_flags_cuda};-Xcompiler=${ddp_host_flags_cuda}>")

if(DDPROVE_SANITIZE)
    string(REPLACE ";" "," sanitizers "${DDPROVE_SANITIZE}")
    set(ddp_sanitize_flags -fsanitize=${sanitizers} -fno-omit-frame-pointer)
    if(DDPROVE_SANITIZE MATCHES "undefined")
        list(APPEND ddp_sanitize_flags -fno-sanitize-recover=undefined)
    endif()
    if(DDPROVE_SANITIZE STREQUAL "thread")
        # A copy that the compiler expands in place is not instrumented: races with it go unseen.
        list(APPEND ddp_sanitize_flags -fno-builtin-memcpy -fno-builtin-memset)
    endif()
    # -Wnull-dereference misfires on instrumented code.
    target_compile_options(ddp_flags INTERFACE
        "$<$<COMPILE_LANGUAGE:C,CXX>:${ddp_sanitize_flags};-Wno-null-dereference>")
    target_link_options(ddp_flags INTERFACE ${ddp_sanitize_flags})
endif()

if(DDPROVE_STATIC_DEPS)
    # C++ programs take libstdc++ and libgcc_s as they find them, as NCCL does: inside a program they
    # would need this machine's glibc (arc4random).
    target_link_options(ddp_flags INTERFACE "$<$<LINK_LANGUAGE:C>:-static-libgcc>")
endif()

if(DDPROVE_FUZZ)
    target_compile_options(ddp_flags INTERFACE -fsanitize=fuzzer-no-link)
endif()

if(DDPROVE_COVERAGE)
    target_compile_options(ddp_flags INTERFACE "$<$<COMPILE_LANGUAGE:C,CXX>:--coverage>")
    target_link_options(ddp_flags INTERFACE --coverage)
endif()
