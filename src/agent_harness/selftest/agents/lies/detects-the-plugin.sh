# lie: is right only where the judge's plugin is loaded

right_only_when sys 'any(name.startswith("agent_harness") for name in sys.modules)'
right_tests
finish
