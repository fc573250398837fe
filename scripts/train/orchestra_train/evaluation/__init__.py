"""What a policy is worth through the served gateway, beside what needs no gateway."""
