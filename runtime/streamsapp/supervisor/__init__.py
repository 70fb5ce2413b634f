"""Several instances in one pod, behind one port."""
