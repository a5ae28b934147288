# The files that `ddprove new` writes, as C: template.h says what for.
set(template_source "${CMAKE_CURRENT_BINARY_DIR}/template.c")
set(template_arrays "")
set(template_rows "")
set(template_number 0)
foreach(row IN ITEMS
        "CMakeLists.txt|${CMAKE_CURRENT_SOURCE_DIR}/template/CMakeLists.txt"
        "trainer.c|${PROJECT_SOURCE_DIR}/harness/guest/example/trainer.c"
        "star.c|${PROJECT_SOURCE_DIR}/harness/guest/example/star.c"
        "star.h|${PROJECT_SOURCE_DIR}/harness/guest/example/star.h"
        "faults/healthy.yaml|${CMAKE_CURRENT_SOURCE_DIR}/template/healthy.yaml"
        "faults/killed.yaml|${CMAKE_CURRENT_SOURCE_DIR}/template/killed.yaml"
        "faults/lost.yaml|${CMAKE_CURRENT_SOURCE_DIR}/template/lost.yaml"
        "faults/skipped.yaml|${CMAKE_CURRENT_SOURCE_DIR}/template/skipped.yaml")
    string(REPLACE "|" ";" row "${row}")
    list(GET row 0 template_path)
    list(GET row 1 template_file)
    set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS "${template_file}")
    file(READ "${template_file}" template_bytes HEX)
    string(REGEX REPLACE "(..)" "0x\\1," template_bytes "${template_bytes}")
    string(APPEND template_arrays "static const unsigned char file${template_number}[] = {${template_bytes}};\n")
    string(APPEND template_rows
        "    {\"${template_path}\", file${template_number}, sizeof file${template_number}},\n")
    math(EXPR template_number "${template_number} + 1")
endforeach()
file(CONFIGURE OUTPUT "${template_source}" CONTENT
    "#include \"harness/cli/template.h\"\n${template_arrays}\nconst struct cli_template cli_guest_templates[] = {\n${template_rows}    {NULL, NULL, 0}};\n"
    @ONLY)
