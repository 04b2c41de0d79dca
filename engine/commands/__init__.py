"""Commands of a store.

For each command there is a function that checks its arguments and returns the command, and a function that
decides it: reads states from its work, applies the domain's rules, and lets events happen.
"""
