ddprove_add_unit(NAME task
    SOURCES task/test_fiber.c
    LIBS harness_task)
