"""Reading cards: a small model learns to say how good a described tool is for a problem."""
