"""RMSProp, and hyper-parameters that are kept in variables."""
