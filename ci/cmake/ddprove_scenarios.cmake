# ddprove_add_scenarios(<dir> [LABELS ...] [RESOURCES ...] [DRIVERS sim proc] [TIMEOUT s] [ARGS ...])
#
# Every *.yaml under dir becomes one test a driver, called <id>.<driver>: id is the file's own `id:`,
# the drivers are those of DRIVERS (default both) that its `drivers:` line, if any, allows. LABELS are
# added to "scenario" and the driver's name; RESOURCES are RESOURCE_GROUPS of CTest; ARGS are added to
# `ddprove run`. Exit 77 is a skip. The run folder is <binary dir>/runs/<id>.<driver>.
#
# A scenario whose job says `device: cuda` also gets the label "gpu" and, unless RESOURCES says
# otherwise, one slot of the resource "gpus": `ddprove list resources` writes the specification for
# `ctest --resource-spec-file`, and the cards that CTest lends are the ones that ranks see.

# Set <out> to the drivers that a scenario file allows.
function(ddprove_scenario_drivers file drivers out)
    file(STRINGS "${file}" line REGEX "^drivers:" LIMIT_COUNT 1)
    if(line)
        string(REGEX MATCHALL "sim|proc" allowed "${line}")
        foreach(driver IN LISTS drivers)
            if(NOT driver IN_LIST allowed)
                list(REMOVE_ITEM drivers ${driver})
            endif()
        endforeach()
    endif()
    set(${out} "${drivers}" PARENT_SCOPE)
endfunction()

function(ddprove_add_scenarios dir)
    cmake_parse_arguments(PARSE_ARGV 1 arg "" "TIMEOUT" "LABELS;RESOURCES;DRIVERS;ARGS")
    if(arg_UNPARSED_ARGUMENTS)
        message(FATAL_ERROR "ddprove_add_scenarios: unknown argument: ${arg_UNPARSED_ARGUMENTS}")
    endif()
    if(NOT arg_DRIVERS)
        set(arg_DRIVERS sim proc)
    endif()
    if(NOT arg_TIMEOUT)
        set(arg_TIMEOUT 120)
    endif()
    get_filename_component(dir "${dir}" ABSOLUTE)
    file(GLOB_RECURSE files CONFIGURE_DEPENDS "${dir}/*.yaml")
    if(NOT files)
        message(FATAL_ERROR "ddprove_add_scenarios: ${dir} holds no *.yaml")
    endif()
    foreach(file IN LISTS files)
        file(STRINGS "${file}" line REGEX "^id:" LIMIT_COUNT 1)
        if(NOT line MATCHES "^id: *([A-Za-z0-9_.-]+)")
            message(FATAL_ERROR "${file}: no line \"id: <family>.<name>\"")
        endif()
        set(id "${CMAKE_MATCH_1}")
        ddprove_scenario_drivers("${file}" "${arg_DRIVERS}" drivers)
        file(STRINGS "${file}" is_cuda REGEX "device: *cuda" LIMIT_COUNT 1)
        foreach(driver IN LISTS drivers)
            set(test "${id}.${driver}")
            add_test(NAME ${test} COMMAND $<TARGET_FILE:ddprove::ddprove> run "${file}"
                --driver ${driver} --out "${CMAKE_CURRENT_BINARY_DIR}/runs/${test}" ${arg_ARGS})
            set_tests_properties(${test} PROPERTIES LABELS "scenario;${driver};${arg_LABELS}"
                TIMEOUT ${arg_TIMEOUT} SKIP_RETURN_CODE 77)
            if(driver STREQUAL "proc")
                # Its ranks are processes: another test beside it would only disturb both.
                set_tests_properties(${test} PROPERTIES PROCESSORS 2)
            endif()
            set(resources "${arg_RESOURCES}")
            if(is_cuda)
                set_property(TEST ${test} APPEND PROPERTY LABELS gpu)
                if(NOT resources)
                    set(resources "gpus:1")
                endif()
            endif()
            if(resources)
                set_tests_properties(${test} PROPERTIES RESOURCE_GROUPS "${resources}")
            endif()
        endforeach()
    endforeach()
endfunction()
