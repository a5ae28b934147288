# ddprove_add_scenarios(<dir> [LABELS ...] [RESOURCES ...] [DRIVERS sim proc] [REQUIRE cuda mpi]
#                       [TIMEOUT s] [ARGS ...])
#
# Every *.yaml under dir becomes one test a driver, called <id>.<driver>: the file's own id, and those
# of DRIVERS (default both) that the file allows. The build asks ddprove itself (`ddprove list tests`),
# so a file that is not right fails the build. LABELS are added to "scenario" and the driver's name;
# RESOURCES are RESOURCE_GROUPS of CTest; ARGS are added to `ddprove run`. Exit 77 is a skip; with
# REQUIRE, a test that would be skipped for want of cards or MPI fails (the variable DDPROVE_REQUIRE
# does the same for all). The run folder is <binary dir>/runs/<id>.<driver>.
#
# A scenario whose job says `device: cuda` also gets the label "gpu" and, unless RESOURCES says
# otherwise, a slot of the resource "gpus" for each card that its ranks need: `ddprove list resources`
# writes the specification for `ctest --resource-spec-file`, and the cards that CTest lends are the
# ones that ranks see.
set(DDPROVE_REQUIRE "" CACHE STRING "What scenarios' tests may not be skipped for: cuda, mpi")
set(ddprove_write_tests "${CMAKE_CURRENT_LIST_DIR}/ddprove_write_tests.cmake")

function(ddprove_add_scenarios dir)
    cmake_parse_arguments(PARSE_ARGV 1 arg "" "TIMEOUT" "LABELS;RESOURCES;DRIVERS;REQUIRE;ARGS")
    if(arg_UNPARSED_ARGUMENTS)
        message(FATAL_ERROR "ddprove_add_scenarios: unknown argument: ${arg_UNPARSED_ARGUMENTS}")
    endif()
    if(NOT arg_DRIVERS)
        set(arg_DRIVERS sim proc)
    endif()
    if(NOT arg_TIMEOUT)
        set(arg_TIMEOUT 120)
    endif()
    set(required ${arg_REQUIRE} ${DDPROVE_REQUIRE})
    list(REMOVE_DUPLICATES required)
    foreach(need IN LISTS required)
        if(NOT need MATCHES "^(cuda|mpi)$")
            message(FATAL_ERROR "ddprove_add_scenarios: REQUIRE is cuda or mpi, not ${need}")
        endif()
        list(APPEND arg_ARGS --require ${need})
    endforeach()
    foreach(driver IN LISTS arg_DRIVERS)
        if(NOT driver MATCHES "^(sim|proc)$")
            message(FATAL_ERROR "ddprove_add_scenarios: DRIVERS is sim or proc, not ${driver}")
        endif()
    endforeach()
    ddprove_tests_of("${dir}" "" "")
endfunction()

# ddprove_add_guest(NAME <name> COMMAND <program> [arguments ...] SCENARIOS <dir> [RANKS n]
#                   [LAUNCHER own|mpirun|torchrun|srun|env] [ADAPTER none|mpi|nccl|torch] [LABELS ...] [RESOURCES ...] [TIMEOUT s]
#                   [ARGS ...])
#
# Every *.yaml under SCENARIOS becomes a test of this program, called <name>.<id>: it is run as
# `ddprove exec <file> -- <command>`, so the files say what goes wrong and what must be found, and not
# which program. RANKS, LAUNCHER and ADAPTER override what they say of these. The command may be a
# target's file ($<TARGET_FILE:...>); LABELS are added to "scenario", "guest" and the name.
function(ddprove_add_guest)
    cmake_parse_arguments(PARSE_ARGV 0 arg "" "NAME;SCENARIOS;RANKS;LAUNCHER;ADAPTER;TIMEOUT"
        "COMMAND;LABELS;RESOURCES;ARGS")
    if(arg_UNPARSED_ARGUMENTS)
        message(FATAL_ERROR "ddprove_add_guest: unknown argument: ${arg_UNPARSED_ARGUMENTS}")
    endif()
    foreach(needed IN ITEMS NAME COMMAND SCENARIOS)
        if(NOT arg_${needed})
            message(FATAL_ERROR "ddprove_add_guest: ${needed} is missing")
        endif()
    endforeach()
    if(NOT arg_TIMEOUT)
        set(arg_TIMEOUT 120)
    endif()
    set(arg_DRIVERS proc)
    list(PREPEND arg_LABELS guest "${arg_NAME}")
    if(arg_RANKS)
        list(APPEND arg_ARGS --ranks ${arg_RANKS})
    endif()
    if(arg_LAUNCHER)
        list(APPEND arg_ARGS --set job.guest.launcher=${arg_LAUNCHER})
    endif()
    if(arg_ADAPTER)
        list(APPEND arg_ARGS --adapter ${arg_ADAPTER})
    endif()
    ddprove_tests_of("${arg_SCENARIOS}" "${arg_NAME}" "${arg_COMMAND}")
endfunction()

# The tests of a folder, with the caller's arg_ variables. A macro: the tests are of the caller's folder.
macro(ddprove_tests_of folder guest command)
    set(dir "${folder}")
    set(guest "${guest}")
    set(command "${command}")
    get_filename_component(dir "${dir}" ABSOLUTE)
    file(GLOB_RECURSE files CONFIGURE_DEPENDS "${dir}/*.yaml")
    if(NOT files)
        message(FATAL_ERROR "${CMAKE_CURRENT_FUNCTION}: ${dir} holds no *.yaml")
    endif()

    string(MD5 name "${dir} ${guest}")
    string(SUBSTRING "${name}" 0 8 name)
    set(tests "${CMAKE_CURRENT_BINARY_DIR}/ddprove_tests_${name}.cmake")
    set(settings "")
    set(arg_COMMAND "${command}")
    foreach(list IN ITEMS DRIVERS LABELS RESOURCES ARGS COMMAND)
        string(REPLACE ";" "|" text "${arg_${list}}")
        list(APPEND settings "-D${list}=${text}")
    endforeach()
    list(APPEND settings "-DGUEST=${guest}")
    add_custom_command(OUTPUT "${tests}"
        COMMAND "${CMAKE_COMMAND}" "-DDDPROVE=$<TARGET_FILE:ddprove::ddprove>" "-DDIR=${dir}"
            "-DOUT=${tests}" "-DRUNS=${CMAKE_CURRENT_BINARY_DIR}/runs" "-DTIMEOUT=${arg_TIMEOUT}"
            ${settings} -P "${ddprove_write_tests}"
        DEPENDS ddprove::ddprove ${files} "${ddprove_write_tests}" VERBATIM
        COMMENT "Tests of ${dir}")
    add_custom_target(ddprove_tests_${name} ALL DEPENDS "${tests}")
    # Before the first build there is only one test, which fails and says so.
    set(include "${CMAKE_CURRENT_BINARY_DIR}/ddprove_include_${name}.cmake")
    file(WRITE "${include}" "if(EXISTS [=[${tests}]=])\n    include([=[${tests}]=])\nelse()\n"
        "    add_test([=[${dir}: build first]=] [=[${CMAKE_COMMAND}]=] -E false)\nendif()\n")
    set_property(DIRECTORY APPEND PROPERTY TEST_INCLUDE_FILES "${include}")
endmacro()
