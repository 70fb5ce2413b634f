"""The values that the parts of the operator exchange: plain data, no I/O, no clock."""
