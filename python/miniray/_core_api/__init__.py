"""Runtime functions below tasks and actors: starting and ending, options, ids, errors, and the state of the cluster."""
