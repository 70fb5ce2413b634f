"""What the parts of the operator say to each other: plain values, no I/O, no clock."""
