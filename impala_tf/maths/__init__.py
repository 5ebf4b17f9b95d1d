"""Pure functions of tensors, without variables, config, logging or I/O."""
