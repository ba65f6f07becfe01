"""One attempt at a task: what was there before it, what proves it, how it ends, and how it is rolled back."""
