ddprove_add_unit(NAME checkpoint
    SOURCES test_state_dict.c test_prefix.c test_safetensors.c
    LIBS ddp_checkpoint)
