if(TARGET harness_report)
    ddprove_add_unit(NAME report SOURCES report/test_report.c LIBS harness_report)
endif()
