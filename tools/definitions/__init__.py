"""Makes all that repeats a definition: of a setting, of a field of the StreamsApp, of an operation of the DSL."""
