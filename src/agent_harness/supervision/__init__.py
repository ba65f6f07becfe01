"""One agent run under watch: a turn is started, listened to, steered or stopped, and reported as an ``Outcome``."""
