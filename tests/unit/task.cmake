ddprove_add_unit(NAME task
    SOURCES task/test_fiber.c task/test_task.c
    LIBS harness_task)
