"""The history of topics as data frames, and its replay stage by stage. On the driver."""
