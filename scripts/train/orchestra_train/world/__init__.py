"""The simulated world: fresh tools, prices and wishes every episode, with a known best policy."""
