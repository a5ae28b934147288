ddprove_add_unit(NAME world
    SOURCES world/test_world.c world/test_survivors.c world/test_subgroup.c world/test_advice.c
    world/world_ranks.c
    LIBS ddp_world ddp_hook)
