"""Communication: packed unrolls, calls of Reverb, tables, shared memory."""
