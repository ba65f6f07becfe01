"""Is a claim true? The agent's claims, the judge's ruling, and what the harness itself has proven."""
