"""Networks, the agents built of them, and acting on NumPy batches."""
