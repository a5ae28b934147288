ddprove_add_unit(NAME campaign
    SOURCES campaign/test_grammar.c campaign/test_drawn.c campaign/test_campaign.c
    LIBS harness_campaign harness_grammar harness_scenario)
