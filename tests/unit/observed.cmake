ddprove_add_unit(NAME observed SOURCES watch/fake_rank.c observed/fake_report.c observed/test_against.c
        observed/test_ledger.c observed/test_learned.c observed/test_model.c observed/test_optimizer.c observed/test_reports.c
        observed/test_usage.c
    LIBS harness_observed harness_results harness_guest)
