"""What you run; see the shell scripts beside the modules."""
