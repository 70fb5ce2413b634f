"""Who runs which task: pure decisions of the group's leader, from what the members told about themselves."""
