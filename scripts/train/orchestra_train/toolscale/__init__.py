"""Function-call tasks in ten domains: executable tools over a small database, golden calls, three checks."""
