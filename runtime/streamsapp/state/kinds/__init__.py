"""The kinds of stores: what operators and processors call, and how each kind keeps its entries."""
