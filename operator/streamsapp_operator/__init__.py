"""The Kubernetes operator of streamsapp: observe → plan (pure) → apply, for every ``StreamsApp``."""
