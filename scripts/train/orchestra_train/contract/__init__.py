"""Twins of the gateway's contract: the same bytes from the same inputs, held by the golden vectors."""
