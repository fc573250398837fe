"""Function-call tasks in ten domains: tools that work on a small database, three checks, and a policy that learns."""
