from harness_start import hook  # pyrefly: ignore[missing-import]  # it lies beside this file

hook("session-start")
