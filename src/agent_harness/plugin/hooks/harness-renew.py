from harness_start import script  # pyrefly: ignore[missing-import]  # it lies beside this file

script("renew")
