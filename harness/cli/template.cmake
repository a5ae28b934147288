# The files that `ddprove new` and `ddprove coll new` write, as C: template.h says what for.
set(template_source "${CMAKE_CURRENT_BINARY_DIR}/template.c")
set(template_text "#include \"harness/cli/template.h\"\n")

# An array of files NAME from rows "PATH|FILE".
function(ddprove_add_templates name)
    set(arrays "")
    set(rows "")
    set(number 0)
    foreach(row IN LISTS ARGN)
        string(REPLACE "|" ";" row "${row}")
        list(GET row 0 path)
        list(GET row 1 file)
        set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS "${file}")
        file(READ "${file}" bytes HEX)
        string(REGEX REPLACE "(..)" "0x\\1," bytes "${bytes}")
        string(APPEND arrays "static const unsigned char ${name}${number}[] = {${bytes}};\n")
        string(APPEND rows "    {\"${path}\", ${name}${number}, sizeof ${name}${number}},\n")
        math(EXPR number "${number} + 1")
    endforeach()
    set(template_text
        "${template_text}${arrays}\nconst struct cli_template ${name}[] = {\n${rows}    {NULL, NULL, 0}};\n"
        PARENT_SCOPE)
endfunction()

ddprove_add_templates(cli_guest_templates
    "CMakeLists.txt|${CMAKE_CURRENT_SOURCE_DIR}/template/CMakeLists.txt"
    "trainer.c|${PROJECT_SOURCE_DIR}/harness/guest/example/trainer.c"
    "star.c|${PROJECT_SOURCE_DIR}/harness/guest/example/star.c"
    "star.h|${PROJECT_SOURCE_DIR}/harness/guest/example/star.h"
    "faults/healthy.yaml|${CMAKE_CURRENT_SOURCE_DIR}/template/healthy.yaml"
    "faults/killed.yaml|${CMAKE_CURRENT_SOURCE_DIR}/template/killed.yaml"
    "faults/lost.yaml|${CMAKE_CURRENT_SOURCE_DIR}/template/lost.yaml"
    "faults/skipped.yaml|${CMAKE_CURRENT_SOURCE_DIR}/template/skipped.yaml")
ddprove_add_templates(cli_scenario_templates "scenario.yaml|${CMAKE_CURRENT_SOURCE_DIR}/template/scenario.yaml")
ddprove_add_templates(cli_coll_opaque_templates
    "algorithm.c|${PROJECT_SOURCE_DIR}/harness/plugin/template/opaque.c.in"
    "ddprove_coll.h|${PROJECT_SOURCE_DIR}/harness/plugin/ddprove_coll.h")
ddprove_add_templates(cli_coll_templates
    "algorithm.c|${PROJECT_SOURCE_DIR}/harness/plugin/template/algorithm.c.in"
    "ddprove_coll.h|${PROJECT_SOURCE_DIR}/harness/plugin/ddprove_coll.h")
file(CONFIGURE OUTPUT "${template_source}" CONTENT "${template_text}" @ONLY)
