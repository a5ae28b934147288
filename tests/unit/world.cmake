ddprove_add_unit(NAME world
    SOURCES world/test_world.c world/test_survivors.c
    LIBS ddp_world ddp_hook)
