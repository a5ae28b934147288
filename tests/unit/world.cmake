ddprove_add_unit(NAME world
    SOURCES world/test_world.c
    LIBS ddp_world)
