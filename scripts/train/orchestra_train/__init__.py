"""Offline trainer of Orchestra."""
