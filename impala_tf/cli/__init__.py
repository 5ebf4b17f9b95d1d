"""Programs that users run, one module for each verb, and shared parts."""
