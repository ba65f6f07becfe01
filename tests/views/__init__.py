"""What a person is shown."""
