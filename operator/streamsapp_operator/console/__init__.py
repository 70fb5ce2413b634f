"""The console of the cluster: a page of all applications, served by the operator.

A viewer shows a token, and everything is read and done with that: the operator's own login has no part in it.
"""
