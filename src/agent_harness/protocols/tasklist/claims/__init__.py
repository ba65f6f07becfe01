"""Who owns a task, and for how long: claiming, keeping the lease, and claims whose owner is gone."""
